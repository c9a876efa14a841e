"""A value is read alike whatever type a library infers for its column, so that no row decides how the others are read.

Two ways to see it: values written in every type that holds them, and files that libraries read with and without one row
more, which changes the type of a column for all the others.
"""

import io
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import SourceError
from dpcube.core.sources import open_rows
from nightly import at_night

RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
ANYTHING: dict[str, Any] = {"null": "cell", "unknown": "cell"}
OWN: dict[str, Any] = {**ANYTHING, "outside": "cell"}
NUMBER: dict[str, Any] = {**OWN, "nan": "cell", "infinite": "cell"}

ATTRIBUTES: dict[str, Attribute] = {
    "codes": Category("x", ["1", "2", "3", "4"], **ANYTHING),
    "codes with zeros": Category("x", ["01", "02", "03", "10"], **ANYTHING),
    "many codes": Category("x", [f"{i:05}" for i in range(300)], **ANYTHING),
    "fractions": Category("x", ["0.5", "1", "1.50", "-2", "inf", "nan"], **ANYTHING),
    "many fractions": Category("x", [f"{i / 4}" for i in range(90)], **ANYTHING),
    "large codes": Category("x", ["12345678901234567", "9007199254740991"], **ANYTHING),
    "codes of 20 digits": Category("x", ["54220301558262534414", "18446744073709551615"], **ANYTHING),
    "booleans": Category("x", ["True", "False"], **ANYTHING),
    "words for booleans": Category("x", ["true", "false"], true=["1", "yes"], false=["0", "no"], **ANYTHING),
    "null code": Category("x", ["1", "2"], null_text=["-9", "n/k", "NA"], **ANYTHING),
    "days listed": Category("x", ["2026-01-31", "2026-02-01", "other"], **ANYTHING),
    "times listed": Category("x", ["08:30", "09:00", "23:59:59"], **ANYTHING),
    "texts": Category("x", ["a", "B", "n/k", ""], **ANYTHING),
    "whole": Integer("x", 0, 59, width=7, **NUMBER),
    "whole with null": Integer("x", -10, 99, width=10, null_text=["-9", "99", "n/k"], **NUMBER),
    "large": Integer("x", edges=(0, 2**52, 2**53 - 1), **NUMBER),
    "real": Float("x", 0, 2, width=0.5, **NUMBER),
    "real with a comma": Float("x", 0, 60, width=1.5, decimal=",", suffix="%", **NUMBER),
    "months": Date("x", "2026-01-15", "2026-04-02", every="month", **OWN),
    "days with null": Date("x", "2026-01-15", "2026-04-02", null_text=["2026-02-01", "1900-01-01"], **OWN),
    "written days": Date("x", "2026-01-15", "2026-04-02", every="week", format=["%d.%m.%Y", "%Y%m%d"], **OWN),
    "zoned": Date("x", "2026-01-15", "2026-04-02", zone="Asia/Tokyo", **OWN),
}

# Each value, as columns of different types hold it.
NAIVE = (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"))
DECIMALS = (pa.decimal128(20, 3), pa.decimal256(60, 20))
WHOLE = (pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), *DECIMALS)
LONG = (pa.float64(), pa.decimal128(20), pa.decimal128(38), pa.decimal128(24, 3), *DECIMALS[1:])


