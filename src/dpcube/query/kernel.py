"""What queries a release is made for, as a kernel: the chance that one query covers two cells together.

Only that chance enters the expected squared error of a query: noise of variance v on a box costs F v, F the expected
square of the share of the box that a query covers, and an unknown difference between two halves of a box costs K times
its square, K the expected square of the difference of their shares. A kernel is a product over axes; on each axis the
chance of covering cells a <= b is before[a] * after[b], plus `alone[a]` where a = b. Boxes come from halving, so on
each axis they are intervals of one tree of halves, and sums over these are added up from the cells: nothing cancels.
"""

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

    def sums(self) -> Floats:
        """Return sums over every interval of the tree of halves: of `before`, of `after`, and of all pairs of cells.

        Row c is cell c alone, row n + m the interval whose middle is m.
        """
        cells = len(self.before)
        sums = np.zeros((2 * cells, 3))
        sums[:cells] = np.stack([self.before, self.after, self.before * self.after + self.alone], axis=1)
        _add_up(sums, 0, cells)
        return sums


@compiled
def _add_up(sums: Floats, low: int, high: int) -> None:
    """Fill the rows of an interval and of all below it, the smaller intervals first."""
    if high - low == 1:
        return
    cells, middle = len(sums) // 2, (low + high) // 2
    _add_up(sums, low, middle)
    _add_up(sums, middle, high)
    left, right = sums[_row(cells, low, middle)], sums[_row(cells, middle, high)]
    sums[cells + middle] = left + right
    sums[cells + middle, 2] += 2 * left[0] * right[1]


@compiled
def _row(cells: int, low: int, high: int) -> int:
    """Return which row of sums an interval has."""
    return low if high - low == 1 else cells + (low + high) // 2


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


AXIS_KERNELS = {"ranges": ranges, "prefixes": prefixes, "short": short_ranges, "groups": groups}


_MOST_WORTH = 9.0
"""K/F is at most this: a half holds a third of its interval at least, so its share is at most three of the whole's."""


class QueryKernel:
    """A product of axis kernels, ready to value boxes and cuts."""

    def __init__(self, shape: tuple[int, ...], kinds: tuple[str, ...]) -> None:
        if len(kinds) != len(shape) or not set(kinds) <= set(AXIS_KERNELS):
            msg = f"queries need one of {', '.join(AXIS_KERNELS)} for each of {len(shape)} attributes, got {kinds!r}"
            raise InputError(msg)
        self._sums = np.concatenate([AXIS_KERNELS[kind](n).sums() for kind, n in zip(kinds, shape, strict=True)])
        self._shape = np.array(shape, np.int64)
        self._grouped = [kind == "groups" for kind in kinds]

    def cut_order(self) -> CutOrder:
        """Return what each cut is worth to a query, K/F, to cut first where it matters most.

        Attributes asked by group come before all others, the shortest first. What a query takes of an attribute that
        is cut last is one half of very many small splits, whose errors point the same way and add up.
        """
        start = np.cumsum(self._shape) - self._shape
        worth = np.zeros(int(self._shape.sum()))
        for first, cells, grouped in zip(start.tolist(), self._shape.tolist(), self._grouped, strict=True):
            of_axis = worth[first : first + cells]
            _weigh_cuts(self._sums[2 * first : 2 * (first + cells)], 0, cells, of_axis)
            if grouped:
                of_axis[:] = _MOST_WORTH + 1 / cells
        return CutOrder(worth, start)

    def values(self, lower: Ints, upper: Ints, axis: Ints, middle: Ints) -> tuple[Floats, Floats]:
        """Return F of each box of halves, and K of its cut across `axis` at `middle` (0 where the axis is -1)."""
        return _values(lower, upper, axis, middle, self._sums, self._shape)


@compiled
def _values(lower: Ints, upper: Ints, cut_axis: Ints, middle: Ints, sums: Floats, shape: Ints) -> tuple[Floats, Floats]:
    boxes, dims = lower.shape
    covered, differ = np.ones(boxes), np.zeros(boxes)
    start = 2 * (np.cumsum(shape) - shape)
    for box in range(boxes):
        others = 1.0
        for axis in range(dims):
            low, high = lower[box, axis], upper[box, axis]
            square = sums[start[axis] + _row(shape[axis], low, high), 2] / (high - low) ** 2
            covered[box] *= square
            others *= 1.0 if axis == cut_axis[box] else square
        if cut_axis[box] >= 0:
            axis = cut_axis[box]
            low, high, cells = lower[box, axis], upper[box, axis], shape[axis]
            left = sums[start[axis] + _row(cells, low, middle[box])]
            right = sums[start[axis] + _row(cells, middle[box], high)]
            differ[box] = others * _apart(left, right, middle[box] - low, high - middle[box])
    return covered, differ


@compiled
def _apart(left: Floats, right: Floats, left_cells: int, right_cells: int) -> float:
    """Return the expected square of the difference of the shares of two halves, given their sums."""
    both = left[0] * right[1] / (left_cells * right_cells)
    return float(max(left[2] / left_cells**2 + right[2] / right_cells**2 - 2 * both, 0.0))


@compiled
def _weigh_cuts(sums: Floats, low: int, high: int, worth: Floats) -> None:
    """Fill in K/F of the cut of an interval and of all below it, at the middle of each."""
    if high - low == 1:
        return
    cells, middle = len(worth), (low + high) // 2
    left, right = sums[_row(cells, low, middle)], sums[_row(cells, middle, high)]
    apart = _apart(left, right, middle - low, high - middle)
    worth[middle] = apart * (high - low) ** 2 / sums[cells + middle, 2]
    _weigh_cuts(sums, low, middle, worth)
    _weigh_cuts(sums, middle, high, worth)
