"""Features: columns of records and rules enter, the integers that the two parties compare leave.

A value becomes one hash (exact), a whole number of steps or days (number, date), or the bits of a Bloom filter of its
q-grams (text). What is missing holds for nothing: a text has no bits then, and each side has numbers and hashes of
its own for it, which are far from the other's and from every value. Nothing here is ever sent.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from dpcube.arrays import Bools, Floats, Ints
from dpcube.link.program import LARGEST_COMPARED
from dpcube.link.rules import LARGEST_KEPT, DateRule, MatchingRule, MatchingRules, NumberRule, TextRule

Side = Literal["listener", "connector"]
NO_HASH: dict[Side, int] = {"listener": -1, "connector": -2}
NO_NUMBER: dict[Side, int] = {"listener": -LARGEST_COMPARED, "connector": LARGEST_COMPARED}
"""What stands for a missing value. Hashes are not negative. Numbers are within 10^8, tolerances too: of two numbers of
which one is missing the difference is at least 2^28 - 10^8, more than any tolerance."""
_END = "\x02"  # stands at both ends of a text, and in none


def compared_text(text: str | None) -> str:
    """Return a text as it is compared: without accents, case, blanks and marks.

    >>> compared_text("  Müller-Lüdenscheidt "), compared_text(None)
    ('mullerludenscheidt', '')
    """
    if text is None:
        return ""
    taken_apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in taken_apart if letter.isalnum())


def raw_features(rule: MatchingRule, texts: Sequence[str | None], values: Floats, key: bytes) -> tuple[Ints, Bools]:
    """Return the columns of one comparison of each record, by texts or by values, and which records have one."""
    if isinstance(rule, NumberRule | DateRule):
        step = float(rule.step) if isinstance(rule, NumberRule) else 1.0
        there = np.asarray(~np.isnan(values))
        steps = np.rint(np.where(there, values, 0) / step).clip(-LARGEST_KEPT, LARGEST_KEPT)
        return steps.astype(np.int64)[:, None], there
    if isinstance(rule, TextRule):
        made = _for_each(texts, lambda text: _bloom(text, rule, key), rule.bits)
        return made, np.asarray(made.any(axis=1))
    hashes = _for_each(texts, lambda text: np.array([_hash(key, rule.name, text) >> 2 if text else 0]), 1)
    return hashes, np.array([bool(compared_text(text)) for text in texts], np.bool_)


def side_features(rule: MatchingRule, columns: Ints, there: Bools, side: Side) -> Ints:
    """Return features with a side's own numbers where there is no value."""
    if isinstance(rule, TextRule):
        return columns
    missing = NO_NUMBER if isinstance(rule, NumberRule | DateRule) else NO_HASH
    return np.where(there[:, None], columns, missing[side])


def feature_key(rules: MatchingRules) -> bytes:
    """Return the key of the hashes: of the text that the two agreed on, if they did."""
    return hashlib.sha256(b"dpcube link features " + rules.key.encode()).digest()


def _for_each(texts: Sequence[str | None], make: Callable[[str], Ints], columns: int) -> Ints:
    """Make the features of each plain text, once for each that differs."""
    made = lru_cache(maxsize=None)(make)
    found = np.zeros((len(texts), columns), np.int64)
    for number, text in enumerate(texts):
        found[number] = made(compared_text(text))
    return found


def _bloom(text: str, rule: TextRule, key: bytes) -> Ints:
    """Return the bits of the q-grams of a plain text, its ends marked; none for an empty one."""
    bits = np.zeros(rule.bits, np.int64)
    if text:
        marked = _END * (rule.grams - 1) + text + _END * (rule.grams - 1)
        for start in range(len(marked) - rule.grams + 1):
            gram = marked[start : start + rule.grams]
            for turn in range(rule.hashes):
                bits[_hash(key, f"{rule.name} {turn}", gram) % rule.bits] = 1
    return bits


def _hash(key: bytes, name: str, text: str) -> int:
    """Return 64 bits of a keyed hash."""
    said = f"{len(name)} {name} {text}".encode(errors="replace")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8, key=key).digest(), "big")