def _in_python(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_decimal(type_):
        return Decimal(str(value))
    return float(value) if pa.types.is_floating(type_) else value


def written(value: Any, *texts: str, types: tuple[pa.DataType, ...]) -> list[pa.Array]:
    typed = [pa.array([_in_python(value, type_)], type_) for type_ in types]
    encoded = [text.encode() for text in texts]
    return [*typed, *(pa.array([t]) for t in texts), *(pa.array([e], pa.binary()) for e in encoded)]


def day(text: str) -> list[pa.Array]:
    value = date.fromisoformat(text)
    moment = datetime(value.year, value.month, value.day)
    midnight = (f"{text} 00:00:00", f"{text}T00:00", f"{text} 00:00:00.000")
    days = [pa.array([value], type_) for type_ in (pa.date32(), pa.date64())]
    return [*days, *written(moment, text, *midnight, types=NAIVE)]


VALUES: dict[str, list[pa.Array]] = {
    "three": written(3, "3", "3.0", "03", "+3", "3e0", " 3 ", types=WHOLE),
    "one": written(1, "1", "1.0", "01", "00001", types=(*WHOLE, pa.uint64())),
    "nothing": written(0, "0", "0.0", "-0", "00", types=WHOLE),
    "a null's code": written(-9, "-9", "-9.0", "-09", types=WHOLE),
    "a large code": written(2**53 - 1, "9007199254740991", "9007199254740991.0", types=(pa.int64(), pa.float64())),
    "20 digits": written(54220301558262534414, "54220301558262534414", "54220301558262534414.0", types=LONG),
    "64 bits": written(2**64 - 1, "18446744073709551615", types=(pa.uint64(), *LONG)),
    "a half": written(0.5, "0.5", ".5", "5e-1", types=(pa.float32(), pa.float64())),
    "one and a half": written(1.5, "1.5", "1.50", types=(pa.float32(), pa.float64(), *DECIMALS)),
    "infinity": written(np.inf, "inf", "Infinity", types=(pa.float32(), pa.float64())),
    "no number": written(np.nan, "nan", "NaN", types=(pa.float32(), pa.float64())),
    "yes": written(True, "True", "true", "TRUE", types=(pa.bool_(),)),
    "no": written(False, "False", "false", "FALSE", types=(pa.bool_(),)),
    "a day": day("2026-01-31"),
    "another day": day("2026-02-01"),
    "a moment": written(datetime(2026, 2, 1, 8, 30), "2026-02-01 08:30", "2026-02-01T08:30:00.0", types=NAIVE),
    "a moment in UTC": [
        *(
            pa.array([datetime(2026, 1, 31, 15, 30)]).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, "UTC"))
            for unit in ("s", "ns")
        ),
        *(pa.array([text]) for text in ("2026-01-31T15:30Z", "2026-01-31 16:30+01:00", "2026-02-01 00:30:00+0900")),
    ],
    "a time": written(time(8, 30), "08:30", "08:30:00", types=(pa.time32("s"), pa.time32("ms"), pa.time64("ns"))),
    "a digit's day": written(20260131, "20260131", "20260131.0", types=(pa.int64(), pa.float64())),
    "missing": [
        pa.array([None], type_) for type_ in (pa.null(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32())
    ],
}


def cells(source: Any, rows: int = 1) -> list[dict[str, int]]:
    """The cell of each row on the axis of every attribute, which all read the column x; none drops a row."""
    axes = [replace(attribute, name=name, column="x") for name, attribute in ATTRIBUTES.items()]
    codes, counts = open_rows(source).count_alike(Domain(Integer("row", 0, max(rows - 1, 1), outside="cell"), *axes))
    assert counts.tolist() == [1] * len(counts)
    order = np.argsort(codes[0])[:rows]
    assert codes[0][order].tolist() == [*range(rows)]
    return [{name: int(code[place]) for name, code in zip(ATTRIBUTES, codes[1:], strict=True)} for place in order]


def together(value: str) -> list[pa.Array]:
    """The columns of a value: one of each type, of text with a row for each way to write it."""
    arrays = VALUES[value]
    types = list(dict.fromkeys(array.type for array in arrays))
    return [pa.concat_arrays([array for array in arrays if array.type == type_]) for type_ in types]


def sources_of(column: pa.Array, folder: Path) -> list[Callable[[], Any]]:
    """Ways to hold a column, of which the first is an Arrow table."""
    table = pa.table({"x": column, "row": range(len(column))})

    def parquet() -> Path:
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"

    ways: list[Callable[[], Any]] = [lambda: table, parquet, lambda: table.to_pandas(types_mapper=pd.ArrowDtype)]
    missing = column.null_count or (pa.types.is_floating(column.type) and np.isnan(column[0].as_py()))
    if not missing:  # in pandas NaN is null
        ways += [table.to_pandas, lambda: table.to_pandas().astype({"x": object})]
    if not pa.types.is_time(column.type) and not pa.types.is_decimal256(column.type):  # which Polars has not, or rounds
        ways.append(lambda: pl.from_arrow(table))
    return ways


