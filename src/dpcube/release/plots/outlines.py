"""Outlines of boxes on a map of two attributes: lines and their strength.

On a cube of more than two attributes boxes lie behind one another. A line then stands for the share of the cells
behind it at which a box ends, so that cuts made everywhere are strong and cuts made in a few places are faint.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.release.plots.axis import Axis
from dpcube.trees.tree import BoxTree

MOST_OUTLINES = 1200
"""More boxes are a grey mist: of a larger tree the boxes of a higher level are drawn."""
FEW_BOXES = 200
"""Lines around more boxes than these are drawn lighter, the more the lighter."""
STRENGTHS = (0.1, 0.4, 0.8)
"""Shares from which a line is drawn faint, clear, and strong."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Lines as rows (x0, y0, x1, y1) for each strength; `boxes` of `of` boxes are drawn.

    Drawn bin k begins at k; a box that ends inside merged cells ends between two numbers.
    """

    lines: tuple[Floats, ...]
    boxes: int
    of: int

    @property
    def weight(self) -> float:
        """How heavy the lines are to be, at most 1."""
        return min(1.0, math.pow(FEW_BOXES / self.boxes, 0.35))


def outlines(tree: BoxTree, x: tuple[int, Axis], y: tuple[int, Axis]) -> Outlines:
    """Return the outlines of the leaves on the axes numbered in `x` and `y`, as those are drawn."""
    chosen = frontier(tree, MOST_OUTLINES)
    lower, upper = tree.lower[chosen], tree.upper[chosen]
    behind = tree.sizes[chosen] / np.prod((upper - lower)[:, [x[0], y[0]]], axis=1)
    depth = tree.sizes[0] / (tree.shape[x[0]] * tree.shape[y[0]])
    ends = [np.unique(np.concatenate([lower[:, axis], upper[:, axis], of.edges])) for axis, of in (x, y)]
    weight = behind / (2 * depth)  # a line is the end of the boxes on both of its sides, hence the 2
    sides = [
        _sides(lower, upper, weight, (x[0], ends[0]), (y[0], ends[1])),
        _sides(lower, upper, weight, (y[0], ends[1]), (x[0], ends[0])),
    ]
    places = [np.interp(at, of.edges, np.arange(len(of) + 1)) for at, (_, of) in zip(ends, (x, y), strict=True)]
    found = []
    for low, high in zip(STRENGTHS, (*STRENGTHS[1:], np.inf), strict=True):
        upright, level = (_runs((share >= low) & (share < high)) for share in sides)
        lines = np.concatenate([upright[:, [0, 1, 0, 2]], level[:, [1, 0, 2, 0]]])
        found.append(np.stack([places[k % 2][lines[:, k]] for k in range(4)], axis=1))
    return Outlines(tuple(found), len(chosen), len(tree.leaves))


def frontier(tree: BoxTree, most: int) -> Ints:
    """Return nodes that partition the cube: the leaves, or of too many those of the deepest level that has few enough.

    >>> from dpcube.trees.halving import halve
    >>> from dpcube.queries.workload_model import WorkloadModel
    >>> order = WorkloadModel((8, 8), ("ranges",) * 2).cut_order()
    >>> tree = halve(BoxTree.uncut((8, 8)), np.zeros(1, np.int64), 4, order).tree
    >>> len(frontier(tree, 16)), len(frontier(tree, 15))
    (16, 8)
    """
    level = tree.levels
    at_level, leaves_at = np.bincount(level), np.bincount(level[tree.is_leaf], minlength=level.max() + 1)
    sizes = at_level + np.cumsum(leaves_at) - leaves_at
    deepest = int(np.flatnonzero(sizes <= max(most, 1)).max())
    return np.flatnonzero((level == deepest) | (tree.is_leaf & (level < deepest)))


def _sides(lower: Ints, upper: Ints, weight: Floats, across: tuple[int, Ints], along: tuple[int, Ints]) -> Floats:
    """Return how much of the boxes ends at each edge of `across`, beside each stretch between edges of `along`."""
    edges, beside = across[1], along[1]
    first, last = (np.searchsorted(beside, ends[:, along[0]]) for ends in (lower, upper))
    steps = np.zeros((len(edges), len(beside)))
    for ends in (lower, upper):
        at = np.searchsorted(edges, ends[:, across[0]])
        np.add.at(steps, (at, first), weight)
        np.add.at(steps, (at, last), -weight)
    # Rounding must not tell lines of one strength apart; the frame is drawn by the axes.
    share = np.round(np.cumsum(steps, axis=1)[:, :-1], 9)
    share[[0, -1]] = 0
    return share


def _runs(marked: NDArray[np.bool_]) -> Ints:
    """Return rows (edge, first stretch, one past the last) of each unbroken run of marks."""
    padded = np.zeros((marked.shape[0], marked.shape[1] + 2), np.int8)
    padded[:, 1:-1] = marked
    change = np.diff(padded, axis=1)
    edge, start = np.nonzero(change == 1)
    return np.stack([edge, start, np.nonzero(change == -1)[1]], axis=1)
