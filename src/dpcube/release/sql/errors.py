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

*Quantiles.* The q-quantile is the first value v up to which there are q of all rows: the first at which

    L(v) = (1 - q) * (rows up to v) - q * (rows above v)

is not below 0. L is a sum over rows, so its error is stated as that of any sum. The interval is Woodruff's: it holds
every v at which 0 is not ruled out, from the first v with L(v) + h(v) >= -1 to the first with L(v) - h(v) >= 1, with h
the half width of the error of L(v). Only the tests at the true quantile and just before it need hold, each on one side,
so the confidence is that of one interval. The one row covers the ways in which a quantile between two rows is defined.
Rows may lie anywhere in a bin, so the ends are those of bins. L rises with v but for cells that are estimated below 0,
so v is found by bisection. The standard error is by the delta method: that of L at the estimate, over the rows to a
unit inside the interval.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.core.domain import Attribute
from dpcube.release.answer import Answers, CutAnswers
from dpcube.release.sql.aggregates import QUANTILE, Aggregate, ErrorColumn
from dpcube.release.sql.linear_errors import TooManyProductsError, answers_of
from dpcube.release.sql.relation import (
    Entering,
    Relation,
    ResultCells,
    cells_of_results,
    extremes,
    farthest_values,
    words,
)

DISPERSIONS = ("var", "stddev")
"""Prefixes of the names of variances and standard deviations."""
BETWEEN_TWO_ROWS = 1.0
"""Rows by which definitions of a quantile between two rows differ."""


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
            else _quantile_errors(relation, *inputs[0], of=aggregate, confidence=confidence)
        )
    except TooManyProductsError:
        found = dict.fromkeys(("stderr", "nonuniformity", "low", "high"), pa.array(np.full(len(inputs[0][0]), np.nan)))
    return _scaled(found, column)


def _aggregate_errors(
    relation: Relation, values: pa.Array, parts: pa.Array, *, of: Aggregate, confidence: float
) -> dict[str, pa.Array]:
    """Return the error columns of one count, sum, average or dispersion; null where the value is null."""
    value = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    entering = _entering_rows(value, parts)
    answers = answers_of(relation, value, functional(relation, value, entering, of.kind), of.kind)
    may_be_cut = bool(of.named) or relation.cuts_bins
    if may_be_cut:
        answers = _with_cuts(relation, answers, entering, of)
    low, high = answers.interval(confidence)
    low = np.maximum(low, 0.0) if of.kind.startswith(DISPERSIONS) else low
    found = {"stderr": answers.stderrs, "nonuniformity": answers.nonuniformities, "low": low, "high": high}
    made = {name: pa.array(column, mask=np.isnan(value), from_pandas=False) for name, column in found.items()}
    cut = answers.cut_words() if may_be_cut else []
    return made | _modelled_column(answers, np.isnan(value)) | _cut_column(cut, np.isnan(value))


def _modelled_column(answers: Answers, mask: Bools) -> dict[str, pa.Array]:
    """Return which results are modelled; null where `mask` is, nothing if the estimate is no model."""
    return {} if answers.modelled is None else {"modelled": pa.array(answers.modelled, mask=mask)}


def _cut_column(cut: list[str], mask: Bools) -> dict[str, pa.Array]:
    """Return the text on the bins that each result cuts, null where `mask` is; nothing if none can be cut."""
    return {"cut": pa.array(cut, pa.string(), mask=mask)} if cut else {}


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