@cache
def cells_of(value: str) -> dict[str, int]:
    """The cells of a value, by its last column: text, if it is written as such."""
    column = together(value)[-1]
    return cells(pa.table({"x": column, "row": range(len(column))}), len(column))[0]


ABSENT = ("missing", "no number")
"""For them libraries change a column's type."""


def every_type(without: Collection[str] = ABSENT) -> dict[pa.DataType, list[tuple[str, pa.Array]]]:
    """Each type, with the values that it holds and how."""
    held: dict[pa.DataType, list[tuple[str, pa.Array]]] = {}
    for value in VALUES:
        for column in together(value) if value not in without else ():
            held.setdefault(column.type, []).append((value, column))
    return held


def joined(held: list[tuple[str, pa.Array]]) -> tuple[pa.Array, list[dict[str, int]]]:
    """One column of all values that a type holds, and the cells of each row."""
    expected = [cells_of(value) for value, column in held for _ in range(len(column))]
    return pa.concat_arrays([column for _, column in held]), expected


@pytest.mark.slow
@pytest.mark.parametrize("type_", every_type(), ids=str)
def test_values_have_the_same_cells_in_columns_of_every_type(type_: pa.DataType, tmp_path: Path) -> None:
    """All values of a type in one column, in three of the forms that it has."""
    column, expected = joined(every_type()[type_])
    ways = sources_of(column, tmp_path)
    turn = list(every_type()).index(type_)
    for way in {0, 1 + turn % (len(ways) - 1), 1 + (turn + 2) % (len(ways) - 1)}:
        source = ways[way]()
        assert cells(source, len(column)) == expected, type(source)


@pytest.mark.slow
@pytest.mark.parametrize("value", [value if value in ABSENT else at_night(value) for value in VALUES])
def test_a_value_has_one_cell_in_columns_of_every_type(value: str, tmp_path: Path) -> None:
    """The same of a value by itself, which may be all that a library sees of a column."""
    columns = together(value)
    expected = cells(pa.table({"x": columns[-1], "row": range(len(columns[-1]))}), len(columns[-1]))[0]
    for turn, column in enumerate(columns):
        ways = sources_of(column, tmp_path)
        for way in (ways[0], ways[1 + turn % (len(ways) - 1)]):
            source = way()
            assert cells(source, len(column)) == [expected] * len(column), (column.type, type(source))


@pytest.mark.parametrize("value", VALUES)
def test_a_value_names_one_unit_in_columns_of_every_type(value: str, tmp_path: Path) -> None:
    """Of a value twice, one row is kept, none, or both if it is missing: alike in columns of every type."""
    domain = Domain(Integer("v", 0, 1))

    def kept(source: pa.Table) -> int:
        return int(open_rows(source).limit("x", max_rows=1, null="each").count_cells(domain).sum())

    columns = VALUES[value]
    pairs = [pa.table({"x": pa.concat_arrays([column, column]), "v": [0, 1]}) for column in columns]
    assert len({kept(pair) for pair in pairs}) == 1
    texts = [column.cast(pa.binary()) for column in columns if pa.types.is_string(column.type)]
    together = pa.table({"x": pa.concat_arrays([*texts, *texts]), "v": [0] * len(texts) * 2}) if texts else pairs[0]
    assert kept(together) == (len(together) if kept(pairs[0]) == 2 else kept(pairs[0]))


OCTETS = [b"a", "\u00e4".encode(), b"\xff", None, b"a" * 3_000_000]
TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def text_column(type_: pa.DataType) -> pa.Array:
    """Text that is not all UTF-8, in a type of text or a dictionary of it."""
    if pa.types.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 4], pa.int8()), text_column(type_.value_type))
    if pa.types.is_string_view(type_):
        return pa.array(OCTETS, pa.binary_view()).cast(type_, safe=False)
    plain = pa.array(OCTETS, pa.large_binary() if pa.types.is_large_string(type_) else pa.binary())
    return plain.cast(type_) if type_ in TEXT_TYPES[3:] else plain.view(type_)


