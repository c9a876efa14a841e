"""`dpcube reproduce` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpcube.cli import commands
from dpcube.core.errors import InputError
from forked import dpcube

FILES = {f"query-size.{ending}" for ending in ("svg", "png", "csv")} | {"figures.md"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands, ["reproduce", *map(str, arguments)], catch_exceptions=False)


def process(*arguments: object, cwd: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as if the module `without` were not installed."""
    return dpcube("reproduce", *arguments, cwd=cwd, without=without)


def test_without_names_the_figures_are_listed() -> None:
    listed = run()
    assert "theory: section 6.1" in listed.output
    names = json.loads(run("--json").output)["theory"]["figures"]
    assert names == ["query-size", "budget-split", "box-size-and-smoothness", "inconsistency"]
    assert all(f"  {name}\n" in listed.output for name in names)


def test_a_figure_is_written_once_and_replaced_when_asked(tmp_path: Path) -> None:
    made = run("query-size", "-o", tmp_path / "new" / "figures")
    assert made.exit_code == 0
    assert {path.name for path in (tmp_path / "new" / "figures").iterdir()} == FILES
    for words in ("The paper claims: ", "What holds: ", "What does not: ", "What the paper leaves out: ", "37.196"):
        assert words in made.output
    page = tmp_path / "new" / "figures" / "figures.md"
    assert made.output.endswith(f"Wrote 4 files; start with {page}\n")
    page.write_text("mine")
    refused = process("query-size", "-o", page.parent, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"dpcube: {page} exists; give another directory (-o), or --replace\n"
    assert page.read_text() == "mine"
    again = run("query-size", "-o", page.parent, "--replace")
    assert "Wrote or replaced 4 files" in again.output
    assert page.read_text().startswith("## Error against query size")
    assert {path.name for path in page.parent.iterdir()} == FILES


def test_what_cannot_be_written_is_refused_before_figures_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take up to hours: to be told then that a file of the last run is in the way is too late."""

    def make(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("dpcube.research.reproduce.make_figures", make)
    (tmp_path / "figures.md").write_text("mine")
    with pytest.raises(InputError, match=r"figures\.md exists"):
        run("variance", "-o", tmp_path)
    with pytest.raises(InputError, match="there is no figure 'varance'"):
        run("varance", "-o", tmp_path / "new")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="drawing needs matplotlib"):
        run("variance", "-o", tmp_path / "new")


def test_figures_that_are_measured_are_made_with_few_draws(tmp_path: Path) -> None:
    made = process("variance-coarse", "--draws", "2", "-o", "here", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "means and 95% intervals of 2 releases" in made.stdout
    assert {path.name for path in (tmp_path / "here").iterdir()} == {
        "figures.md",
        *(f"variance-coarse.{ending}" for ending in ("svg", "png", "csv")),
    }
    assert (tmp_path / "here" / "variance-coarse.csv").read_text().startswith("panel,axis,at,curve,value,reach,draws\n")
    one = process("query-error-coarse", "--draws", "1", "--json", cwd=tmp_path)
    assert json.loads(one.stdout)["figures"][0]["panels"][0]["reach_of_95%"]["cells"][0] is None
    refused = process("variance-coarse", "--draws", "0", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_json_writes_nothing_unless_told_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = json.loads(run("theory", "--json").output)
    assert [figure["name"] for figure in told["figures"]][:2] == ["query-size", "budget-split"]
    assert told["figures"][0]["panels"][0]["curves"]["E_LS"][4] == pytest.approx(37.0479270541, rel=1e-10)
    assert (told["files"], list(tmp_path.iterdir())) == ([], [])
    told = json.loads(run("query-size", "--json", "-o", "here").output)
    assert {Path(name).name for name in told["files"]} == FILES == {path.name for path in Path("here").iterdir()}


def test_what_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    unknown = process("histogram", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("dpcube: there is no figure 'histogram'; give query-size, ")
    (tmp_path / "file").write_text("")
    blocked = process("query-size", "-o", "file/under", cwd=tmp_path)
    assert (blocked.returncode, blocked.stdout) == (2, "")
    assert (
        blocked.stderr == "dpcube: cannot write figures to file/under: Not a directory; give another directory (-o)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_matplotlib_there_are_numbers_but_no_pictures(tmp_path: Path) -> None:
    refused = process("query-size", cwd=tmp_path, without="matplotlib")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("dpcube: drawing needs matplotlib, which is not installed; pip install")
    assert list(tmp_path.iterdir()) == []
    numbers = process("query-size", "--json", cwd=tmp_path, without="matplotlib")
    assert numbers.returncode == 0
    assert json.loads(numbers.stdout)["files"] == []
