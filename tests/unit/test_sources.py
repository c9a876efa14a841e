"""Every kind of source gives the same exact counts, and every value goes where its attribute declares."""

import gzip
import io
import math
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import DpcubeError, MemoryLimitError, SourceError
from dpcube.core.limits import MAX_LINE
from dpcube.core.sources import CsvDialect, Rows, counts_from_array, open_rows
from dpcube.curator.guess import Guess, read_by

DOMAIN = Domain(
    (
        Integer(name="age", min=0, max=99, width=7, null="cell", outside="clip"),
        Float(name="dose", min=-1.0, max=2.0, width=0.3, null="drop", outside="cell"),
        Category(name="ward", values=("north", "it's", "ü", "a,b"), null="cell", unknown="cell"),
        Date(name="seen", start=date(2024, 2, 10), end=date(2026, 1, 31), every="month", null="cell", outside="drop"),
    )
)


def make_table(rows: int = 500) -> pa.Table:
    rng = np.random.default_rng(20)
    missing = [rng.random(rows) < 0.1 for _ in range(4)]
    days = np.datetime64("2023-11-01") + rng.integers(0, 1000, rows)
    columns = {
        "age": pa.array(rng.integers(-20, 120, rows), pa.int64(), mask=missing[0]),
        "dose": pa.array(rng.uniform(-1.5, 2.5, rows).round(1), pa.float64(), mask=missing[1]),
        "ward": pa.array(
            rng.choice(["north", "it's", "ü", "a,b", "else", 'say "so"'], rows), pa.string(), mask=missing[2]
        ),
        "seen": pa.array(days.astype(object), pa.date32(), mask=missing[3]),
    }
    return pa.table(columns)


@cache
def edges_of(attribute: Attribute) -> list[float]:
    return [float(edge) for edge in attribute.bin_edges()]


def reference_cell(attribute: Attribute, value: Any) -> int | None:
    """Bin one Python value by hand."""
    if value is None:
        kind = "null"
    elif isinstance(attribute, Category):
        if value in attribute.values:
            return attribute.values.index(value)
        kind = "unknown"
    else:
        edges = edges_of(attribute)
        x = value.toordinal() if isinstance(value, date) else value
        if edges[0] <= x < edges[-1]:
            return bisect_right(edges, x) - 1
        if isinstance(attribute, Float) and x == edges[-1]:
            return attribute.bins - 1
        if attribute.outside == "clip":  # type: ignore[attr-defined]
            return 0 if x < edges[0] else attribute.bins - 1
        kind = "outside"
    own = attribute.own_cells
    return attribute.bins + own.index(kind) if kind in own else None


def reference_counts(table: pa.Table, domain: Domain) -> np.ndarray:
    counts = np.zeros(domain.shape, np.int64)
    for row in table.to_pylist():
        cell = tuple(reference_cell(attribute, row[attribute.name]) for attribute in domain.attributes)
        if None not in cell:
            counts[cell] += 1
    return counts


def csv_bytes(table: pa.Table, delimiter: str = ",") -> bytes:
    sink = io.BytesIO()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(delimiter=delimiter))
    return sink.getvalue()


def written(name: str, write: Callable[[pa.Table, Path], Any]) -> Callable[[pa.Table, Path], Path]:
    def make(table: pa.Table, folder: Path) -> Path:
        write(table, folder / name)
        return folder / name

    return make


