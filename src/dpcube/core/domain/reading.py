"""Reading options of text: their declaration in a domain, and its validation.

The options apply to text only: columns of numbers or dates are read by their types. `core/sources/reading.py`
implements the options once, for every engine.

Date formats use the directives of `strptime`: `%Y` (four digits), `%y` (two digits: 69 to 99 are in the 1900s), `%m`,
`%d`, `%b` (Jan to Dec), `%B` (January to December), `%H`, or `%I` with `%p` (AM, PM), `%M`, `%S`, `%f` (1 to 9 digits),
`%z` (Z, +01, +0100 or +01:00) and `%%`. Names of days, `%a` and `%A`, are accepted and ignored. Names are English, in
any case; all other characters stand for themselves. `iso` is a date alone or with a time, with or without an offset:
2026-03-01, 2026-03-01T08:30:00Z.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal
from unicodedata import category

from dpcube.core.domain.text import is_text
from dpcube.core.limits import MAX_FORMAT, MAX_LISTED_TEXTS, MAX_SIGN

Case = Literal["exact", "ignore"]

BLANKS = " \t\n\v\f\r"
ISO = "iso"
DECIMALS, THOUSANDS = (".", ","), (".", ",", "'", " ", "_")
DIRECTIVES = "YymbBdaAHIpMSfz"
NEEDS = {"p": "I", "I": "p", "M": "HI", "S": "M", "f": "S", "z": "HI"}  # directives of which each part needs one
AT_MOST_ONE = ("HI", "aA")
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
KEYS = (
    "column",
    "trim",
    "case",
    "null_text",
    "decimal",
    "thousands",
    "prefix",
    "suffix",
    "format",
    "zone",
    "true",
    "false",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading options of one column; with the defaults, text is read as it is.

    `words` are synonyms, each with its value. `formats` are tried in order; the first that matches a text is used.
    """

    trim: bool = False
    fold: bool = False
    null_text: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    decimal: str = "."
    thousands: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    formats: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether text is read as it is."""
        return self == Reading()

    def folded(self, text: str) -> str:
        """Return a text in the form in which texts are compared: ASCII letters in lower case if case is ignored."""
        return text.translate(str.maketrans(UPPER, LOWER)) if self.fold else text


def pieces(form: str) -> tuple[str, ...]:
    """Return a format's directives and literal characters in order; `%%` is the character.

    >>> pieces("%d.%m.%Y")
    ('%d', '.', '%m', '.', '%Y')
    """
    found, i = [], 0
    while i < len(form):
        length = 2 if form[i] == "%" else 1
        piece = form[i : i + length]
        found.append("%" if piece == "%%" else piece)
        i += length
    return tuple(found)


def is_digit(piece: str) -> bool:
    """Return whether a piece of a format matches digits."""
    return piece.isdigit() or (len(piece) == 2 and piece[1] in "YymdHIMSf")


def is_digits(form: str) -> bool:
    """Return whether a format is one run of digits, which libraries infer to be a number."""
    return form != ISO and all(map(is_digit, pieces(form)))


def fault_of_format(form: str) -> str | None:
    """Return why a format cannot be read alike by every engine, None if it can."""
    if form == ISO:
        return None
    if len(form) > MAX_FORMAT or not (form.isascii() and form.isprintable()):
        return f"a format has at most {MAX_FORMAT} printable ASCII characters"
    parts = pieces(form)
    marks = re.findall("%(.?)", form.replace("%%", ""))
    if strange := [mark for mark in marks if mark == "" or mark not in DIRECTIVES]:
        return f"unknown directive %{strange[0]}; use %{', %'.join(DIRECTIVES)} and %%"
    for of, one in (("year", "Yy"), ("month", "mbB"), ("day", "d")):
        if sum(marks.count(mark) for mark in one) != 1:
            return f"it needs one {of}, %{' or %'.join(one)}"
    if len(set(marks)) < len(marks) or any(set(two) <= set(marks) for two in AT_MOST_ONE):
        return "each part of a time is written once"
    if alone := [mark for mark, beside in NEEDS.items() if mark in marks and not set(beside) & set(marks)]:
        return f"%{alone[0]} needs %{' or %'.join(NEEDS[alone[0]])}"
    after = dict(pairwise(parts))
    if "%f" in after and is_digit(after["%f"]):
        return "no digit may follow %f"
    return "nothing may follow %z" if "%z" in after else None


def fault_of_sign(sign: object) -> str | None:
    """Return why a text cannot be a prefix or suffix of numbers, None if it can.

    If it contained a digit or a sign, or only marks, a text could be split into it and a number in two ways.
    """
    if (
        not isinstance(sign, str)
        or not is_text(sign)
        or not 1 <= len(sign) <= MAX_SIGN
        or any(category(mark) == "Cc" for mark in sign)
    ):
        return f"is a text of 1 to {MAX_SIGN} characters"
    if sign != sign.strip(BLANKS) or set(sign) & set("0123456789+-"):
        return "has no blanks around it, no digit, + or -"
    return None if set(sign) - {*DECIMALS, *THOUSANDS} else "is more than the marks inside numbers"


def listed_texts(given: object) -> tuple[str, ...] | None:
    """Return a text, or a list of texts, as a tuple; None if it is neither."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or len(texts) > MAX_LISTED_TEXTS or not all(map(is_text, texts)):
        return None
    return tuple(texts)


def declared(attribute: Any) -> dict[str, object]:
    """Return the reading options that an attribute declares, without the column: equal ones read alike."""
    given = attribute.declaration()
    return {key: given[key] for key in KEYS if key in given and key != "column"}
