"""Laplace noise and sums of n independent Lap(1/alpha): density, tail, expected absolute values (spec 4.1 and 4.2).

The paper's f_n (eq. fml-baliteral-gamma) is correct, but typed in as printed it overflows from n = 50 on. Here the same
law is integrated along a path on which nothing overflows or cancels (`dpcube.noise.contour`).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.noise.contour import log_tail
from dpcube.noise.law import (
    NoiseLaw,
    checked,
    discrete_log_tail,
    discrete_mean_abs,
    discrete_variance,
    is_discrete,
    numbers,
    plain,
    positive,
    whole_numbers,
)


def not_negative(name: str, value: ArrayLike) -> Floats:
    """Return numbers of at least zero as floats."""
    return checked(name, value, lambda v: np.isfinite(v) & (v >= 0), "a number of at least 0")


def box_and_query(n_p: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats]:
    """Return the size of a box and of a query inside it."""
    n, size = np.broadcast_arrays(whole_numbers("n_p", n_p), whole_numbers("s", s))
    if np.any(size > n):
        first = np.argmax(size > n)
        message = f"s is {size.flat[first]:g} but the box has n_p = {n.flat[first]:g} cells; give s from 1 to n_p"
        raise InputError(message)
    return n, size


def lap_sum_logpdf(z: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return log f_n(z), the density of the sum of n Lap(1/alpha) (eq. fml-baliteral-gamma).

    >>> print(f"{np.exp(lap_sum_logpdf(10, 5, alpha=0.15)):.7f}")
    0.0175437
    """
    at, count, a = _arguments("z", z, n, alpha)
    single = np.log(a / 2) - a * np.abs(at)
    many = np.log(a) + _log_tail(a * np.abs(at), np.maximum(count, 2), order=0)
    return plain(np.where(count == 1, single, many))


def lap_sum_sf(t: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return P(S > t) for the sum S of n Lap(1/alpha).

    >>> print(f"{lap_sum_sf(5, 11, alpha=1.0):.6f}")
    0.138359
    """
    at, count, a = _arguments("t", t, n, alpha)
    above = np.exp(_log_tail(a * np.abs(at), count, order=1))
    return plain(np.where(at >= 0, above, 1 - above))


def lap_sum_mean_abs(n: ArrayLike, alpha: ArrayLike) -> Floats:
    """Return E|S| = 2 Gamma(n + 1/2) / (sqrt(pi) Gamma(n) alpha) for the sum S of n Lap(1/alpha).

    >>> print(f"{lap_sum_mean_abs(5, 0.2):.4f}")
    12.3047
    """
    count, a = whole_numbers("n", n), positive("alpha", alpha)
    return plain(2 * np.exp(gammaln(count + 0.5) - gammaln(count)) / (np.sqrt(np.pi) * a))


def lap_sum_mean_abs_shift(eta: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return E|eta + S| for the sum S of n Lap(1/alpha): the integral of f_n(z)|eta + z|.

    >>> print(f"{lap_sum_mean_abs_shift(5, 5, alpha=0.05):.4f}")
    49.3895
    """
    shift, count, a = _arguments("eta", eta, n, alpha)
    size = np.abs(shift)
    return plain(size + 2 * np.exp(_log_tail(a * size, count, order=2)) / a)


def _arguments(name: str, value: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> tuple[Floats, Floats, Floats]:
    at, count, a = np.broadcast_arrays(numbers(name, value), whole_numbers("n", n), positive("alpha", alpha))
    return at, count, a


def _log_tail(x: Floats, n: Floats, *, order: int) -> Floats:
    log, _ = log_tail(x, np.ones(1), n[..., None], order=order, lattice=False)
    return log


def noise_variance(alpha: ArrayLike, *, noise: NoiseLaw = "laplace") -> Floats:
    """Return v(alpha): 2/alpha^2, or 1/(2 sinh^2(alpha/2)) for discrete Laplace noise, which is less.

    >>> print(f"{noise_variance(0.05):.0f} {noise_variance(0.05, noise='discrete'):.3f}")
    800 799.833
    """
    a = positive("alpha", alpha)
    return plain(discrete_variance(a) if is_discrete(noise) else 2 / a**2)


def noise_mean_abs(alpha: ArrayLike, *, noise: NoiseLaw = "laplace") -> Floats:
    """Return E|N|: 1/alpha, or 1/sinh(alpha) for discrete Laplace noise.

    >>> print(f"{noise_mean_abs(0.2):.0f} {noise_mean_abs(0.2, noise='discrete'):.5f}")
    5 4.96682
    """
    a = positive("alpha", alpha)
    return plain(discrete_mean_abs(a) if is_discrete(noise) else 1 / a)


def noise_mean_abs_shift(w: ArrayLike, alpha: ArrayLike, *, noise: NoiseLaw = "laplace") -> Floats:
    """Return E|w + N|: |w| + exp(-alpha|w|)/alpha, and the piecewise linear form of spec 4.10 when discrete.

    >>> print(f"{noise_mean_abs_shift(2.5, 1.0):.5f} {noise_mean_abs_shift(2.5, 1.0, noise='discrete'):.5f}")
    2.58208 2.57876
    """
    at, a = np.broadcast_arrays(np.abs(numbers("w", w)), positive("alpha", alpha))
    if not is_discrete(noise):
        return plain(at + np.exp(-a * at) / a)
    # w + 2 (1-q)/(1+q) q^(k+1) [(k+1-w)/(1-q) + q/(1-q)^2], with k = floor(w)
    k, q, p = np.floor(at), np.exp(-a), -np.expm1(-a)
    return plain(at + 2 * np.exp(-a * (k + 1)) / (1 + q) * (k + 1 - at + q / p))


def dl_sum_logpmf(k: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return log P(S = k) for the sum S of n discrete Laplace noises, and -inf where k is not whole.

    >>> print(f"{np.exp(dl_sum_logpmf(7, 3, alpha=0.5)):.8f}")
    0.02384391
    """
    at, count, a = np.broadcast_arrays(np.abs(numbers("k", k)), whole_numbers("n", n), positive("alpha", alpha))
    single = np.log(np.tanh(a / 2)) - a * at
    many = discrete_log_tail(np.floor(at), np.maximum(count, 2), a, order=0)
    return plain(np.where(at == np.floor(at), np.where(count == 1, single, many), -np.inf))


def dl_sum_sf(t: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return P(S > t) for the sum S of n discrete Laplace noises and any real t.

    >>> print(f"{dl_sum_sf(0, 1, alpha=1.0):.6f}")
    0.268941
    """
    at, count, a = np.broadcast_arrays(numbers("t", t), whole_numbers("n", n), positive("alpha", alpha))
    least = np.floor(at) + 1
    # By symmetry P(S >= j) = 1 - P(S >= 1 - j), so that only j >= 1 are computed.
    above = np.exp(discrete_log_tail(np.where(least > 0, least, 1 - least) - 0.5, count, a, order=1))
    return plain(np.where(least > 0, above, 1 - above))
