"""The root total, by complete sets of counts whose selection did not depend on their own noise.

Adaptive refinement continues where counts are large, so it favours counts that noise has raised, and the pooled total
of all counts has a positive bias. The sum of boxes that partition the cube and were counted in one call is unbiased,
because its noise was drawn after the boxes were selected: the count of the whole, the pilot, every cell or every box of
a level, and last the final boxes. The mean of these sums, weighted by precision, is unbiased with a known variance. It
alone is the total of an estimate: all counts together would add little (these are among them), and with a bias.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.compiled import compiled
from dpcube.measurements import BoxCounts, Transcript
from dpcube.noise import noise_variances


class Whole(NamedTuple):
    """A noisy count of the whole table, and the variance of its noise."""

    total: float
    variance: float

    def pooled_with(self, other: "Whole") -> "Whole":
        """Return the mean with an independent count, weighted by precision."""
        both = self.variance + other.variance
        total = (self.total * other.variance + other.total * self.variance) / both
        return Whole(total, self.variance * other.variance / both)


def counted_apart(transcript: Transcript) -> Whole | None:
    """Return the mean, weighted by precision, of the counts of the whole that were measured by themselves."""
    if not transcript.totals:
        return None
    units = np.array([one.units for one in transcript.totals], np.int64)
    precisions = 1 / noise_variances(units, transcript.epsilon_per_unit)
    counts = np.array([int(one.counts) for one in transcript.totals], np.float64)
    return Whole(float(counts @ precisions / precisions.sum()), float(1 / precisions.sum()))


def whole_count(boxes: BoxCounts, epsilon_per_unit: Fraction, *, periods: int = 1) -> Whole | None:
    """Return the mean, weighted by precision, of what every run of counts that fills the cube adds up to.

    Of releases put together, runs fill the slab of a period; what the periods say is added up, if each says something.
    """
    tree = boxes.tree
    run = _complete_runs(tree.end[boxes.node], tree.sizes[boxes.node], boxes.node, int(tree.sizes[0]) // periods)
    taken = run >= 0
    counts = np.bincount(run[taken], boxes.counts[taken])
    precisions = 1 / np.bincount(run[taken], noise_variances(boxes.units[taken], epsilon_per_unit))
    period = np.zeros(len(counts), np.int64)
    if periods > 1:
        period[run[taken]] = tree.lower[boxes.node[taken], 0]
    of_period = np.bincount(period, precisions, minlength=periods)
    if not of_period.all():
        return None
    totals = np.bincount(period, counts * precisions, minlength=periods) / of_period
    return Whole(float(totals.sum()), float((1 / of_period).sum()))


@compiled
def _complete_runs(end: Ints, sizes: Ints, node: Ints, cells: int) -> Ints:
    """Return the number of the run that each count is of, -1 if none: boxes beside each other that fill the cube."""
    run, runs, first, covered = np.full(len(sizes), -1), 0, 0, 0
    for row in range(len(sizes)):
        if covered > 0 and (node[row] < end[row - 1] or covered + sizes[row] > cells):
            covered = 0
        if covered == 0:
            first = row
        covered += sizes[row]
        if covered == cells:
            run[first : row + 1] = runs
            runs += 1
            covered = 0
    return run
