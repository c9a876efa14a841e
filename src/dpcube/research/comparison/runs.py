"""Runs of `dpcube compare`: releases of each method on each table, with their errors, seconds and memory."""

import ctypes
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.epsilon import parse_epsilon
from dpcube.core.errors import InputError
from dpcube.models.metrics import errors, exact_answers
from dpcube.queries import Workload
from dpcube.release import Release
from dpcube.research.arrays import experiment
from dpcube.research.comparison.subjects import Subject, compared_questions
from dpcube.research.processes import TaskOutcome, code_digest, in_limited_processes, keep_lines, kept_lines, seed_of
from dpcube.research.rivals import LISTED, Listed, OfStrategy, rival_of
from dpcube.strategies import strategy_of
from dpcube.strategies.external import in_one_line
from dpcube.testing import SeededNoise

COMPARED_CONFIDENCE = 0.95
PEAK, NOW = "VmHWM:", "VmRSS:"
_warm: set[tuple[str, int]] = set()
"""Methods that have run once in this process, by dimensions: loops that compile and load are not to be timed."""


class ComparisonKey(NamedTuple):
    """One release: of which table (by name, digest and rows drawn), at which epsilon, by which method, which draw."""

    table: str
    digest: str
    rows: int
    epsilon: str
    method: str
    questions: int
    draw: int
    seed: int


class KindErrors(NamedTuple):
    """The errors of one release over questions of one kind; of those not empty, how many were stated, how many held."""

    kind: str
    mean_abs: float
    scaled_l2: float
    held: int
    stated: int
    asked: int


class ComparisonRun(NamedTuple):
    """What one release came to: errors by kind, seconds, peak of memory above what there was; or why it was none."""

    key: ComparisonKey
    kinds: tuple[KindErrors, ...]
    seconds: float
    peak_bytes: float
    failed: str = ""


def listed_method(name: str) -> Listed:
    """Return a method by name: one that is listed, or a strategy of one's own as MODULE:CLASS."""
    if name in LISTED or ":" not in name:
        rival_of(name, Workload((1,), np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)))  # or says what there is
        return LISTED[name]
    strategy = strategy_of(name)
    return Listed(name, "your own", lambda _: OfStrategy(strategy), released_by_gate=True)


