"""Put right what a posterior gets wrong all over: its marginals, where the unbiased ones are known better.

A prior's small errors point the same way in thousands of boxes, and add up in a question that cuts all of them. Least
squares on the same counts has no such error, only noise, and how much of it a whole table of marginals holds is known.
So each one- and two-way table of the estimate is drawn towards that of least squares, by as much as the two differ
beyond that noise (James and Stein's rule with a known variance), and the cells are scaled to the tables. For cubes of
three attributes and more: in fewer, such tables are as fine as the tree's own boxes, and noise is all they would add.
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpcube.compiled import compiled
from dpcube.domain import Boxes
from dpcube.domain.box import spread as spread_evenly
from dpcube.estimate.consistent import pool_upwards
from dpcube.partition import BoxTree
from dpcube.partition.halving import cuts_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SWEEPS = 3


def raked(cells: Floats, tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the cells scaled so that their tables of marginals agree with the counts as far as these can tell."""
    pooled, spread = pool_upwards(tree.parent, tree.end, measured, variance)
    totals, splits = _least_squares(tree.end, pooled, spread)
    leaves = Boxes(tree.shape, tree.lower[tree.leaves], tree.upper[tree.leaves])
    unbiased = spread_evenly(leaves, totals[tree.leaves] / leaves.sizes)
    axes = range(cells.ndim)
    targets = {}
    for table in [*combinations(axes, 1), *combinations(axes, 2)]:
        others = tuple(j for j in axes if j not in table)
        noise = _table_noise(tree, splits, float(spread[0]), table)
        targets[others] = _drawn(cells.sum(others, keepdims=True), unbiased.sum(others, keepdims=True), noise)
    result = cells.copy()
    for _ in range(SWEEPS):
        for others, target in targets.items():
            now = result.sum(others, keepdims=True)
            result *= np.divide(target, now, out=np.ones_like(now), where=now > 0)
    return result


def _drawn(own: Floats, unbiased: Floats, noise: float) -> Floats:
    """Return a table drawn towards the unbiased one, not below zero and with its own total."""
    bias = max(float(np.sum((own - unbiased) ** 2)) - noise, 0.0)
    drawn = np.maximum(own + bias / (bias + noise) * (unbiased - own), 0.0)
    total = float(drawn.sum())
    return drawn * (float(own.sum()) / total) if total > 0 else own


def _table_noise(tree: BoxTree, splits: Floats, root: float, table: tuple[int, ...]) -> float:
    """Return the summed noise variance of a table of marginals of the least-squares estimate.

    A split matters to the tables of the axis it cuts: its halves differ by twice its noise, spread over their sides.
    """
    sides = (tree.upper - tree.lower).astype(np.float64)
    whole = root / np.prod(sides[0, list(table)])
    axis, middle = cuts_of(tree)
    noise = 0.0
    for j in table:
        at = np.flatnonzero((axis == j) & ~tree.is_leaf)
        left, right = middle[at] - tree.lower[at, j], tree.upper[at, j] - middle[at]
        others = [k for k in table if k != j]
        noise += float(np.sum(splits[at] * (1 / left + 1 / right) / np.prod(sides[at][:, others], axis=1)))
    return float(whole) + noise


@compiled
def _least_squares(end: Ints, pooled: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return each node's least-squares total, and the noise variance of the split below it."""
    totals, splits = np.zeros(len(end)), np.zeros(len(end))
    totals[0] = pooled[0]
    for node in range(len(end)):
        left = node + 1
        if end[node] > left:
            right, wide = end[left], spread[left] + spread[end[left]]
            shift = (totals[node] - pooled[left] - pooled[right]) / wide
            totals[left] = pooled[left] + spread[left] * shift
            totals[right] = pooled[right] + spread[right] * shift
            splits[node] = spread[left] * spread[right] / wide
    return totals, splits
