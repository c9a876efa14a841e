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

from dpcube import files
from dpcube.counter import BUDGET_UNITS
from dpcube.curator.gate import Gate
from dpcube.errors import BudgetError, LedgerError
from dpcube.geometry import boxes as geometry
from dpcube.geometry.boxes import Boxes
from dpcube.privacy.ledger import Ledger

ROOT = Path(__file__).parents[2]

CONTRACT = "trusted code imports trusted code only"
UNTRUSTED = ("analyst", "cli", "datasets", "estimate", "evaluate", "geometry.halving", "geometry.tree", "noise")
ANALYSING = ("partition", "plan", "query", "strategy", "testing", "theory", "transcript", *UNTRUSTED)


def contract() -> dict[str, list[str]]:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [one for one in written if one["name"] == CONTRACT]
    return dict(found)


def loaded(module: str) -> list[str]:
    script = f"import sys, {module}; print(*[m for m in sys.modules if m.split('.')[0] == 'dpcube'])"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_the_gate_loads_a_handful_of_modules_and_nothing_that_analyses() -> None:
    modules = loaded("dpcube.curator.gate")
    assert len(modules) <= 24, modules  # six of them for choices: their candidates and their law
    assert not [m for m in modules if m.removeprefix("dpcube.").startswith(ANALYSING)]


def test_the_page_lists_what_is_loaded_with_its_lines() -> None:
    """`python tools/audit.py --write` mends the page."""
    assert audit.PAGE.read_text() == audit.page()


def test_the_contract_lists_what_is_loaded() -> None:
    listed = contract()["source_modules"]
    packages = {"dpcube", "dpcube.curator", "dpcube.geometry", audit.ABOVE}
    modules = set(audit.trusted_modules()) - packages
    assert {m for m in modules if not any(m == one or m.startswith(f"{one}.") for one in listed)} == set()
    assert {one for one in listed if not any(m == one or m.startswith(f"{one}.") for m in modules)} == set()


def test_everything_that_is_not_trusted_is_forbidden() -> None:
    told = contract()
    known = [*told["source_modules"], *told["forbidden_modules"]]
    source = ROOT / "src" / "dpcube"
    for path in sorted(source.rglob("*.py")):
        name = ".".join(["dpcube", *path.relative_to(source).with_suffix("").parts]).removesuffix(".__init__")
        if name not in ("dpcube", "dpcube.__main__", "dpcube.curator", "dpcube.geometry"):
            assert any(name == one or name.startswith(f"{one}.") for one in known), name


@pytest.mark.slow
def test_an_import_of_anything_else_in_any_trusted_module_breaks_the_contract(tmp_path: Path) -> None:
    """All of them are spoilt at once, and each is named."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    spoilt = set(audit.trusted_modules()) - {"dpcube", "dpcube.curator", "dpcube.geometry", audit.ABOVE}
    for module in spoilt:
        path = tmp_path / audit.path_of(module).relative_to(ROOT)
        path.write_text(f"{path.read_text()}\n\nimport dpcube.estimate\n")
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
    assert {module for module in spoilt if f"{module} -> dpcube.estimate" not in done.stdout} == set()


def overdrafts() -> int:
    """How often a gate counts one box with the whole budget, of fifty times asked."""
    gate, granted = Gate(np.zeros((4, 4), np.int64), Fraction(1)), 0
    box = Boxes((4, 4), np.array([[0, 0]]), np.array([[2, 2]]))
    for _ in range(50):
        try:
            gate.count_boxes(box, np.array([BUDGET_UNITS]))
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
