"""The exact audit of what decides how a row is read: inferred types, stale files, periods, merged files.

The auditor is that of `auditor.py`. What is audited is `publish` and the command `dpcube release`, from each kind of
source to everything that a release says; a neighbour has one row more. Releases of one ledger are one job, which loses
at most what the ledger says was spent, and what the merged file claims. Where a row decides whether a release is made
at all, the audit fails with its error.
"""

import io
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from auditor import EPSILON, Said, loss
from checks import Values
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from test_total_audit import said_by

from dpcube.cli import commands
from dpcube.core.domain import Category, Date, Domain, Integer
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.noise import Noise
from dpcube.curator import CsvDialect, publish
from dpcube.release import Release
from dpcube.release.periods import merged

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves its sockets to be collected
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Row = tuple[str, ...]
Opened = Callable[[Sequence[Row]], Any]
OWN: dict[str, Any] = {"null": "cell", "unknown": "cell"}


def nine(_: Fraction, size: int) -> Values:
    """Noise with which a row more loses as much as it can, and every total is above its error."""
    return np.full(size, 9)


def by_api(source: Any, domain: Domain, folder: Path, **more: Any) -> Release:
    asked: dict[str, Any] = {"epsilon": EPSILON, "strategy": "cells", "ledger": None, "even_if_empty": False}
    return publish(source, domain, **{**asked, **more})


def run_command(*words: object) -> None:
    ran = CliRunner().invoke(commands, [*map(str, words)])
    if ran.exception is not None:
        raise ran.exception


def by_command(source: Any, domain: Domain, folder: Path, **more: Any) -> Release:
    """Release by `dpcube release`, in this process, where its noise can be told."""
    for made in ("d.toml", "r.dpcube"):
        (folder / made).unlink(missing_ok=True)
    domain.save(folder / "d.toml")
    words: list[object] = ["--epsilon", EPSILON, "--strategy", "cells", *([] if "ledger" in more else ["--no-ledger"])]
    for key, value in more.items():
        words += [f"--{key}", *(value if isinstance(value, tuple) else [value])]
    run_command("release", source, "--domain", folder / "d.toml", "-o", folder / "r.dpcube", *words)
    return Release.open(folder / "r.dpcube")


def heard(releases: Callable[[Any], Sequence[Release]]) -> Callable[[Any, Noise], Said]:
    """Return what releases of a table say, as a job for the auditor."""

    def run(table: Any, noise: Noise) -> Said:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dpcube.core.gate.ExactNoise", lambda: noise)
            return [counts for made in releases(table) for counts in said_by(made.transcript)]

    return run


def lost(releases: Callable[[Any], Sequence[Release]], table: Any, other: Any) -> Fraction:
    return abs(loss(heard(releases), table, other, nine))


# Types that a library infers for a column from all of its rows.

VISITS = Domain(
    Category("ward", ["1", "2", "3", "4"], null_text=["-9"], **OWN),
    Date("admitted", "2026-01-01", "2026-03-31", every="month", **OWN),
)
LONG = 12345678901234567
ROWS: list[Row] = [
    (str(1 + i % 4) if i % 10 else "-9", f"2026-0{1 + i % 3}-15", str(i if i % 2 else LONG + i), "1")
    for i in range(160)
]
ONE_MORE: list[Row] = [
    ("", "2026-02-01", "900", "1"),  # whole numbers become real ones, or the column one of text
    ("n/k", "2026-02-01", "900", "1"),
    ("3.5", "2026-02-01", "900", "1"),
    ("3", "not known", "900", "1"),
    ("3", "", "900", "1"),
    ("3", "2026-02-01", "", "1"),
    ("3", "2026-02-01", "n/k", "1"),
    ("", "", "", ""),
]


def text_of(rows: Sequence[Row], names: str = "ward,admitted,who,n") -> str:
    return "\n".join([names, *(",".join(row) for row in rows), ""])


def csv_of(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "t.csv").write_text(text_of(rows))
    return folder / "t.csv"


