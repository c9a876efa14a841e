"""Coarsening of an attribute by its noisy marginal: groups of cells whose counts stand out of the noise.

Marginals over several attributes count groups of cells, so that each group has enough rows to stand out of the noise.
Neighbouring cells are grouped where cells have an order, rare ones otherwise.
"""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.cell_sums import non_negative


def coarsened_cells(noisy: Floats, *, ordered: bool, most: int, least: float) -> Ints:
    """Return the group of each cell: about `most` groups, each with an estimated count of `least` rows or more.

    >>> coarsened_cells(np.array([1.0, 2.0, 90.0, 40.0, 1.0, 3.0]), ordered=True, most=3, least=5.0)
    array([0, 0, 1, 2, 2, 2])
    >>> coarsened_cells(np.array([1.0, 60.0, 2.0, 40.0]), ordered=False, most=3, least=5.0)
    array([2, 0, 2, 1])
    """
    counts = non_negative(noisy)
    if len(counts) <= 2:
        return np.arange(len(counts))
    return _neighbours(counts, max(float(counts.sum()) / most, least)) if ordered else _rare(counts, most, least)


def coarsened_beside_large_cells(noisy: Floats, *, ordered: bool, most: int, least: float) -> Ints:
    """Return the group of each cell: cells of large count are alone, the others share the remaining groups.

    Where nearly all rows are in one cell (no gain, no loss), classes differ in the others.

    >>> coarsened_beside_large_cells(np.array([900.0, 10, 20, 30, 10, 10]), ordered=True, most=4, least=5.0)
    array([0, 1, 1, 2, 3, 3])
    """
    if not ordered or len(noisy) <= 2:
        return coarsened_cells(noisy, ordered=ordered, most=most, least=least)
    counts = non_negative(noisy)
    large, wanted = np.zeros(len(counts), np.bool_), max(float(counts.sum()) / most, least)
    while (more := large | (counts >= wanted)).sum() > large.sum():
        large = more
        wanted = max(float(counts[~large].sum()) / max(most - int(large.sum()), 1), least)
    return _neighbours(counts, wanted)


def _neighbours(counts: Floats, wanted: float) -> Ints:
    """Start a group at each cell of at least the wanted count, after such a cell, and where the last group is full."""
    starts, filled = [0], 0.0
    large = counts >= wanted
    for cell, count in enumerate(counts.tolist()):
        if filled > 0 and (large[cell] or filled + count / 2 >= wanted):
            starts.append(cell)
            filled = 0.0
        filled += count
    if len(starts) > 1 and filled < wanted / 4:
        starts.pop()
    groups = np.zeros(len(counts), np.int64)
    groups[starts[1:]] = 1
    return np.cumsum(groups)


def _rare(counts: Floats, most: int, least: float) -> Ints:
    """Leave the most frequent cells alone, and put all others into the last group."""
    order = np.argsort(-counts, kind="stable")[: max(most - 1, 1)]
    alone = np.sort(order[counts[order] >= least])
    if len(alone) >= len(counts) - 1:
        return np.arange(len(counts))
    groups = np.full(len(counts), len(alone))
    groups[alone] = np.arange(len(alone))
    return groups
