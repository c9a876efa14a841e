"""Standard errors and confidence intervals of quantiles, by Woodruff's method.

The q-quantile is the first value v up to which there are q of all rows: the first at which

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
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.core.domain import Attribute
from dpcube.release.answer import Answers
from dpcube.release.sql.aggregates import Aggregate
from dpcube.release.sql.linear_errors import (
    answers_of,
    bound_of,
    cut_column,
    entering_rows,
    modelled_column,
)
from dpcube.release.sql.relation import (
    Entering,
    Relation,
    cells_of_results,
    extremes,
    words,
)

BETWEEN_TWO_ROWS = 1.0
"""Rows by which definitions of a quantile between two rows differ."""


def quantile_errors(
    relation: Relation, values: pa.Array, parts: pa.Array, *, of: Aggregate, confidence: float
) -> dict[str, pa.Array]:
    """Return the error columns of a quantile, null where it is null."""
    attribute, groups = relation.domain.attributes[of.axis], len(values)
    value = attribute.places_of(values.to_pylist())
    sorted_values = _SortedValues.from_rows(entering_rows(value, parts), groups)
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
    return made | modelled_column(at_middle, mask) | cut_column(said if any(said) else [], mask)


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


def _line(relation: Relation, entering: Entering, groups: int, side: int) -> Answers:
    """Return L with its error: as estimated (0), or its lower (-1) or upper (1) bound where bins are cut."""
    weights = relation.weights[entering.row]
    if side and relation.cuts_bins:
        cells = cells_of_results(relation, entering)
        extreme = extremes(entering, cells)[0 if side < 0 else 1]
        return bound_of(relation, cells, extreme, np.full(groups, np.nan), "sum")
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
