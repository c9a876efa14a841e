"""The variance of every split of a posterior, with what its errors exceed it by: for estimates as they were released.

What is estimated today judges each question by itself (`errors/biases.py`).
"""

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.errors.axis_weights import everything
from dpcube.models.errors.calibration import measured_calibration
from dpcube.models.errors.pooled_ranges import evenly_placed_ranges
from dpcube.models.errors.walks import node_sums, split_sums
from dpcube.models.posterior.inference import Posterior
from dpcube.models.posterior.probes import Probes


def calibrated_splits(posterior: Posterior, probes: Probes) -> Floats:
    """Return the variance of the split below each node, raised by what the posterior's errors exceed it by.

    The result is a function of the release alone.
    """
    tree = posterior.tree
    ranges = everything(tree.shape, posterior.prefix, posterior.start).inside(evenly_placed_ranges(tree.shape))

    def stated(splits: Floats, of_total: float) -> Floats:
        return split_sums(tree, posterior.totals, splits, posterior.uneven, ranges, of_total=of_total)[:, 1]

    sums = node_sums(tree, np.column_stack([probes.apart, probes.linear_moves, probes.posterior_moves]), ranges)
    linear_moves, moves = np.split(sums[:, 1:], 2, axis=1)
    calibration = measured_calibration(
        sums[:, 0],
        linear_moves=linear_moves,
        moves=moves,
        stated=stated(posterior.splits, float(posterior.variances[0])),
        measurement_only=stated(posterior.measurement_only_splits, 0.0),
    )
    return posterior.splits + calibration * posterior.measurement_only_splits
