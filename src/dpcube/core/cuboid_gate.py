"""The gate of a wide table: tables over few of its axes leave with noise, charged to one budget.

Enters: exact rows of a cube that nobody could hold, the job's epsilon. Leaves: noisy tables, noisy choices among sets
of axes. No frame of the gate ever holds an exact number (`core/exact_rows.py`).
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.budget import epsilon_per_row
from dpcube.core.candidates import TableDistances, check_candidates
from dpcube.core.cell_budget import RegionBudget, check_units
from dpcube.core.counter import BUDGET_UNITS, MOST_TABLE_CELLS, check_axes
from dpcube.core.epsilon import check_share
from dpcube.core.errors import InputError
from dpcube.core.exact_rows import ExactRows
from dpcube.core.noise import ExactNoise, Noise
from dpcube.core.seal import sealed
from dpcube.core.unique import Unique


class CuboidGate(Unique):
    """A `CuboidCounter` over exact rows.

    Proof. A row is in one cell of a table over any axes, so one row more changes one count by one, and noise
    P(z) proportional to exp(-e|z|) on every count, empty cells included, costs e; when a person has up to `max_rows`
    rows, e/max_rows a row protects the person. In a coarser cube a row is in the one cell that its own cell is put
    into, so the same holds of its tables. A choice costs what its units say (`core/selection.py`; the sensitivity of
    the scores is proved in `core/candidates/distances.py`). All calls, those of coarser cubes too, charge every cell
    alike in one budget before they draw: what they cost together is at most the job's epsilon
    (`core/cell_budget.py`).
    """

    @sealed
    def __init__(
        self, exact_rows: ExactRows, epsilon: Fraction, *, max_rows: int = 1, noise: Noise | None = None
    ) -> None:
        self._exact_rows = exact_rows
        self._noise = ExactNoise() if noise is None else noise
        self._regions = RegionBudget(exact_rows.shape, BUDGET_UNITS)
        self.epsilon_per_unit = epsilon_per_row(epsilon, max_rows) / BUDGET_UNITS

    def __repr__(self) -> str:
        return f"<CuboidGate over a private table of shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube, which is public."""
        return self._exact_rows.shape

    @property
    def private(self) -> bool:
        """Whether the noise is the real thing."""
        return self._noise.private

    @sealed
    def grouped(self, groups: Sequence[Ints]) -> "CuboidGate":
        """Return the gate of a coarser cube, which spends this one's budget.

        `groups` has the number of the group of every cell of each axis. They are public: they come from the caller,
        who has seen noisy counts only.
        """
        groups = [of_axis.copy() for of_axis in map(np.asarray, groups)]
        check_groups(groups, self.shape)
        coarser = object.__new__(CuboidGate)
        coarser._exact_rows = self._exact_rows.grouped(groups)
        coarser._noise, coarser._regions = self._noise, self._regions
        coarser.epsilon_per_unit = self.epsilon_per_unit
        return coarser

    @sealed
    def count_marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Charge the budget, then return a noisy table over some axes, empty cells included."""
        check_axes(axes, self.shape)
        cells = math.prod(self.shape[axis] for axis in axes)
        if cells > MOST_TABLE_CELLS:
            msg = f"a table over {len(axes)} axes has {cells:,} cells; at most {MOST_TABLE_CELLS:,} are counted at once"
            raise InputError(msg)
        self._regions.charge_all(units)
        table = self._exact_rows.marginal(axes)
        return table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))

    @sealed
    def choose(self, candidates: TableDistances, units: int) -> NDArray[np.int64]:
        """Charge the budget once, then return the number of the table that departs most from its prediction."""
        if type(candidates) is not TableDistances:
            msg = f"a wide table is asked which of some tables departs most (TableDistances), not {type(candidates)}"
            raise InputError(msg)
        check_candidates(candidates, self.shape)
        check_units(units)
        epsilon = int(units) * self.epsilon_per_unit / candidates.spread
        check_share(epsilon)
        self._regions.charge_all(units)
        return self._exact_rows.chosen(candidates, self._noise.draw(epsilon, int(candidates.sizes.sum())))


def check_groups(groups: Sequence[NDArray[np.int64]], shape: tuple[int, ...]) -> None:
    """Raise InputError unless these put every cell of each axis into one group, numbered from 0 without a gap."""
    fits = len(groups) == len(shape) and all(
        of_axis.dtype == np.int64
        and of_axis.shape == (side,)
        and np.array_equal(np.unique(of_axis), np.arange(of_axis.max() + 1))
        for of_axis, side in zip(groups, shape, strict=False)
    )
    if not fits:
        msg = f"groups need one array of 64-bit integers for each of {len(shape)} axes: the group of every cell, from 0"
        raise InputError(msg)
