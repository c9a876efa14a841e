"""The gate of a fine grid: counts of boxes leave with noise, each cell charged for the boxes around it.

Enters: exact rows of a cube that nobody could hold, the job's epsilon. Leaves: noisy counts of boxes. No frame of the
gate ever holds an exact number (`core/exact_rows.py`).
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes
from dpcube.core.budget import epsilon_per_row
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.exact_rows import ExactRows
from dpcube.core.noise import ExactNoise, Noise, drawn_for_units
from dpcube.core.region_budget import BoxRegionBudget
from dpcube.core.regions import RegionTree
from dpcube.core.seal import sealed
from dpcube.core.unique import Unique


class GridGate(Unique):
    """A `BoxCounter` over exact rows.

    One row changes the count of each box that holds its cell by one, so counts with noise P(z) proportional to
    exp(-e|z|) cost it the sum of those e; when a person has up to `max_rows` rows, e/max_rows a row protects the
    person. What the calls of a job cost together is proved in `core/region_budget.py`.
    """

    @sealed
    def __init__(
        self, exact_rows: ExactRows, epsilon: Fraction, *, max_rows: int = 1, noise: Noise | None = None
    ) -> None:
        self._exact_rows = exact_rows
        self._noise = ExactNoise() if noise is None else noise
        self._regions = BoxRegionBudget(exact_rows.shape, BUDGET_UNITS)
        self.epsilon_per_unit = epsilon_per_row(epsilon, max_rows) / BUDGET_UNITS

    def __repr__(self) -> str:
        return f"<GridGate over a private grid of shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube, which is public."""
        return self._exact_rows.shape

    @property
    def private(self) -> bool:
        """Whether the noise is the real thing."""
        return self._noise.private

    @sealed
    def count_boxes(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Charge the boxes' cells, then return a noisy count of each box; each box has noise of its own."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        units = units.copy()  # what is drawn is what was charged, whoever else holds the array
        regions = RegionTree(boxes.shape)  # that of the cube, or the charge is refused
        regions.part(boxes)  # before the charge: it may refuse boxes that cut the cube into too many
        self._regions.charge(boxes, units)
        noise = drawn_for_units(self._noise, units, self.epsilon_per_unit)
        return self._exact_rows.sums(boxes, regions).plus(noise)
