"""Compiled loops behind answers: sums over ranges by summed-area table, and over trees of boxes by descent."""

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.compiled import compiled
from dpcube.geometry.tree import BoxTree
from dpcube.query import Workload


def summed_area_table(cells: Floats) -> Floats:
    """Return prefix sums along every axis: entry i holds the sum of all cells at or before i on every axis."""
    table = np.array(cells, np.float64, order="C")
    for axis in range(table.ndim):
        np.cumsum(table, axis=axis, out=table)
    return table


def range_sums(table: Floats, lower: Ints, upper: Ints) -> Floats:
    """Return the sum of cells in each half-open range from a summed-area table.

    A range takes 2^k look-ups, k being the number of axes on which it does not start at the first cell: no more than
    the cube has cells, however many axes have one cell only.
    """
    strides = np.array(table.strides, np.int64) // table.itemsize
    return _corner_sums(table.reshape(-1), strides, lower, upper)


@compiled
def _corner_sums(table: Floats, strides: Ints, lower: Ints, upper: Ints) -> Floats:
    queries, dims = lower.shape
    sums = np.zeros(queries)
    for query in range(queries):
        cut = 0
        for axis in range(dims):
            cut |= int(lower[query, axis] > 0) << axis
        corner = cut
        while True:  # over every subset of the axes in `cut`, the empty one last
            index, sign = 0, 1.0
            for axis in range(dims):
                if corner >> axis & 1:
                    edge = lower[query, axis] - 1
                    sign = -sign
                else:
                    edge = upper[query, axis] - 1
                index += edge * strides[axis]
            sums[query] += sign * table[index]
            if corner == 0:
                break
            corner = (corner - 1) & cut
    return sums


@compiled
def subtree_sums(parent: Ints, values: Floats) -> Floats:
    """Return, for every node in preorder and each column, the sum of `values` over itself and its descendants."""
    sums = values.copy()
    for node in range(len(parent) - 1, 0, -1):
        sums[parent[node]] += sums[node]
    return sums


def sums_over_boxes(
    tree: BoxTree, linear: Floats, square: Floats, workload: Workload, *, whole: Floats | None = None
) -> Floats:
    """Return, for each range and column, the sum over leaves of linear * s + square * s^2, s cells in the range.

    A leaf that lies inside the range as a whole counts as `whole` says, if it is given.
    """
    sizes = tree.sizes[tree.leaves][:, None]
    of_node = np.zeros((3, len(tree), linear.shape[1]))
    of_node[:, tree.leaves] = sizes * (linear + square * sizes) if whole is None else whole, linear, square
    inside = subtree_sums(tree.parent, of_node[0])
    return range_sums_of_boxes(
        tree.lower, tree.upper, tree.end, inside, of_node[1], of_node[2], workload.lower, workload.upper
    )


@compiled
def range_sums_of_boxes(
    node_lower: Ints,
    node_upper: Ints,
    end: Ints,
    inside: Floats,
    linear: Floats,
    square: Floats,
    lower: Ints,
    upper: Ints,
) -> Floats:
    """Return, for each range and column, the sum over leaf boxes of linear * s + square * s^2, s cells in the range.

    The walk goes down the tree in preorder without a stack: a subtree that lies inside the range adds its `inside`
    sum and is passed over, one that lies outside is passed over, and only leaves that the range cuts are computed.
    """
    queries, dims = lower.shape
    columns = inside.shape[1]
    sums = np.zeros((queries, columns))
    for query in range(queries):
        node = 0
        while node < len(end):
            overlap, contained = 1, True
            for axis in range(dims):
                low = max(node_lower[node, axis], lower[query, axis])
                high = min(node_upper[node, axis], upper[query, axis])
                overlap *= max(high - low, 0)
                contained &= low == node_lower[node, axis] and high == node_upper[node, axis]
            if contained:
                for column in range(columns):
                    sums[query, column] += inside[node, column]
            elif overlap > 0 and end[node] == node + 1:
                for column in range(columns):
                    sums[query, column] += overlap * (linear[node, column] + square[node, column] * overlap)
            node = node + 1 if overlap > 0 and not contained else end[node]
    return sums
