"""A noisy histogram over all texts, of which only the cells that reach a public threshold are shown: pure epsilon.

Every text has a cell: its codeword by a public code (`text_code.py`). All 2^b codewords of b bits are cells, whether
they decode or not. Each count gets two-sided geometric noise at epsilon, and a cell is shown with its noisy count if
that reaches tau_b = ceil((b ln 2 + ln(1/m)) / epsilon).

Proof of privacy. A row has one text, so it is in one cell or, if its text has no codeword of at most `MAX_BITS` bits,
in none. One row more takes the counts from c to c + 1 in one cell. The gate measures f(c) = max(0, c - `ignored`), with
`ignored` public: f(c + 1) - f(c) is 0 or 1, so the noisy numbers of all cells together cost epsilon, as a histogram
does (`gate.py`). The thresholds are public; which cells are shown, the texts they decode to and their order are
computed from the noisy numbers. With a unit of one row at most, the same holds of units.

The cells are not laid out. Those with f(c) > 0 get noise one by one; all others have f = 0 and are drawn at once with
the same law (`empty_cells.py`). An empty draw at the codeword of a text with f(c) > 0 is dropped, because that cell had
its own noise: cells are independent, so the others keep their law. A text has a codeword only if it is what its
codeword denotes, so every text that can be shown for a row can be shown without one. Only texts whose noisy count
reaches the lowest threshold are encoded; the others could not be shown whatever their bits. The time and the memory of
a run go by the number of different texts, as those of every count do.

False values. The expected number of empty texts that are shown is at most m / (1 + exp(-epsilon)), over all texts,
because the codewords satisfy Kraft's inequality.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, NoReturn

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.empty_cells import drawn_cells
from dpcube.core.epsilon import check_share
from dpcube.core.errors import BudgetError
from dpcube.core.noise import ExactNoise, Noise
from dpcube.core.randomness import RandomWords, WordSource
from dpcube.core.seal import sealed
from dpcube.core.selection import one_sided
from dpcube.core.text_code import MAX_BITS, TextCode
from dpcube.core.unique import Unique

FALSE_VALUES = 0.2
"""The m of thresholds: twice the expected number of false values, at most, of a column at a small epsilon."""

EmptyCells = Callable[[int, int, Fraction], list[int]]
"""From the bits of codewords, a threshold and epsilon to the cells that reach it by their noise alone."""


class Shown(NamedTuple):
    """A text whose noisy count reached its threshold."""

    text: str
    noisy_count: int


class ExactTexts(Unique):
    """Texts of a column and their counts, hidden: no attribute, repr or format shows them (`exact.py`).

    `ignored` is the public number of rows that do not count: a text of so many rows has no count at all.
    """

    __slots__ = ("_hold", "ignored")
    _hold: Callable[[], tuple[list[str], Ints]]
    ignored: int

    @sealed
    def __init__(self, texts: list[str], rows: Ints, *, ignored: int) -> None:
        held = texts, np.maximum(np.ascontiguousarray(rows, np.int64) - ignored, 0)
        object.__setattr__(self, "_hold", lambda: held)
        object.__setattr__(self, "ignored", ignored)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = "exact texts are never changed"
        raise AttributeError(msg)

    def __repr__(self) -> str:
        return "<exact texts, hidden>"


class SparseHistogram(Unique):
    """The gate of the texts of one column: it measures them once, at its whole epsilon (proof: this module's head)."""

    @sealed
    def __init__(
        self,
        texts: ExactTexts,
        code: TextCode,
        epsilon: Fraction,
        *,
        noise: Noise | None = None,
        empty: EmptyCells | None = None,
    ) -> None:
        check_share(epsilon)
        self._texts, self._code, self._epsilon = texts, code, epsilon
        self._noise = ExactNoise() if noise is None else noise
        self._empty = exact_empty_cells(RandomWords()) if empty is None else empty
        self._unspent = [epsilon]

    def __repr__(self) -> str:
        return "<SparseHistogram over private texts>"

    @sealed
    def heavy(self) -> list[Shown]:
        """Spend the epsilon and return the texts that reach their thresholds, the most frequent first."""
        try:
            self._unspent.pop()  # in one step, so that of two threads one is refused
        except IndexError:
            msg = "the texts of a column are measured once, and have been; nothing was drawn"
            raise BudgetError(msg) from None
        found = [*self._occupied(), *self._false()]
        return sorted(found, key=lambda shown: (-shown.noisy_count, shown.text))

    def _occupied(self) -> list[Shown]:
        texts, counts = self._texts._hold()
        noisy = counts + self._noise.draw(self._epsilon, len(counts))
        shown = []
        for at in np.flatnonzero((counts > 0) & (noisy >= threshold(1, self._epsilon))).tolist():
            word = self._code.codeword(texts[at])
            if word is not None and word[0] <= MAX_BITS and noisy[at] >= threshold(word[0], self._epsilon):
                shown.append(Shown(texts[at], int(noisy[at])))
        return shown

    def _false(self) -> list[Shown]:
        shown = []
        for bits in range(1, MAX_BITS + 1):
            least = threshold(bits, self._epsilon)
            cells = self._empty(bits, least, self._epsilon)
            above = one_sided(self._noise.draw(self._epsilon, len(cells))) if cells else ()
            for number, more in zip(cells, above, strict=True):
                text = self._code.decoded(bits, number)
                if text is not None and not self._has(text):
                    shown.append(Shown(text, least + int(more)))
        return shown

    def _has(self, text: str) -> bool:
        texts, counts = self._texts._hold()
        return any(counts[at] > 0 for at, one in enumerate(texts) if one == text)


def threshold(bits: int, epsilon: Fraction) -> int:
    """Return the least noisy count with which a text of so many bits is shown.

    >>> threshold(29, Fraction(1, 20)), threshold(29, Fraction(1))
    (435, 22)
    """
    return max(1, math.ceil((bits * math.log(2) + math.log(1 / FALSE_VALUES)) / float(epsilon)))


def ignored_rows(epsilon: Fraction) -> int:
    """Return how many rows of every text need not count: a quarter of the scale of the noise, but one at least.

    So values that one row has never leave the engine, and the threshold rises by little.
    """
    return max(1, int(1 / (4 * epsilon)))


def exact_empty_cells(source: WordSource) -> EmptyCells:
    """Return the drawing of empty cells from uniform words."""
    return lambda bits, least, epsilon: drawn_cells(source, bits, least, epsilon)
