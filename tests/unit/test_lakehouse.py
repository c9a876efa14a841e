"""Delta, Iceberg and Hudi: the rows of the current version are counted, and files are never counted by their names."""

import json
import random
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import InputError, SourceError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.sources import open_rows
from dpcube.core.sources.names import listed
from dpcube.curator import publish

SECRET = "Zebulon"
WARDS = ("north", "south", SECRET, "x y/z%20ä=")
DOMAIN = Domain(
    (
        Category(name="ward", values=WARDS, null="cell", unknown="cell"),
        Integer(name="age", min=0, max=99, width=1, null="cell", outside="cell"),
    )
)


def rows_of(number: int, *, wards: tuple[str | None, ...] = WARDS, seed: int = 7) -> pa.Table:
    drawn = random.Random(seed)
    ages = pa.array([drawn.randrange(100) for _ in range(number)], pa.int64())
    return pa.table({"ward": pa.array([drawn.choice(wards) for _ in range(number)]), "age": ages})


def counted(table: pa.Table) -> np.ndarray[Any, Any]:
    return open_rows(table.select(["ward", "age"])).count_cells(DOMAIN)


def check_current(path: Path) -> None:
    current = DeltaTable(path).to_pyarrow_table()
    assert open_rows(path).count() == current.num_rows
    assert (open_rows(path).count_cells(DOMAIN) == counted(current)).all()


def rewrite(path: Path, change: Callable[[dict[str, Any]], object], *, version: int = 0) -> None:
    """Change the actions of a commit."""
    commit = path / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        change(action)
    commit.write_text("\n".join(map(json.dumps, actions)))


@pytest.fixture
def updated(tmp_path: Path) -> Path:
    """A Delta table of 1,000 rows after one UPDATE: its files hold 2,000."""
    path = tmp_path / "visits"
    write_deltalake(path, rows_of(1000))
    DeltaTable(path).update(updates={"age": "42"}, predicate="age = 41")
    assert sum(pq.read_metadata(file).num_rows for file in path.glob("*.parquet")) == 2000
    return path


def test_an_updated_delta_table_has_the_rows_that_it_has_now(updated: Path) -> None:
    assert open_rows(updated).count() == 1000
    check_current(updated)
    assert open_rows(updated).count_cells(DOMAIN)[:, 41].sum() == 0


@pytest.mark.parametrize("seed", range(6))
def test_whatever_was_done_to_a_delta_table_its_current_rows_count(tmp_path: Path, seed: int) -> None:
    drawn, path = random.Random(seed), tmp_path / "visits"
    by = ["ward"] if seed % 2 else None
    write_deltalake(path, rows_of(300, wards=(*WARDS, None), seed=seed), partition_by=by)
    for turn in range(8):
        table = DeltaTable(path)
        age, what = (
            drawn.randrange(100),
            drawn.choice(["append", "update", "delete", "compact", "vacuum", "checkpoint"]),
        )
        if what == "append":
            write_deltalake(path, rows_of(50, wards=(None, *WARDS), seed=100 * seed + turn), mode="append")
        elif what == "update":
            table.update(updates={"age": str(age)}, predicate=f"age > {age}")
        elif what == "delete":
            table.delete(f"age = {age} or ward = '{drawn.choice(WARDS)}'")
        elif what == "compact":
            table.optimize.compact()
        elif what == "vacuum":
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        else:
            table.create_checkpoint()
        check_current(path)


def test_an_empty_partition_value_is_null_as_the_protocol_says(tmp_path: Path) -> None:
    nobody = rows_of(30, wards=(None,)).cast(rows_of(1).schema)
    write_deltalake(tmp_path / "t", nobody, partition_by=["ward"])
    expected = counted(nobody)
    assert expected[len(WARDS)].sum() == 30  # the cell of nulls
    assert (open_rows(tmp_path / "t").count_cells(DOMAIN) == expected).all()
    rewrite(tmp_path / "t", lambda action: action.get("add", {}).update(partitionValues={"ward": ""}))
    assert (open_rows(tmp_path / "t").count_cells(DOMAIN) == expected).all()


