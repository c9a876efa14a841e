"""The non-uniformity error of spreading a box evenly over its cells, estimated from the release itself.

For a query with weight s_p in a box of n_p cells, spreading the box's count evenly misses the truth by the sum over
boxes of (s_p/n_p) (sum of the box's cells) - (sum of its selected cells). The noisy cells of phase I give a guess B of
that sum, with noise variance V = v1 * sum of (s_p - s_p^2/n_p): zero when the query cuts no box. One query's B is far
too noisy to use alone, so the ratio r of true squared error to V is pooled over many ranges and, given r, the squared
error of a query is expected to be k^2 B^2 + k V with k = r/(1 + r) (normal prior of variance r V).

The boxes were selected by the same noisy cells: cuts go where noise differs most, so the noise left inside boxes is
less than V says, and B^2 is no evidence on r. So the cells are thinned: with w like their noise, cells + w and cells -
w are as good as independent, each with twice the noise. Boxes grown anew from either, as many at most as were released,
are judged by the other: their B^2 exceeds its known noise by the true squared error on average. Both ways are averaged,
so that no feature of w matters. The excess is normal about the truth, which is not negative: its posterior mean is
taken.

However uneven a box, its T rows cannot do worse than all lie at one place: a part f of the box then holds T or nothing
and is off by (1 - f) T or f T, in the mean square f (1 - f) T^2 over all places. But twice its root must reach f T too,
for the place may well lie outside; f - 3/4 f^2 is the least f - c f^2 that does so for every f. The prior variance r V
is never taken to be above the sum of (f - 3/4 f^2) T^2 over the boxes that the query cuts. The noise of T is stated
apart, as noise.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.boxes import Boxes, box_sums, filled_boxes
from dpcube.models.cell_sums import range_sums, summed_area_table, weighted_sums
from dpcube.models.errors.axis_weights import even_measure, everything
from dpcube.models.errors.parts import evenly_placed_ranges, fixed_normals
from dpcube.models.errors.walks import CUT, leaf_sums
from dpcube.noise.special import inverse_mills_ratio
from dpcube.queries import CountingQueries, Workload
from dpcube.trees.growth import grow
from dpcube.trees.tree import BoxTree

PROBES = 4
REACHED = 0.75
"""The c of the worst a box of T rows can do: (f - c f^2) T^2."""
MAX_CLIPPED_COUNT = 2**30
"""Cell counts are clipped to this for the partition, as by the strategy."""


@dataclass(frozen=True)
class NonUniformity:
    """Evidence on the non-uniformity of boxes: noisy cells, the tree whose leaves are spread evenly, a cell's noise."""

    noisy: NDArray[np.int64]
    tree: BoxTree
    cell_variance: float

    @cached_property
    def deviation(self) -> Floats:
        """Each noisy cell less the mean of its box, in the shape of the cube."""
        return deviations_from_means(self.noisy.astype(np.float64), self.tree.leaf_boxes)

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.deviation)

    @cached_property
    def ratio(self) -> "Ratio":
        """The ratio of true squared error to noise variance, by thinning."""
        noisy = np.clip(self.noisy, -MAX_CLIPPED_COUNT, MAX_CLIPPED_COUNT)
        noise = (
            np.rint(np.sqrt(self.cell_variance) * fixed_normals(noisy.size, 0)).astype(np.int64).reshape(noisy.shape)
        )
        judged = [self._judged(noisy + noise, noisy - noise), self._judged(noisy - noise, noisy + noise)]
        return pooled_ratio([one for one in judged if one is not None], unit=self.cell_variance)

    def _judged(self, growers: NDArray[np.int64], judges: NDArray[np.int64]) -> Floats | None:
        tree = grow(
            np.clip(growers, -MAX_CLIPPED_COUNT, MAX_CLIPPED_COUNT),
            threshold=0.0,
            noise_variance=2 * self.cell_variance,
            slack=1.0,
            max_boxes=len(self.tree.leaves),
        )
        return judge(tree, judges, 2 * self.cell_variance)

    def range_guesses(self, workload: Workload) -> Floats:
        """Return the guess B for each range."""
        return range_sums(self._table, workload.lower, workload.upper)

    def query_guesses(self, queries: CountingQueries) -> Floats:
        """Return the guess B for each counting query."""
        return weighted_sums(self.deviation, queries)

    def expected_square(self, guess: Floats, cut: Floats, worst: Floats) -> Floats:
        """Return the expected squared error of queries, shape (queries,), as this module's head says.

        `guess` is B, `cut` is V / v1 and `worst` the most that the squared error is taken to be a priori.
        """
        noise = self.cell_variance * np.maximum(cut, 0.0)
        prior = np.minimum(self.ratio.at(cut) * noise, np.maximum(worst, 0.0))
        shrink = prior / np.maximum(prior + noise, np.finfo(np.float64).tiny)
        return shrink**2 * guess**2 + shrink * noise


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio that grows with a power of what a query cuts, from `least` at the cut `low`."""

    least: float = 0.0
    low: float = 1.0
    power: float = 0.0

    def at(self, cut: Floats) -> Floats:
        """Return the ratio of queries that cut so much."""
        return self.least * (np.maximum(cut, 0.0) / self.low) ** self.power


def pooled_ratio(judged: list[Floats], *, unit: float) -> Ratio:
    """Return the ratio of true squared error to `unit` times the cut, as the mean of what was judged says.

    Between the ranges that cut less and those that cut more it is constant if what boxes miss cancels, and grows like
    the cut if it adds up.
    """
    if not judged:
        return Ratio()
    at, excess, stderr = np.mean(judged, axis=0)
    low, high = posterior_mean(excess, stderr) / unit
    power = np.log(high / low) / (at[1] - at[0]) if at[1] > at[0] else 0.0
    return Ratio(float(low), float(np.exp(at[0])), float(np.clip(power, 0.0, 1.0)))


def judge(tree: BoxTree, judges: NDArray[np.int64], variance: float) -> Floats | None:
    """Return the log of the cut, the true squared error over it, and the standard error of that, or None without cuts.

    `judges` are noisy cells of noise `variance`, independent of the tree. Ranges are pooled into two columns: those
    that cut less than the middle one, and those that cut more. How far the pooled squares of noise alone are spread is
    seen by probing.
    """
    ranges, leaves = evenly_placed_ranges(tree.shape), tree.leaf_boxes
    asked = everything(tree.shape, *even_measure(tree.shape)).inside(ranges)
    cut = leaf_sums(tree, np.zeros((len(tree), 3)), asked)[:, CUT]
    cutting = np.flatnonzero(cut > 1e-9)
    if len(cutting) < 2:
        return None
    order = np.argsort(np.round(cut[cutting], 6), kind="stable")  # many cut alike: rounding must not order them
    halves = np.array_split(cutting[order], 2)

    def pooled(cells: Floats) -> list[float]:
        guesses = range_sums(summed_area_table(deviations_from_means(cells, leaves)), ranges.lower, ranges.upper)
        return [float(np.mean(guesses[half] ** 2 / cut[half])) for half in halves]

    silent = [pooled(fixed_normals(judges.size, number).reshape(judges.shape)) for number in range(1, PROBES + 1)]
    at = [np.mean(np.log(cut[half])) for half in halves]
    excess = np.array(pooled(judges.astype(np.float64))) - variance
    return np.stack([at, excess, variance * np.std(silent, axis=0, ddof=1)])


def posterior_mean(measured: Floats, stderr: Floats) -> Floats:
    """Return the mean of a normal law about what was measured, cut off below zero.

    >>> posterior_mean(np.array([5.0, 0.0, -5.0]), np.ones(3)).round(3)
    array([5.   , 0.798, 0.187])
    """
    z = np.maximum(measured / stderr, -1e3)  # farther below, the difference of z and the ratio is lost to rounding
    return np.asarray(stderr * (z + inverse_mills_ratio(z)))


def deviations_from_means(cells: Floats, boxes: Boxes) -> Floats:
    """Return each cell less the mean of its box."""
    return cells - filled_boxes(boxes, box_sums(cells, boxes) / boxes.sizes)
