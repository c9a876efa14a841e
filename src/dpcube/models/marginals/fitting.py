"""Iterative proportional fitting of a cube to one- and two-way marginals, and the cube of independent attributes."""

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.marginals.components import Components, TableAxes, assembled, centred, table_over
from dpcube.models.marginals.shrinkage import Departures, groups_by_size, signals


def maximum_entropy_cube(tables: Components) -> Floats:
    """Return the cube fitted to noisy one- and two-way marginals, without interactions beyond pairs.

    What a noisy 2-way table departs from independence by is taken for as much as is real (`shrinkage.py`).
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