def write_zst(table: pa.Table, path: Path) -> None:
    with pa.output_stream(str(path), compression="zstd") as stream:
        stream.write(csv_bytes(table))


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": written("t.csv", lambda t, p: p.write_bytes(csv_bytes(t))),
    "csv upper case": written("T.CSV", lambda t, p: p.write_bytes(csv_bytes(t))),
    "tsv": written("t.tsv", lambda t, p: p.write_bytes(csv_bytes(t, "\t"))),
    "csv.gz": written("t.csv.gz", lambda t, p: p.write_bytes(gzip.compress(csv_bytes(t)))),
    "csv.zst": written("t.csv.zst", write_zst),
    "parquet": written("t.parquet", pq.write_table),
    "parquet text path": lambda t, f: str(SOURCES["parquet"](t, f)),
    "parquet brotli": written("t.parquet.brotli", lambda t, p: pq.write_table(t, p, compression="brotli")),
    "parquet odd path": written("it's [a] *?.parquet", pq.write_table),
    "parquet dictionary": written("d.parquet", lambda t, p: pq.write_table(dictionary_encoded(t), p)),
    "arrow": lambda t, _: t,
    "arrow chunked": lambda t, _: pa.concat_tables([t[:7], t[7:7], t[7:]]),
    "arrow dictionary": lambda t, _: dictionary_encoded(t),
    "arrow views": lambda t, _: t.cast(t.schema.set(2, pa.field("ward", pa.string_view()))),
    "record batch": lambda t, _: (
        t.combine_chunks().to_batches()[0] if len(t) else pa.RecordBatch.from_pylist([], t.schema)
    ),
    "reader": lambda t, _: pa.RecordBatchReader.from_batches(t.schema, t.to_batches(max_chunksize=100)),
    "dataset": lambda t, f: pads.dataset(SOURCES["parquet"](t, f)),
    "pandas": lambda t, _: t.to_pandas(),
    "pandas arrow": lambda t, _: t.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas masked": lambda t, _: t.to_pandas().convert_dtypes(dtype_backend="numpy_nullable"),
    "pandas objects": lambda t, _: t.to_pandas().astype(object),
    "pandas categories": lambda t, _: t.to_pandas().astype("category"),
    "polars": lambda t, _: pl.from_arrow(t),
    "polars categories": lambda t, _: pl.from_arrow(t).with_columns(pl.col("ward").cast(pl.Categorical)),  # type: ignore[union-attr]
    "polars lazy": lambda t, _: pl.from_arrow(t).lazy(),  # type: ignore[union-attr]
}


def dictionary_encoded(table: pa.Table) -> pa.Table:
    return pa.table({name: table[name].dictionary_encode() for name in table.column_names})


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    table = make_table()
    rows = open_rows(SOURCES[kind](table, tmp_path))
    counts = rows.count_cells(DOMAIN)
    assert rows.columns == tuple(table.column_names)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, reference_counts(table, DOMAIN))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_a_table_without_rows_is_counted_like_any_other(kind: str, tmp_path: Path) -> None:
    rows = open_rows(SOURCES[kind](make_table()[:0], tmp_path))
    assert not rows.count_cells(DOMAIN).any()
    assert rows.count_cells(DOMAIN).shape == DOMAIN.shape if kind != "reader" else True


def one_column(values: Any, type_: pa.DataType | None, attribute: Attribute) -> list[int]:
    table = pa.table({"v": values if isinstance(values, pa.Array) else pa.array(values, type_)})
    counts: list[int] = open_rows(table).count_cells(Domain((attribute,))).tolist()
    return counts


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, [1, 1]),
        ({"null": "cell"}, [1, 1, 1]),
        ({"nan": "cell"}, [1, 1, 2]),
        ({"infinite": "cell"}, [1, 1, 4]),
        ({"infinite": "clip"}, [2, 4]),
        ({"unknown": "cell"}, [1, 1, 5]),
        ({"outside": "cell"}, [1, 1, 7]),
        ({"outside": "clip"}, [4, 5]),
        (
            {"null": "cell", "nan": "cell", "infinite": "cell", "unknown": "cell", "outside": "cell"},
            [1, 1, 1, 2, 4, 5, 7],
        ),
    ],
)
def test_irregular_numbers_go_where_they_are_declared(
    declared: dict[str, Any], expected: list[int], *, text: bool
) -> None:
    attribute = Float(name="v", min=0, max=2, width=1, **declared)
    inside, below, above = [0.5, 1.5], [-0.5, -1e9, -1e300], [2.5, 1e9, 1e300, 3]
    irregular = [math.nan, math.nan, -math.inf, math.inf, math.inf, math.inf]
    if text:
        values = [str(x) for x in inside + below + above] + [" nan ", "NaN", "-inf", "+inf", "1e400", "Infinity"]
        values += ["one", "0x1F", "∞", "1 2", ""]
        assert one_column([None, *values], pa.string(), attribute) == expected
    else:
        none_unknown = [
            n for n, kind in zip(expected, [None, None, *attribute.own_cells], strict=True) if kind != "unknown"
        ]
        got = one_column([None, *inside, *below, *above, *irregular], pa.float64(), attribute)
        assert [
            n for n, kind in zip(got, [None, None, *attribute.own_cells], strict=True) if kind != "unknown"
        ] == none_unknown


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int8(), [1, 2, 3, -128, 127]),
        (pa.uint8(), [1, 2, 3, 0, 255]),
        (pa.int64(), [1, 2, 3, -(2**63), 2**63 - 1]),
        (pa.uint64(), [1, 2, 3, 2**63, 2**64 - 1]),
        (pa.decimal128(38, 2), [Decimal(1), Decimal("2.99"), Decimal("3.5"), Decimal("-1e30"), Decimal("1e30")]),
        (pa.float16(), np.array([1, 2.5, 3.5, -np.inf, 65504], np.float16)),
        (pa.float32(), [1, 2.5, 3.5, -3e38, 3e38]),
        (pa.string(), ["1", "2", " 3 ", "-99999999999999999999999", "1e300"]),
        (pa.large_string(), ["1", "2.5", "3e0", "4", "-0"]),
        (pa.bool_(), [True, True, True, False, False]),
    ],
)
def test_numbers_of_every_type_are_binned(type_: pa.DataType, values: Any, tmp_path: Path) -> None:
    expected = [3, 0, 0] if pa.types.is_boolean(type_) else [1, 1, 1]
    attribute = Integer(name="v", min=1, max=3)
    assert one_column(values, type_, attribute) == expected
    pq.write_table(pa.table({"v": pa.array(values, type_)}), tmp_path / "t.parquet")
    assert open_rows(tmp_path / "t.parquet").count_cells(Domain((attribute,))).tolist() == expected


