"""The error of spreading a box evenly over its cells, estimated from the release itself.

For a query with weight s_p in a box of n_p cells, spreading the box's count evenly misses the truth by the sum over
boxes of (s_p/n_p) (sum of the box's cells) - (sum of its selected cells). The noisy cells of phase I give an unbiased
guess B of that sum, with noise variance V = v1 * sum of (s_p - s_p^2/n_p): zero when the query cuts no box. One query's
B is far too noisy to use alone, so the ratio of true squared error to V is pooled over many ranges and, given that
ratio r, the squared error of a query is expected to be k^2 B^2 + k V with k = r/(1 + r) (normal prior of variance r V).

The boxes were chosen by the same noisy cells: cuts go where noise differs most, so what noise is left inside boxes is
less than V says (measured between 0.37 and 1 of it on the development data). `LEFT_INSIDE` takes it for half, which
errs on the side of wide intervals.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcube.estimate.kernels import range_sums, summed_area_table
from dpcube.query import Workload

Floats = NDArray[np.float64]

LEFT_INSIDE = 0.5
POOLED_RANGES = 1000


@dataclass(frozen=True)
class WithinBoxes:
    """The deviation of each noisy cell from the mean of its box, and the noise variance of a cell."""

    deviation: Floats
    cell_variance: float

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.deviation)

    def range_guesses(self, workload: Workload) -> Floats:
        """Return the guess B for each range."""
        return range_sums(self._table, workload.lower, workload.upper)

    def expected_square(self, guess: Floats, cut: Floats, ratio: float) -> Floats:
        """Return the expected squared error, given B and the cut weight V / v1 of each query."""
        shrink = ratio / (1 + ratio)
        return shrink**2 * guess**2 + shrink * self.cell_variance * np.maximum(cut, 0.0)

    def pooled_ratio(self, guess: Floats, cut: Floats) -> float:
        """Return the pooled ratio of true squared error to noise variance, never below zero."""
        variance = self.cell_variance * cut
        cutting = variance > 1e-9 * self.cell_variance
        if not cutting.any():
            return 0.0
        return max(float(np.mean(guess[cutting] ** 2 / variance[cutting])) - LEFT_INSIDE, 0.0)


def evenly_placed_ranges(shape: tuple[int, ...]) -> Workload:
    """Return ranges of every size and place, always the same ones: their ends follow a low-discrepancy sequence."""
    ends = 2 * len(shape)
    golden = 2.0
    for _ in range(32):  # the positive root of g^(ends + 1) = g + 1, which generalises the golden ratio
        golden = (1 + golden) ** (1 / (ends + 1))
    steps = np.arange(1, POOLED_RANGES + 1)[:, None] * golden ** -np.arange(1.0, ends + 1)
    places = (steps % 1.0).reshape(POOLED_RANGES, 2, len(shape))
    cells = np.minimum((places * np.array(shape)).astype(np.int64), np.array(shape) - 1)
    return Workload(shape, cells.min(axis=1), cells.max(axis=1) + 1)
