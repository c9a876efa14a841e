"""Errors of medians and other quantiles: the rows of each group enter; standard errors and intervals leave.

The q-quantile is the first value v up to which there are q of all rows: the first at which

    L(v) = (1 - q) * (rows up to v) - q * (rows above v)

is not below 0. L is a sum over rows, so its error is stated as that of any sum. The interval holds every v at which
0 is not ruled out: from the first v with L(v) + h(v) >= -1 to the first with L(v) - h(v) >= 1, with h the half width of
the error of L(v). (Woodruff's interval: a test turned round. Only the tests at the true quantile and just before it
need hold, each on one side, so the confidence is that of one interval. The one row is for the ways in which a quantile
between two rows is read.) Rows may lie anywhere in a bin, so the ends are those of bins. L rises with v but for cells
that are estimated below 0, so v is found by halving.

The standard error is by the delta method: that of L at the estimate, over the rows to a unit inside the interval.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.core.domain import Attribute
from dpcube.release.answer import Answers
from dpcube.release.sql.cuts import Entering, cells_of_results, extremes, words
from dpcube.release.sql.errors import answers_of, cut_column, end_of, entering_of, modelled_column
from dpcube.release.sql.relation import Relation
from dpcube.release.sql.written import Written

BETWEEN_TWO_ROWS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Ladder:
    """The values of each group in their order: of each row of a group the number of its value, from 0.

    `first`, shape (groups,), is the place of a group's first value in `low` and `high`, the ends of all values' bins;
    `number`, shape (groups,), how many values it has.
    """

    entering: Entering
    rung: Places
    first: Places
    number: Places
    low: Floats
    high: Floats

    @classmethod
    def of(cls, entering: Entering, groups: int) -> "_Ladder":
        result, row, factor, low, high, even = entering
        order = np.lexsort((high, low, result))
        entering = Entering(result[order], row[order], factor[order], low[order], high[order], even[order])
        keys = (entering.result, entering.low, entering.high)
        is_new = np.logical_or.reduce([np.append(True, key[1:] != key[:-1])[: len(key)] for key in keys])
        starts = np.flatnonzero(is_new)
        number = np.bincount(entering.result[starts], minlength=groups)
        first = np.cumsum(number) - number
        rung = np.cumsum(is_new) - 1 - first[entering.result]
        return cls(entering, rung, first, number, entering.low[starts], entering.high[starts])

    def line(self, at: Places, groups: Bools, share: float) -> Entering:
        """Return the rows of some groups with what they add to L at one value of each."""
        some = groups[self.entering.result]
        entering = self.entering.kept(some)
        factor = np.where(self.rung[some] <= at[entering.result], 1.0, 0.0) - share
        return entering._replace(factor=factor, low=factor, high=factor, even=np.zeros_like(factor))

    def first_where(self, holds: Callable[[Places, Bools], Bools]) -> Places:
        """Return the number of the first value of each group at which a condition holds, the last if it never does.

        `holds` is asked of one value of each group, and of which groups the answer is wanted.
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
        inside = (self.rung >= start[result]) & (self.rung <= end[result])
        found: Floats = np.bincount(
            result[inside], weights[self.entering.row[inside]], minlength=len(self.number)
        ).astype(np.float64)
        return found


