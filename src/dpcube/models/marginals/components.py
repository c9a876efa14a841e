"""Noisy tables over some axes of a cube, pooled by least squares, with the variance of every sum of their cells.

A table over axes A is a sum of components, one for each subset B of A: what the values on B have to themselves, that no
smaller subset determines. A component sums to zero along each of its axes. Components of different subsets are
orthogonal and noise is alike in all cells of a table, so least squares estimates each of them by itself: it is the
mean, weighted by precision, of what every table over B and more tells of it. A table over S whose cells have noise of
variance v tells the component of B, after summing over the axes in S and not in B, with the variance v times their
number of cells.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Bools, Floats
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.errors.parts import ErrorParts
from dpcube.noise import noise_variances
from dpcube.queries import CountingQueries, Workload

LEAST_AXES = 3
"""With fewer attributes a table over two of them is the cube, or one over each is what the tree predicts by already."""
ALIKE = 0.1
"""Cells whose variances differ by this part at most count as alike: a pilot of boxes counts a few single cells."""
TableAxes = tuple[int, ...]
"""Numbers of axes, ascending."""


class NoisyTable(NamedTuple):
    """A table over some axes, shape (extents of the axes), each of whose cells has noise of one variance."""

    axes: TableAxes
    counts: Floats
    variance: float


@dataclass(frozen=True)
class Components:
    """Components of a cube of a shape by subsets of its axes, and the precision of each.

    The covariance of the component of B is 1/precision times the centring along every axis of B: (1 - 1/n) on the
    diagonal of an axis of n cells, -1/n off it.
    """

    shape: tuple[int, ...]
    values: dict[TableAxes, Floats]
    precisions: dict[TableAxes, float]
    of_tree: frozenset[TableAxes] = frozenset()
    """Those that are sums of the tree's own counts, and were not measured apart from it."""

    @classmethod
    def of_cells(cls, cells: Floats, variance: float) -> "Components":
        """Return the total, 1-way and 2-way components of a cube each of whose cells has noise of one variance."""
        shape, several = cells.shape, axes_of_several(cells.shape)
        kept: list[TableAxes] = [(), *((axis,) for axis in several), *combinations(several, 2)]
        values = {of: centred(table_over(cells, of)) for of in kept}
        cells_of = {of: math.prod(shape[axis] for axis in several if axis not in of) for of in kept}
        return cls(shape, values, {of: 1 / (variance * cells_of[of]) for of in kept}, frozenset(kept))

    def beside(self, others: "Components") -> "Components":
        """Return these components and, of subsets without any, those of others."""
        values, precisions = others.values | self.values, others.precisions | self.precisions
        return Components(self.shape, values, precisions, self.of_tree | (others.of_tree - set(self.values)))

    def with_total(self, total: float, variance: float) -> "Components":
        """Return these components with the total that the tree has: it was weighed with theirs, and is no news."""
        values, precisions = self.values | {(): np.asarray(total)}, self.precisions | {(): 1 / variance}
        return Components(self.shape, values, precisions, self.of_tree | {()})

    @classmethod
    def from_tables(cls, shape: tuple[int, ...], tables: Iterable[NoisyTable]) -> "Components":
        """Pool noisy tables by least squares."""
        sums: dict[TableAxes, Floats] = {}
        precisions: dict[TableAxes, float] = {}
        for axes, counts, variance in tables:
            for subset in subsets(axes):
                dropped = tuple(place for place, axis in enumerate(axes) if axis not in subset)
                cells = math.prod(shape[axis] for axis in axes if axis not in subset)
                precision = 1 / (variance * cells)
                sums[subset] = sums.get(subset, 0.0) + precision * centred(counts.sum(dropped))
                precisions[subset] = precisions.get(subset, 0.0) + precision
        return cls(shape, {axes: total / precisions[axes] for axes, total in sums.items()}, precisions)

    def of_order(self, order: int) -> list[TableAxes]:
        """Return the subsets of so many axes that have a component."""
        return [axes for axes in self.values if len(axes) == order]

    def cell_variance(self, axes: TableAxes) -> float:
        """Return the variance of each cell of a component."""
        return math.prod(1 - 1 / self.shape[axis] for axis in axes) / self.precisions[axes]

    @property
    def closeness(self) -> float:
        """How near to its tables a cube need be taken: a tenth of the least noise of a cell of any."""
        return 0.1 * math.sqrt(min(self.cell_variance(axes) for axes in self.values if axes))

    def question_variances(self, sums: Floats, squares: Floats) -> Floats:
        """Return the variance of least squares for each question; infinite if its axes are no table.

        A question weighs each cell by a product of one weight for each axis; `sums` and `squares`, shape (questions,
        axes), are the sums of its weights along each axis and of their squares. An axis all of whose weights are 1 does
        not matter to the question; it is answered by the marginal over the others.
        """
        asked, variances = asked_axes(self.shape, sums, squares), np.full(len(sums), np.inf)
        for axes in self.precisions:
            alike = asks_only(axes, asked)
            variances[alike] = self._variances(axes, sums[alike], squares[alike])
        return variances

    def _variances(self, axes: TableAxes, sums: Floats, squares: Floats) -> Floats:
        extents = np.array(self.shape, np.float64)
        means, spread = (sums / extents) ** 2, squares - sums**2 / extents
        found = np.zeros(len(sums))
        for subset in subsets(axes):
            factors = [spread[:, axis] if axis in subset else means[:, axis] for axis in axes]
            found += np.prod(factors, axis=0) / self.precisions[subset]
        return found


def noisy_tables(transcript: Transcript) -> list[NoisyTable]:
    """Return every marginal of a transcript; a total drawn first is a count of the tree's root."""
    found = [one for one in transcript.marginals if one.groups is None and not one.covers(transcript.shape)]
    found = [one for one in found if one not in transcript.totals]
    return tables_with_noise(found, transcript.epsilon_per_unit)


