"""Two walks down a tree of boxes: one for totals of leaves, one for a posterior's totals and splits.

Both serve ranges and counting queries alike (`AxisWeights`). They go through the nodes in preorder without a stack, and
pass over a subtree wherever a query gives one weight to all its cells: there every box is taken alike, or not at all.
For very many ranges `box_tables.py` and `halving_table.py` give the same sums, faster.
"""

import math

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.models.errors.axis_weights import HIGH, LOW, ROW, AxisWeights
from dpcube.trees.tree import BoxTree

VALUE, VARIANCE, CUT, LINEAR, SQUARED, NUMBER = range(6)
"""Columns of `leaf_sums`."""
COVERED = math.log(20) ** 2 / 2
"""The square of the half-width of a 95% interval, in standard errors (`release/answer.py`)."""


def leaf_sums(tree: BoxTree, below: Floats, asked: AxisWeights) -> Floats:
    """Return for each query six sums over the leaves of a tree, shape (queries, 6).

    `below`, shape (nodes, 3), holds of every subtree the total of its leaves, the sum of the variances of their totals,
    and their number. For a leaf of n cells and total T let p be the mean of the weights that a query gives its cells, q
    the mean of their squares and m that of their sizes; every cell counts 1 (`even_measure`). The columns are sums of

        VALUE: p T;    VARIANCE: p^2 times the variance of T;    CUT: n (q - p^2);
        LINEAR and SQUARED: T^2 m and T^2 m^2, over the leaves in which the weights vary;
        NUMBER: 1 for each leaf taken, but 0 in all unless every leaf is taken as a whole, with one size of weight.
    """
    return _leaf_sums(tree.lower, tree.upper, tree.end, below, asked)


def split_sums(
    tree: BoxTree, totals: Floats, splits: Floats, uneven: Floats, asked: AxisWeights, *, of_total: float
) -> Floats:
    """Return for each query its value, and its variance by the total and the splits, and inside leaves: (queries, 3).

    Of every node of a binary tree are given its total, the variance of the split below it, and of a leaf what, times
    f (1 - f), is the variance of the count in a part f of it: arrays of shape (nodes,). `of_total` is the variance of
    the whole cube's total, which a query has its part of. A split adds its variance times the square of the difference
    of the weights of the two halves; a leaf, its own times the variance of the weights inside it.
    """
    return _split_sums(tree.lower, tree.upper, tree.end, *tree.cuts, totals, splits, uneven, of_total, asked)


def hidden_squares(
    tree: BoxTree, totals: Floats, uneven: Floats, asked: AxisWeights, *, unordered: tuple[int, ...]
) -> Floats:
    """Return for each query what its squared error has beyond `split_sums` if single values have all rows of leaves.

    Along `unordered` axes nothing says that values are alike. A query that takes a part g of those of a leaf, and a
    part h along the other axes, has h times its total with a chance of g, or else none: a square of g (1 - g) in units
    of that. It is next to nothing for a single of many values, which may be the one; so it is (1 - g)^2 / COVERED at
    least, with which a 95% interval reaches from none to all.
    """
    free = np.isin(np.arange(len(tree.shape)), unordered)
    return _hidden_squares(tree.lower, tree.upper, tree.end, totals, uneven, free, asked)


def node_sums(tree: BoxTree, columns: Floats, asked: AxisWeights) -> Floats:
    """Return what each query takes of several totals of every node at once: shape (queries, columns).

    `columns`, shape (nodes, columns), are totals that add up, each node's the sum of its halves'.
    """
    return _node_sums(tree.lower, tree.upper, tree.end, np.ascontiguousarray(columns), asked)


@compiled
def common_weight(node: int, lower: Ints, upper: Ints, query: int, asked: AxisWeights) -> tuple[float, bool]:
    """Return the weight of all cells of a node and true; or else some number and false."""
    common, alike = 1.0, True
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        first, last = max(low, asked.taken[query, axis, LOW]), min(high, asked.taken[query, axis, HIGH])
        if first >= last:
            return 0.0, True
        at = asked.taken[query, axis, ROW] + first
        if asked.until[at] < last:
            alike = False
            continue
        common *= asked.weight[at]
        if common == 0.0:
            return 0.0, True
        alike &= first == low and last == high
    return common, alike


