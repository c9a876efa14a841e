"""Many counting queries at once: weights along axes and a tree of boxes enter; what each query takes of them leaves.

The part of a box that a query takes is a product over axes of two differences of prefix sums: of the query's weights
times a measure of the axis, and of the measure itself (1 for each cell, or a marginal). A walk goes down the tree in
preorder and passes over a subtree wherever the weights do not vary: there every box is taken alike, or not at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.compiled import compiled
from dpcube.query import CountingQueries


class AxisWeights(NamedTuple):
    """The weights of many queries, those of each axis one after another, each with one place more than it has cells.

    `until` is the first later cell of another weight; `sums` are prefix sums of the measure times the weights, their
    squares and their sizes; `measure` those of the measure alone, which begin at `start` of each axis. The weights
    that query k takes on an axis begin at `first[k, axis]`.
    """

    weight: Floats
    until: Ints
    sums: Floats
    first: Ints
    measure: Floats
    start: Ints


def axis_weights(queries: CountingQueries, measures: Sequence[Floats]) -> AxisWeights:
    """Return the weights of queries and their prefix sums, given the measure of each cell of each axis."""
    parts = [_of_axis(weights, measure) for weights, measure in zip(queries.weights, measures, strict=True)]
    weight, until, sums = (np.concatenate(part) for part in zip(*parts, strict=True))
    places = [weights.shape[1] + 1 for weights in queries.weights]
    begin = np.cumsum([0, *(len(w) * n for w, n in zip(queries.weights, places, strict=True))])[:-1]
    measure = np.concatenate([np.append(0.0, np.cumsum(m)) for m in measures])
    start = np.cumsum([0, *places[:-1]])
    return AxisWeights(weight, until, sums, begin + queries.chosen * np.array(places), measure, start)


def _of_axis(weights: Floats, measure: Floats) -> tuple[Floats, Ints, Floats]:
    number, cells = weights.shape
    padded, until, sums = (
        np.zeros((number, cells + 1)),
        np.full((number, cells + 1), cells),
        np.zeros((3, number, cells)),
    )
    padded[:, :cells] = weights
    changes = np.where(weights[:, 1:] != weights[:, :-1], np.arange(1, cells), cells)
    until[:, : cells - 1] = np.minimum.accumulate(changes[:, ::-1], axis=1)[:, ::-1]
    np.cumsum([weights * measure, weights**2 * measure, np.abs(weights) * measure], axis=2, out=sums)
    prefix = np.zeros((number, cells + 1, 3))
    prefix[:, 1:] = np.moveaxis(sums, 0, -1)
    return padded.reshape(-1), until.reshape(-1), prefix.reshape(-1, 3)


def largest_weights(queries: CountingQueries) -> Floats:
    """Return the largest size of a cell's weight in each query."""
    return _product(queries, [np.abs(weights).max(axis=1) for weights in queries.weights])


def squared_weights(queries: CountingQueries) -> Floats:
    """Return the sum over cells of squared weights of each query."""
    return _product(queries, [np.sum(weights**2, axis=1) for weights in queries.weights])


def equal_weights(queries: CountingQueries) -> Ints:
    """Return how many cells each query takes, if it takes them all with weights of one size; else 0."""
    numbers = []
    for weights in queries.weights:
        size = np.abs(weights)
        alike = np.min(size, axis=1, where=size > 0, initial=np.inf) >= (1 - 1e-12) * size.max(axis=1)
        numbers.append(np.where(alike, np.count_nonzero(size, axis=1), 0).astype(np.float64))
    return _product(queries, numbers).astype(np.int64)


def _product(queries: CountingQueries, of_weights: Sequence[Floats]) -> Floats:
    taken = [numbers[queries.chosen[:, axis]] for axis, numbers in enumerate(of_weights)]
    return np.asarray(np.prod(taken, axis=0), np.float64)


def cell_sums(cells: Floats, queries: CountingQueries) -> Floats:
    """Return the sum of cells times weights, for each query over the smallest sub-cube that holds what it takes."""
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
    return _cell_sums(cells.reshape(-1), strides, flat, first, lower, upper)


