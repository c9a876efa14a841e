"""The estimators: functions of a transcript that give an estimate of every cell. All are closed forms per box.

Given a box with n cells, phase-I cells y_i (noise variance v1) and a phase-II count y (variance v2), each estimate is
x_i = t/n + lambda (y_i - mean y_i): `uniform` has t = y and lambda = 0; least squares has lambda = 1 and moves the
cells' sum S towards y by t = S + n kappa (y - S), kappa = 1/(n + 1) for the paper's unweighted form and
v1/(v2 + n v1) when each count is weighted by its precision (paper's H+, spec 4.6 and 4.9).
"""

from collections.abc import Callable

import numpy as np

from dpcube.arrays import Floats
from dpcube.domain.attribute import listing
from dpcube.errors import QueryError
from dpcube.estimate.boxes import BoxEstimate, BoxPart
from dpcube.estimate.errors import WithinBoxes, deviations
from dpcube.estimate.posterior import PosteriorEstimate, infer
from dpcube.estimate.protocol import Estimate
from dpcube.estimate.tree_totals import consistent_totals
from dpcube.geometry import box_sums
from dpcube.transcript import BoxCounts, CellCounts, Transcript


def cells(transcript: Transcript) -> Estimate:
    """Return the noisy cells themselves: unbiased, every cell with its own noise."""
    measured = _cells_of(transcript, "cells")
    return BoxEstimate(
        "cells",
        transcript.shape,
        detail=measured.counts.astype(np.float64),
        cell_variance=transcript.cell_variance,
        alpha=float(measured.units * transcript.epsilon_per_unit),
    )


def uniform(transcript: Transcript) -> Estimate:
    """Spread each box's noisy count evenly over its cells; the noise variance is exact given the boxes."""
    boxes = _boxes_of(transcript, "uniform")
    totals, variance = _leaf_counts(boxes, transcript)
    units = np.unique(boxes.units).tolist()
    alike = len(units) == 1 and np.array_equal(np.sort(boxes.node), boxes.tree.leaves)
    alpha = float(units[0] * transcript.epsilon_per_unit) if alike else None
    return _evenly_spread("uniform", transcript, totals, variance, alpha=alpha)


def consistent(transcript: Transcript) -> Estimate:
    """Make the tree's counts add up with none below zero, then spread evenly.

    The stated noise variance is that of `uniform`: approximate here, because what is cut at zero depends on the noise.
    Where inner boxes were measured too the noise is another, and not known: NaN.
    """
    boxes = _boxes_of(transcript, "consistent")  # note P8
    _, leaf_variance = _leaf_counts(boxes, transcript)
    if not np.isin(boxes.node, boxes.tree.leaves).all():
        leaf_variance = np.full_like(leaf_variance, np.nan)
    totals = consistent_totals(boxes.tree, *boxes.by_node(transcript.epsilon_per_unit))[boxes.tree.leaves]
    return _evenly_spread("consistent", transcript, totals, leaf_variance)


def posterior(transcript: Transcript) -> Estimate:
    """Return the posterior of the tree's counts; for the trees of binary cuts that strategies without cells measure."""
    boxes = _boxes_of(transcript, "posterior")
    measured, variance = boxes.by_node(transcript.epsilon_per_unit)
    return PosteriorEstimate("posterior", infer(boxes.tree, measured, variance), measured, variance)


def least_squares(transcript: Transcript) -> Estimate:
    """Reconcile cells and boxes by the paper's unweighted least squares (H+)."""
    # note P7; note P11: the stated variance takes the boxes as given
    return _reconciled("least_squares", transcript, lambda n, _v1, _v2: 1 / (n + 1))


def weighted_least_squares(transcript: Transcript) -> Estimate:
    """Reconcile cells and boxes by least squares, each count weighted by its precision."""
    return _reconciled("weighted_least_squares", transcript, lambda n, v1, v2: v1 / (v2 + n * v1))