@pytest.mark.parametrize("values", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("unit", [None, "who"])
def test_text_of_every_type_has_the_same_cells_with_a_unit_and_without(values: pa.DataType, unit: str | None) -> None:
    """Arrow has no filter for some of them, which Polars has for all text."""
    domain = Domain(Category("x", ["a", "\u00e4"], **ANYTHING))
    for type_ in (values, pa.dictionary(pa.int8(), values)):
        table = pa.table({"x": text_column(type_), "who": range(len(OCTETS))})
        stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
        for source in (table, stream, pl.from_arrow(table), table.to_pandas(types_mapper=pd.ArrowDtype)):
            rows = open_rows(source)
            limited = rows if unit is None else rows.limit(unit, max_rows=1)
            assert limited.count_cells(domain).tolist() == [1, 1, 1, 2], (type_, type(source))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_and_postgresql_read_alike_too(spark: Any, postgres: str, tmp_path: Path) -> None:
    import psycopg

    postgres_types = {pa.int32(): "integer", pa.int64(): "bigint", pa.float64(): "double precision"}
    postgres_types |= {pa.bool_(): "boolean", pa.string(): "text", pa.date32(): "date", pa.timestamp("us"): "timestamp"}
    spoken = {*postgres_types, pa.decimal128(20, 3)} - {pa.int32()}
    compared = 0
    for type_, held in ((type_, held) for type_, held in every_type(without=()).items() if type_ in spoken):
        column, every = joined(held)
        pq.write_table(pa.table({"x": column, "row": range(len(column))}), tmp_path / "t.parquet")
        assert cells(spark.read.parquet(str(tmp_path / "t.parquet")), len(column)) == every, type_
    with psycopg.connect(postgres, autocommit=True) as connection:
        for value in VALUES:
            expected = cells_of(value)
            for column in (column for column in together(value) if column.type in postgres_types):
                connection.execute("DROP TABLE IF EXISTS alike")
                connection.execute(f"CREATE TABLE alike (x {postgres_types[column.type]})")
                connection.execute(
                    f"INSERT INTO alike VALUES (CAST(%s AS {postgres_types[column.type]}))", column.to_pylist()[:1]
                )
                for name in ("codes with zeros", "fractions", "booleans", "null code", "whole with null", "months"):
                    with suppress(SourceError):  # by a type that is declared, and no row can change
                        counts = open_rows(f"{postgres}#alike").count_cells(Domain(ATTRIBUTES[name]))
                        assert int(np.argmax(counts)) == expected[name], (value, column.type, name)
                        compared += 1
        connection.execute("DROP TABLE IF EXISTS alike")
    assert compared > 100


# Files that libraries read, with and without one row.

TEXTS: dict[str, list[str]] = {
    "codes": ["1", "2", "3", "4"],
    "padded codes": ["01", "02", "03", "10"],
    "whole": ["0", "7", "12", "-9", "59", "99"],
    "real": ["0.5", "1.25", "2", "7.0", "1e1"],
    "booleans": ["True", "False"],
    "small booleans": ["true", "false"],
    "days": ["2026-01-31", "2026-02-01", "2026-03-15"],
    "moments": ["2026-01-31 23:30:00", "2026-02-01 00:00:00", "2026-03-15 08:30:00"],
    "times": ["08:30", "09:00"],
    "ids": ["1", "2", "3", "17", "9007199254740991"],
    "long ids": ["12345678901234567", "12345678901234568", "12345678901234569"],
    "words": ["a", "B", "n/k"],
}
ONE_MORE = [
    "",
    "n/k",
    "3.5",
    "1e400",
    "12345678901234567890123",
    "True",
    "2026-02-01",
    "2026-02-01 10:00:00",
    "08:30",
    "ü",
    "-9",
]


def read_by_pandas(text: str) -> Any:
    return pd.read_csv(io.StringIO(text))


def read_by_pandas_with_dates(text: str) -> Any:
    return pd.read_csv(io.StringIO(text), parse_dates=["x"], date_format="ISO8601")


def read_by_pandas_as_objects(text: str) -> Any:
    return pd.read_csv(io.StringIO(text)).astype(object)


def read_by_polars(text: str) -> Any:
    return pl.read_csv(io.StringIO(text), try_parse_dates=True, infer_schema_length=None)


def read_by_arrow(text: str) -> Any:
    return pacsv.read_csv(io.BytesIO(text.encode()))


def parquet_of_pandas(text: str, folder: Path) -> Any:
    frame = pd.read_csv(io.StringIO(text))
    try:
        frame.to_parquet(folder / "inferred.parquet")
    except OverflowError:  # Arrow has no type for integers beyond 64 bits among other objects
        return frame
    return folder / "inferred.parquet"


READERS: dict[str, Callable[[str], Any]] = {
    "pandas": read_by_pandas,
    "pandas with dates": read_by_pandas_with_dates,
    "pandas objects": read_by_pandas_as_objects,
    "polars": read_by_polars,
    "pyarrow": read_by_arrow,
}


def file_of(values: list[str]) -> str:
    lines = [f"{value},{number}" for number, value in enumerate(values)]
    return "\n".join(["x,row", *lines, ""])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "step"),
    [*((reader, 3) for reader in (*READERS, "parquet")), at_night("pandas", 1), at_night("pyarrow", 1)],
)
def test_one_row_more_leaves_the_others_where_they_are(reader: str, step: int, tmp_path: Path) -> None:
    read = READERS.get(reader) or partial(parquet_of_pandas, folder=tmp_path)
    for name, texts in TEXTS.items():
        before = cells(read(file_of(texts)), len(texts))
        for more in ONE_MORE[len(reader) % 3 :: step]:
            assert cells(read(file_of([*texts, more])), len(texts)) == before, (name, more)


