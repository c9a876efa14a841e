"""The rows that a query is run on, as an Arrow table: the estimated count of each combination of pieces of its axes.

Axes that the query does not use are summed out, so a question on two attributes of a huge cube touches only their
marginal (`Estimate.marginal`).

*Cut bins.* Linear functionals of rows that take parts of bins have bounds, by the rules of `queries/counting.py`. A
counting query multiplies each part of a bin by 0 or 1, so its bounds are found axis by axis. The coefficients of an
aggregate may be any numbers, and its conditions need not be a product. So the rows of each result, of which the parts
of one bin are adjacent ones, are grouped into cells of such bins. A cell adds to a result its count times a number
between the least and the greatest coefficient in it, which is 0 for parts that do not enter.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.core.memory import check_memory
from dpcube.models import Estimate
from dpcube.queries import Workload
from dpcube.queries.counting import cut_words
from dpcube.release.sql.axes import MAX_QUERY_ROWS, Pieces


@dataclass(frozen=True)
class Relation:
    """Weighted rows that stand for the rows of the cube: one for each combination of pieces of the axes in use.

    `pieces` are those of each axis in use. The weight of a row is its estimated count. Rows whose count is exactly 0
    are left out, as a table has no row for what is not in it, unless `complete` keeps them.
    """

    domain: Domain
    estimate: Estimate
    pieces: dict[int, Pieces]
    complete: bool = False

    def __post_init__(self) -> None:
        rows = math.prod(len(piece) for piece in self.pieces.values())
        if rows > MAX_QUERY_ROWS:
            sizes = " x ".join(f"{self.domain.names[j]} {len(piece)}" for j, piece in self.pieces.items())
            msg = (
                f"the query needs {rows:,} rows of the cube ({sizes}); at most {MAX_QUERY_ROWS:,} are made: use fewer "
                "attributes, or compare them with constants in place of grouping by them"
            )
            raise QueryError(msg)
        check_memory(rows * 100, what=f"a query on {rows:,} rows of the cube", remedy="use fewer attributes")

    @cached_property
    def cuts_bins(self) -> bool:
        """Whether the query cuts bins whose rows may lie anywhere in them."""
        return any(pieces.is_cut for pieces in self.pieces.values())

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The cube's shape, worked out once: a domain asks its attributes for it each time."""
        return self.domain.shape

    @cached_property
    def _whole_counts(self) -> Floats:
        """Estimated count of every combination of pieces, the bins of parts taken whole, by the axes in use."""
        return self.estimate.marginal(list(self.pieces), [piece.first_cell for piece in self.pieces.values()])

    @cached_property
    def _counts(self) -> Floats:
        """Estimated count of every combination of pieces; the array has one axis for each axis in use."""
        return self._shares_of(self._whole_counts, list(self.pieces))

    def _shares_of(self, counts: Floats, axes: list[int]) -> Floats:
        """Return counts of whole bins times the shares that pieces of some axes have of them."""
        for place, axis in enumerate(self.pieces):
            if axis in axes:
                counts = counts * np.expand_dims(self.pieces[axis].share, tuple(range(1, counts.ndim - place)))
        return counts

    @cached_property
    def piece_of_row(self) -> dict[int, NDArray[np.intp]]:
        """For each axis in use, the number of the piece that each row lies in: shape (rows,)."""
        shape = self._counts.shape
        if not shape:
            return {}
        chosen = np.arange(math.prod(shape)) if self.complete else np.flatnonzero(self._counts)
        return dict(zip(self.pieces, np.unravel_index(chosen, shape), strict=True))

    @cached_property
    def weights(self) -> Floats:
        """Estimated count of each row: shape (rows,)."""
        return self._counts[tuple(self.piece_of_row.values())].reshape(-1)

    def noise_of_rows(self, axes: frozenset[int]) -> Floats:
        """Return a standard error for each row, from the noise alone, when rows are told apart by `axes` only.

        Rows that have the same pieces on `axes` are one range to the query. Each gets an equal part of the standard
        error of that range, so that theirs add up to it.
        """
        index = {axis: rows for axis, rows in self.piece_of_row.items() if axis in axes}
        code = np.zeros(len(self.weights), np.int64)
        for axis, rows in index.items():
            code = code * len(self.pieces[axis]) + rows
        _, first, range_of_row, rows_in_range = np.unique(
            code, return_index=True, return_inverse=True, return_counts=True
        )
        distinct = {axis: rows[first] for axis, rows in index.items()}
        errors = np.sqrt(self.estimate.errors(self._ranges(distinct)).noise_variances)
        for axis, rows in distinct.items():
            errors = errors * self.pieces[axis].share[rows]
        return (errors / rows_in_range)[range_of_row]

    def table(self, columns: dict[str, tuple[int, str]], noises: dict[frozenset[int], str]) -> pa.Table:
        """Return the rows as an Arrow table.

        `columns` gives the axis and the role (see `Pieces.column`) of each column by its name; `noises` the names of
        columns of `noise_of_rows` by their axes. Beside them stand the weight of each row, "w", and its number, "i". If
        the relation is complete, "there" tells whether a row may hold any of its bins' count: a single real number may,
        though it has no share of it, unless its bins are even.
        """
        made = {}
        for name, (axis, role) in columns.items():
            values = self.pieces[axis].column(role)
            rows = pa.array(self.piece_of_row[axis].astype(np.int32))
            coded = values.type == pa.string() and values.null_count == 0
            made[name] = pa.DictionaryArray.from_arrays(rows, values) if coded else values.take(rows)
        made["w"] = pa.array(self.weights)
        made["i"] = pa.array(np.arange(len(self.weights)))
        if self.complete:
            there = self._whole_counts[tuple(self.piece_of_row.values())].reshape(-1) != 0
            for axis, piece in self.pieces.items():
                if piece.attribute.is_even:
                    there &= ((piece.share != 0) | piece.is_unknown)[self.piece_of_row[axis]]
            made["there"] = pa.array(there)
        for axes, name in noises.items():
            made[name] = pa.array(self.noise_of_rows(axes))
        return pa.table(made)

    def _ranges(self, chosen: dict[int, NDArray[np.intp]]) -> Workload:
        """Return ranges of cells: `chosen` has, for some axes, the piece of each range; other axes are taken whole."""
        count = len(next(iter(chosen.values()))) if chosen else 1
        lower = np.zeros((count, len(self.shape)), np.int64)
        upper = np.tile(np.array(self.shape), (count, 1))
        for axis, piece in chosen.items():
            lower[:, axis], upper[:, axis] = self.pieces[axis].first_cell[piece], self.pieces[axis].end_cell[piece]
        return Workload(self.shape, lower, upper)


