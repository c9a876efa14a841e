"""Which small faults in trusted code do the tests notice? (`make mutants`)

Every mutant of the modules that need an audit (`mutations.py`) is planted by itself (`planting.py`, which says when it
counts as killed), and the tests that reach its line are run, quickest first, until one fails. Which tests reach which
line, and how long each takes, is measured once and kept in `.mutants/`. So is each outcome, as soon as it is known: a
run that was stopped goes on where it stopped. A mutant that no test can tell from the original is named in
`equivalent_mutants.toml`, with the reason.

    python tools/mutants.py                            every mutant of trusted code: hours
    python tools/mutants.py privacy/noise gate         those of the modules whose paths hold one of these, in this order
    python tools/mutants.py --again --seconds 60       once more those that are not killed, with all tests of the module
    python tools/mutants.py --measure tests/unit       measure these tests anew, and keep what is known of the others
                                                       (options of pytest may stand there too: -k 'not slow')
    python tools/mutants.py --sample 40 domain         40 of each module, drawn at random but the same every time
    python tools/mutants.py --score                    only print what is known

The score is of whole modules, or of samples: then an exact interval says what share of all mutants is killed.
"""

import argparse
import gc
import hashlib
import json
import math
import os
import random
import sys
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from audit import path_of, trusted_modules
from coverage import CoverageData
from mutations import Mutant, kernel_lines, mutants_of
from planting import FAILED, PASSED, REMEMBERS, Loaded, Plant, Swapped, Trial, differs, options, settle, when_loaded
from scipy.stats import beta

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".mutants"
OUTCOMES = KEPT / "outcomes.jsonl"
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
NOT_COPIED = (".git", ".venv", ".mutants", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".fuzz")
QUICK = ["-m", "not slow", "tests/unit", "tests/property", "tests/golden", "tests/architecture", "src"]
UNKNOWN_SECONDS, LOADING_SECONDS, MAX_SECONDS = 5.0, 0.5, 5.0


class Times:
    """A plugin of pytest that keeps how long each test took.

    A test that fails without a mutant, for one that depends on the machine's load, can tell nothing and is left out.
    What functions remember is forgotten before each test, or a line would be seen to be reached by the first alone.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._remembered: list[Any] = []

    def pytest_collection_finish(self) -> None:
        self._remembered = [thing for thing in gc.get_objects() if type(thing) is REMEMBERS]

    def pytest_runtest_setup(self) -> None:
        for remembered in self._remembered:
            remembered.cache_clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += math.inf if report.failed else report.duration


@dataclass(frozen=True)
class Reach:
    """Which tests reach each line of each file, and how long each test takes."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]
    wanted: tuple[str, ...] = ("",)
    """Only tests whose names hold one of these are used."""
    wide: bool = False

    def tests(self, mutant: Mutant, most: float, *, loading: bool = False) -> list[str]:
        """Return tests of a mutant's line, quickest first; of its module, if none is seen there (a kernel, a constant).

        They take `most` seconds together. Where their files must be loaded first, that takes time too, and the files
        named after the module or with many tests of the line come first. If `wide`, those of the module come after
        those of the line.
        """
        lines = self.lines.get(mutant.module, {})
        here = set(lines.get(mutant.line, ()))
        reaching = here | self._around(lines) if self.wide or not here else here
        reaching = {test for test in reaching if any(word in test for word in self.wanted)}
        files = Counter(test.partition("::")[0] for test in reaching)
        stem = Path(mutant.module).stem

        def order(test: str) -> tuple[float, ...]:
            file = test.partition("::")[0]
            first = (stem not in file, -files[file]) if loading else (test not in here,)
            return *first, self.cost(test)

        chosen: list[str] = []
        spent, loaded = 0.0, set()
        for test in sorted(reaching, key=order):
            file = test.partition("::")[0]
            cost = self.cost(test) + (LOADING_SECONDS if loading and file not in loaded else 0.0)
            if spent + cost <= most or (not chosen and cost < math.inf):
                spent += cost
                chosen.append(test)
                loaded.add(file)
        return chosen

    def _around(self, lines: dict[int, list[str]]) -> set[str]:
        """Return all tests of the files in which some test reaches the module; one may look at a constant alone."""
        files = {test.partition("::")[0] for tests in lines.values() for test in tests}
        return {test for test in self.seconds if test.partition("::")[0] in files}

    def cost(self, test: str) -> float:
        """Return the seconds that a test takes."""
        return self.seconds.get(test, UNKNOWN_SECONDS)


