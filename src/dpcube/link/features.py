"""Feature encoding of records: hashes, integers and Bloom filters that the two parties compare in secret.

A value becomes one hash (exact), a whole number of steps or days (number, date), or the bits of a Bloom filter of its
q-grams (text). A missing value matches nothing: a text then has no bits, and each side has its own placeholder for
numbers and hashes, far from the other's and from every value. Features are never sent.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.link.limits import MAX_COMPARED, MAX_FEATURE_NUMBER
from dpcube.link.rules import DateRule, MatchingRule, MatchingRules, NumberRule, TextRule

Side = Literal["listener", "connector"]
NO_HASH: dict[Side, int] = {"listener": -1, "connector": -2}
NO_NUMBER: dict[Side, int] = {"listener": -MAX_COMPARED, "connector": MAX_COMPARED}
"""Placeholders of missing values. Hashes are not negative. Numbers and tolerances are at most 10^8 in magnitude: if one
of two numbers is missing, they differ by at least 2^28 - 10^8, more than any tolerance."""
_END = "\x02"  # marks both ends of a text, and occurs in none


_ZEROS = {
    "real": re.compile(r"(?<=[0-9])\.0*$|(\.[0-9]*[1-9])0+$"),
    "date": re.compile(r"(?<=:[0-9]{2})\.0*$()"),
}
"""Trailing zeros that the type of a column adds to the text of a value."""
_MIDNIGHT = re.compile(r"(?<=-[0-9]{2})[ T]00:00:00$")
_UNIT_OF_TYPE = re.compile(r"\[(s|ms|us|ns)[\],]")


def written_texts(values: Sequence[object], kind: str | None, type_name: str = "") -> list[str | None]:
    """Normalise values to the texts that a file would contain, by the kind and type of their column.

    One party's 800 may be text or a whole number, and the other's, in a column with nulls, a real number. Times come as
    whole numbers of their type's unit since 1970, and midnights become days. Values that are not texts are missing.

    >>> written_texts(["800.0", "1.50", "1e+20", None], "real"), written_texts(["800.0"], "text")
    (['800', '1.5', '1e+20', None], ['800.0'])
    >>> written_texts(["981158400", "981158401"], "date", "timestamp[s]")
    ['2001-02-03', '2001-02-03 00:00:01']
    """
    texts = [value if isinstance(value, str) else None for value in values]
    if kind not in _ZEROS:
        return texts
    unit = _UNIT_OF_TYPE.search(type_name) if kind == "date" else None
    timed = [text if text is None or unit is None else _moment(text, unit[1]) for text in texts]
    return [None if text is None else _MIDNIGHT.sub("", _ZEROS[kind].sub(r"\1", text)) for text in timed]


def _moment(text: str, unit: str) -> str:
    """Return a whole number of a unit as the text of a time; other texts as they are."""
    is_whole = text.removeprefix("-").isdecimal() and len(text) <= 20 and abs(int(text)) < 2**63
    # NumPy's type stubs have no overload for a unit that is not a literal.
    return str(np.array(int(text), np.int64).view(f"datetime64[{unit}]")).replace("T", " ") if is_whole else text


def compared_text(text: str | None) -> str:
    """Return the form in which texts are compared: without accents, case, blanks and punctuation.

    An accent is a combining mark; the vowel signs of Indic scripts do not combine, and stay.

    >>> compared_text("  Müller-Lüdenscheidt "), compared_text(None)
    ('mullerludenscheidt', '')
    """
    if text is None:
        return ""
    # Normalised twice: some forms of letters (a mathematical bold A) fold only after the first time.
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(filter(_is_compared, unicodedata.normalize("NFKD", folded)))


def _is_compared(letter: str) -> bool:
    if letter.isalnum():
        return True
    is_mark = unicodedata.category(letter) in ("Mc", "Mn") and not unicodedata.combining(letter)
    return is_mark and not unicodedata.name(letter, "").startswith("VARIATION SELECTOR")


def raw_features(rule: MatchingRule, texts: Sequence[str | None], values: Floats, key: bytes) -> tuple[Ints, Bools]:
    """Return the feature columns of one comparison, from texts or values, and a mask of the records that have one."""
    if isinstance(rule, NumberRule | DateRule):
        step = float(rule.step) if isinstance(rule, NumberRule) else 1.0
        there = np.asarray(~np.isnan(values))
        steps = np.rint(np.where(there, values, 0) / step).clip(-MAX_FEATURE_NUMBER, MAX_FEATURE_NUMBER)
        return steps.astype(np.int64)[:, None], there
    if isinstance(rule, TextRule):
        made = _for_each(texts, lambda text: _bloom(text, rule, key), rule.bits)
        return made, np.asarray(made.any(axis=1))
    hashes = _for_each(texts, lambda text: np.array([_hash(key, rule.name, text) >> 2 if text else 0]), 1)
    return hashes, np.array([bool(compared_text(text)) for text in texts], np.bool_)


def side_features(rule: MatchingRule, columns: Ints, there: Bools, side: Side) -> Ints:
    """Return features with a side's own placeholder for missing values."""
    if isinstance(rule, TextRule):
        return columns
    missing = NO_NUMBER if isinstance(rule, NumberRule | DateRule) else NO_HASH
    return np.where(there[:, None], columns, missing[side])


def feature_key(rules: MatchingRules) -> bytes:
    """Return the key of the hashes, derived from the text that the two parties agreed on, if any."""
    return hashlib.sha256(b"dpcube link features " + rules.key.encode()).digest()


def _for_each(texts: Sequence[str | None], make: Callable[[str], Ints], columns: int) -> Ints:
    """Compute the features of each normalised text, once for each distinct one."""
    made = lru_cache(maxsize=None)(make)
    found = np.zeros((len(texts), columns), np.int64)
    for number, text in enumerate(texts):
        found[number] = made(compared_text(text))
    return found


def _bloom(text: str, rule: TextRule, key: bytes) -> Ints:
    """Return the Bloom filter of the q-grams of a normalised text with marked ends; no bits for an empty text."""
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
    salted = f"{len(name)} {name} {text}".encode(errors="replace")
    return int.from_bytes(hashlib.blake2b(salted, digest_size=8, key=key).digest(), "big")
