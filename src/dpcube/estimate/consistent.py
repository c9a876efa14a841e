"""Tree-wise consistent, non-negative totals: every node is the sum of its children and none is below zero.

Enters: a measured count and its noise variance for each node of a tree (infinite where an inner node was not measured).
Leaves: a total for each node. Up the tree, generalised least squares pools what the nodes and their descendants say;
down the tree, each parent's total is divided among its children as closely to their estimates as possible without any
falling below zero. A single projection of all leaves at once is measurably worse: it moves large ranges.
"""

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.compiled import compiled
from dpcube.geometry.tree import BoxTree


def consistent_totals(tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the non-negative, consistent total of every node."""
    pooled, spread = pool_upwards(tree.parent, tree.end, measured, variance)
    return _divide_downwards(tree.end, pooled, spread)


@compiled
def pool_upwards(parent: Ints, end: Ints, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Pool each node's own measurement with the sum of its children's pooled estimates, by precision.

    Nodes are in preorder, so going backwards meets every child before its parent.
    """
    nodes = len(parent)
    pooled = np.zeros(nodes)
    spread = np.zeros(nodes)
    below = np.zeros(nodes)
    below_spread = np.zeros(nodes)
    for node in range(nodes - 1, -1, -1):
        if end[node] == node + 1:
            pooled[node], spread[node] = measured[node], variance[node]
        elif variance[node] == np.inf:
            pooled[node], spread[node] = below[node], below_spread[node]
        else:
            both = variance[node] + below_spread[node]
            pooled[node] = (measured[node] * below_spread[node] + below[node] * variance[node]) / both
            spread[node] = variance[node] * below_spread[node] / both
        if node > 0:
            below[parent[node]] += pooled[node]
            below_spread[parent[node]] += spread[node]
    return pooled, spread


@compiled
def _divide_downwards(end: Ints, pooled: Floats, spread: Floats) -> Floats:
    totals = np.zeros(len(end))
    totals[0] = max(pooled[0], 0.0)
    for node in range(len(end)):
        if end[node] > node + 1:
            _divide(node, end, pooled, spread, totals)
    return totals


@compiled
def _divide(node: int, end: Ints, pooled: Floats, spread: Floats, totals: Floats) -> None:
    """Divide a node's total: minimise sum (h - pooled)^2 / spread over children, h >= 0, sum h = total.

    The solution is h = max(0, pooled + spread * shift). Each pass solves for the shift over the children still above
    zero and drops those it makes negative; a pass that drops none is the answer, so there are at most as many passes
    as children (in floating point too: a pass that does not shrink the set ends the loop).
    """
    shift = 0.0
    active = -1
    while True:
        sum_pooled, sum_spread, count = 0.0, 0.0, 0
        child = node + 1
        while child < end[node]:
            if active < 0 or pooled[child] + spread[child] * shift > 0:
                sum_pooled += pooled[child]
                sum_spread += spread[child]
                count += 1
            child = end[child]
        if count == 0 or (active >= 0 and count >= active):
            break
        active = count
        shift = (totals[node] - sum_pooled) / sum_spread
    child = node + 1
    while child < end[node]:
        totals[child] = max(pooled[child] + spread[child] * shift, 0.0)
        child = end[child]
