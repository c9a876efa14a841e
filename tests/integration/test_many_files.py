"""Directories and patterns of files are one table, larger than memory if need be, with one ledger."""

import gzip
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcube.core.domain import Date, Domain, Integer
from dpcube.core.errors import BudgetError, InputError, SourceError
from dpcube.core.request import LedgerLocation, ledger_path
from dpcube.core.sources import CsvDialect, aggregates, open_rows
from dpcube.curator import publish

BEGIN = datetime(2026, 1, 1)
AGES = Domain((Integer(name="age", min=0, max=9, null="cell"),))


def csv(ages: list[int]) -> bytes:
    return ("note,age\n" + "".join(f'"a, b",{age}\n' for age in ages)).encode()


def parquet(ages: list[int], path: Path) -> None:
    pq.write_table(pa.table({"note": ["x"] * len(ages), "age": pa.array(ages, pa.int32())}), path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_bytes(csv([1, 2, 2]))
    (folder / "b.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + csv([2, 3])))
    with pa.output_stream(str(folder / "c.csv.zst"), compression="zstd") as stream:
        stream.write(csv([9, 99]).replace(b"\n", b"\r\n"))
    (folder / "d.csv").write_bytes(csv([]))
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".e.csv.crc").write_bytes(b"crc")
    return folder


COUNTED = [0, 1, 3, 1, 0, 0, 0, 0, 0, 1, 0]


def test_a_directory_of_csv_files_is_one_table(data: Path) -> None:
    for source in (data, str(data), f"{data}/", f"{data}/*.csv*", f"{data.parent}/**/[a-d].csv*"):
        assert open_rows(source).count_cells(AGES).tolist() == COUNTED
    assert open_rows(f"{data}/*.csv").count_cells(AGES).tolist() == [0, 1, 2, *[0] * 8]
    bare = CsvDialect(header=False, columns=("note", "age"))
    assert open_rows(data, csv=bare).count() == 11  # with what are headers otherwise


def test_tabs_divide_the_fields_of_tsv_files_in_a_directory(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.tsv").write_text("note\tage\na,b\t3\n")
    assert open_rows(tmp_path).count_cells(AGES)[3] == 2
    assert open_rows(tmp_path, csv=CsvDialect(null_text=("3",))).count_cells(AGES)[-1] == 2


@pytest.mark.parametrize("odd", ["", "odd [1] *"])
def test_a_directory_of_parquet_files_is_one_table(tmp_path: Path, odd: str) -> None:
    for i in range(4):
        (tmp_path / f"part={i}").mkdir()
        parquet([i, i, 9], tmp_path / f"part={i}" / f"{odd}{i}.parquet")
        parquet([i, i, 9], tmp_path / f"{odd}{i}.parquet")
    expected = [2, 2, 2, 2, 0, 0, 0, 0, 0, 4, 0]
    assert open_rows(f"{tmp_path}/*/*.parquet").count_cells(AGES).tolist() == expected
    assert open_rows(f"{tmp_path}/*.parquet").limit("note", max_rows=2).count_cells(AGES).sum() == 2
    with pytest.raises(SourceError, match="contains part=0, which is not a file; use a pattern of files"):
        open_rows(tmp_path)
    times = Domain((Date(name="t", start=BEGIN.date(), end=BEGIN.date()),))
    (tmp_path / "t").mkdir()
    for i in range(3):  # which Arrow reads
        pq.write_table(pa.table({"t": pa.array([BEGIN, None], pa.timestamp("us"))}), tmp_path / "t" / f"{i}.parquet")
    assert open_rows(tmp_path / "t").count_cells(times).tolist() == [3]


def write(content: dict[str, Any], folder: Path) -> None:
    folder.mkdir()
    for name, value in content.items():
        if callable(value):
            value(folder / name)
        else:
            (folder / name).write_bytes(value)


def with_type(type_: pa.DataType) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table({"age": pa.array([], type_)}), path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({}, "there is no data file in .*data; a table without rows still needs a file"),
        ({".hidden.csv": b"x"}, "there is no data file in .*data;"),
        ({"a.csv": b"age\n", "b.tsv": b"age\n"}, "contains a.csv and b.tsv, but .* must be of one kind"),
        ({"a.csv": b"age\n", "b.parquet": with_type(pa.int8())}, "contains a.csv and b.parquet, .* as '\\*.csv'"),
        ({"a.csv": b"age\n", "read.me": b""}, "read.me has no known extension"),
        ({"a.csv": b"age,b\n", "b.csv": b"b,age\n"}, r"b.csv has other columns than .*a.csv; the files of a"),
        ({"a.csv": b"age\n", "b.csv": b""}, "b.csv has other columns than .*a.csv"),
        ({"a.parquet": with_type(pa.int8()), "b.parquet": b"PAR1 no"}, "b.parquet cannot be opened as a .parquet file"),
        ({"a.csv": b"age\n", "b.csv.gz": b"no"}, "b.csv.gz cannot be opened as a .gz file"),
    ],
)  # fmt: skip
def test_files_that_are_no_table_are_refused(tmp_path: Path, content: dict[str, Any], match: str) -> None:
    write(content, tmp_path / "data")
    with pytest.raises(SourceError, match=match) as raised:
        open_rows(tmp_path / "data")
    assert raised.value.__context__ is None
    with pytest.raises(SourceError, match=r"there is no data file in .*none-.*.csv"):
        open_rows(tmp_path / "none-*.csv")


