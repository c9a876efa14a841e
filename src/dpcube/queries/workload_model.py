"""Workload model: distributions of range queries, and the expected squared error that boxes and cuts cost them.

Let the *share* of a box be the fraction of its cells that a query covers. The expected squared error of a random query
depends on the distribution through two means:

* F, the mean square of the share of a box: noise of variance v on the count of the box costs F v;
* K, the mean square of the difference between the shares of the two halves of a box: an unmeasured difference between
  the counts of the halves costs K times its square.

Queries are independent across axes, so F and K are products over axes. Boxes are made by halving, so their sides are
intervals of one binary tree for each axis. The model stores the *moments* of these intervals: the mean square of the
number of cells of the interval that a query covers, and the mean product of these numbers for its two halves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.core.errors import InputError
from dpcube.trees.halving import CutOrder


@dataclass(frozen=True, slots=True, eq=False)
class AxisKernel:
    """A distribution of queries on one axis, as the probability that a query covers both of two cells.

    The probability for cells a <= b is before[a] * after[b], plus alone[a] if a = b. The three arrays have shape
    (cells,).
    """

    before: Floats
    after: Floats
    alone: Floats

    def add_moments(self, moments: Floats) -> None:
        """Add the moments of every interval of the axis's tree of halves to `moments`, shape (2 cells, 2).

        Row c is cell c; row cells + m is the interval that is halved at m. The columns are the mean square of the
        number of cells that a query covers, and the mean product of these numbers for the two halves. They are sums
        from the cells up, without cancellation and without another table: an axis may be the whole cube.
        """
        _add_up(self.before, self.after, self.alone, 0, len(self.before), moments)


@compiled
def _add_up(
    before: Floats, after: Floats, alone: Floats, low: int, high: int, moments: Floats
) -> tuple[float, float, float]:
    """Add to the moments of the interval from `low` to `high` and of all below it.

    Return the sums of `before` and of `after` over the interval, and the mean square of the number covered.
    """
    if high - low == 1:
        square = before[low] * after[low] + alone[low]
        moments[low, 0] += square
        return before[low], after[low], square
    middle = (low + high) // 2
    left_before, left_after, left_square = _add_up(before, after, alone, low, middle, moments)
    right_before, right_after, right_square = _add_up(before, after, alone, middle, high, moments)
    product = left_before * right_after
    square = left_square + right_square + 2 * product
    moments[len(before) + middle, 0] += square
    moments[len(before) + middle, 1] += product
    return left_before + right_before, left_after + right_after, square


@compiled
def _row(cells: int, low: int, high: int) -> int:
    """Return the row of an interval in the moments of an axis of this many cells."""
    return low if high - low == 1 else cells + (low + high) // 2


def given_moments(weights: Floats) -> Floats:
    """Return the moments of given queries, shape (2 cells, 2), from their weights on the axis, (queries, cells)."""
    cells = weights.shape[1]
    covered = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    moments = np.zeros((2 * cells, 2))
    moments[:cells, 0] = np.mean(weights**2, axis=0)
    _add_given(np.ascontiguousarray(covered.T), moments, 0, cells)
    return moments


@compiled
def _add_given(covered: Floats, moments: Floats, low: int, high: int) -> None:
    """Write the moments of an interval and of all below it; `covered`, (cells + 1, queries), are sums up to a cell."""
    if high - low == 1:
        return
    cells, middle = len(moments) // 2, (low + high) // 2
    left, right = covered[middle] - covered[low], covered[high] - covered[middle]
    moments[cells + middle, 0] = np.mean((left + right) ** 2)
    moments[cells + middle, 1] = np.mean(left * right)
    _add_given(covered, moments, low, middle)
    _add_given(covered, moments, middle, high)


def ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges with two uniform, independent ends."""
    place = np.arange(cells)
    return AxisKernel((place + 1) / cells, 2 * (cells - place) / cells, np.full(cells, -1 / cells**2))


def prefix_ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges from the first cell to a uniform end."""
    return AxisKernel(np.ones(cells), (cells - np.arange(cells)) / cells, np.zeros(cells))


def short_ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges of about the square root of the axis: the probability decays with the distance.

    On axes of more than 250,000 cells ranges are longer, 1/500 of the axis, so that exponentials do not overflow.
    """
    decay, place = min(cells**-0.5, 500 / cells), np.arange(cells)
    return AxisKernel(np.exp(decay * (place - cells)), np.exp(decay * (cells - place)) * decay, np.zeros(cells))


def groups(cells: int) -> AxisKernel:
    """Return the kernel of group-bys: with equal probability all values together, or one value."""
    return AxisKernel(np.full(cells, 0.5), np.ones(cells), np.full(cells, 0.5 / cells))


AXIS_KERNELS: dict[str, Callable[[int], AxisKernel]] = {
    "ranges": ranges,
    "prefixes": prefix_ranges,
    "short": short_ranges,
    "groups": groups,
}
MIXED = "mixed"
"""A query of any of these kinds, with equal probability."""
KINDS = (MIXED, *AXIS_KERNELS)
ANY = 0.25
"""Weight of the declared kind beside given queries, so that no query has weight 0."""