@pytest.mark.parametrize("reader", [*READERS, "parquet"])
@settings(max_examples=12, deadline=None, suppress_health_check=RELAXED)
@given(name=st.sampled_from([*TEXTS]), more=st.sampled_from(ONE_MORE), many=st.integers(1, 3))
def test_one_row_more_leaves_the_others_to_whom_they_belong(
    reader: str, name: str, more: str, many: int, tmp_path: Path
) -> None:
    texts = TEXTS[name] * many
    read = READERS.get(reader) or partial(parquet_of_pandas, folder=tmp_path)
    sizes = []
    for values in (texts, [*texts, more]):
        rows = open_rows(read(file_of(values))).limit("x", max_rows=1)
        sizes.append(int(rows.count_cells(Domain(Integer("row", 0, len(values)))).sum()))
    assert sizes[1] - sizes[0] in (0, 1)


@pytest.mark.parametrize(
    ("attribute", "same"),
    [
        (Category("x", ["3", "03"]), "'3' and '03' denote one value"),
        (Category("x", ["true"], null_text=["TRUE"]), "'true' and 'TRUE' denote one value"),
        (Float("x", 0, 9, width=1, decimal=",", thousands="."), "1.234 is ambiguous"),
    ],
)
def test_what_types_would_not_tell_apart_is_refused_whatever_the_type(
    attribute: Attribute, same: str, tmp_path: Path
) -> None:
    """The refusal depends on the declaration alone; a file whose fields are text tells the two apart."""
    for column in ([1], [1.5], ["a"], [True], [date(2026, 1, 1)], [None], [Decimal(1)]):
        for rows in (column, []):
            with pytest.raises(SourceError, match=same):
                open_rows(pa.table({"x": pa.array(rows, pa.array(column).type)})).count_cells(Domain(attribute))
    (tmp_path / "t.csv").write_text("x\n3\n03\ntrue\nTRUE\n")
    assert open_rows(tmp_path / "t.csv").count_cells(Domain(attribute)).sum() > 0
