"""How much more a posterior errs than it says, measured on the release itself.

A posterior takes its prior for true and its splits for independent. Where the table is otherwise, its errors exceed
the variances it states, most where many splits are wrong the same way. What the measured counts say without any prior
shows by how much. For a range, let p be its posterior answer and u a linear unbiased one. Then

    E (p - truth)^2  =  E (p - u)^2 - var(u) + 2 cov(p, u),

and the covariance is seen by probing: add noise of the known law to the counts and see how p and u move (Stein's
identity; noise is taken for normal). One range tells next to nothing, so the excess over the stated variance is pooled
over many ranges, each weighted by 1/var(u), and taken one standard error high, since intervals must hold when it is
unlucky. What is added to a stated variance is in proportion to the variance that the measured counts alone would leave
it: an excess is most often of counts that were taken for surely nothing.
"""

from collections.abc import Callable

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.compiled import compiled
from dpcube.estimate.consistent import pool_upwards
from dpcube.estimate.fixed_normals import fixed_normals
from dpcube.geometry.tree import BoxTree

PROBES, FEWEST_PROBES = 8, 2
PROBED_COUNTS = 2**20
"""Probes times counts stay about below this: a larger tree tells more with each probe."""
STEP = 0.5
"""Noise of a probe in units of the noise that is there: small beside what it probes, large beside rounding."""


def measured_calibration(
    counts: Floats,
    deviation: Floats,
    *,
    estimated: Callable[[Floats], Floats],
    linear: Callable[[Floats], Floats],
    stated: Floats,
    raw: Floats,
) -> float:
    """Return the excess as a part of the raw variance.

    Given are measured counts and their noise, two answers of the pooled ranges for any counts, and the variances of
    these ranges that the posterior states and that the counts alone would leave.
    """
    answered = estimated(counts)
    apart = answered - linear(counts)
    moved_squares, covariance = [], np.zeros(len(answered))
    probes = max(FEWEST_PROBES, min(PROBES, PROBED_COUNTS // len(counts)))
    for number in range(probes):
        noise = deviation * fixed_normals(len(counts), number)
        moved = linear(noise)
        covariance += (estimated(counts + STEP * noise) - answered) / STEP * moved / probes
        moved_squares.append(moved**2)
    squares = np.array(moved_squares)
    linear_variance = squares.mean(axis=0)
    told = linear_variance > 1e-9
    if not told.any():
        return 0.0
    excess = apart**2 - linear_variance + 2 * covariance - stated
    weight = 1 / linear_variance[told]
    spread = float(np.std((squares[:, told] * weight).sum(axis=1), ddof=1))
    whole, by = max(float(excess[told] @ weight) + spread, 0.0), float(raw[told] @ weight)
    return whole / by if by > 1e-9 * whole else 0.0  # what hardly occurs can explain nothing


def linear_totals(tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the least-squares total of every node of a binary tree: unbiased, linear, and below zero where it is."""
    pooled, spread = pool_upwards(tree.parent, tree.end, measured, variance)
    return _divide_linearly(tree.end, pooled, spread)


@compiled
def _divide_linearly(end: Ints, pooled: Floats, spread: Floats) -> Floats:
    total = np.zeros(len(end))
    total[0] = pooled[0]
    for node in range(len(end)):
        left = node + 1
        if end[node] > left:
            right = end[left]
            missing = total[node] - pooled[left] - pooled[right]
            total[left] = pooled[left] + missing * spread[left] / (spread[left] + spread[right])
            total[right] = total[node] - total[left]
    return total
