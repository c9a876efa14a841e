"""How the count of a group of cells is shared among its cells: a noisy marginal, smoothed by wavelets or shrunk."""

import math

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.marginals.fitting import nearest_with_sums


def smoothed(counts: Floats, variance: float) -> Floats:
    """Return counts without the steps between neighbours that noise of this variance would make.

    Haar's wavelets, from every start (Coifman and Donoho): the mean of each run of 2, 4, 8 ... cells is compared with
    that of the next run, and a difference is dropped unless it is above the largest that noise alone would make of so
    many cells, sqrt(2 ln cells) of its standard deviations (Donoho and Johnstone). A spike is kept as it is, and a
    slope as far as it can be told. The cells are mirrored at the ends.

    >>> smoothed(np.array([9.0, 11.0, 10.0, 90.0, 10.0, 11.0, 9.0, 10.0]), 4.0).round()
    array([10., 10., 10., 90., 10., 10., 10., 10.])
    """
    size = len(counts)
    if size < 4:
        return counts.astype(np.float64)
    means, steps = np.concatenate([counts, counts[::-1]]).astype(np.float64), []
    least = math.sqrt(2 * math.log(size) * variance)
    levels = [1 << level for level in range(int(math.log2(size)))]
    for run in levels:
        following = np.roll(means, -run)
        half = (means - following) / 2
        steps.append(np.where(np.abs(half) > least / math.sqrt(2 * run), half, 0.0))
        means = (means + following) / 2
    for run, half in zip(reversed(levels), reversed(steps), strict=True):
        means = (means + half + np.roll(means - half, run)) / 2
    return means[:size]


def shares_of_cells(counts: Floats, variance: float, groups: Ints, totals: Floats) -> Floats:
    """Return the share of each cell in its group, at least 0 and 1 together; `totals` are the counts of the groups.

    What differs between the cells of a group is real as far as it is more than the noise makes. Groups of neighbours
    (their numbers ascend) are smoothed; differences from the mean of any others are shrunk by the part that noise has
    in them, James and Stein's way. An empty group is spread uniformly.
    """
    shares = np.empty(len(counts))
    neighbours = bool((np.diff(groups) >= 0).all())
    if neighbours:
        counts = smoothed(counts, variance)
    order = np.argsort(groups, kind="stable")
    for cells in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        own, total = counts[cells], max(float(totals[groups[cells[0]]]), 0.0)
        if not neighbours:
            seen = float(own.var(ddof=1)) if len(cells) > 1 else 0.0
            kept = max(0.0, 1 - variance / seen) if seen > 0 else 0.0
            own = own.mean() + kept * (own - own.mean())
        spread = nearest_with_sums(own[None], np.array([total]))[0]
        shares[cells] = spread / spread.sum() if spread.sum() > 0 else 1 / len(cells)
    return shares
