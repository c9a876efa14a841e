"""Errors of very many ranges: one table, from which a range's error is read at a few places, as its value is.

What the nodes of a tree add to the variance of a range is a product over axes, of squares. Let c(x) be the part of a
node's side before x, and t(x) the tent over it that rises to 1 at the middle, where the side is halved. From x1 to x2 a
range takes c(x2) - c(x1) of the side, and t(x2) - t(x1) more of one half than of the other. The squares are

    (c2 - c1)^2 = c2^2 + (c1^2 - 2 c1) + 2 c1 (1 - c2)    and    (t2 - t1)^2 = t2^2 + t1^2 - 2 t1 t2:

a function of x2, one of x1, and a rest that is zero unless both ends lie inside the side. Sides are intervals of the
axis's own tree of halves, so few hold both ends: one of each length, from the whole axis down to the first that is cut
between them. So an axis has a slot for every x2, one for every x1, and one for every such interval, and the table has,
for each slot of every axis, what all nodes add there. A random range has four slots an axis on average. Nothing is
approximate: visiting the nodes gives the same.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.queries import Workload
from dpcube.trees.tree import BoxTree


@dataclass(frozen=True, slots=True, eq=False)
class HalvingTable:
    """What splits across each axis, and last the leaves, add to the variance of a range: by slots of the axes.

    An axis of n cells has slots 0 to n for the upper end, n + 1 to 2n + 1 for the lower end, and then its intervals:
    the whole axis, its halves, their halves, as in a heap.
    """

    table: Floats
    """What is added at each slot of every axis, shape (slots of each axis, axes + 1)."""
    prefix: Floats
    """Marginals of the axes as prefix sums, one axis after another."""
    start: Ints
    """Where each axis begins in `prefix`, shape (axes,)."""
    shape: tuple[int, ...]
    of_total: float
    """Variance of the whole cube's total."""

    @classmethod
    def from_tree(
        cls, tree: BoxTree, variance: Floats, prefix: Floats, start: Ints, *, of_total: float
    ) -> "HalvingTable":
        """Build the table, given the variance of every split and inside every leaf of a tree of halves.

        `of_total` is the variance of the whole cube's total, which a range has its part of.
        """
        table = np.zeros((*_slots(tree.shape), len(tree.shape) + 1))
        strides, flat = _flat(table)
        _add_nodes(flat, strides, tree.lower, tree.upper, tree.cuts.axis, variance, prefix, start)
        for axis, cells in enumerate(tree.shape):
            by_slot = np.moveaxis(table, axis, 0)
            for ends in (by_slot[: cells + 1], by_slot[cells + 1 : 2 * cells + 2]):
                np.cumsum(ends, axis=0, out=ends)
        return cls(table, prefix, start, tree.shape, of_total)

    @staticmethod
    def numbers(shape: tuple[int, ...]) -> int:
        """Return how many numbers the table of a shape holds."""
        return (len(shape) + 1) * math.prod(_slots(shape))

    def variances(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return what the total and the splits, and what the leaves, add to the variance of each range."""
        strides, flat = _flat(self.table)
        most = math.prod(2 + extent.bit_length() for extent in self.shape)
        places = (self.prefix, self.start, workload.lower, workload.upper)
        found: tuple[Floats, Floats] = _add_slots(flat, strides, self.shape, *places, most, self.of_total)
        # Sums at the corners of a range cancel. What rounding may leave of them is nothing, as the walk has it.
        rounding = 32 * np.finfo(np.float64).eps * np.abs(flat).max(axis=0, initial=0.0).max(initial=0.0)
        return found[0], np.where(found[1] < rounding, 0.0, found[1])


def _slots(shape: tuple[int, ...]) -> list[int]:
    """Return how many slots each axis has; an interval of two cells cannot hold both ends of a range inside."""
    return [2 * extent + 2 + 2 ** max((extent - 1).bit_length() - 1, 0) for extent in shape]


def _flat(table: Floats) -> tuple[Ints, Floats]:
    """Return how far apart the slots of each axis are, and the table as rows of what is added."""
    rows = table.reshape(-1, table.shape[-1])
    return np.array(table.strides[:-1], np.int64) // (table.itemsize * table.shape[-1]), rows


@compiled
def _interval(cells: int, low: int, high: int) -> int:
    """Return the number of an interval in the heap of an axis's halves, the whole axis being 0."""
    number, first, last = 0, 0, cells
    while first != low or last != high:
        middle = (first + last) // 2
        if high <= middle:
            number, last = 2 * number + 1, middle
        else:
            number, first = 2 * number + 2, middle
    return number


@compiled
def _add_nodes(
    table: Floats,
    strides: Ints,
    lower: Ints,
    upper: Ints,
    cut_axis: Ints,
    variance: Floats,
    prefix: Floats,
    start: Ints,
) -> None:
    """Add what each node's products grow by from slot to slot; summed up along the slots of ends they are what it adds.

    A leaf adds the product of parts c, less that of their squares; it is linear in c, so ends are all it has slots for.
    """
    dims, longest = lower.shape[1], upper[0].max()
    slots, steps = np.empty((dims, 2 * longest + 1), np.int64), np.empty((dims, 2 * longest + 1, 2))
    used, turn = np.empty(dims, np.int64), np.empty(dims, np.int64)
    for node in range(len(variance)):
        if variance[node] == 0.0:
            continue
        cut = cut_axis[node]
        for axis in range(dims):
            low, high = lower[node, axis], upper[node, axis]
            side = prefix[start[axis] + low : start[axis] + high + 1]
            used[axis] = _steps(slots[axis], steps[axis], low, high, upper[0, axis], side, int(axis == cut))
        turn[:] = 0
        last = dims - 1
        while turn[0] < used[0]:
            at, square, plain = 0, variance[node], variance[node]
            for axis in range(last):
                at += strides[axis] * slots[axis, turn[axis]]
                square *= steps[axis, turn[axis], 0]
                plain *= steps[axis, turn[axis], 1]
            for slot in range(used[last]):
                entry = table[at + slots[last, slot]]
                if cut >= 0:
                    entry[cut] += square * steps[last, slot, 0]
                else:
                    entry[dims] += plain * steps[last, slot, 1] - square * steps[last, slot, 0]
            _next_turn(turn, used)


@compiled
def _next_turn(turn: Ints, used: Ints) -> None:
    """Go on to the next choice of a slot of every axis but the last."""
    axis = len(turn) - 2
    if axis < 0:
        turn[0] = used[0]
        return
    turn[axis] += 1
    while axis > 0 and turn[axis] == used[axis]:
        turn[axis] = 0
        axis -= 1
        turn[axis] += 1


@compiled
def _steps(slots: Ints, steps: Floats, low: int, high: int, cells: int, side: Floats, cut: int) -> int:
    """Write the slots of a node's side, and there the growth of its square and its plain part; return how many.

    `cut` is 1 if the node is cut across this axis: the square is then that of the tent.
    """
    extent = high - low
    length, middle = side[-1] - side[0], (low + high) // 2 - low
    left = (side[middle] - side[0]) / length
    before, old = 0.0, 0.0
    for place in range(extent):
        after = (side[place + 1] - side[0]) / length if place + 1 < extent else 1.0
        slots[place], slots[extent + place] = low + place + 1, cells + 1 + low + place + 1
        if cut:
            new = (after / left if place < middle else (1 - after) / (1 - left)) ** 2
            steps[place, 0] = steps[extent + place, 0] = new - old
            old = new
        else:
            steps[place, 0], steps[place, 1] = after * after - before * before, after - before
            steps[extent + place, 0], steps[extent + place, 1] = steps[place, 0] - 2 * steps[place, 1], -steps[place, 1]
        before = after
    if extent < 3:
        return 2 * extent
    slots[2 * extent] = 2 * cells + 2 + _interval(cells, low, high)
    steps[2 * extent, 0], steps[2 * extent, 1] = 1.0, 0.0
    return 2 * extent + 1


@compiled
def _add_slots(
    table: Floats,
    strides: Ints,
    shape: tuple[int, ...],
    prefix: Floats,
    start: Ints,
    lower: Ints,
    upper: Ints,
    most: int,
    of_total: float,
) -> tuple[Floats, Floats]:
    """Add up, for each range, what the table has for every choice of one of its slots on each axis."""
    queries, dims = len(lower), len(shape)
    of_splits, of_leaves = np.zeros(queries), np.zeros(queries)
    slots, weights = np.empty((dims, 66), np.int64), np.ones((dims, 66, 2))
    places, factors = np.zeros(most, np.int64), np.ones((most, dims + 1))
    for query in range(queries):
        chosen, share = 1, 1.0
        places[0] = 0
        factors[0] = 1.0
        for axis in range(dims):
            used = _find_slots(
                axis, slots, weights, lower[query, axis], upper[query, axis], shape[axis], prefix, start[axis]
            )
            for slot in range(used - 1, -1, -1):  # the first comes last, in place
                step, across, along = slots[axis, slot] * strides[axis], weights[axis, slot, 0], weights[axis, slot, 1]
                for old in range(chosen):
                    new = slot * chosen + old
                    places[new] = places[old] + step
                    for kind in range(dims + 1):
                        factors[new, kind] = factors[old, kind] * (across if kind == axis else along)
            chosen *= used
            first, last = start[axis], start[axis] + shape[axis]
            share *= (prefix[first + upper[query, axis]] - prefix[first + lower[query, axis]]) / prefix[last]
        splits, leaves = of_total * share * share, 0.0
        for choice in range(chosen):
            for cut in range(dims):
                splits += factors[choice, cut] * table[places[choice], cut]
            leaves += factors[choice, dims] * table[places[choice], dims]
        of_splits[query], of_leaves[query] = max(splits, 0.0), max(leaves, 0.0)
    return of_splits, of_leaves


@compiled
def _find_slots(
    axis: int, slots: Ints, weights: Floats, low: int, high: int, cells: int, prefix: Floats, start: int
) -> int:
    """Write a range's slots on an axis, and the weights there of sides that are cut and of others; return how many."""
    slots[axis, 0], slots[axis, 1] = high, cells + 1 + low
    used, number, first, last = 2, 0, 0, cells
    while first < low and high < last:
        middle = (first + last) // 2
        before, after = prefix[start + low] - prefix[start + first], prefix[start + last] - prefix[start + high]
        left, right = prefix[start + middle] - prefix[start + first], prefix[start + last] - prefix[start + middle]
        length = left + right
        slots[axis, used] = 2 * cells + 2 + number
        rise = before / left if low < middle else (length - before) / right
        fall = after / right if high > middle else (length - after) / left
        weights[axis, used, 0], weights[axis, used, 1] = -2 * rise * fall, 2 * before * after / (length * length)
        used += 1
        if high <= middle:
            number, last = 2 * number + 1, middle
        elif low >= middle:
            number, first = 2 * number + 2, middle
        else:
            break
    return used