def test_a_log_that_begins_with_a_checkpoint_is_read_from_there(updated: Path) -> None:
    DeltaTable(updated).create_checkpoint()
    DeltaTable(updated).delete("age = 42")
    for version in (0, 1):
        (updated / "_delta_log" / f"{version:020}.json").unlink()
    check_current(updated)


def test_a_delta_table_without_rows_and_one_with_a_later_column(tmp_path: Path) -> None:
    path = tmp_path / "visits"
    write_deltalake(path, rows_of(10).select(["ward"]))
    write_deltalake(path, rows_of(20), mode="append", schema_mode="merge")
    counts = open_rows(path).count_cells(DOMAIN)
    assert (counts.sum(), counts[:, 100].sum()) == (30, 10)
    DeltaTable(path).delete()
    assert open_rows(path).count() == 0


def test_partition_values_are_read_as_text_columns_are(tmp_path: Path) -> None:
    days = [date(2026, 1, 1 + i % 9) for i in range(90)]
    table = pa.table(
        {"day": days, "n": pa.array([i % 5 for i in range(90)], pa.int32()), "v": [i / 90 for i in range(90)]}
    )
    domain = Domain(
        (
            Date(name="day", start=date(2026, 1, 1), end=date(2026, 1, 9), every="day"),
            Integer(name="n", min=0, max=4, width=1),
            Float(name="v", min=0, max=1, width=0.25),
        )
    )
    write_deltalake(tmp_path / "t", table, partition_by=["day", "n"])
    assert open_rows(tmp_path / "t").kinds == {"day": "text", "n": "text", "v": "real"}
    assert (open_rows(tmp_path / "t").count_cells(domain) == open_rows(table).count_cells(domain)).all()
    limited = open_rows(tmp_path / "t").limit("n", max_rows=3)
    assert limited.count() == 15


@pytest.mark.parametrize("named", ["*/*.parquet", "**/*.parquet", "ward=Z*/*.parquet"])
def test_files_inside_a_delta_table_are_refused_without_their_names(tmp_path: Path, named: str) -> None:
    write_deltalake(tmp_path / "visits", rows_of(90, wards=(SECRET,)), partition_by=["ward"])
    with pytest.raises(SourceError, match=r"inside the Delta table .*name the table: .*/visits$") as raised:
        open_rows(tmp_path / "visits" / named)
    assert SECRET not in str(raised.value)
    for path in (tmp_path / "visits").glob("ward=*/*.parquet"):
        for inside in (path, path.parent):
            with pytest.raises(SourceError, match="inside the Delta table"):
                open_rows(inside)


def test_a_link_into_a_delta_table_and_an_arrow_dataset_of_its_files_are_refused(updated: Path) -> None:
    file = next(updated.glob("*.parquet"))
    (updated.parent / "link.parquet").symlink_to(file)
    (updated.parent / "links").symlink_to(updated)
    datasets = [pads.dataset(updated), pads.dataset([pads.dataset(file), pads.dataset(file)])]
    for source in (updated.parent / "link.parquet", updated.parent / "links" / file.name, *datasets):
        with pytest.raises(SourceError, match="inside the Delta table"):
            open_rows(source)
    assert open_rows(updated.parent / "links").count() == 1000
    assert open_rows(DeltaTable(updated).to_pyarrow_dataset()).count() == 1000


def test_text_beside_a_lakehouse_table_is_none_of_its_files(updated: Path) -> None:
    (updated / "notes.csv").write_text("ward,age\nnorth,3\n")
    assert open_rows(updated / "notes.csv").count() == 1


