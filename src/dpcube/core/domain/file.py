"""Domain file reader and writer: TOML with one `[[attribute]]` table per axis.

The keys of a table are the fields of the attribute's class. A fault raises a DomainError that names the attribute, the
key and the allowed values.
"""

import io
import json
import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from datetime import date
from pathlib import Path
from typing import Any

from dpcube.core.domain.attribute import Attribute, listing
from dpcube.core.domain.calendar import Date
from dpcube.core.domain.category import Category
from dpcube.core.domain.number import Float, Integer
from dpcube.core.domain.text import spelling_hint
from dpcube.core.errors import DomainError
from dpcube.core.files import is_special, place_beside
from dpcube.core.limits import MAX_DOMAIN_FILE, MAX_KEY_DEPTH

DOMAIN_FORMAT = 1
ATTRIBUTE_KINDS: dict[str, type[Attribute]] = {c.kind: c for c in (Integer, Float, Category, Date)}
Stamp = tuple[tuple[str, str], ...]
"""Names of attributes and their digests."""
Declaration = tuple[
    tuple[Attribute, ...], bool, str | None, bool, str | None, str | None, Stamp
]  # the fields of a Domain, in order
# The work of tomllib grows with the square of the number of parts of a dotted key, of which a domain file has none.
_DEEP_KEY = re.compile(rf'(?<![\w-])(?:(?:[\w-]++|"")[ \t]*+\.[ \t]*+){{{MAX_KEY_DEPTH}}}', re.ASCII)
_LITERAL = re.compile(
    r'''
      """ (?: [^"\\] | \\. | "(?!"") )*+ "{3,5}+ | \'\'\' (?: [^'] | '(?!'') )*+ '{3,5}+
    | " (?: [^"\\\n] | \\. )*+ "               | ' [^'\n]*+ '
    | \#[^\n]*+
    ''',
    re.DOTALL | re.VERBOSE,
)
HEADER = (
    "format",
    "drafted_from_data",
    "signed_public_by",
    "multiline",
    "delimiter",
    "encoding",
    "learnt",
    "attribute",
)
_DIGEST = re.compile("[0-9a-f]{64}")


def parse_declaration(text: str, *, beside: Path | None = None) -> Declaration:
    """Parse the fields of a domain.

    Category lists named by `values_from` are read from files in the directory `beside`, one value per line. Without a
    directory they are refused, so that the domain inside a release file cannot make its reader open other files.
    """
    table = toml_table(text, of="a domain")
    _check_keys(table, HEADER, owner="a domain file")
    if table.get("format", DOMAIN_FORMAT) != DOMAIN_FORMAT or table.get("format") is True:
        msg = f"format must be {DOMAIN_FORMAT}, got {table['format']!r}; a newer version of dpcube may read it"
        raise DomainError(msg)
    declared = table.get("attribute", [])
    if not isinstance(declared, list) or not all(isinstance(item, dict) for item in declared):
        msg = "attributes must be declared as [[attribute]] tables"
        raise DomainError(msg)
    drafted, signed = table.get("drafted_from_data", False), table.get("signed_public_by")
    if not isinstance(drafted, bool) or not isinstance(signed, str | None):
        msg = "drafted_from_data must be true or false, and signed_public_by a name in quotes"
        raise DomainError(msg)
    multiline = table.get("multiline", False)
    if not isinstance(multiline, bool):
        msg = f"multiline must be true or false, got {multiline!r}"
        raise DomainError(msg)
    learnt = table.get("learnt", {})
    checked_stamp(tuple(learnt.items()) if isinstance(learnt, dict) else learnt)
    attributes = tuple(_attribute(item, beside) for item in declared)
    return attributes, drafted, signed, multiline, table.get("delimiter"), table.get("encoding"), tuple(learnt.items())


def toml_table(text: str, *, of: str) -> dict[str, Any]:
    """Parse TOML in linear time; DomainError if it is invalid, or has dotted keys that are too deep for such a file."""
    if _DEEP_KEY.search(_LITERAL.sub('""', text)):
        msg = f"not a TOML file of {of}: it has dotted keys of {MAX_KEY_DEPTH} or more parts"
        raise DomainError(msg)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"not a TOML file: {error}"
        raise DomainError(msg) from None


def _attribute(table: dict[str, object], beside: Path | None) -> Attribute:
    given = dict(table)
    name, kind = given.get("name"), given.pop("type", None)
    if not isinstance(kind, str) or kind not in ATTRIBUTE_KINDS:
        msg = f"attribute {name!r}: type must be one of {listing(list(ATTRIBUTE_KINDS))}, got {kind!r}"
        raise DomainError(msg)
    owner = f"attribute {name!r} of type {kind}"
    keys, lists = fields(ATTRIBUTE_KINDS[kind]), ATTRIBUTE_KINDS[kind].lists
    allowed = ["type", *(key.name for key in keys), *(["values_from"] if "values" in lists else [])]
    allowed += ["bins"] if "edges" in lists else []
    _check_keys(given, allowed, owner=owner)
    if "values_from" in given:
        if "values" in given:
            msg = f"{owner} has values as well as values_from; keep one of the two"
            raise DomainError(msg)
        given["values"] = _listed_values(given.pop("values_from"), beside, owner=owner)
    for key in lists:
        if key in given:
            given[key] = _tuple(given[key], key, owner=owner)
    if "bins" in given:
        given["width"] = _width(given, ATTRIBUTE_KINDS[kind], owner=owner)
        del given["bins"]
    if missing := sorted(key.name for key in keys if key.default is MISSING and key.name not in given):
        msg = f"{owner} needs {listing(missing)}"
        raise DomainError(msg)
    for key in ("start", "end"):
        if isinstance(given.get(key), str):  # TOML has dates; only the Python API accepts text
            msg = f"attribute '{name}': {key} must be a date such as 2026-01-31 without quotes, got {given[key]!r}"
            raise DomainError(msg)
    return ATTRIBUTE_KINDS[kind](**given)  # type: ignore[arg-type]


