"""A cube from noisy tables over one and two attributes alone: nothing in it that they do not say (maximum entropy)."""

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.marginals.components import Components, TableAxes, centred
from dpcube.models.marginals.fitting import fitted, one_way_tables, two_way_tables
from dpcube.models.marginals.shrinkage import Departures, groups_by_size, signals


def most_even_cube(tables: Components) -> Floats:
    """Return the cube with the 1-way and 2-way tables that noisy ones tell, and nothing beyond pairs.

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

    Along an axis without a table rows are spread evenly.
    """
    cube: Floats = np.array(total)
    for axis, extent in enumerate(shape):
        table = ones.get((axis,), np.ones(extent))
        cube = np.multiply.outer(cube, table / table.sum())
    return cube
