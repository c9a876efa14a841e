"""The weights of many queries along the axes, laid out for walks down a tree of boxes.

Queries are ranges or counting queries (a product of one weight for each axis). The measure of an axis is how the total
of a box is spread along it: 1 for each cell, or a marginal. The mean weight that a query gives to any box is read from
these arrays in a few steps, as a product over axes of differences of prefix sums.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.errors import QueryError
from dpcube.queries import CountingQueries, Workload

ROW, LOW, HIGH = range(3)
MAX_RANGE_WEIGHTS = 2**26
"""Weights of ranges that are laid out at once."""


class AxisWeights(NamedTuple):
    """The weights of many queries: rows of numbers along the axes, and which of them each query takes, and where.

    A row has one place more than its axis has cells. All rows of all axes stand one after another in `weight`, `until`
    and `sums`. A query gives weight 0 to every cell outside its bounds: so a range is a row of ones and two bounds.
    """

    weight: Floats
    """Weight of each cell, shape (places,)."""
    until: Ints
    """The first later cell that has another weight, shape (places,)."""
    sums: Floats
    """Prefix sums of the measure times the weights, their squares and their sizes, shape (places, 3)."""
    measure: Floats
    """Prefix sums of the measure of each axis, one axis after another: one place more for each than it has cells."""
    start: Ints
    """Where each axis begins in `measure`, shape (axes,)."""
    taken: Ints
    """What each query takes on each axis, shape (queries, axes, 3): where its row begins (ROW), the first cell that it
    takes (LOW) and one past the last (HIGH)."""

    def inside(self, ranges: Workload) -> "AxisWeights":
        """Return the one query of these weights inside each of many ranges."""
        rows = np.broadcast_to(self.taken[:, :, ROW], ranges.lower.shape)
        return self._replace(taken=np.stack([rows, ranges.lower, ranges.upper], axis=2))


def everything(shape: tuple[int, ...], measure: Floats, start: Ints) -> AxisWeights:
    """Return the query that takes every cell with weight 1, given the prefix sums of the measure of each axis.

    Its `inside` are ranges. `measure` and `start` are laid out as in `AxisWeights`.
    """
    until = np.repeat(np.array(shape, np.int64), np.array(shape) + 1)
    sums = np.repeat(measure[:, None], 3, axis=1)
    taken = np.stack([start, np.zeros_like(start), np.array(shape, np.int64)], axis=1)[None]
    return AxisWeights(np.ones(len(measure)), until, sums, np.array(measure), start, taken)


def even_measure(shape: tuple[int, ...]) -> tuple[Floats, Ints]:
    """Return the `measure` and `start` of axes whose cells all count 1."""
    measure = np.concatenate([np.arange(extent + 1.0) for extent in shape])
    return measure, axis_starts(shape)


def axis_starts(shape: tuple[int, ...]) -> Ints:
    """Return where each axis begins if they stand one after another, with one place more than cells for each.

    >>> axis_starts((4, 3, 9))
    array([0, 5, 9])
    """
    return np.cumsum([0, *(extent + 1 for extent in shape[:-1])])


def axis_weights(queries: CountingQueries, measure: Floats, start: Ints) -> AxisWeights:
    """Return the weights of counting queries, given the prefix sums of the measure of each axis."""
    shape = np.array([weights.shape[1] for weights in queries.weights])
    ends = zip(start.tolist(), shape.tolist(), strict=True)
    measures = [np.diff(measure[base : base + cells + 1]) for base, cells in ends]
    rows = [_rows_of_axis(weights, along) for weights, along in zip(queries.weights, measures, strict=True)]
    weight, until, sums = (np.concatenate(part) for part in zip(*rows, strict=True))
    places = [len(weights) * (weights.shape[1] + 1) for weights in queries.weights]
    first = np.cumsum([0, *places[:-1]]) + queries.chosen * (shape + 1)
    measure = np.concatenate([np.append(0.0, np.cumsum(along)) for along in measures])
    taken = np.stack([first, np.zeros_like(first), np.broadcast_to(shape, first.shape)], axis=2)
    return AxisWeights(weight, until, sums, measure, start, taken)


def ranges_by_weights(workload: Workload) -> CountingQueries:
    """Return ranges as counting queries."""
    weights, chosen = [], []
    for axis, side in enumerate(workload.shape):
        ends, which = np.unique(
            np.stack([workload.lower[:, axis], workload.upper[:, axis]], axis=1), axis=0, return_inverse=True
        )
        if len(ends) * side > MAX_RANGE_WEIGHTS:
            msg = f"{len(ends):,} ranges of an attribute of {side:,} cells are too many at once; ask for fewer"
            raise QueryError(msg)
        cells = np.arange(side)
        weights.append(((cells >= ends[:, :1]) & (cells < ends[:, 1:])).astype(np.float64))
        chosen.append(which.reshape(-1))
    return CountingQueries(tuple(weights), np.stack(chosen, axis=1))


def _rows_of_axis(weights: Floats, measure: Floats) -> tuple[Floats, Ints, Floats]:
    """Return `weight`, `until` and `sums` of one axis: its weights have shape (rows, cells), its measure (cells,)."""
    rows, cells = weights.shape
    padded, until = np.zeros((rows, cells + 1)), np.full((rows, cells + 1), cells)
    padded[:, :cells] = weights
    changes = np.where(weights[:, 1:] != weights[:, :-1], np.arange(1, cells), cells)
    until[:, : cells - 1] = np.minimum.accumulate(changes[:, ::-1], axis=1)[:, ::-1]
    prefix = np.zeros((rows, cells + 1, 3))
    for column, factor in enumerate((weights, weights**2, np.abs(weights))):
        np.cumsum(factor * measure, axis=1, out=prefix[:, 1:, column])
    return padded.reshape(-1), until.reshape(-1), prefix.reshape(-1, 3)


def largest_weights(queries: CountingQueries) -> Floats:
    """Return the largest size of a cell's weight in each query."""
    return _product(queries, [np.abs(weights).max(axis=1, initial=0.0) for weights in queries.weights])


