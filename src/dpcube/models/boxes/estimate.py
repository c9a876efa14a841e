"""An estimate of every cell, in a form that answers questions without building every cell.

The estimate of a cell is its box's total spread evenly, plus a detail of its own; either part may be absent. Its noise
variance for a query with cell weights w is, given the boxes,

    cell_variance * sum of w_i^2  +  sum over boxes of box_square * (sum of w_i in the box)^2,

which holds with the right coefficients for every linear estimator here: noise of a box is shared by its cells, noise
of a cell is its own, and least squares moves a cell's noise into its whole box.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.boxes import Boxes, filled_boxes
from dpcube.models.arrays import Arrays, EstimateArrays, small_ints
from dpcube.models.boxes.part import BoxPart, BoxSums
from dpcube.models.cell_sums import range_sums, summed_area_table, weighted_sums
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import equal_weights, squared_weights
from dpcube.models.errors.nonuniformity import NonUniformity
from dpcube.models.errors.parts import EqualNoises, ErrorParts
from dpcube.models.protocol import DENSE_CELLS
from dpcube.queries import CountingQueries, Workload


@dataclass(frozen=True)
class BoxEstimate(CellwiseEstimate):
    """An estimate by totals of boxes and details of cells, each linear in what was measured."""

    name: str
    shape: tuple[int, ...]
    boxes: BoxPart | None = None
    detail: Floats | None = None
    """What is added to each cell, in the shape of the cube."""
    cell_variance: float = 0.0
    within: NonUniformity | None = None
    """Evidence on the non-uniformity error of the boxes, if there is any."""
    alpha: float | None = None
    """Of the noise, where the estimate is one kind of counts, each measured once and alike: cells, or boxes."""

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        if self.boxes is None:
            assert self.detail is not None
            return self.detail.copy()
        cells = filled_boxes(self.boxes.leaves, self.boxes.density)
        return cells if self.detail is None else cells + self.detail

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        values = np.zeros(len(queries)) if self.detail is None else weighted_sums(self.detail, queries)
        cell_noise = self.cell_variance * squared_weights(queries)
        if self.boxes is None:
            return values, self._cell_errors(cell_noise, equal_weights(queries))
        of_boxes, sums = self.boxes.query_sums(queries)
        return values + of_boxes, self._box_errors(cell_noise, sums, lambda within: within.query_guesses(queries))

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if self.boxes is not None and self.detail is None and np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self.boxes.range_values(workload)
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        cell_noise: Floats = np.multiply(self.cell_variance, workload.sizes, dtype=np.float64)
        if self.boxes is None:
            return self._cell_errors(cell_noise, workload.sizes)
        sums = self.boxes.range_sums(workload)
        return self._box_errors(cell_noise, sums, lambda within: within.range_guesses(workload))

    def evenly_spread(self) -> tuple[Boxes, Floats] | None:
        """Return the boxes and their totals, where cells have no details of their own."""
        return None if self.boxes is None or self.detail is not None else (self.boxes.leaves, self.boxes.totals)

    def to_arrays(self) -> EstimateArrays:
        """Return totals of boxes, details of cells, and evidence on the non-uniformity of boxes, if there are any."""
        facts = {"name": self.name, "shape": list(self.shape), "alpha": self.alpha}
        arrays: Arrays = {"cellVariance": np.array([float(self.cell_variance)])}
        if self.detail is not None:
            arrays["detail"] = self.detail.reshape(-1)
        if self.boxes is not None:
            tree = self.boxes.tree
            bounds = {"end": tree.end, "lower": tree.lower, "upper": tree.upper}
            arrays |= {name: small_ints(of) for name, of in bounds.items()}
            arrays["below"] = self.boxes.below.reshape(-1)
        if self.within is not None:
            ratio = self.within.ratio
            arrays["ratio"] = np.array([self.within.cell_variance, ratio.least, ratio.low, ratio.power])
            arrays["deviation"] = self.within.deviation.reshape(-1)
        return EstimateArrays("boxes", facts, arrays)

    def _cell_errors(self, cell_noise: Floats, numbers: NDArray[np.int64]) -> ErrorParts:
        """Return the errors of sums of noisy cells: noise alone."""
        return ErrorParts(cell_noise, np.zeros(len(cell_noise)), self._equal(numbers))

    def _box_errors(self, cell_noise: Floats, sums: BoxSums, guesses: Callable[[NonUniformity], Floats]) -> ErrorParts:
        """Return the errors of what is taken of boxes: noise, and where boxes are cut the non-uniformity error.

        That one is 0 if cells have details of their own; without details it is expected from the noisy cells, if there
        are any, and else unknown.
        """
        nonuniformity_squares = np.zeros(len(cell_noise))
        if self.within is not None:
            nonuniformity_squares = self.within.expected_square(guesses(self.within), sums.cut, sums.worst)
        elif self.detail is None:
            nonuniformity_squares = np.where(sums.cut > 0, np.nan, 0.0)
        return ErrorParts(np.maximum(cell_noise + sums.variance, 0.0), nonuniformity_squares, self._equal(sums.number))

    def _equal(self, numbers: NDArray[np.int64] | Floats) -> EqualNoises | None:
        return None if self.alpha is None else EqualNoises(self.alpha, numbers.astype(np.int64))
