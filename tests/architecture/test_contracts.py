"""The layers hold, and the linter that says so can say no."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import dpcube
from dpcube.curator import publish

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dpcube"
MODULES = sorted(SOURCE.rglob("*.py"))


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package in `directory`/src, by the contracts in `directory`/pyproject.toml."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, to be spoilt."""
    shutil.copytree(SOURCE, tmp_path / "src" / "dpcube", ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_are_kept() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


TRUSTED = "core and link import nothing of ours outside core and link"
LAYERS = "each layer imports only layers below it"
ANALYST = "the analyst's verbs never reach private rows"
ROWS = "private rows are opened by curator, web.studio, link and research only"
STRATEGIES = "strategies and models see noisy counts only"
RESEARCH = "research serves only the verbs of research"
CURATOR = "the curator's path draws exact noise only"
SIMULATED = "simulated tables and their seeded noise stay with plans"
SCIPY = "scipy serves research only: the core is installed without it"
SYNTHETIC = "synthetic rows, drawn from a seed, are post-processing only"
SECURE = "the secure step is handed features and reaches no rows or budgets"
CHILD = "the engine's environment is met in a child process only"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "added", "contract"),
    [
        ("release/release.py", "from dpcube.curator import publish", ROWS),
        ("release/release.py", "import dpcube.core.sources", ROWS),
        ("cli/analyst/count.py", "from dpcube.core.sources import open_rows", ANALYST),
        ("cli/analyst/tables.py", "from dpcube.research import distances", ANALYST),
        ("cli/analyst/sql.py", "from dpcube.curator import publish", ANALYST),
        ("cli/analyst/plot.py", "from dpcube.demo import beside_truth", ANALYST),
        ("release/plots/picture.py", "from dpcube.curator.publishing import count", ROWS),
        ("cli/curator/release.py", "from dpcube.research import distances", RESEARCH),
        ("demo.py", "from dpcube.theory import ls_error", RESEARCH),
        ("strategies/two_phase.py", "from dpcube.core.noise import ExactNoise", STRATEGIES),
        ("strategies/cells.py", "import dpcube.core.randomness", STRATEGIES),
        ("strategies/cells.py", "from dpcube.core.gate import Gate", STRATEGIES),
        ("models/estimators.py", "import dpcube.strategies.simulated", LAYERS),
        ("web/studio/session.py", "from dpcube.strategies.simulated import ScaledNoise", SIMULATED),
        ("models/estimators.py", "from dpcube.core.gate import Gate", STRATEGIES),
        ("core/gate.py", "from dpcube.testing import SilentNoise", TRUSTED),
        ("learn/additive.py", "from scipy.linalg import cho_solve", SCIPY),
        ("curator/publishing.py", "import random", CURATOR),
        ("curator/publishing.py", "from dpcube.strategies.simulated import simulated_gate", SIMULATED),
        ("core/gate.py", "from dpcube.queries.random_ranges import random_ranges", TRUSTED),
        ("queries/__init__.py", "from dpcube.queries.random_ranges import random_ranges", CURATOR),
        ("plan/predict.py", "import dpcube.testing", ROWS),
        ("cli/analyst/plan.py", "from dpcube.curator.publishing import count", ANALYST),
        ("strategies/cells.py", "import dpcube.plan", LAYERS),
        ("core/gate.py", "from dpcube.release.synthesize import synthetic_rows", TRUSTED),
        ("strategies/cells.py", "from dpcube.models.sampling import same_rows", SYNTHETIC),
        ("core/noise.py", "import random", TRUSTED),
        ("link/session.py", "import random", CURATOR),
        ("link/session.py", "from dpcube.testing import SilentNoise", CURATOR),
        ("link/blocking.py", "from dpcube.release import Release", TRUSTED),
        ("link/secure/environment.py", "from dpcube.release.cache import folder", TRUSTED),
        ("core/boxes.py", "from dpcube.models import estimate", LAYERS),
        ("trees/growth.py", "import dpcube.strategies", LAYERS),
        ("core/errors.py", "import dpcube.datasets", TRUSTED),
        ("link/secure/step.py", "from dpcube.core.sources import open_rows", SECURE),
        ("link/program.py", "import dpcube.core.ledger.ledger", SECURE),
        ("link/secure/worker.py", "from dpcube.core.errors import LinkageError", CHILD),
        ("core/gate.py", "from dpcube.link.program import Program", LAYERS),
        ("core/gate.py", "from dpcube.strategies.simulated import simulated_gate", LAYERS),
        ("core/noise.py", "import dpcube.strategies.simulated", LAYERS),
        ("cli/analyst/registry.py", "from dpcube.curator import publish", ANALYST),
        ("curator/publishing.py", "from dpcube.web.studio import StudioSession", LAYERS),
        ("web/studio/session.py", "from dpcube.testing import SilentNoise", LAYERS),
    ],
)
def test_a_forbidden_import_breaks_its_contract(copy: Path, module: str, added: str, contract: str) -> None:
    path = copy / "src" / "dpcube" / module
    path.write_text(f"{path.read_text()}\n\n{added}\n")
    result = lint(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout


def test_an_import_inside_a_function_is_seen(copy: Path) -> None:
    path = copy / "src" / "dpcube" / "release" / "answer.py"
    path.write_text(f"{path.read_text()}\n\ndef peek() -> None:\n    from dpcube.curator import publish\n")
    assert f"{ROWS} BROKEN" in lint(copy).stdout


def test_a_module_in_no_layer_breaks_the_contract(copy: Path) -> None:
    (copy / "src" / "dpcube" / "elsewhere.py").write_text("import dpcube.curator\n")
    assert f"{LAYERS} BROKEN" in lint(copy).stdout


def test_an_untouched_copy_keeps_its_contracts(copy: Path) -> None:
    """Otherwise the copies above could be broken by being copies."""
    result = lint(copy)
    assert result.returncode == 0, result.stdout + result.stderr


# What import-linter cannot see.


def test_nobody_can_give_publish_its_noise() -> None:
    parameters = set(inspect.signature(publish).parameters)
    assert not {name for name in parameters if "noise" in name or "seed" in name or "random" in name}
    assert "epsilon" in inspect.signature(publish).parameters


@cache
def parsed() -> list[tuple[str, ast.Module]]:
    assert len(MODULES) > 50
    return [(str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))) for path in MODULES]


