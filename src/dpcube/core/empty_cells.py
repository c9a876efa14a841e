"""The empty cells of a histogram too large to materialise that noise takes to a threshold, drawn exactly.

Of 2^b cells with independent two-sided geometric noise of ratio q = exp(-epsilon), each reaches a threshold t >= 1 with
probability p = q^t / (1 + q) (Cormode, Procopiuc, Srivastava and Tran, ICDT 2012). Proof that drawing them at once has
the law of drawing the noise of every cell:

1. *Number.* The cells are independent, so the number that reach t is binomial, Bin(2^b, p). It is drawn by inversion:
   the least k with U < F(k), for a uniform U and the distribution function F. U is read 32 bits at a time, and F(k) is
   enclosed by integers (`binomial_bounds`), so the comparison is exact however many words it takes. No float is used.
2. *Places.* Given their number, every set of that many cells is as likely as any other: distinct uniform cells.
3. *Values.* Given that Z >= t, Z - t is geometric with ratio q, as P(Z = t + g) is proportional to q^(t + g).

Enclosures. The bounds of p come from `exp_bounds`, rounded down and up. (1 - p)^(2^b) is b squarings, and
P(k + 1) = P(k) (2^b - k) / (k + 1) p / (1 - p); every product is rounded down in the lower and up in the upper bound.
A squaring doubles the distance of the bounds and adds 2, so b bits more of precision keep them close.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcube.core.noise import exp_bounds
from dpcube.core.randomness import WordSource

_WORD = 32
Cdf = Callable[[int, int], tuple[int, int]]
"""From k and a precision to integers around 2^precision F(k)."""


def drawn_cells(source: WordSource, bits: int, threshold: int, epsilon: Fraction) -> list[int]:
    """Return the numbers of the cells among 2^bits whose noise reaches a threshold, in the order drawn."""
    number = inverted(source, lambda k, precision: binomial_bounds(bits, threshold, epsilon, k, precision), 1 << bits)
    cells: dict[int, None] = {}
    while len(cells) < number:
        cells[uniform_number(source, bits)] = None
    return list(cells)


def inverted(source: WordSource, cdf: Cdf, most: int) -> int:
    """Return the least k with U < F(k) for a fresh uniform U; F(most) is 1."""
    words, drawn, k = 1, uniform_number(source, _WORD), 0
    while k < most:
        low, high = cdf(k, _WORD * words)
        if drawn + 1 <= low:
            break
        if drawn >= high:
            k += 1
        else:  # the words read so far do not decide
            words, drawn = words + 1, drawn << _WORD | uniform_number(source, _WORD)
    return k


def uniform_number(source: WordSource, bits: int) -> int:
    """Return a uniform whole number of so many bits."""
    words = np.empty(-(-bits // _WORD), np.uint32)
    source.fill(words)
    number = 0
    for word in words.tolist():
        number = number << _WORD | word
    return number >> (_WORD * words.size - bits)


def binomial_bounds(bits: int, threshold: int, epsilon: Fraction, k: int, precision: int) -> tuple[int, int]:
    """Return integers around 2^precision F(k), where F is the distribution function of Bin(2^bits, p)."""
    inner = precision + 2 * bits + 32
    one, cells = 1 << inner, 1 << bits
    low, high = _reaching(threshold, epsilon, inner)
    term = _power_of_two_power(one - high, one - low, bits, inner)
    odds = (low << inner) // (one - low), -((-high << inner) // (one - high))
    total = term
    for j in range(k):
        of = (j + 1) << inner
        term = term[0] * (cells - j) * odds[0] // of, -(-term[1] * (cells - j) * odds[1] // of)
        total = total[0] + term[0], total[1] + term[1]
    return total[0] >> (inner - precision), min(1 << precision, -(-total[1] >> (inner - precision)))


def _reaching(threshold: int, epsilon: Fraction, precision: int) -> tuple[int, int]:
    """Return integers around 2^precision P(Z >= threshold), for a threshold of 1 or more."""
    one = 1 << precision
    low, high = exp_bounds(epsilon * threshold, precision)
    least, most = exp_bounds(epsilon, precision)
    return (low << precision) // (one + most), -((-high << precision) // (one + least))


def _power_of_two_power(low: int, high: int, squarings: int, precision: int) -> tuple[int, int]:
    """Return integers around the number between the bounds, to the power of 2^squarings."""
    for _ in range(squarings):
        low, high = low * low >> precision, -(-high * high >> precision)
    return low, high
