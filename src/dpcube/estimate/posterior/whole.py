"""The count of the whole table by the counts whose making no noise decided.

A strategy that looks on where counts are large keeps what noise has raised and parts it further, so sums of all that it
counted are a little too large. Counts that part the whole cube and were made alike do not suffer from that: the first
of all, of the whole; the first look; every cell, or every box of a level.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpcube.arrays import Ints
from dpcube.compiled import compiled
from dpcube.noise import noise_variances
from dpcube.transcript import BoxCounts


class Whole(NamedTuple):
    """A noisy count of the whole table, and the variance of its noise."""

    total: float
    variance: float


def whole_count(boxes: BoxCounts, epsilon_per_unit: Fraction) -> Whole | None:
    """Return the mean, weighted by precision, of what every run of like counts over the whole cube adds up to."""
    tree = boxes.tree
    run = _complete_runs(tree.sizes[boxes.node], boxes.units, int(tree.sizes[0]))
    if run.max(initial=-1) < 0:
        return None
    taken = run >= 0
    counts = np.bincount(run[taken], boxes.counts[taken])
    variances = np.bincount(run[taken], noise_variances(boxes.units[taken], epsilon_per_unit))
    precision = float((1 / variances).sum())
    return Whole(float((counts / variances).sum()) / precision, 1 / precision)


@compiled
def _complete_runs(sizes: Ints, units: Ints, cells: int) -> Ints:
    """Return the number of the run that each count is of, -1 if none: equal units, and as many cells as the cube."""
    run, runs, first, covered = np.full(len(sizes), -1), 0, 0, 0
    for row in range(len(sizes)):
        if covered > 0 and units[row] != units[first]:
            covered = 0
        if covered == 0:
            first = row
        covered += sizes[row]
        if covered == cells:
            run[first : row + 1] = runs
            runs += 1
        if covered >= cells:
            covered = 0
    return run
