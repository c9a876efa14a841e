"""Differentially private padding of block sizes: non-negative numbers of dummy records, for an epsilon and a delta.

A block of n records is shown as one of n + eta, eta = max(0, k + G), with G from the sampler of `noise.py` at epsilon/D
and a shift k so large that k + G is hardly ever negative. No record is ever removed, and eta has no upper bound.

Proof that shown sizes cost (epsilon, delta). D is the sensitivity: how much one unit can change all sizes together, its
rows times the blocks that each is copied to. Let e = epsilon/D and a = exp(-e), so P(G = g) = (1-a)/(1+a) a^|g|.

1. *One record more in one block*, n against n + 1. A size s shown with eta above 0 on both sides has probabilities
   that differ by the factor a at most. Two sizes remain. s = n cannot be shown for n + 1 records; for n its
   probability is P(eta = 0) = P(G <= -k) = a^k/(1+a). s = n + 1 has P(G = 1-k) = (1-a)/(1+a) a^(k-1) for n, and
   a^k/(1+a) for n + 1. The first is (1/a - 1) <= 1/a times the second; the second exceeds 1/a times the first by no
   more than itself. So for every set S of sizes, both ways, P(S) <= exp(e) P'(S) + d with d = a^k/(1+a), k >= 1.
2. *A unit more* is up to D such steps, one after the other. Each multiplies by exp(e) and adds d: together
   exp(epsilon) and d (1 + exp(e) + ... + exp((D-1)e)) = d (exp(epsilon) - 1)/(exp(e) - 1).
3. *The shift* is the least k >= 1 with a^k/(1+a) (a^-D - 1)/(1/a - 1) <= delta, which is
   a^(k+1) (1 - a^D) <= delta (1 - a^2) a^D. For D = 1: a block gets no dummy with probability delta at most.
4. *No float*: both sides are enclosed by integers (`exp_bounds`) until they are separated. They are never equal: e is
   rational and not 0, so a is transcendental, and the two sides are polynomials in it with rational coefficients, which
   are the same only for D = 2, k = 1 and delta = 1.

Pure epsilon is impossible: with eta >= 0 a block of n may be shown as n, and one of n + 1 may not.
"""

from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.epsilon import check_share
from dpcube.core.errors import InputError
from dpcube.core.noise import ExactNoise, exp_bounds

MAX_SENSITIVITY = 2**20
MAX_SHIFT = 2**31


def padding_shift(epsilon: Fraction, delta: Fraction, *, sensitivity: int = 1) -> int:
    """Return the least shift at which padded sizes cost (epsilon, delta).

    >>> padding_shift(Fraction(1, 10), Fraction(1, 10**6))
    132
    """
    if not isinstance(sensitivity, int) or not 1 <= sensitivity <= MAX_SENSITIVITY:
        msg = f"the sensitivity of sizes must be a whole number from 1 to {MAX_SENSITIVITY}, got {sensitivity!r}"
        raise InputError(msg)
    if not isinstance(delta, Fraction) or not 0 < delta < 1:
        msg = f"padding takes a delta between 0 and 1 as a Fraction, got {delta!r:.50}; pass it through parse_delta"
        raise InputError(msg)
    share = epsilon / sensitivity
    check_share(share)
    least, enough = 0, 1
    while not _suffices(enough, share, delta, sensitivity):
        least, enough = enough, 2 * enough
        if enough > MAX_SHIFT:
            msg = f"epsilon {epsilon} needs over {MAX_SHIFT:,} dummies a block; use a larger epsilon"
            raise InputError(msg)
    while enough - least > 1:
        middle = (least + enough) // 2
        least, enough = (least, middle) if _suffices(middle, share, delta, sensitivity) else (middle, enough)
    return enough


def draw_padding(epsilon: Fraction, delta: Fraction, *, sensitivity: int, blocks: int) -> Ints:
    """Return the dummies of each block, independent of each other; the caller has charged (epsilon, delta)."""
    shift = padding_shift(epsilon, delta, sensitivity=sensitivity)
    return np.maximum(0, shift + ExactNoise().draw(epsilon / sensitivity, blocks))


def _suffices(shift: int, share: Fraction, delta: Fraction, sensitivity: int) -> bool:
    """Return whether a^(k+1) (1 - a^D) <= delta (1 - a^2) a^D, by integers around each power of a."""
    precision = 64
    while True:
        one = 1 << precision
        tail, unit, pair = (exp_bounds(share * n, precision) for n in (shift + 1, sensitivity, 2))
        left = [tail[0] * (one - unit[1]), tail[1] * (one - unit[0])]
        right = [delta * (one - pair[1]) * unit[0], delta * (one - pair[0]) * unit[1]]
        if left[1] <= right[0]:
            return True
        if left[0] > right[1]:
            return False
        precision *= 2