def _reconciled(name: str, transcript: Transcript, gain: Callable[[Floats, float, Floats], Floats]) -> Estimate:
    """Return x_i = y_i + kappa (y - S) as total and detail of each box.

    The noise of a query with s cells in a box is s kappa N2 + (1 - s kappa) sum_in N1 - s kappa sum_out N1, whose
    variance is v1 s + s^2 (kappa^2 (v2 + n v1) - 2 kappa v1).
    """
    noisy = _cells_of(transcript, name).counts
    boxes = _boxes_of(transcript, name)
    totals, v2 = _leaf_counts(boxes, transcript)
    leaves = boxes.tree.leaf_boxes
    n, v1 = leaves.sizes.astype(np.float64), transcript.cell_variance
    kappa = gain(n, v1, v2)
    sums = box_sums(noisy, leaves).astype(np.float64)
    part = BoxPart(boxes.tree, sums + n * kappa * (totals - sums), kappa**2 * (v2 + n * v1) - 2 * kappa * v1)
    return BoxEstimate(
        name, transcript.shape, part, detail=deviations(noisy.astype(np.float64), leaves), cell_variance=v1
    )


def _evenly_spread(
    name: str, transcript: Transcript, totals: Floats, variance: Floats, *, alpha: float | None = None
) -> Estimate:
    boxes = _boxes_of(transcript, name)
    part = BoxPart(boxes.tree, totals, variance / boxes.tree.leaf_boxes.sizes.astype(np.float64) ** 2)
    within = None
    if transcript.cells is not None:
        within = WithinBoxes(transcript.cells.counts, boxes.tree, transcript.cell_variance)
    return BoxEstimate(name, transcript.shape, part, within=within, alpha=alpha)


def _leaf_counts(boxes: BoxCounts, transcript: Transcript) -> tuple[Floats, Floats]:
    measured, variance = boxes.by_node(transcript.epsilon_per_unit)
    leaves = boxes.tree.leaves
    if np.isinf(variance[leaves]).any():
        msg = "this release did not count every leaf of its tree, so its boxes have no counts to spread"
        raise QueryError(msg)
    return measured[leaves], variance[leaves]


def _cells_of(transcript: Transcript, name: str) -> CellCounts:
    if transcript.cells is None:
        raise _unavailable(name, transcript)
    return transcript.cells


def _boxes_of(transcript: Transcript, name: str) -> BoxCounts:
    if transcript.boxes is None:
        raise _unavailable(name, transcript)
    return transcript.boxes


def _unavailable(name: str, transcript: Transcript) -> QueryError:
    return QueryError(
        f"the estimate '{name}' needs counts this release does not have; it has {listing(available(transcript))}"
    )


ESTIMATORS: dict[str, Callable[[Transcript], Estimate]] = {
    "posterior": posterior,
    "consistent": consistent,
    "uniform": uniform,
    "least_squares": least_squares,
    "weighted_least_squares": weighted_least_squares,
    "cells": cells,
}


def _has_binary_cuts(transcript: Transcript) -> bool:
    """Whether every box of the tree is a leaf or has two halves, and every leaf was measured."""
    boxes = transcript.boxes
    if boxes is None:
        return False
    halves = np.bincount(boxes.tree.parent[1:], minlength=len(boxes.tree))
    measured = np.zeros(len(boxes.tree), np.bool_)
    measured[boxes.node] = True
    return bool(np.isin(halves, (0, 2)).all() and measured[boxes.tree.leaves].all())


def available(transcript: Transcript) -> list[str]:
    """Return the names of the estimates a transcript allows, the default first."""
    has_cells, has_boxes = transcript.cells is not None, transcript.boxes is not None
    needs_boxes = {"posterior", "consistent", "uniform", "least_squares", "weighted_least_squares"}
    needs_cells = {"least_squares", "weighted_least_squares", "cells"}
    names = [
        name for name in ESTIMATORS if (has_boxes or name not in needs_boxes) and (has_cells or name not in needs_cells)
    ]
    if "posterior" in names and (has_cells or not _has_binary_cuts(transcript)):
        names.remove("posterior")
    return names


def estimate(transcript: Transcript, name: str = "auto") -> Estimate:
    """Return the named estimate; `"auto"` is the default of the release, the one behind every answer."""
    if name != "auto" and name not in ESTIMATORS:
        msg = f"there is no estimate '{name}'; this release has {listing(available(transcript))}"
        raise QueryError(msg)
    return ESTIMATORS[available(transcript)[0] if name == "auto" else name](transcript)
