"""How much more sums over a cube of many attributes err than its posterior states, learnt from the release itself.

A posterior states the error of a sum as if those of its boxes were independent. Over thousands of nearly empty boxes
they are not: they move together with the noise, and are off the same way. Both show in the release, for each number of
asked attributes, on the cells of some tables. Probes move the posterior's answers: the variance of an answer cannot be
less than what noise makes of it, so the squared errors o that it states are raised by the mean ratio of the two. And of
what it is apart from least squares, the mean square beyond the noise v of that is bias: a^2 - v is fitted by

    BIAS o + beyond geometric_middle(o, v),

by least squares over tables (the variance of a^2 is about (v + o)^2), one standard error high, as probes differ from
each other, since intervals must hold when it is unlucky.
"""

import math
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.errors.biases import BIAS, Biases, geometric_middle
from dpcube.queries import Workload

FEWEST_ATTRIBUTES = 6
"""With fewer, intervals hold as they are: learning from few tables would widen them by chance."""
MOST_ASKED = 4
"""Questions that ask of more attributes are taken to err as those that ask of so many."""
TABLES, CELLS = 8, 8
"""So many tables are looked at for each number of attributes, and so many cells of each."""


def learnt_biases(
    shape: tuple[int, ...],
    least: float,
    taken: Callable[[Workload], tuple[Floats, Floats]],
    own_squares: Callable[[Workload], Floats],
) -> Biases:
    """Return how biases are judged, given the noise of the surest count.

    `taken` returns of ranges what they take of `Probes.columns` and of its `posterior_moves`, each of shape (ranges,
    columns), `own_squares` the squared errors that the posterior states.
    """
    several = [axis for axis, extent in enumerate(shape) if extent > 1]
    most = min(MOST_ASKED, len(several) - 1) if len(several) >= FEWEST_ATTRIBUTES else 0
    raised, beyond = [1.0], [0.0]
    for number in range(1, most + 1):
        cells = [some_cells(shape, axes) for axes in tables_over(several, number)]
        tables = [_Table(*taken(of_table), np.maximum(own_squares(of_table), 1e-9)) for of_table in cells]
        raised.append(max(float(np.mean([table.moved for table in tables])), 1.0))
        beyond.append(_beyond([table._replace(own=raised[-1] * table.own) for table in tables]))
    return Biases(least, tuple(raised), tuple(beyond))


class _Table(NamedTuple):
    """Some cells of a table: what they take of `Probes.columns` and of its `posterior_moves`, and squares stated."""

    apart: Floats
    moves: Floats
    own: Floats

    @property
    def moved(self) -> float:
        """By what part of the squares stated probes move the answers."""
        return float(np.mean(self.moves**2) / np.mean(self.own))


def _beyond(tables: list[_Table]) -> float:
    excess, units, by_probe = 0.0, 0.0, np.zeros(1)
    for table in tables:
        noises = table.apart[:, 1:] ** 2
        noise = noises.mean(axis=1)
        unit = geometric_middle(table.own, noise)
        weight = unit.mean() / (noise + table.own + unit).mean() ** 2
        excess += weight * float(np.sum(table.apart[:, 0] ** 2 - noise - BIAS * table.own))
        units += weight * float(np.sum(unit))
        by_probe = by_probe + weight * noises.sum(axis=0)
    return max((excess + float(np.std(by_probe, ddof=1))) / units, 0.0) if units > 0 else 0.0


def some_cells(shape: tuple[int, ...], axes: tuple[int, ...]) -> Workload:
    """Return the ranges that some cells of a table over some axes count, evenly chosen."""
    extents = tuple(shape[axis] for axis in axes)
    whole = math.prod(extents)
    places = np.unravel_index(np.linspace(0, whole - 1, min(whole, CELLS)).astype(np.int64), extents)
    lower = np.zeros((len(places[0]), len(shape)), np.int64)
    upper = np.tile(np.array(shape, np.int64), (len(places[0]), 1))
    lower[:, axes] = np.stack(places, axis=1)
    upper[:, axes] = lower[:, axes] + 1
    return Workload(shape, lower, upper)


def tables_over(axes: list[int], number: int) -> list[tuple[int, ...]]:
    """Return some tables over so many of these axes, evenly chosen of all.

    >>> tables_over([0, 2, 3], 2)
    [(0, 2), (0, 3), (2, 3)]
    """
    every = list(combinations(axes, number))
    return [every[at] for at in np.linspace(0, len(every) - 1, min(len(every), TABLES)).astype(np.int64)]
