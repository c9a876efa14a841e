"""The estimators: functions of a transcript that give an estimate of every cell.

Each declares what it needs of a transcript, whether it suits it, and which errors it can state for it; `ESTIMATORS` at
the end is the list of them. Which estimates a release has, which of them is its default, and why another cannot be had
all follow from the declarations: a new estimator is a function and one entry there.

Those for boxes with phase-I cells are closed forms per box.
Given a box with n cells, phase-I cells y_i (noise variance v1) and a phase-II count y (variance v2), each estimate is
x_i = t/n + lambda (y_i - mean y_i): `uniform` has t = y and lambda = 0; least squares has lambda = 1 and moves the
cells' sum S towards y by t = S + n kappa (y - S), kappa = 1/(n + 1) for the paper's unweighted form and
v1/(v2 + n v1) when each count is weighted by its precision (paper's H+, spec 4.6 and 4.9).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.boxes import box_sums
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import QueryError
from dpcube.measurements import BoxCounts, Transcript
from dpcube.models.boxes import BoxEstimate, BoxPart
from dpcube.models.cuboids.estimate import CuboidsEstimate
from dpcube.models.errors import NonUniformity, deviations_from_means
from dpcube.models.fine_grid import GridEstimate
from dpcube.models.least_squares_tree import LeastSquaresTree, consistent_totals, least_squares_totals
from dpcube.models.marginals import (
    LEAST_AXES,
    MAX_FITTED_CELLS,
    BalancedEstimate,
    Components,
    noisy_cells,
    noisy_tables,
)
from dpcube.models.marginals.components import axes_of_several
from dpcube.models.posterior import (
    PosteriorEstimate,
    Whole,
    counted_apart,
    infer,
    whole_count,
    with_unseen_departures,
)
from dpcube.models.posterior.inference import UnseenInside
from dpcube.models.protocol import Estimate
from dpcube.models.requirements import (
    NEEDS_BOXES,
    NEEDS_CELLS,
    NEEDS_FINE,
    NEEDS_LEAVES,
    NEEDS_MARGINALS,
    NEEDS_OF_POSTERIOR,
    NEEDS_ONES,
    NEEDS_SMALL_MODEL,
    Need,
    Part,
    boxes_of,
    counted_slabs,
    counts_leaves_only,
    counts_of_cells,
    has_posterior,
    leaves_nothing_unused,
    leaves_what_chose_boxes,
    states_everything,
    states_of_consistent,
    states_of_tree,
    states_of_uniform,
    strategy_boxes,
)
from dpcube.trees.straight_cuts import straight_cuts


@dataclass(frozen=True, slots=True)
class Estimator:
    """A way to estimate every cell, and what it declares.

    `needs` are what it cannot do without. `suits` says of a transcript that meets them whether it is among the
    estimates of the release: one that leaves counts unused that others use is not, unless asked for by name. `states`
    says which parts of an error it knows for every question; the others are NaN for some.
    """

    name: str
    needs: tuple[Need, ...]
    states: Callable[[Transcript], frozenset[Part]]
    make: Callable[[Transcript], Estimate]
    suits: Callable[[Transcript], bool] = lambda _: True

    def lacking(self, transcript: Transcript) -> str | None:
        """Return the first thing that it needs and a transcript has not, in words; None if it has all."""
        return next((need.lacking for need in self.needs if not need.met(transcript)), None)


def cells(transcript: Transcript) -> Estimate:
    """Return the noisy cells themselves: unbiased, every cell with its own noise.

    With a count of the whole besides, or of each period of releases put together, it is least squares of both.
    """
    measured, slabs = counts_of_cells(transcript), counted_slabs(transcript)
    if slabs is not None:
        return _reconciled("cells", transcript, _weighted_gain, slabs)
    return BoxEstimate(
        "cells",
        transcript.shape,
        detail=measured.counts.astype(np.float64),
        cell_variance=transcript.cell_variance,
        alpha=float(measured.units * transcript.epsilon_per_unit),
    )


def uniform(transcript: Transcript) -> Estimate:
    """Spread each box's noisy count evenly over its cells; the noise variance is exact given the boxes.

    A count of the whole moves the boxes to itself, and makes the noise smaller than is stated, by up to that of sums.
    """
    boxes = strategy_boxes(transcript)
    totals, variance = _leaf_counts(boxes, transcript)
    units = np.unique(boxes.units).tolist()
    alike = len(units) == 1 and np.array_equal(np.sort(boxes.node), boxes.tree.leaves)
    alpha = float(units[0] * transcript.epsilon_per_unit) if alike and not transcript.totals else None
    return _evenly_spread("uniform", transcript, _to_whole(transcript, totals, variance), variance, alpha=alpha)


def consistent(transcript: Transcript) -> Estimate:
    """Make the tree's counts add up with none below zero, then spread evenly.

    The stated noise variance is that of `uniform`: approximate here, because what is cut at zero depends on the noise.
    Where inner boxes were measured too, the law of the noise is unknown: NaN.
    """
    boxes = boxes_of(transcript)  # note P8
    _, leaf_variance = _leaf_counts(boxes, transcript)
    if not counts_leaves_only(transcript):
        leaf_variance = np.full_like(leaf_variance, np.nan)
    totals = consistent_totals(boxes.tree, *boxes.by_node(transcript.epsilon_per_unit))[boxes.tree.leaves]
    return _evenly_spread("consistent", transcript, totals, leaf_variance)


def posterior(transcript: Transcript) -> Estimate:
    """Return the posterior of the tree's counts; boxes that were parted into many are cut in two by boxes in between.

    Only a tree of halves, as `adaptive` makes it, was ended where little is left to learn.
    """
    return _posterior("posterior", transcript, whole=None)


def balanced(transcript: Transcript) -> Estimate:
    """Return the posterior with an unbiased total, moved to noisy marginals where these are more precise.

    The tables are over one and two attributes, measured apart from the tree.
    """
    periods = transcript.shape[0] if transcript.layout == "periods" else 1
    whole = whole_count(boxes_of(transcript), transcript.epsilon_per_unit, periods=periods)
    tables = _components(transcript)
    if whole is not None and tables is not None:
        if () not in tables.of_tree:
            whole = whole.pooled_with(Whole(float(tables.values[()]), 1 / tables.precisions[()]))
        tables = tables.with_total(whole.total, whole.variance)
    tree = _posterior("balanced", transcript, whole=whole)
    if tables is None or math.prod(transcript.shape) > MAX_FITTED_CELLS:
        return tree
    made = BalancedEstimate("balanced", tree, tables)
    return made if made.moves() else tree


def _components(transcript: Transcript) -> Components | None:
    """Return what tables measured apart and the sums of all cells say; None if there are neither."""
    tables = noisy_tables(transcript)
    cells = noisy_cells(boxes_of(transcript), transcript.epsilon_per_unit)
    of_tables = Components.from_tables(transcript.shape, tables) if tables else None
    if cells is None or len(axes_of_several(transcript.shape)) < LEAST_AXES:
        return of_tables
    of_cells = Components.of_cells(*cells)
    return of_cells if of_tables is None else of_tables.beside(of_cells)


def _posterior(name: str, transcript: Transcript, *, whole: Whole | None) -> PosteriorEstimate:
    boxes = boxes_of(transcript)
    cuts = straight_cuts(boxes.tree)
    assert cuts is not None  # as declared
    halved = cuts.tree is boxes.tree and boxes.tree.is_halved
    if cuts.tree is not boxes.tree:
        boxes = BoxCounts(cuts.tree, cuts.moved[boxes.node], boxes.counts, boxes.units)
    measured, variance = boxes.by_node(transcript.epsilon_per_unit)
    found = infer(boxes.tree, measured, variance, whole=whole, even=None if whole else False)
    if found.even:
        found = with_unseen_departures(found, measured, variance)
    kept = found if halved else UnseenInside.from_posterior(found)
    return PosteriorEstimate(
        name, kept, measured, variance, whole, doubting=name == "balanced", periods=transcript.layout == "periods"
    )


def tree_least_squares(transcript: Transcript) -> Estimate:
    """Make the tree's counts add up by least squares, each weighted by its precision: linear, unbiased, then spread."""
    boxes = boxes_of(transcript)
    found = least_squares_totals(boxes.tree, *boxes.by_node(transcript.epsilon_per_unit))
    posterior = (lambda: balanced(transcript)) if has_posterior(transcript) else None
    return LeastSquaresTree("tree_least_squares", boxes.tree, *found, posterior=posterior)


