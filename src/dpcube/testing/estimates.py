"""Conformance suite for estimates: the rules of the `Estimate` protocol, checked on any implementation."""

import numpy as np
from numpy.typing import NDArray

from dpcube.models.errors.axis_weights import ranges_by_weights
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.protocol import (
    Estimate,
    EstimateArrays,
    arrays_of_bytes,
    arrays_to_bytes,
    estimate_of_arrays,
    marginal_cells,
)
from dpcube.queries import Workload


def check_estimate(estimate: Estimate, *, seed: int = 0) -> None:
    """Raise AssertionError unless an estimate keeps the rules of the `Estimate` protocol.

    Ranges and counting queries agree; marginals are sums of cells and of each other; an error is NaN or not below
    zero; as many rows are drawn as were asked for, each in the cube; and what `to_arrays` writes answers alike.
    """
    chance = np.random.default_rng(seed)
    ranges = _some_ranges(estimate.shape, chance)
    queries, scale = ranges_by_weights(ranges), 1.0
    values, errors = estimate.answers(ranges)
    scale += float(np.abs(values).max())
    _check(values.shape == (len(ranges),) and np.isfinite(values).all(), "every range has a finite value")
    _close(estimate.values(ranges), values, scale, "`values` and `answers` agree")
    _close(estimate.values(queries), values, scale, "a range and the query with its weights have one value")
    for asked in (ranges, queries):
        _check_errors(estimate.errors(asked), len(ranges))
    _close(errors.noise_variances, estimate.errors(ranges).noise_variances, scale**2, "`errors` and `answers` agree")
    _check_marginals(estimate, scale)
    _check_rows(estimate, chance)
    again = estimate_of_arrays(_through_bytes(estimate.to_arrays()))
    _check(again.name == estimate.name and again.shape == estimate.shape, "what is written has its name and shape")
    for asked in (ranges, queries):
        for found, wanted in zip(again.errors(asked)[:2], estimate.errors(asked)[:2], strict=True):
            _close(found, wanted, scale**2, "what is written states the same errors")
        _close(again.values(asked), estimate.values(asked), scale, "what is written answers alike")


CHECKED_RANGES = 24
MAX_CHECKED_CELLS = 2**20
"""Cells of an estimate that are laid out to be checked."""


def _check_marginals(estimate: Estimate, scale: float) -> None:
    shape, several = estimate.shape, [axis for axis, extent in enumerate(estimate.shape) if extent > 1]
    axes = tuple(several[:2])
    starts = [np.unique(np.array([0, shape[axis] // 3, shape[axis] // 2])) for axis in axes]
    table = estimate.marginal(axes, starts)
    _close(table.reshape(-1), estimate.values(marginal_cells(shape, axes, starts)), scale, "a marginal is of ranges")
    whole = estimate.values(marginal_cells(shape, ()))
    _close(np.asarray(estimate.marginal(())).reshape(-1), whole, scale, "the marginal over no axis is the total")
    _close(table.sum(keepdims=True).reshape(-1), whole, scale, "a marginal adds up to the total")
    for axis in range(len(shape)):
        if shape[axis] <= MAX_CHECKED_CELLS // 2**8:
            found = estimate.marginal((axis,))
            _close(found.sum(keepdims=True).reshape(-1), whole, scale, "a marginal adds up to the total")
    if estimate.is_materialisable and np.prod(shape, dtype=float) <= MAX_CHECKED_CELLS:
        cells = estimate.cells()
        _check(cells.shape == shape, "cells have the shape of the cube")
        unused = tuple(axis for axis in range(len(shape)) if axis not in axes)
        _close(estimate.marginal(axes), cells.sum(axis=unused), scale, "marginals are sums of cells")


def _check_rows(estimate: Estimate, chance: np.random.Generator) -> None:
    total = float(estimate.values(marginal_cells(estimate.shape, ()))[0])
    for rows in (0, 37, None) if 1 < total < MAX_CHECKED_CELLS else (0,):
        drawn = list(estimate.draw(rows, chance, batch=10_000))
        wanted = round(total) if rows is None else rows
        _check(abs(sum(len(places[0]) for places in drawn) - wanted) <= (rows is None), f"{wanted} rows are drawn")
        for places in drawn:
            inside = (((place >= 0) & (place < side)).all() for place, side in zip(places, estimate.shape, strict=True))
            _check(all(inside), "rows lie in the cube")


def _check_errors(errors: ErrorParts, queries: int) -> None:
    for part in (errors.noise_variances, errors.nonuniformity_squares):
        _check(part.shape == (queries,), "there is an error for each query")
        _check(bool((np.isnan(part) | (part >= 0)).all()), "an error is NaN or not below zero")


def _some_ranges(shape: tuple[int, ...], chance: np.random.Generator) -> Workload:
    """Return the whole cube, and ranges on up to three axes."""
    ends = np.sort(chance.integers(0, shape, (CHECKED_RANGES, 2, len(shape))), axis=1)
    whole = np.array([np.zeros(len(shape), np.int64), np.array(shape) - 1])
    asked = np.argsort(chance.random((CHECKED_RANGES, len(shape))), axis=1) < chance.integers(0, 4, (CHECKED_RANGES, 1))
    lower, upper = np.moveaxis(np.where(asked[:, None], ends, whole), 1, 0)
    return Workload(shape, lower, upper + 1)


def _through_bytes(written: EstimateArrays) -> EstimateArrays:
    facts, arrays = arrays_of_bytes(arrays_to_bytes({"kind": written.kind, "facts": written.facts}, written.arrays))
    return EstimateArrays(facts["kind"], facts["facts"], arrays)


def _close(found: NDArray[np.float64], wanted: NDArray[np.float64], scale: float, rule: str) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7 * scale, err_msg=rule)


def _check(holds: object, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)