def test_a_fraction_falls_in_the_whole_number_bin_around_it() -> None:
    assert one_column([17.5, 16.999, 18.0, 18.999, 19.0], None, Integer(name="v", min=17, max=18)) == [1, 2]


def test_whole_numbers_beyond_doubles_are_not_rounded_onto_an_edge() -> None:
    attribute = Integer(name="v", min=2**53 - 2, max=2**53 - 1, outside="cell")
    assert one_column([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1], pa.int64(), attribute) == [0, 1, 3]
    assert one_column([2**53 - 2, 2**53, 2**64 - 1], pa.uint64(), attribute) == [1, 0, 2]
    assert one_column(["9007199254740991", "9007199254740992"], pa.string(), attribute) == [0, 1, 1]


def test_a_decimal_is_the_nearest_double() -> None:
    """As in the other engines, however many digits it has."""
    attribute = Float(name="v", edges=(0.0, 9007199254740990.0, 9007199254740991.0))
    values = [Decimal("9007199254740990.4999999999"), Decimal("9007199254740989.5000000001")]
    assert one_column(values, pa.decimal128(38, 10), attribute) == [0, 2]
    rng = np.random.default_rng(9)
    texts = [f"{a}.{b:010}" for a, b in zip(*rng.integers(0, 10**10, (2, 300)).tolist(), strict=True)]
    edges = tuple(sorted(map(float, texts)))
    counts = one_column(list(map(Decimal, texts)), pa.decimal128(38, 10), Float(name="v", edges=edges))
    assert counts == [1] * 298 + [2]


def test_only_the_last_bin_of_real_numbers_holds_its_upper_edge() -> None:
    assert one_column([0.0, 1.0, 2.0], None, Float(name="v", min=0, max=2)) == [1, 2]
    assert one_column([0.0, 1.0, 2.0], None, Float(name="v", edges=(0.0, 1.0, 2.0))) == [1, 2]
    assert one_column([0.0, 1.0, 2.0], None, Integer(name="v", edges=(0, 1, 2))) == [1, 1]


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        (pa.array([3, 4, None, -3]), ("3", "-3")),
        (pa.array([True, False, None, True]), ("true", "false")),
        (pa.array(["x", "y", None, "X"]).dictionary_encode(), ("x", "X")),
        (pa.array([1.5, 2.0, None, 7.25]), ("1.5", "7.25")),
        (pa.nulls(4), ("x", "y")),
    ],
)
def test_categories_match_text_exactly(values: pa.Array, listed: tuple[str, ...]) -> None:
    attribute = Category(name="v", values=listed, null="cell", unknown="cell")
    texts = [None if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in values.to_pylist()]
    expected = [texts.count(text) for text in listed] + [
        texts.count(None),
        sum(t is not None and t not in listed for t in texts),
    ]
    assert one_column(values, None, attribute) == expected


@pytest.mark.slow
def test_thousands_of_categories_are_looked_up() -> None:
    values = tuple(f"value '{i}'" for i in range(5000))
    rows = np.random.default_rng(5).integers(0, 6000, 20_000)
    counts = one_column([f"value '{i}'" for i in rows], None, Category(name="v", values=values))
    assert counts == np.bincount(rows, minlength=6000)[:5000].tolist()


