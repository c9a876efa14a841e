"""The variance of every split of a posterior, with what its errors exceed it by."""

import numpy as np

from dpcube.arrays import Floats
from dpcube.estimate.errors.axis_weights import everything
from dpcube.estimate.errors.calibration import measured_calibration
from dpcube.estimate.errors.pooled_ranges import evenly_placed_ranges
from dpcube.estimate.errors.walks import split_sums
from dpcube.estimate.posterior.inference import Posterior, infer
from dpcube.estimate.tree_totals import linear_totals


def calibrated_splits(posterior: Posterior, measured: Floats, variance: Floats) -> Floats:
    """Return the variance of the split below each node, raised by what the posterior's errors exceed it by.

    This runs inference again, on the counts with some noise added: 8 times, and less often for more than 2^17 counts,
    but 2 times at least (`errors/calibration.py`). It takes so many times as long as making the estimate did. The
    result is a function of the release alone: `PosteriorEstimate` computes it when the first error is asked for, and
    keeps it. Values never need it.

    `measured` and `variance`, shape (nodes,), are the counts that the posterior was inferred from and their noise.
    """
    tree = posterior.tree
    ranges = everything(tree.shape, posterior.prefix, posterior.start).inside(evenly_placed_ranges(tree.shape))

    def sums(totals: Floats, splits: Floats, *, of_total: float = 0.0) -> Floats:
        return split_sums(tree, totals, splits, posterior.uneven, ranges, of_total=of_total)

    def answers(totals: Floats) -> Floats:
        return sums(totals, posterior.splits)[:, 0]

    stated = sums(posterior.totals, posterior.splits, of_total=float(posterior.variances[0]))
    calibration = measured_calibration(
        measured,
        np.sqrt(np.where(np.isfinite(variance), variance, 0.0)),
        answered=stated[:, 0],
        estimated=lambda counts: answers(infer(tree, counts, variance).totals),
        linear=lambda counts: answers(linear_totals(tree, counts, variance)),
        stated=stated[:, 1],
        measurement_only=sums(posterior.totals, posterior.measurement_only_splits)[:, 1],
    )
    return posterior.splits + calibration * posterior.measurement_only_splits
