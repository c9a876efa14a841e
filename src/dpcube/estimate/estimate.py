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

from dpcube.arrays import Floats
from dpcube.estimate.box_tables import BoxTables, worthwhile
from dpcube.estimate.kernels import range_sums, subtree_sums, summed_area_table, sums_over_boxes
from dpcube.estimate.products import (
    axis_weights,
    box_sums,
    cell_sums,
    equal_weights,
    largest_weights,
    squared_weights,
)
from dpcube.estimate.within import REACHED, WithinBoxes, leaf_boxes
from dpcube.geometry.boxes import Boxes, spread
from dpcube.geometry.tree import BoxTree
from dpcube.query import CountingQueries, Workload

DENSE_CELLS = 2**27
"""Cubes up to this size are answered from a table of every cell (1 GiB); larger ones from their boxes if they can."""


class EqualNoises(NamedTuple):
    """Laws of noise that are known exactly: multiples of sums of so many noises P(z) ~ exp(-alpha|z|).

    `numbers` has one entry for each answer, 0 where its error is not known to be such a sum and nothing else.
    """

    alpha: float
    numbers: NDArray[np.int64]


class Errors(NamedTuple):
    """What the errors of answers are made of: noise variances, expected squared within-box errors, exact laws.

    What is not known is NaN, never 0.
    """

    variances: Floats
    withins: Floats
    noises: EqualNoises | None = None


@dataclass(frozen=True)
class BoxPart:
    """Totals of the leaves of a tree, spread evenly inside each, and the noise they carry."""

    tree: BoxTree
    totals: Floats
    square: Floats

    @cached_property
    def leaves(self) -> Boxes:
        """The boxes, in the order of `totals`."""
        return leaf_boxes(self.tree)

    @cached_property
    def density(self) -> Floats:
        """Estimated count of each cell of each box."""
        return self.totals / self.leaves.sizes

    @cached_property
    def variances(self) -> Floats:
        """Noise variance of the total of each box."""
        return self.square * self.leaves.sizes.astype(np.float64) ** 2

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated count of each range, from the boxes alone."""
        density = self.density[:, None]
        return sums_over_boxes(self.tree, density, np.zeros_like(density), workload)[:, 0]

    def range_squares(self, workload: Workload) -> Floats:
        """Return four sums over boxes for each range, as columns, f being the part of a box of n cells in it.

        They are f^2 times the variance (noise), n (f - f^2) (cut), how wrong the boxes that the range cuts can be
        (worst), and f.
        """
        sums = self._terms.shape[1]
        if worthwhile(BoxTables.numbers(self.tree.shape, sums), len(workload)):
            return _settled(self._tables.sums(workload))
        part, square, whole = np.moveaxis(self._terms[self.tree.leaves], 2, 0)
        n = self.leaves.sizes[:, None].astype(np.float64)
        return sums_over_boxes(self.tree, part / n, square / n**2, workload, whole=part + square + whole)

    @cached_property
    def _terms(self) -> Floats:
        """What each node adds to the four sums, if it is a leaf, for its part, its squared part, and as a whole."""
        n, nothing, squares = self.leaves.sizes.astype(np.float64), np.zeros(len(self.totals)), self.totals**2
        terms = np.zeros((len(self.tree), 4, 3))
        terms[self.tree.leaves] = np.moveaxis(
            np.array(
                [
                    (nothing, self.variances, nothing),
                    (n, -n, nothing),
                    (squares, -REACHED * squares, (REACHED - 1) * squares),
                    (nothing + 1, nothing, nothing),
                ]
            ),
            2,
            0,
        )
        return terms

    @cached_property
    def _tables(self) -> BoxTables:
        return BoxTables.of(self.tree, self._terms)

    def product_sums(self, queries: CountingQueries) -> Floats:
        """Return six columns for each query, as `products.box_sums` does."""
        tree = self.tree
        weights = axis_weights(queries, [np.ones(extent) for extent in tree.shape])
        return box_sums(tree.lower, tree.upper, tree.end, self._inside, weights)

    @cached_property
    def _inside(self) -> Floats:
        """Totals, variances and numbers of leaves of every subtree."""
        of_node = np.zeros((len(self.tree), 3))
        of_node[self.tree.leaves] = np.stack([self.totals, self.variances, np.ones(len(self.totals))], axis=1)
        return subtree_sums(self.tree.parent, of_node)


def _settled(sums: Floats) -> Floats:
    """Return the sums of `range_squares`, exact where a range cuts no box: tables leave what rounding makes of it.

    A box of n cells that is cut adds 1 - 1/n to the cut at least.
    """
    uncut = sums[:, 1] < 1 / 4
    sums[uncut, 1:3] = 0.0
    sums[uncut, 3] = np.rint(sums[uncut, 3])
    return sums


def _unknown_where(cuts: Floats) -> Floats:
    """Return the error of spreading boxes evenly where nothing tells it: none for whole boxes, else unknown."""
    return np.where(cuts > 0, np.nan, 0.0)


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

    def answers(self, queries: CountingQueries) -> tuple[Floats, Errors]:
        """Return the estimated answers of many queries and what their errors are made of."""
        ...

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        ...

    def range_errors(self, workload: Workload) -> Errors:
        """Return what the errors of many ranges are made of."""
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
        cells = spread(self.boxes.leaves, self.boxes.density)
        return cells if self.detail is None else cells + self.detail

    def answers(self, queries: CountingQueries) -> tuple[Floats, Errors]:
        """Return the estimated answers of many queries and what their errors are made of."""
        values = np.zeros(len(queries)) if self.detail is None else cell_sums(self.detail, queries)
        variances, withins = self.cell_variance * squared_weights(queries), np.zeros(len(queries))
        if self.boxes is None:
            return values, Errors(variances, withins, self._equal(equal_weights(queries)))
        of_boxes, box_variances, cuts, parts, squares, numbers = self.boxes.product_sums(queries).T
        if self.within is not None:
            worst = largest_weights(queries) * parts - REACHED * squares
            withins = self.within.expected_square(cell_sums(self.within.deviation, queries), cuts, worst)
        elif self.detail is None:
            withins = _unknown_where(cuts)
        variances = np.maximum(variances + box_variances, 0.0)
        return values + of_boxes, Errors(variances, withins, self._equal(numbers))

    def _equal(self, numbers: NDArray[np.int64] | Floats) -> EqualNoises | None:
        return None if self.alpha is None else EqualNoises(self.alpha, numbers.astype(np.int64))

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if self.boxes is not None and self.detail is None and np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self.boxes.range_values(workload)
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> Errors:
        """Return what the errors of many ranges are made of."""
        variances: Floats = np.multiply(self.cell_variance, workload.sizes, dtype=np.float64)
        withins = np.zeros(len(workload))
        if self.boxes is None:
            return Errors(variances, withins, self._equal(workload.sizes))
        box_variances, cuts, worst, boxes = self.boxes.range_squares(workload).T
        if self.within is not None:
            withins = self.within.expected_square(self.within.range_guesses(workload), cuts, worst)
        elif self.detail is None:
            withins = _unknown_where(cuts)
        whole = np.where(cuts == 0, boxes, 0)
        return Errors(np.maximum(variances + box_variances, 0.0), withins, self._equal(whole))
