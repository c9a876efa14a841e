"""Trusted code is what the gate, the sampler, the ledger and the sources can reach; the page that lists it is true."""

import shutil
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import audit
import numpy as np
import pytest

from dpcube.core import boxes as geometry
from dpcube.core import files
from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError, LedgerError
from dpcube.core.gate import Gate
from dpcube.core.ledger.ledger import Ledger

ROOT = Path(__file__).parents[2]

CONTRACT = "core and link import nothing of ours outside core and link"
TRUSTED = ("dpcube.core", "dpcube.link")
CURATOR = "dpcube.curator"


def contract() -> dict[str, list[str]]:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [one for one in written if one["name"] == CONTRACT]
    return dict(found)


def loaded(module: str) -> list[str]:
    script = f"import sys, {module}; print(*[m for m in sys.modules if m.split('.')[0] == 'dpcube'])"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_the_gate_loads_a_handful_of_modules_and_nothing_that_analyses() -> None:
    modules = loaded("dpcube.core.gate")
    assert len(modules) <= 20, modules
    assert [m for m in modules if m != "dpcube" and not m.startswith("dpcube.core")] == []


def test_the_page_lists_what_is_loaded_with_its_lines() -> None:
    """`python tools/audit.py --write` mends the page."""
    assert audit.PAGE.read_text() == audit.page()


def test_trusted_code_is_in_one_directory_but_for_the_order_of_a_release_and_linkage() -> None:
    """Loading all of it, `publish` apart, loads nothing else."""
    places = tuple(f"{one}." for one in (*TRUSTED, CURATOR))
    assert {m for m in audit.trusted_modules() if not f"{m}.".startswith(places)} == {"dpcube"}
    assert audit.ABOVE in audit.trusted_modules()


def test_everything_that_is_not_trusted_is_forbidden() -> None:
    told = contract()
    assert tuple(told["source_modules"]) == TRUSTED
    known = {*TRUSTED, *told["forbidden_modules"]}
    there = {
        f"dpcube.{path.stem}" for path in (ROOT / "src" / "dpcube").iterdir() if not path.name.startswith(("_", "py"))
    }
    assert there <= known


@pytest.mark.slow
def test_an_import_of_anything_else_in_any_trusted_module_breaks_the_contract(tmp_path: Path) -> None:
    """All of them are spoilt at once, and each is named."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    spoilt = {m for m in audit.trusted_modules() if f"{m}.".startswith(tuple(f"{one}." for one in TRUSTED))}
    for module in spoilt:
        path = tmp_path / audit.path_of(module).relative_to(ROOT)
        path.write_text(f"{path.read_text()}\n\nimport dpcube.models\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src"), "COLUMNS": "300", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"{CONTRACT} BROKEN" in done.stdout
    assert {module for module in spoilt if f"{module} -> dpcube.models" not in done.stdout} == set()


def overdrafts() -> int:
    """How often a gate counts one box with the whole budget, of fifty times asked."""
    gate, granted = Gate(np.zeros((4, 4), np.int64), Fraction(1)), 0
    box = Boxes((4, 4), np.array([[0, 0]]), np.array([[2, 2]]))
    for _ in range(50):
        try:
            gate.boxes(box, np.array([BUDGET_UNITS]))
            granted += 1
        except BudgetError:
            pass
    return granted


def test_files_are_trusted_because_a_ledger_is_made_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second first release must not put a fresh ledger in the place of the first."""
    place = tmp_path / "t.ledger"
    Ledger.create(place, total=Fraction(1)).charge(Fraction(1), strategy="cells", domain="d")
    with pytest.raises(LedgerError, match="a ledger is never replaced"):
        Ledger.create(place, total=Fraction(1))
    assert Ledger(place).statement().remaining == 0
    monkeypatch.setattr(files, "_name", lambda part, path: part.replace(path))
    Ledger.create(place, total=Fraction(1))
    assert Ledger(place).statement().remaining == 1


def test_boxes_are_trusted_because_budgets_are_added_up_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert overdrafts() == 1
    monkeypatch.setattr(geometry, "_add_boxes", lambda *_: None)
    assert overdrafts() == 50
