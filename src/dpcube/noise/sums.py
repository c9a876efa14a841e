"""Distribution of sums of n independent discrete Laplace variables: quantiles and moments (spec 4.10)."""

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.noise.arguments import fraction, numbers, plain, positive, whole_numbers
from dpcube.noise.contour import lattice_quantile, lattice_scales, log_tail, tail_point

CURVE_NODES = 48


def dl_sum_quantile(confidence: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return the smallest whole h with P(|S| <= h) at least `confidence`, for the sum S of n discrete Laplace noises.

    One takes 1 ms. Thousands of n with one confidence and alpha take 20 ms: see `_along_a_curve`.

    >>> print(dl_sum_quantile(0.95, [1, 10, 10_000], alpha=0.1))
    [  30.   89. 2771.]
    """
    sure, count, a = fraction("confidence", confidence), whole_numbers("n", n), positive("alpha", alpha)
    if sure.size == a.size == 1 and count.size > CURVE_NODES:
        return plain(_along_a_curve(sure.reshape(()), count, lattice_scales(a).reshape(1)))
    return plain(lattice_quantile(sure, lattice_scales(a)[..., None], count[..., None]))


def _along_a_curve(sure: Floats, n: Floats, scale: Floats) -> Floats:
    """Return quantiles of many sums by Chebyshev interpolation: before rounding they are a smooth function of log n.

    A polynomial through `CURVE_NODES` points has a relative error below 7e-9 wherever the variance of the sum is at
    least 1 (measured for alpha from .001 to 10, confidences from .5 to 1 - 1e-8 and n up to 10^8). Where that leaves
    the rounding in doubt, and where the variance is smaller, each quantile is computed separately.
    """
    narrow = 2 * n * scale**2 < 1
    if narrow.all():
        return lattice_quantile(sure, scale, n[..., None])
    low, high = np.log(n[~narrow].min()), np.log(n.max())

    def deviations(log_n: Floats) -> Floats:
        counts = np.exp(log_n)
        return np.asarray(tail_point((1 - sure) / 2, scale, counts[:, None], lattice=True) / np.sqrt(counts))

    curve = Chebyshev.interpolate(deviations, CURVE_NODES - 1, domain=[low, max(high, low + 1)])
    points = np.sqrt(n) * np.asarray(curve(np.log(n)), np.float64)
    quantiles: Floats = np.ceil(points - 0.5)
    doubtful = narrow | (np.abs(points - 0.5 - np.rint(points - 0.5)) < 3e-8 * points)
    quantiles[doubtful] = lattice_quantile(sure, scale, n[doubtful][:, None])
    return quantiles


def dl_sum_mean_abs(n: ArrayLike, alpha: ArrayLike) -> Floats:
    """Return E|S| for the sum S of n discrete Laplace noises.

    >>> print(f"{dl_sum_mean_abs(11, 0.05):.4f}")
    73.9940
    """
    return dl_sum_mean_abs_shift(0.0, n, alpha=alpha)


def dl_sum_mean_abs_shift(w: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return E|w + S| for the sum S of n discrete Laplace noises: linear in w between whole numbers.

    >>> print(f"{dl_sum_mean_abs_shift(2.5, 1, alpha=1.0):.5f}")
    2.57876
    """
    at, count, a = np.broadcast_arrays(np.abs(numbers("w", w)), whole_numbers("n", n), positive("alpha", alpha))
    low = np.floor(at)
    here, next_one = (2 * np.exp(discrete_log_tail(j, count, a, order=2)) + j for j in (low, low + 1))
    return plain(here + (at - low) * (next_one - here))


def discrete_log_tail(x: Floats, n: Floats, alpha: Floats, *, order: int) -> Floats:
    """Return the logarithm of the integral of `contour` for sums of n discrete Laplace noises."""
    log, _ = log_tail(x, lattice_scales(alpha)[..., None], n[..., None], order=order, lattice=True)
    return log
