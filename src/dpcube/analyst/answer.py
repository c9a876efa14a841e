"""Answers: a number and how far to trust it."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpcube.errors import QueryError
from dpcube.estimate import Estimated


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimated count, how far it may be off, and an interval for the true count.

    `stderr` is the standard error of the noise added for privacy; `within` is the size of error expected from
    spreading counts evenly inside boxes that the question cuts, as estimated from the release. The interval covers
    both, and stays above zero as a true count does.
    """

    value: float
    stderr: float
    within: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        interval = f"{self.confidence:.3g} interval {self.low:,.1f} to {self.high:,.1f}"
        return f"{self.value:,.1f} ({interval}; noise {self.stderr:,.1f}, within boxes {self.within:,.1f})"

    @classmethod
    def of(cls, estimated: Estimated, *, confidence: float) -> "Answer":
        """Return an estimated answer with its interval."""
        stderr, within = math.sqrt(estimated.noise_variance), math.sqrt(estimated.within_square)
        reach = error_quantile(confidence) * math.hypot(stderr, within)
        low, high = max(estimated.value - reach, 0.0), max(estimated.value + reach, 0.0)
        return cls(estimated.value, stderr, within, low, high, confidence)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of a workload, as arrays; the fields mean what they mean in `Answer`."""

    values: NDArray[np.float64]
    stderrs: NDArray[np.float64]
    withins: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def interval(self, confidence: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the low and high ends of an interval for each true count, one query at a time."""
        reach = error_quantile(confidence) * np.hypot(self.stderrs, self.withins)
        return np.maximum(self.values - reach, 0.0), np.maximum(self.values + reach, 0.0)


def error_quantile(confidence: float) -> float:
    """Return how many standard errors cover the error with this confidence.

    A sum of independent Laplace-like noises lies between one Laplace (few boxes) and a normal (many boxes); the larger
    of the two quantiles is taken, so the interval is a little wide rather than a little narrow.
    """
    if not 0 < confidence < 1:
        msg = f"confidence must be between 0 and 1, got {confidence!r}"
        raise QueryError(msg)
    laplace = -math.log1p(-confidence) / math.sqrt(2)
    return max(NormalDist().inv_cdf(0.5 + confidence / 2), laplace)
