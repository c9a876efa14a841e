"""Which small faults in trusted code do the tests notice? (`make mutants`)

Every mutant of the modules that need an audit (`mutations.py`) is put into a copy of the repository, and the tests that
reach its line are run there, quickest first, until one fails: then the mutant is killed. What survives is listed, and
kept in `.mutants/survivors.txt`. Which tests reach which line, and how long each takes, is measured once and kept there
too. A mutant that cannot be told from the original is named in `equivalent_mutants.toml`, with the reason.

    python tools/mutants.py                      a sample of 300, drawn by a seed
    python tools/mutants.py --all privacy        every mutant of the modules whose names hold "privacy"
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import pytest
from audit import path_of, trusted_modules
from coverage import CoverageData
from mutations import Mutant, mutants_of

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".mutants"
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
NOT_COPIED = (".git", ".venv", ".mutants", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__")
UNKNOWN_SECONDS, MOST_SECONDS = 5.0, 30.0
PASSED, FAILED = 0, 1  # pytest's exit codes; any other says that the tests could not be run


class Times:
    """A plugin of pytest that writes how long each test took, in the process that started the others.

    A test that fails without a mutant, for one that depends on the machine's load, can tell nothing and is left out.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += math.inf if report.failed else report.duration

    def pytest_sessionfinish(self) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            (KEPT / "seconds.json").write_text(json.dumps(self.seconds))


@dataclass(frozen=True)
class Reach:
    """Which tests reach each line of each file, and how long each test takes."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests of a mutant's line, or if none is seen there (compiled code) of its file; quickest first."""
        lines = self.lines.get(mutant.module, {})
        reaching = set(lines.get(mutant.line, ())) or {test for tests in lines.values() for test in tests}
        chosen: list[str] = []
        spent = 0.0
        for test in sorted(reaching, key=self.cost):
            spent += self.cost(test)
            if spent > MOST_SECONDS:
                break
            chosen.append(test)
        return chosen

    def cost(self, test: str) -> float:
        """Return the seconds that a test takes."""
        return self.seconds.get(test, UNKNOWN_SECONDS)


def measure(tests: list[str]) -> None:
    """Run the tests once with coverage by test, and keep what was seen."""
    KEPT.mkdir(exist_ok=True)
    os.environ["COVERAGE_FILE"] = str(KEPT / "coverage")
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "--cov", "--cov-context=test", "--cov-report="]
    if pytest.main([f"--rootdir={ROOT}", *options, *tests], plugins=[Times()]) not in (PASSED, FAILED):
        sys.exit("the tests could not be run")


def reach() -> Reach:
    """Return what was measured."""
    lines: dict[str, dict[int, list[str]]] = {}
    data = CoverageData(str(KEPT / "coverage"))
    data.read()
    for file in data.measured_files():
        seen = lines.setdefault(str(Path(file).relative_to(ROOT)), {})
        for line, contexts in data.contexts_by_lineno(file).items():
            seen[line] = sorted({context.rpartition("|")[0] for context in contexts if context})
    return Reach(lines, json.loads((KEPT / "seconds.json").read_text()))


def trusted_mutants(words: list[str]) -> list[Mutant]:
    """Return the mutants of trusted modules whose names hold one of the words, but those known to be equivalent."""
    found = []
    for path in map(path_of, trusted_modules()):
        module = str(path.relative_to(ROOT))
        if not words or any(word in module for word in words):
            found += mutants_of(module, path.read_text())
    equivalent = {entry["mutant"] for entry in tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])}
    return [mutant for mutant in found if mutant.name not in equivalent]


def fate(mutant: Mutant, tests: list[str], copy: Path) -> str:
    """Run the tests on a copy of the repository that holds the mutant."""
    if not tests:
        return "not reached"
    path, list_ = copy / mutant.module, copy / "tests.txt"
    original = path.read_text()
    path.write_text(mutant.source)
    list_.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov", f"@{list_}"]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "NUMBA_CACHE_DIR": str(copy / "numba")}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=10 * MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return "killed by time"
    finally:
        path.write_text(original)
    return {PASSED: "survived", FAILED: "killed"}.get(done.returncode, "killed at import")


def try_all(mutants: list[Mutant], known: Reach, processes: int) -> list[tuple[Mutant, str]]:
    """Return each mutant's fate; copies of the repository are used by turns."""
    copies: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory(prefix="dpcube-mutants-") as folder:
        for number in range(processes):
            copy = Path(folder) / str(number)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
            copies.put(copy)

        def one(mutant: Mutant) -> tuple[Mutant, str]:
            copy = copies.get()
            start, outcome = time.monotonic(), fate(mutant, known.tests(mutant), copy)
            copies.put(copy)
            print(f"{outcome:16} {time.monotonic() - start:5.0f} s  {mutant.module}:{mutant.line}", flush=True)
            return mutant, outcome

        with ThreadPoolExecutor(processes) as threads:
            return list(threads.map(one, mutants))


def main() -> None:
    """Try mutants and print the score."""
    parser = argparse.ArgumentParser(description="Which small faults in trusted code do the tests notice?")
    parser.add_argument("words", nargs="*", help="try only modules whose paths hold one of these")
    parser.add_argument("--all", action="store_true", help="try every mutant, not a sample")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--measure", action="store_true", help="measure anew which tests reach which lines")
    parser.add_argument("--tests", nargs="*", default=[], help="with --measure: only these tests")
    chosen = parser.parse_args()
    if chosen.measure or not (KEPT / "seconds.json").exists():
        measure(chosen.tests)
    mutants = trusted_mutants(chosen.words)
    if not chosen.all and len(mutants) > chosen.sample:
        mutants = sorted(random.Random(chosen.seed).sample(mutants, chosen.sample), key=lambda m: (m.module, m.line))
    fates = try_all(mutants, reach(), chosen.processes)
    alive = [(mutant, outcome) for mutant, outcome in fates if not outcome.startswith("killed")]
    report = [f"{outcome}: {mutant.module}:{mutant.line}\n    {mutant.name}" for mutant, outcome in alive]
    report.append(f"{len(fates) - len(alive)} of {len(fates)} mutants killed")
    (KEPT / "survivors.txt").write_text("\n".join(report) + "\n")
    print("\n".join(report))


if __name__ == "__main__":
    main()
