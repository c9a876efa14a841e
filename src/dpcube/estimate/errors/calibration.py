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

from dpcube.arrays import Floats
from dpcube.estimate.errors.fixed_normals import fixed_normals

PROBES, FEWEST_PROBES = 8, 2
PROBED_COUNTS = 2**20
"""Probes times counts stay about below this: a larger tree tells more with each probe."""
DERIVATIVE_STEP = 0.5
"""Noise of a probe in units of the noise that is there: small beside what it probes, large beside rounding."""


def number_of_probes(counts: int) -> int:
    """Return how often so many counts are probed: each probe runs the estimate anew.

    >>> number_of_probes(1000), number_of_probes(300_000), number_of_probes(10**8)
    (8, 3, 2)
    """
    return max(FEWEST_PROBES, min(PROBES, PROBED_COUNTS // counts))


def measured_calibration(
    counts: Floats,
    deviation: Floats,
    *,
    answered: Floats,
    estimated: Callable[[Floats], Floats],
    linear: Callable[[Floats], Floats],
    stated: Floats,
    measurement_only: Floats,
) -> float:
    """Return c such that calibrated variance = stated + c x measurement-only variance, c >= 0.

    `counts` and `deviation`, shape (counts,), are the measured counts and the standard deviations of their noise.
    `answered`, shape (ranges,), is what the estimate answers to the pooled ranges. `estimated` and `linear` return, for
    any counts, what the estimate and a linear unbiased one answer; `estimated` is called `number_of_probes` times.
    `stated` and `measurement_only`, shape (ranges,), are the variances of the pooled ranges that the estimate states,
    and that the measured counts would leave by themselves, without a prior.
    """
    apart = answered - linear(counts)
    moved_squares, covariance = [], np.zeros(len(answered))
    probes = number_of_probes(len(counts))
    for number in range(probes):
        noise = deviation * fixed_normals(len(counts), number)
        moved = linear(noise)
        covariance += (estimated(counts + DERIVATIVE_STEP * noise) - answered) / DERIVATIVE_STEP * moved / probes
        moved_squares.append(moved**2)
    squares = np.array(moved_squares)
    linear_variance = squares.mean(axis=0)
    told = linear_variance > 1e-9
    if not told.any():
        return 0.0
    excess = apart**2 - linear_variance + 2 * covariance - stated
    weight = 1 / linear_variance[told]
    stderr = float(np.std((squares[:, told] * weight).sum(axis=1), ddof=1))
    pooled, by = max(float(excess[told] @ weight) + stderr, 0.0), float(measurement_only[told] @ weight)
    return pooled / by if by > 1e-9 * pooled else 0.0  # what hardly occurs can explain nothing
