"""What keeps commands quick: libraries that a verb does not need stay out, and compiling is said and done ahead."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dpcube import caches

RELEASES = Path(__file__).parents[1] / "unit" / "releases"
LOADED = """
import sys
from dpcube.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
HEAVY = ("numba", "llvmlite", "scipy", "pandas", "pyarrow", "duckdb", "sqlglot", "matplotlib", "plotly", "cryptography")


def modules(*arguments: object, cache: Path) -> tuple[str, set[str]]:
    """Return what a command printed, and the modules that it imported."""
    environment = {**os.environ, caches.SWITCH: str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout, set(done.stderr.split())


def packages(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def test_counting_again_imports_neither_a_compiler_nor_a_reader(tmp_path: Path) -> None:
    asked = (
        "count",
        RELEASES / "format1-adaptive.dpcube",
        "age >= 30",
        "sex = 'F' and age between 22 and 41",
        "--json",
    )
    first, loaded = modules(*asked, cache=tmp_path / "cache")
    assert "numba" in packages(loaded)  # the check can fail
    again, loaded = modules(*asked, cache=tmp_path / "cache")
    assert again == first
    assert packages(loaded) & set(HEAVY) == set()
    assert {name for name in loaded if name.startswith(("dpcube.theory", "dpcube.strategy", "dpcube.curator"))} == set()


@pytest.mark.parametrize("verb", ["count", "info"])
def test_a_verb_of_the_analyst_imports_neither_pandas_nor_statistics_nor_theory(verb: str, tmp_path: Path) -> None:
    for name in ("adaptive", "cells", "dpcube"):
        _, loaded = modules(verb, RELEASES / f"format1-{name}.dpcube", cache=tmp_path / "none" / name)
        assert packages(loaded) & {"pandas", "duckdb", "sqlglot", "matplotlib", "plotly"} == set()
        assert {one for one in loaded if one.startswith(("scipy.stats", "dpcube.theory", "dpcube.curator"))} == set()


COMPILING = """
import numpy as np
from dpcube.cli.output import say_when_compiling
from dpcube.compiled import compiled

say_when_compiling()
say_when_compiling()
from dpcube.estimate.cell_sums import range_sums

for dims in (1, 2):
    print(range_sums(np.ones((2,) * dims), np.zeros((1, dims), np.int64), np.full((1, dims), 2)))
"""


def on_a_terminal(code: str, **environment: str) -> str:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=theirs, stdout=theirs, env={**os.environ, **environment}) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                some = os.read(ours, 4096)
            except OSError:  # Linux says so when the other end closes
                break
            if not some:
                break
            shown += some
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


@pytest.mark.slow
def test_compiling_is_said_once_on_a_terminal_and_only_when_it_happens(tmp_path: Path) -> None:
    cold = on_a_terminal(COMPILING, NUMBA_CACHE_DIR=str(tmp_path))
    assert cold.count("compiling once for this computer") == 1
    assert cold.count("[1.]") == 2
    assert "compiling" not in on_a_terminal(COMPILING, NUMBA_CACHE_DIR=str(tmp_path))
    quiet = subprocess.run(
        [sys.executable, "-c", COMPILING],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "another")},
        capture_output=True,
        check=True,
    )
    assert quiet.stderr == b""


@pytest.mark.slow
def test_compiling_ahead_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """In the cache of this checkout: from nothing it would take minutes."""
    command = [sys.executable, "-m", "dpcube", "compile"]
    done = [subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [one.stderr for one in done] == ["", ""]
    assert done[1].stdout == "nothing was left to compile\n"
    assert list(tmp_path.iterdir()) == []