@compiled
def mean_weight(node: int, lower: Ints, upper: Ints, query: int, asked: AxisWeights, power: int) -> float:
    """Return the mean over a node, by the measure, of a query's weights (0) or of their squares (1)."""
    mean = 1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        first, last = max(low, asked.taken[query, axis, LOW]), min(high, asked.taken[query, axis, HIGH])
        if first >= last:
            return 0.0
        row, start = asked.taken[query, axis, ROW], asked.start[axis]
        taken = asked.sums[row + last, power] - asked.sums[row + first, power]
        whole = asked.measure[start + high] - asked.measure[start + low]
        if taken != whole:  # most sides are taken as a whole: spares a division
            mean *= taken / whole
    return mean


@compiled
def _apart(node: int, lower: Ints, upper: Ints, cut: int, place: int, query: int, asked: AxisWeights) -> float:
    """Return by how much the mean weight below a cut exceeds that above it, for a node cut across an axis at a place.

    The two halves differ in their sides along that axis alone.
    """
    apart = 1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        least, most = asked.taken[query, axis, LOW], asked.taken[query, axis, HIGH]
        row, start = asked.taken[query, axis, ROW], asked.start[axis]
        to_low, to_high = min(max(low, least), most), max(min(high, most), least)
        if axis == cut:
            to_place = min(max(place, least), most)
            before = asked.sums[row + to_place, 0] - asked.sums[row + to_low, 0]
            after = asked.sums[row + to_high, 0] - asked.sums[row + to_place, 0]
            before /= asked.measure[start + place] - asked.measure[start + low]
            after /= asked.measure[start + high] - asked.measure[start + place]
            apart *= before - after
        else:
            taken = asked.sums[row + to_high, 0] - asked.sums[row + to_low, 0]
            whole = asked.measure[start + high] - asked.measure[start + low]
            if taken != whole:
                apart *= taken / whole
    return apart


@compiled
def _of_cut_leaf(node: int, lower: Ints, upper: Ints, query: int, asked: AxisWeights) -> tuple[float, float, float]:
    """Return p, m and n (q - p^2) of a leaf in which weights vary, as `leaf_sums` has them.

    The last is the sum of squared weights less S^2/n, S their sum: ranges that cut boxes alike have equal numbers.
    """
    mean, size, cells, weights, squares = 1.0, 1.0, 1.0, 1.0, 1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        row = asked.taken[query, axis, ROW]
        first, last = row + max(low, asked.taken[query, axis, LOW]), row + min(high, asked.taken[query, axis, HIGH])
        taken = asked.sums[last, 0] - asked.sums[first, 0]
        mean *= taken / (high - low)
        size *= (asked.sums[last, 2] - asked.sums[first, 2]) / (high - low)
        cells *= high - low
        weights *= taken
        squares *= asked.sums[last, 1] - asked.sums[first, 1]
    return mean, size, max(squares - weights * weights / cells, 0.0)


@compiled
def _met(node: int, lower: Ints, upper: Ints, end: Ints, query: int, asked: AxisWeights) -> tuple[int, float, bool]:
    """Return the next node, from one on, whose weights are alike or that is a leaf; its weight; whether they are."""
    mean, alike = common_weight(node, lower, upper, query, asked)
    while not alike and end[node] > node + 1:
        node += 1
        mean, alike = common_weight(node, lower, upper, query, asked)
    return node, mean, alike


