"""Prediction error of the model for marginals it has not seen, estimated from marginals that are held out.

The last third of the marginals over several attributes is held out: after adaptive selection they are those that
departed most from the model before, so their errors are an upper estimate for the others, even if only one is held out.
Of several the median is taken: one that departs much more than the others was found late, and says little of those that
were not selected. If squared departures of n pairs follow an exponential law, the k-th largest of them is ln(n / k)
times their mean; by this the estimate is divided where k of n pairs were selected. Of marginals named by a user one or
two would say little about others. Where a pilot measured marginals that are not in the model, these are held out, too:
noisier ones, but of all pairs, and another upper estimate.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.cuboids.fitting import CountedTable, fit

FEWEST_NAMED = 3
"""Number of named marginals per one that is held out."""


@dataclass(frozen=True, slots=True)
class Departure:
    """The squared error of a modelled count m of N rows is taken to be `of_cells` m' + `of_halves` m'^2 / N.

    m' is m (1 - m / N). The first part is for departures that go either way from cell to cell, the second for those
    that go one way over half of a table. A question that weighs rows, of sum S, has m' = (sum of squared weights)
    - S^2 / N, and its second part is of rows that weigh as much as these on average.
    """

    of_cells: float
    of_halves: float

    def squares(self, values: Floats, weighed: Floats, rows: Floats, total: float) -> Floats:
        """Return the squared errors of modelled sums: of `rows` rows, whose squared weights add up to `weighed`."""
        rows, weighed = np.maximum(rows, 1.0), np.maximum(weighed, np.finfo(np.float64).tiny)
        least = weighed / rows  # no sum is known better than to one such row
        room = np.maximum(weighed - values**2 / total, least)
        squares: Floats = self.of_cells * room + self.of_halves * room**2 * rows / (weighed * total)
        return squares

    def least_with(self, other: "Departure") -> "Departure":
        """Return the smaller of two upper estimates, part by part."""
        return Departure(min(self.of_cells, other.of_cells), min(self.of_halves, other.of_halves))


def departure_of(
    shape: tuple[int, ...], ones: list[CountedTable], cuboids: list[CountedTable], *, selected: bool
) -> Departure | None:
    """Return how far tables depart from a model that has not seen them; None if there are too few for an estimate.

    `selected` says whether they were selected by their departures, and not named.
    """
    several = [table for table in cuboids if len(table.axes) > 1]
    if len(several) < (1 if selected else FEWEST_NAMED):
        return None
    held = several[len(several) - max(len(several) // 3, 1) :]
    known = [table for table in cuboids if not any(table is one for one in held)]
    beliefs = fit(shape, ones + known).beliefs
    found = [departure_from([(table, beliefs.marginal(table.axes))], beliefs.total) for table in held]
    several_groups = sum(side > 1 for side in shape)
    more = max(math.log(max(math.comb(several_groups, 2), 1) / len(several)), 1.0) if selected else 1.0
    return Departure(*(float(np.median([getattr(one, part) for one in found])) / more for part in Departure.__slots__))


def departure_from(held: list[tuple[CountedTable, Floats]], total: float) -> Departure:
    """Return how far noisy tables depart from what a model of so many rows, that has not seen them, expects of each.

    Both parts are regressions, over all tables together, of squared departures less those of noise on what a part of 1
    would make of them. What noise makes of the sums is expected by its law; a departure of one standard deviation of it
    would not show, so it is not taken to be 0.
    """
    of_cells, of_halves = [], []
    for table, expected in held:
        apart, noise, cells = table.counts - expected, table.variances, np.broadcast_to(table.cells, expected.shape)
        of_cells.append(_Squares.of_sums(apart, expected, noise, cells, total))
        apart, own, noise, cells = (_halves(part, expected) for part in (apart, expected, noise, cells))
        of_halves.append(_Squares.of_sums(apart, own, noise, cells, total))
    return Departure(
        _slope(of_cells, [one.room for one in of_cells]),
        _slope(of_halves, [one.room**2 / total for one in of_halves]),
    )


@dataclass(frozen=True, slots=True)
class _Squares:
    """Squared departures of some sums, the variances of their noise, and the variances of the squares of that."""

    found: Floats
    noise: Floats
    spread: Floats
    room: Floats

    @classmethod
    def of_sums(cls, apart: Floats, expected: Floats, noise: Floats, cells: Floats, total: float) -> "_Squares":
        """Return those of sums with so many noises in each: the square of Laplace noise varies by 5, of many by 2."""
        spread = noise**2 * (2 + 3 / cells)
        return cls(apart**2, noise, spread, np.maximum(expected * (1 - expected / total), 1.0))


def _slope(squares: list[_Squares], units: list[Floats]) -> float:
    """Return by how many units squared departures are above those of noise, and above one deviation of these.

    A sum weighs the less, the larger its noise is beside one unit.
    """
    above = deviation = whole = 0.0
    for one, unit in zip(squares, units, strict=True):
        weight = unit / (unit + one.noise)
        above += float((weight * (one.found - one.noise)).sum())
        deviation += float((weight**2 * one.spread).sum())
        whole += float((weight * unit).sum())
    return max(above + math.sqrt(deviation), 0.0) / whole


def _halves(table: Floats, expected: Floats) -> Floats:
    """Return a table with the cells of every axis put together into two halves of about as many expected rows."""
    for axis in range(table.ndim):
        along = expected.sum(axis=tuple(j for j in range(expected.ndim) if j != axis))
        cut = int(np.searchsorted(np.cumsum(along), along.sum() / 2)) + 1
        cut = min(cut, len(along) - 1)
        if cut > 0:
            table = np.add.reduceat(table, [0, cut], axis=axis)
    return table
