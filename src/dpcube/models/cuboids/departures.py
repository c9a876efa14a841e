"""Prediction error of the model for marginals it has not seen, estimated from marginals that are held out.

The last third of the cuboids over several attributes is held out: after adaptive selection they are those that
departed most from the model before, so their errors are an upper estimate for the others, even if only one is held out.
Of marginals named by a user one or two would say little about others.
"""

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
    total = beliefs.total
    of_cells, of_halves = [], []
    for table in held:
        expected = beliefs.marginal(table.axes)
        apart = table.counts - expected
        room = np.maximum(expected * (1 - expected / total), 1.0)
        found = float((apart**2).sum()) - table.variance * _expected_and_hidden(np.ones(apart.size), 5.0)
        of_cells.append(found / float(room.sum()))
        half, own, cells = (_halves(part, expected) for part in (apart, expected, np.ones_like(apart)))
        room = np.maximum(own * (1 - own / total), 1.0)
        found = float((half**2).sum()) - table.variance * _expected_and_hidden(cells, 2.0)
        of_halves.append(found / float((room**2).sum()) * total)
    return Departure(max(float(np.mean(of_cells)), 0.0), max(float(np.mean(of_halves)), 0.0))


def _expected_and_hidden(cells: Floats, spread: float) -> float:
    """Return what noise adds to squared departures of sums of cells, less a standard deviation of it, in its variance.

    The squares of noise vary, and a departure of that size would not show: it is not taken to be 0. A single noise has
    a square that varies by 5 of its squared variance (Laplace's law), sums of many one that varies by 2 (a normal law).
    """
    return float(cells.sum() - np.sqrt(spread * (cells**2).sum()))


def _halves(table: Floats, expected: Floats) -> Floats:
    """Return a table with the cells of every axis put together into two halves of about as many expected rows."""
    for axis in range(table.ndim):
        along = expected.sum(axis=tuple(j for j in range(expected.ndim) if j != axis))
        cut = int(np.searchsorted(np.cumsum(along), along.sum() / 2)) + 1
        cut = min(cut, len(along) - 1)
        if cut > 0:
            table = np.add.reduceat(table, [0, cut], axis=axis)
    return table
