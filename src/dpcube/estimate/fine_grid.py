"""An estimate of a fine grid, whose cells nobody could hold: totals of boxes that add up, none below zero.

Inside its leaves rows are spread evenly. What that misses is taken from the tree's own splits: a posterior learns how
uneven the halves of boxes are, level by level (`posterior/`), and a leaf is as uneven as the cut it never got. The
noise is that of least squares on the same counts (`least_squares_tree.py`); that no total is below zero takes some of
it away.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.arrays import Floats
from dpcube.estimate.errors.axis_weights import AxisWeights, axis_weights, even_measure, everything
from dpcube.estimate.errors.parts import ErrorParts
from dpcube.estimate.errors.walks import split_sums
from dpcube.estimate.least_squares_tree import LeastSquaresTree, least_squares_variances
from dpcube.estimate.posterior import infer
from dpcube.estimate.tree_totals import consistent_totals, pooled_counts
from dpcube.query import CountingQueries, Workload
from dpcube.transcript import BoxCounts

GRID_ROUNDS = 2
"""Rounds of inference by which the tree learns how uneven its boxes are."""


@dataclass(frozen=True)
class GridEstimate(LeastSquaresTree):
    """Totals of a tree, and of each leaf what, times f (1 - f), is the variance of the count in a part f of it."""

    uneven: Floats

    @classmethod
    def of(cls, name: str, boxes: BoxCounts, measured: Floats, variance: Floats) -> "GridEstimate":
        """Return the estimate by counts of nodes and their noise variances, shape (nodes,), infinite for no count."""
        totals = consistent_totals(boxes.tree, measured, variance)
        noise = pooled_counts(boxes.tree, measured, variance)[1]
        uneven = infer(boxes.tree, measured, variance, rounds=GRID_ROUNDS, evenly=True).uneven
        return cls(name, boxes.tree, totals, noise, uneven)

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        asked = axis_weights(queries, *even_measure(self.shape))
        values, within = self._walked(asked)
        return values, ErrorParts(self._noise(asked), within)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        return self._walked(self._everything.inside(workload))[0]

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        asked = self._everything.inside(workload)
        return ErrorParts(self._noise(asked), self._walked(asked)[1])

    @cached_property
    def _everything(self) -> AxisWeights:
        return everything(self.shape, *even_measure(self.shape))

    def _walked(self, asked: AxisWeights) -> tuple[Floats, Floats]:
        found = split_sums(self.tree, self.totals, np.zeros(len(self.tree)), self.uneven, asked, of_total=0.0)
        return found[:, 0], found[:, 2]

    def _noise(self, asked: AxisWeights) -> Floats:
        return least_squares_variances(self.tree, self.subtree_variance, asked)