def tables_with_noise(counted: Sequence[Marginal], epsilon_per_unit: Fraction) -> list[NoisyTable]:
    """Return counted tables with the variances of their noise."""
    variances = noise_variances(np.array([one.units for one in counted], np.int64), epsilon_per_unit).tolist()
    return [NoisyTable(one.axes, one.counts.astype(np.float64), of) for one, of in zip(counted, variances, strict=True)]


def axes_of_several(shape: tuple[int, ...]) -> list[int]:
    """Return the axes of more than one cell: others have a single cell."""
    return [axis for axis, extent in enumerate(shape) if extent > 1]


def noisy_cells(boxes: BoxCounts, epsilon_per_unit: Fraction) -> tuple[Floats, float] | None:
    """Return the noisy count of every cell and their mean variance, if every cell was counted about as precisely."""
    tree, single = boxes.tree, boxes.tree.sizes[boxes.node] == 1
    nodes = np.unique(boxes.node[single])
    if len(nodes) < math.prod(tree.shape):
        return None
    counts, variances = boxes.by_node(epsilon_per_unit)
    if variances[nodes].max() > (1 + ALIKE) * variances[nodes].min():
        return None
    cells = np.zeros(tree.shape)
    cells[tuple(tree.lower[nodes].T)] = counts[nodes]
    return cells, float(variances[nodes].mean())


def subsets(axes: TableAxes) -> list[TableAxes]:
    """Return all subsets of some axes, the empty one first.

    >>> subsets((0, 2))
    [(), (0,), (2,), (0, 2)]
    """
    return [chosen for size in range(len(axes) + 1) for chosen in combinations(axes, size)]


def centred(table: Floats) -> Floats:
    """Return a table less its mean along each axis: its component of all of its axes."""
    table = np.asarray(table, np.float64)
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def table_over(cube: Floats, axes: TableAxes) -> Floats:
    """Return the sums of a cube over all other axes than some."""
    return np.asarray(cube.sum(tuple(axis for axis in range(cube.ndim) if axis not in axes)), np.float64)


def assembled(parts: dict[TableAxes, Floats], shape: Sequence[int], axes: TableAxes) -> Floats:
    """Return the table over some axes that has given components."""
    table = np.zeros([shape[axis] for axis in axes])
    for subset in subsets(axes):
        others = math.prod(shape[axis] for axis in axes if axis not in subset)
        table += np.reshape(parts[subset], [shape[axis] if axis in subset else 1 for axis in axes]) / others
    return table


def asked_axes(shape: tuple[int, ...], sums: Floats, squares: Floats) -> Bools:
    """Return of which axes each question asks, shape (questions, axes): those not all of whose weights are 1.

    `sums` and `squares`, shape (questions, axes), are the sums of its weights along each axis and of their squares.
    """
    extents = np.array(shape, np.float64)
    asked: Bools = (sums != extents) | (squares != extents)
    return asked


def asks_only(axes: TableAxes, asked: Bools) -> Bools:
    """Return which questions ask of all these axes and of no other, given the axes of which each asks."""
    pattern = np.isin(np.arange(asked.shape[1]), axes)
    only: Bools = (asked == pattern).all(axis=1)
    return only


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
    `factors` raise them. Marginals of the tree's own counts have the same noise: then errors add up, and not their
    squares, and the raised ones are those of a bias besides.
    """
    of_tables = tables.question_variances(sums, squares)
    asked, raised = asked_axes(tables.shape, sums, squares), np.ones(len(sums))
    for axes, factor in factors.items():
        raised[asks_only(axes, asked)] = factor
    own = own * raised
    known = np.isfinite(of_tables) & (own > 0)
    moved = np.divide(own, own + of_tables, out=np.zeros_like(own), where=known)
    of_tree = np.maximum(errors.noise_variances, own - errors.nonuniformity_squares)
    added = np.multiply(moved**2, of_tables, out=np.zeros_like(own), where=known)
    same = np.zeros(len(sums), np.bool_)
    for axes in tables.of_tree:
        same |= asks_only(axes, asked)
    added += 2 * same * np.sqrt(added * (1 - moved) ** 2 * (errors.noise_variances + errors.nonuniformity_squares))
    return ErrorParts((1 - moved) ** 2 * of_tree + added, (1 - moved) ** 2 * errors.nonuniformity_squares)


def values_inside(of_values: dict[int, Floats], workload: Workload) -> dict[int, Floats]:
    """Return the squared error of the first value of each attribute that ranges take."""
    return {axis: squares[workload.lower[:, axis]] for axis, squares in of_values.items()}


def values_taken(of_values: dict[int, Floats], queries: CountingQueries) -> dict[int, Floats]:
    """Return the same of counting queries."""
    first = {axis: queries.weights[axis].argmax(axis=1)[queries.chosen[:, axis]] for axis in of_values}
    return {axis: squares[first[axis]] for axis, squares in of_values.items()}


def with_values(
    errors: ErrorParts, taken: dict[int, Floats], sums: Floats, squares: Floats, *, shape: tuple[int, ...]
) -> ErrorParts:
    """Return errors with those of questions of one value and nothing else as the value was moved."""
    asked, noise, within = (
        asked_axes(shape, sums, squares),
        errors.noise_variances.copy(),
        errors.nonuniformity_squares.copy(),
    )
    for axis, found in taken.items():
        single = asks_only((axis,), asked) & (sums[:, axis] == 1) & (squares[:, axis] == 1)
        noise[single], within[single] = found[single], 0.0
    return errors._replace(noise_variances=noise, nonuniformity_squares=within)