def measure(tests: list[str]) -> None:
    """Run tests once with coverage by test, and keep what was seen beside what is known of others."""
    KEPT.mkdir(exist_ok=True)
    os.environ["COVERAGE_FILE"] = str(KEPT / "coverage")
    times, path = Times(), KEPT / "seconds.json"
    how = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--cov", "--cov-append", "--cov-context=test"]
    if pytest.main([f"--rootdir={ROOT}", *how, "--cov-report=", *tests], plugins=[times]) not in (PASSED, FAILED):
        sys.exit("the tests could not be run")
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | times.seconds))


def reach(wanted: list[str], *, wide: bool) -> Reach:
    """Return what was measured."""
    lines: dict[str, dict[int, list[str]]] = {}
    data = CoverageData(str(KEPT / "coverage"))
    data.read()
    for file in data.measured_files():
        seen = lines.setdefault(str(Path(file).relative_to(ROOT)), {})
        for line, contexts in data.contexts_by_lineno(file).items():
            seen[line] = sorted({context.rpartition("|")[0] for context in contexts if context})
    return Reach(lines, json.loads((KEPT / "seconds.json").read_text()), tuple(wanted) or ("",), wide)


def trusted_mutants(words: list[str]) -> list[Mutant]:
    """Return the mutants of trusted modules whose paths hold one of the words, in the order of the words."""
    modules = [str(path_of(module).relative_to(ROOT)) for module in trusted_modules()]
    chosen = dict.fromkeys(module for word in words or [""] for module in modules if word in module)
    found = [mutant for module in chosen for mutant in mutants_of(module, source_of(module))]
    return [mutant for mutant in found if differs(mutant, source_of(mutant.module))]


def sampled(mutants: list[Mutant], most: int) -> list[Mutant]:
    """Return so many mutants of each module, drawn at random from a seed that is the module's name."""
    chosen = []
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        own = [mutant for mutant in mutants if mutant.module == module]
        chosen += random.Random(module).sample(own, most) if most < len(own) else own
    return chosen


def interval(killed: int, tried: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of the share that is killed.

    >>> [round(end, 3) for end in interval(38, 40)]
    [0.831, 0.994]
    """
    tail = (1 - confidence) / 2
    low = beta.ppf(tail, killed, tried - killed + 1) if killed else 0.0
    high = beta.ppf(1 - tail, killed + 1, tried - killed) if killed < tried else 1.0
    return float(low), float(high)


@cache
def source_of(module: str) -> str:
    """Return a module's text, as it was when this run began."""
    return (ROOT / module).read_text(encoding="utf-8")


def equivalent() -> set[str]:
    """Return the names of the mutants that are argued to be equivalent."""
    return {entry["mutant"] for entry in tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])}


def known_trials(mutants: Iterable[Mutant]) -> dict[str, Trial]:
    """Return the last outcome of each mutant whose module is as it was then."""
    digests = {mutant.name: _digest(mutant.module) for mutant in mutants}
    known: dict[str, Trial] = {}
    for line in OUTCOMES.read_text().splitlines() if OUTCOMES.exists() else ():
        entry = json.loads(line)
        if digests.get(entry["mutant"]) == entry["of"]:
            known[entry["mutant"]] = Trial(entry["outcome"], entry["test"], entry["planted"])
    return known


def keep(mutant: Mutant, trial: Trial, seconds: float) -> None:
    """Write an outcome down, and print it."""
    entry = {"mutant": mutant.name, "of": _digest(mutant.module), "outcome": trial.outcome, "test": trial.test}
    with OUTCOMES.open("a") as file:
        file.write(json.dumps(entry | {"planted": trial.planted, "seconds": round(seconds, 2)}) + "\n")
    print(f"{trial.outcome:16} {trial.planted:8} {seconds:5.1f} s  {mutant.module}:{mutant.line}", flush=True)


def try_all(mutants: list[Mutant], plant: Plant, chosen: Callable[[Mutant], list[str]], known: Reach) -> None:
    """Try the mutants one after another."""
    for mutant in mutants:
        start, tests = time.monotonic(), chosen(mutant)
        trial = plant.trial(mutant, tests, sum(map(known.cost, tests)))
        keep(mutant, trial, time.monotonic() - start)


def run(mutants: list[Mutant], known: Reach, most: float, *, again: bool, processes: int, loading: bool) -> None:
    """Try what is not tried yet: first faults inside functions, then those that the package must be loaded with."""
    past = known_trials(mutants)
    anew: list[Mutant] = []
    inside: list[Mutant] = []
    for mutant in mutants:
        outcome = past[mutant.name].outcome if mutant.name in past else ""
        if outcome.startswith("killed") or (outcome not in ("", "not planted") and not again):
            continue
        source = source_of(mutant.module)
        loads = outcome == "not planted" or (mutant.line not in kernel_lines(source) and when_loaded(mutant, source))
        if loading or not loads:
            (anew if loads else inside).append(mutant)
    print(f"{len(anew)} faults to load, {len(inside)} to swap in", flush=True)

    def work(part: int, anew: list[Mutant], inside: list[Mutant]) -> None:
        copy = KEPT / str(part) / "copy"
        settle(ROOT, copy, NOT_COPIED)
        if inside:  # in a process of its own, for this one must not load the package
            os.waitpid(in_a_fork(lambda: swap_in(inside, copy, most, known)), 0)
        if anew:
            try_all(anew, Loaded(copy), lambda mutant: known.tests(mutant, most, loading=True), known)

    workers = [in_a_fork(partial(work, i, anew[i::processes], inside[i::processes])) for i in range(processes)]
    for worker in workers:
        os.waitpid(worker, 0)


