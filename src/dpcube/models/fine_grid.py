"""An estimate of a fine grid, whose cells nobody could hold: totals of boxes that add up, none below zero.

Totals are those of a posterior, which learns from the tree's own splits how uneven the halves of boxes are, level by
level (`posterior/`). Dividing each total among halves by least squares, none below zero, would not do: around a clump
the noise of empty boxes is kept where it is above zero and cut where it is below, level after level, and what is kept
is taken from the clump. One of 4,000 rows in a single cell, counted to within 6, came out at 3,846 so.

Inside its leaves rows are spread evenly. What that misses is told by the same splits: a leaf is as uneven as the cut it
never got. The noise is that of least squares on the same counts (`least_squares_tree.py`), which is unbiased. Where an
answer departs from what that says by more than its noise, the departure is stated instead: the interval then reaches
from the answer to what the counts say, and beyond.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Floats, Places
from dpcube.measurements import BoxCounts
from dpcube.models.errors.axis_weights import AxisWeights, axis_weights, even_measure, everything
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.errors.walks import node_sums, split_sums
from dpcube.models.least_squares_tree import LeastSquaresTree, least_squares_variances
from dpcube.models.posterior import infer
from dpcube.models.protocol import DENSE_CELLS
from dpcube.models.sampling import Generator, rows_to_draw, stratified_places
from dpcube.models.tree_totals import least_squares_totals
from dpcube.queries import CountingQueries, Workload

GRID_ROUNDS = 2
"""Rounds of inference by which the tree learns how uneven its boxes are."""


@dataclass(frozen=True)
class GridEstimate(LeastSquaresTree):
    """Totals of a tree, and of each leaf what, times f (1 - f), is the variance of the count in a part f of it.

    `unbiased` are the totals by least squares, below zero where they are.
    """

    uneven: Floats
    unbiased: Floats

    @classmethod
    def of(cls, name: str, boxes: BoxCounts, measured: Floats, variance: Floats) -> "GridEstimate":
        """Return the estimate by counts of nodes and their noise variances, shape (nodes,), infinite for no count."""
        unbiased, noise = least_squares_totals(boxes.tree, measured, variance)
        posterior = infer(boxes.tree, measured, variance, rounds=GRID_ROUNDS, evenly=True)
        return cls(name, boxes.tree, posterior.totals, noise, posterior.uneven, unbiased)

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        asked = axis_weights(queries, *even_measure(self.shape))
        values, within = self._walked(asked)
        return values, ErrorParts(self._noise(asked, values), within)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        return self._walked(self._everything.inside(workload))[0]

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        asked = self._everything.inside(workload)
        values, within = self._walked(asked)
        return ErrorParts(self._noise(asked, values), within)

    @property
    def is_materialisable(self) -> bool:
        """Whether every cell can be laid out; of a finer grid only boxes are."""
        return math.prod(self.shape) <= DENSE_CELLS

    def draw(self, rows: int | None, generator: Generator, *, batch: int | None = None) -> Iterator[tuple[Places, ...]]:
        """Return the cells of synthetic rows: in each leaf its share of them, evenly placed."""
        leaves = self.tree.leaf_boxes
        expected = np.maximum(self.totals[self.tree.leaves], 0.0)
        drawn = stratified_places(expected, rows_to_draw(rows, float(expected.sum())), generator, batch=batch)
        return (tuple(generator.integers(leaves.lower[of], leaves.upper[of]).T) for of in drawn)

    @cached_property
    def _everything(self) -> AxisWeights:
        return everything(self.shape, *even_measure(self.shape))

    def _walked(self, asked: AxisWeights) -> tuple[Floats, Floats]:
        found = split_sums(self.tree, self.totals, np.zeros(len(self.tree)), self.uneven, asked, of_total=0.0)
        return found[:, 0], found[:, 2]

    def _noise(self, asked: AxisWeights, values: Floats) -> Floats:
        """Return the variance of least squares, or the square of how far answers depart from it, if that is more."""
        departure = values - node_sums(self.tree, self.unbiased[:, np.newaxis], asked)[:, 0]
        return np.maximum(least_squares_variances(self.tree, self.subtree_variance, asked), departure**2)
