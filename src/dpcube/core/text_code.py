"""A public prefix-free code of texts in whole bits: the prior by which the values of a text column are searched.

Every text has a probability by a public model, which is never trained on a table. The model is a mixture of four
parts: the null value, a list that the owner knows (`--known`), sequences of the words of `words.txt`, and bytes given
the two before (an order-2 character model of those words, in which no byte is impossible). A text gets the codeword
of its most probable part: the bits of the midpoint of its interval in [0, 1), as in arithmetic coding
(Shannon-Fano-Elias).

Proof that no codeword is the beginning of another. A part has disjoint intervals for its texts, and parts have disjoint
intervals. Of an interval [l, l + w) the codeword has b >= log2(1/w) + 1 bits, so 2^-b <= w/2, and its number is
n = floor(2^b (l + w/2)). Then n 2^-b > l + w/2 - 2^-b >= l and (n + 1) 2^-b <= l + w/2 + 2^-b <= l + w: all numbers
that begin with the codeword are in the interval of the text. So the sum of 2^-b over all texts is at most 1 (Kraft).

All frequencies are integers, so a text has one codeword on every machine. `decoded` returns a text only if the text's
own codeword is the one given: each text has one cell, and each cell at most one text.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

NULL = ""
"""Stands for the null value: no text of a learnt column is empty."""
MAX_BITS = 400
"""Of a codeword; a text that needs more has no cell."""
MAX_OCTETS = 200
"""Bytes of a text that has a cell."""

Step = tuple[int, int, int]
"""Part of an interval: how much of it comes before, how much it has, and of how much."""

_PARTS = ("null", "known", "words", "bytes")
_WEIGHTS, _WEIGHTS_WITH_KNOWN = (1, 0, 31, 32), (1, 31, 16, 16)
_AFTER_WORD = {"": 40, " ": 10, "-": 8, "_": 2, ", ": 2, "/": 2}
_CASES = (("capital", 4), ("lower", 3), ("upper", 1))
_END = 256
_SHRINKAGE = 300
"""Observations that the context of one byte fewer counts for."""


class _Alphabet:
    """Symbols 0, 1, ... with integer frequencies, as steps of an arithmetic code."""

    def __init__(self, frequencies: Sequence[int]) -> None:
        self._until = [0, *accumulate(frequencies)]

    def step(self, symbol: int) -> Step:
        return self._until[symbol], self._until[symbol + 1] - self._until[symbol], self._until[-1]

    def find(self, place: int, of: int) -> tuple[int, Step]:
        """Return the symbol whose part contains place / of."""
        low, high = 0, len(self._until) - 2
        while low < high:
            middle = (low + high) // 2
            if place * self._until[-1] < self._until[middle + 1] * of:
                high = middle
            else:
                low = middle + 1
        return low, self.step(low)


class _Point:
    """A number in [0, 1), of which the symbols are read one after another."""

    def __init__(self, number: int, of: int) -> None:
        self._number, self._of = number, of

    def next(self, alphabet: _Alphabet) -> int:
        symbol, (before, width, total) = alphabet.find(self._number, self._of)
        self._number = self._number * total - before * self._of
        self._of *= width
        return symbol


class TextCode:
    """The code, with a list of values that are publicly known to be likely, or without one.

    >>> code = TextCode()
    >>> code.decoded(*code.codeword("Never-married")), code.codeword("Male")[0] < code.codeword("Mxqj")[0]
    ('Never-married', True)
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = list(dict.fromkeys(text for text in known if text != NULL))
        self._place_of = {text: i for i, text in enumerate(self._known)}
        self._parts = _Alphabet(_WEIGHTS_WITH_KNOWN if self._known else _WEIGHTS)
        self._listed = _Alphabet([1] * max(1, len(self._known)))

    def codeword(self, text: str) -> tuple[int, int] | None:
        """Return the number of bits and the number of a text's codeword; None if no codeword denotes the text.

        None has a text of more than `MAX_OCTETS` bytes, nor one that is not read back from its codeword, such as one
        with halves of characters: a cell that could be shown for a row, and never without one, would cost infinity.
        """
        if len(text) > MAX_OCTETS or len(text.encode("utf-8", "surrogatepass")) > MAX_OCTETS:
            return None
        intervals = [self._interval(part, text) for part in range(len(_PARTS))]
        found = min((_midpoint(*interval) for interval in intervals if interval is not None), default=None)
        return found if found is not None and self._denoted(*found) == text else None

    def decoded(self, bits: int, number: int) -> str | None:
        """Return the text that has this codeword, None if no text has it."""
        text = self._denoted(bits, number)
        return text if text is not None and self.codeword(text) == (bits, number) else None

    def _denoted(self, bits: int, number: int) -> str | None:
        """Return the text whose interval has the midpoint of a number, also if its codeword is another."""
        point = _Point(2 * number + 1, 1 << (bits + 1))
        return self._read(_PARTS[point.next(self._parts)], point)

    def _read(self, part: str, point: _Point) -> str | None:
        if part == "null":
            return NULL
        if part == "known":
            return self._known[point.next(self._listed)]
        return _words().read(point) if part == "words" else _bytes().read(point)

    def _interval(self, part: int, text: str) -> tuple[int, int, int] | None:
        """Return the interval of a text within [0, 1), as (low, width, of); None if this part has not the text."""
        steps: list[Step] | None
        if _PARTS[part] == "null":
            steps = [] if text == NULL else None
        elif _PARTS[part] == "known":
            steps = [self._listed.step(self._place_of[text])] if text in self._place_of else None
        elif text == NULL:
            steps = None
        else:
            steps = _words().steps(text) if _PARTS[part] == "words" else _bytes().steps(text)
        if steps is None:
            return None
        low, width, of = 0, 1, 1
        for before, wide, total in (self._parts.step(part), *steps):
            low, width, of = low * total + width * before, width * wide, of * total
        return low, width, of


