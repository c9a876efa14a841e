"""pandas and Polars reader: frames converted to Arrow batches on demand. Neither library is imported.

A pandas column of Python objects is read as text, each object by the same rule whatever the others are (`objects.py`):
Arrow and the engine would infer a type from some of them and raise on the rest. NaN means missing in pandas, and is
null. Privacy units are distinguished by the objects themselves, as values of any other column are (`unit.py`).

No column is refused for its type, because one row decides what a library infers: durations with one text among them are
objects. A column of a type without scalar values (durations, complex numbers, lists) is read as those objects are.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpcube.core.sources import objects, unit
from dpcube.core.sources.sql import kind
from dpcube.core.sources.table import Table, kept_rows, streamed_table

Convert = Callable[[Any], pa.Array]
Forms = Callable[[Any], tuple[pa.Array, pa.Array]]  # of privacy units, and a mask of rows that have one or are null


def pandas_table(frame: Any) -> Table:
    """Return a table that reads a pandas DataFrame; its index is left out."""
    names = [str(name) for name in frame.columns]
    return _table(
        "the pandas frame", names, frame[:0], lambda i: frame.iloc[:, list(i)], _from_pandas, _forms_of_pandas
    )


def polars_table(frame: Any) -> Table:
    """Return a table that reads a Polars DataFrame, or collects the requested columns of a LazyFrame."""
    lazy = frame.lazy()
    empty = lazy.clear().collect()
    names = empty.columns
    return _table(
        "the Polars frame",
        names,
        empty,
        lambda i: lazy.select([names[j] for j in i]).collect(),
        _from_polars,
        _forms_of_polars,
    )


def _table(
    owner: str,
    names: Sequence[str],
    empty: Any,
    select: Callable[[Sequence[int]], Any],
    convert: Convert,
    forms: Forms,
) -> Table:
    def parts(columns: Sequence[int], of: int | None) -> Iterable[pa.RecordBatch]:
        asked = sorted({*columns, *(() if of is None else (of,))})
        series = dict(zip(asked, _columns(select(asked)), strict=True))
        arrays = {f"c{i}": convert(series[i]) for i in columns}
        kept = None
        if of is not None:
            arrays["u"], kept = forms(series[of])
        table = pa.table(arrays)
        yield from (table if kept is None else kept_rows(table, kept)).to_batches()

    types = [convert(series).type for series in _columns(empty)]
    return streamed_table(owner, pa.schema(list(zip(names, types, strict=True))), parts)


def _columns(frame: Any) -> list[Any]:
    return [frame.iloc[:, i] if hasattr(frame, "iloc") else frame[:, i] for i in range(frame.shape[1])]


def _from_polars(series: Any) -> pa.ChunkedArray:
    typed = _typed_in_polars(series)
    return pa.chunked_array([_texts(series.to_list())]) if typed is None else typed


def _typed_in_polars(series: Any) -> pa.ChunkedArray | None:
    """Return the values of a column as Arrow has them, None if they are read one by one."""
    if str(series.dtype) == "Object":  # Polars would export memory addresses
        return None
    if "Int128" in str(series.dtype):  # inferred for long numbers, and no type of Arrow: read their digits as text
        series = series.cast(import_module("polars").String)
    with suppress(pa.ArrowException):
        made = pa.chunked_array(series)
        return None if kind(made.type) is None else made
    return None


def _forms_of_polars(series: Any) -> tuple[pa.Array | pa.ChunkedArray, pa.Array | pa.ChunkedArray]:
    if (typed := _typed_in_polars(series)) is not None:
        return _forms(typed)
    if str(series.dtype).startswith("Duration"):  # Python's durations are of whole microseconds
        physical = pa.chunked_array(series.to_physical()).combine_chunks()
        return _with_form(physical.cast(pa.string()).cast(pa.large_binary()))
    return _with_form(_forms_of_each(series.to_list()))


def _from_pandas(series: Any) -> pa.Array:
    dtype = str(series.dtype)
    if dtype == "category":
        return pa.DictionaryArray.from_arrays(_codes(series), _texts(series.cat.categories))
    if (typed := _typed_in_pandas(series)) is not None:
        return typed
    return _texts(series).cast(pa.large_string()) if dtype in ("str", "string") else _texts(series)


def _typed_in_pandas(series: Any) -> pa.Array | None:
    """Return the values of a column as Arrow has them, None if they are read one by one."""
    dtype = str(series.dtype)
    if dtype == "object":
        return None
    if dtype in ("str", "string"):
        with suppress(UnicodeEncodeError):  # a lone surrogate
            return pa.array(series, pa.large_string(), from_pandas=True)
        return None
    with suppress(pa.ArrowException, TypeError):
        made = pa.array(series, from_pandas=True)
        return None if kind(made.type) is None else made
    return None


def _forms_of_pandas(series: Any) -> tuple[pa.Array, pa.Array | None]:
    if str(series.dtype) == "category":
        return _with_form(_forms_of_each(series.cat.categories).take(_codes(series)))
    typed = _typed_in_pandas(series)
    return _with_form(_forms_of_each(series)) if typed is None else _forms(typed)


def _with_form(forms: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return forms, and a mask of the rows that have one or are null."""
    none = pa.scalar(unit.NONE, pa.large_binary())
    return forms, pc.fill_null(pc.not_equal(forms, none), fill_value=True)


def _forms(array: pa.Array | pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    made = [unit.form(chunk) for chunk in chunks]
    forms = pa.chunked_array([forms for forms, _ in made], unit.form_type(array.type))
    return forms, pa.chunked_array([named for _, named in made], pa.bool_())


def _codes(series: Any) -> pa.Array:
    return pa.array(series.cat.codes.to_numpy(), pa.int32(), mask=series.isna().to_numpy())


def _forms_of_each(values: Any) -> pa.Array:
    return _of_each(values, objects.object_form, pa.large_binary())


def _texts(values: Any) -> pa.Array:
    return _of_each(values, objects.text, pa.string())


def _of_each(values: Any, read: Callable[[object], Any], type_: pa.DataType) -> pa.Array:
    missing = _missing(values)
    return pa.array([None if no else read(value) for value, no in zip(values, missing, strict=True)], type_)


def _missing(values: Any) -> Any:
    if isinstance(values, list):
        return [value is None for value in values]
    try:
        return values.isna()
    except ArithmeticError:  # a signalling NaN cannot be compared; it is missing like any other NaN
        quiet = [None if isinstance(value, Decimal) and value.is_snan() else value for value in values]
        return type(values)(quiet, dtype=object).isna()
