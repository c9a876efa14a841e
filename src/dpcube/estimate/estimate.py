"""An estimate of every cell, in a form that answers questions without building every cell.

The estimate of a cell is its box's total spread evenly, plus a detail of its own; either part may be absent. Its noise
variance for a query with cell weights w is, given the boxes,

    cell_variance * sum of w_i^2  +  sum over boxes of box_square * (sum of w_i in the box)^2,

which holds with the right coefficients for every linear estimator here: noise of a box is shared by its cells, noise
of a cell is its own, and least squares moves a cell's noise into its whole box.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.domain import Boxes
from dpcube.domain.box import spread
from dpcube.estimate.kernels import (
    product_overlaps,
    range_sums,
    range_sums_of_boxes,
    subtree_sums,
    summed_area_table,
)
from dpcube.estimate.within import WithinBoxes, evenly_placed_ranges
from dpcube.partition import BoxTree
from dpcube.query import CountingQuery, Workload

Floats = NDArray[np.float64]

DENSE_CELLS = 2**27
"""Cubes up to this size are answered from a table of every cell (1 GiB); larger ones from their boxes if they can."""


class Estimated(NamedTuple):
    """An estimated answer, the variance of its noise, and its expected squared within-box error."""

    value: float
    noise_variance: float
    within_square: float


@dataclass(frozen=True)
class BoxPart:
    """Totals of the leaves of a tree, spread evenly inside each, and the noise they carry."""

    tree: BoxTree
    totals: Floats
    square: Floats

    @cached_property
    def leaves(self) -> Boxes:
        """The boxes, in the order of `totals`."""
        at = self.tree.leaves
        return Boxes(self.tree.shape, self.tree.lower[at], self.tree.upper[at])

    @cached_property
    def density(self) -> Floats:
        """Estimated count of each cell of each box."""
        return self.totals / self.leaves.sizes

    def weights(self, query: CountingQuery) -> Floats:
        """Return the query's total weight in each box."""
        prefixes = [np.concatenate([[0.0], np.cumsum(weights)]) for weights in query.weights]
        start = np.cumsum([0, *(len(prefix) for prefix in prefixes[:-1])])
        return product_overlaps(self.leaves.lower, self.leaves.upper, np.concatenate(prefixes), start)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated count of each range, from the boxes alone."""
        return self._descend(workload, self.density[:, None], np.zeros((len(self.totals), 1)))[:, 0]

    def range_squares(self, workload: Workload) -> Floats:
        """Return for each range two sums over boxes, s = cells of the box in it: square * s^2 and s^2/n, as columns."""
        coefficients = np.stack([self.square, 1 / self.leaves.sizes], axis=1)
        return self._descend(workload, np.zeros_like(coefficients), coefficients)

    def _descend(self, workload: Workload, linear: Floats, square: Floats) -> Floats:
        tree, sizes = self.tree, self.leaves.sizes[:, None]
        of_node = np.zeros((3, len(tree), linear.shape[1]))
        of_node[:, tree.leaves] = sizes * (linear + square * sizes), linear, square
        inside = subtree_sums(tree.parent, of_node[0])
        return range_sums_of_boxes(
            tree.lower, tree.upper, tree.end, inside, of_node[1], of_node[2], workload.lower, workload.upper
        )


class Estimate(Protocol):
    """An estimate of the whole cube: what every estimator gives and every answer comes from."""

    @property
    def name(self) -> str:
        """Name of the estimator."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        ...

    def answer(self, query: CountingQuery) -> Estimated:
        """Return the estimated answer of one query and what its error is made of."""
        ...

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        ...

    def range_errors(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return the noise variances and the expected squared within-box errors of many ranges."""
        ...


@dataclass(frozen=True)
class BoxEstimate:
    """An estimate by totals of boxes and details of cells, each linear in what was measured."""

    name: str
    shape: tuple[int, ...]
    boxes: BoxPart | None = None
    detail: Floats | None = None
    cell_variance: float = 0.0
    within: WithinBoxes | None = None

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        if self.boxes is None:
            assert self.detail is not None
            return self.detail.copy()
        cells = spread(self.boxes.leaves, self.boxes.density)
        return cells if self.detail is None else cells + self.detail

    def answer(self, query: CountingQuery) -> Estimated:
        """Return the estimated answer of one query and what its error is made of."""
        value = 0.0 if self.detail is None else _contract(self.detail, query)
        squares = float(np.prod([np.sum(w * w) for w in query.weights]))
        variance, within = self.cell_variance * squares, 0.0
        if self.boxes is not None:
            weights = self.boxes.weights(query)
            value += float(weights @ self.boxes.density)
            variance += float(weights**2 @ self.boxes.square)
            if self.within is not None:
                guess = np.array([_contract(self.within.deviation, query)])
                cut = np.array([squares - float(weights**2 @ (1 / self.boxes.leaves.sizes))])
                within = float(self.within.expected_square(guess, cut, self._within_ratio)[0])
        return Estimated(value, max(variance, 0.0), within)

    @cached_property
    def _within_ratio(self) -> float:
        assert self.within is not None
        assert self.boxes is not None
        ranges = evenly_placed_ranges(self.shape)
        cuts = ranges.sizes - self.boxes.range_squares(ranges)[:, 1]
        return self.within.pooled_ratio(self.within.range_guesses(ranges), cuts)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if self.boxes is not None and self.detail is None and np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self.boxes.range_values(workload)
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return the noise variances and the expected squared within-box errors of many ranges."""
        variances: Floats = np.multiply(self.cell_variance, workload.sizes, dtype=np.float64)
        withins = np.zeros(len(workload))
        if self.boxes is not None:
            box_variances, squares = self.boxes.range_squares(workload).T
            variances = np.maximum(variances + box_variances, 0.0)
            if self.within is not None:
                guesses, cuts = self.within.range_guesses(workload), workload.sizes - squares
                withins = self.within.expected_square(guesses, cuts, self._within_ratio)
        return variances, withins


def _contract(cells: Floats, query: CountingQuery) -> float:
    """Return the sum of cells times weights, over the smallest sub-cube that holds all non-zero weights."""
    window: list[slice] = []
    for weights in query.weights:
        used = np.flatnonzero(weights)
        if len(used) == 0:
            return 0.0
        window.append(slice(int(used[0]), int(used[-1]) + 1))
    rest = cells[tuple(window)]
    for weights, part in zip(reversed(query.weights), reversed(window), strict=True):
        rest = rest @ weights[part]
    return float(rest)