def grid(transcript: Transcript) -> Estimate:
    """Return totals of the boxes of a fine grid that add up, none below zero, spread evenly inside its leaves."""
    boxes = boxes_of(transcript)
    return GridEstimate.from_boxes("grid", boxes, *boxes.by_node(transcript.epsilon_per_unit))


def cuboids(transcript: Transcript) -> Estimate:
    """Return the most even cube that agrees with the noisy tables of a wide release, as far as noise allows."""
    return CuboidsEstimate.from_transcript("cuboids", transcript)


def least_squares(transcript: Transcript) -> Estimate:
    """Reconcile cells and boxes by the paper's unweighted least squares (H+)."""
    # note P7; note P11: the stated variance takes the boxes as given
    boxes = strategy_boxes(transcript)
    return _reconciled("least_squares", transcript, lambda n, _v1, _v2: 1 / (n + 1), boxes)


def weighted_least_squares(transcript: Transcript) -> Estimate:
    """Reconcile cells and boxes by least squares, each count weighted by its precision."""
    return _reconciled("weighted_least_squares", transcript, _weighted_gain, strategy_boxes(transcript))


def _weighted_gain(n: Floats, v1: float, v2: Floats) -> Floats:
    return v1 / (v2 + n * v1)


def _reconciled(
    name: str, transcript: Transcript, gain: Callable[[Floats, float, Floats], Floats], boxes: BoxCounts
) -> Estimate:
    """Return x_i = y_i + kappa (y - S) as total and detail of each box.

    The noise of a query with s cells in a box is s kappa N2 + (1 - s kappa) sum_in N1 - s kappa sum_out N1, whose
    variance is v1 s + s^2 (kappa^2 (v2 + n v1) - 2 kappa v1).
    """
    noisy = counts_of_cells(transcript).counts
    totals, v2 = _leaf_counts(boxes, transcript)
    leaves = boxes.tree.leaf_boxes
    n, v1 = leaves.sizes.astype(np.float64), transcript.cell_variance
    kappa = gain(n, v1, v2)
    sums = box_sums(noisy, leaves).astype(np.float64)
    totals, square = sums + n * kappa * (totals - sums), kappa**2 * (v2 + n * v1) - 2 * kappa * v1
    if boxes is transcript.boxes:
        totals = _to_whole(transcript, totals, n * v1 + n**2 * square)
    part = BoxPart(boxes.tree, totals, square)
    return BoxEstimate(
        name, transcript.shape, part, detail=deviations_from_means(noisy.astype(np.float64), leaves), cell_variance=v1
    )