MOMENTS = [datetime(2026, 1, 31, 23, 59, 59), datetime(2026, 2, 1), datetime(1969, 12, 31, 23, 0), None]
YEARS = Date(name="v", start=date(1960, 1, 1), end=date(2026, 1, 31), every="year", null="cell", outside="cell")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        *[(pa.timestamp(unit), MOMENTS) for unit in ("s", "ms", "us", "ns")],
        *[(pa.timestamp(unit, "UTC"), [m and m.replace(tzinfo=UTC) for m in MOMENTS]) for unit in ("s", "us")],
        (pa.timestamp("us", "Asia/Tokyo"), [m and m.replace(tzinfo=UTC) for m in MOMENTS]),
        (pa.date32(), [m and m.date() for m in MOMENTS]),
        (pa.date64(), [m and m.date() for m in MOMENTS]),
        (pa.string(), [m and f" {m.date().isoformat()} " for m in MOMENTS]),
    ],
)
def test_dates_and_times_of_every_type_are_binned_by_their_day_in_utc(
    type_: pa.DataType, values: Any, tmp_path: Path
) -> None:
    column = pa.array(values, type_)
    counts = one_column(column, None, YEARS)
    assert {i: n for i, n in enumerate(counts) if n} == {9: 1, 66: 1, 67: 1, 68: 1}
    pq.write_table(pa.table({"v": column}), tmp_path / "t.parquet")
    assert open_rows(tmp_path / "t.parquet").count_cells(Domain((YEARS,))).tolist() == counts


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ['say "hi"', "it's", "a.b", "select", "two words", "größe", "c1", "AGE", "a\nb", "v0", "%s{}"]
)
def test_odd_column_names_work(name: str, tmp_path: Path) -> None:
    table = pa.table({"age": [7, 7], name: [1, 2], "c0": [9, 9]})
    pq.write_table(table, tmp_path / "t.parquet")
    domain = Domain((Integer(name=name, min=0, max=3), Integer(name="age", min=7, max=7)))
    sources = [table, tmp_path / "t.parquet", table.to_pandas(), pl.from_arrow(table), table.to_reader()]
    if "\n" not in name:
        (tmp_path / "t.csv").write_bytes(csv_bytes(table))
        sources.append(tmp_path / "t.csv")
    for source in sources:
        assert open_rows(source).count_cells(domain).tolist() == [[0], [1], [1], [0]]


def test_rows_are_restricted_and_counted() -> None:
    table = make_table()
    plain = table.to_pylist()
    rows = open_rows(table)
    ward, age = DOMAIN["ward"], DOMAIN["age"]
    assert rows.count() == len(plain)
    for cells in ([0], [1, 4], [], list(range(ward.size))):
        part = rows.restrict(ward, cells)
        chosen = [row for row in plain if reference_cell(ward, row["ward"]) in cells]
        assert part.count() == len(chosen)
        assert part.restrict(age, [3]).count() == sum(reference_cell(age, row["age"]) == 3 for row in chosen)
        np.testing.assert_array_equal(
            part.count_cells(DOMAIN), reference_counts(pa.Table.from_pylist(chosen, table.schema), DOMAIN)
        )


def test_restricting_by_an_attribute_that_drops_rows_leaves_them_out() -> None:
    for attribute in (Integer(name="v", min=-5, max=-4), Integer(name="v", min=4, max=5)):
        inside = [attribute.min, attribute.max]
        table = pa.table({"v": pa.array([*inside, 9, None, -(2**63), 2**63 - 1])})
        assert open_rows(table).restrict(attribute, [0, 1]).count() == 2
        assert open_rows(table).restrict(attribute, [1]).restrict(attribute, [0, 1]).count() == 1
        with pytest.raises(SourceError, match="has no cell 2; its cells are 0 to 1"):
            open_rows(table).restrict(attribute, [2])


def test_types_come_from_the_schema() -> None:
    rows = open_rows(make_table())
    assert rows.types == {"age": "int64", "dose": "double", "ward": "string", "seen": "date32[day]"}
    assert rows.kinds == {"age": "integer", "dose": "real", "ward": "text", "seen": "date"}
    assert repr(rows) == "<private rows of the Arrow table>"


