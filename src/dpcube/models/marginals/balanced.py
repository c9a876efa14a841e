"""The default estimate: a tree's posterior combined with noisy one- and two-way marginals where these are more precise.

The tree's posterior p is sharp where the table has structure, but its small errors go the same way and add up in sums
over many boxes. The tables' least squares u is unbiased and was measured apart from the tree. So for the total, every
1-way and every 2-way table, p's component is moved to u's by t / (t + v): v is the variance of u, t the squared error
that p states of itself, raised by a factor if u contradicts it. Then the cube is taken to the moved tables by factors.
Where no table was measured but every cell was, sums of the noisy cells are such tables. They are no news to the tree,
which was inferred from the same counts, and it is moved only as far as it contradicts them.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.cell_sums import few_weighted_sums, range_sums, summed_area_table, weighted_sums
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import ranges_by_weights
from dpcube.models.errors.level_walk import FEW
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.marginals.components import (
    Components,
    TableAxes,
    centred,
    pooled_errors,
    subsets,
    table_over,
    values_inside,
    values_taken,
    weight_sums,
    with_values,
)
from dpcube.models.marginals.fitting import (
    Departures,
    fitted,
    groups_by_size,
    independent_cube,
    one_way_tables,
    signals,
    two_way_tables,
)
from dpcube.models.marginals.one_way import SURPRISE, MovedValues, OneWay
from dpcube.models.posterior import TreeEstimate
from dpcube.models.posterior.stored import stored_tree
from dpcube.models.protocol import DamagedError, EstimateArrays
from dpcube.queries import CountingQueries, Workload

MAX_FITTED_CELLS = 2**23
"""Cubes up to so many cells are fitted to their marginals, with a few hundred passes over all of their cells."""
LEAST_MOVE = 0.03
"""Tables are left alone if they would move no component of the tree by more than this part of the way."""
EVERYWHERE = 1e-5
"""Part of the rows that is spread as if attributes were independent, so that no cell is empty for ever."""


@dataclass(frozen=True)
class BalancedEstimate(CellwiseEstimate):
    """An estimate of the whole cube: a posterior of a tree, moved to the components of noisy tables."""

    name: str
    tree: TreeEstimate
    tables: Components
    unordered: tuple[int, ...] = ()
    """Axes of attributes whose values have no order."""

    is_inferred = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.tree.shape

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        return self._moved.cells.copy()

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        asked = weight_sums(queries)
        pooled = self._pooled(*self.tree.errors_beside_own(queries), *asked)
        errors = with_values(pooled, values_taken(self.of_values, queries), *asked, shape=self.shape)
        return self.weighed_values(queries), errors

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return weighted_sums(self._moved.cells, queries)

    def without_order(self, axes: tuple[int, ...]) -> "BalancedEstimate":
        """Return the estimate for a cube on some of whose axes values have no order."""
        return replace(self, unordered=axes, tree=self.tree.without_order(axes))

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        return range_sums(self._summed, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        cells = (workload.upper - workload.lower).astype(np.float64)
        known = np.flatnonzero(np.isfinite(self.tables.question_variances(cells, cells)))
        own = np.zeros(len(workload))
        own[known] = self.tree.own_squares(Workload(self.shape, workload.lower[known], workload.upper[known]))
        pooled = self._pooled(self.tree.range_errors(workload), own, cells, cells)
        return with_values(pooled, values_inside(self.of_values, workload), cells, cells, shape=self.shape)

    @property
    def factors(self) -> dict[TableAxes, float]:
        """By what factor each table raised what the tree states of its errors."""
        return self._moved.factors

    @property
    def of_values(self) -> dict[int, Floats]:
        """The squared errors of the values of attributes whose marginals were counted."""
        return self._moved.of_values

    def _pooled(self, errors: ErrorParts, own: Floats, sums: Floats, squares: Floats) -> ErrorParts:
        return pooled_errors(errors, own, sums, squares, tables=self.tables, factors=self.factors)

    def moves(self) -> bool:
        """Return whether any marginal is precise enough to move the tree's cube; a thin pilot is not."""
        cube = self.tree.cells()
        for order in range(3):
            for held in _held_against(cube, self.tree, self.tables, self.tables.of_order(order)):
                if held.factor * float(np.mean(held.squares)) > LEAST_MOVE * held.variance:
                    return True
        return False

    def to_arrays(self) -> EstimateArrays:
        """Return the cells, the tree, the precisions of the marginals, and by what they raised the tree's errors."""
        _, facts, arrays = self.tree.to_arrays()
        facts |= {"name": self.name, "values": sorted(self.of_values)}
        facts["precisions"] = [[list(axes), precision] for axes, precision in self.tables.precisions.items()]
        facts["factors"] = [[list(axes), factor] for axes, factor in self.factors.items()]
        facts["ofTree"] = sorted(map(list, self.tables.of_tree))
        arrays |= {f"values{axis}": squares for axis, squares in self.of_values.items()}
        return EstimateArrays("balanced", facts, arrays | {"cells": self._moved.cells.reshape(-1)})

    @cached_property
    def _summed(self) -> Floats:
        return summed_area_table(self._moved.cells)

    @cached_property
    def _moved(self) -> "MovedCells":
        return MovedCells.from_tables(self.tree, self.tables, self.unordered)


