"""The posterior of a tree, moved to what tables over one and two attributes say as far as they know better.

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

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.estimate.cell_sums import range_sums, summed_area_table, weighted_sums
from dpcube.estimate.errors.parts import ErrorParts
from dpcube.estimate.marginals.components import Components, TableAxes, asked_axes, asks_only, centred, table_over
from dpcube.estimate.marginals.entropy import independent_cube
from dpcube.estimate.marginals.fitting import fitted, one_way_tables, two_way_tables
from dpcube.estimate.marginals.shrinkage import Departures, groups_by_size, signals
from dpcube.estimate.posterior import PosteriorEstimate
from dpcube.query import CountingQueries, Workload

MOST_FITTED = 2**23
"""Cubes up to so many cells are taken to their tables; all of their cells are gone through a few hundred times."""
SURPRISE = 7.0
"""Departures that noise makes with a chance below exp(-7), one in a thousand, are believed."""
LEAST_MOVE = 0.03
"""Tables are left alone if they would move no component of the tree by more than this part of the way."""
EVERYWHERE = 1e-5
"""Part of the rows that is spread as if attributes were independent, so that no cell is empty for ever."""


@dataclass(frozen=True)
class BalancedEstimate:
    """An estimate of the whole cube: a posterior of a tree, moved to the components of noisy tables."""

    name: str
    tree: PosteriorEstimate
    tables: Components

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.tree.shape

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        return self._moved.cells.copy()

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        _, errors = self.tree.answers(queries)
        own = self.tree.own_squares(queries)
        return weighted_sums(self._moved.cells, queries), self._pooled(errors, own, *weight_sums(queries))

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        return range_sums(self._summed, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        cells = (workload.upper - workload.lower).astype(np.float64)
        known = np.flatnonzero(np.isfinite(self.tables.question_variances(cells, cells)))
        own = np.zeros(len(workload))
        own[known] = self.tree.own_squares(Workload(self.shape, workload.lower[known], workload.upper[known]))
        return self._pooled(self.tree.range_errors(workload), own, cells, cells)

    @property
    def factors(self) -> dict[TableAxes, float]:
        """By what factor each table raised what the tree states of its errors."""
        return self._moved.factors

    def _pooled(self, errors: ErrorParts, own: Floats, sums: Floats, squares: Floats) -> ErrorParts:
        return pooled_errors(errors, own, sums, squares, tables=self.tables, factors=self.factors)

    def moves(self) -> bool:
        """Say whether any table knows enough to move the tree's cube; a thin pilot of them does not."""
        cube = self.tree.cells()
        for order in range(3):
            for held in _held_against(cube, self.tree, self.tables, self.tables.of_order(order)):
                if held.factor * float(np.mean(held.squares)) > LEAST_MOVE * held.variance:
                    return True
        return False

    @cached_property
    def _summed(self) -> Floats:
        return summed_area_table(self._moved.cells)

    @cached_property
    def _moved(self) -> "_Moved":
        return _Moved.of(self.tree, self.tables)


def weight_sums(queries: CountingQueries) -> tuple[Floats, Floats]:
    """Return the sums of each query's weights along each axis, and of their squares, shape (queries, axes)."""
    along = [(weights.sum(axis=1), (weights**2).sum(axis=1)) for weights in queries.weights]
    sums, squares = (
        np.stack([of_axis[part][queries.chosen[:, axis]] for axis, of_axis in enumerate(along)], axis=1)
        for part in (0, 1)
    )
    return sums, squares


def pooled_errors(
    errors: ErrorParts,
    own: Floats,
    sums: Floats,
    squares: Floats,
    *,
    tables: Components,
    factors: dict[TableAxes, float],
) -> ErrorParts:
    """Return the errors of a tree's answers, moved in part to those of the tables where these answer too.

    A part w of the way from the tree's answer to the tables' leaves (1 - w)^2 of the one's squared error and w^2 of the
    other's, if they were measured apart. `own` are the squared errors by which the tree's components were moved, and
    `factors` raise them. Tables that the tree's own counts tell have the same noise: then errors add up, and not their
    squares, and the raised ones are those of a bias besides.
    """
    of_tables = tables.question_variances(sums, squares)
    asked, raised = asked_axes(tables.shape, sums, squares), np.ones(len(sums))
    for axes, factor in factors.items():
        raised[asks_only(axes, asked)] = factor
    own = own * raised
    known = np.isfinite(of_tables) & (own > 0)
    moved = np.divide(own, own + of_tables, out=np.zeros_like(own), where=known)
    of_tree = np.maximum(errors.noise_variances, own - errors.within_squares)
    added = np.multiply(moved**2, of_tables, out=np.zeros_like(own), where=known)
    if not tables.apart:
        added += 2 * np.sqrt(added * (1 - moved) ** 2 * (errors.noise_variances + errors.within_squares))
    return ErrorParts((1 - moved) ** 2 * of_tree + added, (1 - moved) ** 2 * errors.within_squares)


