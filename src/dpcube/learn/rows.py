"""Rows to cells, for rows that are the analyst's own: a column enters, the number of each value's cell leaves.

A private table is counted elsewhere, by SQL (`curator/sources`), where no value may show; here values may, and the
rules are the same: what a domain declares of text, of irregular values and of bins. A test compares the two.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcube.arrays import Floats, Ints
from dpcube.domain import Attribute
from dpcube.domain.attribute import EPOCH, listing
from dpcube.domain.reading import BLANKS, ISO, Reading
from dpcube.errors import InputError

NO_CELL = -1
LONGEST_TEXT = 1000  # characters of text that is read as a number or a date
_PLAIN = "(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
_NUMBER = re.compile(f"[{BLANKS}]*[+-]?(?:{_PLAIN}|inf(?:inity)?|nan)[{BLANKS}]*", re.IGNORECASE)
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    _DAY.pattern + "(?:[tT ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[zZ]|[+-][0-9:]{2,5})?)?"
)


def table_of(rows: object) -> pa.Table:
    """Return rows as an Arrow table: an Arrow, pandas or Polars table, or columns by name; InputError otherwise."""
    with suppress(pa.ArrowException, TypeError, ValueError):
        return rows if isinstance(rows, pa.Table) else pa.table(rows)
    msg = "rows must be a table with named columns (Arrow, pandas, Polars) or a mapping of names to lists, "
    msg += f"got a {type(rows).__name__}"
    raise InputError(msg)


def cells_of_rows(attributes: Sequence[Attribute], rows: object) -> Ints:
    """Return the cell of each row along each attribute, shape (rows, attributes); NO_CELL for values that have none."""
    table = table_of(rows)
    names = set(table.column_names)
    columns = [one.source_column if one.source_column in names else one.name for one in attributes]
    if missing := [name for name in columns if table.column_names.count(name) != 1]:
        msg = f"the rows must have one column '{missing[0]}'; their columns are {listing(table.column_names)}"
        raise InputError(msg)
    cells = [cells_of(one, table.column(name)) for one, name in zip(attributes, columns, strict=True)]
    return np.stack(cells, axis=1) if cells else np.zeros((len(table), 0), np.int64)


def cells_of(attribute: Attribute, column: pa.ChunkedArray) -> Ints:
    """Return the cell of each value of a column."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if attribute.scale == "position":
        return _by_text(column, _category(attribute))
    reads_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if reads_text or pa.types.is_string_view(column.type) or (pa.types.is_integer(column.type) and _dated(attribute)):
        return _by_text(column, _coordinate_cell(attribute))
    null = column.is_null().to_numpy()
    if attribute.scale == "day":
        return _binned(attribute, _days(attribute, column) + EPOCH, null)
    if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type) or _is_real(column.type)):
        msg = f"attribute '{attribute.name}' holds numbers, and its column holds {column.type}; cast the column"
        raise InputError(msg)
    return _binned(attribute, column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64), null)


def _is_real(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_null(type_))


def _dated(attribute: Attribute) -> bool:
    return attribute.scale == "day" and bool(attribute.reading.formats)


def _days(attribute: Attribute, column: pa.ChunkedArray) -> Floats:
    """Return days since 1970, NaN for null; of times with a zone they are in the attribute's zone, or UTC."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, attribute.zone or "UTC")))
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type) or pa.types.is_null(column.type)):
        msg = f"attribute '{attribute.name}' holds dates, and its column holds {column.type}; cast the column"
        raise InputError(msg)
    days = column.to_numpy().astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))


def _binned(attribute: Attribute, values: Floats, null: NDArray[np.bool_], unknown: object = False) -> Ints:
    """Return the cell of each coordinate; those that are null or unknown have any."""
    edges, last = attribute.bin_edges(), attribute.bins - 1
    found = np.minimum(np.searchsorted(edges, values, side="right") - 1, last)
    below_top = values <= edges[-1] if attribute.is_continuous else values < edges[-1]
    cells = np.where((values >= edges[0]) & below_top, found, NO_CELL)
    nearest = np.where(values < edges[0], 0, last)
    of_number = attribute.scale == "number"
    kinds = {"null": null, "unknown": np.broadcast_to(np.asarray(unknown), null.shape)}
    kinds |= {"nan": np.isnan(values) & of_number, "infinite": np.isinf(values) & of_number}
    left = cells == NO_CELL
    left |= kinds["null"] | kinds["unknown"]
    for kind, is_kind in (*kinds.items(), ("outside", np.ones(len(values), np.bool_))):
        cells[left & is_kind] = _own(attribute, kind, nearest[left & is_kind])
        left &= ~is_kind
    return cells


def _own(attribute: Attribute, kind: str, nearest: Ints) -> Ints | int:
    went = attribute.destination(kind)
    if went == "cell":
        return attribute.bins + attribute.own_cells.index(kind)
    return nearest if went == "clip" else NO_CELL


def _by_text(column: pa.ChunkedArray, cell: Callable[[str | None], int]) -> Ints:
    """Return the cell of each value by its text, read once for each that differs."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    read = np.array([cell(_text(value)) for value in encoded.dictionary.to_pylist()] or [NO_CELL], np.int64)
    return np.asarray(read[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)])


