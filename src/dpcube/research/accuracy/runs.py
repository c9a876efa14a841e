"""Seeded releases of tables and their errors by kind of query, with standard errors.

Each release may be kept in a file, a line of JSON each, so that a run that was stopped goes on where it was. A line
counts for the code that made it: `fingerprint` changes with every file on which a release or an estimate depends.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.research.accuracy.cases import AccuracyCase
from dpcube.research.arrays import experiment
from dpcube.research.processes import code_digest, in_processes, keep_lines, kept_lines, seed_of
from dpcube.research.ratios import ErrorRatio, MeanError
from dpcube.research.rivals.privtree import PrivTree
from dpcube.strategies import Adaptive, FittedStrategy, Strategy, strategy_of
from dpcube.testing import SeededNoise

ErrorKind = Literal["ranges", "cells", "m1", "m2", "m3", "tv3"]
ERROR_KINDS: tuple[ErrorKind, ...] = ("ranges", "cells", "m1", "m2", "m3", "tv3")
ERROR_WORDS: dict[ErrorKind, str] = {
    "ranges": "ranges",
    "cells": "single cells",
    "m1": "1-way marginals",
    "m2": "2-way marginals",
    "m3": "3-way marginals",
    "tv3": "total variation of 3-way",
}


def errors_by_kind(exact_counts: Ints, estimated: Floats, asked: Workload) -> Floats:
    """Return mean absolute errors of ranges, cells and marginals, and the mean total variation of 3-way marginals.

    NaN where a cube has no such marginals, or where they are its cells; of three attributes, the total variation stays.
    """
    wrong = estimated - exact_counts
    found = [float(absolute_errors(exact_counts, estimated, asked).mean()), float(np.abs(wrong).mean())]
    found += [_marginal_error(wrong, ways) for ways in (1, 2, 3)]
    return np.array([*found, _total_variation(exact_counts, estimated)])


def _marginal_error(wrong: Floats, ways: int) -> float:
    """Return the mean absolute error of a cell of a marginal, averaged over all marginals of `ways` attributes."""
    if wrong.ndim <= ways:
        return math.nan
    return float(np.mean([np.abs(_marginal(wrong, axes)).mean() for axes in combinations(range(wrong.ndim), ways)]))


def _total_variation(exact_counts: Ints, estimated: Floats) -> float:
    if exact_counts.ndim < 3:
        return math.nan
    wrong = estimated / max(float(estimated.sum()), 1.0) - exact_counts / max(int(exact_counts.sum()), 1)
    return float(np.mean([np.abs(_marginal(wrong, axes)).sum() / 2 for axes in combinations(range(wrong.ndim), 3)]))


def _marginal(cells: Floats, axes: tuple[int, ...]) -> Floats:
    return np.asarray(cells.sum(axis=tuple(axis for axis in range(cells.ndim) if axis not in axes)))


def laplace_error(epsilon: float, tables: int = 1) -> float:
    """Return the mean absolute error of a cell of noisy tables that share epsilon equally.

    The noise is the two-sided geometric: its mean size is 2q / (1 - q^2) with q = exp(-epsilon / tables).

    >>> round(laplace_error(0.01, 3), 2)
    300.0
    """
    return 1 / math.sinh(epsilon / tables)


PLAIN_CELLS = "cells"
PLAIN_DRAWS = 4
"""Draws of plain cells for each draw of the others: they are cheap, and everything is compared with them."""
NOT_IN_A_RELEASE = ("cli", "link", "research", "web")
PRIVTREE = "PrivTree"
BY_HALVES = PrivTree(name=PRIVTREE, one_axis=True)
"""PrivTree with the halvings of our own trees: it differs in where a tree ends, and in how its leaves are counted."""


class RunKey(NamedTuple):
    """One release: its case, algorithm, trial of the table, draw of noise and seed."""

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
    """The runs of earlier calls, and the file to which new ones are added, if there is one."""

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
    """Return a digest of the code of releases and estimates."""
    return code_digest(NOT_IN_A_RELEASE)


def chosen_strategy(name: str | Strategy) -> FittedStrategy:
    """Return a strategy as it was given or by name; `adaptive:KIND` is the one for queries declared to be of that kind.

    >>> chosen_strategy("adaptive:prefixes").parameters()
    {'queries': 'prefixes'}
    """
    if not isinstance(name, str):
        return strategy_of(name)
    base, _, kind = name.partition(":")
    return Adaptive(queries=kind) if base == "adaptive" and kind else strategy_of(name)


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


def error_of(one: MeasuredCase, kind: ErrorKind) -> MeanError:
    """Return the error of one kind."""
    place = ERROR_KINDS.index(kind)
    return MeanError(float(one.means[place]), float(one.stderrs[place]))


def has(one: MeasuredCase, kind: ErrorKind) -> bool:
    """Whether the measured table has queries of a kind."""
    return not math.isnan(one.means[ERROR_KINDS.index(kind)])


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """The errors of all algorithms on one case."""

    by_algorithm: dict[str, MeasuredCase]

    @property
    def any(self) -> MeasuredCase:
        """The errors of one of the algorithms, for what all have in common."""
        return next(iter(self.by_algorithm.values()))

    @property
    def name(self) -> str:
        """The table and epsilon in words."""
        return f"{self.any.case.name}, epsilon {self.any.case.epsilon}"

    def ratio(self, algorithm: str, other: str, kind: ErrorKind) -> ErrorRatio:
        """Return the error of one algorithm over that of another."""
        return ErrorRatio.between(
            self.name, error_of(self.by_algorithm[algorithm], kind), error_of(self.by_algorithm[other], kind)
        )


def by_setting(found: Sequence[MeasuredCase]) -> list[Setting]:
    """Group measured cases by table and epsilon."""
    together: dict[tuple[str, str, str], dict[str, MeasuredCase]] = {}
    for one in found:
        key = one.case.group, one.case.name, one.case.epsilon
        together.setdefault(key, {})[one.algorithm] = one
    return [Setting(of) for of in together.values()]