def _entering_rows(value: Floats, parts: pa.Array) -> Entering:
    """Return the rows that enter each result that is not null."""
    lengths, content = parts.value_lengths().fill_null(0).to_numpy(), parts.flatten()
    result = np.repeat(np.arange(len(value)), lengths)
    columns = (
        content.field(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in ("f", "low", "high", "even")
    )
    row = content.field("i").to_numpy(zero_copy_only=False).astype(np.intp)
    return Entering(result, row, *columns).kept(~np.isnan(value[result]))


def functional(relation: Relation, value: Floats, entering: Entering, kind: str) -> Entering:
    """Return the linear functional whose error is that of the results: their linearisation (delta method)."""
    if kind.startswith(DISPERSIONS):
        return _of_dispersion(relation, value, entering, kind)
    if kind != "avg":
        return entering
    result = entering.result
    total = np.bincount(result, relation.weights[entering.row], minlength=len(value))[result]
    return entering._replace(factor=(entering.factor - value[result]) / total, even=entering.even / total)


def _of_dispersion(relation: Relation, value: Floats, entering: Entering, kind: str) -> Entering:
    """Return the linearisation of a variance or a standard deviation.

    A row moves a variance by ((x - mean)^2 - variance) / N, or N / (N - 1) times that with N - 1 in the denominator.
    """
    result, weight, many = entering.result, relation.weights[entering.row], len(value)

    def mean(of: Floats) -> Floats:
        return (np.bincount(result, weight * of, minlength=many) / total)[result]

    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.bincount(result, weight, minlength=many)
        squares = (entering.factor - mean(entering.factor)) ** 2
        under = total - (0 if kind.endswith("_pop") else 1)
        factor = (squares - mean(squares)) / under[result]
        if kind.startswith("stddev"):
            factor /= 2 * value[result]
    return entering._replace(factor=factor, even=np.zeros_like(factor))


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
        _bound(relation, cells, extreme, np.where(settled, farthest, np.nan), of.kind).take(at)
        for extreme, farthest in zip((low, high), farthest_values(entering, results), strict=True)
    )
    return replace(answers, cuts=CutAnswers(at, least, most, said))


def _bound(relation: Relation, cells: ResultCells, extreme: Floats, settled: Floats, kind: str) -> Answers:
    """Return one bound on the results, given the extreme coefficient of each cell.

    An average that cuts bins has an unknown sum and an unknown number of rows. It lies between its least and its
    greatest value, so that is given as `settled`.
    """
    (cell, row), results = cells.siblings(), len(settled)
    factor, nothing = extreme[cell], np.zeros(len(cell))
    entering = Entering(cells.result[cell], row, factor, factor, factor, nothing)
    entering = entering.kept(np.isnan(settled)[entering.result])
    weight = relation.weights[entering.row]
    value: Floats = np.bincount(entering.result, weight * entering.factor, minlength=results).astype(np.float64)
    if kind == "avg":
        total = np.bincount(entering.result, weight, minlength=results)
        value = np.divide(value, total, out=np.full(results, np.nan), where=total != 0)
    value = np.where(np.isnan(settled), value, settled)
    return answers_of(relation, value, functional(relation, value, entering, kind), kind)


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
        found = functional(relation, value, _entering_rows(value, self.parts), self.of.kind)
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
    return columns | _modelled_column(answers, masked) | _cut_column(cut, masked)


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


@dataclass(frozen=True, slots=True, eq=False)
class _SortedValues:
    """The distinct values of each group in ascending order; `rank` is that of each row's value, from 0.

    `first`, shape (groups,), is the place of a group's first value in `low` and `high`, the ends of all values' bins;
    `number`, shape (groups,), how many values it has.
    """

    entering: Entering
    rank: Places
    first: Places
    number: Places
    low: Floats
    high: Floats

    @classmethod
    def from_rows(cls, entering: Entering, groups: int) -> "_SortedValues":
        result, row, factor, low, high, even = entering
        order = np.lexsort((high, low, result))
        entering = Entering(result[order], row[order], factor[order], low[order], high[order], even[order])
        keys = (entering.result, entering.low, entering.high)
        is_new = np.logical_or.reduce([np.append(True, key[1:] != key[:-1])[: len(key)] for key in keys])
        starts = np.flatnonzero(is_new)
        number = np.bincount(entering.result[starts], minlength=groups)
        first = np.cumsum(number) - number
        rank = np.cumsum(is_new) - 1 - first[entering.result]
        return cls(entering, rank, first, number, entering.low[starts], entering.high[starts])

    def line(self, at: Places, groups: Bools, share: float) -> Entering:
        """Return the functional L of some groups, at one value of each."""
        some = groups[self.entering.result]
        entering = self.entering.kept(some)
        factor = np.where(self.rank[some] <= at[entering.result], 1.0, 0.0) - share
        return entering._replace(factor=factor, low=factor, high=factor, even=np.zeros_like(factor))

    def first_where(self, holds: Callable[[Places, Bools], Bools]) -> Places:
        """Return the rank of the first value of each group at which a condition holds, the last if it never does.

        `holds` takes the rank of one value of each group, and which groups to evaluate.
        """
        low, high = np.zeros_like(self.number), np.maximum(self.number - 1, 0)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            held = holds(middle, open_)
            low, high = np.where(open_ & ~held, middle + 1, low), np.where(open_ & held, middle, high)
        return low

    def rows(self, weights: Floats, start: Places, end: Places) -> Floats:
        """Return the estimated rows of each group from one value to another, both included."""
        result = self.entering.result
        inside = (self.rank >= start[result]) & (self.rank <= end[result])
        found: Floats = np.bincount(
            result[inside], weights[self.entering.row[inside]], minlength=len(self.number)
        ).astype(np.float64)
        return found


