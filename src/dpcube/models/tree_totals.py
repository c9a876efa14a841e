"""Consistency of the counts of a tree: totals of which every node is the sum of its children.

Given are a measured count and its noise variance for each node of a tree (infinite where an inner node was not
measured), both of shape (nodes,); the result is a total for each node, shape (nodes,). Upward pass: generalised least
squares pools a node's own count with the sum of its children's pooled counts. Downward pass: each parent's total is
divided among its children, as closely to their pooled counts as possible: without any falling below zero
(`consistent_totals`), or wherever they fall, so that totals stay linear in the counts and unbiased (`linear_totals`
for trees of halves, `least_squares_totals` for any). A single projection of all leaves at once is measurably worse
than the first: it moves large ranges.
"""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.trees.tree import BoxTree


def consistent_totals(tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the non-negative, consistent total of every node."""
    pooled, pooled_variance = pooled_counts(tree, measured, variance)
    return _divide_downwards(tree.end, pooled, pooled_variance)


def linear_totals(tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the least-squares total of every node of a binary tree: unbiased, linear, and below zero where it is."""
    pooled, pooled_variance = pooled_counts(tree, measured, variance)
    return _divide_linearly(tree.end, pooled, pooled_variance)


def least_squares_totals(tree: BoxTree, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the least-squares total of every node of any tree, and the variance of what its subtree says of it.

    This is Hay and others' consistency (2010), for any tree and any variances: each count weighs its precision.
    """
    pooled, pooled_variance = pooled_counts(tree, measured, variance)
    return _share_downwards(tree.parent, pooled, pooled_variance), pooled_variance


def pooled_counts(tree: BoxTree, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return what each node's own count and all below it say of it together, by precision, and the variance of that."""
    return _pool_upwards(tree.parent, tree.end, measured, variance)


@compiled
def _share_downwards(parent: Ints, pooled: Floats, pooled_variance: Floats) -> Floats:
    """Downward pass: give children what they miss of their parent's total, in proportion to their variances."""
    nodes = len(parent)
    missing, of_children = np.zeros(nodes), np.zeros(nodes)
    for node in range(1, nodes):
        missing[parent[node]] -= pooled[node]
        of_children[parent[node]] += pooled_variance[node]
    totals = np.zeros(nodes)
    totals[0] = pooled[0]
    missing[0] += totals[0]
    for node in range(1, nodes):
        above = parent[node]
        totals[node] = pooled[node] + missing[above] * pooled_variance[node] / of_children[above]
        missing[node] += totals[node]
    return totals


@compiled
def _pool_upwards(parent: Ints, end: Ints, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Upward pass: combine each node's own count with the sum of its children's pooled counts, by precision.

    Return the pooled count of each node and its variance. Nodes are in preorder, so going backwards meets every child
    before its parent.
    """
    nodes = len(parent)
    pooled = np.zeros(nodes)
    pooled_variance = np.zeros(nodes)
    below = np.zeros(nodes)
    below_variance = np.zeros(nodes)
    for node in range(nodes - 1, -1, -1):
        if end[node] == node + 1:
            pooled[node], pooled_variance[node] = measured[node], variance[node]
        elif variance[node] == np.inf:
            pooled[node], pooled_variance[node] = below[node], below_variance[node]
        else:
            both = variance[node] + below_variance[node]
            pooled[node] = (measured[node] * below_variance[node] + below[node] * variance[node]) / both
            pooled_variance[node] = variance[node] * below_variance[node] / both
        if node > 0:
            below[parent[node]] += pooled[node]
            below_variance[parent[node]] += pooled_variance[node]
    return pooled, pooled_variance


@compiled
def _divide_downwards(end: Ints, pooled: Floats, pooled_variance: Floats) -> Floats:
    """Downward pass: divide each node's total among its children, none of them below zero."""
    totals = np.zeros(len(end))
    totals[0] = max(pooled[0], 0.0)
    for node in range(len(end)):
        if end[node] > node + 1:
            _divide(node, end, pooled, pooled_variance, totals)
    return totals


@compiled
def _divide(node: int, end: Ints, pooled: Floats, pooled_variance: Floats, totals: Floats) -> None:
    """Divide a node's total among its children: minimise sum (h - pooled)^2 / pooled_variance, h >= 0, sum h = total.

    The solution is h = max(0, pooled + pooled_variance * shift). Each pass solves for the shift over the children still
    above zero and drops those it makes negative; a pass that drops none is the answer, so there are at most as many
    passes as children (in floating point too: a pass that does not shrink the set ends the loop).
    """
    shift = 0.0
    active = -1
    while True:
        sum_pooled, sum_variance, count = 0.0, 0.0, 0
        child = node + 1
        while child < end[node]:
            if active < 0 or pooled[child] + pooled_variance[child] * shift > 0:
                sum_pooled += pooled[child]
                sum_variance += pooled_variance[child]
                count += 1
            child = end[child]
        if count == 0 or (active >= 0 and count >= active):
            break
        active = count
        shift = (totals[node] - sum_pooled) / sum_variance
    child = node + 1
    while child < end[node]:
        totals[child] = max(pooled[child] + pooled_variance[child] * shift, 0.0)
        child = end[child]


@compiled
def _divide_linearly(end: Ints, pooled: Floats, pooled_variance: Floats) -> Floats:
    """Downward pass: give two halves what they miss of their parent's total, in proportion to their variances."""
    total = np.zeros(len(end))
    total[0] = pooled[0]
    for node in range(len(end)):
        left = node + 1
        if end[node] > left:
            right = end[left]
            missing = total[node] - pooled[left] - pooled[right]
            total[left] = pooled[left] + missing * pooled_variance[left] / (
                pooled_variance[left] + pooled_variance[right]
            )
            total[right] = total[node] - total[left]
    return total
