"""The parts of the error of an answer: noise, the non-uniformity error, and the law of the noise where it is known.

And fixed inputs for probing an estimator: numbers that look like normal noise (for probing, never for privacy), and
ranges over which errors are pooled, since one range says too little of how an estimate errs. They are always the same,
so the errors stated for a release never change.
"""

from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.noise.special import normal_quantile
from dpcube.queries import Workload


class EqualNoises(NamedTuple):
    """Laws of noise that are known exactly: multiples of sums of so many noises P(z) ~ exp(-alpha|z|).

    `numbers` has one entry for each answer, 0 where its error is not known to be such a sum and nothing else.
    """

    alpha: float
    numbers: Ints


class ErrorParts(NamedTuple):
    """The parts of the errors of many answers, each of shape (answers,). What is not known is NaN, never 0.

    `noise_variances` is the variance that the noise of the measured counts leaves in each answer;
    `nonuniformity_squares` the expected square of the error made by spreading the count of a box over its cells, where
    a question takes a part of the box only; `noises` states the law of the error where it is known exactly. `modelled`
    says which answers depend on more than was counted of their attributes together: none unless given.
    """

    noise_variances: Floats
    nonuniformity_squares: Floats
    noises: EqualNoises | None = None
    modelled: Bools | None = None


_STEP = 0x9E3779B97F4A7C15  # an odd number near 2^64 over the golden ratio
_MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def fixed_normals(count: int, number: int) -> Floats:
    """Return `count` values of the probe with this number, as if drawn from the standard normal law.

    Each is a function of its place and the number alone, so the errors stated for a release never change.

    >>> first, again, other = fixed_normals(5, 0), fixed_normals(5, 0), fixed_normals(5, 1)
    >>> bool((first == again).all()), bool((first == other).any())
    (True, False)
    """
    place = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(number << 40)
    bits = place * np.uint64(_STEP)
    for shift, factor in _MIXERS:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return normal_quantile(((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


POOLED_RANGES = 1000


def evenly_placed_ranges(shape: tuple[int, ...]) -> Workload:
    """Return ranges of every size and place, always the same ones: their ends follow a low-discrepancy sequence."""
    ends = 2 * len(shape)
    golden = 2.0
    for _ in range(32):  # the positive root of g^(ends + 1) = g + 1, which generalises the golden ratio
        golden = (1 + golden) ** (1 / (ends + 1))
    steps = np.arange(1, POOLED_RANGES + 1)[:, None] * golden ** -np.arange(1.0, ends + 1)
    places = (steps % 1.0).reshape(POOLED_RANGES, 2, len(shape))
    cells = np.minimum((places * np.array(shape)).astype(np.int64), np.array(shape) - 1)
    return Workload(shape, cells.min(axis=1), cells.max(axis=1) + 1)
