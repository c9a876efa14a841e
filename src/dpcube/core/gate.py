"""The gate: it holds exact counts, charges and adds noise. Strategies see it as a `NoisyCounter` and nothing more.

Enters: exact counts of every cell, the job's epsilon. Leaves: noisy integer counts, noisy choices. No frame of the gate
ever holds an exact number: the counts stay hidden (`core/exact.py`), and noise goes to them.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes
from dpcube.core.budget import epsilon_per_row
from dpcube.core.candidates import Candidates, check_candidates
from dpcube.core.cell_budget import RegionBudget, check_units
from dpcube.core.counter import BUDGET_UNITS, check_axes
from dpcube.core.epsilon import check_share
from dpcube.core.exact import ExactCounts
from dpcube.core.noise import ExactNoise, Noise, drawn_for_units
from dpcube.core.seal import sealed
from dpcube.core.unique import Unique


class Gate(Unique):
    """A `NoisyCounter` over exact counts.

    One row changes one count by one, so a count with noise P(z) proportional to exp(-e|z|) is e-differentially
    private; when a person has up to `max_rows` rows, e/max_rows a row protects the person. What the calls of a job
    cost together, in one thread or in many, is proved in `core/cell_budget.py`.
    """

    @sealed
    def __init__(
        self,
        exact_counts: ExactCounts | NDArray[np.int64],
        epsilon: Fraction,
        *,
        max_rows: int = 1,
        noise: Noise | None = None,
    ) -> None:
        self._exact_counts = exact_counts if isinstance(exact_counts, ExactCounts) else ExactCounts(exact_counts)
        self._noise = ExactNoise() if noise is None else noise
        self._regions = RegionBudget(self._exact_counts.shape, BUDGET_UNITS)
        self.epsilon_per_unit = epsilon_per_row(epsilon, max_rows) / BUDGET_UNITS

    def __repr__(self) -> str:
        return f"<Gate over a private cube of shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube, which is public."""
        return self._exact_counts.shape

    @property
    def private(self) -> bool:
        """Whether the noise is the real thing."""
        return self._noise.private

    @sealed
    def count_cells(self, units: int) -> NDArray[np.int64]:
        """Charge every cell, then return a noisy count of each, empty cells included."""
        self._regions.charge_all(units)
        return self._exact_counts.plus(self._noise.draw(units * self.epsilon_per_unit, self._exact_counts.size))

    @sealed
    def count_boxes(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Charge the boxes' cells, then return a noisy count of each box; each box has noise of its own."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        units = units.copy()  # what is drawn is what was charged, whoever else holds the array
        self._regions.charge(boxes, units)
        noise = drawn_for_units(self._noise, units, self.epsilon_per_unit)
        return self._exact_counts.sums(boxes).plus(noise)

    @sealed
    def count_marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Charge every cell, then return a noisy table over some axes, empty cells included.

        A cell of the table is the box of all cells that have its indices on these axes. A cell of the cube is in the
        one that has its own indices there and in no other, so one row changes one count by one.
        """
        check_axes(axes, self.shape)
        self._regions.charge_all(units)
        table = self._exact_counts.marginal(axes)
        return table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))

    @sealed
    def choose(self, candidates: Candidates, units: int) -> NDArray[np.int64]:
        """Charge every cell that a candidate covers, once, then return the candidate chosen for each question.

        The noise of a score is for the spread of the scores, so the choice costs what the units say
        (`core/selection.py`). Whether it is refused depends on what is public alone.
        """
        check_candidates(candidates, self.shape)
        check_units(units)
        epsilon = int(units) * self.epsilon_per_unit / candidates.spread
        check_share(epsilon)
        if candidates.covered is None:
            self._regions.charge_all(units)
        else:
            self._regions.charge_once(candidates.covered, units)
        noise = self._noise.draw(epsilon, int(candidates.sizes.sum()))
        return self._exact_counts.chosen(candidates, noise)