FEATURES: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("deletionVectors", lambda a: a.get("protocol", {}).update(minReaderVersion=3, readerFeatures=["deletionVectors"])),
    ("v2Checkpoint", lambda a: a.get("protocol", {}).update(minReaderVersion=3, readerFeatures=["v2Checkpoint"])),
    ("columnMapping", lambda a: a.get("metaData", {}).update(configuration={"delta.columnMapping.mode": "name"})),
    ("coordinatedCommits", lambda a: a.get("metaData", {}).update(configuration={"delta.coordinatedCommits.x": "y"})),
    ("version 4 of the protocol", lambda a: a.get("protocol", {}).update(minReaderVersion=4)),
]


@pytest.mark.parametrize(("feature", "change"), FEATURES, ids=[name for name, _ in FEATURES])
def test_a_delta_table_is_refused_by_the_features_that_it_declares(
    updated: Path, feature: str, change: Callable[[dict[str, Any]], object]
) -> None:
    rewrite(updated, change)
    with pytest.raises(SourceError, match=f"declares features that are not supported: {feature}; export"):
        open_rows(updated)


def test_features_that_change_nothing_are_read(updated: Path) -> None:
    known = ["timestampNtz", "vacuumProtocolCheck", "columnMapping"]
    rewrite(updated, lambda a: a.get("protocol", {}).update(minReaderVersion=3, readerFeatures=known))
    assert open_rows(updated).count() == 1000


def test_a_log_that_is_not_whole_or_leads_elsewhere_is_refused(updated: Path) -> None:
    shutil.copytree(updated, copy := updated.parent / "copy")
    rewrite(
        copy, lambda a: a["add"].update(path=f"file://{updated}/{a['add']['path']}") if "add" in a else None, version=1
    )
    with pytest.raises(SourceError, match="outside its directory"):
        open_rows(copy)
    rewrite(copy, lambda a: a["add"].update(path="../visits/x.parquet") if "add" in a else None, version=1)
    with pytest.raises(SourceError, match="outside its directory"):
        open_rows(copy)
    (updated / "_delta_log" / f"{0:020}.json").rename(updated / "_delta_log" / "elsewhere")
    with pytest.raises(SourceError, match=r"log of the Delta table .* is incomplete"):
        open_rows(updated)
    (updated / "_delta_log" / "elsewhere").rename(updated / "_delta_log" / f"{0:020}.json")
    for file in updated.glob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceError, match="lacks files that its log names"):
        open_rows(updated)


STATISTICS = [
    "",
    "no JSON",
    '{"minValues":{"ward":"\\ud83d"}}',  # text cut inside of a character, as some writers do
    '{"minValues":{"age":1e400},"numRecords":"many"}',
    '{"numRecords":0,"nullCount":{"age":1000},"minValues":{"age":5},"maxValues":{"age":4}}',
]


@pytest.mark.parametrize("statistics", STATISTICS)
def test_statistics_of_files_decide_nothing(updated: Path, statistics: str) -> None:
    before = open_rows(updated).count_cells(DOMAIN)
    rewrite(updated, lambda a: a["add"].update(stats=statistics) if "add" in a else None, version=1)
    assert open_rows(updated).count() == 1000
    assert (open_rows(updated).count_cells(DOMAIN) == before).all()


def test_names_of_columns_in_delta_files_may_differ_in_case_and_their_types_may_not(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows_of(20))
    [file] = (tmp_path / "t").glob("*.parquet")
    pq.write_table(rows_of(20).rename_columns(["WARD", "Age"]), file)
    assert (open_rows(tmp_path / "t").count_cells(DOMAIN) == counted(rows_of(20))).all()
    pq.write_table(rows_of(20).cast(pa.schema({"ward": pa.string(), "age": pa.string()})), file)
    with pytest.raises(SourceError, match="declares 'age' as int64, but a data file stores it as string; export"):
        open_rows(tmp_path / "t")
    file.write_bytes(b"")
    with pytest.raises(SourceError, match=r"a file of the Delta table .* cannot be opened"):
        open_rows(tmp_path / "t")


