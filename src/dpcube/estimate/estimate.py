"""An estimate of every cell, in a form that answers questions without building every cell.

The estimate of a cell is its box's total spread evenly, plus a detail of its own; either part may be absent. Its noise
variance for a query with cell weights w is, given the boxes,

    cell_variance * sum of w_i^2  +  sum over boxes of box_square * (sum of w_i in the box)^2,

which holds with the right coefficients for every linear estimator here: noise of a box is shared by its cells, noise
of a cell is its own, and least squares moves a cell's noise into its whole box.
"""

import math
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
    summed_area_table,
    sums_over_boxes,
)
from dpcube.estimate.within import REACHED, WithinBoxes, leaf_boxes
from dpcube.partition import BoxTree
from dpcube.query import CountingQuery, Workload

Floats = NDArray[np.float64]

DENSE_CELLS = 2**27
"""Cubes up to this size are answered from a table of every cell (1 GiB); larger ones from their boxes if they can."""


class EqualNoises(NamedTuple):
    """A law of noise that is known exactly: `weight` times the sum of so many noises P(z) ~ exp(-alpha|z|)."""

    alpha: float
    weight: float
    number: int


class Estimated(NamedTuple):
    """An estimated answer, its noise variance, its expected squared within-box error, and its exact law if known."""

    value: float
    noise_variance: float
    within_square: float
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

    def weights(self, query: CountingQuery) -> Floats:
        """Return the query's total weight in each box."""
        prefixes = [np.concatenate([[0.0], np.cumsum(weights)]) for weights in query.weights]
        start = np.cumsum([0, *(len(prefix) for prefix in prefixes[:-1])])
        return product_overlaps(self.leaves.lower, self.leaves.upper, np.concatenate(prefixes), start)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated count of each range, from the boxes alone."""
        density = self.density[:, None]
        return sums_over_boxes(self.tree, density, np.zeros_like(density), workload)[:, 0]

    def range_squares(self, workload: Workload) -> Floats:
        """Return three sums over boxes for each range, s = cells of the box in it, as columns.

        They are square * s^2 (noise), s - s^2/n (cut), and how wrong the boxes that the range cuts can be (worst).
        """
        n, nothing = self.leaves.sizes, np.zeros(len(self.totals))
        linear = np.stack([nothing, nothing + 1, self.totals * self.density], axis=1)
        square = np.stack([self.square, -1 / n, -REACHED * self.density**2], axis=1)
        whole = np.stack([self.square * n.astype(np.float64) ** 2, nothing, nothing], axis=1)
        return sums_over_boxes(self.tree, linear, square, workload, whole=whole)


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

    def answer(self, query: CountingQuery) -> Estimated:
        """Return the estimated answer of one query and what its error is made of."""
        value, noises = 0.0 if self.detail is None else _contract(self.detail, query), None
        squares = float(np.prod([np.sum(w * w) for w in query.weights]))
        variance, within = self.cell_variance * squares, 0.0
        if self.alpha is not None and self.boxes is None:
            noises = _equal_noises(self.alpha, [w[w > 0] for w in query.weights])
        if self.boxes is not None:
            weights = self.boxes.weights(query)
            if self.alpha is not None:
                noises = _equal_noises(self.alpha, [weights[weights > 0] / self.boxes.leaves.sizes[weights > 0]])
            value += float(weights @ self.boxes.density)
            variance += float(weights**2 @ self.boxes.square)
            if self.within is not None:
                n, guess = self.boxes.leaves.sizes, _contract(self.within.deviation, query)
                cut = self.boxes.weights(CountingQuery(tuple(w * w for w in query.weights))) - weights**2 / n
                even = weights * self.boxes.density
                worst = np.where(cut > 1e-12 * n, even * (self.boxes.totals - REACHED * even), 0.0)
                asked = (guess, float(cut.sum()), float(worst.sum()))
                within = float(self.within.expected_square(*map(np.array, asked)))
        return Estimated(value, max(variance, 0.0), within, noises)

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
            box_variances, cuts, worst = self.boxes.range_squares(workload).T
            variances = np.maximum(variances + box_variances, 0.0)
            if self.within is not None:
                withins = self.within.expected_square(self.within.range_guesses(workload), cuts, worst)
        return variances, withins


def _equal_noises(alpha: float, weights: list[Floats]) -> EqualNoises | None:
    """Return the law of the sum of noises times the products of weights, one of each axis, if these are all alike."""
    if any(len(w) == 0 or np.ptp(w) > 1e-12 * w[0] for w in weights):
        return None
    return EqualNoises(alpha, math.prod(float(w[0]) for w in weights), math.prod(map(len, weights)))


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
