"""`dpcube plan` through the real entry point, with real files and no table anywhere."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from dpcube.cli import main
from dpcube.strategies import BY_NAME
from forked import dpcube

DOMAIN = """
format = 1

[[attribute]]
name = "age"
type = "integer"
min = 0
max = 99

[[attribute]]
name = "ward\\u001b[2J"
type = "category"
values = ["north", "south"]
"""


def plan(*arguments: object, cwd: Path) -> tuple[int, str, str]:
    """Run the command's entry point here, which spares the start of a process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["dpcube", "plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert isinstance(stop.value.code, int)
    return stop.value.code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where: Path = tmp_path_factory.mktemp("desk")
    (where / "D.toml").write_text(DOMAIN)
    return where


def test_a_plan_is_printed_in_rows(desk: Path) -> None:
    code, out, err = plan("D.toml", "--epsilon", "0.1", "--rows", "2000", "--queries", "cells", cwd=desk)
    assert (code, err) == (0, "")
    assert out.startswith("200 cells, about 2,000 rows, epsilon 0.1. No table was opened and nothing was spent.\n")
    table = [line.split() for line in out.splitlines() if line.split()[:1] == ["cells"]]
    assert [(row[2], row[3]) for row in table if row[2] == "cells"] == [("cells", "9.98")]  # 1/sinh(0.1)
    assert {row[2] for row in table} == set(BY_NAME)
    assert "The cube is too fine for that. Coarsening 'age' from 100 bins to " in out
    assert "exceed the noise" in out
    assert all(line.isprintable() for line in out.splitlines())
    assert sorted(path.name for path in desk.iterdir()) == ["D.toml"]


def test_a_plan_as_json_with_a_picture_and_an_accuracy(desk: Path) -> None:
    given = ("D.toml", "--epsilon", "1/2", "--rows", "50000", "--accuracy", "20", "--max-rows", "2", "--json")
    code, out, err = plan(*given, "--plot", "plan.svg", "--strategy", "cells, dpcube", cwd=desk)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["cells"], told["rows"], told["epsilon"], told["max_rows"]) == (200, 50_000, "1/2", 2)
    assert set(told["reaching"]) == {"cells", "dpcube"}
    assert [p["epsilon"] for p in told["predictions"]] == ["1/2"] * 8
    assert len(told["curve"]) == 10
    assert told["advice"] is None
    assert {"typical", "low", "high", "answer", "noise_below", "of_answer", "basis"} <= told["predictions"][0].keys()
    assert (desk / "plan.svg").read_text().count("<svg") == 1
    (desk / "plan.svg").unlink()


def test_an_accuracy_is_found_and_said(desk: Path) -> None:
    given = ("D.toml", "--epsilon", "0.1", "--rows", "2000", "--strategy", "cells", "--queries", "cells")
    code, out, err = plan(*given, "--accuracy", "0.85", cwd=desk)
    assert (code, err) == (0, "")
    assert "With cells, epsilon 1.0" in out  # 1/sinh(1) = 0.851
    assert "reaches an error of 0.85 rows." in out
    code, out, err = plan(*given, "--accuracy", "1e-30", cwd=desk)
    assert (code, err) == (0, "")
    assert "With cells, no epsilon up to 50 reaches an error of 1e-30 rows." in out
    code, out, err = plan(*given, "--accuracy", "15", cwd=desk)
    assert (code, err) == (0, "")
    assert "reaches an error of 15 rows (more than a typical answer, 10)." in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("missing.toml", "--epsilon", "1", "--rows", "10"), "missing.toml"),
        (("D.toml", "--rows", "10"), "--epsilon"),
        (("D.toml", "--epsilon", "1"), "--rows"),
        (("D.toml", "--epsilon", "1", "--rows", "many"), "many"),
        (("D.toml", "--epsilon", "1", "--rows", "0"), "got 0"),
        (("D.toml", "--epsilon", "-1", "--rows", "10"), "between 0.000001 and 50"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--queries", "joins"), "'joins'"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--strategy", "cells,magic"), "no strategy 'magic'"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--accuracy", "-3"), "above 0, got -3"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--accuracy", "nan"), "above 0, got nan"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--max-rows", "0"), "max_rows 0"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--plot", "plan.gif"), "plan.gif"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--plot", "no/plan.svg"), "no directory no"),
        (("D.toml", "--epsilon", "1", "--rows", "10", "--plot", "taken.svg"), "taken.svg"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(desk: Path, arguments: tuple[str, ...], says: str) -> None:
    (desk / "taken.svg").mkdir(exist_ok=True)
    code, out, err = plan(*arguments, cwd=desk)
    assert (code, out) == (2, "")
    assert err.startswith("dpcube: ")
    assert err.count("\n") == 1
    assert says in err
    (desk / "taken.svg").rmdir()


def test_the_help_warns_of_a_secret_number_of_rows(desk: Path) -> None:
    code, out, _ = plan("--help", cwd=desk)
    assert code == 0
    assert "If it is secret, do not look it up" in " ".join(out.split())


def test_a_picture_is_refused_before_the_work_without_matplotlib(desk: Path) -> None:
    """In a process of its own, as a user without the extra would run it."""
    asked = ("plan", "D.toml", "--epsilon", "1", "--rows", "10", "--plot", "p.svg")
    done = dpcube(*asked, cwd=desk, without="matplotlib")
    assert done.returncode == 2
    assert done.stderr == "dpcube: drawing needs matplotlib: pip install 'dpcube[plot]'\n"
