"""pandas and Polars frames enter, tables of Arrow batches leave, converted when asked for. Neither library is imported.

A pandas column of Python objects is read as text, each object by the same rule whatever the others are: Arrow and the
engine would guess a type from some of them and raise on the rest. NaN means missing in pandas, and is null.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpcube.curator.sources.table import Table, arrow_table

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # a text that no attribute knows
Convert = Callable[[Any], pa.Array]


def pandas_table(frame: Any) -> Table:
    """Return a table that reads a pandas DataFrame; its index is left out."""
    names = [str(name) for name in frame.columns]
    return _table("the pandas frame", names, frame[:0], lambda i: frame.iloc[:, list(i)], _from_pandas)


def polars_table(frame: Any) -> Table:
    """Return a table that reads a Polars DataFrame, or collects from a LazyFrame the columns asked for."""
    lazy = frame.lazy()
    empty = lazy.clear().collect()
    names = empty.columns
    return _table(
        "the Polars frame", names, empty, lambda i: lazy.select([names[j] for j in i]).collect(), pa.chunked_array
    )


def _table(
    owner: str, names: Sequence[str], empty: Any, select: Callable[[Sequence[int]], Any], convert: Convert
) -> Table:
    def type_(series: Any) -> pa.DataType:
        try:
            return convert(series).type
        except (pa.ArrowException, TypeError):
            return pa.opaque(pa.null(), str(series.dtype), owner)  # which is refused if an attribute needs it

    def batches(columns: Sequence[int]) -> Iterable[pa.RecordBatch]:
        arrays = [convert(series) for series in _columns(select(columns))]
        yield from pa.table(arrays, names=[f"c{i}" for i in columns]).to_batches()

    types = map(type_, _columns(empty))
    return arrow_table(owner, pa.schema(list(zip(names, types, strict=True))), batches)


def _columns(frame: Any) -> list[Any]:
    return [frame.iloc[:, i] if hasattr(frame, "iloc") else frame[:, i] for i in range(frame.shape[1])]


def _from_pandas(series: Any) -> pa.Array:
    kind = str(series.dtype)
    if kind == "category":
        codes = pa.array(series.cat.codes.to_numpy(), pa.int32(), mask=series.isna().to_numpy())
        return pa.DictionaryArray.from_arrays(codes, _texts(series.cat.categories))
    if kind == "object":
        return _texts(series)
    if kind not in ("str", "string"):
        return pa.array(series, from_pandas=True)
    try:
        return pa.array(series, pa.large_string(), from_pandas=True)
    except UnicodeEncodeError:  # a lone surrogate
        return _texts(series).cast(pa.large_string())


def _texts(objects: Any) -> pa.Array:
    missing = objects.isna()
    return pa.array([None if no else _text(value) for value, no in zip(objects, missing, strict=True)], pa.string())


def _text(value: object) -> str:
    """Return the text that the value would have in a column of its own type."""
    try:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, datetime):
            value = (value.astimezone(UTC) if value.tzinfo else value).date()
        if isinstance(value, str | int | float | Decimal | date):
            return str(value).encode("utf-8", "replace").decode("utf-8")
    except Exception:  # a number of thousands of digits, a time at the end of time, a class of the user's own
        return UNKNOWN
    return UNKNOWN
