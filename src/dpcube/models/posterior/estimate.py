"""Estimates by the posterior of a tree: a total for every node, and how uncertain every split is."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import (
    AxisWeights,
    axis_starts,
    axis_weights,
    cells_taken_of_first,
    everything,
    largest_weights,
    number_asked,
)
from dpcube.models.errors.biases import Biases
from dpcube.models.errors.box_tables import worthwhile
from dpcube.models.errors.halving_table import HalvingTable
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.errors.walks import hidden_squares, node_sums, split_sums
from dpcube.models.posterior.calibration import Probes, calibrated_splits, learnt_biases, probed
from dpcube.models.posterior.inference import Posterior, Whole
from dpcube.models.protocol import DENSE_CELLS, Arrays, EstimateArrays, small_ints
from dpcube.queries import CountingQueries, Workload
from dpcube.trees.tree import BoxTree


@compiled
def fill_cells(
    cells: Floats, strides: Ints, lower: Ints, upper: Ints, total: Floats, prefix: Floats, start: Ints
) -> None:
    """Write into every cell of every box its part of the box's total, in proportion to the product of the marginals.

    `cells` is the flat cube and `strides` how far apart neighbours on each axis are in it; `lower` and `upper` have
    shape (boxes, axes), `total` (boxes,). Axis j's prefix sums of its marginal begin at `start[j]` of `prefix`.
    """
    dims = lower.shape[1]
    index = np.empty(dims, np.int64)
    for box in range(len(lower)):
        density = total[box]
        for axis in range(dims):
            index[axis] = lower[box, axis]
            density /= prefix[start[axis] + upper[box, axis]] - prefix[start[axis] + lower[box, axis]]
        while index[0] < upper[box, 0]:
            part, at = density, 0
            for axis in range(dims - 1):
                part *= prefix[start[axis] + index[axis] + 1] - prefix[start[axis] + index[axis]]
                at += index[axis] * strides[axis]
            last = start[dims - 1]
            for cell in range(lower[box, dims - 1], upper[box, dims - 1]):
                cells[at + cell] = part * (prefix[last + cell + 1] - prefix[last + cell])
            index[dims - 1] = upper[box, dims - 1]
            for axis in range(dims - 1, 0, -1):
                if index[axis] == upper[box, axis]:
                    index[axis] = lower[box, axis]
                    index[axis - 1] += 1


MAX_PROBED_CELLS = 2**22
"""In cubes up to so many cells every answer is compared with its counts; in larger ones none is, for that takes a table
of every cell for each probe."""


class TreeEstimate(CellwiseEstimate):
    """Base of estimates by a binary tree of totals, with the variance of every split and a spread inside each leaf.

    Arrays have shape (nodes,) but where said.
    """

    is_inferred = True

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """Name of the estimator."""

        @property
        def tree(self) -> BoxTree:
            """The tree."""

        @property
        def totals(self) -> Floats:
            """Totals of the nodes."""

        @property
        def splits(self) -> Floats:
            """Variance of the split below each node, as it is stated; 0 for a leaf."""

        @property
        def uneven(self) -> Floats:
            """Of each leaf what, times f (1 - f), is the variance of the count in a part f of it; else 0."""

        @property
        def measure(self) -> Floats:
            """Marginals of the attributes as prefix sums, by which totals are spread over cells (`AxisWeights`)."""

        @property
        def of_total(self) -> float:
            """Variance of the total of the cube."""

        @property
        def columns_apart(self) -> Floats:
            """Totals by which biases are judged, `Probes.columns`: shape (nodes, columns)."""

        @property
        def biases(self) -> Biases | None:
            """How biases are judged, if they are."""

        @property
        def unordered(self) -> tuple[int, ...]:
            """Axes of attributes whose values have no order: any value may have all rows of a box that is not cut."""

        def without_order(self, axes: tuple[int, ...]) -> "TreeEstimate":
            """Return the estimate for a cube on some of whose axes values have no order."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.tree.shape

    @property
    def own_splits(self) -> Floats:
        """Variance of the split below each node by the posterior itself."""
        return self.splits

    @cached_property
    def _starts(self) -> Ints:
        return axis_starts(self.shape)

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        return self._spread(self.totals)

    def _spread(self, totals: Floats) -> Floats:
        """Return totals of the nodes, spread over the cells of the leaves as the tree spreads its own."""
        leaves, cells = self.tree.leaves, np.zeros(self.shape)
        strides = np.array(cells.strides, np.int64) // cells.itemsize
        lower, upper = self.tree.lower[leaves], self.tree.upper[leaves]
        fill_cells(cells.reshape(-1), strides, lower, upper, totals[leaves], self.measure, self._starts)
        return cells

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        asked = axis_weights(queries, self.measure, self._starts)
        values, variances, nonuniformity_squares = self._walked(asked, self.splits).T
        if self.biases is not None:
            variances = self._biased(queries, variances, nonuniformity_squares, self._apart(asked))
        return values, ErrorParts(variances, nonuniformity_squares + self._hidden(asked))

    def _biased(
        self, queries: CountingQueries, variances: Floats, nonuniformity_squares: Floats, apart: Floats
    ) -> Floats:
        """Return variances raised by biases, if these are judged."""
        if self.biases is None:
            return variances
        return self.biases.added(
            variances,
            nonuniformity_squares,
            apart,
            asked=number_asked(queries),
            periods=cells_taken_of_first(queries),
            largest=largest_weights(queries),
        )

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries, which take no probes."""
        return self._walked(axis_weights(queries, self.measure, self._starts), self.own_splits)[:, 0]

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self._walked(self._everything.inside(workload), self.own_splits)[:, 0]
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges: from a table for very many, else by a walk for each."""
        if self.tree.is_halved and worthwhile(HalvingTable.numbers(self.shape), len(workload)):
            variances, nonuniformity_squares = self._error_table.variances(workload)
            return self._with_biases(variances, nonuniformity_squares, lambda: self._many_apart(workload), workload)
        asked = self._everything.inside(workload)
        _, variances, nonuniformity_squares = self._walked(asked, self.splits).T
        return self._with_biases(variances, nonuniformity_squares, lambda: self._apart(asked), workload)

    def own_squares(self, asked: CountingQueries | Workload) -> Floats:
        """Return the squared errors that the posterior states by itself, without any bias."""
        if isinstance(asked, Workload):
            taken = self._everything.inside(asked)
        else:
            taken = axis_weights(asked, self.measure, self._starts)
        squares: Floats = self._walked(taken, self.own_splits)[:, 1:].sum(axis=1)
        return squares

    def errors_beside_own(self, queries: CountingQueries) -> tuple[ErrorParts, Floats]:
        """Return the parts of the errors of counting queries, and `own_squares`."""
        return self.errors(queries), self.own_squares(queries)

    def _with_biases(
        self, variances: Floats, nonuniformity_squares: Floats, apart: Callable[[], Floats], workload: Workload
    ) -> ErrorParts:
        """Return the parts of the errors of ranges, biases among the noise, given what is apart."""
        if self.biases is not None:
            taken = workload.upper - workload.lower
            asked: Ints = np.sum(taken != self.shape, axis=1)
            periods = np.maximum(taken[:, 0], 1).astype(np.float64)
            variances = self.biases.added(variances, nonuniformity_squares, apart(), asked=asked, periods=periods)
        return ErrorParts(variances, nonuniformity_squares + self._hidden(self._everything.inside(workload)))

    def _hidden(self, asked: AxisWeights) -> Floats:
        """Return what squared errors within leaves have beyond those of the prior, where values have no order."""
        if not self.unordered:
            return np.zeros(len(asked.taken))
        return hidden_squares(self.tree, self.totals, self.uneven, asked, unordered=self.unordered)

    def _apart(self, asked: AxisWeights) -> Floats:
        """Return what each question takes of the columns apart, by a walk for each."""
        return node_sums(self.tree, self.columns_apart, asked)

    def _many_apart(self, workload: Workload) -> Floats:
        """Return the same for very many ranges, from tables of every cell."""
        sums = [range_sums(table, workload.lower, workload.upper) for table in self._tables_apart]
        return np.stack(sums, axis=1) if sums else np.zeros((len(workload), 0))

    @cached_property
    def _tables_apart(self) -> list[Floats]:
        return [summed_area_table(self._spread(totals)) for totals in self.columns_apart.T]

    @cached_property
    def _error_table(self) -> HalvingTable:
        variance = self.splits + self.uneven
        return HalvingTable.from_tree(self.tree, variance, self.measure, self._starts, of_total=self.of_total)

    @cached_property
    def _everything(self) -> AxisWeights:
        return everything(self.shape, self.measure, self._starts)

    def _walked(self, asked: AxisWeights, splits: Floats) -> Floats:
        return split_sums(self.tree, self.totals, splits, self.uneven, asked, of_total=self.of_total)

    def to_arrays(self) -> EstimateArrays:
        """Return the cuts of the tree, its totals, variances and columns, and how biases are judged."""
        tree, biases = self.tree, self.biases
        facts = {"name": self.name, "shape": list(self.shape), "columns": self.columns_apart.shape[1]}
        judged = None if biases is None else {**asdict(biases), "raised": [*biases.raised], "beyond": [*biases.beyond]}
        facts |= {"biases": judged, "unordered": list(self.unordered)}
        arrays: Arrays = {
            "ofTotal": np.array([self.of_total]),
            "end": small_ints(tree.end),
            "cutAxis": small_ints(tree.cuts.axis),
            "cutPlace": small_ints(tree.cuts.place),
            "totals": self.totals,
            "variances": np.where(tree.is_leaf, self.uneven, self.splits),
            "apart": self.columns_apart.reshape(-1),
            "measure": self.measure,
        }
        return EstimateArrays("tree", facts, arrays)


