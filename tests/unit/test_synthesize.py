"""Synthetic rows: exact where cells are whole numbers, near their shares where they are not, never overwritten."""

import csv
import re
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from dpcube import Domain, Release
from dpcube.core import memory
from dpcube.core.domain import Category, Date, Float, Integer
from dpcube.core.errors import InputError, MemoryLimitError, QueryError
from dpcube.core.spreadsheets import spreadsheet_text
from dpcube.curator.publishing import count
from dpcube.models import sampling
from dpcube.models.cell_sums import non_negative
from dpcube.release import export
from dpcube.release.synthesize import synthetic_rows
from dpcube.research import experiment
from dpcube.strategies import Cells
from dpcube.testing import SeededNoise, SilentNoise
from given_cells import given_cells

ODD = Domain(
    (
        Integer(name="age", min=-3, max=9, width=5, null="cell"),
        Float(name="dose of it", edges=(-0.5, 0.1, 0.1 + 2**-54, 7), nan="cell", infinite="cell", null="cell"),
        Category(name="ward", values=(" ", "a,b", 'c"d', "é"), unknown="cell"),
        Date(name="seen", start=date(1969, 12, 30), end=date(1970, 2, 2), every="week"),
    )
)
GENERATOR = np.random.default_rng(8)
ODD_COUNTS: NDArray[np.int64] = GENERATOR.poisson(0.7, ODD.shape)


def release_of(counts: NDArray[np.int64], domain: Domain, noise: SilentNoise | SeededNoise) -> Release:
    made = experiment(counts, epsilon="0.5", strategy=Cells(), noise=noise)
    return Release(domain, made.transcript, made.provenance)


@pytest.mark.parametrize("batch_rows", [100, sampling.BATCH_ROWS])
def test_rows_of_whole_counts_are_counted_back_exactly(batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value falls in the bin it was drawn for, read by the curator's own rules; whatever the batches."""
    monkeypatch.setattr(sampling, "BATCH_ROWS", batch_rows)
    table = release_of(ODD_COUNTS, ODD, SilentNoise()).synthesize(seed=1)
    np.testing.assert_array_equal(count(table, ODD), ODD_COUNTS)


def test_columns_have_the_names_and_types_of_the_attributes() -> None:
    table = release_of(ODD_COUNTS, ODD, SilentNoise()).synthesize(seed=1)
    types = [pa.int64(), pa.float64(), pa.string(), pa.date32()]
    assert table.schema == pa.schema(list(zip(ODD.names, types, strict=True)))


def test_cells_of_their_own_are_null_unless_a_value_can_say_what_they_are() -> None:
    domain = Domain(
        (
            Float(name="x", edges=(0, 1), null="cell", nan="cell", infinite="cell", unknown="cell", outside="cell"),
            Integer(name="n", min=5, max=5, nan="cell", outside="cell"),
            Category(name="c", values=("v",), null="cell", unknown="cell"),
            Date(name="d", start=date(2026, 1, 1), end=date(2026, 1, 1), null="cell", outside="cell"),
        )
    )
    for axis, shown in enumerate(
        (["null", "nan", "inf", "null", "null"], ["null"] * 2, ["null", "(unknown)"], ["null"] * 2)
    ):
        for cell, expected in enumerate(shown, start=1):
            cells = np.zeros(domain.shape)
            cells[tuple(cell if j == axis else 0 for j in range(4))] = 3
            (values,) = {
                repr(value)
                for value in synthetic_rows(domain, given_cells(cells), None, 0).read_all()[axis].to_pylist()
            }
            assert values == {"null": "None", "(unknown)": "'(unknown)'"}.get(expected, expected)


def test_the_number_of_rows_is_the_estimated_total_unless_said() -> None:
    release = release_of(ODD_COUNTS, ODD, SeededNoise(4))
    assert (release.cells() < 0).any()
    assert release.synthesize(seed=0).num_rows == round(release.count().value)
    assert [release.synthesize(rows, seed=0).num_rows for rows in (0, 1, 12_345)] == [0, 1, 12_345]


@pytest.mark.parametrize("rows", [1, 37, 5000])
@pytest.mark.parametrize("batch_rows", [10, 1000, sampling.BATCH_ROWS])
@pytest.mark.parametrize("seed", range(3))
def test_no_cell_is_two_rows_off_its_share(
    rows: int, batch_rows: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "BATCH_ROWS", batch_rows)
    domain, cells = Domain.of_shape((7, 11)), np.random.default_rng(seed).exponential(size=(7, 11)) ** 3
    share = rows * cells / cells.sum()
    seen = np.zeros(domain.shape)
    batches = synthetic_rows(domain, given_cells(cells), rows, seed)
    for batch in batches:
        counted = np.zeros(domain.shape)
        np.add.at(counted, tuple(column.to_numpy() for column in batch.columns), 1)
        assert batch.num_rows <= batch_rows
        assert np.abs(counted - share * batch.num_rows / rows).max() < 2 + share.max() / rows
        seen += counted
    assert seen.sum() == rows
    assert np.abs(seen - share).max() < 2


def test_a_seed_repeats_rows_and_another_or_none_does_not() -> None:
    release = release_of(ODD_COUNTS, ODD, SilentNoise())
    one, again, other, fresh, afresh = (release.synthesize(500, seed) for seed in (3, 3, 4, None, None))
    assert str(one.to_pylist()) == str(again.to_pylist())  # NaN equals no NaN
    assert len({str(table.to_pylist()) for table in (one, other, fresh, afresh)}) == 4


def test_nothing_in_any_cell_makes_no_rows() -> None:
    release = release_of(np.zeros(ODD.shape, np.int64), ODD, SilentNoise())
    assert release.synthesize().num_rows == 0
    assert release.synthesize().schema.names == list(ODD.names)
    with pytest.raises(QueryError, match=r"no rows in any cell, so 5 cannot be drawn"):
        release.synthesize(5)


@pytest.mark.parametrize("rows", [-1, 1.5, True, "3", 2**53, float("nan")])
def test_a_number_of_rows_that_cannot_be_is_refused(rows: object) -> None:
    with pytest.raises(QueryError, match=re.escape(repr(rows))):
        release_of(ODD_COUNTS, ODD, SilentNoise()).synthesize(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, "x", 0.5])
