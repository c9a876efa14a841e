"""The second stage of DAWA: a binary tree over a row of counts, its levels weighted for a workload (GreedyH).

Enters: the weights that each question gives to each count, shape (questions, counts). Leaves: a tree and a weight for
each node, adding up to 1 along every path, so that weighted counts with Laplace noise of scale 1/epsilon are
epsilon-DP. From the leaves upwards each node shares between its own count and its subtree, scaled by p, so that the
error of the questions is least: with u the row sums of the subtree's covariance, k their sum and E its error, the error
is (E - (1-p)^2 |Q u|^2/(p^2 + k (1-p)^2))/p^2 (a rank-one update); a hundred values of p are tried.
"""

from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.research.strategies.levels import BoxLevel, parted, root_level, tree_of_levels
from dpcube.trees.tree import BoxTree

SHARES_TRIED = 100


class WeightedTree(NamedTuple):
    """A tree over a row of counts and the weight of each node; a weight of 0 is not measured."""

    tree: BoxTree
    weight: Floats


def greedy_tree(questions: Floats) -> WeightedTree:
    """Return the tree of halves and its weights. Counts that every question takes alike are counted as one box."""
    levels = _levels(questions)
    leads = [np.ones(len(level.parent), np.float64) for level in levels]
    own_share = _shares(questions, levels)
    for depth in range(1, len(levels)):
        parent = levels[depth].parent
        leads[depth] = leads[depth - 1][parent] * own_share[depth - 1][parent]
    grown = tree_of_levels((questions.shape[1],), levels)
    weight = np.empty(len(grown.tree))
    for depth, nodes in enumerate(grown.nodes):
        is_leaf = grown.tree.is_leaf[nodes]
        weight[nodes] = leads[depth] * np.where(is_leaf, 1.0, 1 - own_share[depth])
    return WeightedTree(grown.tree, weight)


def _levels(questions: Floats) -> list[BoxLevel]:
    """Return the levels of halves, ending at single counts and at runs that no question divides."""
    differs = np.concatenate([[0], np.cumsum((questions[:, 1:] != questions[:, :-1]).any(axis=0))])
    levels = [root_level((questions.shape[1],))]
    while True:
        low, high = levels[-1].lower[:, 0], levels[-1].upper[:, 0]
        parts = np.where(differs[high - 1] > differs[low], 2, 1)
        below = parted(levels[-1], parts[:, None])
        if len(below.parent) == 0:
            return levels
        levels.append(below)


def _shares(questions: Floats, levels: list[BoxLevel]) -> list[Floats]:
    """Return p of every node of every level, from the leaves upwards: the part of its weight that its subtree keeps."""
    sums = np.ones(questions.shape[1])  # u: row sums of the covariance, of counts measured alone
    error = [np.zeros(len(level.parent)) for level in levels]
    shares = [np.ones(len(level.parent)) for level in levels]
    for depth in range(len(levels) - 1, -1, -1):
        low, high = levels[depth].lower[:, 0], levels[depth].upper[:, 0]
        is_leaf = np.ones(len(low), np.bool_)
        if depth + 1 < len(levels):
            is_leaf[levels[depth + 1].parent] = False
        for_leaf = np.repeat(np.where(is_leaf, 1 / (high - low), 1.0), high - low)
        sums[_inside(low, high)] *= for_leaf
        of_node = _taken(questions, sums, low, high)
        error[depth] = np.where(is_leaf, of_node, error[depth])
        if not is_leaf.all():
            inner = np.flatnonzero(~is_leaf)
            of_children = _taken(questions, sums, levels[depth + 1].lower[:, 0], levels[depth + 1].upper[:, 0])
            apart = np.zeros(len(low))
            np.add.at(apart, levels[depth + 1].parent, of_children)
            total = _segment_sums(sums, low[inner], high[inner])
            found, least = _best_share(error[depth][inner], of_node[inner], apart[inner], total, depth)
            shares[depth][inner], error[depth][inner] = found, least
            moved = (1 - found) ** 2 / (found**2 + total * (1 - found) ** 2)
            factor = (1 - moved * total) / found**2
            sums[_inside(low[inner], high[inner])] *= np.repeat(factor, (high - low)[inner])
        if depth:
            error[depth - 1] += np.bincount(levels[depth].parent, error[depth], minlength=len(error[depth - 1]))
    return shares


def _best_share(error: Floats, together: Floats, apart: Floats, total: Floats, depth: int) -> tuple[Floats, Floats]:
    """Return the p of least error of each node, and that error. Deep nodes are taken to serve their halves apart.

    The public code has this heuristic, a decay of 2^(-depth/2): a range that ends in a deep node takes a part of it.
    """
    share = np.arange(SHARES_TRIED, 0, -1) / SHARES_TRIED
    decay = 2.0 ** (-depth / 2)
    own = (1 - share) ** 2 * decay
    gained = ((together - apart) * decay + apart)[:, None] * own / (share**2 + own * total[:, None])
    errors = (error[:, None] - gained) / share**2
    best = errors.argmin(axis=1)
    return share[best], errors[np.arange(len(best)), best]


def _taken(questions: Floats, sums: Floats, low: Ints, high: Ints) -> Floats:
    """Return |Q u|^2 of each segment: the summed variance of the questions by the segment's own noise."""
    reached = np.zeros((len(questions), questions.shape[1] + 1))
    np.cumsum(questions * sums, axis=1, out=reached[:, 1:])
    taken: Floats = ((reached[:, high] - reached[:, low]) ** 2).sum(axis=0)
    return taken


def _segment_sums(values: Floats, low: Ints, high: Ints) -> Floats:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    found: Floats = sums[high] - sums[low]
    return found


def _inside(low: Ints, high: Ints) -> Ints:
    """Return the places of all cells of some segments, one segment after another."""
    length = high - low
    start = np.repeat(low - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    return start + np.arange(length.sum())
