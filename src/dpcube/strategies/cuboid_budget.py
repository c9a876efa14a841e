"""The budget of a wide release: shares of one-way marginals, of selections and of two-way marginals, and their number.

**One-way marginals.** Let N rows of d attributes be released with epsilon e, and one-way marginals have the share s.
The noise of a marginal of k cells moves the part k / (2 N e_j) of the rows, so that of two of them, which is in every
pair, about u / s with u = d m^2 / (N e), m the mean square root of k: what it would be with all of epsilon. Neighbours
are smoothed and no count is below zero, so k is taken to be the square root of the cells of an attribute. Pairs get
what is left. What they gain grows with what can be told from noise, but ever more slowly, because those that depart
most come first: it is taken for v log(1 + (1 - s) y), with y = Y / u. The sum of both is least where

    rho (1 + (1 - s) y) = s^2 y^2    with rho = u y / v,

a quadratic equation for s: all of the budget where noise hides pairs (y is small), and where it does not, a part that
falls as 1 / sqrt(y). One-way marginals are asked for themselves, too, so they never get less than `LEAST_SHARE`.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.epsilon import MIN_SHARE
from dpcube.models.cuboids.junction import CliqueAxes, table_cells

LEAST_SHARE, MOST_SHARE = 0.45, 0.85
"""Least and largest share of the budget for one-way marginals."""
GAIN, WORTH = 0.0085, 0.63
"""Y and rho of the rule above."""
NAMED_SHARE, SHARE_BY_TARGET = Fraction(2, 5), Fraction(7, 10)
"""Share of one-way marginals beside marginals that are named, and of those of each attribute with a target."""
SELECTION_SHARE, SELECTION_SHARE_BY_TARGET = Fraction(1, 10), Fraction(3, 10)
"""Share of the rest for selections; the second with a target, where fewer are made and each matters more."""
ONES_POWER, PAIRS_POWER = 1 / 4, 3 / 8
"""Marginals share a budget in proportion to this power of their cells.

With square roots the absolute noise of all cells together is least; with equal parts the mean over marginals of that of
a cell. This is half way.
"""
MAX_WEIGHTED_SIDE = 2**10
"""Cells of an attribute that count: so a very long one leaves the others their part."""
MAX_TABLE_GROUPS = 60
LITTLE_NOISE, MAX_AFFORDED_TABLES = 0.03, 100
"""Part of all rows that noise may move in each of many small marginals, and the most of these: each is fitted."""
FEWEST_ROUNDS = 0.1
"""The fewest two-way marginals per attribute, however little is left for them."""


def share_of_ones(rows_times_epsilon: float, shape: tuple[int, ...]) -> Fraction:
    """Return the share of the budget for one-way marginals, given the noisy number of rows.

    >>> [float(share_of_ones(signal, (9,) * 24)) for signal in (1e2, 6e3, 2e4, 6e4)]
    [0.85, 0.85, 0.497, 0.45]
    """
    roots = [min(side, MAX_WEIGHTED_SIDE) ** 0.25 for side in shape if side > 1] or [1.0]
    noise = len(shape) * float(np.mean(roots)) ** 2 / max(rows_times_epsilon, 1.0)
    y = GAIN / noise
    share = WORTH / 2 * (math.sqrt(1 + 4 * (1 + y) / WORTH) - 1) / y
    return Fraction(round(float(np.clip(share, LEAST_SHARE, MOST_SHARE)), 3)).limit_denominator(1000)


def units_of_ones(shape: tuple[int, ...], per: Fraction, share: Fraction) -> list[int]:
    """Return the units of each one-way marginal, of a share of the budget for all."""
    roots = [min(side, MAX_WEIGHTED_SIDE) ** ONES_POWER for side in shape]
    least = least_units(per)
    shared = int(share * BUDGET_UNITS) - least * len(shape)
    return [least + int(shared * root / sum(roots)) for root in roots]


def units_by_target(tables: int) -> list[int]:
    """Return the units of the marginals of each attribute with a target: equal parts."""
    return [int(SHARE_BY_TARGET * BUDGET_UNITS / tables)] * tables


def least_units(per: Fraction) -> int:
    """Return the fewest units by which noise can be drawn."""
    return math.ceil(MIN_SHARE / per)


def rounds_for(signal: float, shape: tuple[int, ...], *, beside: bool = False) -> tuple[int, int]:
    """Return the number of two-way marginals to count, and the number at most: with more, each has less of the budget.

    The signal is the noisy number of rows times the epsilon that is left for them. After marginals with a target, at
    small epsilons only large departures are found. Where marginals are small, as many are counted as have little noise:
    all pairs of attributes of few values, as a rule. But where the first of them are uninformative, the others would be
    more so.
    """
    choices, less, fewest = (SELECTION_SHARE_BY_TARGET, 1.82, 0.2) if beside else (SELECTION_SHARE, 1.79, FEWEST_ROUNDS)
    wanted = len(shape) * np.clip(0.72 * math.log10(max(signal, 1.0)) - less, fewest, 2.0)
    sides = [min(side, MAX_TABLE_GROUPS) for side in shape if side > 1]
    cells = [one * other for one, other in itertools.combinations(sides, 2)]
    # A table with the epsilon of one of r rounds has a noise of 1 / epsilon a cell; half of their sum are rows moved.
    afforded = 2 * LITTLE_NOISE * signal * float(1 - choices) / float(np.mean(cells or [1]))
    few, most = np.clip(np.rint([wanted, min(afforded, MAX_AFFORDED_TABLES)]), 1, max(math.comb(len(shape), 2), 1))
    return int(few), int(max(few, most))


@dataclass
class TableBudget:
    """The units that are left for the marginals of so many turns, in proportion to `CELLS_POWER` of their cells.

    The marginals of later turns are not selected yet: they are taken to have the mean root of all pairs.
    """

    units: int
    turns: int
    shape: tuple[int, ...]
    per: Fraction

    def next_units(self, axes: CliqueAxes) -> int:
        """Return the units of a marginal over some axes in this turn; in the last turn, all that are left."""
        least, root = self._least, table_cells(self.shape, axes) ** PAIRS_POWER
        part = root / (root + (self.turns - 1) * self._mean_root)
        return least + int((self.units - self.turns * least) * part)

    @cached_property
    def _least(self) -> int:
        return least_units(self.per)

    @cached_property
    def _mean_root(self) -> float:
        pairs = itertools.combinations([side for side in self.shape if side > 1], 2)
        return float(np.mean([(one * other) ** PAIRS_POWER for one, other in pairs] or [1.0]))

    def noise(self, axes: CliqueAxes) -> float:
        """Return the expected absolute noise of a count of a marginal over some axes, measured in this turn."""
        return 1 / (self.next_units(axes) * float(self.per))

    def spend(self, axes: CliqueAxes) -> int:
        """Spend and return the units of the marginal of this turn."""
        units = self.next_units(axes)
        self.units, self.turns = self.units - units, self.turns - 1
        return units

    def stop_after(self, turns: int, of_selection: int) -> None:
        """End after these turns; the units of selections that are not made go to marginals."""
        fewer = max(self.turns - turns, 0)
        self.units, self.turns = self.units + fewer * of_selection, self.turns - fewer
