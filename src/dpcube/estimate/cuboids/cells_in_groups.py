"""How the count of a group falls on its cells: a noisy table of one attribute enters, each cell's share leaves."""

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.estimate.marginals.fitting import nearest_with_sums


def shares_of_cells(counts: Floats, variance: float, groups: Ints) -> Floats:
    """Return the share of each cell in its group, at least 0 and 1 together.

    What differs between the cells of a group is real as far as it is more than the noise makes: differences from the
    group's mean are shrunk by that part, James and Stein's way. A group that counts nothing is spread evenly.
    """
    shares = np.empty(len(counts))
    order = np.argsort(groups, kind="stable")
    for cells in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        own = counts[cells]
        seen = float(own.var(ddof=1)) if len(cells) > 1 else 0.0
        kept = max(0.0, 1 - variance / seen) if seen > 0 else 0.0
        total = max(float(own.sum()), 0.0)
        spread = nearest_with_sums((own.mean() + kept * (own - own.mean()))[None], np.array([total]))[0]
        shares[cells] = spread / total if total > 0 else 1 / len(cells)
    return shares


def grouped_counts(counts: Floats, groups: Ints) -> tuple[Floats, Ints]:
    """Return the sums of counts by group, and how many cells each group has."""
    return np.bincount(groups, weights=counts).astype(np.float64), np.bincount(groups).astype(np.int64)
