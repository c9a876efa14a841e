"""Stratified sampling of synthetic rows from an estimate: from expected counts of cells or boxes, or from a model.

This is post-processing: nothing but a released estimate is read, so rows cost no privacy however many are drawn, and
NumPy's seeded generator is the right source of chance (exact noise and secret randomness belong to the release).

*From counts.* The counts, none below zero, are laid end to end; the line is cut into as many equal strata as rows are
wanted, and one row is put uniformly in each. So a cell gets its share in expectation and is never two rows off it, the
number of rows in any set of cells is a sum of independent yes-or-no draws, and it varies no more than with independent
rows. Each batch takes strata from end to end of the line, in random order.

*From a junction tree.* From the root down each clique is drawn given what it shares with its parent, and in the end
each cell given its group. Rows that share the same cells are put into equal strata of what may follow, in random order,
one row in each: so every clique's table is met as nearly as whole rows can, and a row is as likely as the model says.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpcube.core.arrays import Floats, Ints, Places
from dpcube.core.boxes import Boxes
from dpcube.core.errors import QueryError
from dpcube.models.cell_sums import non_negative

if TYPE_CHECKING:
    from dpcube.models.cuboids.beliefs import Beliefs
    from dpcube.models.protocol import Estimate

Generator = np.random.Generator
BATCH_ROWS = 2**18
"""Default number of rows that are drawn at a time."""
MAX_SYNTHETIC_ROWS = 2**53
"""Rows are numbered in double precision."""


def rows_to_draw(rows: int | None, total: float) -> int:
    """Return how many rows are drawn: as many as the total says unless given, or a QueryError."""
    if rows is None:
        return round(total)
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or not 0 <= rows < MAX_SYNTHETIC_ROWS:
        msg = f"the number of rows must be a whole number from 0 to 2^53 - 1, got {rows!r}"
        raise QueryError(msg)
    if rows > 0 and total <= 0:
        msg = f"this estimate has no rows in any cell, so {rows} cannot be drawn; draw 0, or use another estimate"
        raise QueryError(msg)
    return int(rows)


def same_rows(estimate: "Estimate", rows: int) -> Ints:
    """Return the cells of so many rows of an estimate, shape (rows, axes): the same at every call."""
    (drawn,) = estimate.draw(rows, np.random.default_rng(0), batch=rows)
    return np.stack(drawn, axis=1).astype(np.int64)


def stratified_places(expected: Floats, rows: int, generator: Generator, *, batch: int | None = None) -> Iterator[Ints]:
    """Yield the cells, or boxes, of rows, batch by batch, by their place in the array of expected counts."""
    occupied = np.flatnonzero(expected)
    ends = np.cumsum(expected[occupied])
    batches = math.ceil(rows / (batch or BATCH_ROWS))
    for first in generator.permutation(batches):
        strata = np.arange(first, rows, batches, dtype=np.float64)
        # In double precision a place may round up to the next stratum's first.
        places = np.minimum(strata + generator.random(len(strata)), np.nextafter(strata + 1, 0))
        found = np.searchsorted(ends, places * (ends[-1] / rows), side="right")
        cells = occupied[np.minimum(found, len(ends) - 1)]
        generator.shuffle(cells)
        yield cells


def cells_in_boxes(
    boxes: Boxes, totals: Floats, rows: int | None, generator: Generator, *, batch: int | None = None
) -> Iterator[tuple[Places, ...]]:
    """Return the cells of rows on every axis: in each box its share of them, evenly placed."""
    expected = non_negative(totals)
    drawn = stratified_places(expected, rows_to_draw(rows, float(expected.sum())), generator, batch=batch)
    return (tuple(generator.integers(boxes.lower[of], boxes.upper[of]).T) for of in drawn)


def modelled_cells(
    beliefs: "Beliefs",
    groups: tuple[Ints, ...],
    shares: tuple[Floats, ...],
    rows: int,
    generator: Generator,
) -> tuple[Places, ...]:
    """Return the cells of rows on every axis, drawn from a model of groups of cells and the share of each cell."""
    found = []
    for of_cell, share, drawn in zip(groups, shares, modelled_groups(beliefs, rows, generator), strict=True):
        cells = np.argsort(of_cell, kind="stable")
        starts = np.searchsorted(of_cell[cells], np.arange(int(of_cell.max()) + 1))
        ways = np.zeros((len(starts), int(np.bincount(of_cell).max())))
        rank = np.arange(len(cells)) - starts[of_cell[cells]]
        ways[of_cell[cells], rank] = share[cells]
        found.append(cells[starts[drawn] + stratified(ways, drawn, generator)])
    return tuple(found)


def modelled_groups(beliefs: "Beliefs", rows: int, generator: Generator) -> list[Ints]:
    """Return the groups of rows drawn from a junction tree, an array for each axis."""
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


def stratified(ways: Floats, given: Ints, generator: Generator) -> Ints:
    """Return for each row one of the ways, shape (conditions, ways), by the weights of its own condition."""
    rows = len(given)
    order = np.lexsort((generator.random(rows), given))
    many = np.bincount(given, minlength=len(ways))
    rank = np.arange(rows) - np.repeat(np.cumsum(many) - many, many)
    condition = given[order]
    place = (rank + generator.random(rows)) / many[condition]
    sums = np.cumsum(np.maximum(ways, 0), axis=1)
    whole = sums[:, -1:]
    # A condition that the model gives no rows, if only by rounding, is followed by anything.
    ends = np.where(whole > 0, sums / np.where(whole > 0, whole, 1), np.linspace(0, 1, ways.shape[1] + 1)[1:])
    ends[:, -1] = 1.0
    line = (ends + np.arange(len(ways))[:, None]).reshape(-1)
    found = np.searchsorted(line, np.minimum(condition + place, np.nextafter(condition + 1.0, 0)), side="right")
    drawn = np.empty(rows, np.int64)
    drawn[order] = np.minimum(found - condition * ways.shape[1], ways.shape[1] - 1)
    return np.maximum(drawn, 0)