def pandas_of(rows: Sequence[Row], **how: Any) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text_of(rows)), **how)


def parquet_of(rows: Sequence[Row], folder: Path) -> Path:
    pandas_of(rows).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def arrow_of(rows: Sequence[Row]) -> pa.Table:
    return pacsv.read_csv(io.BytesIO(text_of(rows).encode()))


def polars_of(rows: Sequence[Row]) -> pl.DataFrame:
    return pl.read_csv(io.StringIO(text_of(rows)), try_parse_dates=True, infer_schema_length=None)


IN_MEMORY: dict[str, Opened] = {
    "pandas": pandas_of,
    "pandas with dates": partial(pandas_of, parse_dates=["admitted"]),
    "pandas of Arrow": partial(pandas_of, dtype_backend="pyarrow"),
    "pandas objects": lambda rows: pandas_of(rows).astype(object),
    "polars": polars_of,
    "pyarrow": arrow_of,
}
FILES: dict[str, Callable[[Sequence[Row], Path], Path]] = {"csv": csv_of, "parquet": parquet_of}


def losses(opened: Opened, release: Callable[..., Release], folder: Path, more: list[Row] = ONE_MORE) -> Fraction:
    """The largest loss of any row more, of rows and of people, each of whom has one row."""
    found = []
    for unit in ({}, {"unit": "who"}):
        made = lambda rows, unit=unit: [release(opened(rows), VISITS, folder, **unit)]  # noqa: E731
        found.append([lost(made, ROWS, [*ROWS, row]) for row in (more if not unit else more[::3] + more[5:7])])
    assert set(found[0]) == {EPSILON}  # each row has a cell
    assert max(found[1]) == EPSILON
    return max(found[0] + found[1])


@pytest.mark.parametrize("library", IN_MEMORY)
def test_no_row_decides_how_a_library_has_the_others_read(library: str, tmp_path: Path) -> None:
    assert losses(IN_MEMORY[library], by_api, tmp_path) == EPSILON


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("release", [by_api, by_command])
def test_no_row_decides_how_the_others_of_a_file_are_read(
    kind: str, release: Callable[..., Release], tmp_path: Path
) -> None:
    assert losses(lambda rows: FILES[kind](rows, tmp_path), release, tmp_path, ONE_MORE[::2] + ONE_MORE[5:6]) == EPSILON


TYPES = {"ward": ("text", "integer", "double precision"), "admitted": ("text", "date", "timestamp")}


