"""Answers with confidence intervals. The one place where a standard error becomes an interval."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.models.errors.parts import EqualNoises, ErrorParts
from dpcube.queries import CountingQueries
from dpcube.queries.counting import cut_queries, slopes_where_even, squared_where_even

if TYPE_CHECKING:
    from dpcube.models import Estimate

MODELLED = "by the model"
"""How an answer is marked, wherever printed, that is a model's and not that of counts (docs/guides/wide-tables.md)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimated count, how far it may be off, and an interval for the true count.

    `stderr` is the standard error of the noise added for privacy; `nonuniformity` is the size of error expected from
    spreading counts evenly inside boxes that the question cuts, as estimated from the release. The interval covers
    both, stays above zero as a true count does, and where there is noise never rules out a single row. `cut` says which
    bins the question cuts, if any: the interval then reaches from none of their rows to all of them, since nothing is
    known of where they lie inside. `modelled` says that its attributes were not all counted together, so that the value
    is a model's (docs/guides/wide-tables.md). An error that is not known is NaN, and so are the ends of its interval.
    """

    value: float
    stderr: float
    nonuniformity: float
    low: float
    high: float
    confidence: float
    cut: str = ""
    modelled: bool = False

    def __str__(self) -> str:
        interval = f"{self.confidence:.3g} interval {self.interval}"
        cut = f"; {self.cut}" if self.cut else ""
        other = MODELLED if self.modelled else "nonuniformity"
        return f"{self.value:,.1f} ({interval}; noise {said(self.stderr)}, {other} {said(self.nonuniformity)}{cut})"

    def _repr_html_(self) -> str:
        from dpcube.release.notebook import answer_html

        return answer_html(self)

    @property
    def note(self) -> str:
        """What a table prints beside the numbers: which bins the question cuts, and whether a model answered it."""
        return noted(self.cut, modelled=self.modelled)

    @property
    def interval(self) -> str:
        """The interval in words."""
        return "unknown" if math.isnan(self.low + self.high) else f"{self.low:,.1f} to {self.high:,.1f}"


def said(error: float) -> str:
    """Return an error as it is printed.

    >>> said(1234.56), said(math.nan)
    ('1,234.6', 'unknown')
    """
    return "unknown" if math.isnan(error) else f"{error:,.1f}"


def noted(cut: str, *, modelled: bool) -> str:
    """Return the note of an answer.

    >>> noted("cuts the bin 5-9 of age", modelled=True)
    'by the model; cuts the bin 5-9 of age'
    """
    return "; ".join(filter(None, (MODELLED if modelled else "", cut)))


@dataclass(frozen=True, slots=True, eq=False)
class CutAnswers:
    """Which answers cut bins, by their places; what the least and the most that each can mean is answered; in words."""

    at: NDArray[np.int64]
    least: "Answers"
    most: "Answers"
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of a workload, as arrays; the fields mean what they mean in `Answer`.

    `noises` states the law of the error of those answers for which it is exactly known; `modelled` which are those of
    a model, None if none is. `signed` says that true values may be below zero: these are sums or averages, not counts.
    """

    values: Floats
    stderrs: Floats
    nonuniformities: Floats
    noises: EqualNoises | None = None
    cuts: CutAnswers | None = None
    modelled: Bools | None = None
    signed: bool = False

    @classmethod
    def asked(cls, domain: Domain, estimate: "Estimate", queries: CountingQueries) -> "Answers":
        """Return the answers of counting queries by shares of cells: the one way in which cut bins are answered."""
        answers, cut = cls._spread(domain, estimate, queries), cut_queries(domain, queries)
        if cut is None:
            return answers
        least, most = (cls._spread(domain, estimate, end) for end in (cut.least, cut.most))
        return replace(answers, cuts=CutAnswers(cut.at, least, most, cut.words))

    @classmethod
    def _spread(cls, domain: Domain, estimate: "Estimate", queries: CountingQueries) -> "Answers":
        """Return answers that assume a uniform distribution inside the bins that are cut."""
        values, errors = estimate.answers(queries)
        squared = squared_where_even(domain, queries)
        if squared is not None:
            by_chance = np.maximum(values - estimate.values(squared), 0.0)
            by_slope = slope_squares(domain, estimate, queries)
            errors = errors._replace(nonuniformity_squares=errors.nonuniformity_squares + by_chance + by_slope)
        return cls.from_parts(values, errors)

    @classmethod
    def from_parts(cls, values: Floats, errors: ErrorParts) -> "Answers":
        """Return estimated values with what their errors are made of."""
        stderrs, nonuniformities = np.sqrt(errors.noise_variances), np.sqrt(errors.nonuniformity_squares)
        return cls(values, stderrs, nonuniformities, errors.noises, modelled=errors.modelled)

    def __len__(self) -> int:
        return len(self.values)

    def _repr_html_(self) -> str:
        from dpcube.release.notebook import answers_html

        return answers_html(self)

    def first(self, confidence: float) -> Answer:
        """Return the first answer by itself, with its interval."""
        low, high = self.interval(confidence)
        value, stderr, nonuniformity = (float(part[0]) for part in (self.values, self.stderrs, self.nonuniformities))
        modelled = self.modelled is not None and bool(self.modelled[0])
        return Answer(
            value, stderr, nonuniformity, float(low[0]), float(high[0]), confidence, self.cut_words()[0], modelled
        )

    def cut_words(self) -> list[str]:
        """Return for each answer which bins its question cuts, in words; nothing where it cuts none."""
        words = [""] * len(self)
        if self.cuts is not None:
            for place, said in zip(self.cuts.at.tolist(), self.cuts.words, strict=True):
                words[place] = said
        return words

    def notes(self) -> list[str]:
        """Return for each answer its `Answer.note`."""
        modelled = np.zeros(len(self), np.bool_) if self.modelled is None else self.modelled
        return [noted(cut, modelled=one) for cut, one in zip(self.cut_words(), modelled.tolist(), strict=True)]

    def cut_reach(self) -> Floats:
        """Return how far the bins that a question cuts may move each answer: 0 where it cuts none."""
        half_width = np.zeros(len(self))
        if self.cuts is not None:
            at, least, most = self.cuts.at, self.cuts.least.values, self.cuts.most.values
            half_width[at] = np.maximum(most - self.values[at], self.values[at] - least)
        return half_width

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
        cuts = others.cuts  # these are ranges of whole cells, which cut no bin
        assert self.cuts is None
        if cuts is not None:
            cuts = replace(cuts, at=np.flatnonzero(~where)[cuts.at])
        modelled = None
        if self.modelled is not None and others.modelled is not None:
            modelled = laid_out(self.modelled, others.modelled)
        return Answers(values, stderrs, laid_out(self.nonuniformities, others.nonuniformities), noises, cuts, modelled)

    def half_width(self, confidence: float = 0.95) -> Floats:
        """Return how far each answer is off at most, with this confidence for each by itself, cut bins apart.

        Where the law of an error is known this is its exact quantile; elsewhere a bound, so many standard errors.
        """
        half_width: Floats = deviations_for(confidence) * np.hypot(self.stderrs, self.nonuniformities)
        if self.noises is not None:
            from dpcube.noise.law import (
                discrete_variance,  # few answers need them
                dl_sum_quantile,
            )

            known = (self.noises.numbers > 0) & (self.nonuniformities == 0)
            numbers, at = np.unique(self.noises.numbers[known], return_inverse=True)
            alpha = self.noises.alpha
            quantiles = dl_sum_quantile(confidence, numbers, alpha=alpha)
            deviations = np.sqrt(numbers * discrete_variance(np.float64(alpha)))
            half_width[known] = self.stderrs[known] * (quantiles / deviations)[at]
        return half_width

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Return the low and high ends of an interval for each true count.

        No count is below zero, and no noise rules out a single row; sums and averages are `signed`. Where bins are
        cut, the low end is that of the least and the high end that of the most that the question can mean. Each
        interval holds with the confidence by itself; with `simultaneous`, all of them hold at once with it. That is
        the union bound (Bonferroni): n intervals each miss with 1/n of the chance, so it needs no word on how their
        errors hang together. For noise alone it is a guarantee, since the tail taken is never below the true one; for
        the non-uniformity error and a posterior's it is as good as the standard errors that the release states.
        """
        alone = confidence
        if simultaneous and 0 < confidence < 1:
            alone = 1 - (1 - confidence) / max(len(self), 1)
        low, high = self._ends(alone)
        if self.cuts is not None:
            at = self.cuts.at
            values = self.values[at] if self.signed else np.maximum(self.values[at], 0.0)
            low[at] = np.minimum(self.cuts.least._ends(alone)[0], values)
            high[at] = np.maximum(self.cuts.most._ends(alone)[1], self.values[at])
        return low, high

    def _ends(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the ends of intervals, cut bins apart."""
        half_width = self.half_width(confidence)
        low, high = self.values - half_width, self.values + half_width
        if self.signed:
            return low, high
        least = np.where(np.hypot(self.stderrs, self.nonuniformities) > 0, 1.0, 0.0)
        return np.maximum(low, 0.0), np.maximum(high, least)

    def take(self, at: Places) -> "Answers":
        """Return the answers at some places, without bounds of cut bins."""
        noises = self.noises and EqualNoises(self.noises.alpha, self.noises.numbers[at])
        modelled = None if self.modelled is None else self.modelled[at]
        values, stderrs, nonuniformities = self.values[at], self.stderrs[at], self.nonuniformities[at]
        return Answers(values, stderrs, nonuniformities, noises, modelled=modelled, signed=self.signed)


def slope_squares(domain: Domain, estimate: "Estimate", queries: CountingQueries) -> Floats:
    """Return the squared error of each query by slopes inside the even bins that it cuts, as seen from bin to bin."""
    squares = np.zeros(len(queries))
    for signed in slopes_where_even(domain, queries):
        squares += np.maximum(*(estimate.values(of) ** 2 for of in signed))
    return squares


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