def test_values_for_drafts() -> None:
    table = make_table()
    rows = open_rows(table)
    present = {name: [value for value in table[name].to_pylist() if value is not None] for name in table.column_names}
    assert rows.distinct("ward", most=6) == sorted(set(present["ward"]))
    assert rows.distinct("ward", most=5) is None
    for name, held in (("age", "integer"), ("dose", "float"), ("seen", "date")):
        assert rows.extremes(read_by(name, Guess(held))) == (min(present[name]), max(present[name]))
    odd = pa.table(
        {"v": [math.nan, math.inf, -math.inf, 1e300], "d": pa.array([2**31 - 1] * 4, pa.int32()).view(pa.date32())}
    )
    assert open_rows(odd).extremes(read_by("v", Guess("float"))) is None
    assert open_rows(odd).extremes(read_by("d", Guess("date"))) is None


# What cannot be opened.


def check_error(error: DpcubeError) -> None:
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("t.xlsx", r"t\.xlsx has no known extension; allowed are \.csv, \.tsv"),
        ("t.csv.bz2", "no known extension"),
        ("nowhere.csv", "there is no file"),
        ("nowhere.parquet", "there is no file"),
        ("s3://bucket/t.parquet", "there is no file"),
        (["a"], "rows cannot be read from a list; pass a path"),
        (pl.Series([1]), "rows cannot be read from a Series"),
        (pd.Series([1]), "rows cannot be read from a Series"),
        (None, "rows cannot be read from a NoneType"),
    ],
)
def test_what_is_no_table_is_refused(source: Any, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=match) as raised:
        open_rows(source)
    check_error(raised.value)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv.gz", "t.csv.zst"])
def test_a_file_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("age\nSECRET\n" * 100)
    with pytest.raises(SourceError, match="cannot be opened as a") as raised:
        open_rows(tmp_path / name)
    check_error(raised.value)
    assert "SECRET" not in str(raised.value)


def test_a_missing_column_is_named_with_those_there_are() -> None:
    rows = open_rows(pa.table({"age": [1], "Sex": ["f"]}))
    with pytest.raises(
        SourceError, match="no column 'sex'; its columns are 'age', 'Sex'; name each attribute after its column"
    ):
        rows.count_cells(Domain((Category(name="sex", values=("f",)),)))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], None, [2]]),
        pa.array([{"a": 1}, None, {"a": 2}]),
        pa.array([timedelta(1), None, timedelta(2)]),
        pa.array([[[b"1"]], None, []]),
    ],
    ids=str,
)
def test_values_that_nothing_is_known_of_are_unknown(values: pa.Array, tmp_path: Path) -> None:
    """Of a column that is empty but for one row, that row decides the type: if it were refused, the run would fail."""
    own: dict[str, Any] = {"null": "cell", "unknown": "cell"}
    axes = [Category("v", ["1"], **own), Integer("v", 0, 0, **own), Float("v", 0, 1, width=1, **own)]
    empty = pa.table({"v": pa.nulls(3), "w": [0, 0, 1]})
    table = pa.table({"v": values, "w": [0, 0, 1]})
    for axis in (*axes, Date("v", "2026-01-01", "2026-01-01", **own)):
        for name, rows, expected in (("a", empty, [0, 3, 0]), ("b", table, [0, 1, 2])):
            pq.write_table(rows, tmp_path / f"{name}.parquet")
            sources = [rows, rows.to_reader(), pads.dataset(rows), tmp_path / f"{name}.parquet"]
            for source in sources[: 3 if pa.types.is_duration(values.type) else 4]:  # in Parquet they are whole numbers
                assert open_rows(source).count_cells(Domain(axis)).tolist() == expected, (axis.kind, type(source))
                if not isinstance(source, pa.RecordBatchReader):
                    limited = open_rows(source).limit("w", max_rows=1)
                    assert limited.count_cells(Domain(axis)).sum() == 2