def _text(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _category(attribute: Attribute) -> Callable[[str | None], int]:
    reading = attribute.reading
    listed = {reading.folded(text): number for number, text in enumerate(attribute.texts())}
    words = {reading.folded(word): listed[reading.folded(value)] for word, value in reading.words}
    null, unknown = (int(_own(attribute, kind, np.array(NO_CELL))) for kind in ("null", "unknown"))

    def cell(text: str | None) -> int:
        trimmed = _trimmed(reading, text)
        if trimmed is None:
            return null
        return {**listed, **words}.get(reading.folded(trimmed), unknown)

    return cell


def _coordinate_cell(attribute: Attribute) -> Callable[[str | None], int]:
    read: Callable[[Attribute, str], float | None] = _number if attribute.scale == "number" else _day

    def cell(text: str | None) -> int:
        trimmed = _trimmed(attribute.reading, text)
        value = None if trimmed is None or len(trimmed) > LONGEST_TEXT else read(attribute, trimmed)
        of = np.array([math.nan if value is None else value])
        return int(_binned(attribute, of, np.array([trimmed is None]), trimmed is not None and value is None)[0])

    return cell


def _trimmed(reading: Reading, text: str | None) -> str | None:
    """Return a text without the blanks around it if they are to be taken off; None for null's texts."""
    if text is not None and reading.trim:
        text = text.strip(BLANKS)
    return None if text is None or reading.folded(text) in set(map(reading.folded, reading.null_text)) else text


def _number(attribute: Attribute, text: str) -> float | None:
    reading = attribute.reading
    bare = _without_signs(reading, text.strip(BLANKS))
    if reading.thousands is not None and reading.thousands in bare:
        mark, point = re.escape(reading.thousands), re.escape(reading.decimal)
        if not re.match(f"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?![0-9{mark}])(?:{point}|[eE]|$)", bare):
            return None
        bare = bare.replace(reading.thousands, "")
    if reading.decimal != ".":
        bare = "?" if "." in bare else bare.replace(reading.decimal, ".")
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


def _day(attribute: Attribute, text: str) -> float | None:
    """Return the ordinal of the day that a text says."""
    bare, zone = text.strip(BLANKS), ZoneInfo(attribute.zone or "UTC")
    for form in attribute.reading.formats:
        with suppress(ValueError):
            made = _moment(bare) if form == ISO else datetime.strptime(bare, form)
            return float((made if made.tzinfo is None else made.astimezone(zone)).toordinal())
    if _DAY.fullmatch(bare) and bare.isascii():
        with suppress(ValueError):
            return float(date.fromisoformat(bare).toordinal())
    return None


def _moment(text: str) -> datetime:
    """Return a date alone or with a time; ValueError for the other forms that Python has for them."""
    if not _MOMENT.fullmatch(text) or not text.isascii():
        raise ValueError
    return datetime.fromisoformat(text.upper())


def no_cell_words(attributes: Sequence[Attribute], cells: Ints) -> Mapping[str, int]:
    """Return how many values of each attribute have no cell, where any have none."""
    lost = (cells == NO_CELL).sum(axis=0).tolist()
    return {one.name: number for one, number in zip(attributes, lost, strict=True) if number}
