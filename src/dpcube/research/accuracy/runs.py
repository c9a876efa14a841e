"""Releases of cases, each measured once: cases and algorithms enter, errors by kind with standard errors leave.

What is measured may be kept in a file, a line of JSON for each release, so that a run that was stopped goes on where it
was. A line counts for the code that made it: `fingerprint` changes with every file that a release or an estimate uses.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.research.accuracy.cases import AccuracyCase
from dpcube.research.accuracy.cubes import BY_HALVES, PRIVTREE
from dpcube.research.accuracy.dpbench import chosen_strategy
from dpcube.research.accuracy.kinds import ERROR_KINDS, errors_by_kind
from dpcube.research.arrays import experiment
from dpcube.research.kept_lines import code_digest, keep_lines, kept_lines
from dpcube.research.parallel import in_processes
from dpcube.research.seeds import seed_of
from dpcube.strategies import strategy_of
from dpcube.testing import SeededNoise

PLAIN_CELLS = "cells"
PLAIN_DRAWS = 4
"""Draws of plain cells for each of the others: they are cheap, and everything is compared with them."""
NOT_IN_A_RELEASE = ("cli", "evaluate", "theory")


class RunKey(NamedTuple):
    """One release: which case, by which algorithm, which trial of the table, which draw of noise, and of which seed."""

    group: str
    case: str
    epsilon: str
    algorithm: str
    trial: int
    draw: int
    seed: int


class Run(NamedTuple):
    """The errors of one release by kind, and the seconds it took."""

    key: RunKey
    errors: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCase:
    """One algorithm on one case: mean errors by kind, their standard errors, and the mean seconds of a release."""

    case: AccuracyCase
    algorithm: str
    means: Floats
    stderrs: Floats
    seconds: float
    releases: int


@dataclass(slots=True)
class RunCache:
    """Runs that are known, and the file to which new ones are added; without a file they are kept nowhere."""

    path: Path | None = None
    known: dict[RunKey, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for read in kept_lines(self.path, fingerprint()):
            run = _parsed(read)
            if run is not None:
                self.known[run.key] = run

    def add(self, runs: Iterable[Run]) -> None:
        """Keep runs, in the file at once."""
        runs = list(runs)
        self.known |= {run.key: run for run in runs}
        keep_lines(self.path, fingerprint(), (run._asdict() for run in runs))


def _parsed(read: dict[str, Any]) -> Run | None:
    """Return the run of a line, or None if it has other kinds of errors."""
    try:
        if len(read["errors"]) != len(ERROR_KINDS):
            return None
        return Run(RunKey(*read["key"]), tuple(read["errors"]), read["seconds"])
    except (ValueError, KeyError, TypeError):
        return None


@cache
def fingerprint() -> str:
    """Return what stands for the code of releases and estimates: it changes with any of its files."""
    return code_digest(NOT_IN_A_RELEASE)


def estimated_cells(case: AccuracyCase, key: RunKey) -> Floats:
    """Return the estimated counts of one release."""
    exact_counts, seed = case.samples[key.trial], seed_of(*key)
    if key.algorithm == PRIVTREE:
        return BY_HALVES.release(exact_counts, float(case.epsilon), np.random.default_rng(seed))
    strategy, noise = strategy_of(chosen_strategy(key.algorithm), case.domain), SeededNoise(seed)
    released = experiment(exact_counts, epsilon=case.epsilon, strategy=strategy, noise=noise, domain=case.domain)
    return released.cells()


def run_releases(case: AccuracyCase, keys: Sequence[RunKey]) -> list[Run]:
    """Make some releases of a case and measure them."""
    runs = []
    for key in keys:
        start = time.perf_counter()
        estimated = estimated_cells(case, key)
        seconds = time.perf_counter() - start
        errors = errors_by_kind(case.samples[key.trial], estimated, case.asked)
        runs.append(Run(key, tuple(errors.tolist()), seconds))
    return runs


def measure(
    cases: Iterable[AccuracyCase],
    algorithms: Sequence[str],
    *,
    draws: int,
    seed: int,
    jobs: int = 1,
    cache: RunCache | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[MeasuredCase]:
    """Release every case by every algorithm, `draws` times for each trial, and return the errors."""
    kept, settings = RunCache() if cache is None else cache, []

    def tasks() -> Iterator[tuple[Any, ...]]:
        for case in cases:
            for algorithm in algorithms:
                keys = _keys(case, algorithm, draws, seed)
                settings.append((case, algorithm, keys))
                unknown = [key for key in keys if key not in kept.known]
                if unknown:
                    progress(f"{case.group}: {case.name}, epsilon {case.epsilon}, {algorithm}")
                    yield case, unknown

    for runs in in_processes(run_releases, tasks(), jobs=jobs):
        kept.add(runs)
    return [_measured(case, algorithm, [kept.known[key] for key in keys]) for case, algorithm, keys in settings]


def _keys(case: AccuracyCase, algorithm: str, draws: int, seed: int) -> list[RunKey]:
    number = draws * (PLAIN_DRAWS if algorithm == PLAIN_CELLS else 1)
    return [
        RunKey(case.group, case.name, case.epsilon, algorithm, trial, draw, seed)
        for trial in range(len(case.samples))
        for draw in range(number)
    ]


def _measured(case: AccuracyCase, algorithm: str, runs: Sequence[Run]) -> MeasuredCase:
    errors = np.array([run.errors for run in runs])
    spread = errors.std(axis=0, ddof=1) if len(runs) > 1 else np.full(len(ERROR_KINDS), math.nan)
    seconds = float(np.mean([run.seconds for run in runs]))
    return MeasuredCase(case, algorithm, errors.mean(axis=0), spread / math.sqrt(len(runs)), seconds, len(runs))
