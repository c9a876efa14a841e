"""Answers: a number and how far to trust it."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpcube.errors import QueryError
from dpcube.estimate import Estimated
from dpcube.theory import error_quantile

Floats = NDArray[np.float64]

MOST_NOISES = 10_000
"""Beyond so many equal noises their sum is normal to four digits, and its exact law tells nothing more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimated count, how far it may be off, and an interval for the true count.

    `stderr` is the standard error of the noise added for privacy; `within` is the size of error expected from
    spreading counts evenly inside boxes that the question cuts, as estimated from the release. The interval covers
    both, stays above zero as a true count does, and where there is noise never rules out a single row.
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
        """Return an estimated answer with its interval: by the exact law of its noise where that is all its error."""
        stderr, within = math.sqrt(estimated.noise_variance), math.sqrt(estimated.within_square)
        reach = deviations_for(confidence) * math.hypot(stderr, within)
        noises = estimated.noises
        if noises is not None and within == 0 and noises.number <= MOST_NOISES:
            scale, weight = noises.weight / noises.alpha, noises.weight
            reach = float(error_quantile([scale], [noises.number], confidence, noise="discrete", weights=[weight]))
        low, high = (float(end) for end in ends(np.array(estimated.value), np.array(reach)))
        return cls(estimated.value, stderr, within, low, high, confidence)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of a workload, as arrays; the fields mean what they mean in `Answer`."""

    values: Floats
    stderrs: Floats
    withins: Floats

    def __len__(self) -> int:
        return len(self.values)

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Return the low and high ends of an interval for each true count.

        Each holds with the confidence by itself; with `simultaneous`, all of them hold at once with it. That is the
        union bound (Bonferroni): n intervals each miss with 1/n of the chance, so it needs no word on how their errors
        hang together. For noise alone it is a guarantee, since the tail taken is never below the true one; for the
        error within boxes and a posterior's it is as good as the standard errors that the release states.
        """
        alone = confidence
        if simultaneous and 0 < confidence < 1:
            alone = 1 - (1 - confidence) / max(len(self), 1)
        return ends(self.values, deviations_for(alone) * np.hypot(self.stderrs, self.withins))


def ends(values: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return the ends of intervals: no count is below zero, and no noise rules out a single row."""
    return np.maximum(values - reach, 0.0), np.maximum(values + reach, np.where(reach > 0, 1.0, 0.0))


def deviations_for(confidence: float) -> float:
    """Return how many standard errors cover the error with this confidence.

    A sum of independent Laplace-like noises lies between one Laplace (few counts) and a normal (many); the larger
    of the two quantiles is taken, so the interval is a little wide rather than a little narrow.
    """
    if not 0 < confidence < 1:
        msg = f"confidence must be between 0 and 1, got {confidence!r}"
        raise QueryError(msg)
    missed = 1 - confidence
    return max(-NormalDist().inv_cdf(missed / 2), -math.log(missed) / math.sqrt(2))