def _midpoint(low: int, width: int, of: int) -> tuple[int, int]:
    """Return the codeword of an interval: the first bits of its midpoint (proof: this module's head)."""
    bits = 1 + (-(-of // width) - 1).bit_length()  # 1 more than the least b with 2^-b <= width / of
    return bits, ((2 * low + width) << bits) // (2 * of)


class _Words:
    """Sequences of ranked words in one of three cases, each followed by the end or by a mark and another word."""

    def __init__(self, words: Sequence[str]) -> None:
        self._forms = [(word.capitalize(), word, word.upper()) for word in words]
        self._place_of: dict[str, tuple[int, int]] = {}
        for rank, forms in enumerate(self._forms):
            for case, form in enumerate(forms):
                self._place_of.setdefault(form, (rank, case))
        self._ranks = _Alphabet([1 + 2**20 // (rank + 20) for rank in range(len(words))])
        self._cases = _Alphabet([weight for _, weight in _CASES])
        self._marks, self._after = list(_AFTER_WORD), _Alphabet(list(_AFTER_WORD.values()))

    def steps(self, text: str) -> list[Step] | None:
        steps: list[Step] = []
        while True:
            cut = min((at for mark in self._marks[1:] if (at := text.find(mark)) >= 0), default=len(text))
            found = self._place_of.get(text[:cut])
            if found is None:
                return None
            steps += [self._ranks.step(found[0]), self._cases.step(found[1])]
            mark = max((mark for mark in self._marks if text.startswith(mark, cut)), key=len) if cut < len(text) else ""
            steps.append(self._after.step(self._marks.index(mark)))
            if not mark:
                return steps
            text = text[cut + len(mark) :]

    def read(self, point: _Point) -> str | None:
        text = ""
        while len(text) <= MAX_OCTETS:
            rank = point.next(self._ranks)
            text += self._forms[rank][point.next(self._cases)]
            mark = self._marks[point.next(self._after)]
            if not mark:
                return text
            text += mark
        return None


class _Bytes:
    """Bytes given the two before: counts of the words, their cases, digits and the marks between words.

    The frequency of a byte in a context is its count there, with that in the shorter context as `_SHRINKAGE` more
    observations, and in the end 1 for every byte: so every sequence of bytes has a probability.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._after_two: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self._after_one: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._alone: Counter[int] = Counter()
        for word, following in pairwise([*words, words[0]]):
            for form, weight in ((word.capitalize(), 60), (word, 40), (word.upper(), 10)):
                self._learn([-1, -1, *form.encode(), _END], weight)
            for mark in "- _":
                for start in (following, following.capitalize()):
                    self._learn([*(word[-2:] + mark + start[:2]).encode()], 3)
        for number in range(1000):
            self._learn([-1, -1, *str(number).encode(), _END], 20)
        self._alphabet = lru_cache(2**13)(self._computed)

    def _learn(self, symbols: Sequence[int], weight: int) -> None:
        for a, b, symbol in zip(symbols, symbols[1:], symbols[2:], strict=False):
            self._after_two[a, b][symbol] += weight
            self._after_one[b][symbol] += weight
            self._alone[symbol] += weight

    def _computed(self, a: int, b: int) -> _Alphabet:
        two, one = self._after_two.get((a, b), Counter()), self._after_one.get(b, Counter())
        in_two, in_one, in_all = two.total(), one.total(), self._alone.total()
        frequencies = []
        for symbol in range(_END + 1):
            alone = (32 if 32 <= symbol < 127 else 4) + (self._alone[symbol] << 16) // in_all
            after_one = ((one[symbol] << 16) + _SHRINKAGE * alone) // (in_one + _SHRINKAGE)
            frequencies.append(1 + ((two[symbol] << 16) + _SHRINKAGE * after_one) // (in_two + _SHRINKAGE))
        return _Alphabet(frequencies)

    def steps(self, text: str) -> list[Step] | None:
        octets = text.encode("utf-8", "surrogatepass")
        if len(octets) > MAX_OCTETS:
            return None
        symbols = [-1, -1, *octets, _END]
        return [self._alphabet(a, b).step(s) for a, b, s in zip(symbols, symbols[1:], symbols[2:], strict=False)]

    def read(self, point: _Point) -> str | None:
        a, b, octets = -1, -1, bytearray()
        while len(octets) <= MAX_OCTETS:
            symbol = point.next(self._alphabet(a, b))
            if symbol == _END:
                try:
                    return octets.decode()
                except UnicodeDecodeError:
                    return None
            octets.append(symbol)
            a, b = b, symbol
        return None


@lru_cache(1)
def _listed_words() -> tuple[str, ...]:
    return tuple(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())


@lru_cache(1)
def _words() -> _Words:
    return _Words(_listed_words())


@lru_cache(1)
def _bytes() -> _Bytes:
    return _Bytes(_listed_words())
