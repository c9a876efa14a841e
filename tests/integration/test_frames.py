"""The cube in other people's libraries, for real: DuckDB, pandas, Polars, xarray and Scikit-HEP's hist."""

import sys
from datetime import date
from pathlib import Path

import duckdb
import hist
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

from dpcube import Domain, Release
from dpcube.core.domain import Category, Date, Float, Integer
from dpcube.core.errors import InputError, QueryError
from dpcube.research import experiment
from dpcube.testing import SeededNoise

DOMAIN = Domain(
    (
        Integer(name="age", min=20, max=24),
        Float(name="dose", min=0, max=2, width=0.5, hierarchy={"half": [0, 1, 2]}),
        Category(name="ward", values=("north", "south"), null="cell"),
        Date(name="seen", start=date(2026, 1, 1), end=date(2026, 3, 31), every="month", outside="cell"),
    )
)


@pytest.fixture(scope="module")
def release() -> Release:
    counts = np.random.default_rng(3).poisson(25, DOMAIN.shape)
    made = experiment(counts, epsilon=1, noise=SeededNoise(5))
    return Release(DOMAIN, made.transcript, made.provenance)


def test_pandas(release: Release) -> None:
    frame = release.to_pandas()
    assert list(frame.columns) == ["age", "dose", "ward", "seen", "value"]
    assert len(frame) == DOMAIN.size
    by_ward = frame.groupby("ward", observed=True)["value"].sum()
    assert list(by_ward.index) == ["north", "south", "(null)"]  # in the order of the domain
    np.testing.assert_allclose(by_ward, release.cells().sum(axis=(0, 1, 3)))
    small = release.group_by("seen").to_pandas()
    assert isinstance(small, pd.DataFrame)
    assert list(small.columns) == ["seen", "value", "stderr", "low", "high"]
    assert (small["low"] <= small["value"]).all()


def test_polars(release: Release) -> None:
    frame = release.group_by("ward", dose="half").to_polars(errors=False)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == ["dose", "ward", "value"]
    chosen = frame.filter((pl.col("ward") == "south") & (pl.col("dose") == "[1, 2]"))["value"].to_list()
    assert chosen == pytest.approx([release.cells()[:, 2:, 1].sum()])
    assert release.to_polars(errors=True).columns[-4:] == ["value", "stderr", "low", "high"]


def test_xarray(release: Release) -> None:
    cube = release.to_xarray()
    assert isinstance(cube, xr.Dataset)
    assert dict(cube.sizes) == {"age": 5, "dose": 4, "ward": 3, "seen": 4}
    np.testing.assert_array_equal(cube["value"], release.cells())
    picked = cube["value"].sel(ward="south", age="22").sum("dose")
    np.testing.assert_allclose(picked, release.cells()[2, :, 1].sum(axis=0))
    np.testing.assert_array_equal(cube["dose_from"], [0, 0.5, 1, 1.5])
    np.testing.assert_array_equal(cube["dose_to"], [0.5, 1, 1.5, 2])
    assert [str(day)[:10] for day in cube["seen_from"].values] == ["2026-01-01", "2026-02-01", "2026-03-01", "NaT"]
    assert [str(day)[:10] for day in cube["seen_to"].values] == ["2026-02-01", "2026-03-01", "2026-04-01", "NaT"]
    small = release.slice(ward="north").group_by("age").to_xarray()
    assert set(small.data_vars) == {"value", "stderr", "low", "high"}


def test_hist(release: Release) -> None:
    cube = release.to_hist(errors=True)
    assert [type(axis) for axis in cube.axes] == [
        hist.axis.Integer, hist.axis.Variable, hist.axis.StrCategory, hist.axis.StrCategory,
    ]  # fmt: skip
    assert cube.axes.name == DOMAIN.names
    np.testing.assert_allclose(cube.values(), release.cells())
    assert cube[
        {"age": hist.loc(22), "dose": hist.loc(0.7), "ward": "south", "seen": "2026-02"}
    ].value == pytest.approx(release.cells()[2, 1, 1, 1])
    row = release.table(errors=True).slice(7, 1).to_pylist()[0]
    assert cube.variances().reshape(-1)[7] >= row["stderr"] ** 2 - 1e-9
    np.testing.assert_allclose(cube.project("age").values(), release.cells().sum(axis=(1, 2, 3)))
    plain = release.group_by("age").to_hist(errors=False)
    np.testing.assert_allclose(plain.values(), release.cells().sum(axis=(1, 2, 3)))
    gaps = release.dice(age=[20, 24]).group_by("age").to_hist()
    assert list(gaps.axes[0]) == ["20", "24"]  # bins that do not touch are named
    with pytest.raises(QueryError, match="a histogram needs an attribute"):
        release.group_by().to_hist()


@pytest.mark.parametrize(
    ("library", "verb"),
    [("pandas", "to_pandas"), ("polars", "to_polars"), ("xarray", "to_xarray"), ("hist", "to_hist")],
)
def test_a_missing_library_is_named_with_its_remedy(
    library: str, verb: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        InputError, match=rf"needs {library}, which is not installed: pip install {library}, or 'dpcube\[frames\]'"
    ):
        getattr(release, verb)()


def test_any_library_that_reads_arrow_streams_reads_a_release_and_a_view(release: Release) -> None:
    view = release.group_by("ward")
    assert pa.table(release).equals(release.table())
    assert pa.table(view).equals(view.table())
    assert pl.DataFrame(view)["value"].to_list() == view.table()["value"].to_pylist()
    streamed = duckdb.execute(
        "SELECT ward::VARCHAR AS ward, sum(value) FROM release GROUP BY ward ORDER BY ward"
    ).fetchall()
    expected = zip(DOMAIN["ward"].labels(), release.cells().sum(axis=(0, 1, 3)), strict=True)
    assert [name for name, _ in streamed] == ["(null)", "north", "south"]
    assert dict(streamed) == pytest.approx(dict(expected))


def test_duckdb_reads_the_boxes(release: Release) -> None:
    boxes = release.boxes()
    total, cells = duckdb.execute("SELECT sum(value), sum(cells) FROM boxes").fetchall()[0]
    assert total == pytest.approx(release.count().value)
    assert cells == DOMAIN.size
    assert boxes.num_rows > 1


def test_numpy_reads_the_members_of_the_file(release: Release, tmp_path: Path) -> None:
    """The recipe of docs/guides/olap.md, without dpcube."""
    release.save(tmp_path / "r.dpcube")
    measured = release.transcript.boxes
    assert measured is not None
    number = release.transcript.measurements.index(measured) + 1
    with np.load(tmp_path / "r.dpcube", allow_pickle=False) as arrays:
        node = np.cumsum(arrays[f"{number}.step"])
        np.testing.assert_array_equal(arrays[f"{number}.lower"][:, node], measured.tree.lower[measured.node].T)
        np.testing.assert_array_equal(arrays[f"{number}.upper"][:, node], measured.tree.upper[measured.node].T)
        np.testing.assert_array_equal(arrays[f"{number}.counts"], measured.counts)
