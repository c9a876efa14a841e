"""pandas and Polars reader: frames converted to Arrow batches on demand. Neither library is imported.

A pandas column of Python objects is read as text, each object by the same rule whatever the others are (`objects.py`):
Arrow and the engine would infer a type from some of them and raise on the rest. NaN means missing in pandas, and is
null. Privacy units are distinguished by the objects themselves, as values of any other column are (`unit.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpcube.core.sources import objects, unit
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
        lambda series: _forms(_from_polars(series)),
    )


def _table(
    owner: str,
    names: Sequence[str],
    empty: Any,
    select: Callable[[Sequence[int]], Any],
    convert: Convert,
    forms: Forms,
) -> Table:
    def type_(series: Any) -> pa.DataType:
        try:
            return convert(series).type
        except (pa.ArrowException, TypeError):
            return pa.opaque(pa.null(), str(series.dtype), owner)  # which is refused if an attribute needs it

    def parts(columns: Sequence[int], of: int | None) -> Iterable[pa.RecordBatch]:
        asked = sorted({*columns, *(() if of is None else (of,))})
        series = dict(zip(asked, _columns(select(asked)), strict=True))
        arrays = {f"c{i}": convert(series[i]) for i in columns}
        kept = None
        if of is not None:
            arrays["u"], kept = forms(series[of])
        table = pa.table(arrays)
        yield from (table if kept is None else kept_rows(table, kept)).to_batches()

    types = map(type_, _columns(empty))
    return streamed_table(owner, pa.schema(list(zip(names, types, strict=True))), parts)


def _columns(frame: Any) -> list[Any]:
    return [frame.iloc[:, i] if hasattr(frame, "iloc") else frame[:, i] for i in range(frame.shape[1])]


def _from_polars(series: Any) -> pa.ChunkedArray:
    if str(series.dtype) == "Object":  # Polars would export memory addresses
        msg = "objects have no type"
        raise TypeError(msg)
    if "Int128" in str(series.dtype):  # inferred for long numbers, and no type of Arrow: read their digits as text
        series = series.cast(import_module("polars").String)
    return pa.chunked_array(series)


def _from_pandas(series: Any) -> pa.Array:
    kind = str(series.dtype)
    if kind == "category":
        return pa.DictionaryArray.from_arrays(_codes(series), _texts(series.cat.categories))
    if kind == "object":
        return _texts(series)
    if kind not in ("str", "string"):
        return pa.array(series, from_pandas=True)
    try:
        return pa.array(series, pa.large_string(), from_pandas=True)
    except UnicodeEncodeError:  # a lone surrogate
        return _texts(series).cast(pa.large_string())


def _forms_of_pandas(series: Any) -> tuple[pa.Array, pa.Array | None]:
    kind = str(series.dtype)
    if kind == "category":
        return _with_form(_forms_of_each(series.cat.categories).take(_codes(series)))
    if kind in ("str", "string"):
        with suppress(UnicodeEncodeError):  # a lone surrogate
            return _forms(pa.array(series, pa.large_string(), from_pandas=True))
    if kind in ("object", "str", "string"):
        return _with_form(_forms_of_each(series))
    return _forms(_from_pandas(series))


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
    try:
        return values.isna()
    except ArithmeticError:  # a signalling NaN cannot be compared; it is missing like any other NaN
        quiet = [None if isinstance(value, Decimal) and value.is_snan() else value for value in values]
        return type(values)(quiet, dtype=object).isna()