def test_a_row_that_changes_a_column_s_type_in_one_file_of_many_changes_no_other(tmp_path: Path) -> None:
    """A value missing among whole numbers, text, a number of many digits: each makes another type of its file."""
    files: list[list[Any]] = [[1, 2, 3], [1, 2, None], ["1", "n/k"], [None, None], [True], [b"\xff", b"1"], [1.5, 3]]
    files += [[Decimal("3.0")], [date(2026, 1, 31)], [datetime(2026, 1, 31, tzinfo=UTC)], [1, 2, 2**90]]
    own: dict[str, Any] = {"null": "cell", "unknown": "cell"}
    axes: list[Attribute] = [Category("x", ["1", "2", "3"], **own), Integer("x", 0, 3, **own, outside="cell")]
    for i, values in enumerate(files):
        whole = pl.Series(values, dtype=pl.Int128) if i == len(files) - 1 else None
        if whole is not None:
            pl.DataFrame({"x": whole}).write_parquet(tmp_path / f"{i}.parquet")
        else:
            pq.write_table(pa.table({"x": pa.array(values)}), tmp_path / f"{i}.parquet")
    for axis in (*axes, Date("x", "2026-01-31", "2026-01-31", **own, outside="cell")):
        alone = [open_rows(tmp_path / f"{i}.parquet").count_cells(Domain(axis)) for i in range(len(files))]
        assert open_rows(tmp_path).count_cells(Domain(axis)).tolist() == sum(alone).tolist()  # type: ignore[union-attr]
    units = open_rows(tmp_path).limit("x", max_rows=1, null="each").count_cells(Domain(axes[0]))
    assert units.tolist() == [1, 1, 1, 3, 5]  # unknown: n/k, true, the bytes, a day, and a moment of it


@pytest.mark.parametrize("more", [[], ["99999999999999999999"], ["n/k"]])
def test_long_whole_numbers_that_polars_writes_are_numbers(more: list[str], tmp_path: Path) -> None:
    """One row of 20 digits makes all of them integers of 128 bits, which Parquet has as bytes."""
    text = "\n".join(["x", *["1", "2"] * 4, *more])
    pl.read_csv(io.StringIO(text), infer_schema_length=None).write_parquet(tmp_path / "t.parquet")
    rows = open_rows(tmp_path / "t.parquet")
    assert rows.count_cells(Domain(Category("x", ["1", "2"]))).tolist() == [4, 4]
    assert rows.count_cells(Domain(Integer("x", 1, 2))).tolist() == [4, 4]
    assert rows.limit("x", max_rows=3).count_cells(Domain(Category("x", ["1", "2"]))).tolist() == [3, 3]


EXTRAS: list[list[str | None]] = [[], [None], ["n/k"], ["n/k", None]]


def test_frames_of_odd_types_are_counted_as_columns_of_objects_are() -> None:
    """One text makes durations objects: if their type were refused, that row would decide whether a run fails."""
    odd: dict[str, list[Any]] = {
        "duration": [timedelta(1), timedelta(2)],
        "complex": [1j, 2j],
        "period": [*pd.period_range("2026", periods=2, freq="M")],
        "interval": [pd.Interval(0, 1), pd.Interval(1, 2)],
        "list": [[1], [2]],
        "struct": [{"a": 1}, {"a": 2}],
    }
    own: dict[str, Any] = {"null": "cell", "unknown": "cell"}
    axes = [Category("x", ["1", "n/k"], **own), Integer("x", 0, 9, **own), Date("x", "2026-01-01", "2026-01-09", **own)]
    for name, values in odd.items():
        for more in EXTRAS:
            for frame in (pd.DataFrame({"x": [*values, *more]}), pl.DataFrame({"x": [*values, *more]}, strict=False)):
                for axis in axes:
                    counts = open_rows(frame).count_cells(Domain(axis)).tolist()
                    listed = more.count("n/k") if axis.kind == "category" else 0
                    known = [*[0] * (axis.bins - 1), listed]
                    assert counts == [*known, more.count(None), 2 + more.count("n/k") - listed], (name, more, axis.kind)


