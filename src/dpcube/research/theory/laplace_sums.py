"""Sums of n independent Lap(1/alpha): density, tail and expected absolute values (spec 4.1 and 4.2).

The paper's f_n (eq. fml-baliteral-gamma) is correct, but typed in as printed it overflows from n = 50 on. Here the same
law is integrated along a path on which nothing overflows or cancels (`dpcube.noise.contour`).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from dpcube.core.arrays import Floats
from dpcube.noise.contour import log_tail
from dpcube.noise.law import numbers, plain, positive, whole_numbers


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
