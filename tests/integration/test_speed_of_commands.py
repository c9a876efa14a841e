"""What keeps commands quick: libraries that a verb does not need stay out, and compiling is said and done ahead."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dpcube.core import caches

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
        RELEASES / "adaptive.dpcube",
        "age >= 30",
        "sex = 'F' and age between 22 and 41",
        "--json",
    )
    first, loaded = modules(*asked, cache=tmp_path / "cache")
    assert "numba" in packages(loaded)  # the check can fail
    again, loaded = modules(*asked, cache=tmp_path / "cache")
    assert again == first
    assert packages(loaded) & set(HEAVY) == set()
    assert {
        name for name in loaded if name.startswith(("dpcube.research", "dpcube.strategies", "dpcube.curator"))
    } == set()


@pytest.mark.parametrize("verb", ["count", "info"])
def test_a_verb_of_the_analyst_imports_neither_pandas_nor_statistics_nor_theory(verb: str, tmp_path: Path) -> None:
    for name in ("adaptive", "cells", "dpcube"):
        _, loaded = modules(verb, RELEASES / f"{name}.dpcube", cache=tmp_path / "none" / name)
        assert packages(loaded) & {"pandas", "duckdb", "sqlglot", "matplotlib", "plotly"} == set()
        assert {one for one in loaded if one.startswith(("scipy.stats", "dpcube.research", "dpcube.curator"))} == set()


COMPILING = """
import numpy as np
from dpcube.cli.output import say_when_compiling
from dpcube.core.compiled import compiled

say_when_compiling()
say_when_compiling()
from dpcube.models.cell_sums import range_sums

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
    assert cold.count("compiling for this computer") == 1
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
@pytest.mark.nightly
def test_compiling_ahead_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """In the cache of this checkout: from nothing it would take minutes."""
    command = [sys.executable, "-m", "dpcube", "compile"]
    done = [subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [one.stderr for one in done] == ["", ""]
    assert done[1].stdout == "everything is compiled already\n"
    assert list(tmp_path.iterdir()) == []


USED_AFTERWARDS = """
import sys
import numpy as np, pyarrow as pa
from dpcube import Category, Domain, Float, Integer
from dpcube.core.compiled import _Compiled
from dpcube.curator.publishing import publish
from dpcube.ahead import compile_ahead
from dpcube.queries.random_ranges import random_ranges
from dpcube.strategies import Adaptive

def versions():
    loops = {loop for module in list(sys.modules.values()) for loop in vars(module).values() if type(loop) is _Compiled}
    made = [(loop, one) for loop in loops if loop._compiled for one in loop._compiled.signatures]
    return {(loop.__module__, loop.__name__, str(one)) for loop, one in made}

compile_ahead()
before, draw = versions(), np.random.default_rng(1)
columns = {f"a{k}": draw.integers(0, 6, 3000) for k in range(13)}
columns |= {name: draw.normal(0.5, 0.1, 3000).clip(0, 0.999) for name in "xy"}
table = pa.table(columns | {"c": np.where(columns["a0"] > 2, "u", "v")})
whole = [Integer(f"a{k}", 0, 5) for k in range(13)]
real, side = [Float(name, 0.0, 1.0, width=0.00001) for name in "xy"], Category("c", ["u", "v"])
for kind, domain, strategy in (
    ("one attribute", Domain(whole[0]), "adaptive"),
    ("dense", Domain(*whole[:3]), "adaptive"),
    ("cells", Domain(*whole[:3]), "cells"),
    ("boxes", Domain(*whole[:3]), "dpcube"),
    ("by class", Domain(*whole[:2], side), Adaptive(target="c")),
    ("for ranges", Domain(*whole[:2], side), Adaptive(queries="ranges")),
    ("six attributes", Domain(*whole[:6]), "adaptive"),
    ("wide", Domain(*whole, side), "adaptive"),
    ("wide by class", Domain(*whole, side), Adaptive(target="c")),
    ("grid", Domain(*real), "adaptive"),
    ("grid of three", Domain(*real, side), "adaptive"),
):
    release, name = publish(table, domain, epsilon=1, ledger=None, strategy=strategy), domain.names[0]
    release.count(f"{name} <= 0.7" if name == "x" else f"{name} = 3")
    release.sql(f"SELECT count(*) / avg({name}), median({name}) FROM cube WHERE {name} > 0", error=True)
    release.synthesize(100)
    if "wide" not in kind:
        for many in (50, 20_000):
            release.answer(random_ranges(domain.shape, many, seed=1))
    if "class" in kind:
        release.train("c")
    for module, loop, types in sorted(versions() - before):
        print(kind, module, loop, types)
    before |= versions()
"""


@pytest.mark.slow
def test_every_kind_of_release_finds_its_loops_compiled_ahead(tmp_path: Path) -> None:
    """Those of wide tables, of grids and of many ranges were compiled in a user's first release of that kind.

    What counts is for which types a loop was made before, so it does not matter what some cache holds.
    """
    done = subprocess.run(
        [sys.executable, "-c", USED_AFTERWARDS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ""
