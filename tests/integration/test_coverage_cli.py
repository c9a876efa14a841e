"""`dpcube coverage` measures the bundled table and any directory of public counts."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpcube.core.errors import InputError
from dpcube.research import coverage
from dpcube.research.coverage import Coverage, coverage_summary, measure_coverage, samples_of
from forked import dpcube


def test_the_command_measures_the_bundled_table_and_the_arrays(tmp_path: Path) -> None:
    counts = np.random.default_rng(2).poisson(40, (8, 16))
    np.savez(tmp_path / "x_2d_HILLS.npz", N5000_t0=counts, N5000_t1=counts[::-1], shape=np.array([8, 16]))
    done = dpcube("coverage", "--arrays", str(tmp_path), "--releases", "2", "--only", "ranges", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["ranges"]
    assert {one["table"] for one in found} == {"Adult (bundled)", "2d_HILLS N5000"}
    assert len(found) == 2 * 3 * 3
    assert all(len(one["deciles"]) == 10 and 0.5 < one["overall"] <= 1 for one in found)


def test_the_command_asks_natural_questions_one_by_one(tmp_path: Path) -> None:
    codes = np.random.default_rng(3).integers(0, [3, 4], (500, 2))
    np.savez(tmp_path / "small.npz", codes=codes, shape=[3, 4], ordered=[True, False], names=["size", "colour"])
    every = tmp_path / "every.csv"
    asked = (
        "--tables",
        str(tmp_path),
        "--releases",
        "3",
        "--only",
        "questions",
        "--epsilon",
        "1",
        "--strategy",
        "cells",
    )
    done = dpcube("coverage", *asked, "--jobs", "2", "--each", str(every), "--json")
    assert done.returncode == 0, done.stderr
    bundled, small = json.loads(done.stdout)["questions"]
    assert (bundled["table"], bundled["cut"]["questions"], bundled["releases"]) == ("Adult (bundled)", 3, 3)
    assert (small["table"], small["questions"], small["epsilon"]) == ("small", 1 + 3 + 4 + 12, "1")
    lines = every.read_text().splitlines()
    assert lines[0].startswith("table,epsilon,strategy,words,truth,held,bias,")
    assert sum(line.startswith("small,1,cells,") for line in lines) == 20
    told = dpcube("coverage", *asked)
    assert "worst" in told.stdout
    assert "Over 3 releases chance alone makes" in told.stdout


@pytest.mark.parametrize("content", [b"no arrays", b""])
def test_a_file_that_is_no_array_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x_1d_BAD.npz").write_bytes(content)
    done = dpcube("coverage", "--arrays", str(tmp_path), "--releases", "1")
    assert done.returncode == 2
    assert "cannot read arrays of counts from" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_samples_of_a_file_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x_1d_A.npz", N10_t0=np.arange(4), N10_t1=np.arange(4) + 1, N99_t0=np.arange(4), shape=[4])
    found = samples_of(tmp_path / "x_1d_A.npz")
    assert {name: len(samples) for name, samples in found.items()} == {"1d_A N10": 2, "1d_A N99": 1}


def test_a_table_without_rows_has_nothing_to_cover() -> None:
    with pytest.raises(InputError, match="empty has too few rows"):
        measure_coverage("empty", [np.zeros((4, 4), np.int64)], epsilon="1", strategy="cells", releases=2)


def test_what_is_wanted_is_told_by_strategy() -> None:
    good, bad = (Coverage("t", "1", "cells", overall, (overall,) * 10, 5.0, 0.9, 0.25) for overall in (0.95, 0.8))
    assert good.met
    assert not bad.met
    line = next(line for line in coverage_summary([good, bad]) if line.startswith("cells"))
    assert line.startswith("cells: 1 of 2 as wanted; coverage 87.5% on average; 1 below 93%, 0 above 99%, 1 with")
    assert (str(good), str(bad)) == (" 95.0  95.0  90.0 25.0  5.0 ", " 80.0  80.0  90.0 25.0  5.0*")
    assert coverage.WANTED == (0.93, 0.99)