def compare(
    subjects: Sequence[Subject],
    methods: Sequence[str],
    epsilons: Sequence[str],
    *,
    draws: int,
    questions: int,
    seed: int,
    jobs: int = 1,
    time_limit: float | None = None,
    kept: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[ComparisonRun]:
    """Run every method on every subject at every epsilon, `draws` times; runs kept in a file are not repeated.

    A method that takes longer than `time_limit` seconds for its draws on one subject at one epsilon is stopped.
    Failures and what was stopped are runs too, but they are not kept: the next time they are tried again.
    """
    _check_asked(subjects, methods, epsilons, time_limit)
    known, wanted = _known(kept), []
    tasks: list[tuple[Subject, list[ComparisonKey]]] = []
    for subject in subjects:
        digest = subject.digest
        for epsilon in dict.fromkeys(epsilons):
            for method in dict.fromkeys(methods):
                place = subject.name, digest, subject.rows or 0, epsilon, method, questions
                keys = [ComparisonKey(*place, draw, seed) for draw in range(draws)]
                wanted += keys
                if missing := [key for key in keys if key not in known]:
                    tasks.append((subject, missing))
    if time_limit is not None and tasks:
        progress("compiling what this machine has not run yet")
        compile_listed(methods, {len(subject.domain.shape) for subject, _ in tasks})
    progress("comparing")
    start = time.monotonic()
    for done, outcome in enumerate(_measured(tasks, jobs, time_limit), 1):
        keys = tasks[outcome.task][1]
        left_over = [_no_run(key, outcome.unfinished) for key in keys[len(outcome.parts) :]]
        keep_lines(kept, _code(), ({"run": run} for run in outcome.parts if not run.failed))
        known |= {run.key: run for run in (*outcome.parts, *left_over)}
        progress(_progress_words(keys[0], done, len(tasks), time.monotonic() - start))
    return [known[key] for key in wanted]


def _check_asked(
    subjects: Sequence[Subject], methods: Sequence[str], epsilons: Sequence[str], time_limit: float | None
) -> None:
    """Refuse what cannot be compared before anything is run."""
    for what, given in (("table or shape", subjects), ("method", methods), ("epsilon", epsilons)):
        if not given:
            msg = f"there is nothing to compare: name one {what} at least"
            raise InputError(msg)
    if time_limit is not None and not 0 < time_limit < math.inf:
        msg = f"a time limit is a number of seconds above 0, got {time_limit}"
        raise InputError(msg)
    for name in methods:
        listed_method(name)
    for epsilon in epsilons:
        parse_epsilon(epsilon)


def _measured(
    tasks: Sequence[tuple[Subject, list[ComparisonKey]]], jobs: int, time_limit: float | None
) -> Iterator[TaskOutcome]:
    """Run the tasks here if one process without a limit is enough, and in processes of their own otherwise."""
    if jobs > 1 or time_limit is not None:
        return in_limited_processes(run_method, tasks, jobs=jobs, seconds=time_limit, prepare=load_once)
    return (TaskOutcome(number, list(run_method(*task))) for number, task in enumerate(tasks))


def _progress_words(key: ComparisonKey, done: int, of: int, seconds: float) -> str:
    """Return the progress, and the remaining time if the rest is as fast."""
    left = seconds / done * (of - done)
    words = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
    return f"{done} of {of} done ({key.method} on {key.table}, epsilon {key.epsilon}); about {words} left"


def load_once() -> None:
    """Run plain cells on a few, so that no method's time is spent on loading what all of them need."""
    _run_on_few("cells", (2, 2))


def compile_listed(methods: Sequence[str], dims: Iterable[int]) -> None:
    """Run methods on a few cells, so that no method's time is spent on loops that nobody compiled on this machine yet.

    Machine code is kept on disk, where the processes that measure find it. Methods of one's own are left out: what they
    do in their first run is theirs, and nothing would stop one that does not end.
    """
    for dim in sorted(dims):
        for method in dict.fromkeys(method for method in methods if method in LISTED):
            _run_on_few(method, (8, *[2] * (dim - 1)))


def _run_on_few(method: str, shape: tuple[int, ...]) -> None:
    few = Subject("few", Domain.of_shape(shape), 50 * np.indices(shape).sum(axis=0))
    list(run_method(few, [ComparisonKey(few.name, few.digest, 0, "1", method, 1, 0, 0)]))


def run_method(subject: Subject, keys: Sequence[ComparisonKey]) -> Iterator[ComparisonRun]:
    """Run one method on one subject for some draws, and yield each run."""
    asked = compared_questions(
        subject.domain, keys[0].questions, seed=seed_of("questions", subject.domain.shape, keys[0].seed)
    )
    kind_of_run = keys[0].method, len(subject.domain.shape)
    if kind_of_run not in _warm:
        _warm.add(kind_of_run)
        with suppress(Exception):  # what fails will fail again, and be reported then
            _released(subject, subject.sample(0, seed=keys[0].seed), keys[0], asked["ranges"])
    for key in keys:
        yield _run(subject, key, asked)


def _run(subject: Subject, key: ComparisonKey, asked: dict[str, Workload]) -> ComparisonRun:
    exact_counts = subject.sample(key.draw, seed=key.seed)
    before, start = _reset_peak(), time.perf_counter()
    try:
        estimated, release, estimate = _released(subject, exact_counts, key, asked["ranges"])
        seconds, peak = time.perf_counter() - start, _memory(PEAK) - before
        if estimated.shape != exact_counts.shape or not np.isfinite(estimated).all():
            msg = "it returned no finite count for every cell"
            raise InputError(msg)
        found = [
            _errors_of_kind(kind, exact_counts, estimated, some, release, estimate) for kind, some in asked.items()
        ]
    except Exception as error:  # a method that fails is a row of the table, whatever it fails of
        return _no_run(key, f"failed: {in_one_line(error)}")
    return ComparisonRun(key, tuple(found), seconds, max(peak, 0))


def _no_run(key: ComparisonKey, why: str) -> ComparisonRun:
    return ComparisonRun(key, (), math.nan, math.nan, why)


def _released(
    subject: Subject, exact_counts: Ints, key: ComparisonKey, shown: Workload
) -> tuple[Floats, Release | None, str]:
    """Return estimated counts, and the release that states their errors if the method makes one."""
    method, seed = listed_method(key.method).make(shown), seed_of(*key)
    if isinstance(method, OfStrategy):
        noise = SeededNoise(seed)
        release = experiment(
            exact_counts, epsilon=key.epsilon, strategy=method.strategy, noise=noise, domain=subject.domain
        )
        return release.cells(method.estimate), release, method.estimate
    return method.release(exact_counts, float(Fraction(key.epsilon)), np.random.default_rng(seed)), None, ""


def _errors_of_kind(
    kind: str, exact_counts: Ints, estimated: Floats, asked: Workload, release: Release | None, estimate: str
) -> KindErrors:
    wrong = errors(exact_counts, estimated, asked)
    truth = exact_answers(exact_counts, asked)
    some = truth > 0
    held = stated = 0
    if release is not None:
        low, high = release.answer(asked, estimate=estimate).interval(COMPARED_CONFIDENCE)
        known = some & ~(np.isnan(low) | np.isnan(high))
        held, stated = int(((low <= truth) & (truth <= high))[known].sum()), int(known.sum())
    return KindErrors(kind, wrong.mean_abs, wrong.scaled_l2, held, stated, int(some.sum()))


def _reset_peak() -> float:
    """Reset the peak of this process's memory and return its present memory, NaN where it is not reported."""
    with suppress(OSError, AttributeError):  # glibc alone gives back what was freed
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return math.nan
    return _memory(NOW)


def _memory(what: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return math.nan
    return 1024.0 * next((int(line.split()[1]) for line in lines if line.startswith(what)), math.nan)


@cache
def _code() -> str:
    return code_digest(("cli", "research/accuracy", "research/reproduce", "research/theory"))


def _known(path: Path | None) -> dict[ComparisonKey, ComparisonRun]:
    """Return the runs that a file keeps; refuse a file of something else, to which lines would be added."""
    if path is not None and not path.absolute().parent.is_dir():
        msg = f"there is no directory {path.parent}; make it first"
        raise InputError(msg)
    known = {}
    for line in kept_lines(path, _code()):
        run = _parsed(line)
        if run is not None:
            known[run.key] = run
    if path is not None and not known and path.exists() and not _is_ours(path):
        msg = f"{path} is no file of kept runs, and nothing is added to it; give --cache another name"
        raise InputError(msg)
    return known


def _is_ours(path: Path) -> bool:
    """Whether a file is empty or begins as `keep_lines` begins one, perhaps by other code."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(10) in (b"", b'\n{"code": ')


def _parsed(line: dict[str, Any]) -> ComparisonRun | None:
    try:
        key, kinds, seconds, peak, _ = line["run"]
        return ComparisonRun(ComparisonKey(*key), tuple(KindErrors(*one) for one in kinds), seconds, peak)
    except (KeyError, TypeError, ValueError):
        return None
