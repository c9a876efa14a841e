"""The rows that a query is run on: an estimate and the pieces of the axes it uses enter; an Arrow table leaves.

Axes that the query does not use are summed out, so a question on two attributes of a huge cube touches only their
marginal (`Estimate.marginal`).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.core.memory import check_memory
from dpcube.models import Estimate
from dpcube.queries import Workload
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