def number_asked(queries: CountingQueries) -> Ints:
    """Return of how many attributes each query asks: along how many axes its weights vary."""
    vary = [np.ptp(weights, axis=1) > 0 for weights in queries.weights]
    taken = [of_axis[queries.chosen[:, axis]] for axis, of_axis in enumerate(vary)]
    return np.asarray(np.sum(taken, axis=0), np.int64)


def cells_taken_of_first(queries: CountingQueries) -> Floats:
    """Return how many cells of the first axis each query takes, if it takes them alike: (sum w)^2 / sum w^2."""
    sums, squares = (np.sum(np.abs(queries.weights[0]) ** power, axis=1) for power in (1, 2))
    found: Floats = np.divide(sums**2, squares, out=np.ones_like(sums), where=squares > 0)
    return found[queries.chosen[:, 0]]


def squared_weights(queries: CountingQueries) -> Floats:
    """Return the sum over cells of squared weights of each query."""
    return _product(queries, [np.sum(weights**2, axis=1) for weights in queries.weights])


def equal_weights(queries: CountingQueries) -> Ints:
    """Return how many cells each query takes, if it takes them all with weights of one size; else 0."""
    numbers = []
    for weights in queries.weights:
        size = np.abs(weights)
        alike = np.min(size, axis=1, where=size > 0, initial=np.inf) >= (1 - 1e-12) * size.max(axis=1)
        numbers.append(np.where(alike, np.count_nonzero(size, axis=1), 0).astype(np.float64))
    return _product(queries, numbers).astype(np.int64)


def _product(queries: CountingQueries, of_weights: Sequence[Floats]) -> Floats:
    taken = [numbers[queries.chosen[:, axis]] for axis, numbers in enumerate(of_weights)]
    return np.asarray(np.prod(taken, axis=0), np.float64)