def test_a_seed_that_cannot_be_is_refused(seed: object) -> None:
    with pytest.raises(QueryError, match=re.escape(repr(seed))):
        release_of(ODD_COUNTS, ODD, SilentNoise()).synthesize(3, seed)  # type: ignore[arg-type]


def test_a_table_larger_than_memory_is_refused_and_the_stream_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    release = release_of(ODD_COUNTS, ODD, SilentNoise())
    with pytest.raises(MemoryLimitError, match="synthesize_batches"):
        release.synthesize(10**6)
    assert release.synthesize_batches(10**6, 1).read_next_batch().num_rows > 0


cubes = arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6))


@given(cubes)
def test_cells_made_non_negative_are_the_nearest_with_their_total(cells: NDArray[np.float64]) -> None:
    """The nearest point satisfies, and is the only one to satisfy, the conditions of Karush, Kuhn and Tucker."""
    nearest = non_negative(cells)
    total, size = max(cells.sum(), 0.0), np.abs(cells).sum() + 1
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(total, abs=1e-9 * size)
    if total > 0:
        taken = (cells - nearest)[nearest > 0]
        assert np.ptp(taken) <= 1e-9 * size  # the same from every cell that is left with something,
        assert (cells[nearest == 0] <= taken.max() + 1e-9 * size).all()  # and others had no more than that


def test_cells_without_negatives_are_left_alone() -> None:
    cells = np.array([[0.0, 2.5], [1.0, 0.0]])
    np.testing.assert_array_equal(non_negative(cells), cells.reshape(-1))


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "ROWS.CSV"])
def test_files_hold_the_rows(name: str, tmp_path: Path) -> None:
    release = release_of(ODD_COUNTS, ODD, SilentNoise())
    rows = export.write_table(release.synthesize_batches(seed=1), tmp_path / name)
    assert rows == ODD_COUNTS.sum()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    np.testing.assert_array_equal(count(_renamed(tmp_path / name), ODD), ODD_COUNTS)