class Entering(NamedTuple):
    """Linear functionals of rows: the rows that enter each result, with the coefficients of their counts.

    `low` and `high` are the extremes of the coefficient inside the row's bins of unknown distribution, and `even` is
    the range of the coefficient inside bins declared even.
    """

    result: Places
    row: Places
    factor: Floats
    low: Floats
    high: Floats
    even: Floats

    def kept(self, some: Bools) -> "Entering":
        """Return the functionals restricted to some of the rows."""
        result, row, factor, low, high, even = self
        return Entering(result[some], row[some], factor[some], low[some], high[some], even[some])


@dataclass(frozen=True, slots=True, eq=False)
class ResultCells:
    """The rows of each result grouped into cells of whole bins: the cell of each row, result and bins of each cell."""

    relation: Relation
    cell: Places
    result: Places
    bins: dict[int, Places]
    is_partial: Bools
    """Whether some parts of a cell do not enter its result."""

    def __len__(self) -> int:
        return len(self.result)

    def siblings(self) -> tuple[Places, Places]:
        """Return all rows of all cells, also those that do not enter: the cell of each and the row."""
        cell, row = np.arange(len(self)), np.zeros(len(self), np.int64)
        for axis, pieces in self.relation.pieces.items():
            bins = self.bins[axis][cell]
            number, first = pieces.pieces_per_unknown_bin[bins], np.searchsorted(pieces.unknown_bin, bins)
            again = np.repeat(np.arange(len(cell)), number)
            place = np.arange(len(again)) - np.repeat(np.cumsum(number) - number, number)
            cell, row = cell[again], row[again] * len(pieces) + first[again] + place
        return cell, row


