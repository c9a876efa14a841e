"""Grammar of numbers and dates in text, for every engine and for Python.

It is defined once, as regular expressions that every engine matches before it casts. So no text means one thing in a
file and another in a database, and no cast gets text that it refuses:

- a number (`NUMBER`): digits with or without a point, a sign and an exponent of at most four digits; or `inf`,
  `infinity`, `nan` in any case, with or without a sign; blanks around it. It is rounded to the nearest double, which
  is infinite beyond the largest finite double;
- a date (`DATE`): a day of the Gregorian calendar from 0001-01-01 to 9999-12-31, as YYYY-MM-DD; blanks around it.
  A date followed by a time (`ISO` in `reading.py`) is a date too: the day of that instant.

Either has at most `MAX_PARSED_TEXT` characters in all, and no pattern or cast is tried on longer text: on hundreds of
megabytes, some engines' raise. Of other text the first `MAX_TEXT` characters are read, so that no row is larger
than an engine can hold together, whatever it is made of.

The day of a timestamp without a time zone is its own; with a zone, its day in UTC, or in a declared zone.

Blanks are ASCII spaces, tabs and line ends; digits are ASCII digits. Text is compared byte by byte: case, trailing
spaces and Unicode normal forms (NFC, NFD) all matter.
"""

import re
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

from dpcube.core.domain.reading import BLANKS, ISO, Reading, is_digits

DIGITS = "(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
INFINITY = "[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
NAN = "[nN][aA][nN]"
NUMBER = f"[{BLANKS}]*[+-]?(?:{DIGITS}|{INFINITY}|{NAN})[{BLANKS}]*"
WHOLE_NUMBER = f"[{BLANKS}]*([0-9]+)[.]0*[{BLANKS}]*"  # a whole number with a fraction of zeros; its digits are a group
UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # a text that no attribute reads

_LONG = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_SHORT = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
DAY = f"(?:[0-9]{{4}}-(?:{_LONG}|{_SHORT}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP})"
DATE = f"[{BLANKS}]*{DAY}[{BLANKS}]*"
MIDNIGHT = f"[{BLANKS}]*{DAY}(?:[tT ]00:00(?::00(?:[.,]0*)?)?)?[{BLANKS}]*"  # a day alone, or its first moment
CLOCK = f"[{BLANKS}]*(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,]0*)?)?[{BLANKS}]*"  # a time of day
SHORTEST_MOMENT = 16  # characters of a date with a time: 2026-03-01T08:30
BOOLEANS = {"true": True, "false": False}
_NUMBER, _WHOLE = re.compile(NUMBER), re.compile(WHOLE_NUMBER)
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    _DAY.pattern + "(?:[tT ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[zZ]|[+-][0-9:]{2,5})?)?"
)


def parsed_number(reading: Reading, text: str, zone: str | None = None) -> float | None:  # noqa: ARG001 (of days only)
    """Return the number in a text, by the declared reading options; a boolean is 1 or 0."""
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
    """Return a number's text without its declared prefix and suffix; a sign before the prefix is kept."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    for mark in (reading.prefix, reading.suffix):
        compared = "" if mark is None else reading.folded(mark)
        if compared and mark is reading.prefix and reading.folded(rest).startswith(compared):
            rest = rest[len(compared) :].lstrip(BLANKS)
            sign, rest = (sign, rest) if not (sign and rest[:1] in ("+", "-")) else ("?", rest)
        elif compared and mark is reading.suffix and reading.folded(rest).endswith(compared):
            rest = rest[: -len(compared)].rstrip(BLANKS)
    return sign + rest


def parsed_day(reading: Reading, text: str, zone: str | None) -> int | None:
    """Return the ordinal of the day in a text, by the declared formats and in a time zone (UTC by default)."""
    bare, local = text.strip(BLANKS), ZoneInfo(zone or "UTC")
    if any(map(is_digits, reading.formats)) and (whole := _WHOLE.fullmatch(text)):
        bare = whole[1]
    for form in (*reading.formats, ISO):
        with suppress(ValueError):
            made = _moment(bare) if form == ISO else datetime.strptime(bare, form)
            return (made if made.tzinfo is None else made.astimezone(local)).toordinal()
    return None


def _moment(text: str) -> datetime:
    """Parse a date alone or with a time; ValueError for the other ISO 8601 forms that Python accepts."""
    if not _MOMENT.fullmatch(text) or not text.isascii():
        raise ValueError
    return datetime.fromisoformat(text.upper())