def add_moments_of(kind: str, moments: Floats) -> None:
    """Add the moments of a kind of queries to those of an axis, shape (2 cells, 2)."""
    kinds = list(AXIS_KERNELS) if kind == MIXED else [kind]
    for one in kinds:
        AXIS_KERNELS[one](len(moments) // 2).add_moments(moments)
    moments /= len(kinds)


_MAX_WORTH = 9.0
"""Upper bound of K/F: a half has at least a third of its interval's cells, so its share is at most three times."""


def _beside(of_any: Floats, of_given: Floats) -> Floats:
    """Return the mixture of two models of an axis: the declared kind, with weight `ANY`, and given queries.

    Each is scaled to an equal expected error of answers from noisy cells.
    """
    cells = len(of_any) // 2
    noise_of_any, noise_of_given = float(of_any[:cells, 0].sum()), float(of_given[:cells, 0].sum())
    if noise_of_given == 0.0:
        return of_any
    return ANY * of_any / noise_of_any + (1 - ANY) * of_given / noise_of_given


class WorkloadModel:
    """Distribution of the queries that a release is optimised for: costs of noise on boxes, values of cuts."""

    def __init__(self, shape: tuple[int, ...], kinds: tuple[str, ...], given: tuple[Floats, ...] | None = None) -> None:
        """Make a model from a kind of queries per axis, and the weights (queries, cells) of given queries, if any."""
        if len(kinds) != len(shape) or not set(kinds) <= set(KINDS):
            msg = f"queries must be one of {', '.join(KINDS)} for each of {len(shape)} attributes, got {kinds!r}"
            raise InputError(msg)
        self._moments = np.zeros((2 * sum(shape), 2))
        for axis, (kind, end) in enumerate(zip(kinds, np.cumsum(shape).tolist(), strict=True)):
            moments = self._moments[2 * (end - shape[axis]) : 2 * end]
            add_moments_of(kind, moments)
            if given is not None:
                moments[:] = _beside(moments, given_moments(given[axis]))
        self._shape = np.array(shape, np.int64)
        self._grouped = [kind == "groups" for kind in kinds]

    def cut_order(self) -> CutOrder:
        """Return the worth of each cut to range queries, K/F, whatever the kinds: the order in which boxes are halved.

        Other kinds would cut an axis unevenly, finely where queries are frequent, and leave strips that fit no other
        query. Attributes with group-bys come before all others, the shortest first: a query on an attribute that is
        cut last takes one half of very many small splits, whose errors have equal signs and add up.
        """
        start = np.cumsum(self._shape) - self._shape
        worth = np.zeros(int(self._shape.sum()))
        for first, cells, grouped in zip(start.tolist(), self._shape.tolist(), self._grouped, strict=True):
            of_axis = worth[first : first + cells]
            if grouped:
                of_axis[:] = _MAX_WORTH + 1 / cells
            else:
                asked = ranges(cells)
                _weigh_cuts(asked.before, asked.after, asked.alone, 0, cells, of_axis)
        return CutOrder(worth, start)

    def values(self, lower: Ints, upper: Ints, axis: Ints, middle: Ints) -> tuple[Floats, Floats]:
        """Return F of each box, and K of its cut across `axis` at `middle` (0 where the axis is -1): both (boxes,).

        `lower` and `upper`, shape (boxes, axes), are boxes made by halving; `axis` and `middle` have shape (boxes,).
        """
        return _values(lower, upper, axis, middle, self._moments, self._shape)


@compiled
def _values(
    lower: Ints, upper: Ints, cut_axis: Ints, middle: Ints, moments: Floats, shape: Ints
) -> tuple[Floats, Floats]:
    boxes, dims = lower.shape
    covered, differ = np.ones(boxes), np.zeros(boxes)
    start = 2 * (np.cumsum(shape) - shape)
    for box in range(boxes):
        others = 1.0
        for axis in range(dims):
            low, high = lower[box, axis], upper[box, axis]
            square = moments[start[axis] + _row(shape[axis], low, high), 0] / (high - low) ** 2
            covered[box] *= square
            others *= 1.0 if axis == cut_axis[box] else square
        if cut_axis[box] >= 0:
            axis = cut_axis[box]
            of_axis = moments[start[axis] : start[axis] + 2 * shape[axis]]
            low, cut, high = lower[box, axis], middle[box], upper[box, axis]
            squares = of_axis[_row(shape[axis], low, cut), 0], of_axis[_row(shape[axis], cut, high), 0]
            differ[box] = others * _apart(squares, of_axis[shape[axis] + cut, 1], cut - low, high - cut)
    return covered, differ


@compiled
def _apart(squares: tuple[float, float], product: float, left: int, right: int) -> float:
    """Return the mean square of the difference of the shares of two halves, from their moments and lengths."""
    return float(max(squares[0] / left**2 + squares[1] / right**2 - 2 * product / (left * right), 0.0))


@compiled
def _weigh_cuts(
    before: Floats, after: Floats, alone: Floats, low: int, high: int, worth: Floats
) -> tuple[float, float, float]:
    """Write K/F of the cut of an interval and of all below it, at the middle of each; return as `_add_up` does."""
    if high - low == 1:
        return before[low], after[low], before[low] * after[low] + alone[low]
    middle = (low + high) // 2
    left_before, left_after, left_square = _weigh_cuts(before, after, alone, low, middle, worth)
    right_before, right_after, right_square = _weigh_cuts(before, after, alone, middle, high, worth)
    product = left_before * right_after
    square = left_square + right_square + 2 * product
    apart = _apart((left_square, right_square), product, middle - low, high - middle)
    worth[middle] = apart * (high - low) ** 2 / square
    return left_before + right_before, left_after + right_after, square
