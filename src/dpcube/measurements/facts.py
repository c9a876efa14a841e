"""Typed access to the values of a manifest, which is untrusted JSON."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from dpcube.core.domain.text import is_text
from dpcube.core.errors import ReleaseFileError

T = TypeVar("T")


class FutureFormatError(ReleaseFileError):
    """A file of a newer format than this version reads."""


_RATIONAL = re.compile(r"[0-9]{1,200}(/[1-9][0-9]{0,199})?")


def value(facts: Mapping[str, object], key: str, kind: type[T]) -> T:
    """Return the fact of this key, of exactly this type."""
    found = facts[key]
    # Not isinstance: true is not a number. A lone surrogate is not text that can be displayed.
    if type(found) is not kind or (kind is str and not is_text(found)):
        raise _wrong(key)
    return found


def whole_number_list(facts: Mapping[str, object], key: str) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    found = value(facts, key, list)
    if any(type(number) is not int for number in found):
        raise _wrong(key)
    return tuple(found)


def rational(facts: Mapping[str, object], key: str) -> Fraction:
    """Return a rational that `str` wrote; a short text such as 1e-999999999 would stand for a very long number."""
    text = value(facts, key, str)
    if not _RATIONAL.fullmatch(text):
        raise _wrong(key)
    return Fraction(text)


def _wrong(key: str) -> ReleaseFileError:
    return ReleaseFileError(f"its manifest has an invalid value of '{key}'")
