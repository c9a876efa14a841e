"""Answers: a number and how far to trust it. The one place where a standard error becomes an interval."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcube.errors import QueryError
from dpcube.estimate import EqualNoises, Errors
from dpcube.theory import dl_sum_quantile, noise_variance

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of a workload, as arrays; the fields mean what they mean in `Answer`.

    `noises` tells of which answers the law of the error is known exactly, and what it is.
    """

    values: Floats
    stderrs: Floats
    withins: Floats
    noises: EqualNoises | None = None

    @classmethod
    def of(cls, values: Floats, errors: Errors) -> "Answers":
        """Return estimated values with what their errors are made of."""
        return cls(values, np.sqrt(errors.variances), np.sqrt(errors.withins), errors.noises)

    def __len__(self) -> int:
        return len(self.values)

    def first(self, confidence: float) -> Answer:
        """Return the first answer by itself, with its interval."""
        low, high = self.interval(confidence)
        value, stderr, within = (float(part[0]) for part in (self.values, self.stderrs, self.withins))
        return Answer(value, stderr, within, float(low[0]), float(high[0]), confidence)

    def beside(self, others: "Answers", *, where: NDArray[np.bool_]) -> "Answers":
        """Return two kinds of answers of one estimate in one order: these `where` it is true, the others elsewhere."""

        def laid_out(these: NDArray[Any], those: NDArray[Any]) -> NDArray[Any]:
            together = np.empty(len(where), these.dtype)
            together[where], together[~where] = these, those
            return together

        noises = None
        if self.noises is not None and others.noises is not None:
            noises = EqualNoises(self.noises.alpha, laid_out(self.noises.numbers, others.noises.numbers))
        values, stderrs = laid_out(self.values, others.values), laid_out(self.stderrs, others.stderrs)
        return Answers(values, stderrs, laid_out(self.withins, others.withins), noises)

    def reach(self, confidence: float = 0.95) -> Floats:
        """Return how far each answer is off at most, with this confidence for each by itself.

        Where the law of an error is known this is its exact quantile; elsewhere a bound, so many standard errors.
        """
        reach: Floats = deviations_for(confidence) * np.hypot(self.stderrs, self.withins)
        if self.noises is not None:
            known = (self.noises.numbers > 0) & (self.withins == 0)
            numbers, at = np.unique(self.noises.numbers[known], return_inverse=True)
            alpha = self.noises.alpha
            quantiles = dl_sum_quantile(confidence, numbers, alpha=alpha)
            deviations = np.sqrt(numbers * noise_variance(alpha, noise="discrete"))
            reach[known] = self.stderrs[known] * (quantiles / deviations)[at]
        return reach

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Return the low and high ends of an interval for each true count.

        No count is below zero, and no noise rules out a single row. Each interval holds with the confidence by itself;
        with `simultaneous`, all of them hold at once with it. That is the union bound (Bonferroni): n intervals each
        miss with 1/n of the chance, so it needs no word on how their errors hang together. For noise alone it is a
        guarantee, since the tail taken is never below the true one; for the error within boxes and a posterior's it is
        as good as the standard errors that the release states.
        """
        alone = confidence
        if simultaneous and 0 < confidence < 1:
            alone = 1 - (1 - confidence) / max(len(self), 1)
        reach, least = self.reach(alone), np.where(np.hypot(self.stderrs, self.withins) > 0, 1.0, 0.0)
        return np.maximum(self.values - reach, 0.0), np.maximum(self.values + reach, least)


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