def cells_of_results(relation: Relation, entering: Entering) -> ResultCells:
    """Group the rows that are parts of one bin of unknown distribution."""
    code, whole = entering.result, np.ones(len(entering.result))
    bins = {}
    for axis, pieces in relation.pieces.items():
        bins[axis] = pieces.unknown_bin[relation.piece_of_row[axis][entering.row]]
        whole = whole * pieces.pieces_per_unknown_bin[bins[axis]]
        code = code * len(pieces) + bins[axis]
    _, first, cell = np.unique(code, return_index=True, return_inverse=True)
    partial = np.bincount(cell, minlength=len(first)) < whole[first]
    return ResultCells(relation, cell, entering.result[first], {a: of[first] for a, of in bins.items()}, partial)


def extremes(entering: Entering, cells: ResultCells) -> tuple[Floats, Floats]:
    """Return the least and the greatest coefficient in each cell."""
    low, high = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    np.minimum.at(low, cells.cell, entering.low)
    np.maximum.at(high, cells.cell, entering.high)
    low[cells.is_partial] = np.minimum(low[cells.is_partial], 0.0)
    high[cells.is_partial] = np.maximum(high[cells.is_partial], 0.0)
    return low, high


def farthest_values(entering: Entering, results: int) -> tuple[Floats, Floats]:
    """Return the least and the greatest coefficient of each result's rows; NaN where one is unknown."""
    low, high = np.full(results, np.inf), np.full(results, -np.inf)
    np.minimum.at(low, entering.result, entering.low)
    np.maximum.at(high, entering.result, entering.high)
    return low, high


def words(relation: Relation, entering: Entering, cells: ResultCells, results: int) -> list[str]:
    """Return the text on the bins that each result cuts."""
    said: list[list[str]] = [[] for _ in range(results)]
    for axis, pieces in relation.pieces.items():
        if not pieces.is_cut:
            continue
        blamed = cells.is_partial & ~_taken_alike(relation, entering, cells, axis)
        there = np.unique(np.stack([cells.result[blamed], cells.bins[axis][blamed]]), axis=1)
        lowest = pieces.first_cell[np.searchsorted(pieces.unknown_bin, there[1])]
        for result in np.unique(there[0]).tolist():
            said[result].append(cut_words(pieces.attribute, lowest[there[0] == result]))
    return ["; ".join(parts) for parts in said]


def _taken_alike(relation: Relation, entering: Entering, cells: ResultCells, axis: int) -> Bools:
    """Return which cells are whole along an axis: with any part on the other axes, all parts on this one enter."""
    code = cells.cell
    for other, pieces in relation.pieces.items():
        if other != axis:
            code = code * len(pieces) + relation.piece_of_row[other][entering.row]
    first = np.unique(code, return_index=True)[1]
    lines = np.bincount(cells.cell[first], minlength=len(cells))
    parts = relation.pieces[axis].pieces_per_unknown_bin[cells.bins[axis]]
    return np.asarray(lines * parts == np.bincount(cells.cell, minlength=len(cells)))


def by_chance(relation: Relation, entering: Entering, results: int) -> Floats:
    """Return the variance of results from the random positions of rows in bins declared even.

    N rows with coefficient f, of mean m over the cell, add N times the mean of (f - m)^2. The variance of a coefficient
    that varies inside a part is at most a quarter of its squared range.
    """
    even = [axis for axis, pieces in relation.pieces.items() if pieces.attribute.is_even and pieces.is_part.any()]
    weight = relation.weights[entering.row]
    variance = np.bincount(entering.result, weight * entering.even**2 / 4, minlength=results)
    if even:
        shape = [len(pieces) for pieces in relation.pieces.values()]
        code, of_row = entering.result, np.zeros(len(relation.weights), np.int64)
        for number, (axis, pieces) in enumerate(relation.pieces.items()):
            bins = pieces.bin_of_piece if axis in even else np.arange(len(pieces))
            code = code * shape[number] + bins[relation.piece_of_row[axis][entering.row]]
            of_row = of_row * shape[number] + bins[relation.piece_of_row[axis]]
        rows = np.bincount(of_row, relation.weights)[of_row]  # of each row, those of its whole cell
        _, first, cell = np.unique(code, return_index=True, return_inverse=True)
        sums = np.bincount(cell, weight * entering.factor)
        whole = rows[entering.row[first]]
        together = np.divide(sums**2, whole, out=np.zeros_like(sums), where=whole != 0)
        variance = variance + np.bincount(entering.result, weight * entering.factor**2, minlength=results)
        variance = variance - np.bincount(entering.result[first], together, minlength=results)
    return np.maximum(variance, 0.0)
