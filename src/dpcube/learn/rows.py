"""Binning of an analyst's own rows: the cell of each value of a column.

A private table is counted elsewhere, by SQL (`curator/sources`), where no value may show; here values may, and the
rules are the same: what a domain declares of text, of irregular values and of bins. A test compares the two.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Attribute
from dpcube.core.domain.attribute import EPOCH, listing
from dpcube.core.domain.limits import MAX_PARSED_TEXT
from dpcube.core.domain.reading import BLANKS, Reading
from dpcube.core.domain.written import TypedValues, null_values, typed
from dpcube.core.errors import InputError

NO_CELL = -1


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
    """Return the cell of each value of a column, whatever its type: a value is read alike as a number and as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    types = pa.types
    if attribute.scale == "position":
        return _by_text(column, _category(attribute))
    dated = attribute.scale == "day"
    numeric = types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)
    if types.is_null(column.type) or (dated and (types.is_date(column.type) or types.is_timestamp(column.type))):
        days = _days(attribute, column)
        return _binned(attribute, days + EPOCH, column.is_null().to_numpy())
    if not dated and (numeric or types.is_boolean(column.type)):
        numbers = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
        return _binned(attribute, numbers, column.is_null().to_numpy())
    return _by_text(column, _coordinate_cell(attribute))


def _days(attribute: Attribute, column: pa.ChunkedArray) -> Floats:
    """Return days since 1970, NaN for null; of times with a zone they are in the attribute's zone, or UTC."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, attribute.zone or "UTC")))
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
    nulls = np.array(null_values(attribute)) + attribute.origin
    null = null | np.isin(values, nulls) | (np.isnan(values) & np.isnan(nulls).any() & ~np.asarray(unknown))
    cells[null] = NO_CELL
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
    """Return the text of a value; of a whole number its digits, of a time its ISO form."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _category(attribute: Attribute) -> Callable[[str | None], int]:
    reading = attribute.reading
    listed = {reading.folded(text): number for number, text in enumerate(attribute.texts())}
    words = {reading.folded(word): listed[reading.folded(value)] for word, value in reading.words}
    meant, written = {**listed, **words}, TypedValues.from_attribute(attribute).positions
    null, unknown = (int(_own(attribute, kind, np.array(NO_CELL))) for kind in ("null", "unknown"))

    def cell(text: str | None) -> int:
        trimmed = _trimmed(reading, text)
        if trimmed is None:
            return null
        if (position := meant.get(reading.folded(trimmed))) is not None:
            return position
        value = typed(trimmed)
        position = None if value is None else written.get(value)
        return unknown if position is None else null if position >= attribute.bins else position

    return cell


def _coordinate_cell(attribute: Attribute) -> Callable[[str | None], int]:
    def cell(text: str | None) -> int:
        trimmed = _trimmed(attribute.reading, text)
        value = None if trimmed is None or len(trimmed) > MAX_PARSED_TEXT else attribute.parsed(trimmed)
        of = np.array([math.nan if value is None else value])
        return int(_binned(attribute, of, np.array([trimmed is None]), trimmed is not None and value is None)[0])

    return cell


def _trimmed(reading: Reading, text: str | None) -> str | None:
    """Return a text without the blanks around it if they are to be taken off; None for null's texts."""
    if text is not None and reading.trim:
        text = text.strip(BLANKS)
    return None if text is None or reading.folded(text) in set(map(reading.folded, reading.null_text)) else text


def no_cell_words(attributes: Sequence[Attribute], cells: Ints) -> Mapping[str, int]:
    """Return how many values of each attribute have no cell, where any have none."""
    lost = (cells == NO_CELL).sum(axis=0).tolist()
    return {one.name: number for one, number in zip(attributes, lost, strict=True) if number}