def test_times_are_instants_however_a_file_keeps_them(tmp_path: Path) -> None:
    wrapped = datetime(2026, 1, 1, 12, tzinfo=UTC) - timedelta(microseconds=2**64 // 1000)  # by nanoseconds of 64 bits
    times = [datetime(2026, 1, 1, 23, 59, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), wrapped]
    table = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    write_deltalake(tmp_path / "t", table)
    at = Date(name="at", start=date(2026, 1, 1), end=date(2026, 1, 2), every="day", zone="Asia/Tokyo", outside="cell")
    domain, [file] = Domain((at,)), (tmp_path / "t").glob("*.parquet")
    for options in (
        {},
        {"use_deprecated_int96_timestamps": True},
        {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
    ):
        pq.write_table(table, file, **options)
        assert open_rows(tmp_path / "t").count_cells(domain).tolist() == [0, 2, 1]
    finer = pa.array([value.value + 1 for value in table["at"].slice(0, 2)], pa.int64())
    finer = pc.add(pc.multiply(finer, 1000), 1).cast(pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"at": finer}), file, version="2.6")
    assert open_rows(tmp_path / "t").count_cells(domain).tolist() == [0, 2, 0]


HOSTILE: list[dict[str, Any]] = [
    {"ward": None, "age": None, "v": None, "at": None, "d": None},
    {"ward": "", "age": 2**63 - 1, "v": float("nan"), "at": datetime.max.replace(tzinfo=UTC), "d": Decimal("0.1")},
    {"ward": "\ud7ff\0x" * 50, "age": -(2**63), "v": float("-inf"), "at": datetime.min.replace(tzinfo=UTC), "d": None},
    {"ward": "\U0001f600" * 40, "age": 0, "v": 5e-324, "at": datetime(1970, 1, 1, tzinfo=UTC), "d": Decimal("9" * 18)},
]
TYPED = pa.schema(
    {
        "ward": pa.string(),
        "age": pa.int64(),
        "v": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "d": pa.decimal128(38, 20),
    }
)


@pytest.mark.parametrize("by", [None, "age"])
def test_neighbours_are_read_in_the_same_way_and_differ_by_their_row(tmp_path: Path, by: str | None) -> None:
    usual = [
        {"ward": "north", "age": i % 9, "v": 0.5, "at": datetime(2026, 1, 1, tzinfo=UTC), "d": None} for i in range(9)
    ]
    kept: list[Attribute] = [Category(name="ward", values=WARDS, null="cell", unknown="cell")]
    kept += [
        Float(name=name, min=0.0, max=1.0, width=0.5, null="cell", nan="cell", infinite="cell", outside="cell")
        for name in "vd"
    ]
    domain = Domain(
        (*kept, Date(name="at", start=date(2026, 1, 1), end=date(2026, 1, 2), every="day", null="cell", outside="cell"))
    )
    counts = []
    for number, rows in enumerate([usual, *([*usual, row] for row in HOSTILE)]):
        path = tmp_path / str(number)
        write_deltalake(path, pa.Table.from_pylist(rows, TYPED), partition_by=None if by is None else [by])
        counts.append(open_rows(path).count_cells(domain))
    assert [int(abs(one - counts[0]).sum()) for one in counts[1:]] == [1] * len(HOSTILE)


def test_one_ledger_keeps_account_of_a_delta_table_and_states_the_version(updated: Path) -> None:
    release = publish(updated, DOMAIN, epsilon=1, total=3, purpose="first")
    assert publish(updated / ".." / "visits", DOMAIN, epsilon=1).provenance.ledger
    book = Ledger(updated.with_name("visits.ledger")).statement()
    assert [charge.purpose for charge in book.charges] == ["first (Delta version 1)", "(Delta version 1)"]
    assert "Delta" not in repr(release.provenance)  # how many commits there are is for the owner
    current = listed(updated)[0].path
    Ledger.create(current.with_suffix(".ledger"), total=book.total)
    with pytest.raises(InputError, match="name the one ledger"):
        publish(updated, DOMAIN, epsilon=1)