@dataclass(frozen=True)
class MovedCells:
    """The cells of a cube that was moved to its tables, and by what factor each table raised the tree's errors."""

    cells: Floats
    factors: dict[TableAxes, float]
    of_values: dict[int, Floats]
    """The squared errors of the values of attributes whose marginals were counted."""

    @classmethod
    def from_tables(cls, tree: TreeEstimate, tables: Components, unordered: tuple[int, ...]) -> "MovedCells":
        """Move the total, then the 1-way and at last the 2-way tables of a tree's cube."""
        shape, cube = tree.shape, tree.cells()
        factors: dict[TableAxes, float] = {}
        (total,) = _moved_components(cube, tree, tables, [()], factors).values()
        cube *= max(float(total), 1.0) / max(float(cube.sum()), 1.0)
        ones, of_values = _moved_ones(cube, tree, tables, unordered, factors)
        cube = fitted(
            (1 - EVERYWHERE) * cube + EVERYWHERE * independent_cube(ones, shape, float(cube.sum())),
            ones,
            close=tables.closeness,
        )
        pairs: list[TableAxes] = [axes for axes in tables.values if len(axes) == 2]
        parts = _moved_components(cube, tree, tables, pairs, factors)
        parts |= {(): total, **{axes: centred(table) for axes, table in ones.items()}}
        return cls(fitted(cube, two_way_tables(parts, shape, ones), close=tables.closeness), factors, of_values)


@dataclass(frozen=True)
class _HeldAgainst:
    """A component of a cube beside that of the marginals: arrays of its shape unless stated otherwise."""

    axes: TableAxes
    own: Floats
    departures: Floats
    variance: float
    """That of the noise of each cell of the tables' component."""
    squares: Floats
    """The squared errors that the tree states."""
    factor: float = 1.0
    """By what these must be raised to explain the departures; 0 if the marginals are uninformative."""

    @property
    def free(self) -> int:
        """How many cells of a component are free: (n1 - 1)(n2 - 1) of n1 x n2."""
        return math.prod(max(extent - 1, 1) for extent in self.own.shape)

    def moved(self) -> Floats:
        """Return the cube's component, moved as far as the marginals are more precise."""
        squares = self.factor * self.squares
        return centred(self.own + self.departures * squares / (squares + self.variance))


