"""Balanced halving tree of boxes: each box is halved across the axis that matters most to the workload.

The cuts are public: they depend on the shape and the workload. Only the decision where to stop may depend on
measurements.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.trees.tree import BoxTree, Cuts

BATCH = 2**12
"""Boxes of a level in one batch."""


class CutOrder(NamedTuple):
    """The worth of the cut of each interval of each axis: `worth[start[j] + m]` for that of axis j with middle m.

    `worth` has an entry for every cell of every axis, one axis after another; `start` has shape (axes,).
    """

    worth: Floats
    start: Ints

    def cuts_of(self, tree: BoxTree) -> Cuts:
        """Return the cut below each node of a binary tree; for a leaf, the one it would get next."""
        axis, place = tree.cuts.axis.copy(), tree.cuts.place.copy()
        _add_next_cuts(tree.lower, tree.upper, tree.leaves, self.worth, self.start, axis, place)
        return Cuts(axis, place)

    def axes_of(self, lower: Ints, upper: Ints) -> Ints:
        """Return the axis across which each box, bounds of shape (boxes, axes), would be cut; -1 for a single cell."""
        axis, place = np.full(len(lower), -1), np.empty(len(lower), np.int64)
        _add_next_cuts(lower, upper, np.arange(len(lower)), self.worth, self.start, axis, place)
        return axis


class Halved(NamedTuple):
    """A tree with some leaves cut, the places of the old nodes in it, and its new leaves."""

    tree: BoxTree
    moved: Ints
    new_leaves: Ints


def depth(shape: tuple[int, ...]) -> int:
    """Return the number of cuts from the whole shape down to single cells.

    >>> depth((128, 100)), depth((1,))
    (14, 0)
    """
    return sum((extent - 1).bit_length() for extent in shape)


def most_nodes(sizes: Ints, cuts: int) -> Ints:
    """Return an upper bound on the nodes of boxes of these sizes after so many levels of cuts, themselves included."""
    most: Ints = np.minimum(2 ** (cuts + 1), 2 * sizes) - 1
    return most


def halve(tree: BoxTree, chosen: Ints, cuts: int, order: CutOrder) -> Halved:
    """Cut each chosen leaf into up to 2^cuts boxes, recursively halving the axis of largest worth.

    Of axes of equal worth the first is cut, at its middle; a single cell is left as it is.
    """
    grow = np.zeros(len(tree), np.bool_)
    grow[chosen] = True
    size = len(tree) - len(chosen) + int(most_nodes(tree.sizes[chosen], cuts).sum())
    lower, upper = (np.empty((size, len(tree.shape)), np.int64) for _ in range(2))
    parent, fresh, moved = np.empty(size, np.int64), np.zeros(size, np.bool_), np.empty(len(tree), np.int64)
    used = _halve(tree.lower, tree.upper, tree.parent, grow, cuts, lower, upper, parent, fresh, moved, *order)
    for array in (lower, upper, parent):
        array.flags.writeable = False  # spares copies
    grown = BoxTree(tree.shape, lower[:used], upper[:used], parent[:used])
    return Halved(grown, moved, np.flatnonzero(fresh[:used] & grown.is_leaf))


@compiled
def cut_axis(lower: Ints, upper: Ints, node: int, worth: Floats, start: Ints) -> int:
    """Return the axis of a box whose cut has the largest worth, the first of equals; -1 for a single cell."""
    best, most = -1, -1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        # Rounding must not decide between axes of one kind and length.
        if high - low > 1 and worth[start[axis] + (low + high) // 2] > most * (1 + 1e-9):
            best, most = axis, worth[start[axis] + (low + high) // 2]
    return best


@compiled
def _add_next_cuts(
    lower: Ints, upper: Ints, leaves: Ints, worth: Floats, start: Ints, axes: Ints, places: Ints
) -> None:
    """Write the axis and place of the next cut of each leaf; a single cell has none."""
    for leaf in leaves:
        axis = cut_axis(lower, upper, leaf, worth, start)
        if axis >= 0:
            axes[leaf], places[leaf] = axis, (lower[leaf, axis] + upper[leaf, axis]) // 2


@compiled
def _halve(
    lower: Ints,
    upper: Ints,
    parent: Ints,
    grow: NDArray[np.bool_],
    cuts: int,
    new_lower: Ints,
    new_upper: Ints,
    new_parent: Ints,
    fresh: NDArray[np.bool_],
    moved: Ints,
    worth: Floats,
    start: Ints,
) -> int:
    """Copy the tree in preorder, growing the chosen leaves in place; return the number of nodes."""
    used = 0
    for node in range(len(parent)):
        new_lower[used], new_upper[used] = lower[node], upper[node]
        new_parent[used] = moved[parent[node]] if node > 0 else -1
        moved[node] = used
        used += 1
        if grow[node]:
            used = _grow(used - 1, cuts, new_lower, new_upper, new_parent, fresh, worth, start)
    return used


@compiled
def _grow(
    root: int,
    cuts: int,
    lower: Ints,
    upper: Ints,
    parent: Ints,
    fresh: NDArray[np.bool_],
    worth: Floats,
    start: Ints,
) -> int:
    """Write the halves below `root` in preorder, with a stack of pending boxes; return the next free row."""
    dims = lower.shape[1]
    stack_lower, stack_upper = np.empty((cuts + 2, dims), np.int64), np.empty((cuts + 2, dims), np.int64)
    stack_parent, stack_left = np.empty(cuts + 2, np.int64), np.empty(cuts + 2, np.int64)
    used, node, left, top = root + 1, root, cuts, 0
    while True:
        axis = cut_axis(lower, upper, node, worth, start) if left > 0 else -1
        if axis >= 0:
            middle = (lower[node, axis] + upper[node, axis]) // 2
            stack_lower[top], stack_upper[top] = lower[node], upper[node]
            stack_lower[top, axis] = middle
            stack_parent[top], stack_left[top] = node, left - 1
            top += 1
            lower[used], upper[used] = lower[node], upper[node]
            upper[used, axis] = middle
            parent[used], fresh[used] = node, True
            node, left, used = used, left - 1, used + 1
        elif top > 0:
            top -= 1
            lower[used], upper[used] = stack_lower[top], stack_upper[top]
            parent[used], fresh[used] = stack_parent[top], True
            node, left, used = used, stack_left[top], used + 1
        else:
            return used


class CutBoxes(NamedTuple):
    """Boxes of more than one cell, and the next cut of each."""

    lower: Ints
    upper: Ints
    axis: Ints
    middle: Ints


def boxes_at(shape: tuple[int, ...], level: int, order: CutOrder) -> Iterator[CutBoxes]:
    """Yield in batches the boxes of one level of the halving tree, except single cells.

    Only the stack of pending boxes is in memory. A tree of all boxes would take hundreds of bytes for each cell.
    """
    lower, upper = (np.zeros((level + 2, len(shape)), np.int64) for _ in range(2))
    left, top = np.full(level + 2, level, np.int64), 1
    upper[0] = shape
    while top > 0:
        found_lower, found_upper = (np.empty((BATCH, len(shape)), np.int64) for _ in range(2))
        boxes = CutBoxes(found_lower, found_upper, np.empty(BATCH, np.int64), np.empty(BATCH, np.int64))
        found, top = _next_boxes(lower, upper, left, top, *boxes, order.worth, order.start)
        yield CutBoxes(*(column[:found] for column in boxes))


@compiled
def _next_boxes(
    lower: Ints,
    upper: Ints,
    left: Ints,
    top: int,
    found_lower: Ints,
    found_upper: Ints,
    axes: Ints,
    middles: Ints,
    worth: Floats,
    start: Ints,
) -> tuple[int, int]:
    """Continue depth-first from the pending boxes until the batch is full; return the numbers of found and pending."""
    found = 0
    while top > 0 and found < len(axes):
        box = top - 1
        axis = cut_axis(lower, upper, box, worth, start)
        if axis < 0:
            top -= 1
            continue
        middle = (lower[box, axis] + upper[box, axis]) // 2
        if left[box] == 0:
            found_lower[found], found_upper[found], axes[found], middles[found] = lower[box], upper[box], axis, middle
            found, top = found + 1, top - 1
        else:
            lower[top], upper[top] = lower[box], upper[box]
            lower[box, axis] = upper[top, axis] = middle
            left[box] -= 1
            left[top] = left[box]
            top += 1
    return found, top
