"""A `NoisyCounter` over made-up counts, so that a plan runs the real strategies.

Its noise comes from a seed and from floating-point arithmetic, which would protect nobody: there is nobody here. The
counts are made up from public facts, and import contracts keep this module off the curator's path.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.candidates import Candidates, check_candidates
from dpcube.core.cell_budget import RegionBudget, check_units
from dpcube.core.counter import BUDGET_UNITS, check_axes
from dpcube.core.epsilon import check_share
from dpcube.core.selection import chosen


class SimulatedCounter:
    """Counts a made-up table with seeded noise, and refuses what the gate would refuse.

    The same seed at another epsilon gives the same noise scaled: it is the difference of the whole parts of two
    exponential variables divided by epsilon, which has the law of the gate's noise, P(z) ~ exp(-epsilon |z|).
    """

    def __init__(self, made_up: NDArray[np.int64], epsilon: Fraction, *, seed: int | tuple[int, ...]) -> None:
        self._made_up = made_up
        self._generator = np.random.default_rng(seed)
        self._regions = RegionBudget(made_up.shape, BUDGET_UNITS)
        self.epsilon_per_unit = epsilon / BUDGET_UNITS

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self._made_up.shape

    def count_cells(self, units: int) -> NDArray[np.int64]:
        """Return a noisy count of every cell."""
        self._regions.charge_all(units)
        return self._made_up + self._noise(np.full(self._made_up.shape, units))

    def count_boxes(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a noisy count of each box."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        self._regions.charge(boxes, units)
        return box_sums(self._made_up, boxes) + self._noise(units)

    def count_marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Return a noisy table over some axes."""
        check_axes(axes, self.shape)
        self._regions.charge_all(units)
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        table = np.sum(self._made_up, axis=others, dtype=np.int64)
        return table + self._noise(np.full(table.shape, units))

    def choose(self, candidates: Candidates, units: int) -> NDArray[np.int64]:
        """Return the candidate chosen for each question."""
        check_candidates(candidates, self.shape)
        check_units(units)
        check_share(int(units) * self.epsilon_per_unit / candidates.spread)
        if candidates.covered is None:
            self._regions.charge_all(units)
        else:
            self._regions.charge_once(candidates.covered, units)
        noise = self._noise(np.full(int(candidates.sizes.sum()), units), spread=candidates.spread)
        return chosen(candidates.scores(self._made_up), noise, sizes=candidates.sizes)

    def _noise(self, units: NDArray[np.int64], *, spread: int = 1) -> NDArray[np.int64]:
        return seeded_noise(self._generator, units, self.epsilon_per_unit, spread=spread)


def seeded_noise(
    generator: np.random.Generator, units: NDArray[np.int64], epsilon_per_unit: Fraction, *, spread: int = 1
) -> NDArray[np.int64]:
    """Return noise of the gate's law for so many units each; the same seed at another epsilon gives it scaled."""
    scale = spread / (units * float(epsilon_per_unit))
    up, down = (np.floor(generator.standard_exponential(units.shape) * scale) for _ in range(2))
    return (up - down).astype(np.int64)
