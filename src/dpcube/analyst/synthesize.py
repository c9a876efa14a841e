"""Synthetic rows: a domain and its estimated cells enter, any number of rows that look like them leave, in batches.

This is post-processing: nothing but a released estimate is read, so rows cost no privacy however many are drawn, and
NumPy's seeded generator is the right source of chance (exact noise and secret randomness belong to the release).

The cells' counts, none below zero, are laid end to end; the line is cut into as many equal strata as rows are wanted,
and one row is put uniformly in each. So a cell gets its share in expectation and is never two rows off it, the number
of rows in any set of cells is a sum of independent yes-or-no draws, and it varies no more than with independent rows.
Each batch takes strata from end to end of the line, in random order. Inside its bin a value is uniform.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.arrays import Floats, Ints, Places
from dpcube.domain import Attribute, Category, Date, Domain, Float
from dpcube.domain.calendar import EPOCH
from dpcube.errors import QueryError

BATCH_ROWS = 2**18
BYTES_A_CELL = 32  # the estimate, its copy without negatives, its order and its sums
BYTES_A_VALUE = 24  # at most about this much, unless texts are long
MOST_ROWS = 2**53  # rows are numbered in double precision
TYPES = {"integer": pa.int64(), "float": pa.float64(), "date": pa.date32(), "category": pa.string()}


def synthetic_rows(
    domain: Domain, cells: Floats, rows: int | None, seed: int | None, *, origin: Mapping[str, str] | None = None
) -> pa.RecordBatchReader:
    """Return a stream of rows drawn from estimated cells; as many as the cells say when `rows` is None.

    What `origin` says of the rows goes into the metadata of the schema, which Parquet files keep.
    """
    expected = non_negative(cells)
    count = _checked_rows(rows, expected)
    try:
        generator = np.random.default_rng(seed)
    except (TypeError, ValueError):
        msg = f"a seed must be a whole number of at least 0, or None for a fresh one, got {seed!r}"
        raise QueryError(msg) from None
    columns = [_column(attribute) for attribute in domain.attributes]
    schema = pa.schema([(a.name, TYPES[a.kind]) for a in domain.attributes], metadata=origin)

    def batches() -> Iterator[pa.RecordBatch]:
        for drawn in _cells_of_rows(expected, count, generator):
            places = np.unravel_index(drawn, domain.shape)
            arrays = [column.draw(place, generator) for column, place in zip(columns, places, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def non_negative(cells: Floats) -> Floats:
    """Return the nearest cells that are not below zero and keep the total, in one dimension.

    Clipping alone would add the noise of every empty cell to the total, and scaling the total back would take it from
    cells that are not empty. The nearest cells (least squares) take the same amount from all, and clip what is left.
    """
    flat = cells.reshape(-1)
    total = max(float(flat.sum()), 0.0)
    if not (flat < 0).any():
        return flat
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    kept = np.flatnonzero(falling > excess)
    return np.maximum(flat - excess[kept[-1]], 0.0) if total > 0 else np.zeros_like(flat)


def _checked_rows(rows: int | None, expected: Floats) -> int:
    total = float(expected.sum())
    if rows is None:
        return round(total)
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or not 0 <= rows < MOST_ROWS:
        msg = f"the number of rows must be a whole number from 0 to 2^53 - 1, got {rows!r}"
        raise QueryError(msg)
    if rows > 0 and total <= 0:
        msg = (
            f"this estimate has no rows in any cell, so {rows} cannot be drawn from it; ask for 0, or another estimate"
        )
        raise QueryError(msg)
    return int(rows)


def _cells_of_rows(expected: Floats, rows: int, generator: np.random.Generator) -> Iterator[Ints]:
    """Give the cells of rows, batch by batch, numbered in row-major order."""
    occupied = np.flatnonzero(expected)
    ends = np.cumsum(expected[occupied])
    batches = math.ceil(rows / BATCH_ROWS)
    for first in generator.permutation(batches):
        strata = np.arange(first, rows, batches, dtype=np.float64)
        # In double precision a place may round up to the next stratum's first.
        places = np.minimum(strata + generator.random(len(strata)), np.nextafter(strata + 1, 0))
        found = np.searchsorted(ends, places * (ends[-1] / rows), side="right")
        cells = occupied[np.minimum(found, len(ends) - 1)]
        generator.shuffle(cells)
        yield cells


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """A column of texts: one for each cell of its attribute."""

    values: pa.Array

    def draw(self, place: Places, generator: np.random.Generator) -> pa.Array:  # noqa: ARG002 (one value a cell)
        return self.values.take(pa.array(place))


@dataclass(frozen=True, slots=True, eq=False)
class _Reals:
    """A column of real numbers: the lower edge, width and greatest number of each cell, and whether it is null."""

    low: Floats
    width: Floats
    greatest: Floats
    null: NDArray[np.bool_]

    def draw(self, place: Places, generator: np.random.Generator) -> pa.Array:
        values = self.low[place] + self.width[place] * generator.random(len(place))
        # The upper edge is the next bin's, and rounding must not reach it.
        values = np.minimum(values, self.greatest[place])
        return pa.array(values, mask=self.null[place], from_pandas=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Wholes:
    """A column of whole numbers or days: the least value of each cell, how many it holds, and whether it is null."""

    low: Ints
    width: Ints
    null: NDArray[np.bool_]
    type: pa.DataType

    def draw(self, place: Places, generator: np.random.Generator) -> pa.Array:
        values = self.low[place]
        if self.width.max() > 1:
            values = values + generator.integers(self.width[place])
        if self.type == pa.date32():
            return pa.array(values.astype(np.int32), mask=self.null[place]).cast(self.type)
        return pa.array(values, mask=self.null[place])


def _column(attribute: Attribute) -> _Texts | _Reals | _Wholes:
    """Return how to draw values of an attribute; what no value of its type can say of a cell of its own is null."""
    own = attribute.own_cells
    if isinstance(attribute, Category):
        return _Texts(pa.array([*attribute.values, *(None if k == "null" else f"({k})" for k in own)], pa.string()))
    edges, real = attribute.bin_edges(), isinstance(attribute, Float)
    said = {"nan": math.nan, "infinite": math.inf} if real else {}
    low = np.concatenate([edges[:-1], [said.get(kind, 0.0) for kind in own]])
    width = np.concatenate([np.diff(edges), [0.0 if real else 1.0] * len(own)])
    null = np.array([False] * attribute.bins + [kind not in said for kind in own])
    if real:
        greatest = np.concatenate([np.nextafter(edges[1:], edges[:-1]), low[attribute.bins :]])
        return _Reals(low, width, greatest, null)
    origin = EPOCH if isinstance(attribute, Date) else 0
    return _Wholes(low.astype(np.int64) - origin, width.astype(np.int64), null, TYPES[attribute.kind])
