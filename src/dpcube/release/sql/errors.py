"""Standard errors and confidence intervals of a query's columns, given the rows that enter each result.

*Counts and sums* are linear functionals of the rows (`linear_errors`). *Averages, variances and standard deviations*
have the error of their linearisation (delta method): that of an average S/N is the error of the sum of (x - S/N)/N. It
is good when N is many times its own standard error.

*Ratios.* R = A/B has the standard error of the sum of (a - R b)/B, where a and b are what a row adds to A and to B. Its
confidence interval is wider, for B errs too. If the true ratio is R + t, the truth of A - (R + t)B is 0, and as
estimated it is -tB. Its standard error is at most s + |t| s', with s that of A - RB and s' that of B, so that (with
confidence) |t| |B| <= z (s + |t| s'), which is |t| <= z s / (|B| - z s'). Where B is not above z s' nothing bounds the
ratio, and its error is unknown. This is Fieller's interval with the correlation at its worst. Where an aggregate cuts
bins, or its values are known by bins, the ratio lies between those of the ends of the aggregates' intervals, each of
which misses with its part of the chance (union bound).

*Quantiles* are in `quantile_errors.py`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcube.core.arrays import Floats
from dpcube.release.answer import Answers, CutAnswers
from dpcube.release.sql.aggregates import QUANTILE, Aggregate, ErrorColumn
from dpcube.release.sql.linear_errors import (
    DISPERSIONS,
    TooManyProductsError,
    answers_of,
    bound_of,
    cut_column,
    entering_rows,
    functional,
    modelled_column,
)
from dpcube.release.sql.quantile_errors import quantile_errors
from dpcube.release.sql.relation import (
    Entering,
    Relation,
    cells_of_results,
    extremes,
    farthest_values,
    words,
)


def column_errors(
    relation: Relation, column: ErrorColumn, inputs: list[tuple[pa.Array, pa.Array]], *, confidence: float
) -> dict[str, pa.Array]:
    """Return stderr, within, low and high of a column, given the values and the rows of each of its aggregates.

    `cut` says which bins each result cuts, if any can be cut; `modelled` which results are a model's
    (docs/guides/wide-tables.md).
    """
    aggregate = column.single
    if aggregate is not None and aggregate.kind != QUANTILE:
        return _scaled(_aggregate_errors(relation, *inputs[0], of=aggregate, confidence=confidence), column)
    try:
        found = (
            _ratio_errors(relation, column, inputs, confidence=confidence)
            if aggregate is None
            else quantile_errors(relation, *inputs[0], of=aggregate, confidence=confidence)
        )
    except TooManyProductsError:
        found = dict.fromkeys(("stderr", "nonuniformity", "low", "high"), pa.array(np.full(len(inputs[0][0]), np.nan)))
    return _scaled(found, column)


def _aggregate_errors(
    relation: Relation, values: pa.Array, parts: pa.Array, *, of: Aggregate, confidence: float
) -> dict[str, pa.Array]:
    """Return the error columns of one count, sum, average or dispersion; null where the value is null."""
    value = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    entering = entering_rows(value, parts)
    answers = answers_of(relation, value, functional(relation, value, entering, of.kind), of.kind)
    may_be_cut = bool(of.named) or relation.cuts_bins
    if may_be_cut:
        answers = _with_cuts(relation, answers, entering, of)
    low, high = answers.interval(confidence)
    low = np.maximum(low, 0.0) if of.kind.startswith(DISPERSIONS) else low
    found = {"stderr": answers.stderrs, "nonuniformity": answers.nonuniformities, "low": low, "high": high}
    made = {name: pa.array(column, mask=np.isnan(value), from_pandas=False) for name, column in found.items()}
    cut = answers.cut_words() if may_be_cut else []
    return made | modelled_column(answers, np.isnan(value)) | cut_column(cut, np.isnan(value))


def _scaled(found: dict[str, pa.Array], column: ErrorColumn) -> dict[str, pa.Array]:
    """Return the errors of `column.scale` times what `found` is of, plus `column.offset`."""
    scale, offset = column.scale, column.offset
    if (scale, offset) == (1.0, 0.0):
        return found
    made = {name: pc.multiply(found[name], abs(scale)) for name in ("stderr", "nonuniformity")}
    low, high = ("low", "high") if scale >= 0 else ("high", "low")
    ends = {"low": found[low], "high": found[high]}
    made |= {name: pc.add(pc.multiply(end, scale), offset) for name, end in ends.items()}
    return found | made


def _with_cuts(relation: Relation, answers: Answers, entering: Entering, of: Aggregate) -> Answers:
    """Return the answers with bounds on those that cut bins."""
    results, cells = len(answers), cells_of_results(relation, entering)
    low, high = extremes(entering, cells)
    partial = np.bincount(cells.result[cells.is_partial], minlength=results) > 0
    varying = np.bincount(cells.result[(low < high) & ~cells.is_partial], minlength=results) > 0
    varying |= partial & bool(of.named)
    if not of.known:
        varying[:] = True
    at = np.flatnonzero(partial | varying)
    named = f"{', '.join(of.named)} known by bins" if of.named else ""
    cut = words(relation, entering, cells, results)
    said = tuple("; ".join(filter(None, (cut[k], named if varying[k] else ""))) for k in at.tolist())
    if not of.known:
        unknown = Answers(*np.full((3, len(at)), np.nan))
        return replace(answers, cuts=CutAnswers(at, unknown, unknown, said))
    settled = partial if of.kind == "avg" else np.zeros(results, np.bool_)
    least, most = (
        bound_of(relation, cells, extreme, np.where(settled, farthest, np.nan), of.kind).take(at)
        for extreme, farthest in zip((low, high), farthest_values(entering, results), strict=True)
    )
    return replace(answers, cuts=CutAnswers(at, least, most, said))


class _Term(NamedTuple):
    """A multiple of an aggregate: its factor, its values and the rows that enter them."""

    times: float
    of: Aggregate
    values: pa.Array
    parts: pa.Array

    @property
    def value(self) -> Floats:
        found: Floats = self.times * self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return found

    def entering(self, relation: Relation) -> Entering:
        """Return the linearisation of the term."""
        value = self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        found = functional(relation, value, entering_rows(value, self.parts), self.of.kind)
        return _times(found, np.full(len(value), self.times))


def _ratio_errors(
    relation: Relation, of: ErrorColumn, found: list[tuple[pa.Array, pa.Array]], *, confidence: float
) -> dict[str, pa.Array]:
    """Return the error columns of a ratio or a sum, given the values and rows of its aggregates in order."""
    written = (*of.numerator, *of.denominator)
    terms = [_Term(times, one, *columns) for (times, one), columns in zip(written, found, strict=True)]
    above, below = terms[: len(of.numerator)], terms[len(of.numerator) :]
    over, under = (
        sum((term.value for term in part), np.full(len(found[0][0]), constant))
        for part, constant in ((above, of.numerator_constant), (below, of.denominator_constant))
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
    """Return the ratios with their errors, and the half width of each, NaN where unknown."""
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
    relation: Relation, terms: list[_Term], of: ErrorColumn, made: dict[str, Floats], confidence: float
) -> list[str]:
    """Widen intervals to the ratios of the aggregates' own ends where bins are cut; return the text on the bins."""
    if not any(term.of.named for term in terms) and not relation.cuts_bins:
        return []
    alone = 1 - (1 - confidence) / len(terms)
    found = [_aggregate_errors(relation, term.values, term.parts, of=term.of, confidence=alone) for term in terms]
    said = [column["cut"].to_pylist() if "cut" in column else [None] * len(made["low"]) for column in found]
    words = ["; ".join(dict.fromkeys(filter(None, of_result))) for of_result in zip(*said, strict=True)]
    ends = [_ends(term.times, column) for term, column in zip(terms, found, strict=True)]
    split = len(of.numerator)
    over, under = (
        tuple(sum((end[side] for end in part), np.full(len(words), constant)) for side in (0, 1))
        for part, constant in ((ends[:split], of.numerator_constant), (ends[split:], of.denominator_constant))
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
    """Return the functionals times a number for each result."""
    times = of_result[entering.result]
    return entering._replace(factor=entering.factor * times, even=entering.even * np.abs(times))


def _joined(lines: list[Entering]) -> Entering:
    """Return the sum of several functionals: the coefficients of a row add up, and so do their ranges in even bins."""
    result, row, factor, _, _, even = (np.concatenate(columns) for columns in zip(*lines, strict=True))
    code = result * (row.max(initial=0) + 1) + row
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    summed, evens = (np.bincount(place, column).astype(np.float64) for column in (factor, even))
    return Entering(result[first], row[first], summed, summed, summed, evens)


def _finite(entering: Entering) -> Entering:
    """Return the functionals without the rows of results that have no finite ratio."""
    return entering.kept(np.isfinite(entering.factor))
