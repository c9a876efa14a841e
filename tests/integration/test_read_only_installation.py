"""A release by an installation that nobody can write to: machine code is made, or read, before anything is charged."""

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcube
from dpcube import Domain, Integer
from dpcube.core import noise
from dpcube.core.compiled import compiled
from dpcube.core.errors import CompilerError
from dpcube.core.ledger.ledger import Ledger
from dpcube.curator import publish

NOWHERE = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "LOCALAPPDATA": "/dev/null"}
RELEASE = """
import sys
import numpy as np
import dpcube
from dpcube import Domain, Release
from dpcube.curator import publish

made = publish(np.full((4, 5), 100), Domain.of_shape((4, 5)), epsilon="1/2", strategy="cells", ledger=sys.argv[1])
print(dpcube.__file__, made.digest)
"""


@pytest.mark.slow
def test_where_no_cache_can_be_the_release_is_made(tmp_path: Path) -> None:
    """Each folder of the package has a file where the cache would be, so that not even root can write one."""
    package = tmp_path / "site" / "dpcube"
    shutil.copytree(Path(dpcube.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    environment = {**os.environ, **NOWHERE, "PYTHONPATH": str(package.parent)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", RELEASE, str(tmp_path / "t.ledger")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    place, digest = ran.stdout.split()
    assert Path(place).is_relative_to(package)
    assert [charge.digest for charge in Ledger(tmp_path / "t.ledger").statement().charges] == [digest]


WIDE = Domain(tuple(Integer(f"a{number}", 0, 3) for number in range(3)))
FINE = Domain((Integer("a0", 0, 2**16), Integer("a1", 0, 2**16)))
KINDS = {
    **dict.fromkeys(("adaptive", "dpcube", "cells", "hierarchical", "agrid", "median_tree", "cuboids"), WIDE),
    "fine_grid": FINE,
}
ROWS = pa.table({f"a{number}": np.arange(60) % 4 for number in range(3)})


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_that_does_not_work_is_found_out_before_the_charge(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        msg = "this machine's compiler is broken"
        raise RuntimeError(msg)

    ledger = Ledger.create(tmp_path / "t.ledger", total=Fraction(1))
    with monkeypatch.context() as patch:
        patch.setattr("dpcube.core.compiled._numba", broken)
        patch.setattr(noise._compare, "_compiled", None)
        with pytest.raises(CompilerError, match="noise cannot be drawn here"):
            publish(ROWS, KINDS[kind], epsilon=1, strategy=kind, ledger=ledger.path)
    assert ledger.statement().charges == ()
    publish(ROWS, KINDS[kind], epsilon=1, strategy=kind, ledger=ledger.path)
    assert ledger.statement().spent == 1


IMPORTED = """
import sys
import numpy as np, pyarrow as pa
from pathlib import Path
from dpcube import Domain, Integer
from dpcube.curator import publish
from dpcube.core.ledger.ledger import Ledger

folder, kind, sides = Path(sys.argv[1]), sys.argv[2], [int(side) for side in sys.argv[3].split(",")]
table = pa.table({f"a{number}": np.arange(60) % 4 for number in range(len(sides))})
domain = Domain(tuple(Integer(f"a{number}", 0, side) for number, side in enumerate(sides)))
honest = Ledger.charge_parts
known = set()

def charge_parts(ledger, *given, **more):
    charged = honest(ledger, *given, **more)
    known.update(sys.modules)
    return charged

Ledger.charge_parts = charge_parts
publish(table, domain, epsilon=1, strategy=kind, ledger=folder / "t.ledger", save_to=folder / "r.dpcube")
print("late:", *sorted(set(sys.modules) - known))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sides"), [("adaptive", "3,3"), ("cuboids", "3,3,3"), ("fine_grid", "65535,65535")])
def test_nothing_is_imported_after_the_charge(kind: str, sides: str, tmp_path: Path) -> None:
    """An import may fail: of a package that is missing, or of a file that cannot be read."""
    command = [sys.executable, "-c", IMPORTED, str(tmp_path), kind, sides]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["late:"]


# The cache on disk.


def doubled(numbers: Any) -> Any:
    return 2 * numbers.sum()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let caches be written to a folder of their own."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def loaded() -> tuple[Any, Any]:
    """Return a loop that has run once, and how often it came from the cache."""
    loop = compiled(doubled)
    assert loop(np.arange(4)) == 12
    return loop, sum(loop.load().stats.cache_hits.values())  # type: ignore[attr-defined]


def test_a_loop_is_read_from_the_cache(cached: Path) -> None:
    assert [loaded()[1] for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("ending", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x04garbage", b"cposix\nnothing\n."])
def test_a_cache_that_is_damaged_is_passed_over(ending: str, content: bytes, cached: Path) -> None:
    loaded()
    (path,) = cached.rglob(ending)
    path.write_bytes(content)
    assert loaded()[1] == 0


def test_a_cache_that_cannot_be_written_is_passed_over(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_index", full)
    assert [loaded()[1] for _ in range(2)] == [0, 0]


def test_loops_that_were_compiled_ahead_are_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "ahead.py"
    module.write_text("def loop(numbers):\n    return 2 * numbers.sum()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")  # where this machine keeps its loops must not matter
    function = import_module("ahead").loop
    monkeypatch.delitem(sys.modules, "ahead")
    written, refused = compiled(function), compiled(function)
    assert written(np.arange(4)) == 12
    assert list(tmp_path.rglob("*.nbc"))

    def read_only(*_: Any) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", read_only)
    assert refused(np.arange(4)) == 12
    assert sum(refused.load().stats.cache_hits.values()) == 1
