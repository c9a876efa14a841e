"""Encodings of CSV files that can be declared: UTF-8, UTF-16, and those in which each byte is one character.

The list is closed. In those of one byte a character, the first 128 are ASCII and no two bytes are alike, so that lines
and fields are cut where they are in the bytes. Encodings of several bytes (Shift JIS, GBK) are not in it: there a stray
byte may swallow the delimiter after it.
"""

import re
from encodings.aliases import aliases

WIDE_ENCODINGS = ("utf_16", "utf_16_le", "utf_16_be")
BYTE_ENCODINGS = (
    *("latin_1", *(f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16))),
    *(f"cp125{page}" for page in range(9)),
    *("cp437", "cp850", "cp852", "cp855", "cp857", "cp858", "cp862", "cp866", "koi8_r", "koi8_u", "mac_roman"),
)
ENCODINGS = ("utf_8", *WIDE_ENCODINGS, *BYTE_ENCODINGS)
ALLOWED_ENCODINGS = "utf-8, utf-16, windows-1252, latin-1 and others of one byte a character (docs/sources.md)"
_OTHER_NAMES = {"utf_8_sig": "utf_8", "ascii": "utf_8"}


def encoding_named(name: object) -> str | None:
    """Return the one name of an encoding that may be declared, whichever name it is called by; None for any other.

    >>> encoding_named("Latin-1"), encoding_named("ISO-8859-1"), encoding_named("Windows 1252"), encoding_named("gbk")
    ('latin_1', 'latin_1', 'cp1252', None)
    """
    if not isinstance(name, str):
        return None
    plain = re.sub("[^a-z0-9]+", "_", name.lower())
    found = aliases.get(plain, plain)
    found = _OTHER_NAMES.get(found, found)
    return found if found in ENCODINGS else None
