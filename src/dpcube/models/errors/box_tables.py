"""Sums over the boxes that very many ranges cut: tables from which they are read at a range's corners.

What a box adds to a sum is a product over axes. Let c(x) be the part of a box's side before x. From x1 to x2 a range
takes c2 - c1 of the side, and the side as a whole or not. Unless both ends lie inside the side, so that one of the c is
0 or 1, each of these factors is a difference F(x2) - B(x1):

    part: c and c;    squared part: c^2 and 2c - c^2;    whole: [c = 1] and [c > 0].

So the product over axes, summed over boxes, is a sum over the range's 2^d corners of look-ups in 2^d tables, one for
each choice of F or B on every axis. Boxes that hold both ends inside some side of theirs are few: they are visited,
down the tree and past all subtrees without a side that long, and what the tables have wrong for them is put right.
Nothing is approximate.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.queries import Workload
from dpcube.trees.tree import BoxTree

MAX_TABLE_BYTES = 2**30
"""No tables are made that would take more."""
RANGE_WORTH = 1000
"""Visiting boxes for one range takes at least as long as making so many numbers of tables."""
PART, SQUARE, WHOLE = 0, 1, 2


def worthwhile(numbers: int, ranges: int) -> bool:
    """Whether tables of so many numbers fit, and are quicker than visiting boxes for each of so many ranges."""
    return 8 * numbers <= MAX_TABLE_BYTES and numbers <= RANGE_WORTH * ranges


@dataclass(frozen=True, slots=True, eq=False)
class BoxTables:
    """Tables from which some sums over the leaves of a tree are read for any range.

    In each sum a leaf counts by the part of it in the range, by the square of the part, and as a whole or not.
    """

    tree: BoxTree
    terms: Floats
    """What a leaf adds to each sum for its part, its squared part, and as a whole: shape (nodes, sums, 3)."""
    tables: Floats
    """Prefix sums, shape (corners, extent + 1 of each axis, sums): a table for each choice of F or B on every axis."""
    longest: Ints
    """The longest side on each axis of the leaves below each node, shape (nodes, axes)."""

    @classmethod
    def from_terms(cls, tree: BoxTree, terms: Floats) -> "BoxTables":
        """Build the tables."""
        tables = np.zeros((2 ** len(tree.shape), *(extent + 1 for extent in tree.shape), terms.shape[1]))
        strides, rows = _rows(tables)
        _add_leaves(rows, strides, tree.shape, tree.lower, tree.upper, tree.leaves, terms)
        for axis in range(1, tables.ndim - 1):
            np.cumsum(tables, axis=axis, out=tables)
        return cls(tree, terms, tables, _longest_sides(tree.parent, tree.lower, tree.upper, tree.end))

    @staticmethod
    def numbers(shape: tuple[int, ...], sums: int) -> int:
        """Return how many numbers the tables of a shape hold."""
        return sums * math.prod(2 * extent + 2 for extent in shape)

    def sums(self, workload: Workload) -> Floats:
        """Return the sums of each range, shape (ranges, sums)."""
        strides, rows = _rows(self.tables)
        tree, bounds = self.tree, (workload.lower, workload.upper)
        sums = _corner_sums(rows, strides, tree.shape, *bounds)
        _put_right(sums, tree.shape, tree.lower, tree.upper, tree.end, self.longest, self.terms, *bounds)
        return sums


def _rows(tables: Floats) -> tuple[Ints, Floats]:
    """Return how far apart neighbours on each axis are, and the tables as rows of sums."""
    rows = tables.reshape(len(tables), -1, tables.shape[-1])
    return np.array(tables.strides[1:-1], np.int64) // (tables.itemsize * tables.shape[-1]), rows


@compiled
def _add_leaves(
    tables: Floats, strides: Ints, shape: tuple[int, ...], lower: Ints, upper: Ints, leaves: Ints, terms: Floats
) -> None:
    """Add what each leaf's products grow by at every place inside it, to be summed up along the axes.

    `shape` is a tuple so that loops over axes have a length known when they are compiled.
    """
    dims, last = len(shape), len(shape) - 1
    index = np.empty(dims, np.int64)
    for leaf in leaves:
        index[:] = lower[leaf]
        while index[0] < upper[leaf, 0]:
            at = 0
            for axis in range(dims):
                at += strides[axis] * (index[axis] + 1)
            for corner in range(2**dims):
                part, square, whole = 1.0, 1.0, 1.0
                for axis in range(dims):
                    low, high = lower[leaf, axis], upper[leaf, axis]
                    before, after = (index[axis] - low) / (high - low), (index[axis] + 1 - low) / (high - low)
                    grown = after * after - before * before
                    if corner >> axis & 1:
                        part *= before - after
                        square *= grown - 2 * (after - before)
                        whole *= -1.0 if index[axis] == low else 0.0
                    else:
                        part *= after - before
                        square *= grown
                        whole *= 1.0 if index[axis] + 1 == high else 0.0
                for number in range(terms.shape[1]):
                    term = terms[leaf, number]
                    tables[corner, at, number] += term[PART] * part + term[SQUARE] * square + term[WHOLE] * whole
            index[last] += 1
            for axis in range(last, 0, -1):
                if index[axis] == upper[leaf, axis]:
                    index[axis] = lower[leaf, axis]
                    index[axis - 1] += 1


@compiled
def _corner_sums(tables: Floats, strides: Ints, shape: tuple[int, ...], lower: Ints, upper: Ints) -> Floats:
    """Add up, for each range, what the table of each corner has at that corner of the range."""
    dims, numbers = len(shape), tables.shape[2]
    sums = np.zeros((len(lower), numbers))
    for query in range(len(lower)):
        for corner in range(2**dims):
            at = 0
            for axis in range(dims):
                at += strides[axis] * (lower[query, axis] if corner >> axis & 1 else upper[query, axis])
            for number in range(numbers):
                sums[query, number] += tables[corner, at, number]
    return sums


@compiled
def _longest_sides(parent: Ints, lower: Ints, upper: Ints, end: Ints) -> Ints:
    longest = np.zeros_like(lower)
    for node in range(len(end) - 1, -1, -1):
        for axis in range(lower.shape[1]):
            if end[node] == node + 1:
                longest[node, axis] = upper[node, axis] - lower[node, axis]
            if node > 0:
                longest[parent[node], axis] = max(longest[parent[node], axis], longest[node, axis])
    return longest


@compiled
def _put_right(
    sums: Floats,
    shape: tuple[int, ...],
    lower: Ints,
    upper: Ints,
    end: Ints,
    longest: Ints,
    terms: Floats,
    query_lower: Ints,
    query_upper: Ints,
) -> None:
    """Add, for leaves that hold both ends of a range inside a side, their products less what the tables have."""
    dims = len(shape)
    for query in range(len(query_lower)):
        first, last, node = query_lower[query], query_upper[query], 0
        while node < len(end):
            inside, outside = False, False
            for axis in range(dims):
                holds = (lower[node, axis] < first[axis]) & (last[axis] < upper[node, axis])
                inside |= holds & (longest[node, axis] > last[axis] - first[axis] + 1)
                outside |= (last[axis] <= lower[node, axis]) | (upper[node, axis] <= first[axis])
            if outside or not inside:
                node = end[node]
                continue
            if end[node] == node + 1:
                square, table_square, table_whole = 1.0, 1.0, 1.0
                for axis in range(dims):
                    low, high = lower[node, axis], upper[node, axis]
                    a = max(first[axis] - low, 0) / (high - low)
                    b = min(last[axis] - low, high - low) / (high - low)
                    square *= (b - a) * (b - a)
                    table_square *= b * b + a * a - 2 * a
                    table_whole *= (1.0 if last[axis] >= high else 0.0) - (1.0 if first[axis] > low else 0.0)
                for number in range(terms.shape[1]):
                    sums[query, number] += terms[node, number, SQUARE] * (square - table_square)
                    sums[query, number] -= terms[node, number, WHOLE] * table_whole  # it is cut
            node += 1
