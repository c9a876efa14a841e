"""Errors of a tree's estimate that was moved to noisy tables: pooled ones of sums, and those of single values."""

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.marginals.components import Components, TableAxes, asked_axes, asks_only
from dpcube.queries import CountingQueries, Workload


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
