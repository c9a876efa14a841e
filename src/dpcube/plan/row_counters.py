"""Counters of made-up rows, so that a plan runs the strategies of wide tables and of fine grids as they are.

As in `counter.py` the noise comes from a seed, and protects nobody: the rows are made up from public facts.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import TableDistances, check_candidates
from dpcube.core.cell_budget import RegionBudget, check_units
from dpcube.core.counter import BUDGET_UNITS, check_axes
from dpcube.core.epsilon import check_share
from dpcube.core.region_budget import BoxRegionBudget
from dpcube.core.regions import RegionTree
from dpcube.core.selection import chosen
from dpcube.plan.counter import seeded_noise
from dpcube.plan.made_up_rows import MadeUpRows


class SimulatedCuboids:
    """A `CuboidCounter` of made-up rows with seeded noise, which refuses what the gate would refuse."""

    def __init__(self, made_up: MadeUpRows, epsilon: Fraction, *, seed: tuple[int, ...]) -> None:
        self.shape = made_up.shape
        self.epsilon_per_unit = epsilon / BUDGET_UNITS
        self._columns, self._alike = made_up.columns, made_up.alike
        self._generator = np.random.default_rng(seed)
        self._regions = RegionBudget(self.shape, BUDGET_UNITS)
        self._kept: dict[tuple[int, ...], Ints] = {}

    def grouped(self, groups: Sequence[Ints]) -> "SimulatedCuboids":
        """Return the counter of a coarser cube, of the same budget."""
        coarser = object.__new__(SimulatedCuboids)
        coarser.__dict__.update(self.__dict__)
        coarser.shape = tuple(int(of_axis.max()) + 1 for of_axis in groups)
        coarser._columns = [of_axis[cells] for of_axis, cells in zip(groups, self._columns, strict=True)]
        coarser._kept = {}
        return coarser

    def count_marginal(self, axes: tuple[int, ...], units: int) -> Ints:
        """Return a noisy table over some axes."""
        check_axes(axes, self.shape)
        self._regions.charge_all(units)
        table = self._table(axes)
        return table + seeded_noise(self._generator, np.full(table.shape, units), self.epsilon_per_unit)

    def choose(self, candidates: TableDistances, units: int) -> Ints:
        """Return the number of the candidate chosen."""
        check_candidates(candidates, self.shape)
        check_units(units)
        check_share(int(units) * self.epsilon_per_unit / candidates.spread)
        self._regions.charge_all(units)
        asked = np.full(int(candidates.sizes.sum()), units)
        noise = seeded_noise(self._generator, asked, self.epsilon_per_unit, spread=candidates.spread)
        return chosen(candidates.scores_of(self._table), noise, sizes=candidates.sizes)

    def _table(self, axes: tuple[int, ...]) -> Ints:
        if axes not in self._kept:
            sides = tuple(self.shape[axis] for axis in axes)
            place = np.ravel_multi_index([self._columns[axis] for axis in axes], sides)
            table = np.bincount(place, weights=self._alike, minlength=math.prod(sides))
            self._kept[axes] = table.astype(np.int64).reshape(sides)
        return self._kept[axes]


class SimulatedGrid:
    """A `BoxCounter` of made-up rows with seeded noise, which refuses what the gate would refuse."""

    def __init__(self, made_up: MadeUpRows, epsilon: Fraction, *, seed: tuple[int, ...]) -> None:
        self.shape = made_up.shape
        self.epsilon_per_unit = epsilon / BUDGET_UNITS
        self._made_up = made_up
        self._generator = np.random.default_rng(seed)
        self._regions = BoxRegionBudget(self.shape, BUDGET_UNITS)

    def count_boxes(self, boxes: Boxes, units: Ints) -> Ints:
        """Return a noisy count of each box."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        regions = RegionTree(self.shape)
        regions.part(boxes)
        self._regions.charge(boxes, units)
        counted = regions.sums(boxes, regions.counted([(self._made_up.cells, self._made_up.alike)]))
        return counted + seeded_noise(self._generator, units, self.epsilon_per_unit)
