"""The count of the whole table by the counts whose making their own noise did not decide.

A strategy that looks on where counts are large keeps what noise has raised and parts it further, so what all its counts
together say of the total is a little too large. The sum of boxes that fill the cube and were counted in one go does not
suffer from that, for its noise came after the boxes were chosen: the count of the whole, the first look, every cell or
every box of a level, and last the boxes that fit best.
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

    def weighed_with(self, mean: float, variance: float) -> "Whole":
        """Return this count together with what all counts say, which is surer but may be biased.

        The square of that bias is taken to be what the two are apart by beyond the noise of this one; each counts by
        the inverse of its mean squared error. So a posterior that is not contradicted keeps its own total.
        """
        own = variance + max((self.total - mean) ** 2 - self.variance, 0.0)
        part = self.variance / (self.variance + own)
        return Whole(part * mean + (1 - part) * self.total, part**2 * own + (1 - part) ** 2 * self.variance)


def whole_count(boxes: BoxCounts, epsilon_per_unit: Fraction) -> Whole | None:
    """Return the mean, weighted by precision, of what every run of counts that fills the cube adds up to."""
    tree = boxes.tree
    run = _complete_runs(tree.end[boxes.node], tree.sizes[boxes.node], boxes.node, int(tree.sizes[0]))
    if run.max(initial=-1) < 0:
        return None
    taken = run >= 0
    counts = np.bincount(run[taken], boxes.counts[taken])
    variances = np.bincount(run[taken], noise_variances(boxes.units[taken], epsilon_per_unit))
    precision = float((1 / variances).sum())
    return Whole(float((counts / variances).sum()) / precision, 1 / precision)


@compiled
def _complete_runs(end: Ints, sizes: Ints, node: Ints, cells: int) -> Ints:
    """Return the number of the run that each count is of, -1 if none: boxes beside each other that fill the cube."""
    run, runs, first, covered = np.full(len(sizes), -1), 0, 0, 0
    for row in range(len(sizes)):
        if covered > 0 and node[row] < end[row - 1]:
            covered = 0
        if covered == 0:
            first = row
        covered += sizes[row]
        if covered == cells:
            run[first : row + 1] = runs
            runs += 1
            covered = 0
    return run