@dataclass(frozen=True)
class _Moved:
    """The cells of a cube that was moved to its tables, and by what factor each table raised the tree's errors."""

    cells: Floats
    factors: dict[TableAxes, float]

    @classmethod
    def of(cls, tree: PosteriorEstimate, tables: Components) -> "_Moved":
        """Move the total, then the 1-way and at last the 2-way tables of a tree's cube."""
        shape, cube = tree.shape, tree.cells()
        factors: dict[TableAxes, float] = {}
        (total,) = _moved_components(cube, tree, tables, [()], factors).values()
        cube *= max(float(total), 1.0) / max(float(cube.sum()), 1.0)
        parts = _moved_components(cube, tree, tables, [(axis,) for axis in range(len(shape))], factors)
        ones = one_way_tables({(): total, **parts}, shape)
        cube = fitted(
            (1 - EVERYWHERE) * cube + EVERYWHERE * independent_cube(ones, shape, float(cube.sum())),
            ones,
            close=tables.closeness,
        )
        pairs: list[TableAxes] = [axes for axes in tables.values if len(axes) == 2]
        parts = _moved_components(cube, tree, tables, pairs, factors)
        parts |= {(): total, **{axes: centred(table) for axes, table in ones.items()}}
        return cls(fitted(cube, two_way_tables(parts, shape, ones), close=tables.closeness), factors)


@dataclass(frozen=True)
class _HeldAgainst:
    """A component of a cube, held against that of the tables: arrays of its shape but where said."""

    axes: TableAxes
    own: Floats
    departures: Floats
    variance: float
    """That of the noise of each cell of the tables' component."""
    squares: Floats
    """The squared errors that the tree states."""
    factor: float = 1.0
    """By what these must be raised to explain the departures; 0 if the tables have nothing to tell."""

    @property
    def free(self) -> int:
        """How many cells of a component are free: (n1 - 1)(n2 - 1) of n1 x n2."""
        return math.prod(max(extent - 1, 1) for extent in self.own.shape)

    def moved(self) -> Floats:
        """Return the cube's component, moved as far as the tables know better."""
        squares = self.factor * self.squares
        return centred(self.own + self.departures * squares / (squares + self.variance))


def _held_against(cube: Floats, tree: PosteriorEstimate, tables: Components, of: list[TableAxes]) -> list[_HeldAgainst]:
    """Return components of one order, with the factors of the tree's errors."""
    held = []
    for axes in of:
        own = centred(table_over(cube, axes))
        squares = tree.own_squares(cells_of_table(tree.shape, axes)).reshape(own.shape)
        held.append(_HeldAgainst(axes, own, tables.values[axes] - own, tables.cell_variance(axes), squares))
    factors = map(_factor, held) if tables.apart else _factors_of_own_counts(held)
    return [replace(one, factor=factor) for one, factor in zip(held, factors, strict=True)]


def _moved_components(
    cube: Floats, tree: PosteriorEstimate, tables: Components, of: list[TableAxes], factors: dict[TableAxes, float]
) -> dict[TableAxes, Floats]:
    """Return components of a cube, moved to those of the tables; note the factors of the tree's errors."""
    moved = {axes: centred(table_over(cube, axes)) for axes in of}
    for held in _held_against(cube, tree, tables, [axes for axes in of if axes in tables.values]):
        moved[held.axes], factors[held.axes] = held.moved(), held.factor
    return moved


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
    """Return the same of tables that the tree's own counts tell, all of one order together.

    Such tables tell the tree nothing but how far it contradicts them. Unless the tree is biased, what the two are apart
    by has less than the variance of a table: what it has beyond that is bias, in the same proportion to each variance.
    """
    found = sum(float(np.sum(one.departures**2)) / one.variance for one in held)
    biased = max(found / max(sum(one.own.size for one in held), 1) - 1, 0.0)
    means = [float(np.mean(one.squares)) for one in held]
    return [biased * one.variance / mean if mean > 0 else 0.0 for one, mean in zip(held, means, strict=True)]


def _rarely_above(free: int) -> float:
    """Return by what part the mean of so many squares of noise exceeds its expectation with a chance of exp(-7)."""
    return 2 * (math.sqrt(SURPRISE / max(free, 1)) + SURPRISE / max(free, 1))