def quantile_errors(
    relation: Relation, values: pa.Array, parts: pa.Array, *, of: Written, confidence: float
) -> dict[str, pa.Array]:
    """Return stderr, within, low and high of each quantile, null where it is; and which bins it is known by, if any."""
    attribute, groups = relation.domain.attributes[of.axis], len(values)
    value = _places(attribute, values)
    ladder = _Ladder.of(entering_of(value, parts), groups)
    if not len(ladder.low):
        ladder = _Ladder(ladder.entering, ladder.rung, ladder.first, ladder.number, np.zeros(1), np.zeros(1))

    def line(at: Places, some: Bools, side: int) -> Answers:
        return _line(relation, ladder.line(at, some, of.share), groups, side)

    def not_below(at: Places, some: Bools) -> Bools:
        found = line(at, some, 1)
        return np.asarray(found.values + found.half_width(confidence) >= -BETWEEN_TWO_ROWS)

    def above(at: Places, some: Bools) -> Bools:
        found = line(at, some, -1)
        return np.asarray(found.values - found.half_width(confidence) >= BETWEEN_TWO_ROWS)

    first, last = ladder.first_where(not_below), ladder.first_where(above)
    last = np.maximum(first, last)
    middle = ladder.first_where(lambda at, some: line(at, some, 0).values >= 0)
    at_middle = line(middle, np.ones(groups, np.bool_), 0)
    place = np.minimum(ladder.first + first, len(ladder.low) - 1), np.minimum(ladder.first + last, len(ladder.low) - 1)
    low, high = np.fmin(ladder.low[place[0]], value), np.fmax(ladder.high[place[1]], value)
    rows = ladder.rows(relation.weights, first, last)
    is_distance = attribute.scale != "position"
    unit = np.where((rows > 0) & is_distance, high - low + attribute.step, np.nan) / np.where(rows > 0, rows, 1.0)
    mask = np.isnan(value)
    made = {
        "stderr": pa.array(at_middle.stderrs * unit, mask=mask, from_pandas=False),
        "nonuniformity": pa.array(at_middle.nonuniformities * unit, mask=mask, from_pandas=False),
        "low": _typed(attribute, low, mask),
        "high": _typed(attribute, high, mask),
    }
    said = _words(relation, ladder.entering, attribute, groups)
    return made | modelled_column(at_middle, mask) | cut_column(said if any(said) else [], mask)


def _line(relation: Relation, entering: Entering, groups: int, side: int) -> Answers:
    """Return L with its error: as estimated (0), or the least (-1) or most (1) that it can be where bins are cut."""
    weights = relation.weights[entering.row]
    if side and any(pieces.is_cut for pieces in relation.pieces.values()):
        cells = cells_of_results(relation, entering)
        extreme = extremes(entering, cells)[0 if side < 0 else 1]
        return end_of(relation, cells, extreme, np.full(groups, np.nan), "sum")
    value = np.bincount(entering.result, weights * entering.factor, minlength=groups).astype(np.float64)
    return answers_of(relation, value, entering, "sum")


def _words(relation: Relation, entering: Entering, attribute: Attribute, groups: int) -> list[str]:
    """Say of each group which bins it cuts, and whether its values are known by bins."""
    by_bins = f"{attribute.name} known by bins" if attribute.has_wide_bins else ""
    if not any(pieces.is_cut for pieces in relation.pieces.values()):
        return [by_bins] * groups
    cut = words(relation, entering, cells_of_results(relation, entering), groups)
    return ["; ".join(filter(None, (one, by_bins))) for one in cut]


def _places(attribute: Attribute, values: pa.Array) -> Floats:
    """Return quantiles as numbers, NaN where they are null: days from 1970, and positions in a list."""
    if attribute.scale == "position":
        number = {value: place for place, value in enumerate(attribute.values_at(np.arange(attribute.bins)).tolist())}
        return np.array([number.get(value, np.nan) for value in values.to_pylist()], np.float64)
    if attribute.scale == "day":
        values = values.cast(pa.date32()).cast(pa.int32())
    found: Floats = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _typed(attribute: Attribute, places: Floats, mask: Bools) -> pa.Array:
    """Return places as values: the same as `_places` backwards."""
    if attribute.scale == "number":
        return pa.array(places, mask=mask, from_pandas=False)
    whole = np.where(mask, 0, places).astype(np.int32)
    if attribute.scale == "day":
        return pa.array(whole, pa.int32(), mask=mask).cast(pa.date32())
    return pa.array(attribute.values_at(whole).tolist(), mask=mask)
