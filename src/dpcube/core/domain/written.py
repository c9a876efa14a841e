"""Typed values that texts write: numbers, days, booleans and times of day, read in Python by the rules of `grammar.py`.

The engines read the rows of a private table by the same rules in SQL (`curator/sources`). Python reads what a domain
declares, an analyst's own rows, and what names a unit.

Libraries infer the type of a column from its rows: one row without a value turns whole numbers into doubles, one row
"n/k" turns numbers, dates and booleans into text. So that no row decides how the others are read, a value is read by
what it is, whatever the type of its column: 3, 3.0, "3" and "03" are one number, True and "TRUE" one boolean,
2026-01-31, that day's midnight and "2026-01-31" one day. `TypedValues` says which listed value each of them stands for.
"""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from dpcube.core.domain.attribute import EPOCH, Attribute
from dpcube.core.domain.grammar import CLOCK, MIDNIGHT, NUMBER, WHOLE_NUMBER
from dpcube.core.domain.limits import MAX_PARSED_TEXT
from dpcube.core.domain.reading import BLANKS, ISO, Reading, is_digits

BOOLEANS = {"true": True, "false": False}
_NUMBER, _MIDNIGHT, _CLOCK, _WHOLE = map(re.compile, (NUMBER, MIDNIGHT, CLOCK, WHOLE_NUMBER))
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    _DAY.pattern + "(?:[tT ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[zZ]|[+-][0-9:]{2,5})?)?"
)
TypedKind = Literal["number", "boolean", "day", "clock"]


class Typed(NamedTuple):
    """A value of a type: a double, a boolean, days since 1970 or seconds since midnight."""

    kind: TypedKind
    value: float


def typed(text: str) -> Typed | None:
    """Return the value that a text writes, None if it is text and nothing else.

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


def number_written(reading: Reading, text: str) -> float | None:
    """Return the number that a text writes in the form that a domain declares; a boolean is 1 or 0."""
    if (word := text.lower()) in BOOLEANS:
        return float(BOOLEANS[word])
    bare = _without_signs(reading, text.strip(BLANKS))
    if reading.thousands is not None and reading.thousands in bare:
        mark, point = re.escape(reading.thousands), re.escape(reading.decimal)
        if not re.match(f"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?![0-9{mark}])(?:{point}|[eE]|$)", bare):
            return None
        bare = bare.replace(reading.thousands, "")
    bare = bare.replace(reading.decimal, ".")
    return float(bare) if _NUMBER.fullmatch(bare) and bare.isascii() else None


def _without_signs(reading: Reading, text: str) -> str:
    """Return a number's text without what is declared to stand beside it; a sign before that is kept."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    for mark in (reading.prefix, reading.suffix):
        compared = "" if mark is None else reading.folded(mark)
        if compared and mark is reading.prefix and reading.folded(rest).startswith(compared):
            rest = rest[len(compared) :].lstrip(BLANKS)
            sign, rest = (sign, rest) if not (sign and rest[:1] in ("+", "-")) else ("?", rest)
        elif compared and mark is reading.suffix and reading.folded(rest).endswith(compared):
            rest = rest[: -len(compared)].rstrip(BLANKS)
    return sign + rest


def day_written(attribute: Attribute, text: str) -> int | None:
    """Return the ordinal of the day that a text writes, by an attribute's formats and in its zone."""
    bare, zone = text.strip(BLANKS), ZoneInfo(attribute.zone or "UTC")
    if any(map(is_digits, attribute.reading.formats)) and (whole := _WHOLE.fullmatch(text)):
        bare = whole[1]
    for form in (*attribute.reading.formats, ISO):
        with suppress(ValueError):
            made = _moment(bare) if form == ISO else datetime.strptime(bare, form)
            return (made if made.tzinfo is None else made.astimezone(zone)).toordinal()
    return None


def _moment(text: str) -> datetime:
    """Return a date alone or with a time; ValueError for the other forms that Python has for them."""
    if not _MOMENT.fullmatch(text) or not text.isascii():
        raise ValueError
    return datetime.fromisoformat(text.upper())


def null_values(attribute: Attribute) -> tuple[float, ...]:
    """Return the numbers, or days since 1970, that an attribute's null texts write.

    They mean null wherever the column holds them, as numbers or dates or in another spelling.
    """
    found: set[float] = set()
    for text in attribute.reading.null_text:
        if attribute.scale == "number":
            number = number_written(attribute.reading, text)
            found |= set() if number is None else {math.nan if math.isnan(number) else number}
        elif attribute.scale == "day" and (ordinal := day_written(attribute, text)) is not None:
            found.add(float(ordinal - EPOCH))
    return tuple(sorted(found, key=str))


@dataclass(frozen=True, slots=True)
class TypedValues:
    """The position of the listed value that each typed value stands for; of a null's text, the number of values.

    `same` are two texts that write one value and mean two things, if there are such: then that value, where a column
    does not hold it as text, means neither.
    """

    positions: dict[Typed, int]
    same: tuple[str, str] | None

    @classmethod
    def of(cls, attribute: Attribute) -> "TypedValues":
        """Return the typed values that a listing attribute declares, by its values, words and null texts."""
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
        told_apart = {value: at for value, at in positions.items() if value not in twice}
        return cls(told_apart, next(iter(twice.values()), None))

    def of_kind(self, kind: TypedKind) -> dict[float, int]:
        """Return the positions of the values of one kind."""
        return {value.value: at for value, at in self.positions.items() if value.kind == kind}


def _meanings(attribute: Attribute) -> Iterator[tuple[str, int]]:
    """Yield each text that is declared, with the position of what it means."""
    values = list(attribute.texts())
    yield from ((text, at) for at, text in enumerate(values))
    yield from ((word, values.index(value)) for word, value in attribute.reading.words)
    yield from ((text, len(values)) for text in attribute.reading.null_text)