def _evenly_spread(
    name: str, transcript: Transcript, totals: Floats, variance: Floats, *, alpha: float | None = None
) -> Estimate:
    boxes = strategy_boxes(transcript)
    part = BoxPart(boxes.tree, totals, variance / boxes.tree.leaf_boxes.sizes.astype(np.float64) ** 2)
    within = None
    if transcript.cells is not None:
        within = NonUniformity(transcript.cells.counts, boxes.tree, transcript.cell_variance)
    return BoxEstimate(name, transcript.shape, part, within=within, alpha=alpha)


def _leaf_counts(boxes: BoxCounts, transcript: Transcript) -> tuple[Floats, Floats]:
    measured, variance = boxes.by_node(transcript.epsilon_per_unit)
    return measured[boxes.tree.leaves], variance[boxes.tree.leaves]


def _to_whole(transcript: Transcript, totals: Floats, variances: Floats) -> Floats:
    """Return totals of boxes with independent errors, moved by least squares to a count of the whole, if there is one.

    Each bears its part of the variance of their sum. The error of no question grows by it.
    """
    whole = counted_apart(transcript)
    if whole is None:
        return totals
    return np.asarray(totals + variances / (variances.sum() + whole.variance) * (whole.total - totals.sum()))


ESTIMATORS = (
    Estimator("grid", (NEEDS_BOXES, NEEDS_LEAVES, NEEDS_FINE), states_everything, grid, suits=leaves_nothing_unused),
    Estimator(
        "balanced",
        NEEDS_OF_POSTERIOR,
        states_everything,
        balanced,
        suits=leaves_nothing_unused,
    ),
    Estimator(
        "posterior",
        NEEDS_OF_POSTERIOR,
        states_everything,
        posterior,
        suits=leaves_nothing_unused,
    ),
    Estimator(
        "consistent",
        (NEEDS_BOXES, NEEDS_LEAVES),
        states_of_consistent,
        consistent,
        suits=leaves_what_chose_boxes,
    ),
    Estimator("uniform", (NEEDS_BOXES, NEEDS_LEAVES), states_of_uniform, uniform, suits=leaves_what_chose_boxes),
    Estimator(
        "tree_least_squares",
        (NEEDS_BOXES, NEEDS_LEAVES),
        states_of_tree,
        tree_least_squares,
        # it would leave cells unused, and is `uniform` where boxes inside one another were not counted
        suits=lambda transcript: transcript.cells is None and not counts_leaves_only(transcript),
    ),
    Estimator(
        "weighted_least_squares", (NEEDS_CELLS, NEEDS_BOXES, NEEDS_LEAVES), states_everything, weighted_least_squares
    ),
    Estimator("least_squares", (NEEDS_CELLS, NEEDS_BOXES, NEEDS_LEAVES), states_everything, least_squares),
    Estimator("cells", (NEEDS_CELLS,), states_everything, cells, suits=lambda transcript: transcript.groups is None),
    Estimator("cuboids", (NEEDS_MARGINALS, NEEDS_ONES, NEEDS_SMALL_MODEL), states_everything, cuboids),
)
"""Every estimator. Of those that state as much of their errors for a release, the first is its default."""


