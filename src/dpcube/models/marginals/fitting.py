"""Shrinkage of noisy departures by empirical Bayes, and iterative proportional fitting of a cube to noisy marginals.

A departure is a signal and noise. The signals of a group are taken for a mixture of normal laws of many scales, none
included; how likely each scale is, is learnt from the group's departures by expectation maximisation. What is returned
is the expected signal: large departures stay, small ones go if most of their group is noise.
"""

from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.marginals.components import Components, TableAxes, assembled, centred, table_over

SCALES: Floats = np.concatenate([[0.0], 2.0 ** np.arange(-1, 11)])
"""Scales of a signal, in units of the deviation of its noise."""
NOISE_WEIGHTS: Floats = np.array([0.6, 0.4])
NOISE_VARIANCES: Floats = np.array([0.62, 1.39]) ** 2
"""Two normal laws that together are close to Laplace's law of variance 1."""
MAX_DEPARTURE = 2.0**14
"""Departures beyond so many units of their noise, nearly all real, are clipped, so that densities do not vanish."""
PRIOR_CELLS = 4.0
"""Departures that what is learnt from all groups together counts for in each of them."""
STEPS = 25
FIRST_GROUP, GROWTH, MAX_SHRINKAGE_GROUPS = 25, 2.5, 7
"""Cells of the group of the largest expected counts; how many times as many each next one has; groups at most."""


class Departures(NamedTuple):
    """Departures of the cells of a table, the variance of their noise, and the group of each cell from 0."""

    apart: Floats
    variance: float
    groups: Ints


def groups_by_size(expected: Floats) -> Ints:
    """Return a group of each cell, in the shape of the table: cells of like expected counts are of one group."""
    cells = expected.size
    edges: list[float] = []
    while len(edges) < MAX_SHRINKAGE_GROUPS and FIRST_GROUP * GROWTH ** len(edges) < cells / 2.4:
        edges.append(FIRST_GROUP * GROWTH ** len(edges))
    rank = np.empty(cells, np.int64)
    rank[np.argsort(-expected.ravel(), kind="stable")] = np.arange(cells)
    return np.searchsorted(np.array(edges), rank, side="right").reshape(expected.shape)


def signals(departures: list[Departures]) -> list[Floats]:
    """Return the expected signal of each departure."""
    return [signal for signal, _ in posterior_signals(departures)]


def posterior_signals(departures: list[Departures]) -> list[tuple[Floats, Floats]]:
    """Return the mean and the variance of the signal of each departure, given all of them."""
    relative = [np.clip(one.apart / np.sqrt(one.variance), -MAX_DEPARTURE, MAX_DEPARTURE) for one in departures]
    even = np.full(len(SCALES), 1 / len(SCALES))
    prior = _learnt(_densities(np.concatenate([of_table.ravel() for of_table in relative])), even)
    found = []
    for one, of_table in zip(departures, relative, strict=True):
        real, variance = np.zeros(of_table.shape), np.zeros(of_table.shape)
        for group in range(int(one.groups.max()) + 1):
            alike = one.groups == group
            densities = _densities(of_table[alike])
            weights = _learnt(densities, prior)
            real[alike], variance[alike] = _moments(of_table[alike], weights, densities)
        found.append((real * one.apart, variance * one.variance))
    return found


def _densities(relative: Floats) -> Floats:
    """Return the density of each departure, in units of its noise: shape (scales, laws, departures)."""
    variances = SCALES[:, None, None] ** 2 + NOISE_VARIANCES[:, None]
    return np.asarray(NOISE_WEIGHTS[:, None] * np.exp(-0.5 * relative**2 / variances) / np.sqrt(variances))


def _learnt(densities: Floats, prior: Floats) -> Floats:
    """Return the posterior of each scale; `prior` has shape (scales,)."""
    of_scale, weights = densities.sum(axis=1) + 1e-300, prior
    number = densities.shape[-1]
    for _ in range(STEPS):
        chance = weights[:, None] * of_scale
        weights = ((chance / chance.sum(axis=0)).sum(axis=1) + PRIOR_CELLS * prior) / (number + PRIOR_CELLS)
    return weights


def _moments(relative: Floats, weights: Floats, densities: Floats) -> tuple[Floats, Floats]:
    """Return what part of each departure is expected to be signal, and the variance of the signal."""
    variances = SCALES[:, None] ** 2 + NOISE_VARIANCES
    real = SCALES[:, None] ** 2 / variances
    chance = weights[:, None, None] * densities
    chance /= chance.sum(axis=(0, 1)) + 1e-300
    part, square = np.einsum("sln,sl->n", chance, real), np.einsum("sln,sl->n", chance, real**2)
    left = np.einsum("sln,sl->n", chance, real * NOISE_VARIANCES)
    return part, left + np.maximum(square - part**2, 0.0) * relative**2


