"""One-way marginals of a tree's estimate, moved towards those that were counted: by intervals or value by value.

Where values have an order, a tree has more precise sums of neighbours than single values, whose errors cancel in them,
and noise of counted values adds up. So of every interval of the halving of the attribute the difference of its halves
is moved by itself. Values without an order are exchangeable, and each is moved by itself. How far is decided by the
squared errors that the tree states and, by empirical Bayes, by how much of such departures is real (`fitting.py`).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.marginals.fitting import Departures, groups_by_size, nearest_with_sums, posterior_signals
from dpcube.models.posterior import TreeEstimate
from dpcube.queries import Workload

SURPRISE = 7.0
"""Departures that chance makes with a probability below exp(-7), one in a thousand, are believed."""
TOO_NOISY = 25.0
"""A marginal whose noise has more than this times the squared error that the tree states of a value cannot doubt it."""
FEWEST_LEARNT = 8
"""Departures of fewer values say too little of how much is real."""


@dataclass(frozen=True)
class OneWay:
    """The marginal of one attribute: that of the tree, and its departures from the one that was counted."""

    axis: int
    tree: TreeEstimate
    table: Floats
    """The tree's marginal, shape (values,)."""
    departures: Floats
    """What the counted marginal has beyond it, its mean apart, shape (values,)."""
    variance: float
    """Of the noise of each counted value."""
    factor: float
    """By what the squared errors that the tree states must be raised at least to explain the departures."""

    def by_intervals(self, total: float) -> "MovedValues":
        """Return the marginal of a given total, moved interval by interval, with the squared error of each value."""
        cuts = Halvings.for_cells(len(self.table))
        sums = np.append(0.0, np.cumsum(self.departures))
        left, right = cuts.middle - cuts.low, cuts.high - cuts.middle
        of_left, of_right = sums[cuts.middle] - sums[cuts.low], sums[cuts.high] - sums[cuts.middle]
        apart, noise = (
            (of_left * right - of_right * left) / (left + right),
            self.variance * left * right / (left + right),
        )
        stated = np.minimum(self._squares(cuts.low, cuts.middle), self._squares(cuts.middle, cuts.high))
        signal, unsure = np.zeros(len(apart)), np.zeros(len(apart))
        deviation = np.sqrt(noise + stated)
        if len(self.table) < FEWEST_LEARNT:
            stated = self.factor * stated
        elif is_contradicted(apart / deviation):
            ((signal, unsure),) = posterior_signals([Departures(apart / deviation, 1.0, cuts.level)])
            signal, unsure = signal * deviation, unsure * deviation**2
        of_tree = stated / (noise + stated)
        moved = signal + (apart - signal) * of_tree
        squares = of_tree**2 * noise + (1 - of_tree) ** 2 * (self.doubt * stated + unsure)
        found = self.table + cuts.spread(moved / left, -moved / right)
        table = nearest_with_sums(found[None], np.array([total]))[0]
        of_total = self._squares(np.zeros(1, np.int64), np.array([len(self.table)])) * (table / max(total, 1.0)) ** 2
        return MovedValues(table, cuts.spread(squares / left**2, squares / right**2) + of_total)

    @cached_property
    def doubt(self) -> float:
        """By what the squared errors that the tree states of values are raised where errors are stated.

        The departures have the variance of these and of noise; what they show is taken one standard error high.
        """
        values, stated = len(self.table), float(np.mean(self._of_values))
        shown = float(np.mean(self.departures**2)) - self.variance + math.sqrt(2 / values) * (self.variance + stated)
        return max(shown / stated, 1.0) if stated > 0 else 1.0

    @property
    def can_doubt(self) -> bool:
        """Whether the marginal could show errors of values beyond those that the tree states, or does show them."""
        return self.factor > 1 or self.variance <= TOO_NOISY * float(np.mean(self._of_values))

    @cached_property
    def _of_values(self) -> Floats:
        places = np.arange(len(self.table))
        return self._squares(places, places + 1)

    def _squares(self, low: Ints, high: Ints) -> Floats:
        lower = np.zeros((len(low), len(self.tree.shape)), np.int64)
        upper: Ints = np.tile(np.array(self.tree.shape, np.int64), (len(low), 1))
        lower[:, self.axis], upper[:, self.axis] = low, high
        return self.tree.own_squares(Workload(self.tree.shape, lower, upper))

    def by_values(self, total: float) -> "MovedValues":
        """Return the marginal of a given total, moved value by value, with the squared error of each value."""
        if len(self.table) < FEWEST_LEARNT:
            stated = self.factor * self._of_values
            of_tree = stated / (stated + self.variance)
            found = self.table + of_tree * self.departures
            squares = of_tree**2 * self.variance + (1 - of_tree) ** 2 * self.doubt * stated
            return MovedValues(nearest_with_sums(found[None], np.array([total]))[0], squares)
        departures = Departures(self.departures, self.variance, groups_by_size(self.table))
        ((signal, variances),) = posterior_signals([departures])
        real = np.divide(signal, self.departures, out=np.zeros_like(signal), where=self.departures != 0)
        found = nearest_with_predicted(self.table + signal, 1 - real, total)
        return MovedValues(found, variances + (found - self.table - signal) ** 2)


