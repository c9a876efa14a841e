"""What estimates with a count for every cell have in common: marginals, synthetic rows and answers by their cells."""

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from dpcube.core.arrays import Floats, Ints, Places
from dpcube.core.boxes import MAX_LABELLED_CELLS, Boxes
from dpcube.core.memory import check_memory
from dpcube.models.cell_sums import non_negative
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.protocol import DENSE_CELLS, Estimate, Queries, marginal_cells
from dpcube.models.sampling import Generator, cells_in_boxes, rows_to_draw, stratified_places
from dpcube.queries import CountingQueries, Workload

BYTES_TO_SUM, BYTES_TO_DRAW = 16, 32
"""Of each cell: the estimate and a sum of it; the estimate, its copy without negatives, its order and its sums."""


class _Answering(Estimate, Protocol):
    """An estimate that answers ranges and counting queries each in its own way."""

    def range_values(self, workload: Workload) -> Floats: ...

    def range_errors(self, workload: Workload) -> ErrorParts: ...

    def weighed_values(self, queries: CountingQueries) -> Floats: ...

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]: ...

    def evenly_spread(self) -> tuple[Boxes, Floats] | None: ...


class CellwiseEstimate:
    """Base of estimates of every cell: all of the `Estimate` protocol but `cells` and the answers to either query.

    A subclass has `range_values` and `range_errors` for ranges, and `weighed` for both of counting queries.
    """

    is_inferred = False

    @property
    def is_materialisable(self: Estimate) -> bool:
        """Whether every cell can be laid out."""
        return math.prod(self.shape) <= MAX_LABELLED_CELLS

    def values(self: _Answering, queries: Queries) -> Floats:
        """Return the estimated answers."""
        return self.range_values(queries) if isinstance(queries, Workload) else self.weighed_values(queries)

    def errors(self: _Answering, queries: Queries) -> ErrorParts:
        """Return the parts of their errors."""
        return self.range_errors(queries) if isinstance(queries, Workload) else self.weighed(queries)[1]

    def answers(self: _Answering, queries: Queries) -> tuple[Floats, ErrorParts]:
        """Return both."""
        if isinstance(queries, Workload):
            return self.range_values(queries), self.range_errors(queries)
        return self.weighed(queries)

    def weighed_values(self: _Answering, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return self.weighed(queries)[0]

    def marginal(self: Estimate, axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Floats:
        """Return the table over some axes: sums of cells, or ranges of a cube of very many."""
        size = math.prod(self.shape)
        if size > DENSE_CELLS:
            wanted = marginal_cells(self.shape, axes, starts)
            sides = [self.shape[axis] for axis in axes] if starts is None else list(map(len, starts))
            return self.values(wanted).reshape(sides)
        check_memory(size * BYTES_TO_SUM, what="the estimate of every cell", remedy="use a larger machine")
        unused = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        table = np.asarray(self.cells().sum(axis=unused))
        for place, first in enumerate(starts or ()):
            table = np.add.reduceat(table, first, axis=place)
        return table

    def evenly_spread(self) -> tuple[Boxes, Floats] | None:
        """Return the boxes that rows are spread evenly in, and their totals, if the estimate is no more than these."""
        return None

    def draw(
        self: _Answering, rows: int | None, generator: Generator, *, batch: int | None = None
    ) -> Iterator[tuple[Places, ...]]:
        """Return the cells of synthetic rows, by counts of cells of which none is below zero."""
        size, spread = math.prod(self.shape), self.evenly_spread()
        if size > MAX_LABELLED_CELLS and spread is not None:
            return cells_in_boxes(*spread, rows, generator, batch=batch)
        check_memory(size * BYTES_TO_DRAW, what=f"a cube of {size:,} cells", remedy="use a larger machine")
        expected = non_negative(self.cells())
        drawn = stratified_places(expected, rows_to_draw(rows, float(expected.sum())), generator, batch=batch)
        return (np.unravel_index(one, self.shape) for one in drawn)

    def without_order(self: Estimate, axes: tuple[int, ...]) -> Estimate:  # noqa: ARG002 (the same for any order)
        """Return the estimate itself: it takes no values for alike because they are neighbours."""
        return self

    @property
    def marginal_model(self) -> None:
        """No model of marginals: every cell is estimated."""
        return