def test_a_hudi_table_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "visits" / ".hoodie").mkdir(parents=True)
    pq.write_table(rows_of(10), tmp_path / "visits" / "one.parquet")
    for named in ("visits", "visits/*.parquet", "visits/one.parquet"):
        with pytest.raises(SourceError, match=r"the Hudi table .*format\('hudi'\)"):
            open_rows(tmp_path / named)


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    made = SqlCatalog("test", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path}")
    made.create_namespace("clinic")
    yield made
    made.engine.dispose()


def metadata_of(table: Any) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def with_hint(table: Any) -> Path:
    """Let the directory say what is current, as catalogs of files do."""
    (metadata_of(table).parent / "v3.metadata.json").write_bytes(metadata_of(table).read_bytes())
    (metadata_of(table).parent / "version-hint.text").write_text("2")
    (metadata_of(table).parent / "v2.metadata.json").write_text("{}")
    return metadata_of(table).parents[1]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_done_to_an_iceberg_table_its_current_rows_count(catalog: Any, seed: int) -> None:
    drawn = random.Random(seed)
    table = catalog.create_table("clinic.visits", schema=rows_of(1).schema)
    if seed % 2:
        with table.update_spec() as spec:
            spec.add_identity("ward")
    for turn in range(6):
        age, what = drawn.randrange(100), drawn.choice(["append", "delete", "overwrite"]) if turn else "append"
        rows = rows_of(80, wards=(*WARDS, None), seed=100 * seed + turn)
        if what == "append":
            table.append(rows)
        elif what == "delete":
            table.delete(f"age > {age} or ward == '{drawn.choice(WARDS[:3])}'")
        else:
            table.overwrite(rows, overwrite_filter=f"age < {age}")
        current = table.scan().to_arrow()
        assert (open_rows(metadata_of(table)).count_cells(DOMAIN) == counted(current)).all()
        assert open_rows(with_hint(table)).count() == current.num_rows


def test_an_iceberg_table_is_named_by_its_metadata_or_a_hint_and_has_one_ledger(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("clinic.visits", schema=rows_of(1).schema)
    assert open_rows(metadata_of(table)).count() == 0
    table.append(rows_of(100))
    root, first = metadata_of(table).parents[1], metadata_of(table)
    with pytest.raises(SourceError, match=r"no version hint, .*: name the file"):
        open_rows(root)
    publish(first, DOMAIN, epsilon=1, total=2)
    table.overwrite(rows_of(50))
    publish(with_hint(table), DOMAIN, epsilon=1)
    charges = Ledger(root.with_name("visits.ledger")).statement().charges
    assert charges[1].purpose == f"(Iceberg snapshot {table.current_snapshot().snapshot_id})"
    assert charges[0].purpose != charges[1].purpose
    for inside in ("data", "data/*.parquet", "*/*.parquet"):
        with pytest.raises(SourceError, match="inside the Iceberg table"):
            open_rows(root / inside)
    shutil.copytree(root, tmp_path / "copy")
    with pytest.raises(SourceError, match="outside its directory"):
        open_rows(tmp_path / "copy")


def test_a_renamed_a_widened_and_a_later_column_of_an_iceberg_table(catalog: Any) -> None:
    old = pa.table({"station": ["north", "south"], "old": pa.array([3, 4], pa.int32())})
    table = catalog.create_table("clinic.visits", schema=old.schema)
    table.append(old)
    with table.update_schema() as change:
        change.rename_column("station", "ward")
        change.update_column("old", LongType())
        change.rename_column("old", "age")
    with table.update_schema() as change:
        change.add_column("station", LongType())
    table.append(
        pa.table({"ward": ["north"], "age": pa.array([2**40], pa.int64()), "station": pa.array([7], pa.int64())})
    )
    rows = open_rows(metadata_of(table))
    assert rows.kinds == {"ward": "text", "age": "integer", "station": "integer"}
    assert (rows.count_cells(DOMAIN) == counted(table.scan().to_arrow())).all()
    station = Integer(name="station", min=7, max=8, null="cell")
    assert rows.count_cells(Domain((station,))).tolist() == [1, 0, 2]


def deleted_by_position(table: Any, deletions: pa.Table, *, content: DataFileContent) -> Path:
    """Return metadata of a snapshot with one more file, of deletions; pyiceberg writes none itself."""
    root, metadata = metadata_of(table).parents[1], json.loads(metadata_of(table).read_bytes())
    pq.write_table(deletions, root / "data" / "deletions.parquet")
    place = f"file://{root}/data/deletions.parquet"
    file = DataFile.from_args(
        content=content, file_path=place, file_format=FileFormat.PARQUET, partition=Record(), spec_id=0,
        record_count=deletions.num_rows, file_size_in_bytes=(root / "data" / "deletions.parquet").stat().st_size,
        equality_ids=[2] if content == DataFileContent.EQUALITY_DELETES else None,
    )  # fmt: skip
    snapshot = table.current_snapshot()
    output = table.io.new_output(f"file://{root}/metadata/deletions-m0.avro")

    class OfDeletions(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

    with OfDeletions(table.spec(), table.schema(), output, 99, "null") as writer:
        writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=99, data_file=file))
    listing = table.io.new_output(f"file://{root}/metadata/snap-99.avro")
    with write_manifest_list(2, listing, 99, snapshot.snapshot_id, 50, "null") as lists:
        lists.add_manifests([writer.to_manifest_file(), *snapshot.manifests(table.io)])
    newest = {"snapshot-id": 99, "parent-snapshot-id": snapshot.snapshot_id, "sequence-number": 50, "schema-id": 0,
              "timestamp-ms": metadata["last-updated-ms"] + 1, "manifest-list": f"file://{root}/metadata/snap-99.avro",
              "summary": {"operation": "delete"}}  # fmt: skip
    metadata |= {"current-snapshot-id": 99, "last-sequence-number": 50, "snapshots": [*metadata["snapshots"], newest]}
    metadata["refs"]["main"]["snapshot-id"] = 99
    metadata["last-updated-ms"] += 1
    path = root / "metadata" / "00099-deletions.metadata.json"
    path.write_text(json.dumps(metadata))
    return path


