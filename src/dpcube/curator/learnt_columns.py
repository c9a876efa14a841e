"""What is learnt of one column: measured with noise, and turned into an attribute.

Proof. A column has an epsilon of its own. If there are several ways to read it, a tenth goes to their selection, and
the rest to what the selected reading counts; if there is one way, all goes there. The selection is made by the gate
(`core/gate.py`, `ReadRows` of `core/candidates.py`). What it selects is public by then, and decides which of the hidden
counts are measured: numbers and dates by a second gate, texts by a sparse histogram (`core/sparse_histogram.py`), each
made with the rest of the epsilon and unable to spend more. So a column costs its epsilon, by sequential composition,
and the columns of a table their sum, because a row has a value in each.

A row whose value is a truth value counts as unknown for numbers, which would read it as 0 or 1. This moves that row
alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.candidates import ReadRows
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.domain import Attribute, Category
from dpcube.core.domain.grammar import UNKNOWN
from dpcube.core.domain.written import typed
from dpcube.core.errors import DomainError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise
from dpcube.core.seal import sealed
from dpcube.core.sources import Rows
from dpcube.core.sparse_histogram import EmptyCells, ExactTexts, Shown, SparseHistogram, ignored_rows
from dpcube.core.text_code import NULL, TextCode
from dpcube.curator.bounds import END_SCALES, FALSE_CELLS, date_attribute, found_span, least_count, number_attribute
from dpcube.curator.column_readings import (
    TEXT,
    TRUTH,
    ColumnReading,
    date_grid,
    month_of_days,
    number_grid,
    reading_axes,
    readings_of,
)

READING_SHARE = Fraction(1, 10)
"""Part of a column's epsilon for how it is read, if there are several ways."""
FRACTION_UNITS = BUDGET_UNITS // 10
COARSE_UNITS = (BUDGET_UNITS - FRACTION_UNITS) // 2
FINE_UNITS = BUDGET_UNITS - FRACTION_UNITS - COARSE_UNITS
DATE_UNITS = BUDGET_UNITS // 2
UNLISTED = (NULL, "(null)", "(unknown)")
FEW_FRACTIONS = 50
"""A column is of whole numbers unless more than one in so many of its rows has a fraction, and more than the noise."""


@dataclass(frozen=True, slots=True)
class PrivateColumn:
    """A column's hidden counts by all readings, and its hidden texts."""

    name: str
    readings: tuple[ColumnReading, ...]
    axes: tuple[Attribute, ...]
    of_reading: tuple[int, ...]
    cells: SparseRows
    texts: ExactTexts | None
    declared: bool
    """Whether types are declared apart from the rows, so that texts of one number are different values."""


@dataclass(frozen=True, slots=True)
class LearntColumn:
    """What was learnt of a column: its reading, its attribute if anything was found, and noisy counts of values."""

    name: str
    reading: ColumnReading
    attribute: Attribute | None
    noisy_counts: tuple[Shown, ...] = ()


def content_epsilon(epsilon: Fraction, readings: Sequence[ColumnReading]) -> Fraction:
    """Return the part of a column's epsilon for what the selected reading counts."""
    return epsilon * (1 - READING_SHARE) if len(readings) > 1 else epsilon


@sealed
def counted_column(rows: Rows, name: str, epsilon: Fraction) -> PrivateColumn:
    """Count a column by every reading that public facts allow; nothing leaves but hidden counts."""
    readings = readings_of(rows.kinds[name], declared=rows.is_declared())
    axes, of_reading = reading_axes(name, readings)
    shape = tuple(axis.size for axis in axes)
    codes, alike = rows.count_readings(axes)
    if TRUTH in readings:
        is_truth = codes[len(axes) - 1] < axes[-1].bins
        for place, axis in enumerate(axes):
            if axis.scale == "number":
                codes[place] = np.where(is_truth, axis.bins + axis.own_cells.index("unknown"), codes[place])
    texts = None
    if TEXT in readings:
        ignored = ignored_rows(content_epsilon(epsilon, readings))
        texts = ExactTexts(*rows.count_texts(name, above=ignored), ignored=ignored)
    cells = SparseRows((*shape, 2), codes, alike)
    return PrivateColumn(name, readings, tuple(axes), tuple(of_reading), cells, texts, rows.is_declared())


def learn_column(
    column: PrivateColumn,
    epsilon: Fraction,
    code: TextCode,
    *,
    noise: Noise | None = None,
    empty: EmptyCells | None = None,
) -> LearntColumn:
    """Measure a column with an epsilon that has been charged (proof: this module's head)."""
    number = 0
    if len(column.readings) > 1:
        number = _selected(Gate(column.cells, epsilon * READING_SHARE, noise=noise), column)
    reading, left = column.readings[number], content_epsilon(epsilon, column.readings)
    if reading.kind == "truth value":
        found = _valid(Category, column.name, ["false", "true"], null="cell", unknown="cell")
        return LearntColumn(column.name, reading, found)
    if reading.kind == "text":
        assert column.texts is not None
        shown = SparseHistogram(column.texts, code, left, noise=noise, empty=empty).heavy()
        return _category(column.name, reading, shown, declared=column.declared)
    gate, axis = Gate(column.cells, left, noise=noise), column.of_reading[number]
    measured = _numbers if reading.kind == "number" else _dates
    return LearntColumn(column.name, reading, measured(column, gate, axis, reading))


