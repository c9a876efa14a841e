"""`dpcube plot` and `dpcube report` as a user runs them, and the notebook."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dpcube
from dpcube.cli import commands
from dpcube.core.errors import InputError
from forked import dpcube as run_command

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RELEASE = NOTEBOOKS / "adult.dpcube"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands, list(map(str, arguments)), catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "ending", "begins"),
    [
        ((), "svg", b"<?xml"),
        (("age",), "png", b"\x89PNG"),
        (("age", "hours-per-week", "--stages"), "svg", b"<?xml"),
        (("age", "marital-status", "--where", "sex = 'Female'", "--no-boxes"), "png", b"\x89PNG"),
        (("sex", "--confidence", "0.5", "--estimate", "uniform"), "html", b"<"),
    ],
)
def test_pictures(tmp_path: Path, arguments: tuple[str, ...], ending: str, begins: bytes) -> None:
    made = run("plot", RELEASE, *arguments, "-o", tmp_path / f"picture.{ending}")
    assert (made.exit_code, made.output) == (0, f"Wrote {tmp_path / f'picture.{ending}'}.\n")
    assert (tmp_path / f"picture.{ending}").read_bytes().startswith(begins)


def test_a_report_is_one_page(tmp_path: Path) -> None:
    made = run("report", RELEASE, "-o", tmp_path / "report.html", "--title", "Census & co")
    assert made.exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>Census &amp; co</h1>" in page
    assert page.count("<svg") == 7  # five attributes, and boxes and estimate of one pair
    assert "http" not in page.replace("http://www.w3.org/", "")
    assert "<script" not in page
    assert len(page) < 300_000


def test_what_cannot_be_drawn_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.svg").write_text("mine")
    refused = {
        ("plot", RELEASE, "wage", "-o", "x.svg"): "there is no attribute 'wage'; the attributes are 'age', ",
        ("plot", RELEASE, "age", "-o", "x.gif"): "the extension of x.gif must be one of .html, ",
        ("plot", RELEASE, "age", "-o", "mine.svg"): "mine.svg exists, and is not replaced; choose another name",
        ("plot", "none.dpcube", "-o", "x.svg"): "cannot read none.dpcube: No such file or directory",
        ("report", RELEASE, "-o", "x.svg"): "the extension of x.svg must be one of .html",
    }
    monkeypatch.chdir(tmp_path)
    for arguments, message in refused.items():
        with pytest.raises(InputError, match=re.escape(message)) as caught:
            run(*arguments)
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.svg"]
    assert (tmp_path / "mine.svg").read_text() == "mine"


def test_without_matplotlib_there_is_a_report_but_no_picture(tmp_path: Path) -> None:
    for arguments, outcome in ((("report", RELEASE, "-o", "r.html"), 0), (("plot", RELEASE, "-o", "x.svg"), 2)):
        done = run_command(*arguments, cwd=tmp_path, without="matplotlib")
        assert done.returncode == outcome
        said = "dpcube: pictures need matplotlib, which is not installed; pip install 'dpcube[plot]'\n"
        assert done.stderr == (said if outcome else "")
    assert "Left out: pictures need matplotlib" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_the_notebook_runs() -> None:
    """Every cell, as an analyst would run it; what it shows is what the release says."""
    spec = importlib.util.spec_from_file_location("notebook", NOTEBOOKS / "analyst.py")
    assert spec is not None
    assert spec.loader is not None
    notebook: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    shown, defined = notebook.app.run()
    release = dpcube.open(RELEASE)
    assert defined["women"] == release.count(age=(30, 39), sex="Female")
    assert str(defined["women"]) in shown[1].text
    assert defined["by_age"].values.sum() == pytest.approx(release.count().value)
    kinds = [type(output).__name__ for output in shown]
    assert kinds.count("Figure") == 3
    assert not any(re.search(r"(?i)traceback|error:", getattr(output, "text", "")) for output in shown)
