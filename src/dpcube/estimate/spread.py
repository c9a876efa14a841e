"""Compiled loops over the leaves of a posterior: their totals spread over cells, and the error of what a query takes.

A leaf is spread by the marginals of the attributes, so the part of a box that a query takes is a product over axes of
differences of two prefix sums: the query's weight along the axis, and the marginal itself.
"""

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.compiled import compiled


@compiled
def fill(cells: Floats, strides: Ints, lower: Ints, upper: Ints, total: Floats, prefix: Floats, start: Ints) -> None:
    """Write into every cell of every box its part of the box's total."""
    dims = lower.shape[1]
    index = np.empty(dims, np.int64)
    for box in range(len(lower)):
        density = total[box]
        for axis in range(dims):
            index[axis] = lower[box, axis]
            density /= prefix[start[axis] + upper[box, axis]] - prefix[start[axis] + lower[box, axis]]
        while index[0] < upper[box, 0]:
            part, at = density, 0
            for axis in range(dims - 1):
                part *= prefix[start[axis] + index[axis] + 1] - prefix[start[axis] + index[axis]]
                at += index[axis] * strides[axis]
            last = start[dims - 1]
            for cell in range(lower[box, dims - 1], upper[box, dims - 1]):
                cells[at + cell] = part * (prefix[last + cell + 1] - prefix[last + cell])
            index[dims - 1] = upper[box, dims - 1]
            for axis in range(dims - 1, 0, -1):
                if index[axis] == upper[box, axis]:
                    index[axis] = lower[box, axis]
                    index[axis - 1] += 1


@compiled
def range_sums_of_tree(
    lower: Ints,
    upper: Ints,
    end: Ints,
    total: Floats,
    split: Floats,
    uneven: Floats,
    prefix: Floats,
    start: Ints,
    query_lower: Ints,
    query_upper: Ints,
) -> Floats:
    """Return for each range what `tree_sums` returns for counting queries, as columns.

    The walk goes down in preorder and passes over subtrees that lie inside the range or outside it: there the two
    halves of every split are taken alike.
    """
    sums = np.zeros((len(query_lower), 3))
    for query in range(len(query_lower)):
        node = 0
        while node < len(end):
            part = _covered(node, lower, upper, prefix, start, query_lower[query], query_upper[query])
            if part == 0.0 or part == 1.0:
                sums[query, 0] += part * total[node]
                node = end[node]
                continue
            left = node + 1
            if end[node] == left:
                sums[query, 0] += part * total[node]
                sums[query, 2] += uneven[node] * part * (1 - part)
            else:
                apart = _covered(left, lower, upper, prefix, start, query_lower[query], query_upper[query])
                apart -= _covered(end[left], lower, upper, prefix, start, query_lower[query], query_upper[query])
                sums[query, 1] += split[node] * apart * apart
            node = left
    return sums


@compiled
def _covered(
    node: int, lower: Ints, upper: Ints, prefix: Floats, start: Ints, query_lower: Ints, query_upper: Ints
) -> float:
    """Return the part of a node inside a range: exactly 0 or 1 when it lies outside or inside."""
    part = 1.0
    for axis in range(lower.shape[1]):
        low, high = lower[node, axis], upper[node, axis]
        first, last = max(low, query_lower[axis]), min(high, query_upper[axis])
        if first >= last:
            return 0.0
        if first > low or last < high:
            base = start[axis]
            part *= (prefix[base + last] - prefix[base + first]) / (prefix[base + high] - prefix[base + low])
    return part