def _selected(counter: NoisyCounter, column: PrivateColumn) -> int:
    """Spend a counter on the selection of the reading."""
    masks = tuple(
        reading.reads(column.axes[axis]) for reading, axis in zip(column.readings, column.of_reading, strict=True)
    )
    weights = tuple(reading.weight for reading in column.readings)
    return int(counter.select(ReadRows(counter.shape, column.of_reading, masks, weights), BUDGET_UNITS)[0])


def _numbers(column: PrivateColumn, counter: NoisyCounter, axis: int, reading: ColumnReading) -> Attribute | None:
    fractions = counter.marginal((len(counter.shape) - 1,), FRACTION_UNITS)
    grid, declared = number_grid(), column.axes[axis]
    coarse = _grouped(counter, axis, grid.coarse, declared, COARSE_UNITS)
    fine = counter.marginal((axis,), FINE_UNITS)
    unit = counter.epsilon_per_unit
    span = found_span(grid, coarse, fine, (COARSE_UNITS * unit, FINE_UNITS * unit))
    if span is None:
        return None
    noise = END_SCALES / float(FRACTION_UNITS * unit)
    whole = not reading.options and bool(fractions[1] <= max(fractions.sum() / FEW_FRACTIONS, noise))
    own = _own_cells(coarse[len(grid.prior) :], declared, ("null", "unknown", "nan"), COARSE_UNITS * unit)
    return _valid(number_attribute, column.name, grid, span, reading, whole=whole, own=own)


def _dates(column: PrivateColumn, counter: NoisyCounter, axis: int, reading: ColumnReading) -> Attribute | None:
    grid, declared, months = date_grid(), column.axes[axis], month_of_days()
    coarse = _grouped(counter, axis, grid.coarse[months], declared, DATE_UNITS)
    fine = _grouped(counter, axis, months, declared, DATE_UNITS)
    epsilon = DATE_UNITS * counter.epsilon_per_unit
    span = found_span(grid, coarse, fine, (epsilon, epsilon))
    if span is None:
        return None
    own = _own_cells(coarse[len(grid.prior) :], declared, ("null", "unknown"), epsilon)
    return _valid(date_attribute, column.name, grid, span, reading, own=own)


def _grouped(counter: NoisyCounter, axis: int, groups: Ints, declared: Attribute, units: int) -> Ints:
    """Return noisy counts of groups of an axis's bins, and after them of each of its cells of irregular values."""
    own = int(groups.max()) + 1 + np.arange(len(declared.own_cells))
    of_axes = [np.zeros(side, np.int64) for side in counter.shape]
    of_axes[axis] = np.concatenate([groups, own]).astype(np.int64)
    return counter.grouped(of_axes).marginal((axis,), units)


def _own_cells(noisy: Ints, declared: Attribute, kinds: Sequence[str], epsilon: Fraction) -> dict[str, Any]:
    """Give irregular kinds of value a cell where a noisy count finds some, and drop the others."""
    least = least_count(FALSE_CELLS, epsilon)
    counts: Mapping[str, int] = dict(zip(declared.own_cells, noisy.tolist(), strict=True))
    return {kind: "cell" if counts[kind] >= least else "drop" for kind in kinds}


def _category(name: str, reading: ColumnReading, shown: Sequence[Shown], *, declared: bool) -> LearntColumn:
    """Return a category of the values that were found; what else there is goes to the cell "(unknown)".

    Values that a domain file should not list are left out: those with control characters or blanks around them, those
    that stand for bytes that are no text, and the labels of cells. So is a value that denotes the same number or
    boolean as a more frequent one, unless the types of columns are declared.
    """
    values: dict[object, Shown] = {}
    for one in shown:
        fits = one.text.isprintable() and one.text == one.text.strip() and UNKNOWN not in one.text
        if fits and one.text not in UNLISTED:
            values.setdefault(one.text if declared else typed(one.text) or one.text, one)
    null = "cell" if any(one.text == NULL for one in shown) else "drop"
    listed = [one.text for one in values.values()]
    found = _valid(Category, name, listed, trim=True, null_text=[NULL], null=null, unknown="cell") if listed else None
    return LearntColumn(name, reading, found, tuple(values.values()))


def _valid(make: Any, *given: Any, **options: Any) -> Attribute | None:
    """Return the attribute, or None if the noise made bounds that no attribute can have: a run never fails by it."""
    try:
        made: Attribute = make(*given, **options)
    except DomainError:
        return None
    return made