@compiled
def _leaf_sums(lower: Ints, upper: Ints, end: Ints, below: Floats, asked: AxisWeights) -> Floats:
    found = np.zeros((len(asked.taken), 6))
    for query in range(len(asked.taken)):
        sums, node, least, most = found[query], 0, np.inf, 0.0
        while node < len(end):
            node, mean, alike = _met(node, lower, upper, end, query, asked)
            if not alike:
                mean, size, cut = _of_cut_leaf(node, lower, upper, query, asked)
                sums[CUT] += cut
                sums[LINEAR] += below[node, 0] ** 2 * size
                sums[SQUARED] += below[node, 0] ** 2 * size * size
                least, most = 0.0, np.inf
            elif mean != 0.0:
                least, most = min(least, abs(mean)), max(most, abs(mean))
            sums[VALUE] += mean * below[node, 0]
            sums[VARIANCE] += mean * mean * below[node, 1]
            sums[NUMBER] += below[node, 2] if mean != 0.0 else 0.0
            node = end[node]
        if least < (1 - 1e-12) * most:
            sums[NUMBER] = 0.0
    return found


@compiled
def _split_sums(
    lower: Ints,
    upper: Ints,
    end: Ints,
    cut_axis: Ints,
    cut_place: Ints,
    totals: Floats,
    splits: Floats,
    uneven: Floats,
    of_total: float,
    asked: AxisWeights,
) -> Floats:
    found = np.zeros((len(asked.taken), 3))
    for query in range(len(asked.taken)):
        node = 0
        while node < len(end):
            mean, alike = common_weight(node, lower, upper, query, asked)
            if alike:
                found[query, 0] += mean * totals[node]
                node = end[node]
                continue
            left = node + 1
            if end[node] > left:
                apart = _apart(node, lower, upper, cut_axis[node], cut_place[node], query, asked)
                found[query, 1] += splits[node] * apart * apart
            else:
                mean = mean_weight(node, lower, upper, query, asked, 0)
                varying = max(mean_weight(node, lower, upper, query, asked, 1) - mean * mean, 0.0)
                found[query, 0] += mean * totals[node]
                found[query, 2] += uneven[node] * varying
            node = left
        whole_mean = mean_weight(0, lower, upper, query, asked, 0)
        found[query, 1] += of_total * whole_mean * whole_mean
    return found


@compiled
def _hidden_squares(
    lower: Ints, upper: Ints, end: Ints, totals: Floats, uneven: Floats, unordered: Bools, asked: AxisWeights
) -> Floats:
    found = np.zeros(len(asked.taken))
    for query in range(len(asked.taken)):
        node = 0
        while node < len(end):
            node, mean, alike = _met(node, lower, upper, end, query, asked)
            if not alike:
                mean = mean_weight(node, lower, upper, query, asked, 0)
                varying = max(mean_weight(node, lower, upper, query, asked, 1) - mean * mean, 0.0)
                alone = totals[node] ** 2 * _of_one_value(node, lower, upper, query, unordered, asked)
                found[query] += max(alone - uneven[node] * varying, 0.0)
            node = end[node]
    return found


@compiled
def _of_one_value(node: int, lower: Ints, upper: Ints, query: int, unordered: Bools, asked: AxisWeights) -> float:
    """Return the squared error of a query, in units of a leaf's total, if one value has all rows of the leaf."""
    part, along = 1.0, 1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        first, last = max(low, asked.taken[query, axis, LOW]), min(high, asked.taken[query, axis, HIGH])
        if first >= last:
            return 0.0
        row, start = asked.taken[query, axis, ROW], asked.start[axis]
        taken = asked.sums[row + last, 0] - asked.sums[row + first, 0]
        mean = taken / (asked.measure[start + high] - asked.measure[start + low])
        if unordered[axis]:
            part *= min(max(mean, 0.0), 1.0)
        else:
            along *= mean
    return along * along * (1 - part) * max(part, (1 - part) / COVERED) if part > 0 else 0.0


@compiled
def _node_sums(lower: Ints, upper: Ints, end: Ints, columns: Floats, asked: AxisWeights) -> Floats:
    found = np.zeros((len(asked.taken), columns.shape[1]))
    for query in range(len(asked.taken)):
        node = 0
        while node < len(end):
            node, mean, alike = _met(node, lower, upper, end, query, asked)
            if not alike:
                mean = mean_weight(node, lower, upper, query, asked, 0)
            if mean != 0.0:
                for column in range(columns.shape[1]):
                    found[query, column] += mean * columns[node, column]
            node = end[node]
    return found
