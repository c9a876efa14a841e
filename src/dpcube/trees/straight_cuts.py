"""Trees of binary cuts from trees whose boxes have many children: a tree enters, one with boxes in between leaves.

A strategy may part a box into many at once, as a grid does. Where a straight cut leaves no child on both sides, and the
same holds on either side of it, and so on, the parting is a tree of cuts in two: the boxes in between are added, nobody
counted them, and whatever needs two halves below each box (the posterior) can be had. Not every parting is like that:
five boxes can wind around one another so that every straight cut goes through one.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.compiled import compiled
from dpcube.trees.tree import BoxTree

WORK, WORK_OF_NODE = 2**24, 64
"""Boxes that may be looked at in all, and for each node: even cuts need a few for each, peeling them off one by one
as many as there are, and who made the tree may not want it to be read."""


class StraightCuts(NamedTuple):
    """A tree in which each node is a leaf or has two halves, the lower first; `moved[i]` is where node i went.

    An only child is its parent once more: both are one node here.
    """

    tree: BoxTree
    moved: Ints


def straight_cuts(tree: BoxTree) -> StraightCuts | None:
    """Return a tree with the in-between boxes added; None if no straight cut parts some node's children.

    A tree that is so already is returned as it is. Of several cuts the most even one is taken.

    >>> lower, upper = np.array([[0], [0], [1], [3]]), np.array([[4], [1], [3], [4]])
    >>> found = straight_cuts(BoxTree((4,), lower, upper, parent=np.array([-1, 0, 0, 0])))
    >>> found.tree.lower[:, 0], found.tree.upper[:, 0], found.moved
    (array([0, 0, 1, 1, 3]), array([4, 1, 4, 3, 4]), array([0, 1, 3, 4]))
    """
    if tree.is_straight:
        return StraightCuts(tree, np.arange(len(tree)))
    if tree not in _MADE:
        _MADE[tree] = _with_boxes_between(tree)
    return _MADE[tree]


_MADE: "WeakKeyDictionary[BoxTree, StraightCuts | None]" = WeakKeyDictionary()  # it is asked for with every answer


def _with_boxes_between(tree: BoxTree) -> StraightCuts | None:
    most = 2 * len(tree.leaves) - 1
    lower, upper = (np.empty((most, len(tree.shape)), np.int64) for _ in range(2))
    parent, moved = np.empty(most, np.int64), np.empty(len(tree), np.int64)
    work = WORK + WORK_OF_NODE * len(tree)
    if not _cut(tree.lower, tree.upper, tree.end, lower, upper, parent, moved, work):
        return None
    for array in (lower, upper, parent):
        array.flags.writeable = False  # spares copies
    return StraightCuts(BoxTree(tree.shape, lower, upper, parent), moved)


@compiled
def _cut(
    lower: Ints,
    upper: Ints,
    end: Ints,
    new_lower: Ints,
    new_upper: Ints,
    new_parent: Ints,
    moved: Ints,
    work: int,
) -> bool:
    """Write the new tree in preorder; return whether every group of siblings could be cut, within so much work.

    A group is a stretch of `siblings`: nodes of one parent that fill a box. Groups wait on a stack, the lower of two
    on top, each with its box's parent in the new tree. `used` counts new nodes, `met` nodes that became siblings.
    """
    nodes, dims = len(end), lower.shape[1]
    siblings, waiting = np.zeros(nodes, np.int64), np.zeros((nodes + 1, 3), np.int64)
    used, met, top = 0, 1, 1
    waiting[0] = 0, 1, -1
    while top > 0:
        top -= 1
        first, stop, parent = waiting[top]
        new_parent[used] = parent
        for axis in range(dims):
            new_lower[used, axis] = lower[siblings[first:stop], axis].min()
            new_upper[used, axis] = upper[siblings[first:stop], axis].max()
        if stop - first == 1:
            first, stop = met, _settle(siblings, siblings[first], end, moved, used, met)
            met = stop
        work -= (stop - first) * dims
        if stop > first:
            middle = _part(siblings[first:stop], lower, upper, new_lower[used], new_upper[used])
            if middle == 0 or work < 0:
                return False
            waiting[top] = first + middle, stop, used
            waiting[top + 1] = first, first + middle, used
            top += 2
        used += 1
    return True


@compiled
def _settle(siblings: Ints, node: int, end: Ints, moved: Ints, place: int, met: int) -> int:
    """Say where a node went, and its only child and so on, if so; add the first children that are several as siblings.

    Returns where the siblings stop.
    """
    stop = met
    while True:
        moved[node], child, stop = place, node + 1, met
        while child < end[node]:
            siblings[stop] = child
            stop, child = stop + 1, end[child]
        if stop - met != 1:
            return stop
        node = siblings[met]


@compiled
def _part(siblings: Ints, lower: Ints, upper: Ints, low: Ints, high: Ints) -> int:
    """Put the siblings below the most even straight cut of their box first; return how many, 0 if there is no cut."""
    best_axis, best_place, least, longest = -1, 0, 2.0, 0
    for axis in range(len(low)):
        extent, reached = high[axis] - low[axis], low[axis]
        for member in siblings[np.argsort(lower[siblings, axis])]:
            place = lower[member, axis]
            if place >= reached and place > low[axis]:
                uneven = abs(2 * place - low[axis] - high[axis]) / extent
                if uneven < least or (uneven == least and extent > longest):
                    best_axis, best_place, least, longest = axis, place, uneven, extent
            reached = max(reached, upper[member, axis])
    if best_axis < 0:
        return 0
    is_below = lower[siblings, best_axis] < best_place
    below, above = siblings[is_below], siblings[~is_below]
    siblings[: len(below)] = below
    siblings[len(below) :] = above
    return len(below)
