"""What queries a release is made for, as a kernel: the chance that one query covers two cells together.

Only that chance enters the expected squared error of a query: noise of variance v on a box costs F v, F the expected
square of the share of the box that a query covers, and an unknown difference between two halves of a box costs K times
its square, K the expected square of the difference of their shares. A kernel is a product over axes; on each axis the
chance of covering cells a <= b is before[a] * after[b], plus `alone[a]` where a = b, so both follow from prefix sums.
"""

from dataclasses import dataclass

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

    def prefixes(self) -> Floats:
        """Return four prefix sums, as columns: before, after, after times the `before` up to it, and the diagonal."""
        up_to = np.cumsum(self.before)
        columns = [self.before, self.after, self.after * (2 * up_to - self.before), self.alone]
        return np.concatenate([np.zeros((1, 4)), np.cumsum(np.stack(columns, axis=1), axis=0)])


def ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges whose two ends are drawn evenly and independently."""
    place = np.arange(cells)
    return AxisKernel((place + 1) / cells, 2 * (cells - place) / cells, np.full(cells, -1 / cells**2))


def prefixes(cells: int) -> AxisKernel:
    """Return the kernel of ranges that begin at the first cell and end evenly."""
    return AxisKernel(np.ones(cells), (cells - np.arange(cells)) / cells, np.zeros(cells))


def short_ranges(cells: int) -> AxisKernel:
    """Return the kernel of ranges of about the square root of the axis: the chance decays with the distance."""
    decay, place = 1 / max(cells**0.5, 1.0), np.arange(cells)
    return AxisKernel(np.exp(decay * (place - cells)), np.exp(decay * (cells - place)) * decay, np.zeros(cells))


def groups(cells: int) -> AxisKernel:
    """Return the kernel of group-bys: as often every value together as one value alone."""
    return AxisKernel(np.full(cells, 0.5), np.ones(cells), np.full(cells, 0.5 / cells))


AXIS_KERNELS = {"ranges": ranges, "prefixes": prefixes, "short": short_ranges, "groups": groups}


class QueryKernel:
    """A product of axis kernels, ready to value boxes and cuts."""

    def __init__(self, shape: tuple[int, ...], kinds: tuple[str, ...]) -> None:
        if len(kinds) != len(shape) or not set(kinds) <= set(AXIS_KERNELS):
            msg = f"queries need one of {', '.join(AXIS_KERNELS)} for each of {len(shape)} attributes, got {kinds!r}"
            raise InputError(msg)
        self._sums = np.concatenate([AXIS_KERNELS[kind](n).prefixes() for kind, n in zip(kinds, shape, strict=True)])
        self._start = np.cumsum([0, *(extent + 1 for extent in shape[:-1])])

    def values(self, lower: Ints, upper: Ints, axis: Ints, middle: Ints) -> tuple[Floats, Floats]:
        """Return F of each box, and K of its cut across `axis` at `middle` (0 where the axis is -1)."""
        return _values(lower, upper, axis, middle, self._sums, self._start)


@compiled
def _values(lower: Ints, upper: Ints, cut_axis: Ints, middle: Ints, sums: Floats, start: Ints) -> tuple[Floats, Floats]:
    boxes, dims = lower.shape
    covered, differ = np.ones(boxes), np.zeros(boxes)
    for box in range(boxes):
        others = 1.0
        for axis in range(dims):
            square = _square(sums, start[axis], lower[box, axis], upper[box, axis])
            covered[box] *= square
            others *= 1.0 if axis == cut_axis[box] else square
        if cut_axis[box] >= 0:
            axis = cut_axis[box]
            differ[box] = others * _apart(sums, start[axis], lower[box, axis], middle[box], upper[box, axis])
    return covered, differ


@compiled
def _apart(sums: Floats, base: int, low: int, middle: int, high: int) -> float:
    """Return the expected square of the difference of the shares of the cells before and after `middle`."""
    both = (sums[base + middle, 0] - sums[base + low, 0]) * (sums[base + high, 1] - sums[base + middle, 1])
    both /= (middle - low) * (high - middle)
    return float(max(_square(sums, base, low, middle) + _square(sums, base, middle, high) - 2 * both, 0.0))


@compiled
def _square(sums: Floats, base: int, low: int, high: int) -> float:
    """Return the mean of the kernel over all pairs of cells from `low` to `high`."""
    first, last = base + low, base + high
    # pairs a < b twice and a = b once: after[b] * (2 * (before up to b) - before[b]), less what lies before `low`
    total = sums[last, 2] - sums[first, 2] - 2 * sums[first, 0] * (sums[last, 1] - sums[first, 1])
    total += sums[last, 3] - sums[first, 3]
    return float(total / (high - low) ** 2)
