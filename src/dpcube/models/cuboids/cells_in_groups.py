"""How the count of a group falls on its cells: a noisy table of one attribute enters, each cell's share leaves."""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.cuboids.smoothing import smoothed
from dpcube.models.marginals.fitting import nearest_with_sums


def shares_of_cells(counts: Floats, variance: float, groups: Ints, totals: Floats) -> Floats:
    """Return the share of each cell in its group, at least 0 and 1 together; `totals` are what the groups hold.

    What differs between the cells of a group is real as far as it is more than the noise makes. Groups of neighbours
    (their numbers ascend) are smoothed; differences from the mean of any others are shrunk by the part that noise has
    in them, James and Stein's way. A group that holds nothing is spread evenly.
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
