"""What is printed is true of each kind of release (dense, wide, fine grid), and of a file that was not read."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from dpcube import Category, Domain, Float, Integer, Release
from dpcube.cli import commands
from dpcube.core.compiled import compiled, raised_by_compiler
from dpcube.core.errors import CompilerError, MemoryLimitError, QueryError, ReleaseFileError
from dpcube.curator.publishing import publish
from dpcube.measurements import file as release_file
from dpcube.release.plots import picture
from dpcube.release.report import report
from dpcube.release.trust import COVERAGE, INTERVAL_KINDS
from dpcube.strategies import Adaptive

ROWS = 4000
NAMES = ("a", "b", "c", "d")


def rows() -> pa.Table:
    """Four attributes of five values, of which each depends on the one before; a place; a class that depends on it."""
    rng = np.random.default_rng(11)
    columns = [rng.integers(0, 5, ROWS)]
    for _ in NAMES[1:]:
        columns.append(np.where(rng.random(ROWS) < 0.5, columns[-1], rng.integers(0, 5, ROWS)))
    places = {name: np.round(rng.normal(0.5, 0.1, ROWS).clip(0, 0.999), 5) for name in ("x", "y")}
    side = np.where(places["x"] > 0.5, "east", "west")
    return pa.table(dict(zip(NAMES, columns, strict=True)) | places | {"side": side})


SMALL = Domain(*(Integer(name, 0, 4) for name in NAMES))
PLACES = (Float("x", 0.0, 1.0, width=0.00001), Float("y", 0.0, 1.0, width=0.00001))


@pytest.fixture(scope="module")
def dense() -> Release:
    return publish(rows(), SMALL, epsilon=1, ledger=None)


@pytest.fixture(scope="module")
def wide() -> Release:
    return publish(rows(), SMALL, epsilon=1, strategy="cuboids", ledger=None)


@pytest.fixture(scope="module")
def grid() -> Release:
    return publish(rows(), Domain(*PLACES, Category("side", ["east", "west"])), epsilon=1, ledger=None)


def text_of(page: str) -> str:
    """The words of a page of HTML, pictures left out."""
    shown = re.sub(r"<(style|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", shown)))


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)


# --- reports ----------------------------------------------------------------------------------------------------


def test_a_report_says_what_was_counted(dense: Release, wide: Release, grid: Release) -> None:
    """Of a wide table, of 4 * 10^14 cells, it said "Noisy counts of every cell"."""
    said = re.compile("Noisy counts of (.*?), over a table")
    counted = {release: said.findall(text_of(report(release))) for release in (dense, wide, grid)}
    pairs = sum(one.groups is not None for one in wide.transcript.marginals)
    tables = f"4 tables over 1 attribute each and {pairs} tables over 2 attributes each"
    assert counted[wide] == [tables]
    assert grid.transcript.boxes is not None
    assert counted[grid] == [f"{len(np.unique(grid.transcript.boxes.node)):,} boxes of cells"]
    assert not any("every cell" in of[0] for release, of in counted.items() if release.transcript.cells is None)
    cells = publish(rows(), SMALL, epsilon=1, strategy="cells", ledger=None)
    assert "Noisy counts of every cell, over a table of 4 attributes" in text_of(report(cells))


def test_a_report_of_the_default_states_its_coverage(dense: Release, wide: Release) -> None:
    """It stood under an estimate that had ceased to be the default, and was never printed."""
    held = COVERAGE["adaptive", dense.default_estimate]
    said = text_of(report(dense))
    assert all(f"{held[kind]} in 100 {words}" in said for kind, words in INTERVAL_KINDS.items())
    assert "On a public table" not in text_of(report(wide))  # of which nothing was measured


def test_an_account_speaks_of_single_cells_only_where_they_were_asked(dense: Release, wide: Release) -> None:
    """Of a wide table the last kind of question was one value of the last attribute, and taken for a cell."""
    assert "A single cell below about" in " ".join(dense.explain().split())
    assert "A single cell" not in " ".join(wide.explain().split())


# --- modelled answers -------------------------------------------------------------------------------------------


def counted_apart(release: Release) -> tuple[str, str, str]:
    """Three attributes, which no table counts together."""
    return (release.domain.names[0], release.domain.names[1], release.domain.names[2])


def test_a_modelled_number_is_marked_wherever_it_is_shown(wide: Release, tmp_path: Path) -> None:
    first, second, third = counted_apart(wide)
    question, counted = f"{first} = 1 and {second} = 2 and {third} = 3", f"{first} = 1"
    wide.save(tmp_path / "wide.dpcube")
    shown = CliRunner().invoke(commands, ["count", str(tmp_path / "wide.dpcube"), question, counted])
    header, modelled, measured = shown.output.splitlines()
    assert header.endswith("note")
    assert modelled.endswith("by the model")
    assert "model" not in measured
    assert "by the model" in wide.count(question)._repr_html_()
    view = wide.slice(**{first: 1, second: 2}).group_by(third)
    assert view.table().column("modelled").to_pylist() == [True] * 5
    assert wide.group_by(first).table().column("modelled").to_pylist() == [False] * 5
    assert view._repr_html_().count("by the model") == 5
    assert view.to_xarray()["modelled"].values.all()
    [share] = re.findall(r"a range at random [^a-z]* (\d+)% one value", text_of(report(wide)))
    assert int(share) > 50
    assert f"{share}% by the model" in " ".join(wide.explain().split())
    assert "by the model" in picture(wide, first, where=f"{second} = 2 and {third} = 3").note
    assert "by the model" not in picture(wide, first).note


@pytest.mark.parametrize(
    "what", ["count(*)", "sum(d)", "avg(d)", "median(d)", "count(*) FILTER (WHERE d = 1) / count(*)"]
)
def test_sql_marks_what_a_model_answered(wide: Release, what: str) -> None:
    first, second, _ = counted_apart(wide)
    [row] = wide.sql(
        f"SELECT {what} AS n FROM cube WHERE {first} = 1 AND {second} = 2 AND c = 3", error=True
    ).to_pylist()
    assert row["n_modelled"] is True
    [alone] = wide.sql("SELECT count(*) AS n FROM cube WHERE d = 1", error=True).to_pylist()
    assert alone["n_modelled"] is False


def test_nothing_is_modelled_where_no_model_answers(dense: Release, grid: Release, tmp_path: Path) -> None:
    for release, question, one in ((dense, "a = 1 and b = 2 and c = 3", {"d": 1}), (grid, "x < 0.5", {"side": "east"})):
        assert not release.count(question).modelled
        assert "modelled" not in release.slice(one).group_by().table().column_names
        assert "n_modelled" not in release.sql("SELECT count(*) AS n FROM cube", error=True).column_names
        assert "by the model" not in text_of(report(release))
    dense.save(tmp_path / "dense.dpcube")
    assert "note" not in CliRunner().invoke(commands, ["count", str(tmp_path / "dense.dpcube"), "a = 1"]).output


# --- files that are not read ------------------------------------------------------------------------------------


@pytest.fixture
def saved(dense: Release, tmp_path: Path) -> Path:
    dense.save(tmp_path / "dense.dpcube")
    return tmp_path / "dense.dpcube"


def cannot_be_typed(*_: object) -> None:
    """What Numba does with a loop of types that it does not take."""
    compiled(lambda x: x.nothing)(1)


def out_of_memory(*_: object) -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (out_of_memory, MemoryLimitError, r"memory ran out, the file may be whole; open it on a larger machine"),
        (
            cannot_be_typed,
            CompilerError,
            r"the compiler of loops \(Numba\) failed with \w+, the file may be whole; run",
        ),
    ],
)
def test_a_whole_file_is_not_called_damaged(
    saved: Path, monkeypatch: pytest.MonkeyPatch, fault: object, error: type[Exception], said: str
) -> None:
    """It was "damaged; ask its publisher for a fresh copy" whatever failed in reading it."""
    monkeypatch.setattr(release_file, "_read_arrays", fault)
    with pytest.raises(error, match=said) as raised:
        Release.open(saved)
    assert "damaged" not in str(raised.value)
    shown = CliRunner().invoke(commands, ["info", str(saved)])
    assert isinstance(shown.exception, error)


def test_a_damaged_file_is_called_so(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-50])
    with pytest.raises(ReleaseFileError, match=r"damaged or not a \.dpcube file; ask its publisher for a fresh copy"):
        Release.open(saved)


@pytest.mark.parametrize("raises", [lambda: [][0], lambda: np.zeros(2)[3], lambda: np.linalg.inv(np.zeros((2, 2)))])
def test_errors_of_other_code_are_not_the_compilers(raises: Callable[[], object]) -> None:
    with pytest.raises((LookupError, np.linalg.LinAlgError)) as raised:
        raises()
    assert not raised_by_compiler(raised.value)


# --- classifiers of a fine grid ---------------------------------------------------------------------------------


def test_a_classifier_of_a_fine_grid_is_refused_with_remedies_that_work(grid: Release) -> None:
    """It said "needs 960 GB of memory; use a larger machine", and the check for it was called from nowhere."""
    for learn in (grid.train, grid.to_training, grid.classifier):
        with pytest.raises(
            QueryError, match=r"a grid of 20,000,000,000 cells is too fine .* --target side, .*wider bins"
        ):
            learn("side")
    drawn = grid.synthesize(500, seed=1)
    assert set(drawn["side"].to_pylist()) == {"east", "west"}
    by_class = publish(rows(), grid.domain, epsilon=1, strategy=Adaptive(target="side"), ledger=None)
    assert by_class.train("side").features.classes.tolist() == ["east", "west"]
    wider = Domain(*(Float(name, 0.0, 1.0, width=0.1) for name in "xy"), Category("side", ["east", "west"]))
    trained = publish(rows(), wider, epsilon=1, strategy="fine_grid", ledger=None).train("side")
    accuracy = trained.quality["accuracy"]
    assert isinstance(accuracy, float)
    assert accuracy > 0.9
