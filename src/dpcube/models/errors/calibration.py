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

import numpy as np

from dpcube.core.arrays import Floats

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
    apart: Floats, *, linear_moves: Floats, moves: Floats, stated: Floats, measurement_only: Floats
) -> float:
    """Return c such that calibrated variance = stated + c x measurement-only variance, c >= 0.

    Arrays of shape (ranges,) over the pooled ranges: `apart` is what a linear unbiased estimate answers less what the
    estimate answers; `stated` and `measurement_only` are the variances that the estimate states, and that the measured
    counts would leave by themselves, without a prior. `linear_moves` and `moves`, shape (ranges, probes), are how far
    made-up noise of the known law moves the linear estimate and the estimate.
    """
    squares = linear_moves**2
    linear_variance = squares.mean(axis=1)
    covariance = (moves * linear_moves).mean(axis=1)
    told = linear_variance > 1e-9
    if not told.any():
        return 0.0
    excess = apart**2 - linear_variance + 2 * covariance - stated
    weight = 1 / linear_variance[told]
    stderr = float(np.std(weight @ squares[told], ddof=1))
    pooled, by = max(float(excess[told] @ weight) + stderr, 0.0), float(measurement_only[told] @ weight)
    return pooled / by if by > 1e-9 * pooled else 0.0  # what hardly occurs can explain nothing