def _renamed(path: Path) -> Path:
    return path.rename(path.with_name(path.name.lower()))


def test_parquet_files_say_what_their_rows_are(tmp_path: Path) -> None:
    release = release_of(ODD_COUNTS, ODD, SilentNoise())
    export.write_table(release.synthesize_batches(10), tmp_path / "rows.parquet")
    said = pq.read_schema(tmp_path / "rows.parquet").metadata
    assert said[b"dpcube.synthetic_rows_of"].decode() == release.digest
    assert said[b"dpcube.private"] == b"false"


def test_csv_tells_null_from_empty_text(tmp_path: Path) -> None:
    domain = Domain((Category(name="c", values=("",), null="cell"), Integer(name="n", min=1, max=1)))
    export.write_table(synthetic_rows(domain, given_cells(np.array([[2.0], [3.0]])), None, 0), tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert sorted(lines[1:]) == ['"",1', '"",1', ",1", ",1", ",1"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_file_is_never_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="exists, and is not overwritten"):
        export.write_table(release_of(ODD_COUNTS, ODD, SilentNoise()).synthesize_batches(), tmp_path / name)
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_made_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path, schema = tmp_path / "rows.parquet", pa.schema([("n", pa.int64())])

    def slow() -> object:
        path.write_text("mine")
        yield pa.record_batch({"n": pa.array([1])})

    with pytest.raises(InputError, match="exists, and is not overwritten"):
        export.write_table(pa.RecordBatchReader.from_batches(schema, slow()), path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("rows.parquet", "mine")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows.txt", r"end its name in \.csv or \.parquet"),
        ("rows", "end its name"),
        ("no/rows.csv", "cannot write"),
        ("a\0.csv", "cannot write|no file"),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        export.write_table(release_of(ODD_COUNTS, ODD, SilentNoise()).synthesize_batches(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failure_midway_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> object:
        yield pa.record_batch({"n": pa.array([1])})
        raise OSError(28, "No space left on device")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), failing())
    with pytest.raises(InputError, match="cannot write"):
        export.write_table(reader, tmp_path / "rows.parquet")
    assert not list(tmp_path.iterdir())


def test_both_kinds_of_file_hold_the_same_rows(tmp_path: Path) -> None:
    domain = Domain(
        (Integer(name="n", min=0, max=99, width=7), Date(name="d", start=date(2026, 1, 1), end=date(2026, 3, 1)))
    )
    cells = np.random.default_rng(0).random(domain.shape)
    for name in ("rows.csv", "rows.parquet"):
        export.write_table(synthetic_rows(domain, given_cells(cells), 1000, 5), tmp_path / name)
    read = pacsv.read_csv(tmp_path / "rows.csv")
    assert read.equals(pq.read_table(tmp_path / "rows.parquet"))


HOSTILE_LABELS = ("=1+1", "@sum(A1)", "+1 or more", "-a", "\t=1", "\r=1", "-\n=1")
HARMLESS_LABELS = ("-5", "+.5e3", "-", "+", "=", "a=1", " =1", "'=1", "")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_spreadsheet_runs_no_label_and_a_program_has_them_as_they_are(tmp_path: Path, name: str) -> None:
    labels = [*HOSTILE_LABELS, *HARMLESS_LABELS, None]
    for type_ in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        path = tmp_path / f"{type_.id}_{name}"
        table = pa.table({"=x": pa.array(labels).cast(type_), "n": [-1.5] * len(labels)})
        export.write_table(table.to_reader(), path)
        if name == "rows.parquet":
            assert pq.read_table(path).to_pydict() == table.to_pydict()
            continue
        with path.open(encoding="utf-8", newline="") as file:
            read = list(csv.reader(file))
        assert read[0] == ["'=x", "n"]
        assert [line[0] for line in read[1:]] == [*(f"'{label}" for label in HOSTILE_LABELS), *HARMLESS_LABELS, ""]
        assert {line[1] for line in read[1:]} == {"-1.5"}
        assert [spreadsheet_text(label or "") for label in labels] == [line[0] for line in read[1:]]
