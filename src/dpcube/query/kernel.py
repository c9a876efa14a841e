"""What queries a release is made for, as a kernel: what a query covers of two cells together, in the mean.

Only that enters the expected squared error of a query: noise of variance v on a box costs F v, F the mean square of the
share of the box that a query covers, and an unknown difference between two halves of a box costs K times its square,
K the mean square of the difference of their shares. A kernel is a product over axes. Boxes come from halving, so on
each axis they are intervals of one tree of halves, and all that is kept of an axis is, for each of these, the mean
square of what a query covers of it, and the mean product of what it covers of its two halves: the moments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.compiled import compiled
from dpcube.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AxisKernel:
    """The chance that a query covers cells a <= b of one axis: before[a] * after[b] + alone[a] * (a = b)."""

    before: Floats
    after: Floats
    alone: Floats

    def moments(self) -> Floats:
        """Return the moments of every interval of the tree of halves: row c is cell c, row n + m has its middle at m.

        They are added up from the cells: nothing cancels.
        """
        cells = len(self.before)
        sums, moments = np.zeros((2 * cells, 2)), np.zeros((2 * cells, 2))
        sums[:cells] = np.stack([self.before, self.after], axis=1)
        moments[:cells, 0] = self.before * self.after + self.alone
        _add_up(sums, moments, 0, cells)
        return moments


@compiled
def _add_up(sums: Floats, moments: Floats, low: int, high: int) -> None:
    """Fill the rows of an interval and of all below it, the smaller intervals first."""
    if high - low == 1:
        return
    cells, middle = len(sums) // 2, (low + high) // 2
    _add_up(sums, moments, low, middle)
    _add_up(sums, moments, middle, high)
    left, right, both = _row(cells, low, middle), _row(cells, middle, high), cells + middle
    sums[both] = sums[left] + sums[right]
    moments[both, 1] = sums[left, 0] * sums[right, 1]
    moments[both, 0] = moments[left, 0] + moments[right, 0] + 2 * moments[both, 1]


@compiled
def _row(cells: int, low: int, high: int) -> int:
    """Return which row of moments an interval has."""
    return low if high - low == 1 else cells + (low + high) // 2


def given_moments(weights: Floats) -> Floats:
    """Return the moments of given queries, each a row of weights of the axis's cells."""
    cells = weights.shape[1]
    covered = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    moments = np.zeros((2 * cells, 2))
    moments[:cells, 0] = np.mean(weights**2, axis=0)
    _add_given(np.ascontiguousarray(covered.T), moments, 0, cells)
    return moments


@compiled
def _add_given(covered: Floats, moments: Floats, low: int, high: int) -> None:
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


def prefixes(cells: int) -> AxisKernel:
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


class CutOrder(NamedTuple):
    """What a cut of each interval of each axis is worth: `worth[start[j] + m]` for that of axis j whose middle is m."""

    worth: Floats
    start: Ints


AXIS_KERNELS: dict[str, Callable[[int], AxisKernel]] = {
    "ranges": ranges,
    "prefixes": prefixes,
    "short": short_ranges,
    "groups": groups,
}
MIXED = "mixed"
"""A query of any of these kinds, each as likely as the others."""
KINDS = (MIXED, *AXIS_KERNELS)
ANY = 0.25
"""How much any query counts beside given ones, each as their errors from noisy cells: nothing is left out of sight."""


def moments_of(kind: str, cells: int) -> Floats:
    """Return the moments of a kind of queries on an axis of so many cells."""
    if kind != MIXED:
        return AXIS_KERNELS[kind](cells).moments()
    moments: Floats = np.mean([kernel(cells).moments() for kernel in AXIS_KERNELS.values()], axis=0)
    return moments


_MOST_WORTH = 9.0
"""K/F is at most this: a half holds a third of its interval at least, so its share is at most three of the whole's."""


def _beside(of_any: Floats, of_given: Floats) -> Floats:
    """Return the moments of given queries and of any, where single cells make as much noise in both."""
    cells = len(of_any) // 2
    noise_of_any, noise_of_given = float(of_any[:cells, 0].sum()), float(of_given[:cells, 0].sum())
    if noise_of_given == 0.0:
        return of_any
    return ANY * of_any / noise_of_any + (1 - ANY) * of_given / noise_of_given


class QueryKernel:
    """A product of kernels of the axes, ready to value boxes and cuts."""

    def __init__(self, shape: tuple[int, ...], kinds: tuple[str, ...], given: tuple[Floats, ...] | None = None) -> None:
        """Take a kind of queries for each axis, and the weights of given ones in its cells, if any are given."""
        if len(kinds) != len(shape) or not set(kinds) <= set(KINDS):
            msg = f"queries need one of {', '.join(KINDS)} for each of {len(shape)} attributes, got {kinds!r}"
            raise InputError(msg)
        moments = [moments_of(kind, cells) for kind, cells in zip(kinds, shape, strict=True)]
        if given is not None:
            moments = [_beside(of_any, given_moments(w)) for of_any, w in zip(moments, given, strict=True)]
        self._moments = np.concatenate(moments)
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
                _weigh_cuts(ranges(cells).moments(), 0, cells, of_axis)
        return CutOrder(worth, start)

    def values(self, lower: Ints, upper: Ints, axis: Ints, middle: Ints) -> tuple[Floats, Floats]:
        """Return F of each box of halves, and K of its cut across `axis` at `middle` (0 where the axis is -1)."""
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
            differ[box] = others * _apart(of_axis, lower[box, axis], middle[box], upper[box, axis])
    return covered, differ


@compiled
def _apart(moments: Floats, low: int, middle: int, high: int) -> float:
    """Return the mean square of the difference of the shares of an interval's two halves."""
    cells, left, right = len(moments) // 2, middle - low, high - middle
    squares = moments[_row(cells, low, middle), 0] / left**2 + moments[_row(cells, middle, high), 0] / right**2
    return float(max(squares - 2 * moments[cells + middle, 1] / (left * right), 0.0))


@compiled
def _weigh_cuts(moments: Floats, low: int, high: int, worth: Floats) -> None:
    """Fill in K/F of the cut of an interval and of all below it, at the middle of each."""
    if high - low == 1:
        return
    middle = (low + high) // 2
    worth[middle] = _apart(moments, low, middle, high) * (high - low) ** 2 / moments[len(worth) + middle, 0]
    _weigh_cuts(moments, low, middle, worth)
    _weigh_cuts(moments, middle, high, worth)