def maximum_entropy_cube(tables: Components) -> Floats:
    """Return the cube fitted to noisy one- and two-way marginals, without interactions beyond pairs.

    What a noisy 2-way table departs from independence by is taken for as much as is real (`signals`).
    """
    ones = one_way_tables(tables.values, tables.shape)
    total = max(float(tables.values[()]), 1.0)
    pairs: list[TableAxes] = [axes for axes in tables.values if len(axes) == 2]
    even = {axes: np.multiply.outer(ones[axes[:1]], ones[axes[1:]]) / total for axes in pairs}
    departures = [
        Departures(tables.values[axes] - centred(even[axes]), tables.cell_variance(axes), groups_by_size(even[axes]))
        for axes in pairs
    ]
    parts: dict[TableAxes, Floats] = {(): np.array(total), **{axes: centred(table) for axes, table in ones.items()}}
    for axes, signal in zip(pairs, signals(departures) if pairs else [], strict=True):
        parts[axes] = centred(centred(even[axes]) + signal)
    return fitted(
        independent_cube(ones, tables.shape, total), two_way_tables(parts, tables.shape, ones), close=tables.closeness
    )


def independent_cube(ones: dict[TableAxes, Floats], shape: tuple[int, ...], total: float) -> Floats:
    """Return the cube of a total with given 1-way tables whose attributes are independent.

    Along an axis without a marginal the cube is uniform.
    """
    cube: Floats = np.array(total)
    for axis, extent in enumerate(shape):
        table = ones.get((axis,), np.ones(extent))
        cube = np.multiply.outer(cube, table / table.sum())
    return cube


AGREEING_ROUNDS = 15
"""Rounds in which a table is taken to the sums of its rows and of its columns in turn."""
FITTING_ROUNDS = 25


def nearest_with_sums(rows: Floats, sums: Floats) -> Floats:
    """Return the nearest rows, shape (rows, cells), none below zero, that have given sums, shape (rows,)."""
    falling = np.sort(rows, axis=1)[:, ::-1]
    missing = np.cumsum(falling, axis=1) - sums[:, None]
    kept = np.maximum((falling * np.arange(1, rows.shape[1] + 1) > missing).sum(axis=1), 1)
    shift = missing[np.arange(len(rows)), kept - 1] / kept
    moved: Floats = rows - shift[:, None]
    return np.maximum(moved, 0.0)


def nearest_with_margins(table: Floats, of_rows: Floats, of_columns: Floats) -> Floats:
    """Return nearly the nearest table, none below zero, with given sums of rows and columns (Dykstra's algorithm)."""
    by_rows, by_columns = np.zeros_like(table), np.zeros_like(table)
    for _ in range(AGREEING_ROUNDS):
        moved = nearest_with_sums(table + by_rows, of_rows)
        by_rows, before = table + by_rows - moved, moved
        table = nearest_with_sums((moved + by_columns).T, of_columns).T
        by_columns = before + by_columns - table
    return table


def fitted(cube: Floats, tables: dict[TableAxes, Floats], *, close: float) -> Floats:
    """Return the cube taken to the tables by factors, one table after another (iterative proportional fitting).

    It ends when no cell of a table is off by more than `close`. What is empty in the cube stays empty; what it holds
    beyond the tables it keeps as far as it can.
    """
    cube = cube.copy()
    for _ in range(FITTING_ROUNDS):
        worst = 0.0
        for axes, wanted in tables.items():
            now = table_over(cube, axes)
            worst = max(worst, float(np.abs(wanted - now).max()))
            factor = np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
            cube *= factor.reshape([cube.shape[axis] if axis in axes else 1 for axis in range(cube.ndim)])
        if worst < close:
            break
    return cube


def one_way_tables(parts: dict[TableAxes, Floats], shape: tuple[int, ...]) -> dict[TableAxes, Floats]:
    """Return the 1-way tables of given components that are nearest to them with none below zero."""
    total = np.array([max(float(parts[()]), 1.0)])
    return {
        (axis,): nearest_with_sums(assembled(parts, shape, (axis,))[None], total)[0]
        for axis in range(len(shape))
        if (axis,) in parts
    }


def two_way_tables(
    parts: dict[TableAxes, Floats], shape: tuple[int, ...], ones: dict[TableAxes, Floats]
) -> dict[TableAxes, Floats]:
    """Return the 2-way tables of given components that are nearest to them, none below zero, with given 1-way sums."""
    return {
        axes: nearest_with_margins(assembled(parts, shape, axes), ones[axes[:1]], ones[axes[1:]])
        for axes in parts
        if len(axes) == 2
    }