def _quantile_errors(
    relation: Relation, values: pa.Array, parts: pa.Array, *, of: Aggregate, confidence: float
) -> dict[str, pa.Array]:
    """Return the error columns of a quantile, null where it is null."""
    attribute, groups = relation.domain.attributes[of.axis], len(values)
    value = attribute.places_of(values.to_pylist())
    sorted_values = _SortedValues.from_rows(_entering_rows(value, parts), groups)
    if not len(sorted_values.low):
        sorted_values = _SortedValues(
            sorted_values.entering,
            sorted_values.rank,
            sorted_values.first,
            sorted_values.number,
            np.zeros(1),
            np.zeros(1),
        )

    def line(at: Places, some: Bools, side: int) -> Answers:
        return _line(relation, sorted_values.line(at, some, of.share), groups, side)

    def not_below(at: Places, some: Bools) -> Bools:
        found = line(at, some, 1)
        return np.asarray(found.values + found.half_width(confidence) >= -BETWEEN_TWO_ROWS)

    def above(at: Places, some: Bools) -> Bools:
        found = line(at, some, -1)
        return np.asarray(found.values - found.half_width(confidence) >= BETWEEN_TWO_ROWS)

    first, last = sorted_values.first_where(not_below), sorted_values.first_where(above)
    last = np.maximum(first, last)
    middle = sorted_values.first_where(lambda at, some: line(at, some, 0).values >= 0)
    at_middle = line(middle, np.ones(groups, np.bool_), 0)
    place = (
        np.minimum(sorted_values.first + first, len(sorted_values.low) - 1),
        np.minimum(sorted_values.first + last, len(sorted_values.low) - 1),
    )
    low, high = np.fmin(sorted_values.low[place[0]], value), np.fmax(sorted_values.high[place[1]], value)
    rows = sorted_values.rows(relation.weights, first, last)
    unit = np.where((rows > 0) & attribute.has_distances, high - low + attribute.step, np.nan) / np.where(
        rows > 0, rows, 1.0
    )
    mask = np.isnan(value)
    made = {
        "stderr": pa.array(at_middle.stderrs * unit, mask=mask, from_pandas=False),
        "nonuniformity": pa.array(at_middle.nonuniformities * unit, mask=mask, from_pandas=False),
        "low": _typed(attribute, low, mask),
        "high": _typed(attribute, high, mask),
    }
    said = _words(relation, sorted_values.entering, attribute, groups)
    return made | _modelled_column(at_middle, mask) | _cut_column(said if any(said) else [], mask)


def _line(relation: Relation, entering: Entering, groups: int, side: int) -> Answers:
    """Return L with its error: as estimated (0), or its lower (-1) or upper (1) bound where bins are cut."""
    weights = relation.weights[entering.row]
    if side and relation.cuts_bins:
        cells = cells_of_results(relation, entering)
        extreme = extremes(entering, cells)[0 if side < 0 else 1]
        return _bound(relation, cells, extreme, np.full(groups, np.nan), "sum")
    value = np.bincount(entering.result, weights * entering.factor, minlength=groups).astype(np.float64)
    return answers_of(relation, value, entering, "sum")


def _words(relation: Relation, entering: Entering, attribute: Attribute, groups: int) -> list[str]:
    """Return the text on the bins that each group cuts, and on values that are known by bins."""
    by_bins = f"{attribute.name} known by bins" if attribute.has_wide_bins else ""
    if not relation.cuts_bins:
        return [by_bins] * groups
    cut = words(relation, entering, cells_of_results(relation, entering), groups)
    return ["; ".join(filter(None, (one, by_bins))) for one in cut]


def _typed(attribute: Attribute, places: Floats, mask: Bools) -> pa.Array:
    """Return numbers as values of the attribute: the inverse of `Attribute.places_of`."""
    if attribute.is_numeric:  # between whole numbers too
        return pa.array(places, mask=mask, from_pandas=False)
    values = attribute.values_at(np.where(mask, 0, places) + attribute.origin)
    return pa.array(values.tolist(), attribute.arrow_type, mask=mask)
