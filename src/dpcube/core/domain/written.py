"""Typed values in text: numbers, days, booleans and times of day, parsed in Python by the rules of `grammar.py`.

The engines read the rows of a private table by the same rules in SQL (`core/sources`). Python parses the declarations
of a domain, an analyst's own rows, and the names of privacy units.

Libraries infer the type of a column from its rows: one row without a value turns whole numbers into doubles, one row
"n/k" turns numbers, dates and booleans into text. So that no row decides how the others are read, the meaning of a
value does not depend on the type of its column: 3, 3.0, "3" and "03" are one number, True and "TRUE" one boolean,
2026-01-31, that day's midnight and "2026-01-31" one day. `TypedValues` maps each of them to its listed value.
"""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple

from dpcube.core.domain.attribute import Attribute
from dpcube.core.domain.grammar import BOOLEANS, CLOCK, MIDNIGHT, NUMBER
from dpcube.core.domain.reading import BLANKS
from dpcube.core.domain.scale import EPOCH
from dpcube.core.limits import MAX_PARSED_TEXT

_NUMBER, _MIDNIGHT, _CLOCK = map(re.compile, (NUMBER, MIDNIGHT, CLOCK))
TypedKind = Literal["number", "boolean", "day", "clock"]


class Typed(NamedTuple):
    """Typed value: a double, a boolean, days since 1970 or seconds since midnight."""

    kind: TypedKind
    value: float


def typed(text: str) -> Typed | None:
    """Return the typed value in a text, None if it is only text.

    >>> typed("03"), typed("TRUE"), typed("1970-01-02"), typed("08:30"), typed("ward 3")
    (Typed(kind='number', value=3.0), Typed(kind='boolean', value=True), Typed(kind='day', value=1), \
Typed(kind='clock', value=30600), None)
    """
    if len(text) > MAX_PARSED_TEXT or not text.isascii():
        return None
    if (word := text.lower()) in BOOLEANS:
        return Typed("boolean", BOOLEANS[word])
    bare = text.strip(BLANKS)
    if _NUMBER.fullmatch(text):
        number = float(bare)
        return Typed("number", math.nan if math.isnan(number) else number)  # one NaN, which is found in a dictionary
    if _MIDNIGHT.fullmatch(text):
        with suppress(ValueError):  # of the year 0
            return Typed("day", date.fromisoformat(bare[:10]).toordinal() - EPOCH)
    if _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(bare[i : i + 2] or "0") for i in (0, 3, 6))
        return Typed("clock", hours * 3600 + minutes * 60 + seconds)
    return None


def null_values(attribute: Attribute) -> tuple[float, ...]:
    """Return the numbers, or days since 1970, in an attribute's null texts.

    They mean null wherever they occur in the column, as numbers or dates or in another spelling.
    """
    found: set[float] = set()
    for text in attribute.reading.null_text:
        if (coordinate := attribute.parsed(text)) is not None:
            found.add(math.nan if math.isnan(coordinate) else float(coordinate - attribute.origin))
    return tuple(sorted(found, key=str))


@dataclass(frozen=True, slots=True)
class TypedValues:
    """Map from typed values to positions of listed values; a null text has the number of values as its position.

    `same` are two texts with the same typed value and different meanings, if there are such. A column that contains
    the value as another type then means neither.
    """

    positions: dict[Typed, int]
    same: tuple[str, str] | None

    @classmethod
    def from_attribute(cls, attribute: Attribute) -> "TypedValues":
        """Return the typed values in the values, synonyms and null texts of a categorical attribute."""
        positions: dict[Typed, int] = {}
        texts: dict[Typed, str] = {}
        twice: dict[Typed, tuple[str, str]] = {}
        for text, position in _meanings(attribute):
            value = typed(text)
            if value is None:
                continue
            if positions.setdefault(value, position) != position:
                twice[value] = (texts[value], text)
            texts.setdefault(value, text)
        unambiguous = {value: at for value, at in positions.items() if value not in twice}
        return cls(unambiguous, next(iter(twice.values()), None))

    def of_kind(self, kind: TypedKind) -> dict[float, int]:
        """Return the positions of the values of one kind."""
        return {value.value: at for value, at in self.positions.items() if value.kind == kind}


def _meanings(attribute: Attribute) -> Iterator[tuple[str, int]]:
    """Yield each declared text, with the position of its meaning."""
    values = list(attribute.texts())
    yield from ((text, at) for at, text in enumerate(values))
    yield from ((word, values.index(value)) for word, value in attribute.reading.words)
    yield from ((text, len(values)) for text in attribute.reading.null_text)
