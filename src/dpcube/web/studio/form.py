"""Validation of the page's form: JSON from a browser as a `Domain`, or as checked fields.

The form is converted to the text of a domain file and parsed as one, so that it cannot declare anything that a file
could not.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from dpcube.core.domain import Domain
from dpcube.core.domain.file import DOMAIN_FORMAT
from dpcube.core.errors import DomainError, InputError

NUMBERS, DATES = ("min", "max", "width"), ("start", "end")
TYPED_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
TYPED_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
ATTRIBUTE_KEY = re.compile(r"[a-z_]{1,40}")
Declared = Mapping[str, Any]


def word(request: Mapping[str, Any], key: str, *, needed: bool = True) -> str:
    """Return the text of a field, without surrounding spaces."""
    text = request.get(key, "")
    if not isinstance(text, str) or (needed and not text.strip()):
        msg = f"{key.replace('_', ' ')} is empty; type it"
        raise InputError(msg)
    return text.strip()


def whole(request: Mapping[str, Any], key: str) -> int:
    """Return the whole number in a field."""
    text = word(request, key).replace(",", "").replace(" ", "")
    if not re.fullmatch("[0-9]{1,15}", text):
        msg = f"{key.replace('_', ' ')} must be a whole number such as 10000, got {text[:40]!r}"
        raise InputError(msg)
    return int(text)


def declared_domain(
    attributes: object,
    *,
    drafted_from_data: bool = False,
    signed: str = "",
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Domain:
    """Return the declared domain, marked if it was drafted from data, and with its signature, if there is one."""
    if not isinstance(attributes, list) or not all(isinstance(item, dict) for item in attributes):
        msg = "attributes must be a list; reload the page"
        raise InputError(msg)
    lines = [f"format = {DOMAIN_FORMAT}"]
    lines += ["drafted_from_data = true"] if drafted_from_data else []
    lines += [f"signed_public_by = {_toml(signed)}"] if drafted_from_data and signed else []
    lines += [] if delimiter is None else [f"delimiter = {_toml(delimiter)}"]
    lines += [] if encoding is None else [f"encoding = {_toml(encoding)}"]
    for attribute in attributes:
        lines += ["[[attribute]]", *(f"{key} = {_value(key, value, attribute)}" for key, value in _given(attribute))]
    return Domain.loads("\n".join(lines) + "\n")


def drafted(text: str) -> list[dict[str, Any]]:
    r"""Return the attributes of a drafted domain file as fields of the form: bounds as text, values as a list.

    >>> drafted('[[attribute]]\nname = "day"\ntype = "date"\nstart = 2026-01-31\n')
    [{'name': 'day', 'type': 'date', 'start': '2026-01-31'}]
    """
    shown = (*NUMBERS, *DATES)
    return [
        {key: str(value) if key in shown else value for key, value in attribute.items()}
        for attribute in tomllib.loads(text).get("attribute", [])
    ]


def _given(attribute: Declared) -> list[tuple[str, object]]:
    """Return the keys of an attribute that are not empty."""
    for key in attribute:
        if not ATTRIBUTE_KEY.fullmatch(key):
            msg = f"an attribute has no key {key[:40]!r}; reload the page"
            raise InputError(msg)
    return [(key, value) for key, value in attribute.items() if value not in ("", [], None)]


def _value(key: str, value: object, attribute: Declared) -> str:
    owner = f"attribute {str(attribute.get('name'))[:80]!r}"
    if key in NUMBERS:
        if not isinstance(value, str) or not TYPED_NUMBER.fullmatch(value.strip()):
            msg = f"{owner}: {key} must be a number, got {str(value)[:40]!r}"
            raise DomainError(msg)
        text = value.strip()
        return str(int(text)) if TYPED_WHOLE.fullmatch(text) else repr(float(text))
    if key in DATES:
        try:
            return date.fromisoformat(str(value).strip()).isoformat()
        except ValueError:
            msg = f"{owner}: {key} must be a date such as 2026-01-31, got {str(value)[:40]!r}"
            raise DomainError(msg) from None
    return _toml(value)


def _toml(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if not isinstance(value, str):
        msg = "a key of an attribute is text, true or false, a number or a list of them; reload the page"
        raise InputError(msg)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