def is_contradicted(departures: Floats) -> bool:
    """Say whether departures, in units of what is expected of each, are rarely as large by chance.

    Their mean square by Laurent and Massart's bound, the largest by the tail of Laplace noise.
    """
    number, largest = len(departures), float(np.abs(departures).max())
    together = float(np.mean(departures**2)) > 1 + 2 * (math.sqrt(SURPRISE / number) + SURPRISE / number)
    return together or math.sqrt(2) * largest > math.log(number) + SURPRISE


@dataclass(frozen=True)
class MovedValues:
    """A marginal, none of whose values is below zero, and the squared error of each of its values."""

    table: Floats
    squares: Floats


@dataclass(frozen=True)
class Halvings:
    """Where each interval of the halving of an axis begins, is cut and ends, and its level: shape (cells - 1,)."""

    low: Ints
    middle: Ints
    high: Ints
    level: Ints

    @classmethod
    def for_cells(cls, cells: int) -> "Halvings":
        """Return all intervals of two cells or more, the whole axis first; none of a single cell.

        >>> Halvings.for_cells(3).middle.tolist(), Halvings.for_cells(3).level.tolist()
        ([1, 2], [0, 1])
        """
        found: list[tuple[Ints, ...]] = [(np.zeros(0, np.int64),) * 4]
        low, high = np.zeros(1, np.int64), np.full(1, cells)
        while (several := high - low > 1).any():
            low, high = low[several], high[several]
            middle = (low + high) // 2
            found.append((low, middle, high, np.full(len(low), len(found) - 1)))
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        return cls(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def spread(self, of_left: Floats, of_right: Floats) -> Floats:
        """Return for each cell the sum of what its halves of all intervals have, shape (cells,)."""
        steps = np.zeros(len(self.low) + 2)
        np.add.at(steps, self.low, of_left)
        np.add.at(steps, self.middle, of_right - of_left)
        np.add.at(steps, self.high, -of_right)
        return np.asarray(np.cumsum(steps[:-1]))


def nearest_with_predicted(table: Floats, predicted: Floats, total: float) -> Floats:
    """Return a table with a given sum and none below zero, moved where it is predicted rather than counted.

    `predicted` is the part of each value that is. What cutting at zero adds is taken from these parts, since the values
    that stand out of the noise have nothing to do with it.
    """
    found = np.maximum(table, 0.0)
    weights = found * predicted
    missing, most = total - float(found.sum()), float(weights.sum())
    if most > 0 and missing > -most:
        return np.asarray(found + missing * weights / most)
    return np.asarray(nearest_with_sums(table[None], np.array([total]))[0])