def test_the_ledger_of_a_directory_is_beside_it_and_is_that_of_its_patterns(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = data.with_name("data.ledger")
    for source in (data, f"{data}/", f"{data}/*.csv", f"{data}/*/x.csv", f"{data}/[ab].csv"):
        assert ledger_path(LedgerLocation.BESIDE_TABLE, source) == place
    monkeypatch.chdir(data)
    for source in ("*.csv", ".", "./*.gz"):
        assert ledger_path(LedgerLocation.BESIDE_TABLE, source) == place
    for name, ledger in {"v1.2": "v1.2.ledger", "t.parquet": "t.ledger"}.items():
        (data.parent / name).mkdir()
        assert ledger_path(LedgerLocation.BESIDE_TABLE, data.parent / name) == data.parent / ledger
    odd = data / "it's [a] *.csv"
    odd.write_bytes(csv([1]))
    assert ledger_path(LedgerLocation.BESIDE_TABLE, odd) == data / "it's [a] *.ledger"  # a file first of all
    for source in ("/", "/*.csv"):
        with pytest.raises(InputError, match="a whole file system, with no place for a ledger beside it"):
            ledger_path(LedgerLocation.BESIDE_TABLE, source)


def test_a_second_release_by_another_pattern_is_refused(data: Path) -> None:
    publish(f"{data}/*.csv", AGES, epsilon=1)
    assert data.with_name("data.ledger").exists()
    with pytest.raises(BudgetError):
        publish(data, AGES, epsilon=1)


LARGE, LIMIT = 3_000_000, "60MB"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of some 120 MB in all, twice what the engine is allowed; a unit has 1 to 5 rows."""
    folder = tmp_path_factory.mktemp("large") / "data"
    folder.mkdir()
    with duckdb.connect() as connection:
        for i in range(3):
            connection.execute(
                f"COPY (SELECT 'unit number ' || hash((r * 7 + {i}) % 1000000) AS unit, r % 10 AS age, "
                f"uuid() AS note FROM range({LARGE // 3}) t(r)) TO '{folder}/{i}.parquet' (COMPRESSION uncompressed)"
            )
    return folder


def test_a_table_larger_than_memory_is_counted(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(file.stat().st_size for file in large.iterdir()) > 2 * 60e6
    monkeypatch.setattr(aggregates, "CONFIG", {**aggregates.CONFIG, "memory_limit": LIMIT})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    modes: list[int] = []
    spilled: list[str] = []
    connect = duckdb.connect

    def watched(*, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        modes.append(stat.S_IMODE(Path(config["temp_directory"]).stat().st_mode))
        return Watched(connect(config=config), config["temp_directory"], spilled)  # type: ignore[return-value]

    monkeypatch.setattr("duckdb.connect", watched)
    counts = open_rows(large).count_cells(AGES)
    assert counts.tolist() == [LARGE // 10] * 10 + [0]
    assert spilled == []  # occupied cells are few, so nothing had to be
    with connect() as connection:
        units = f"SELECT unit, count(*) AS n FROM '{large}/*.parquet' GROUP BY unit"
        expected = connection.execute(f"SELECT sum(least(n, 2)) FROM ({units})").fetchall()[0][0]
    limited = open_rows(large).limit("unit", max_rows=2).count_cells(AGES)
    assert limited.sum() == expected < LARGE
    assert spilled != []  # rows went to disk, where nobody else may look
    assert set(modes) == {0o700}
    assert list(tmp_path.iterdir()) == []  # and are gone


class Watched:
    """A connection that notes what lies in its directory for what does not fit in memory when it is done."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: str, seen: list[str]) -> None:
        self.connection, self.folder, self.seen = connection, folder, seen

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self.seen += [file.name for file in Path(self.folder).iterdir()]
        self.connection.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def test_a_compressed_csv_file_larger_than_memory_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "CONFIG", {**aggregates.CONFIG, "memory_limit": "40MB"})
    numbers = np.arange(400_000)
    text = "unit,age,note\n" + "".join(f"patient number {i // 4},{i % 10},{'x' * 100}\n" for i in numbers.tolist())
    with pa.output_stream(str(tmp_path / "t.csv.zst"), compression="zstd") as stream:
        stream.write(text.encode())
    assert len(text) > 40e6
    opened = open_rows(tmp_path / "*.zst")
    assert opened.count_cells(AGES).tolist() == [40_000] * 10 + [0]
    assert opened.limit("unit", max_rows=3).count_cells(AGES).sum() == 300_000
