"""Binarisation of box trees: guillotine (straight) cuts of boxes that have more than two children.

A strategy may partition a box into many at once, as a grid does. If recursive straight cuts separate the children, the
partition is a binary tree: the intermediate boxes are added without counts, and methods that need two halves below
each box (the posterior) apply. Not every partition is of this kind: five boxes can wind around one another so that
every straight cut goes through one.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.compiled import compiled
from dpcube.trees.tree import BoxTree

WORK, WORK_OF_NODE = 2**24, 64
"""Limits on the boxes visited, in all and for each node: even cuts visit a few for each node, but a
malicious file could have each cut separate one box from all others."""


class StraightCuts(NamedTuple):
    """A tree in which each node is a leaf or has two halves, the lower first; `moved[i]` is the new place of node i.

    An only child equals its parent: both are one node here.
    """

    tree: BoxTree
    moved: Ints


def straight_cuts(tree: BoxTree) -> StraightCuts | None:
    """Return the tree with intermediate boxes added; None if no straight cut separates some node's children.

    A binary tree is returned unchanged. Of several cuts the most even one is taken.

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


_MADE: "WeakKeyDictionary[BoxTree, StraightCuts | None]" = WeakKeyDictionary()  # used by every answer


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
    """Write the new tree in preorder; return whether every group of siblings could be cut within the limit of work.

    A group is a slice of `siblings`: nodes of one parent that fill a box. Pending groups are on a stack, the lower of
    two on top, each with its box's parent in the new tree. `used` counts new nodes, `met` nodes added to `siblings`.
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
    """Write the new place of a node and of its chain of only children; append the first children that are several.

    Returns the end of `siblings`.
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
    """Move the siblings below the most even straight cut of their box first; return their number, 0 without a cut."""
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
