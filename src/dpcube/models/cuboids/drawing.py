"""Rows drawn from the model of a wide table: an estimate and a generator enter, the cells of rows leave.

From the root of the junction tree down each clique is drawn given what it shares with its parent, and in the end each
cell given its group. Rows that share the same cells are put into equal strata of what may follow, in random order, one
row in each: so every clique's table is met as nearly as whole rows can, and a row is as likely as the model says.
"""

import math

import numpy as np

from dpcube.core.arrays import Floats, Ints, Places
from dpcube.models.cuboids.beliefs import Beliefs
from dpcube.models.cuboids.estimate import CuboidsEstimate


def drawn_cells(estimate: CuboidsEstimate, rows: int, generator: np.random.Generator) -> tuple[Places, ...]:
    """Return the cells of so many rows on every axis."""
    found = []
    for groups, shares, drawn in zip(
        estimate.groups, estimate.shares, draw_rows(estimate.beliefs, rows, generator), strict=True
    ):
        cells = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[cells], np.arange(int(groups.max()) + 1))
        ways = np.zeros((len(starts), int(np.bincount(groups).max())))
        rank = np.arange(len(cells)) - starts[groups[cells]]
        ways[groups[cells], rank] = shares[cells]
        found.append(cells[starts[drawn] + stratified(ways, drawn, generator)])
    return tuple(found)


def draw_rows(beliefs: Beliefs, rows: int, generator: np.random.Generator) -> list[Ints]:
    """Return the cells of so many rows, an array for each axis."""
    tree = beliefs.tree
    cells: dict[int, Ints] = {}
    for table, clique, shared in zip(beliefs.tables, tree.cliques, tree.shared, strict=True):
        new = tuple(axis for axis in clique if axis not in shared)
        order = [clique.index(axis) for axis in (*shared, *new)]
        sides = [tree.shape[axis] for axis in shared]
        ways = np.transpose(table, order).reshape(math.prod(sides), -1)
        given = np.zeros(rows, np.int64)
        for axis, side in zip(shared, sides, strict=True):
            given = given * side + cells[axis]
        drawn = stratified(ways, given, generator)
        for axis in reversed(new):
            drawn, cells[axis] = np.divmod(drawn, tree.shape[axis])
    return [cells[axis] for axis in range(len(tree.shape))]


def stratified(ways: Floats, given: Ints, generator: np.random.Generator) -> Ints:
    """Return for each row one of the ways, shape (conditions, ways), by the weights of its own condition."""
    rows = len(given)
    order = np.lexsort((generator.random(rows), given))
    many = np.bincount(given, minlength=len(ways))
    rank = np.arange(rows) - np.repeat(np.cumsum(many) - many, many)
    condition = given[order]
    place = (rank + generator.random(rows)) / many[condition]
    sums = np.cumsum(np.maximum(ways, 0), axis=1)
    whole = sums[:, -1:]
    # A condition that the model holds impossible, if only by rounding, is followed by anything.
    ends = np.where(whole > 0, sums / np.where(whole > 0, whole, 1), np.linspace(0, 1, ways.shape[1] + 1)[1:])
    ends[:, -1] = 1.0
    line = (ends + np.arange(len(ways))[:, None]).reshape(-1)
    found = np.searchsorted(line, np.minimum(condition + place, np.nextafter(condition + 1.0, 0)), side="right")
    drawn = np.empty(rows, np.int64)
    drawn[order] = np.minimum(found - condition * ways.shape[1], ways.shape[1] - 1)
    return np.maximum(drawn, 0)


def same_rows(estimate: CuboidsEstimate, rows: int) -> Ints:
    """Return the cells of so many rows, shape (rows, axes): the same whenever they are asked for."""
    return np.stack(drawn_cells(estimate, rows, np.random.default_rng(0)), axis=1).astype(np.int64)
