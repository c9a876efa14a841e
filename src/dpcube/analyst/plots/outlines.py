"""Outlines of boxes on a map of two attributes: a tree of boxes enters, lines and their strength leave.

On a cube of more than two attributes boxes lie behind one another. A line then stands for the share of the cells
behind it at which a box ends, so that cuts made everywhere are strong and cuts made in a few places are faint.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.analyst.plots.axis import Axis
from dpcube.arrays import Floats, Ints
from dpcube.geometry.tree import BoxTree

MOST_OUTLINES = 1200
"""More boxes are a grey mist: of a larger tree the boxes of a higher level are drawn."""
FEW_BOXES = 200
"""Lines around more boxes than these are drawn lighter, the more the lighter."""
STRENGTHS = (0.1, 0.4, 0.8)
"""Shares from which a line is drawn faint, clear, and strong."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Lines as rows (x0, y0, x1, y1) between bins, for each strength; `boxes` of `of` boxes are drawn."""

    lines: tuple[Ints, ...]
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
    sides = [
        _sides(lower, upper, behind / (2 * depth), across, along) for across, along in ((x, y), (y, x))
    ]  # a line is the end of the boxes on both of its sides, hence the 2
    found = []
    for low, high in zip(STRENGTHS, (*STRENGTHS[1:], np.inf), strict=True):
        upright, level = (_runs((share >= low) & (share < high)) for share in sides)
        found.append(np.concatenate([upright[:, [0, 1, 0, 2]], level[:, [1, 0, 2, 0]]]))
    return Outlines(tuple(found), len(chosen), len(tree.leaves))


def frontier(tree: BoxTree, most: int) -> Ints:
    """Return nodes that partition the cube: the leaves, or of too many those of the deepest level that has few enough.

    >>> from dpcube.geometry.halving import halve
    >>> from dpcube.query.workload_model import WorkloadModel
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


def _sides(lower: Ints, upper: Ints, weight: Floats, across: tuple[int, Axis], along: tuple[int, Axis]) -> Floats:
    """Return how much of the boxes ends at each edge of the drawn bins of `across`, beside each bin of `along`."""
    edges, beside = across[1].edges, along[1].edges
    first = np.searchsorted(beside, lower[:, along[0]], side="right") - 1
    last = np.searchsorted(beside, upper[:, along[0]], side="left")
    steps = np.zeros((len(edges), len(beside)))
    for ends in (lower[:, across[0]], upper[:, across[0]]):
        at = np.searchsorted(edges, ends)
        drawn = edges[np.minimum(at, len(edges) - 1)] == ends  # a box may end inside merged bins
        np.add.at(steps, (at[drawn], first[drawn]), weight[drawn])
        np.add.at(steps, (at[drawn], last[drawn]), -weight[drawn])
    # Rounding must not tell lines of one strength apart; the frame is drawn by the axes.
    share = np.round(np.cumsum(steps, axis=1)[:, :-1], 9)
    share[[0, -1]] = 0
    return share


def _runs(marked: NDArray[np.bool_]) -> Ints:
    """Return rows (edge, first bin, one past the last bin) of each unbroken run of marks."""
    padded = np.zeros((marked.shape[0], marked.shape[1] + 2), np.int8)
    padded[:, 1:-1] = marked
    change = np.diff(padded, axis=1)
    edge, start = np.nonzero(change == 1)
    return np.stack([edge, start, np.nonzero(change == -1)[1]], axis=1)
