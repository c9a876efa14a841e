"""Moments, probabilities and quantiles of one value of Laplace noise, discrete or continuous, in floating point.

This is for estimation, planning and tests. No float of this module reaches the sampler.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcube.core.errors import InputError


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
