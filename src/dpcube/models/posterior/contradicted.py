"""Marginals of a posterior, moved to what its counts say of them where these contradict it.

The posterior draws the two halves of a box together where nothing predicts that they differ. Along an axis on which
many values stand out of their neighbours (stripes, ages at multiples of five) that goes the same way in every box, so
its marginal is too even, and marginals are what the next round predicts by. Least squares of the same counts has no
such bias: its marginal adds up the noise of many boxes, but not their errors.
"""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.posterior.splits import add_marginals
from dpcube.trees.tree import BoxTree

RARELY_APART = 1e-3
"""Departures that noise makes with a smaller chance move a marginal."""


def moved_marginals(
    tree: BoxTree, marginals: Floats, linear: Floats, variance: Floats, prefix: Floats, start: Ints
) -> Floats:
    """Return the marginals of all axes, laid out as `prefix`, each moved if the counts of the leaves contradict it.

    `linear` is the least-squares total of every node, `variance` the noise variance of its count: shape (nodes,). The
    bias has the variance by which the two marginals are apart more than noise explains, and each value is moved by its
    part of that and of its noise together.
    """
    from scipy.special import chdtri  # an estimate that was stored needs none

    leaves, moved = tree.leaves, marginals.copy()
    plain = add_marginals(tree.lower, tree.upper, leaves, linear, prefix, start)
    for axis, (base, extent) in enumerate(zip(start.tolist(), tree.shape, strict=True)):
        of_axis = slice(base, base + extent)
        noise = noise_along(tree.lower[leaves, axis], tree.upper[leaves, axis], variance[leaves], extent)
        apart = plain[of_axis] - marginals[of_axis]
        apart -= apart.mean()
        if np.sum(apart**2 / noise) > chdtri(extent, RARELY_APART):
            bias = max(float(np.mean(apart**2) - np.mean(noise)), 0.0)
            moved[of_axis] = np.maximum(marginals[of_axis] + bias / (bias + noise) * apart, 0.0)
    return moved


def noise_along(lower: Ints, upper: Ints, variance: Floats, extent: int) -> Floats:
    """Return the variance of each value's sum, where the count of each leaf is spread evenly from lower to upper."""
    each = variance / (upper - lower) ** 2
    steps = np.bincount(lower, each, minlength=extent + 1) - np.bincount(upper, each, minlength=extent + 1)
    found: Floats = np.maximum(np.cumsum(steps)[:-1], 1e-9)
    return found