def _width(given: dict[str, object], kind: type[Attribute], *, owner: str) -> float:
    """Return the width of `bins` bins from min to max; whole numbers may get fewer bins, so that none is empty."""
    low, high, bins = (given.get(key) for key in ("min", "max", "bins"))
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    if not numbers or "width" in given or "edges" in given or type(bins) is not int or bins < 1:
        msg = f"{owner}: bins must be a whole number above 0, with min and max and without width or edges, got {bins!r}"
        raise DomainError(msg)
    span = high - low + kind.step  # type: ignore[operator]
    return -int(-span // bins) if kind.step else span / bins


def _tuple(value: object, key: str, *, owner: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        msg = f"{owner}: {key} must be a list in square brackets, got {value!r}"
        raise DomainError(msg)
    return tuple(value)


def _listed_values(path: object, beside: Path | None, *, owner: str) -> list[str]:
    if not isinstance(path, str):
        msg = f"{owner}: values_from must be the name of a file, got {path!r}"
        raise DomainError(msg)
    if beside is None:
        msg = f"{owner}: values_from is possible in a domain file only; list the values instead"
        raise DomainError(msg)
    # Not splitlines(), which also splits at Unicode separators inside a value.
    return [line.removesuffix("\n") for line in io.StringIO(read_text(beside / path))]


def _check_keys(table: dict[str, object], allowed: Sequence[str], *, owner: str) -> None:
    for key in table:
        if key not in allowed:
            msg = f"{owner} has no key '{key}'; its keys are {listing(allowed, most=30)}{spelling_hint(key, allowed)}"
            raise DomainError(msg)


def read_text(path: Path) -> str:
    """Read a regular file of UTF-8 text of limited size; DomainError otherwise."""
    try:
        if is_special(path):
            msg = f"cannot read {path}: it is not a regular file"
            raise DomainError(msg)
        if path.stat().st_size > MAX_DOMAIN_FILE:
            msg = f"{path} is larger than {MAX_DOMAIN_FILE // 2**20} MiB, the limit for a domain file"
            raise DomainError(msg)
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        msg = f"{path} is not text in UTF-8"
        raise DomainError(msg) from None
    except (OSError, ValueError) as error:  # a ValueError is a path with a null character
        msg = f"cannot read {path}: {getattr(error, 'strerror', error)}"
        raise DomainError(msg) from None


def format_declaration(declaration: Declaration) -> str:
    """Format the fields of a domain as text that `parse_declaration` reads back."""
    attributes, drafted, signed, multiline, delimiter, encoding, learnt = declaration
    lines = [f"format = {DOMAIN_FORMAT}"]
    if drafted:
        lines.append("drafted_from_data = true")
    if signed is not None:
        lines.append(f"signed_public_by = {_toml(signed)}")
    if multiline:
        lines.append("multiline = true")
    if delimiter is not None:
        lines.append(f"delimiter = {_toml(delimiter)}")
    if encoding is not None:
        lines.append(f"encoding = {_toml(encoding)}")
    lines += stamp_lines(learnt)
    for attribute in attributes:
        lines += ["", *attribute_lines(attribute)]
    return "\n".join(lines) + "\n"


def checked_stamp(learnt: object) -> None:
    """Refuse what is not a stamp: names, each with the SHA-256 of a declaration."""
    pairs = learnt if isinstance(learnt, tuple) else (None,)
    for pair in pairs:
        texts = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        if not texts or not _DIGEST.fullmatch(pair[1]):
            msg = "learnt must be a table of attributes and their digests, as dpcube domain --epsilon writes it"
            raise DomainError(msg)


def stamp_lines(learnt: Stamp) -> list[str]:
    """Format the digests of learnt attributes as a table, if there are any."""
    return ["", "[learnt]", *(f"{_toml(name)} = {_toml(digest)}" for name, digest in learnt)] if learnt else []


def attribute_lines(attribute: Attribute) -> list[str]:
    """Format an attribute as its table in a domain file."""
    declared = attribute.declaration()
    levels = () if "hierarchy" in attribute.lists else declared.pop("hierarchy", ())
    return ["[[attribute]]", *(f"{key} = {_toml(value)}" for key, value in declared.items()), *_hierarchy(levels)]


def _hierarchy(levels: Any) -> list[str]:
    """Format the levels of an attribute as tables below its own; their order is that of the file."""
    lines = []
    for name, members in levels:
        if isinstance(members[0], tuple):
            lines += ["", f"[attribute.hierarchy.{_toml(name)}]", *(f"{_toml(g)} = {_toml(m)}" for g, m in members)]
        else:
            lines += [*([] if lines else ["", "[attribute.hierarchy]"]), f"{_toml(name)} = {_toml(members)}"]
    return lines


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a partial one.

    A private file is accessible to its owner only from the moment it exists.
    """
    part = place_beside(path)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644))
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise DomainError(msg) from None
    finally:
        with suppress(OSError):
            part.unlink()


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's string escapes are TOML's; only DEL must be escaped besides.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return value.isoformat() if isinstance(value, date) else repr(value)
