"""Trees of boxes grown level by level, from the number of parts of every box on each axis.

A level is the boxes of one depth. Each box of the next level names its parent by its number in the level above, and
boxes of one parent stand together, in the order of their parents. No loop here goes over boxes: only over levels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.counter import NoisyCounter
from dpcube.measurements import BoxCounts, Transcript
from dpcube.strategies.strategy import STARTING
from dpcube.trees.tree import BoxTree


class BoxLevel(NamedTuple):
    """The boxes of one depth of a tree, bounds of shape (boxes, axes), and the number of each one's parent."""

    lower: Ints
    upper: Ints
    parent: Ints


class Grown(NamedTuple):
    """A tree, and the node that each box of each level became."""

    tree: BoxTree
    nodes: tuple[Ints, ...]


def root_level(shape: tuple[int, ...]) -> BoxLevel:
    """Return the level of one box: every cell of the shape."""
    return BoxLevel(np.zeros((1, len(shape)), np.int64), np.array([shape], np.int64), np.array([-1]))


def parted(level: BoxLevel, parts: Ints) -> BoxLevel:
    """Return the next level: each box cut evenly into `parts` on each axis, shape (boxes, axes); one part is no cut.

    >>> parted(root_level((5,)), np.array([[2]])).upper
    array([[2],
           [5]])
    """
    children = parts.prod(axis=1)
    cut = np.flatnonzero(children > 1)
    parent = np.repeat(cut, children[cut])
    first = np.cumsum(children[cut]) - children[cut]
    number = np.arange(len(parent)) - np.repeat(first, children[cut])
    low, length, pieces = level.lower[parent], (level.upper - level.lower)[parent], parts[parent]
    place = np.empty_like(low)
    for axis in range(parts.shape[1] - 1, -1, -1):
        place[:, axis] = number % pieces[:, axis]
        number = number // pieces[:, axis]
    return BoxLevel(low + length * place // pieces, low + length * (place + 1) // pieces, parent)


def grown_levels(shape: tuple[int, ...], parts: Callable[[Ints], Ints]) -> list[BoxLevel]:
    """Return levels down to boxes that are not cut: `parts` maps the lengths of boxes to the cuts of each."""
    levels = [root_level(shape)]
    while True:
        below = parted(levels[-1], parts(levels[-1].upper - levels[-1].lower))
        if len(below.parent) == 0:
            return levels
        levels.append(below)


def tree_of_levels(shape: tuple[int, ...], levels: Sequence[BoxLevel]) -> Grown:
    """Return the tree of some levels in preorder: a node, then the subtrees of its children one after another."""
    sizes = [np.ones(len(level.parent), np.int64) for level in levels]
    for depth in range(len(levels) - 1, 0, -1):
        np.add.at(sizes[depth - 1], levels[depth].parent, sizes[depth])
    nodes = [np.zeros(1, np.int64)]
    for depth in range(1, len(levels)):
        parent = levels[depth].parent
        before = np.cumsum(sizes[depth]) - sizes[depth]
        elder = before - before[np.searchsorted(parent, parent)]
        nodes.append(nodes[-1][parent] + 1 + elder)
    order = np.argsort(np.concatenate(nodes))
    parents = [np.array([-1]), *(above[level.parent] for above, level in zip(nodes, levels[1:], strict=False))]
    lower, upper = (np.concatenate([level[side] for level in levels])[order] for side in (0, 1))
    return Grown(BoxTree(shape, lower, upper, np.concatenate(parents)[order]), tuple(nodes))


def level_units(grown: Grown, budgets: Sequence[int]) -> Ints:
    """Return the units of every node: the budget of its level, and for a leaf those of the levels below it as well.

    Along any path from the root to a leaf these add up to the sum of the budgets: the most that any cell is charged.
    """
    budget = np.array(budgets, np.int64)
    left = np.cumsum(budget[::-1])[::-1]
    depth = grown.tree.levels
    return np.where(grown.tree.is_leaf, left[depth], budget[depth])


def measured_tree(counter: NoisyCounter, grown: Grown, units: Ints) -> Transcript:
    """Count every node that has units, all in one call, and return the transcript."""
    node = np.flatnonzero(units > 0)
    counts = counter.boxes(grown.tree.boxes(node), units[node])
    return Transcript(counter.shape, counter.epsilon_per_unit, (BoxCounts(grown.tree, node, counts, units[node]),))


def peak_bytes_of_tree(shape: tuple[int, ...], nodes: int) -> int:
    """Return the memory of a release with a tree of so many nodes: counts, bounds (thrice while it grows), the file."""
    cells = int(np.prod(shape, dtype=object))
    return STARTING + 44 * cells + nodes * (200 + 96 * len(shape))
