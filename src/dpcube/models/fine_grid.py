"""Estimate of a grid too large to materialise: consistent totals of boxes, none below zero, spread evenly in leaves.

Totals are those of a posterior, which learns from the tree's own splits how uneven the halves of boxes are, level by
level (`posterior/`). Dividing each total among halves by least squares, none below zero, would not do: around a clump
the noise of empty boxes is kept where it is above zero and cut where it is below, level after level, and what is kept
is taken from the clump. One of 4,000 rows in a single cell, counted to within 6, came out at 3,846 so.

Inside its leaves rows are spread evenly. The non-uniformity error of that is estimated from the same splits: a leaf is
as uneven as the cut it never got. The noise is that of least squares on the same counts (`least_squares_tree.py`),
which is unbiased. Where an answer departs from what that says by more than its noise, the departure is stated instead:
the confidence interval then reaches from the answer to what the counts say, and beyond.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpcube.core.arrays import Floats, Places
from dpcube.core.boxes import filled_boxes
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import AxisWeights, axis_weights, even_measure, everything, ranges_by_weights
from dpcube.models.errors.level_walk import FEW, WalkedTree, walked
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.errors.walks import node_sums, split_sums
from dpcube.models.least_squares_tree import least_squares_totals, least_squares_variances
from dpcube.models.posterior import infer
from dpcube.models.protocol import DENSE_CELLS, Arrays, EstimateArrays, small_ints
from dpcube.models.sampling import Generator, cells_in_boxes
from dpcube.queries import CountingQueries, Workload
from dpcube.trees.tree import BoxTree, CutTree

if TYPE_CHECKING:
    from dpcube.measurements import BoxCounts

GRID_ROUNDS = 2
"""Rounds of inference by which the tree learns how uneven its boxes are."""


class GridTree(CellwiseEstimate):
    """Base of estimates of a fine grid by a tree of totals; arrays have shape (nodes,)."""

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
            """Totals of the nodes, none below zero."""

        @property
        def subtree_variance(self) -> Floats:
            """Variance of what each subtree says of its total (`least_squares_tree.py`)."""

        @property
        def uneven(self) -> Floats:
            """Of each leaf what, times f (1 - f), is the variance of the count in a part f of it."""

        @property
        def unbiased(self) -> Floats:
            """The totals by least squares, below zero where they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.tree.shape

    @property
    def is_materialisable(self) -> bool:
        """Whether every cell can be laid out; of a finer grid only boxes are."""
        return math.prod(self.shape) <= DENSE_CELLS

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        leaves = self.tree.leaf_boxes
        return filled_boxes(leaves, self.totals[self.tree.leaves] / leaves.sizes)

    def draw(self, rows: int | None, generator: Generator, *, batch: int | None = None) -> Iterator[tuple[Places, ...]]:
        """Return the cells of synthetic rows: in each leaf its share of them, evenly placed."""
        return cells_in_boxes(self.tree.leaf_boxes, self.totals[self.tree.leaves], rows, generator, batch=batch)

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        asked = axis_weights(queries, *even_measure(self.shape))
        values, within = self._walked(asked)
        return values, ErrorParts(self._noise(asked, values), within)

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return self._walked(axis_weights(queries, *even_measure(self.shape)))[0]

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        return self._walked(self._everything.inside(workload))[0]

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        asked = self._everything.inside(workload)
        values, within = self._walked(asked)
        return ErrorParts(self._noise(asked, values), within)

    def to_arrays(self) -> EstimateArrays:
        """Return the cuts of the tree, its totals with and without a prior, and their variances."""
        tree = self.tree
        arrays: Arrays = {
            "end": small_ints(tree.end),
            "cutAxis": small_ints(tree.cuts.axis),
            "cutPlace": small_ints(tree.cuts.place),
            "totals": self.totals,
            "subtree": self.subtree_variance,
            "uneven": self.uneven,
            "unbiased": self.unbiased,
        }
        return EstimateArrays("grid", {"name": self.name, "shape": list(self.shape)}, arrays)

    @cached_property
    def _everything(self) -> AxisWeights:
        return everything(self.shape, *even_measure(self.shape))

    def _walked(self, asked: AxisWeights) -> tuple[Floats, Floats]:
        found = split_sums(self.tree, self.totals, np.zeros(len(self.totals)), self.uneven, asked, of_total=0.0)
        return found[:, 0], found[:, 2]

    def _noise(self, asked: AxisWeights, values: Floats) -> Floats:
        """Return the variance of least squares, or the square of how far answers depart from it, if that is more."""
        departure = values - node_sums(self.tree, self.unbiased[:, np.newaxis], asked)[:, 0]
        return np.maximum(least_squares_variances(self.tree, self.subtree_variance, asked), departure**2)


@dataclass(frozen=True)
class GridEstimate(GridTree):
    """A fine grid as it is inferred from counts of boxes; arrays have shape (nodes,)."""

    name: str
    tree: BoxTree
    totals: Floats
    subtree_variance: Floats
    uneven: Floats
    unbiased: Floats

    @classmethod
    def from_boxes(cls, name: str, boxes: "BoxCounts", measured: Floats, variance: Floats) -> "GridEstimate":
        """Return the estimate by counts of nodes and their noise variances, shape (nodes,), infinite for no count."""
        unbiased, noise = least_squares_totals(boxes.tree, measured, variance)
        posterior = infer(boxes.tree, measured, variance, rounds=GRID_ROUNDS, evenly=True)
        return cls(name, boxes.tree, posterior.totals, noise, posterior.uneven, unbiased)


@dataclass(frozen=True, eq=False)
class StoredGrid(GridTree):
    """A fine grid as it is stored: few questions are answered without a compiler."""

    name: str
    cuts: CutTree
    totals: Floats
    subtree_variance: Floats
    uneven: Floats
    unbiased: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.cuts.shape

    @property
    def tree(self) -> BoxTree:
        """The tree, for compiled walks."""
        return self.cuts.boxes

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of counting queries and the parts of their errors."""
        if len(queries) > FEW:
            return super().weighed(queries)
        found = walked(self._walked_tree, axis_weights(queries, *even_measure(self.shape)))
        departure = found.value - found.apart[:, 0]
        return found.value, ErrorParts(np.maximum(found.linear, departure**2), found.within)

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return super().weighed_values(queries) if len(queries) > FEW else self.weighed(queries)[0]

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of ranges."""
        few = len(workload) <= FEW
        return self.weighed_values(ranges_by_weights(workload)) if few else super().range_values(workload)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of ranges."""
        few = len(workload) <= FEW
        return self.weighed(ranges_by_weights(workload))[1] if few else super().range_errors(workload)

    @cached_property
    def _walked_tree(self) -> WalkedTree:
        columns = self.unbiased[:, np.newaxis]
        return WalkedTree(self.cuts, self.totals, self.uneven, columns, subtree=self.subtree_variance)


def stored_grid(written: EstimateArrays) -> StoredGrid:
    """Return the grid that was written."""
    shape = tuple(map(int, written.facts["shape"]))
    cuts = CutTree(shape, *(written.ints(name) for name in ("end", "cutAxis", "cutPlace")))
    arrays = (written.floats(name, len(cuts)) for name in ("totals", "subtree", "uneven", "unbiased"))
    return StoredGrid(str(written.facts["name"]), cuts, *arrays)