def test_rows_that_an_iceberg_table_deletes_by_position_are_not_counted(catalog: Any) -> None:
    table = catalog.create_table("clinic.visits", schema=rows_of(1).schema)
    table.append(rows_of(300_000))
    table.append(rows_of(100, seed=8))
    files = sorted(table.scan().plan_files(), key=lambda task: task.file.record_count)
    small, large = (task.file.file_path for task in files)
    places = [(large, 0), (large, 131_072), (large, 299_999), (large, 299_999), (small, 7), ("elsewhere", 1)]
    deletions = pa.table({"file_path": [place for place, _ in places], "pos": [number for _, number in places]})
    path = deleted_by_position(table, deletions, content=DataFileContent.POSITION_DELETES)
    kept = [i not in (0, 131_072, 299_999) for i in range(300_000)]
    few = [i != 7 for i in range(100)]
    expected = counted(rows_of(300_000).filter(pa.array(kept))) + counted(rows_of(100, seed=8).filter(pa.array(few)))
    assert (open_rows(path).count_cells(DOMAIN) == expected).all()
    assert open_rows(path).count() == 300_096


def test_an_iceberg_table_that_cannot_be_read_exactly_is_refused(catalog: Any) -> None:
    table = catalog.create_table("clinic.visits", schema=rows_of(1).schema)
    table.append(rows_of(10))
    metadata = metadata_of(table)
    by_value = deleted_by_position(table, pa.table({"age": [3]}), content=DataFileContent.EQUALITY_DELETES)
    with pytest.raises(SourceError, match="equality deletes"):
        open_rows(by_value)
    later = metadata.with_name("00009-v3.metadata.json")
    later.write_text(metadata.read_text().replace('"format-version":2', '"format-version":3'))
    with pytest.raises(SourceError, match=r"format version 3|cannot be read"):
        open_rows(later)
    metadata.write_text("{")
    with pytest.raises(SourceError, match="cannot be read"):
        open_rows(metadata)