def test_a_table_without_usable_columns_is_refused() -> None:
    with pytest.raises(SourceError, match="has no column that can be counted"):
        open_rows(pa.table({"v": pa.array([[1]])})).count()


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["b", "a", "a"])
    pq.write_table(twice, tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", twice.to_reader(), pd.DataFrame([[1, 2, 3]], columns=["b", "a", "a"])):
        with pytest.raises(SourceError, match="two columns of the same name, columns 2 and 3; give each"):
            open_rows(source)


def test_a_stream_is_read_once() -> None:
    rows = open_rows(make_table().to_reader())
    assert rows.count() == 500
    with pytest.raises(SourceError, match="can be read only once, and has been read"):
        rows.count()


def test_a_domain_larger_than_memory_is_refused_before_reading() -> None:
    table = pa.table({name: [0] for name in "abcd"})
    domain = Domain(tuple(Integer(name=name, min=0, max=2**20) for name in "abcd"))
    with pytest.raises(MemoryLimitError, match="too many for the memory"):
        open_rows(table).count_cells(domain)


# CSV dialects.


def csv_rows(content: bytes, path: Path, **dialect: Any) -> Rows:
    file = path / "t.csv"
    file.write_bytes(content)
    return open_rows(file, csv=CsvDialect(**dialect))


AB = Domain(
    (
        Category(name="a", values=("x", 'say "so"', "p,q", " "), null="cell", unknown="cell"),
        Integer(name="b", min=1, max=3),
    )
)


@pytest.mark.parametrize(
    ("content", "dialect"),
    [
        (b'a,b\nx,1\n"say ""so""",2\n"p,q",3\n,1\n" ",1\nz,2\n', {}),
        (b'a,b\r\nx,1\r\n"say ""so""",2\r\n"p,q",3\r\n,1\r\n" ",1\r\nz,2', {}),
        (b'\xef\xbb\xbf"a",b\nx,1\n"say ""so""","2"\n"p,q",3\n"",1\n" ",1\nz,2\n', {}),
        (b"b;a\n1;x\n2;'say \"so\"'\n3;'p,q'\n1;''\n1;' '\n2;z\n", {"delimiter": ";", "quote": "'", "escape": "'"}),
        (b'a|b\nx|1\n"say \\"so\\""|2\n"p,\\q"|3\n|1\n" "|1\nz|2\n', {"delimiter": "|", "escape": "\\"}),
        (
            b'x\t1\nsay "so"\t2\np,q\t3\nNA\t1\n \t1\nz\t2\n',
            {"delimiter": "\t", "quote": None, "header": False, "columns": ("a", "b"), "null_text": ("NA", "?")},
        ),
        (b'\xef\xbb\xbfx,1\n"say ""so""",2\n"p,q",3\n,1\n" ",1\nz,2\n', {"header": False, "columns": ("a", "b")}),
        (b'A,B\nx,1\nsay "so",2\n"p,q",3\n,1\n" ",1\nz,2\n', {"columns": ("a", "b")}),
        (
            b'note,a,b\n,x,1\n"one\ntwo\n1,x,1",say "so",2\n"""\n",p q,3\n,"p,q",3\n"\r\n",,1\n, ,1\n,z,2\n,x,9\n',
            {"multiline": True},
        ),
    ],
)
def test_dialects(content: bytes, dialect: dict[str, Any], tmp_path: Path) -> None:
    counts = csv_rows(content, tmp_path, **dialect).count_cells(AB)
    expected = np.zeros(AB.shape, np.int64)
    for cell in ((0, 0), (1, 1), (2, 2), (3, 0), (4, 0), (5, 1)):
        expected[cell] = 1
    if dialect.get("multiline"):
        expected[5, 2] += 1
    np.testing.assert_array_equal(counts, expected)


def test_a_csv_field_without_a_null_text_is_text(tmp_path: Path) -> None:
    rows = csv_rows(b"a,b\n,1\n", tmp_path, null_text=())
    assert rows.count_cells(AB)[5, 0] == 1


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n"])
def test_a_csv_file_may_end_as_it_likes(ending: bytes, tmp_path: Path) -> None:
    for content in (b"b\n1\n3" + ending, b"b\n" + b"1\n3" + ending):
        assert csv_rows(content, tmp_path).count_cells(Domain((Integer(name="b", min=1, max=3),))).tolist() == [1, 0, 1]


@pytest.mark.slow
def test_lines_across_blocks_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["ü,1", '"say ""so""",2', "x,3", '"p,q",1'] * 20
    expected = None
    for block in (2**22, 1, 2, 3, 7, 64):
        monkeypatch.setattr("dpcube.core.sources.csv.BLOCK", block)
        for end in ("\n", "\r\n"):
            for multiline in (False, True):
                content = end.join(["a,b", *lines]).encode()
                counts = csv_rows(content, tmp_path, multiline=multiline).count_cells(AB)
                expected = counts if expected is None else expected
                np.testing.assert_array_equal(counts, expected)
    assert expected is not None
    assert expected.sum() == 80


@pytest.mark.parametrize(
    ("dialect", "match"),
    [
        ({"delimiter": ""}, "delimiter of a CSV dialect must be one ASCII character"),
        ({"delimiter": "\n"}, "delimiter of a CSV dialect must be one ASCII character"),
        ({"quote": "''"}, "quote of a CSV dialect must be one ASCII character"),
        ({"escape": "é"}, "escape of a CSV dialect must be one ASCII character"),
        ({"delimiter": '"'}, "must differ from its quote and escape"),
        ({"header": False}, "without a header needs names"),
        ({"multiline": True, "escape": "\\"}, "multiline=True needs quotes"),
        ({"columns": ("age", "\udcff")}, "columns of a CSV dialect must be texts, got '.udcff'"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(dialect: dict[str, Any], match: str) -> None:
    with pytest.raises(SourceError, match=match):
        CsvDialect(**dialect)


# Counts that are there already.

SMALL = Domain(
    (Integer(name="age", min=0, max=19, width=10, null="cell"), Category(name="sex", values=("f", "m"), unknown="cell"))
)


def test_an_array_of_counts_is_taken_as_it_is() -> None:
    counts = np.arange(9).reshape(3, 3)
    for given in (counts, counts.astype(np.float64), counts.astype(np.uint8), counts.tolist()):
        np.testing.assert_array_equal(counts_from_array(given, SMALL), counts)
        assert counts_from_array(given, SMALL).dtype == np.int64
    assert not np.shares_memory(counts_from_array(counts, SMALL), counts)


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.full((3, 2), 77777), r"shape \(3, 2\), but the domain has \(3, 3\)"),
        (np.full((3, 3), -77777), "whole numbers from 0 to 2\\^53"),
        (np.full((3, 3), 77777.5), "whole numbers from 0"),
        (np.full((3, 3), np.nan), "whole numbers from 0"),
        (np.full((3, 3), np.inf), "whole numbers from 0"),
        (np.full((3, 3), 2**63, np.uint64), "whole numbers from 0"),
        (np.full((3, 3), "77777"), "must be whole numbers, got an array of type <U5"),
        (np.full((3, 3), True), "type bool"),
        (np.full((3, 3), None), "type object"),
    ],
)
def test_an_array_of_anything_else_is_refused_without_its_values(array: np.ndarray, match: str) -> None:
    with pytest.raises(SourceError, match=match) as raised:
        counts_from_array(array, SMALL)
    assert "77777" not in str(raised.value)


def test_an_array_whose_sum_would_overflow_is_refused() -> None:
    with pytest.raises(SourceError, match="add up to less than"):
        counts_from_array(np.full(1024, 2**53), Domain((Integer(name="v", min=0, max=1023),)))


def test_dates_with_a_time_zone_among_objects_are_read_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    frame = pd.DataFrame(
        {
            "v": pd.Series(
                [datetime(2026, 1, 1, 8, tzinfo=tokyo), datetime(2026, 1, 1, 8), date(2026, 1, 1)], dtype=object
            )
        }
    )
    attribute = Date(name="v", start=date(2025, 12, 31), end=date(2026, 1, 1))
    assert open_rows(frame).count_cells(Domain((attribute,))).tolist() == [1, 2]


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
def test_a_nan_in_parquet_is_no_number_whatever_the_other_rows_are(type_: pa.DataType, tmp_path: Path) -> None:
    """A file's statistics leave NaN out: from them the engine concluded that all rows lay within the bounds."""
    for attribute in (Float(name="v", min=0, max=2, width=0.5), Float(name="v", min=0, max=2, width=1, nan="cell")):
        for others in ([1.0], [1.0, 9.0], []):
            pq.write_table(pa.table({"v": pa.array([math.nan, *others], type_)}), tmp_path / "t.parquet")
            counts = open_rows(tmp_path / "t.parquet").count_cells(Domain((attribute,)))
            assert counts[: attribute.bins].sum() == (1.0 in others)
            assert counts.sum() == (1.0 in others) + (attribute.nan == "cell")
            assert open_rows(tmp_path / "t.parquet").restrict(attribute, range(attribute.bins)).count() == (
                1.0 in others
            )


@pytest.mark.parametrize(("encoding", "named"), [("utf-16", "utf-16"), ("utf-16-be", ""), ("cp1252", "windows-1252")])
def test_a_header_that_is_not_utf_8_is_refused_and_rows_are_not_asked(
    encoding: str, named: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe;stadt\n1;Köln\n".encode(encoding))
    if named:
        with pytest.raises(
            SourceError, match=f"is not text in UTF-8; if it is {named}, declare it: --encoding {named}"
        ):
            open_rows(path)
    path.write_bytes(b"v\n" + "1\nKöln\n".encode(encoding))
    assert open_rows(path).columns == ("v",)  # whatever the rows are


def test_a_header_may_be_cut_inside_of_a_character(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"v" + "ö".encode() * MAX_LINE)
    assert len(open_rows(path).columns) == 1
