"""Errors of sums of aggregates and of quotients of two such sums: what enters each aggregate is given, errors leave.

A quotient R = A/B has the standard error of the sum of (a - R b)/B, where a and b are what a row adds to A and to B:
the delta method. Its interval is wider, for B errs too. If the true quotient is R + t, the truth of A - (R + t)B is 0,
and as estimated it is -tB. Its standard error is at most s + |t| s', with s that of A - RB and s' that of B, so that
(with confidence) |t| |B| <= z (s + |t| s'), which is |t| <= z s / (|B| - z s'). Where B is not above z s' nothing
bounds the quotient, and its error is unknown. This is Fieller's interval with the correlation at its worst.

Where an aggregate cuts bins, or its values are known by bins, the quotient lies between those of the ends of the
aggregates' intervals, each of which misses with its part of the chance (the union bound).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Floats
from dpcube.release.answer import Answers
from dpcube.release.sql.cuts import Entering
from dpcube.release.sql.errors import (
    answers_of,
    cut_column,
    entering_of,
    error_columns,
    functional,
    modelled_column,
)
from dpcube.release.sql.relation import Relation
from dpcube.release.sql.written import Written, WrittenQuotient


class _Term(NamedTuple):
    """A multiple of an aggregate: its factor, its values and the rows that enter them."""

    times: float
    of: Written
    values: pa.Array
    parts: pa.Array

    @property
    def value(self) -> Floats:
        found: Floats = self.times * self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return found

    def entering(self, relation: Relation) -> Entering:
        """Return the rows that enter, each with how far its count moves this term."""
        value = self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        found = functional(relation, value, entering_of(value, self.parts), self.of.kind)
        return _times(found, np.full(len(value), self.times))


def quotient_errors(
    relation: Relation, of: WrittenQuotient, found: list[tuple[pa.Array, pa.Array]], *, confidence: float
) -> dict[str, pa.Array]:
    """Return stderr, within, low and high of each quotient, given the values and rows of its aggregates in order."""
    written = (*of.over, *of.under)
    terms = [_Term(times, one, *columns) for (times, one), columns in zip(written, found, strict=True)]
    above, below = terms[: len(of.over)], terms[len(of.over) :]
    over, under = (
        sum((term.value for term in part), np.full(len(found[0][0]), constant))
        for part, constant in ((above, of.over_constant), (below, of.under_constant))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = over / under
        answers, half_width = _spread(relation, above, below, ratio, under, confidence)
    low, high = ratio - half_width, ratio + half_width
    made = {"stderr": answers.stderrs, "nonuniformity": answers.nonuniformities, "low": low, "high": high}
    cut = _widen_where_cut(relation, terms, of, made, confidence)
    masked = np.isnan(over + under)
    columns = {name: pa.array(column, mask=masked, from_pandas=False) for name, column in made.items()}
    return columns | modelled_column(answers, masked) | cut_column(cut, masked)


def _spread(
    relation: Relation, above: list[_Term], below: list[_Term], ratio: Floats, under: Floats, confidence: float
) -> tuple[Answers, Floats]:
    """Return the quotients with their errors, and the half width of each, NaN where unknown."""
    lines = [_times(term.entering(relation), 1 / under) for term in above]
    lines += [_times(term.entering(relation), -ratio / under) for term in below]
    answers = answers_of(relation, ratio, _finite(_joined(lines)), "avg")
    reach = np.zeros(len(ratio))
    if below:
        entering = _finite(_joined([term.entering(relation) for term in below]))
        reach = answers_of(relation, under, entering, "avg").half_width(confidence)
    left = 1 - reach / np.abs(under)
    is_known = np.where(np.isfinite(ratio) & (left > 0), 1.0, np.nan)
    known = replace(answers, stderrs=answers.stderrs * is_known, nonuniformities=answers.nonuniformities * is_known)
    return known, answers.half_width(confidence) / left * is_known


def _widen_where_cut(
    relation: Relation, terms: list[_Term], of: WrittenQuotient, made: dict[str, Floats], confidence: float
) -> list[str]:
    """Put the quotients of the ends of intervals in place where bins are cut; say which bins, if any can be."""
    if not any(term.of.named for term in terms) and not any(pieces.is_cut for pieces in relation.pieces.values()):
        return []
    alone = 1 - (1 - confidence) / len(terms)
    found = [error_columns(relation, term.values, term.parts, of=term.of, confidence=alone) for term in terms]
    said = [column["cut"].to_pylist() if "cut" in column else [None] * len(made["low"]) for column in found]
    words = ["; ".join(dict.fromkeys(filter(None, of_result))) for of_result in zip(*said, strict=True)]
    ends = [_ends(term.times, column) for term, column in zip(terms, found, strict=True)]
    split = len(of.over)
    over, under = (
        tuple(sum((end[side] for end in part), np.full(len(words), constant)) for side in (0, 1))
        for part, constant in ((ends[:split], of.over_constant), (ends[split:], of.under_constant))
    )
    ratio = (made["low"] + made["high"]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        corners = np.stack([one / other for one in over for other in under])
    corners[:, ~((under[0] > 0) | (under[1] < 0))] = np.nan
    is_cut = np.array([bool(word) for word in words])
    made["low"] = np.where(is_cut, np.minimum(corners.min(axis=0), ratio), made["low"])
    made["high"] = np.where(is_cut, np.maximum(corners.max(axis=0), ratio), made["high"])
    return words


def _ends(times: float, column: dict[str, pa.Array]) -> tuple[Floats, Floats]:
    low, high = (times * column[end].to_numpy(zero_copy_only=False) for end in ("low", "high"))
    return (low, high) if times >= 0 else (high, low)


def _times(entering: Entering, of_result: Floats) -> Entering:
    """Return rows with what their counts are multiplied by times a number for each result."""
    times = of_result[entering.result]
    return entering._replace(factor=entering.factor * times, even=entering.even * np.abs(times))


def _joined(lines: list[Entering]) -> Entering:
    """Return the rows of several sums together: what one row is multiplied by adds up, and so does how far it varies.

    The extremes of multipliers are left out.
    """
    result, row, factor, _, _, even = (np.concatenate(columns) for columns in zip(*lines, strict=True))
    code = result * (row.max(initial=0) + 1) + row
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    summed, evens = (np.bincount(place, column).astype(np.float64) for column in (factor, even))
    return Entering(result[first], row[first], summed, summed, summed, evens)


def _finite(entering: Entering) -> Entering:
    """Leave out rows of results without a finite quotient."""
    return entering.kept(np.isfinite(entering.factor))