def test_every_module_says_what_it_is() -> None:
    assert [name for name, tree in parsed() if not ast.get_docstring(tree)] == []


RANDOM = {"random", "numpy.random"}
CHOOSING = "strategies/simulated.py"


def random_uses(tree: ast.Module) -> list[str]:
    """Every import or use of a generator that a seed repeats."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in RANDOM]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [node.module] if node.module in RANDOM else []
            found += [f"{node.module}.{a.name}" for a in node.names if f"{node.module}.{a.name}" in RANDOM]
        elif isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
            found.append(ast.unparse(node))
    return found


def test_only_tests_experiments_and_synthetic_rows_use_seeded_randomness() -> None:
    """Plans run on made-up tables; the curator's path may import neither them nor the random workloads.

    Synthetic rows are post-processing of a release. A strategy chooses its plan on tables made up from noisy counts;
    the one module that draws for it is out of the gate's reach.
    """
    allowed = (
        "testing/",
        "research/",
        "plan/",
        "queries/random_ranges.py",
        "release/synthesize.py",
        "models/sampling.py",
        CHOOSING,
    )
    used = {name: found for name, tree in parsed() if (found := random_uses(tree))}
    assert {name for name in used if not name.startswith(allowed)} == set()
    assert "testing/noise.py" in used  # the search does find what is there


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "import numpy as np\nnp.random.default_rng(0)",
        "from numpy import random",
        "from numpy.random import default_rng",
        "def f():\n    import random as r",
        "import numpy\nx = numpy.random",
    ],
)
def test_the_search_for_randomness_finds_it(text: str) -> None:
    assert random_uses(ast.parse(text))


def asks_the_system(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "urandom" for node in ast.walk(tree))


def test_the_operating_systems_randomness_is_asked_for_in_few_places() -> None:
    """Keys of noise in one module; elsewhere only names of files that are being written."""
    names_of_files = {"core/files.py"}
    assert {name for name, tree in parsed() if asks_the_system(tree)} <= {"core/randomness.py", *names_of_files}


def test_importing_the_package_does_not_open_the_curators_side() -> None:
    """Access to rows shows on the import line: the analyst's side loads without it."""
    script = (
        "import sys, dpcube; dpcube.Release; dpcube.Workload; dpcube.open; dpcube.plan.plan; "
        "closed = ('dpcube.curator', 'dpcube.core.sources', 'dpcube.research', 'dpcube.testing'); "
        "print([m for m in sys.modules if m.startswith(closed)])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert result.stdout.strip() == "[]"


def test_what_is_promised_is_exported() -> None:
    for name in dpcube.__all__:
        assert getattr(dpcube, name) is not None
    assert set(dpcube.__all__) <= set(dir(dpcube))
    with pytest.raises(AttributeError, match="no attribute 'publish'"):
        dpcube.publish  # noqa: B018