@compiled
def _cell_sums(cells: Floats, strides: Ints, weight: Floats, first: Ints, lower: Ints, upper: Ints) -> Floats:
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


@compiled
def _weight_of(node: int, lower: Ints, upper: Ints, query: int, asked: AxisWeights) -> tuple[float, bool]:
    """Return the weight of a node's cells, and whether they all have it; 0 and true where none is taken."""
    taken, alike = 1.0, True
    for axis in range(lower.shape[1]):
        at = asked.first[query, axis] + lower[node, axis]
        if asked.until[at] >= upper[node, axis]:
            taken *= asked.weight[at]
            if taken == 0.0:
                return 0.0, True
        else:
            alike = False
    return taken, alike


@compiled
def _part(node: int, lower: Ints, upper: Ints, query: int, asked: AxisWeights, column: int) -> float:
    """Return the mean over a node of a query's weights, of their squares or of their sizes, by the measure."""
    part = 1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        first, start = asked.first[query, axis], asked.start[axis]
        taken = asked.sums[first + high, column] - asked.sums[first + low, column]
        part *= taken / (asked.measure[start + high] - asked.measure[start + low])
    return part


@compiled
def box_sums(
    lower: Ints,
    upper: Ints,
    end: Ints,
    inside: Floats,
    asked: AxisWeights,
) -> Floats:
    """Return for each query, as columns, sums over leaves, and last how many it takes alike.

    With T the total of a leaf of n cells, p the mean of its weights, q that of their squares and m that of their sizes,
    the sums are p T, p^2 times the variance of T, n (q - p^2), and where weights vary T^2 m and T^2 m^2. `inside` holds
    totals, variances and numbers of leaves of every subtree. The last is 0 unless every leaf is taken as a whole, with
    one size of weight.
    """
    found = np.zeros((len(asked.first), 6))
    for query in range(len(asked.first)):
        node, least, most = 0, np.inf, 0.0
        while node < len(end):
            part, alike = _weight_of(node, lower, upper, query, asked)
            if not alike and end[node] > node + 1:
                node += 1
                continue
            if alike and part != 0.0:
                least, most = min(least, abs(part)), max(most, abs(part))
            if not alike:
                part = _part(node, lower, upper, query, asked, 0)
                square = _part(node, lower, upper, query, asked, 1)
                cells = 1.0
                for axis in range(lower.shape[1]):
                    cells *= upper[node, axis] - lower[node, axis]
                found[query, 2] += cells * max(square - part * part, 0.0)
                size = _part(node, lower, upper, query, asked, 2)
                found[query, 3] += inside[node, 0] ** 2 * size
                found[query, 4] += inside[node, 0] ** 2 * size * size
                least, most = 0.0, np.inf
            found[query, 0] += part * inside[node, 0]
            found[query, 1] += part * part * inside[node, 1]
            found[query, 5] += inside[node, 2] if part != 0.0 else 0.0
            node = end[node]
        if least < (1 - 1e-12) * most:
            found[query, 5] = 0.0
    return found


@compiled
def tree_sums(
    lower: Ints,
    upper: Ints,
    end: Ints,
    total: Floats,
    split: Floats,
    uneven: Floats,
    asked: AxisWeights,
) -> Floats:
    """Return for each query, as columns, its value, and its variance by splits and inside leaves."""
    found = np.zeros((len(asked.first), 3))
    for query in range(len(asked.first)):
        node = 0
        while node < len(end):
            part, alike = _weight_of(node, lower, upper, query, asked)
            if alike:
                found[query, 0] += part * total[node]
                node = end[node]
                continue
            left = node + 1
            if end[node] > left:
                apart = _part(left, lower, upper, query, asked, 0)
                apart -= _part(end[left], lower, upper, query, asked, 0)
                found[query, 1] += split[node] * apart * apart
            else:
                part = _part(node, lower, upper, query, asked, 0)
                square = _part(node, lower, upper, query, asked, 1)
                cut = max(square - part * part, 0.0)
                found[query, 0] += part * total[node]
                found[query, 2] += uneven[node] * cut
            node = left
    return found