def in_a_fork(work: Callable[[], object]) -> int:
    """Start a process that does this and ends; return its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    return child


def swap_in(mutants: list[Mutant], copy: Path, most: float, known: Reach) -> None:
    """Collect the tests that reach the mutants, and try faults inside functions."""
    tests = {mutant.name: known.tests(mutant, most) for mutant in mutants}

    def try_them(plant: Swapped) -> None:
        try_all(mutants, plant, lambda mutant: list(filter(plant.knows, tests[mutant.name])), known)

    swapped = Swapped(copy, try_them, known.cost)
    files = sorted({test.partition("::")[0] for chosen in tests.values() for test in chosen})
    pytest.main([*options(copy), "-s", *files], plugins=[swapped, swapped.told])


def score(mutants: list[Mutant]) -> str:
    """Return the score of each module as a table, and what is not killed below it."""
    past, argued = known_trials(mutants), equivalent()
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    alive = []
    for mutant in mutants:
        outcome = past[mutant.name].outcome if mutant.name in past else "not tried"
        outcome = "killed" if outcome.startswith("killed") else outcome
        if outcome != "killed" and mutant.name in argued:
            outcome = "equivalent"
        rows[mutant.module][outcome] += 1
        if outcome not in ("killed", "equivalent"):
            alive.append(f"{outcome}: {mutant.module}:{mutant.line}\n    {mutant.name}")
    kinds = ("killed", "survived", "not reached", "equivalent", "no verdict", "not tried")
    table = ["| module | mutants | " + " | ".join(kinds) + " |", "|---|" + "---:|" * (len(kinds) + 1)]
    rows["**all**"] = sum(rows.values(), Counter())
    for module, row in rows.items():
        row["not tried"] += row.pop("not planted", 0)
        name = module if module == "**all**" else f"`{module.removeprefix('src/dpcube/')}`"
        table.append(f"| {name} | {row.total()} | " + " | ".join(str(row[kind]) for kind in kinds) + " |")
    (KEPT / "survivors.txt").write_text("\n".join(alive) + "\n")
    told = rows["**all**"]
    tried = told["killed"] + told["survived"] + told["not reached"]
    low, high = interval(told["killed"], tried)
    return "\n".join([*table, "", f"{told['killed']} of {tried} killed; of a sample: {low:.1%} to {high:.1%} of all"])


def _digest(module: str) -> str:
    return hashlib.sha256(source_of(module).encode()).hexdigest()[:16]


def main() -> None:
    """Try mutants and print the score."""
    parser = argparse.ArgumentParser(description="Which small faults in trusted code do the tests notice?")
    parser.add_argument("words", nargs="*", help="modules whose paths hold one of these; with --measure: tests")
    parser.add_argument("--again", action="store_true", help="try what is not killed once more")
    parser.add_argument("--seconds", type=float, default=MAX_SECONDS, help="of tests for each mutant")
    parser.add_argument("--processes", type=int, default=1, help="that try mutants at a time")
    parser.add_argument("--tests", nargs="*", default=[], help="use only tests whose names hold one of these")
    parser.add_argument("--measure", action="store_true", help="measure which tests reach which lines")
    parser.add_argument("--inside", action="store_true", help="try only faults inside functions, which is quick")
    parser.add_argument("--sample", type=int, help="try so many of each module")
    parser.add_argument("--score", action="store_true", help="only print the score")
    chosen, others = parser.parse_known_args()
    if others and not chosen.measure:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if chosen.measure or not (KEPT / "seconds.json").exists():
        measure([*others, *chosen.words] or QUICK if chosen.measure else QUICK)
    if chosen.measure:
        return
    mutants = trusted_mutants(chosen.words)
    mutants = sampled(mutants, chosen.sample) if chosen.sample else mutants
    if not chosen.score:
        argued = equivalent()
        tried = [mutant for mutant in mutants if mutant.name not in argued]
        run(
            tried,
            reach(chosen.tests, wide=chosen.again),
            chosen.seconds,
            again=chosen.again,
            processes=chosen.processes,
            loading=not chosen.inside,
        )
    print(score(mutants))


if __name__ == "__main__":
    main()