def _held_against(cube: Floats, tree: TreeEstimate, tables: Components, of: list[TableAxes]) -> list[_HeldAgainst]:
    """Return components of one order, with the factors of the tree's errors."""
    held = []
    for axes in of:
        own = centred(table_over(cube, axes))
        squares = tree.own_squares(cells_of_table(tree.shape, axes)).reshape(own.shape)
        held.append(_HeldAgainst(axes, own, tables.values[axes] - own, tables.cell_variance(axes), squares))
    same = [one for one in held if one.axes in tables.of_tree]
    found = [replace(one, factor=_factor(one)) for one in held if one.axes not in tables.of_tree]
    return found + [replace(one, factor=of) for one, of in zip(same, _factors_of_own_counts(same), strict=True)]


def _moved_components(
    cube: Floats, tree: TreeEstimate, tables: Components, of: list[TableAxes], factors: dict[TableAxes, float]
) -> dict[TableAxes, Floats]:
    """Return components of a cube, moved to those of the tables; note the factors of the tree's errors."""
    moved = {axes: centred(table_over(cube, axes)) for axes in of}
    for held in _held_against(cube, tree, tables, [axes for axes in of if axes in tables.values]):
        moved[held.axes], factors[held.axes] = held.moved(), held.factor
    return moved


def _moved_ones(
    cube: Floats,
    tree: TreeEstimate,
    tables: Components,
    unordered: tuple[int, ...],
    factors: dict[TableAxes, float],
) -> tuple[dict[TableAxes, Floats], dict[int, Floats]]:
    """Return the 1-way tables of a cube, moved, and the squared errors of the values of those that were counted.

    Those that the tree's own counts state, or none, are moved as a whole or not at all. Of values whose marginal is too
    noisy to doubt the tree, such as that of a pilot, no squared errors are returned: they are those of the tree.
    """
    shape, total = tree.shape, np.maximum(cube.sum(), 1.0)
    parts = _moved_components(cube, tree, tables, [(axis,) for axis in range(len(shape))], factors)
    apart = [axis for (axis,) in parts if (axis,) in tables.values and (axis,) not in tables.of_tree]
    moved: dict[int, MovedValues] = {}
    squares: dict[int, Floats] = {}
    for axis in apart:
        table = table_over(cube, (axis,))
        departures = tables.values[axis,] - centred(table)
        one = OneWay(axis, tree, table, departures, 1 / tables.precisions[axis,], factors[axis,])
        moved[axis] = one.by_values(float(total)) if axis in unordered else one.by_intervals(float(total))
        if one.can_doubt:
            squares[axis] = moved[axis].squares
    ones = one_way_tables({(): total, **{axes: part for axes, part in parts.items() if axes[0] not in moved}}, shape)
    return ones | {(axis,): found.table for axis, found in moved.items()}, squares


def moved_by_departures(cube: Floats, tables: Components) -> Floats:
    """Return a cube moved to tables by what is real of its departures from them, without knowing its errors.

    It is nearly as good as the estimate and much faster: for trying out what to count.
    """
    total, close = np.asarray(cube.sum()), tables.closeness
    parts = _signal_components(cube, tables, 1)
    ones = one_way_tables({(): total, **parts}, tables.shape)
    everywhere = EVERYWHERE * independent_cube(ones, tables.shape, float(total))
    cube = fitted((1 - EVERYWHERE) * cube + everywhere, ones, close=close)
    parts = _signal_components(cube, tables, 2)
    parts |= {(): total, **{axes: centred(table) for axes, table in ones.items()}}
    return fitted(cube, two_way_tables(parts, tables.shape, ones), close=close)


def _signal_components(cube: Floats, tables: Components, order: int) -> dict[TableAxes, Floats]:
    """Return the cube's components of an order, moved by the expected signal of the tables' departures."""
    of: list[TableAxes] = [axes for axes in tables.values if len(axes) == order]
    own = {axes: table_over(cube, axes) for axes in of}
    apart = [
        Departures(tables.values[axes] - centred(table), tables.cell_variance(axes), groups_by_size(table))
        for axes, table in own.items()
    ]
    moved = zip(own.items(), signals(apart) if of else [], strict=True)
    return {axes: centred(centred(table) + signal) for (axes, table), signal in moved}


