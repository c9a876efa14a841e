"""`dpcube synth` and `dpcube export` as a user runs them."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dpcube import Domain, Release, datasets
from dpcube.cli import main
from dpcube.core.domain import Category, Integer
from dpcube.curator.publishing import count
from dpcube.research import experiment
from dpcube.testing import SilentNoise

DOMAIN = Domain(
    (Integer(name="age", min=0, max=19, width=5), Category(name="sex", values=("Female", "Male"), null="cell"))
)
COUNTS = np.arange(12).reshape(4, 3)


@dataclass(frozen=True)
class Outcome:
    code: object
    out: str
    err: str


class Command:
    """The real entry point in this process, which spares the start of another."""

    def __init__(self, where: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        monkeypatch.chdir(where)

    def __call__(self, *arguments: object) -> Outcome:
        self.monkeypatch.setattr(sys, "argv", ["dpcube", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = self.capsys.readouterr()
        return Outcome(stop.value.code, out, err)


@pytest.fixture
def dpcube(released: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(released, monkeypatch, capsys)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    made = experiment(COUNTS, epsilon=1, noise=SilentNoise())
    release = Release(DOMAIN, made.transcript, made.provenance)
    release.save(tmp_path / "r.dpcube")
    return tmp_path


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_synth_writes_rows_once(name: str, released: Path, dpcube: Command) -> None:
    made = dpcube("synth", "r.dpcube", "-o", name, "--estimate", "consistent", "--seed", 3, "--json")
    assert (made.code, made.err) == (0, "")
    assert json.loads(made.out) == {"table": name, "rows": 66, "seed": 3, "private": False}
    np.testing.assert_array_equal(count(released / name, DOMAIN), COUNTS)
    content = (released / name).read_bytes()
    again = dpcube("synth", "r.dpcube", "-o", name)
    assert (again.code, again.out) == (2, "")
    assert again.err == f"dpcube: {name} exists, and is not overwritten; choose another name, or remove it first\n"
    assert (released / name).read_bytes() == content
    assert sorted(path.name for path in released.iterdir()) == ["r.dpcube", name]


def test_a_seed_repeats_a_file(released: Path, dpcube: Command) -> None:
    for name in ("a.csv", "b.csv"):
        made = dpcube("synth", "r.dpcube", "-o", name, "--rows", 1000, "--seed", 7)
        assert made.out == f"wrote {name}: 1,000 synthetic rows of a release that is NOT PRIVATE\n"
    assert (released / "a.csv").read_bytes() == (released / "b.csv").read_bytes()
    assert pacsv.read_csv(released / "a.csv").column_names == ["age", "sex"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows", -1, "-o", "x.csv"), "from 0 to 2^53 - 1, got -1"),
        (("--seed", -1, "-o", "x.csv"), "a seed must be a whole number of at least 0"),
        (("--estimate", "best", "-o", "x.csv"), "there is no estimate 'best'"),
        (("-o", "x.xlsx"), "end its name in .csv or .parquet"),
        (("-o", "no/where.csv"), "cannot write no/where.csv"),
        ((), "Missing option '-o'"),
    ],
)
def test_bad_requests_are_refused_in_one_line_and_leave_nothing(
    options: tuple[object, ...], message: str, released: Path, dpcube: Command
) -> None:
    refused = dpcube("synth", "r.dpcube", *options)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert refused.err.count("\n") == 1
    assert [path.name for path in released.iterdir()] == ["r.dpcube"]


def test_export_writes_cells_and_boxes_that_duckdb_reads(released: Path, dpcube: Command) -> None:
    done = dpcube("export", "r.dpcube", "-o", "cells.parquet", "--errors")
    assert (done.out, done.err) == ("wrote cells.parquet: 12 cells\n", "")
    done = dpcube("export", "r.dpcube", "-o", "boxes.csv", "--boxes", "--json")
    boxes = json.loads(done.out)["rows"]
    release = Release.open(released / "r.dpcube")
    assert boxes == release.boxes().num_rows
    assert pq.read_table(released / "cells.parquet").column_names == ["age", "sex", "value", "stderr", "low", "high"]
    for source in ("cells.parquet", "boxes.csv"):
        total = duckdb.execute(f"SELECT sum(value) FROM '{released / source}'").fetchall()[0][0]
        assert total == pytest.approx(release.count().value)


@pytest.mark.slow
def test_five_million_rows_are_written_in_little_memory(tmp_path: Path) -> None:
    """In a process of its own: what it held at most, over what it held before the first row."""
    domain = Domain.load(datasets.adult_domain())
    made = experiment(np.ones(domain.shape, np.int64), epsilon=1, noise=SilentNoise())
    Release(domain, made.transcript, made.provenance).save(tmp_path / "r.dpcube")
    code = """
from pathlib import Path
from dpcube import Release
from dpcube.release.export import write_table

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))

release = Release.open("r.dpcube")
write_table(release.synthesize_batches(300_000, 1), Path("few.parquet"))
few = peak()
write_table(release.synthesize_batches(5_000_000, 1), Path("many.parquet"))
print(peak() - few)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert pq.read_metadata(tmp_path / "many.parquet").num_rows == 5_000_000
    assert int(done.stdout) < 60_000  # kilobytes; the rows themselves are 300 MB
