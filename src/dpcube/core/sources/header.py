"""Whether the first line of a file of text names its columns, or is a row of a file without a header.

Names of columns are public, and stand in messages and drafts; a row must not. No rule tells the two apart for certain,
so a line with a field that is hardly a name is refused, and none of it is shown; and columns are listed in a message
only where a name that was asked for is among them.
"""

import re
from collections.abc import Sequence

from dpcube.core.errors import SourceError
from dpcube.core.sources.names import DELIMITERS

MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
VALUES = (
    r"(?=.*\d)[\W\d_]*",  # digits and marks without a letter: a number, an amount, a date, a time
    r"[+-]?(?:\d+\.?\d*|\.\d+)e[+-]?\d+",
    r"\d{4}-\d\d-\d\d[t ].*",
    rf"\d{{1,2}}[ ./-]?{MONTH}[ ./,-]*\d{{2,4}}",
    rf"{MONTH}[ .]*\d{{1,2}},? +\d{{4}}",
    r"[+-]?(?:nan|inf|infinity)|n/?a|null|none|true|false|\?+|-+|\.+",
    r"[<>]=? ?[$]?\d.*",
    r"\d{1,2}:\d\d(?::\d\d)? ?[ap]\.?m\.?",
    r"[^\s@]+@[^\s@]+\.[^\s@]+",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
)
VALUE = re.compile("|".join(f"(?:{form})" for form in VALUES), re.IGNORECASE)
HEADER_REMEDY = (
    "if the file has no header, name its columns: --names a,b,c (CsvDialect(header=False, columns=('a', 'b', 'c')) in "
    "Python)"
)


def check_header(file: str, fields: Sequence[str]) -> None:
    """Refuse a first line that may be a row, and show none of it.

    One field may be empty, at an end: an index without a name, or a delimiter after the last name.
    """
    inside = fields[1 if fields and not fields[0].strip() else 0 :]
    inside = inside[: -1 if len(inside) == len(fields) > 1 and not inside[-1].strip() else None]
    if len({field.strip() for field in fields}) == len(fields) and all(
        field.strip() and not _is_value(field) for field in inside
    ):
        return
    msg = (
        f"the first line of {file} is hardly the names of its columns: a field is empty, is there twice, or is a "
        f"number, a date or the like. It is not shown, for it may be a row; {HEADER_REMEDY}; if it has one, give each "
        "column a name of its own with a letter in it"
    )
    raise SourceError(msg)


def _is_value(field: str) -> bool:
    """Say whether a field is a value, or holds one between marks that may divide fields."""
    parts = [field, *(part for mark in DELIMITERS if mark in field for part in field.split(mark))]
    return any(VALUE.fullmatch(part.strip()) for part in parts)