def cells_of_table(shape: tuple[int, ...], axes: TableAxes) -> Workload:
    """Return the ranges of a cube that the cells of its table over some axes count, in order."""
    extents = [shape[axis] for axis in axes]
    cells = math.prod(extents)
    places = np.indices(extents).reshape(len(axes), cells).T
    lower = np.zeros((cells, len(shape)), np.int64)
    upper: Ints = np.tile(np.array(shape, np.int64), (cells, 1))
    lower[:, axes], upper[:, axes] = places, places + 1
    return Workload(shape, lower, upper)


def _factor(held: _HeldAgainst) -> float:
    """Return by how much the squared errors that a tree states of a table must be raised at least to explain it.

    The mean of so many squares of noise exceeds what is expected by more than this with a chance of about
    exp(-SURPRISE) (Laurent and Massart's bound for a normal law).
    """
    found, expected = float(np.mean(held.departures**2)) - held.variance, float(np.mean(held.squares))
    doubtful = _rarely_above(held.free) * (held.variance + expected)
    return max((found - doubtful) / expected, 1.0) if expected > 0 else 1.0


def _factors_of_own_counts(held: list[_HeldAgainst]) -> list[float]:
    """Return the same for marginals of the tree's own counts, all of one order together.

    Such marginals add nothing but the degree to which the tree contradicts them. Unless the tree is biased, what the
    two are apart by has less than the variance of a table: what it has beyond that is bias, in the same proportion to
    each variance.
    """
    found = sum(float(np.sum(one.departures**2)) / one.variance for one in held)
    biased = max(found / max(sum(one.own.size for one in held), 1) - 1, 0.0)
    means = [float(np.mean(one.squares)) for one in held]
    return [biased * one.variance / mean if mean > 0 else 0.0 for one, mean in zip(held, means, strict=True)]


def _rarely_above(free: int) -> float:
    """Return by what part the mean of so many squares of noise exceeds its expectation with a chance of exp(-7)."""
    return 2 * (math.sqrt(SURPRISE / max(free, 1)) + SURPRISE / max(free, 1))


class StoredBalanced(BalancedEstimate):
    """A balanced estimate that answers few questions without a compiler."""

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return few_weighted_sums(self._moved.cells, queries) if len(queries) <= FEW else super().weighed_values(queries)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of ranges."""
        few = len(workload) <= FEW
        return self.weighed_values(ranges_by_weights(workload)) if few else super().range_values(workload)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of ranges."""
        few = len(workload) <= FEW
        return self.weighed(ranges_by_weights(workload))[1] if few else super().range_errors(workload)


def stored_balanced(written: EstimateArrays) -> StoredBalanced:
    """Return the balanced estimate that was written."""
    facts, tree = written.facts, stored_tree(written)
    shape = tree.shape
    precisions, factors = (_by_axes(facts[key], len(shape)) for key in ("precisions", "factors"))
    of_tree = frozenset(_by_axes([(of, 1.0) for of in facts["ofTree"]], len(shape)))
    of_values = {axis: written.floats(f"values{axis}", shape[axis]) for axis in map(int, facts["values"])}
    known = all(subset in precisions for axes in precisions for subset in subsets(axes))
    if not known or min(precisions.values(), default=1.0) == 0:
        raise DamagedError
    made = StoredBalanced(tree.name, tree, Components(shape, {}, precisions, of_tree), tree.unordered)
    cells = written.floats("cells", math.prod(shape)).reshape(shape)
    made.__dict__["_moved"] = MovedCells(cells, factors, of_values)
    return made


def _by_axes(pairs: Any, axes: int) -> dict[TableAxes, float]:
    found = {tuple(map(int, of)): float(number) for of, number in pairs}
    if any(list(of) != sorted({*of} & {*range(axes)}) for of in found) or not all(n >= 0 for n in found.values()):
        raise DamagedError
    return found
