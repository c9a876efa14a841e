"""The posterior of a tree, moved to what tables over one and two attributes say as far as they know better.

The tree's posterior p is sharp where the table has structure, but its small errors go the same way and add up in sums
over many boxes. The tables' least squares u is unbiased and was measured apart from the tree. So for the total, every
1-way and every 2-way table, p's component is moved to u's by t / (t + v): v is the variance of u, t the squared error
that p states of itself, raised by a factor if u contradicts it. Then the cube is taken to the moved tables by factors.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.estimate.cell_sums import range_sums, summed_area_table, weighted_sums
from dpcube.estimate.errors.parts import ErrorParts
from dpcube.estimate.marginals.components import Axes, Components, asked_axes, asks_only, centred, marginal
from dpcube.estimate.marginals.entropy import independent_cube
from dpcube.estimate.marginals.fitting import fitted, one_way_tables, two_way_tables
from dpcube.estimate.posterior import PosteriorEstimate
from dpcube.query import CountingQueries, Workload

MOST_FITTED = 2**23
"""Cubes up to so many cells are taken to their tables; all of their cells are gone through a few hundred times."""
SURPRISE = 3.0
"""The squared departures of a table must exceed what is expected by so many of their standard errors to be believed."""
SQUARED_SPREAD = 2.5
"""Variance of the square of a noise, in units of its squared variance: 2 for a normal law, 5 for Laplace's."""
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
        sums, squares = (
            np.stack([of[queries.chosen[:, axis]] for axis, of in enumerate(along)], axis=1)
            for along in (
                [weights.sum(axis=1) for weights in queries.weights],
                [(weights**2).sum(axis=1) for weights in queries.weights],
            )
        )
        return weighted_sums(self._moved.cells, queries), self._pooled(errors, sums, squares)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        return range_sums(self._summed, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        cells = (workload.upper - workload.lower).astype(np.float64)
        return self._pooled(self.tree.range_errors(workload), cells, cells)

    def _pooled(self, errors: ErrorParts, sums: Floats, squares: Floats) -> ErrorParts:
        """Return the errors of the tree's answers, pooled with those of the tables where they answer by themselves."""
        of_tables = self.tables.question_variances(sums, squares)
        of_tree = (errors.noise_variances + errors.within_squares) * self._contradicted(sums, squares)
        with np.errstate(invalid="ignore"):
            kept = np.where(np.isfinite(of_tables), of_tables / (of_tables + of_tree), 1.0)
        kept = np.where(of_tree > 0, kept, 1.0)
        within = kept * errors.within_squares
        return ErrorParts(np.maximum(kept * of_tree - within, 0.0), within)

    def _contradicted(self, sums: Floats, squares: Floats) -> Floats:
        """Return the factor by which tables raise what the tree states of its errors, for each question."""
        asked, factors = asked_axes(self.shape, sums, squares), np.ones(len(sums))
        for axes, factor in self._moved.factors.items():
            factors[asks_only(axes, asked)] = factor
        return factors

    @cached_property
    def _summed(self) -> Floats:
        return summed_area_table(self._moved.cells)

    @cached_property
    def _moved(self) -> "_Moved":
        return _Moved.of(self.tree, self.tables)


@dataclass(frozen=True)
class _Moved:
    """The cells of a cube that was moved to its tables, and by what factor each table raised the tree's errors."""

    cells: Floats
    factors: dict[Axes, float]

    @classmethod
    def of(cls, tree: PosteriorEstimate, tables: Components) -> "_Moved":
        """Move the total, then the 1-way and at last the 2-way tables of a tree's cube."""
        shape, cube = tree.shape, tree.cells()
        factors: dict[Axes, float] = {}
        (total,) = _moved_components(cube, tree, tables, [()], factors).values()
        cube *= max(float(total), 1.0) / max(float(cube.sum()), 1.0)
        parts = _moved_components(cube, tree, tables, [(axis,) for axis in range(len(shape))], factors)
        ones = one_way_tables({(): total, **parts}, shape)
        cube = fitted((1 - EVERYWHERE) * cube + EVERYWHERE * independent_cube(ones, float(cube.sum())), ones)
        pairs: list[Axes] = [axes for axes in tables.values if len(axes) == 2]
        parts = _moved_components(cube, tree, tables, pairs, factors)
        parts |= {(): total, **{axes: centred(table) for axes, table in ones.items()}}
        return cls(fitted(cube, two_way_tables(parts, shape, ones)), factors)


def _moved_components(
    cube: Floats, tree: PosteriorEstimate, tables: Components, of: list[Axes], factors: dict[Axes, float]
) -> dict[Axes, Floats]:
    """Return components of a cube, moved to those of the tables; note the factors of the tree's errors."""
    moved = {}
    for axes in of:
        own = moved[axes] = centred(marginal(cube, axes))
        if axes in tables.values:
            apart, variance = tables.values[axes] - own, tables.cell_variance(axes)
            stated = tree.range_errors(cells_of_table(tree.shape, axes))
            squares = np.reshape(stated.noise_variances + stated.within_squares, own.shape)
            factors[axes] = _factor(apart, variance, squares)
            squares = factors[axes] * squares
            moved[axes] = centred(own + apart * squares / (squares + variance))
    return moved


def cells_of_table(shape: tuple[int, ...], axes: Axes) -> Workload:
    """Return the ranges of a cube that the cells of its table over some axes count, in order."""
    extents = [shape[axis] for axis in axes]
    cells = math.prod(extents)
    places = np.indices(extents).reshape(len(axes), cells).T
    lower = np.zeros((cells, len(shape)), np.int64)
    upper: Ints = np.tile(np.array(shape, np.int64), (cells, 1))
    lower[:, axes], upper[:, axes] = places, places + 1
    return Workload(shape, lower, upper)


def _factor(apart: Floats, variance: float, squares: Floats) -> float:
    """Return by how much the squared errors that a tree states of a table must be raised to explain its departure."""
    found, expected = float(np.mean(apart**2)) - variance, float(np.mean(squares))
    doubtful = SURPRISE * math.sqrt(SQUARED_SPREAD / apart.size) * (variance + expected)
    return found / expected if expected > 0 and found > expected + doubtful else 1.0
