"""Exact two-sided geometric (discrete Laplace) noise for a rational epsilon, from random words.

The law is P(z) proportional to q^|z| with q = exp(-epsilon).

Proof that the sampler has exactly this law, given independent uniform words:

1. *Digits.* Let G be geometric, P(G = g) = (1-q) q^g, with binary digits g = sum of b_j 2^j over j < J plus 2^J h.
   Then q^g is the product of the (q^(2^j))^b_j and of (q^(2^J))^h: the probability factors, so the digits and h
   are independent; digit j is 1 with probability q^(2^j) / (1 + q^(2^j)), and h is geometric with ratio q^(2^J).
2. *Comparisons.* A uniform number U of [0, 1), read 32 bits at a time, is below p as soon as its first word that
   differs from the binary expansion of p is smaller. So P(1) = p exactly, whatever the number of words compared;
   a tie has probability 2^-32 per word and is resolved with further words, so the comparison ends with probability one.
   Every p here is irrational (e to a non-zero rational power is), so bounds tight enough settle each word of p.
3. *High part.* J is the first with epsilon 2^J >= 23 > 32 ln 2, so the first word of q^(2^J) is 0 and h is 0 unless
   a word is 0. Then h counts the successes before the first failure of comparisons with q^(2^J), as a geometric does.
4. *Difference.* For independent G, G' as above, P(G - G' = z) = sum over g of (1-q)^2 q^(2g + |z|)
   = (1-q)/(1+q) q^|z|, which is the two-sided geometric.
5. *Nothing is truncated.* The slow path works in Python integers. A G outside int64 raises instead of wrapping, with
   probability exp(-2^63 epsilon) < exp(-2^33) at the smallest epsilon allowed; the difference of two others fits.
6. *No float* stands between epsilon and the words compared: expansions are integers certified by interval bounds.
7. *Constant work.* Each value takes 2(J + 1) words, each compared once without branches, whatever the value; only ties
   do more.

Bias and variance: E Z = 0, and Var Z = 2q/(1-q)^2 = 1/(2 sinh^2(epsilon/2)); see `dpcube.noise.law`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.core.compiled import compiled
from dpcube.core.epsilon import check_share
from dpcube.core.errors import CompilerError, InputError
from dpcube.core.randomness import RandomWords, WordSource
from dpcube.core.seal import sealed

Bounds = Callable[[Fraction, int], tuple[int, int]]

_WORD = 32
# Words compared at a time: 128 KiB, which stays in a core's own cache between the cipher and the comparison.
_CHUNK_WORDS = 1 << 15


class Noise(Protocol):
    """A source of the noise that the gate adds to exact counts."""

    @property
    def private(self) -> bool:
        """Whether the noise protects anyone; False for the silent and seeded noise of tests."""

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Return `size` independent integers, P(z) proportional to exp(-epsilon|z|)."""


def drawn_for_units(noise: Noise, units: NDArray[np.int64], epsilon_per_unit: Fraction) -> NDArray[np.int64]:
    """Return noise for counts that are measured with so many units each, independent of each other."""
    drawn = np.empty(len(units), np.int64)
    by_units = np.argsort(units, kind="stable")
    for alike in np.split(by_units, np.flatnonzero(np.diff(units[by_units])) + 1):
        drawn[alike] = noise.draw(int(units[alike[0]]) * epsilon_per_unit, len(alike))
    return drawn