@dataclass(frozen=True)
class PosteriorEstimate(TreeEstimate):
    """An estimate of the whole cube by a posterior, inferred from the counts `measured` and their noise `variance`.

    The first error asked of it takes a while, as inference runs again to see how noise moves it: see `probed`.
    """

    name: str
    posterior: Posterior
    measured: Floats
    variance: Floats
    whole: Whole | None = None
    """The count of the whole table that is the posterior's total, if one was given."""
    doubting: bool = False
    """Whether the bias of each answer is judged (`errors/biases.py`); else all errors are raised alike
    (`calibrated_splits`)."""
    unordered: tuple[int, ...] = ()
    periods: bool = False
    """Whether it is of releases that were put together, and its first attribute their period."""

    @property
    def tree(self) -> BoxTree:
        """The tree of the posterior."""
        return self.posterior.tree

    @property
    def totals(self) -> Floats:
        """Totals of the nodes."""
        return self.posterior.totals

    @property
    def own_splits(self) -> Floats:
        """Variance of the split below each node by the posterior itself."""
        return self.posterior.splits

    @property
    def uneven(self) -> Floats:
        """Of each leaf what, times f (1 - f), is the variance of the count in a part f of it; else 0."""
        return self.posterior.uneven

    @property
    def measure(self) -> Floats:
        """Marginals of the attributes as prefix sums."""
        return self.posterior.prefix

    @property
    def of_total(self) -> float:
        """Variance of the total of the cube."""
        return float(self.posterior.variances[0])

    def without_order(self, axes: tuple[int, ...]) -> "PosteriorEstimate":
        """Return the estimate for a cube on some of whose axes values have no order."""
        return replace(self, unordered=axes)

    @cached_property
    def _probes(self) -> Probes:
        """What `probed` returns: computed for the first error, and cached. Values never need it."""
        return probed(self.posterior, self.measured, self.variance, self.whole)

    @cached_property
    def splits(self) -> Floats:
        """Variance of the split below each node, as it is stated."""
        return self.posterior.splits if self.doubting else calibrated_splits(self.posterior, self._probes)

    @property
    def columns_apart(self) -> Floats:
        """Totals of the nodes by which biases are judged, `Probes.columns`; none of a cube that is too large."""
        probed = self.doubting and math.prod(self.shape) <= MAX_PROBED_CELLS
        return self._probes.columns if probed else np.zeros((len(self.posterior.tree), 0))

    @cached_property
    def biases(self) -> Biases | None:
        """How biases are judged, if they are."""
        if not self.doubting:
            return None
        least = float(self.variance.min())
        found = Biases(least)
        if self.columns_apart.shape[1] > 0:
            found = learnt_biases(self.shape, least, self._taken_by_tables, self.own_squares)
        return replace(found, of_total=self.whole is None, periods=self.periods)

    def _taken_by_tables(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return what ranges take of the columns apart, and how far probes move the posterior's answers to them."""
        columns = np.column_stack([self.columns_apart, self._probes.posterior_moves])
        taken = node_sums(self.posterior.tree, columns, self._everything.inside(workload))
        return taken[:, : self.columns_apart.shape[1]], taken[:, self.columns_apart.shape[1] :]
