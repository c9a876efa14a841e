"""The gate: the one mechanism between exact data and strategies, which see it as a `NoisyCounter` and nothing more.

It charges the budget, then adds noise. No frame of the gate ever holds an exact number: the data stay hidden
(`core/exact.py`), and noise goes to them. What may fail is tried before the charge: the exact answer of a call is
worked out first, and stays hidden if the call is refused.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.budget import CellBudget, CoarseBudget, check_units, epsilon_per_row
from dpcube.core.candidates import Candidates, check_candidates
from dpcube.core.counter import BUDGET_UNITS, check_axes, check_groups
from dpcube.core.epsilon import check_share
from dpcube.core.exact import DenseCounts, ExactData
from dpcube.core.noise import ExactNoise, Noise, drawn_for_units
from dpcube.core.seal import sealed
from dpcube.core.unique import Unique


class Gate(Unique):
    """A `NoisyCounter` over exact data, dense or sparse.

    Proof. One row is in one cell of the cube, so it changes the count of each box that holds that cell by one, and a
    count with noise P(z) proportional to exp(-e|z|) is e-differentially private; when a person has up to `max_rows`
    rows, e/max_rows a row protects the person. In a coarser cube a row is in the one cell that its own cell is put
    into, so the same holds of its counts. A selection costs what its units say (`core/selection.py`). What the calls of
    a job cost together, those of coarser cubes too, in one thread or in many, is proved in `core/budget.py`.
    """

    @sealed
    def __init__(
        self, exact: ExactData | NDArray[np.int64], epsilon: Fraction, *, max_rows: int = 1, noise: Noise | None = None
    ) -> None:
        self._exact = exact if isinstance(exact, ExactData) else DenseCounts(exact)
        self._noise = ExactNoise() if noise is None else noise
        self._budget = CellBudget(self._exact.shape, BUDGET_UNITS, by_cells=self._exact.by_cells)
        self.epsilon_per_unit = epsilon_per_row(epsilon, max_rows) / BUDGET_UNITS

    def __repr__(self) -> str:
        return f"<Gate over a private cube of shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube, which is public."""
        return self._exact.shape

    @property
    def private(self) -> bool:
        """Whether the noise is the real thing."""
        return self._noise.private

    @sealed
    def marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Charge every cell, then return a noisy count of each cell of a table over some axes, empty cells included.

        A cell of the table is the box of all cells that have its indices on these axes. A cell of the cube is in the
        one that has its own indices there and in no other, so one row changes one count by one.
        """
        check_axes(axes, self.shape)
        counts = self._exact.marginal(axes)
        self._budget.charge_all(units)
        return counts.plus(self._noise.draw(units * self.epsilon_per_unit, counts.size))

    @sealed
    def boxes(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Charge the boxes' cells, then return a noisy count of each box; each box has noise of its own."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        units = units.copy()  # what is drawn is what was charged, whoever else holds the array
        self._budget.check_call(boxes, units)
        counts = self._exact.box_sums(boxes)
        self._budget.charge(boxes, units)
        return counts.plus(drawn_for_units(self._noise, units, self.epsilon_per_unit))

    @sealed
    def select(self, candidates: Candidates, units: int) -> NDArray[np.int64]:
        """Charge every cell that a candidate covers, once, then return the candidate selected for each question.

        The noise of a score is for the sensitivity of score differences, so the selection costs what the units say
        (`core/selection.py`). Whether it is refused depends on what is public alone.
        """
        check_candidates(candidates, self.shape)
        self._exact.check_selection(candidates)
        check_units(units)
        epsilon = int(units) * self.epsilon_per_unit / candidates.sensitivity
        check_share(epsilon)
        if candidates.covered is None:
            self._budget.charge_all(units)
        else:
            self._budget.charge(candidates.covered, np.full(len(candidates.covered), int(units)))
        return self._exact.selected(candidates, self._noise.draw(epsilon, int(candidates.sizes.sum())))

    @sealed
    def grouped(self, groups: Sequence[Ints]) -> "Gate":
        """Return the gate of a coarser cube, which spends this one's budget.

        `groups` has the number of the group of every cell of each axis. They are public: they come from the caller,
        who has seen noisy counts only.
        """
        groups = [of_axis.copy() for of_axis in map(np.asarray, groups)]
        check_groups(groups, self.shape)
        coarser = object.__new__(type(self))
        coarser._exact, coarser._noise = self._exact.grouped(groups), self._noise
        coarser._budget = CoarseBudget(self._budget, coarser.shape, by_cells=coarser._exact.by_cells)
        coarser.epsilon_per_unit = self.epsilon_per_unit
        return coarser
