"""Laplace noise in floating point: moments, probabilities and quantiles of one value and of sums of values.

This is for estimation, planning and tests. No float of this module reaches the sampler. Arguments are validated as
float arrays. Every function broadcasts as NumPy does, and returns a NumPy scalar for scalar arguments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike, NDArray

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.noise.contour import lattice_quantile, lattice_scales, log_tail, tail_point


def discrete_variance(epsilon: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    """Return the variance 1/(2 sinh^2(epsilon/2)) of noise P(z) proportional to exp(-epsilon|z|); infinite at 0."""
    with np.errstate(divide="ignore"):
        variance: NDArray[np.float64] = 0.5 / np.sinh(epsilon / 2) ** 2
    return variance


def discrete_mean_abs(epsilon: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    """Return the expected size E|Z| = 1/sinh(epsilon) of noise P(z) proportional to exp(-epsilon|z|)."""
    # sinh overflows beyond 710, where the noise is 0 for every purpose.
    mean: NDArray[np.float64] = 1 / np.sinh(np.minimum(epsilon, 700.0))
    return mean


def discrete_sf(k: NDArray[np.float64], epsilon: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return P(Z > k), for whole k, of noise P(z) proportional to exp(-epsilon|z|)."""
    # By symmetry P(Z >= j) = 1 - P(Z >= 1 - j), so that only j >= 1 are computed.
    least = np.where(k >= 0, k + 1, -k)
    tail = np.asarray(np.exp(-epsilon * least) / (1 + np.exp(-epsilon)))
    return np.where(k >= 0, tail, 1 - tail)


def noise_variances(units: NDArray[np.int64], epsilon_per_unit: Fraction) -> NDArray[np.float64]:
    """Return the noise variance of counts measured with the given budget units, infinite where there were none."""
    return discrete_variance(np.asarray(units * float(epsilon_per_unit), np.float64))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """The two-sided geometric law P(z) = tanh(epsilon/2) exp(-epsilon|z|) over the integers.

    Bias: none, E Z = 0 and the law is symmetric, so a noisy count is an unbiased estimate of its count.
    Variance: 1/(2 sinh^2(epsilon/2)), below the 2/epsilon^2 of the continuous law at the same epsilon.

    >>> round(DiscreteLaplace(Fraction(1, 5)).variance, 4)
    49.8337
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction) or self.epsilon <= 0:
            message = f"noise needs an epsilon that is a rational above 0, got {self.epsilon!r}"
            raise InputError(message)

    @property
    def ratio(self) -> float:
        """exp(-epsilon), the ratio of the probabilities of successive values."""
        return math.exp(-float(self.epsilon))

    @property
    def variance(self) -> float:
        """E Z^2 = 1/(2 sinh^2(epsilon/2))."""
        return float(discrete_variance(np.float64(self.epsilon)))

    @property
    def mean_abs(self) -> float:
        """E|Z| = 1/sinh(epsilon)."""
        return float(discrete_mean_abs(np.float64(self.epsilon)))

    def pmf(self, z: ArrayLike) -> NDArray[np.float64]:
        """Return P(Z = z), and 0 where z is not an integer."""
        at = np.asarray(z, dtype=np.float64)
        mass = math.tanh(float(self.epsilon) / 2) * np.exp(-float(self.epsilon) * np.abs(at))
        return np.where(at == np.floor(at), mass, 0.0)

    def sf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return P(Z > t) for any real t."""
        return discrete_sf(np.floor(np.asarray(t, dtype=np.float64)), float(self.epsilon))

    def cdf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return P(Z <= t) for any real t."""
        return self.sf(-np.floor(np.asarray(t, dtype=np.float64)) - 1)

    def central_interval(self, confidence: float) -> tuple[int, int]:
        """Return the narrowest [-h, h] with P(|Z| <= h) at least `confidence`.

        >>> DiscreteLaplace(Fraction(1, 10)).central_interval(0.95)
        (-30, 30)
        """
        if not 0 <= confidence < 1:
            message = f"confidence {confidence} is not in [0, 1); write 0.95 for 95%"
            raise InputError(message)
        # P(|Z| > h) = 2 q^(h+1) / (1 + q) <= 1 - confidence, solved for h.
        exponent = math.log(2 / (1 + self.ratio) / (1 - confidence)) / float(self.epsilon)
        half = max(0, math.ceil(exponent) - 1)
        return -half, half


NoiseLaw = Literal["laplace", "discrete"]


def numbers(name: str, value: ArrayLike) -> Floats:
    """Return finite numbers as floats."""
    return checked(name, value, np.isfinite, "a finite number")


def positive(name: str, value: ArrayLike) -> Floats:
    """Return numbers above zero as floats."""
    return checked(name, value, lambda v: np.isfinite(v) & (v > 0), "a number above 0")


def whole_numbers(name: str, value: ArrayLike, *, least: int = 1) -> Floats:
    """Return whole numbers of at least `least` as floats."""
    return checked(
        name, value, lambda v: np.isfinite(v) & (v >= least) & (v == np.floor(v)), f"a whole number, {least} or more"
    )


def fraction(name: str, value: ArrayLike) -> Floats:
    """Return numbers strictly between zero and one as floats."""
    return checked(name, value, lambda v: (v > 0) & (v < 1), "a number between 0 and 1")


def is_discrete(noise: str) -> bool:
    """Return whether the name of a noise law is that of the discrete one."""
    if noise not in ("laplace", "discrete"):
        message = f"noise is {noise!r}; it must be 'laplace' or 'discrete'"
        raise InputError(message)
    return noise == "discrete"


def plain(values: ArrayLike) -> Floats:
    """Return an array unchanged, and an array without axes as a NumPy scalar."""
    return np.asarray(values, dtype=np.float64)[()]


def each(function: Callable[..., float], *arguments: ArrayLike) -> Floats:
    """Return the values of a scalar function over broadcast arguments."""
    return plain(np.vectorize(function, otypes=[np.float64])(*arguments))


def checked(name: str, value: ArrayLike, holds: Callable[[Floats], NDArray[np.bool_]], wanted: str) -> Floats:
    """Return an argument as floats if the condition holds for all of them, or raise InputError."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        message = f"{name} is {value!r}; it must be {wanted}"
        raise InputError(message) from None
    good = holds(array)
    if not np.all(good):
        message = f"{name} is {array[~good].flat[0]:g}; it must be {wanted}"
        raise InputError(message)
    return array


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
