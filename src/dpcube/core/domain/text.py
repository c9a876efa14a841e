"""Text in declarations: validity, encodings of CSV files, and suggestions for misspelt names.

**Encodings.** UTF-8, UTF-16, and encodings in which each byte is one character. The list is closed. In those of one
byte per character, the first 128 are ASCII and no two bytes are alike, so that lines and fields are cut where they are
in the bytes. Encodings of several bytes (Shift JIS, GBK) are not in it: there a stray byte may swallow the delimiter
after it.
"""

import re
from collections.abc import Sequence
from encodings.aliases import aliases

from dpcube.core.limits import MAX_SPELLING_WORDS

WIDE_ENCODINGS = ("utf_16", "utf_16_le", "utf_16_be")
BYTE_ENCODINGS = (
    *("latin_1", *(f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16))),
    *(f"cp125{page}" for page in range(9)),
    *("cp437", "cp850", "cp852", "cp855", "cp857", "cp858", "cp862", "cp866", "koi8_r", "koi8_u", "mac_roman"),
)
ENCODINGS = ("utf_8", *WIDE_ENCODINGS, *BYTE_ENCODINGS)
ALLOWED_ENCODINGS = "utf-8, utf-16, windows-1252, latin-1 or another of one byte a character (docs/guides/sources.md)"
_OTHER_NAMES = {"utf_8_sig": "utf_8", "ascii": "utf_8"}


def encoding_named(name: object) -> str | None:
    """Return the canonical name of an allowed encoding, given any of its names; None for other encodings.

    >>> encoding_named("Latin-1"), encoding_named("ISO-8859-1"), encoding_named("Windows 1252"), encoding_named("gbk")
    ('latin_1', 'latin_1', 'cp1252', None)
    """
    if not isinstance(name, str):
        return None
    plain = re.sub("[^a-z0-9]+", "_", name.lower())
    found = aliases.get(plain, plain)
    found = _OTHER_NAMES.get(found, found)
    return found if found in ENCODINGS else None


def is_text(value: object) -> bool:
    """Return whether a value is text that can be encoded; lone surrogates cannot."""
    return isinstance(value, str) and value.encode(errors="ignore").decode() == value


def is_delimiter(value: object) -> bool:
    """Return whether a value can be a CSV delimiter: one ASCII character other than a quote, CR, LF and NUL."""
    return isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '\r\n\0"'


def spelling_hint(wrong: object, known: Sequence[str]) -> str:
    """Return a spelling suggestion for a message if a word resembles one of some public words, else no text.

    >>> spelling_hint("nroth", ["north", "south"]), spelling_hint("west", ["north", "south"])
    ("; did you mean 'north'?", '')
    """
    from difflib import get_close_matches  # for messages only

    if not isinstance(wrong, str) or len(known) > MAX_SPELLING_WORDS:
        return ""
    folded = {word.casefold(): word for word in known}
    near = get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean '{folded[near[0]]}'?" if near else ""
