"""A model of the queries that a release is made for: kinds of queries enter, what boxes and cuts matter to them leaves.

A query drawn from the model covers some cells. Let a *share* of a box be the part of its cells that the query covers.
Two means over all queries are all that enters the expected squared error of a query:

* F, the mean square of the share of a box: noise of variance v on the count of the box costs F v;
* K, the mean square of the difference between the shares of the two halves of a box: a difference between the halves
  that nobody measured costs K times its square.

Queries take each axis independently, so F and K are products over axes. Boxes come from halving, so their sides are
intervals of one tree of halves for each axis. All that is kept of an axis are the *moments* of these intervals: the
mean square of the number of cells that a query covers of the interval, and the mean product of the numbers that it
covers of the two halves of the interval.
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
    """A kind of queries on one axis, by the chance that a query covers both of two cells.

    The chance to cover cells a <= b is before[a] * after[b], and alone[a] more if they are one cell. The three arrays
    have shape (cells,).
    """

    before: Floats
    after: Floats
    alone: Floats

    def add_moments(self, moments: Floats) -> None:
        """Add the moments of every interval of the axis's tree of halves to `moments`, shape (2 cells, 2).

        Row c is cell c; row cells + m is the interval that is halved at m. The columns are the mean square of what a
        query covers of the interval, and the mean product of what it covers of the two halves. They are added up from
        the cells: nothing cancels. No table is made besides: an axis may be the whole cube.
        """
        _add_up(self.before, self.after, self.alone, 0, len(self.before), moments)


@compiled
def _add_up(
    before: Floats, after: Floats, alone: Floats, low: int, high: int, moments: Floats
) -> tuple[float, float, float]:
    """Add to the moments of the interval from `low` to `high` and of all below it.

    Return the sums of `before` and of `after` over the interval, and the mean square of what a query covers of it.
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
    """Return which row of the moments of an axis of so many cells an interval has."""
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
    """Return the kernel of ranges whose two ends are drawn evenly and independently."""
    place = np.arange(cells)
    return AxisKernel((place + 1) / cells, 2 * (cells - place) / cells, np.full(cells, -1 / cells**2))


def prefix_ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges that begin at the first cell and end evenly."""
    return AxisKernel(np.ones(cells), (cells - np.arange(cells)) / cells, np.zeros(cells))


def short_ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges of about the square root of the axis: the chance decays with the distance.

    On axes of more than 250,000 cells ranges are longer, 1/500 of it, so that exponentials stay floats.
    """
    decay, place = min(cells**-0.5, 500 / cells), np.arange(cells)
    return AxisKernel(np.exp(decay * (place - cells)), np.exp(decay * (cells - place)) * decay, np.zeros(cells))


def groups(cells: int) -> AxisKernel:
    """Return the kernel of group-bys: as often every value together as one value alone."""
    return AxisKernel(np.full(cells, 0.5), np.ones(cells), np.full(cells, 0.5 / cells))


AXIS_KERNELS: dict[str, Callable[[int], AxisKernel]] = {
    "ranges": ranges,
    "prefixes": prefix_ranges,
    "short": short_ranges,
    "groups": groups,
}
MIXED = "mixed"
"""A query of any of these kinds, each as likely as the others."""
KINDS = (MIXED, *AXIS_KERNELS)
ANY = 0.25
"""How much any query counts beside given ones, each as their errors from noisy cells: nothing is left out of sight."""


def add_moments_of(kind: str, moments: Floats) -> None:
    """Add the moments of a kind of queries to those of an axis, shape (2 cells, 2)."""
    kinds = list(AXIS_KERNELS) if kind == MIXED else [kind]
    for one in kinds:
        AXIS_KERNELS[one](len(moments) // 2).add_moments(moments)
    moments /= len(kinds)


_MOST_WORTH = 9.0
"""K/F is at most this: a half holds a third of its interval at least, so its share is at most three of the whole's."""


def _beside(of_any: Floats, of_given: Floats) -> Floats:
    """Return the mean of two models of an axis, any queries and given ones, scaled so that noise costs both the same.

    Noise here is that of an answer from noisy cells. Any queries count `ANY`, given ones the rest.
    """
    cells = len(of_any) // 2
    noise_of_any, noise_of_given = float(of_any[:cells, 0].sum()), float(of_given[:cells, 0].sum())
    if noise_of_given == 0.0:
        return of_any
    return ANY * of_any / noise_of_any + (1 - ANY) * of_given / noise_of_given


class WorkloadModel:
    """The queries that a release is made for: says what noise on a box costs them, and what a cut is worth."""

    def __init__(self, shape: tuple[int, ...], kinds: tuple[str, ...], given: tuple[Floats, ...] | None = None) -> None:
        """Take a kind of queries for each axis; of given queries, if any, their weights (queries, cells) on each."""
        if len(kinds) != len(shape) or not set(kinds) <= set(KINDS):
            msg = f"queries need one of {', '.join(KINDS)} for each of {len(shape)} attributes, got {kinds!r}"
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
        """Return what each cut is worth to ranges, K/F, to cut first where it matters most, whatever is asked.

        Other kinds would cut an axis unevenly, fine where they ask often, and leave strips that fit no other query.
        Attributes asked by group come before all others, the shortest first. What a query takes of an attribute that
        is cut last is one half of very many small splits, whose errors point the same way and add up.
        """
        start = np.cumsum(self._shape) - self._shape
        worth = np.zeros(int(self._shape.sum()))
        for first, cells, grouped in zip(start.tolist(), self._shape.tolist(), self._grouped, strict=True):
            of_axis = worth[first : first + cells]
            if grouped:
                of_axis[:] = _MOST_WORTH + 1 / cells
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
    """Return the mean square of the difference of the shares of two halves, by their moments and lengths."""
    return float(max(squares[0] / left**2 + squares[1] / right**2 - 2 * product / (left * right), 0.0))


@compiled
def _weigh_cuts(
    before: Floats, after: Floats, alone: Floats, low: int, high: int, worth: Floats
) -> tuple[float, float, float]:
    """Fill in K/F of the cut of an interval and of all below it, at the middle of each; return what `_add_up` does."""
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