@dataclass(frozen=True, slots=True)
class ExactNoise:
    """The two-sided geometric from fresh cryptographic randomness, without approximation (proof: this module's head).

    >>> ExactNoise().draw(Fraction(1, 10), 3).dtype
    dtype('int64')
    """

    @property
    def private(self) -> bool:
        """True: this noise can be neither predicted nor repeated."""
        return True

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Return `size` independent integers, P(z) proportional to exp(-epsilon|z|)."""
        # A key per draw, dropped at its end: no live key, read later, gives back the noise drawn before.
        return two_sided_geometric(RandomWords(), epsilon, size=size)


@sealed
def check_can_draw() -> None:
    """Draw once and discard it, so that all that drawing needs is imported, compiled and known to work by now."""
    drawn = False
    with suppress(Exception):
        ExactNoise().draw(Fraction(1), 1)
        drawn = True
    if not drawn:
        msg = "noise cannot be drawn here, because memory or the compiler of loops (Numba) failed; run: dpcube compile"
        raise CompilerError(msg)


def two_sided_geometric(source: WordSource, epsilon: Fraction, *, size: int) -> NDArray[np.int64]:
    """Turn the uniform words of `source` into `size` noise values."""
    check_share(epsilon)
    if size < 0:
        message = f"noise cannot be drawn for {size} values; ask for 0 or more"
        raise InputError(message)
    first_words = _first_words(epsilon)
    rows = 2 * first_words.size
    chunk = _CHUNK_WORDS // rows
    buffer = np.empty(rows * min(chunk, size), dtype=np.uint32)
    values = np.empty(size, dtype=np.int64)
    for start in range(0, size, chunk):
        part = values[start : start + chunk]
        words = buffer[: rows * part.size].reshape(rows, part.size)
        source.fill(words)
        if _compare(words, first_words, part):
            _resolve_ties(words, part, source=source, epsilon=epsilon)
    return values


@compiled
def _compare(words: NDArray[np.uint32], first_words: NDArray[np.uint32], values: NDArray[np.int64]) -> int:
    """Set `values` to the difference of two numbers, a digit per row of `words`, and count the words that tie."""
    digits, ties = first_words.size - 1, 0
    values[:] = 0
    for row in range(digits):
        threshold = first_words[row]
        plus, minus = words[row], words[row + digits + 1]
        for i in range(values.size):
            values[i] += (np.int64(plus[i] < threshold) - np.int64(minus[i] < threshold)) << row
            ties += (plus[i] == threshold) + (minus[i] == threshold)
    for row in (digits, 2 * digits + 1):
        for i in range(values.size):
            ties += words[row, i] == 0
    return ties


def _resolve_ties(
    words: NDArray[np.uint32], values: NDArray[np.int64], *, source: WordSource, epsilon: Fraction
) -> None:
    """Add to `values` the digits and high parts that a first word left undecided."""
    first_words = _first_words(epsilon)
    highest = first_words.size - 1
    for row, column in np.argwhere(words == np.tile(first_words, 2)[:, np.newaxis]).tolist():
        position = row % first_words.size
        exponent = epsilon * 2**position
        if position < highest:
            units = int(_below(source, digit_bounds, exponent, tied=1))
        else:
            units = _high_part(source, exponent)
        sign = 1 if row == position else -1
        # In Python integers: NumPy's assignment refuses what int64 cannot hold, where its addition would wrap.
        values[column] = int(values[column]) + sign * units * 2**position


def _high_part(source: WordSource, exponent: Fraction) -> int:
    """Draw a geometric variable of ratio exp(-exponent) whose first comparison has tied on its first word."""
    successes = 0
    while _below(source, exp_bounds, exponent, tied=0 if successes else 1):
        successes += 1
    return successes


def _below(source: WordSource, bounds: Bounds, exponent: Fraction, *, tied: int) -> bool:
    """Whether a uniform number that shares its first `tied` words with a probability is below it."""
    word = np.empty(1, dtype=np.uint32)
    while True:
        source.fill(word)
        tied += 1
        drawn, expected = int(word[0]), expansion(bounds, exponent, words=tied) % (1 << _WORD)
        if drawn != expected:
            return drawn < expected


@lru_cache(maxsize=4096)
def _first_words(epsilon: Fraction) -> NDArray[np.uint32]:
    """Return the first word of the probability of each digit, and of a non-zero high part, which is 0."""
    digits = 0
    while epsilon * 2**digits < 23:
        digits += 1
    first = [expansion(digit_bounds, epsilon * 2**j, words=1) for j in range(digits)]
    first.append(expansion(exp_bounds, epsilon * 2**digits, words=1))
    words = np.array(first, dtype=np.uint32)
    words.flags.writeable = False
    return words


@lru_cache(maxsize=4096)
def expansion(bounds: Bounds, exponent: Fraction, *, words: int) -> int:
    """Return the first `words` words of the binary expansion of the irrational number that `bounds` encloses."""
    precision = _WORD * (words + 1)
    while True:
        low, high = (bound >> (precision - _WORD * words) for bound in bounds(exponent, precision))
        if low == high:
            return low
        precision *= 2


def digit_bounds(exponent: Fraction, precision: int) -> tuple[int, int]:
    """Return integers around 2^precision q/(1+q) for q = exp(-exponent)."""
    low, high = exp_bounds(exponent, precision)
    one = 1 << precision
    # q/(1+q) increases with q; rounding is down below and up above.
    return (low << precision) // (one + low), -((-high << precision) // (one + high))


def exp_bounds(exponent: Fraction, precision: int) -> tuple[int, int]:
    """Return integers around 2^precision exp(-exponent), for a positive exponent.

    The exponent is halved until x <= 1/2, exp(-x) summed as 1 - x + x^2/2 - ..., and the result squared back. A term is
    rounded down from the one before, which it is at most half of, so it is less than 2 below its exact value; the
    omitted alternating tail is below its first term, hence below 2 too. So 2 per term bounds the whole error.
    """
    halvings = max(0, exponent.numerator.bit_length() - exponent.denominator.bit_length() + 2)
    x = exponent / 2**halvings
    one = 1 << precision
    term, total, terms = one, 0, 0
    while term:
        total += -term if terms % 2 else term
        terms += 1
        term = term * x.numerator // (x.denominator * terms)
    low, high = max(0, total - 2 * terms - 2), min(one, total + 2 * terms + 2)
    for _ in range(halvings):
        low, high = low * low >> precision, -(-high * high >> precision)
    return low, high