@pytest.mark.parametrize("release", [by_api, by_command])
def test_no_row_decides_how_the_others_are_read_in_postgresql(
    release: Callable[..., Release], postgres: str, tmp_path: Path
) -> None:
    """Its types are declared, and a neighbour has the same."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        for ward, admitted in zip(*TYPES.values(), strict=True):

            def opened(rows: Sequence[Row], ward: str = ward, admitted: str = admitted) -> str:
                connection.execute("DROP TABLE IF EXISTS visits")
                connection.execute(f"CREATE TABLE visits (ward {ward}, admitted {admitted}, who text, n integer)")
                values = ", ".join(str(tuple(row)).replace("''", "NULL") for row in rows)
                connection.execute(f"INSERT INTO visits VALUES {values}")
                return f"{postgres}#public.visits"

            more = ONE_MORE if ward == "text" else [ONE_MORE[0], *ONE_MORE[4:7]]
            assert losses(opened, release, tmp_path, more[::2] + more[5:6]) == EPSILON
        connection.execute("DROP TABLE visits")


def test_no_row_decides_how_spark_has_the_others_read(spark: Any, tmp_path: Path) -> None:
    def inferred(rows: Sequence[Row]) -> Any:
        return spark.read.csv(str(csv_of(rows, tmp_path)), header=True, inferSchema=True)

    def one(release: Callable[..., Release], opened: Opened, row: Row) -> Fraction:
        return lost(lambda rows: [release(opened(rows), VISITS, tmp_path)], ROWS, [*ROWS, row])

    for row in ONE_MORE[:4]:
        assert one(by_api, inferred, row) == EPSILON
    assert one(by_command, lambda rows: f"spark:{parquet_of(rows, tmp_path)}", ONE_MORE[0]) == EPSILON


def test_sabotage_text_made_of_inferred_values_loses_more(tmp_path: Path) -> None:
    """As it was: 3 among whole numbers is "3", and among real ones "3.0", which here is no ward."""
    wards = Domain(Category("ward", [f"ward {i}" for i in range(1, 5)], **OWN))

    def opened(rows: Sequence[Row]) -> pd.DataFrame:
        return pandas_of(rows).assign(ward=lambda frame: "ward " + frame["ward"].astype(str))

    assert lost(lambda rows: [by_api(opened(rows), wards, tmp_path)], ROWS, [*ROWS, ONE_MORE[0]]) > 10 * EPSILON


# Files that a lakehouse table no longer has.

AGES = Domain(Integer("age", 0, 99, width=10))


def people(rows: int) -> pa.Table:
    return pa.table({"who": [*range(rows)], "age": [(7 * i) % 100 for i in range(rows)]})


def delta(rows: int, folder: Path) -> Path:
    """A Delta table whose last row was changed three times, with all the files that there ever were."""
    shutil.rmtree(folder / "visits", ignore_errors=True)
    write_deltalake(folder / "visits", people(rows))
    for age in range(3):
        DeltaTable(folder / "visits").update(updates={"age": str(age)}, predicate=f"who = {rows - 1}")
    return folder / "visits"


def iceberg(rows: int, folder: Path) -> Path:
    shutil.rmtree(folder / "clinic", ignore_errors=True)
    (folder / "catalog.db").unlink(missing_ok=True)
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}")
    try:
        catalog.create_namespace("clinic")
        table = catalog.create_table("clinic.visits", schema=people(1).schema)
        table.append(people(rows))
        table.overwrite(people(rows))
        return Path(table.metadata_location.removeprefix("file://"))
    finally:
        catalog.engine.dispose()


@pytest.mark.parametrize("release", [by_api, by_command])
@pytest.mark.parametrize("table", [delta, iceberg])
def test_a_row_of_a_lakehouse_table_loses_epsilon_however_often_it_was_changed(
    table: Callable[[int, Path], Path], release: Callable[..., Release], tmp_path: Path
) -> None:
    made = lambda rows: [release(table(rows, tmp_path), AGES, tmp_path)]  # noqa: E731
    assert lost(made, 200, 201) == EPSILON


def test_a_dataset_of_a_delta_table_loses_epsilon_too(tmp_path: Path) -> None:
    def made(rows: int) -> list[Release]:
        return [by_api(DeltaTable(delta(rows, tmp_path)).to_pyarrow_dataset(), AGES, tmp_path)]

    assert lost(made, 200, 201) == EPSILON


def test_sabotage_every_file_of_a_delta_table_loses_more(tmp_path: Path) -> None:
    def made(rows: int) -> list[Release]:
        shutil.rmtree(tmp_path / "files", ignore_errors=True)
        (tmp_path / "files").mkdir()
        for file in delta(rows, tmp_path).glob("*.parquet"):
            shutil.copy(file, tmp_path / "files")
        return [by_api(tmp_path / "files", AGES, tmp_path)]

    assert lost(made, 200, 201) > EPSILON


# Releases of periods, which share a ledger and are merged.

JANUARY, FEBRUARY = ("admitted", "2026-01-01", "2026-01-31"), ("admitted", "2026-02-01", "2026-02-28")
ADMITTED = Date("admitted", "2026-01-01", "2026-12-31", every="year", zone="Europe/Berlin", **OWN)
MOMENTS = [datetime(2026, 1 + i % 2, 10, 12, tzinfo=UTC) for i in range(300)]
MIDNIGHT = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)  # of January in UTC, and of February in Berlin


def written(moments: Sequence[datetime]) -> list[str]:
    return [moment.isoformat() for moment in moments]


def csv_of_moments(moments: Sequence[datetime], folder: Path) -> Path:
    (folder / "moments.csv").write_text("\n".join(["admitted", *written(moments), ""]))
    return folder / "moments.csv"


def parquet_of_moments(moments: Sequence[datetime], folder: Path, unit: str = "us") -> Path:
    pq.write_table(pa.table({"admitted": pa.array(moments, pa.timestamp(unit, "UTC"))}), folder / "moments.parquet")
    return folder / "moments.parquet"


HELD: dict[str, Callable[[Sequence[datetime], Path], Any]] = {
    "csv": csv_of_moments,
    "objects": lambda moments, _: pd.DataFrame({"admitted": pd.Series([*moments], dtype=object)}),
    "parquet": parquet_of_moments,
    "pandas": lambda moments, _: pd.DataFrame({"admitted": pd.to_datetime(pd.Series([*moments]))}),
    "texts": lambda moments, _: pd.DataFrame({"admitted": written(moments)}),
    "polars": lambda moments, _: pl.DataFrame({"admitted": [*moments]}),
    "objects elsewhere": lambda moments, _: pd.DataFrame(
        {"admitted": pd.Series([*pd.to_datetime(pd.Series([*moments])).dt.tz_convert("Asia/Tokyo")], dtype=object)}
    ),
    "arrow": lambda moments, _: pa.table({"admitted": pa.array(moments, pa.timestamp("ns", "America/Lima"))}),
    "nanoseconds": partial(parquet_of_moments, unit="ns"),
}
Part = Callable[[Any, Path], Release]


def claims(parts: Sequence[Part], table: Any, other: Any, folder: Path) -> tuple[Fraction, Fraction, Fraction]:
    """What releases of one ledger lose together, what the ledger says, and what the merged file claims by each way."""
    stated = set()

    def made(moments: Any) -> list[Release]:
        (folder / "t.ledger").unlink(missing_ok=True)
        Ledger.create(folder / "t.ledger", total=Fraction(9))
        releases = [part(moments, folder) for part in parts]
        files = [folder / f"{number}.dpcube" for number in range(len(parts))]
        for file in (*files, folder / "merged.dpcube"):
            file.unlink(missing_ok=True)
        for one, file in zip(releases, files, strict=True):
            one.save(file)
        run_command("merge", *files, "-o", folder / "merged.dpcube")
        by_file = Release.open(folder / "merged.dpcube").provenance.epsilon
        assert by_file == merged(releases).provenance.epsilon
        stated.add((Ledger(folder / "t.ledger").statement().spent, by_file))
        return releases

    most = lost(made, table, other)
    [(spent, claimed)] = stated
    return most, spent, claimed


def of_period(
    release: Callable[..., Release], opened: Callable[[Any, Path], Any], period: tuple[str, str, str], **more: Any
) -> Part:
    def part(table: Any, folder: Path) -> Release:
        ledger = folder / "t.ledger"
        return release(opened(table, folder), Domain(ADMITTED), folder, period=period, ledger=ledger, **more)

    return part


def rings(names: Sequence[str]) -> list[tuple[str, str]]:
    return [*zip(names, [*names[1:], names[0]], strict=True)]


@pytest.mark.parametrize(("one", "other"), rings([*HELD]))
def test_periods_of_columns_of_two_types_lose_what_ledger_and_merged_file_say(
    one: str, other: str, tmp_path: Path
) -> None:
    parts = [of_period(by_api, HELD[one], JANUARY), of_period(by_api, HELD[other], FEBRUARY)]
    assert claims(parts, MOMENTS, [*MOMENTS, MIDNIGHT], tmp_path) == (EPSILON,) * 3


@pytest.mark.parametrize(("one", "other"), rings(["csv", "parquet"]))
def test_periods_by_the_command_lose_what_ledger_and_merged_file_say(one: str, other: str, tmp_path: Path) -> None:
    parts = [of_period(by_command, HELD[one], JANUARY), of_period(by_command, HELD[other], FEBRUARY)]
    assert claims(parts, MOMENTS, [*MOMENTS, MIDNIGHT], tmp_path) == (EPSILON,) * 3


@pytest.mark.parametrize("release", [by_api, by_command])
def test_periods_of_postgresql_lose_what_ledger_and_merged_file_say(
    release: Callable[..., Release], postgres: str, tmp_path: Path
) -> None:
    """By two queries one row may be of both periods: then it loses both, and ledger and merged file say so."""
    with psycopg.connect(postgres, autocommit=True) as connection:

        def table(type_: str, moments: Sequence[datetime], _: Path) -> str:
            connection.execute("DROP TABLE IF EXISTS moments")
            connection.execute(f"CREATE TABLE moments (admitted {type_})")
            rows = ", ".join(f"('{moment}')" for moment in written(moments))
            connection.execute(f"INSERT INTO moments VALUES {rows}")
            return f"{postgres}#public.moments"

        def queried(moments: Sequence[datetime], folder: Path) -> str:
            return table("timestamptz", moments, folder).split("#")[0]

        two = [
            of_period(release, partial(table, "timestamptz"), JANUARY),
            of_period(release, partial(table, "text"), FEBRUARY),
        ]
        assert claims(two, MOMENTS, [*MOMENTS, MIDNIGHT], tmp_path) == (EPSILON,) * 3
        plain, shifted = "SELECT admitted FROM moments", "SELECT admitted + interval '31 days' AS admitted FROM moments"
        both = [of_period(release, queried, JANUARY, query=plain), of_period(release, queried, FEBRUARY, query=shifted)]
        more = [*MOMENTS, datetime(2026, 1, 5, tzinfo=UTC)]
        assert claims(both, MOMENTS, more, tmp_path) == (2 * EPSILON,) * 3
        same = [of_period(release, queried, period, query=plain) for period in (JANUARY, FEBRUARY)]
        assert claims(same, MOMENTS, more, tmp_path) == (EPSILON,) * 3
        connection.execute("DROP TABLE moments")


def test_periods_of_spark_lose_what_ledger_and_merged_file_say(spark: Any, tmp_path: Path) -> None:
    def frame(moments: Sequence[datetime], folder: Path) -> Any:
        return spark.read.parquet(str(parquet_of_moments(moments, folder)))

    parts = [of_period(by_api, frame, JANUARY), of_period(by_api, HELD["objects"], FEBRUARY)]
    assert claims(parts, MOMENTS, [*MOMENTS, MIDNIGHT], tmp_path) == (EPSILON,) * 3


# Files whose columns are named in two ways, so that one row is of both periods.


def two_days(rows: Sequence[date], folder: Path) -> Path:
    lines = [f"{day},{day.replace(month=3 - day.month)}" for day in rows]
    (folder / "days.csv").write_text("\n".join(["admitted,left", *lines, ""]))
    return folder / "days.csv"


DAYS = [date(2026, 1 + i % 2, 10) for i in range(300)]


def swapped(release: Callable[..., Release]) -> list[Part]:
    """The parts of two readings, of which one has the names of the two columns the other way round."""
    names: dict[str, Any] = (
        {"names": "left,admitted"} if release is by_command else {"csv": CsvDialect(columns=("left", "admitted"))}
    )
    return [of_period(release, two_days, JANUARY), of_period(release, two_days, FEBRUARY, **names)]


@pytest.mark.parametrize("release", [by_api, by_command])
def test_periods_of_two_readings_lose_what_ledger_and_merged_file_say(
    release: Callable[..., Release], tmp_path: Path
) -> None:
    found = claims(swapped(release), DAYS, [*DAYS, date(2026, 1, 20)], tmp_path)
    assert found == (2 * EPSILON,) * 3


def test_sabotage_a_ledger_and_a_merge_that_forget_the_reading_claim_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpcube.core.request.Range._reading", lambda *_: "")
    found = claims(swapped(by_api), DAYS, [*DAYS, date(2026, 1, 20)], tmp_path)
    assert found == (2 * EPSILON, EPSILON, EPSILON)