def available(transcript: Transcript) -> list[str]:
    """Return the names of the estimates a transcript allows, the default first: one that states most of its errors."""
    found = [one for one in ESTIMATORS if one.lacking(transcript) is None and one.suits(transcript)]
    default = max(found, key=lambda one: len(one.states(transcript)), default=None)
    return [one.name for one in sorted(found, key=lambda one: one is not default)]


def estimate(transcript: Transcript, name: str = "auto", *, unordered: tuple[int, ...] = ()) -> Estimate:
    """Return the named estimate; `"auto"` is the default of the release, the one behind every answer.

    `unordered` are the axes of attributes whose values have no order: nothing says that neighbours there are alike.
    """
    if name == "auto":
        name = next(iter(available(transcript)), ESTIMATORS[0].name)  # of which what is lacking is said below
    chosen = next((one for one in ESTIMATORS if one.name == name), None)
    if chosen is None:
        msg = f"there is no estimate '{name}'; this release has {_listed(transcript)}"
        raise QueryError(msg)
    lacking = chosen.lacking(transcript)
    if lacking is not None:
        msg = f"the estimate '{name}' cannot be had: this release {lacking}; it has {_listed(transcript)}"
        raise QueryError(msg)
    return chosen.make(transcript).without_order(unordered)


def _listed(transcript: Transcript) -> str:
    return listing(available(transcript)) or "none"
