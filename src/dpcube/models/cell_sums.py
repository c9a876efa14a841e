"""Sums over the cells of a cube, by ranges or by counting queries.

Ranges are read from a summed-area table at their corners; queries with weights go through the cells that they take.
"""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.queries import CountingQueries


def summed_area_table(cells: Floats) -> Floats:
    """Return prefix sums along every axis: entry i holds the sum of all cells at or before i on every axis."""
    table = np.array(cells, np.float64, order="C")
    for axis in range(table.ndim):
        np.cumsum(table, axis=axis, out=table)
    return table


def range_sums(table: Floats, lower: Ints, upper: Ints) -> Floats:
    """Return the sum of cells in each half-open range, shape (queries,), from a summed-area table.

    `lower` and `upper` are the bounds of the ranges, shape (queries, axes). A range takes 2^k look-ups, k being the
    number of axes on which it does not start at the first cell: no more than the cube has cells, however many axes
    have one cell only.
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


def few_weighted_sums(cells: Floats, queries: CountingQueries) -> Floats:
    """Return the same as `weighted_sums` by NumPy: for few queries, where loading a compiler takes longer."""
    return np.array([_weighted_sum(cells, queries, query) for query in range(len(queries))], np.float64)


def _weighted_sum(cells: Floats, queries: CountingQueries, query: int) -> float:
    weights = [of_axis[queries.chosen[query, axis]] for axis, of_axis in enumerate(queries.weights)]
    used = [np.flatnonzero(of_axis) for of_axis in weights]
    if not all(map(len, used)):
        return 0.0
    taken = [slice(places[0], places[-1] + 1) for places in used]
    left = cells[tuple(taken)]
    for of_axis, places in zip(reversed(weights), reversed(taken), strict=True):
        left = left @ of_axis[places]
    return float(left)


def weighted_sums(cells: Floats, queries: CountingQueries) -> Floats:
    """Return the sum of cells times weights of each query, shape (queries,).

    Each query goes through the smallest sub-cube that holds all the cells to which it gives a weight.
    """
    lower, upper = np.zeros_like(queries.chosen), np.zeros_like(queries.chosen)
    for axis, weights in enumerate(queries.weights):
        used, extent = weights != 0, weights.shape[1]
        first, last = used.argmax(axis=1), extent - used[:, ::-1].argmax(axis=1)
        some = used.any(axis=1)
        lower[:, axis] = first[queries.chosen[:, axis]]
        upper[:, axis] = np.where(some, last, first)[queries.chosen[:, axis]]
    begin = np.cumsum([0, *(weights.size for weights in queries.weights)])[:-1]
    first = begin + queries.chosen * np.array(cells.shape)
    flat = np.concatenate([weights.reshape(-1) for weights in queries.weights])
    cells = np.ascontiguousarray(cells)
    strides = np.array(cells.strides, np.int64) // cells.itemsize
    return _weighted_sums(cells.reshape(-1), strides, flat, first, lower, upper)


@compiled
def _weighted_sums(cells: Floats, strides: Ints, weight: Floats, first: Ints, lower: Ints, upper: Ints) -> Floats:
    queries, dims = first.shape
    sums = np.zeros(queries)
    index = np.empty(dims, np.int64)
    for query in range(queries):
        low, high, last = lower[query], upper[query], first[query, dims - 1]
        index[:] = low
        if (low >= high).any():
            continue
        while index[0] < high[0]:
            part, at = 1.0, 0
            for axis in range(dims - 1):
                part *= weight[first[query, axis] + index[axis]]
                at += index[axis] * strides[axis]
            if part != 0.0:
                row = 0.0
                for cell in range(low[dims - 1], high[dims - 1]):
                    row += weight[last + cell] * cells[at + cell]
                sums[query] += part * row
            index[dims - 1] = high[dims - 1]
            for axis in range(dims - 1, 0, -1):
                if index[axis] == high[axis]:
                    index[axis] = low[axis]
                    index[axis - 1] += 1
    return sums


def non_negative(cells: Floats) -> Floats:
    """Return the nearest cells that are not below zero and keep the total, in one dimension.

    Clipping alone would add the noise of every empty cell to the total, and scaling the total back would take it from
    cells that are not empty. The nearest cells (least squares) take the same amount from all, and clip what is left.
    """
    flat = cells.reshape(-1)
    total = max(float(flat.sum()), 0.0)
    if not (flat < 0).any():
        return flat
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    kept = np.flatnonzero(falling > excess)
    return np.maximum(flat - excess[kept[-1]], 0.0) if total > 0 else np.zeros_like(flat)
