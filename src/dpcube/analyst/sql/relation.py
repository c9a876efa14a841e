"""The rows that a query is run on: an estimate and the pieces of the axes it uses enter; an Arrow table leaves.

Axes that the query does not use are summed over, so a question on two attributes of a huge cube touches only their
marginal. Up to `DENSE_CELLS` the cells are summed; beyond, each row is a range that the estimate answers from boxes.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.analyst.sql.axes import MOST_ROWS, Pieces
from dpcube.arrays import Floats
from dpcube.domain import Domain
from dpcube.errors import QueryError
from dpcube.estimate import Estimate
from dpcube.memory import check_memory
from dpcube.query import Workload

DENSE_CELLS = 2**27


@dataclass(frozen=True)
class Relation:
    """The product of the pieces of the axes in use, each row with its estimated count.

    Rows whose count is exactly 0 are left out, as a table has no row for what is not in it; `complete` keeps them.
    """

    domain: Domain
    estimate: Estimate
    pieces: dict[int, Pieces]
    complete: bool = False

    def __post_init__(self) -> None:
        rows = math.prod(len(piece) for piece in self.pieces.values())
        if rows > MOST_ROWS:
            sizes = " x ".join(f"{self.domain.names[j]} {len(piece)}" for j, piece in self.pieces.items())
            msg = (
                f"the query needs {rows:,} rows of the cube ({sizes}); at most {MOST_ROWS:,} are made: use fewer "
                "attributes, or compare them with constants in place of grouping by them"
            )
            raise QueryError(msg)
        check_memory(rows * 100, what=f"a query on {rows:,} rows of the cube", remedy="use fewer attributes")

    @cached_property
    def _counts(self) -> Floats:
        """Estimated count of every product of pieces, one axis for each attribute in use."""
        if self.domain.size > DENSE_CELLS:
            counts = self.estimate.range_values(self._workload(None)).reshape([len(p) for p in self.pieces.values()])
        else:
            check_memory(self.domain.size * 16, what="the estimate of every cell", remedy="use a larger machine")
            unused = tuple(axis for axis in range(len(self.domain.shape)) if axis not in self.pieces)
            counts = np.asarray(self.estimate.cells().sum(axis=unused))
            for axis, piece in enumerate(self.pieces.values()):
                counts = np.add.reduceat(counts, piece.lower, axis=axis)
        for axis, piece in enumerate(self.pieces.values()):
            counts = counts * np.expand_dims(piece.share, tuple(range(1, counts.ndim - axis)))
        return counts

    @cached_property
    def index(self) -> dict[int, NDArray[np.intp]]:
        """For each axis in use, the piece of each row."""
        shape = self._counts.shape
        if not shape:
            return {}
        chosen = np.arange(math.prod(shape)) if self.complete else np.flatnonzero(self._counts)
        return dict(zip(self.pieces, np.unravel_index(chosen, shape), strict=True))

    @cached_property
    def weights(self) -> Floats:
        """Estimated count of each row."""
        return self._counts[tuple(self.index.values())].reshape(-1)

    def noise(self, axes: frozenset[int]) -> Floats:
        """Return the noise of each row; that of rows which differ on other axes only adds up to that of their sum."""
        index = {axis: rows for axis, rows in self.index.items() if axis in axes}
        code = np.zeros(len(self.weights), np.int64)
        for axis, rows in index.items():
            code = code * len(self.pieces[axis]) + rows
        _, first, which, alike = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        distinct = {axis: rows[first] for axis, rows in index.items()}
        errors = np.sqrt(self.estimate.range_errors(self._workload(distinct)).noise_variances)
        for axis, rows in distinct.items():
            errors = errors * self.pieces[axis].share[rows]
        return errors[which] / alike[which]

    def table(self, columns: dict[str, tuple[int, str]], noises: dict[frozenset[int], str]) -> pa.Table:
        """Return the rows as an Arrow table: columns of an axis and a role, the weight of each row, and its noise."""
        made = {}
        for name, (axis, role) in columns.items():
            values = self.pieces[axis].column(role)
            rows = pa.array(self.index[axis].astype(np.int32))
            coded = values.type == pa.string() and values.null_count == 0
            made[name] = pa.DictionaryArray.from_arrays(rows, values) if coded else values.take(rows)
        made["w"] = pa.array(self.weights)
        made["i"] = pa.array(np.arange(len(self.weights)))
        for axes, name in noises.items():
            made[name] = pa.array(self.noise(axes))
        return pa.table(made)

    def _workload(self, index: dict[int, NDArray[np.intp]] | None) -> Workload:
        """Return the range of cells of each row in `index`, or of every product of pieces."""
        if index is None:
            grid = np.meshgrid(*(np.arange(len(piece)) for piece in self.pieces.values()), indexing="ij")
            index = {axis: rows.reshape(-1) for axis, rows in zip(self.pieces, grid, strict=True)}
        count = len(next(iter(index.values()))) if index else 1
        lower = np.zeros((count, len(self.domain.shape)), np.int64)
        upper = np.tile(np.array(self.domain.shape), (count, 1))
        for axis, rows in index.items():
            lower[:, axis], upper[:, axis] = self.pieces[axis].lower[rows], self.pieces[axis].upper[rows]
        return Workload(self.domain.shape, lower, upper)
