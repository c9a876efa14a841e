"""One noise value, and the mass and tail of sums of discrete ones, as functions of arrays (spec 1 and 4.10)."""

import numpy as np
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.noise.law import (
    NoiseLaw,
    discrete_log_tail,
    discrete_mean_abs,
    discrete_variance,
    is_discrete,
    numbers,
    plain,
    positive,
    whole_numbers,
)


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
