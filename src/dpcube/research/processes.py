"""Work on several cores, in order or with a time limit for each task.

A loop of machine code heeds no signal until it ends, so only a process of its own can be stopped. Processes are
spawned, not forked: what draws noise may not be copied (`core/unique.py`).

Seeds follow from what is measured. A file of measured runs, from which a stopped measurement continues, has a line of
JSON for each run. A line counts for the code that made it: it carries a digest that changes with every file on which
the run depends.
"""

import hashlib
import json
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dpcube
from dpcube.core.errors import InputError
from dpcube.strategies.external import in_one_line


def seed_of(*what: object) -> int:
    """Return a seed that depends on the given values alone.

    >>> seed_of("age x sex", "0.1", "cells", 3) == seed_of("age x sex", "0.1", "cells", 3)
    True
    >>> seed_of("age x sex", 13) == seed_of("age x sex", 1, 3)
    False
    """
    named = "\x1f".join(map(str, what))
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=7).digest())


def kept_lines(path: Path | None, code: str) -> Iterator[dict[str, Any]]:
    """Yield the content of each line written by the same code; lines of other code, and partial ones, are skipped."""
    if path is None or not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            read = json.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict) and read.get("code") == code:
            yield read


def keep_lines(path: Path | None, code: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Append a line for each run to the file at once, if there is a file."""
    if path is not None:
        lines = [json.dumps({"code": code, **one}) for one in found]
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"\n{line}" for line in lines))  # a line that was cut short stays by itself


def code_digest(left_out: tuple[str, ...]) -> str:
    """Return a digest of all modules of the package but those below some folders."""
    root = Path(dpcube.__file__).parent
    files = sorted((path.relative_to(root).as_posix(), path) for path in root.rglob("*.py"))
    together = hashlib.sha256()
    for name, path in files:
        if not any(name.startswith(f"{folder}/") for folder in left_out):
            together.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return together.hexdigest()[:16]


TaskResult = TypeVar("TaskResult")

AHEAD = 2
"""Tasks that wait for each process; not all of them at once, for a task may contain a table."""


def in_processes(
    function: Callable[..., TaskResult], tasks: Iterable[tuple[Any, ...]], *, jobs: int = 1
) -> Iterator[TaskResult]:
    """Yield `function(*task)` for every task in order; with more than one job, in processes of their own.

    Tasks are taken as processes become free, so that few of their tables exist at once.
    """
    if jobs == 1:
        yield from (function(*task) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting: deque[Future[TaskResult]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(function, *task))
                if len(waiting) >= AHEAD * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


READY, PART, END, FAILED = "ready", "part", "end", "failed"
_spawn = get_context("spawn")  # what draws noise may not be copied (`core/unique.py`)


class TaskOutcome(NamedTuple):
    """The number of a task, the parts that it yielded, and the reason if it is unfinished."""

    task: int
    parts: list[Any]
    unfinished: str = ""


@dataclass(slots=True)
class Worker:
    """A process, its current task with the parts received so far, and the end of its time."""

    process: Any
    pipe: Connection
    task: int | None = None
    parts: list[Any] = field(default_factory=list)
    ends: float = float("inf")
    is_ready: bool = False
    is_stopped: bool = False

    @classmethod
    def start(cls, function: Callable[..., Iterable[Any]], prepare: Callable[[], None]) -> "Worker":
        """Start a process; no time runs before it has prepared itself and says that it is ready."""
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=_serve, args=(theirs, function, prepare), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def stop(self) -> None:
        """Kill the process: it may be in a loop that heeds nothing less."""
        self.is_stopped = True
        self.process.kill()
        self.process.join()
        self.pipe.close()


def nothing_to_prepare() -> None:
    """Do nothing before the first task."""


def in_limited_processes(
    function: Callable[..., Iterable[Any]],
    tasks: Sequence[tuple[Any, ...]],
    *,
    jobs: int,
    seconds: float | None,
    prepare: Callable[[], None] = nothing_to_prepare,
) -> Generator[TaskOutcome]:
    """Yield what `function(*task)` yields for every task, as tasks end; one that takes longer is stopped.

    Each process calls `prepare` once, which loads what all tasks need, and is not counted.
    """
    waiting = deque(enumerate(tasks))
    workers: list[Worker] = []
    try:
        workers += [Worker.start(function, prepare) for _ in range(min(jobs, len(tasks)))]
        while workers:
            nearest = min(worker.ends for worker in workers)
            timeout = None if nearest == float("inf") else max(0.0, nearest - time.monotonic())
            wait([worker.pipe for worker in workers], timeout)
            for place, worker in enumerate(workers):
                outcome = _heard(worker, seconds)
                if outcome is None:
                    continue
                yield outcome
                if outcome.unfinished:
                    worker.stop()
                    workers[place] = Worker.start(function, prepare) if waiting else worker
            workers = [worker for worker in workers if not worker.is_stopped]
            for worker in [one for one in workers if one.is_ready and one.task is None]:
                if waiting:
                    _hand_out(worker, waiting.popleft(), seconds)
                else:
                    workers.remove(worker)
                    worker.stop()
    finally:
        for worker in workers:
            worker.stop()


def _hand_out(worker: Worker, numbered: tuple[int, tuple[Any, ...]], seconds: float | None) -> None:
    worker.task, task = numbered
    worker.parts, worker.ends = [], float("inf") if seconds is None else time.monotonic() + seconds
    with suppress(OSError):  # that it has died is heard next
        worker.pipe.send(task)


def _heard(worker: Worker, seconds: float | None) -> TaskOutcome | None:
    """Take what a worker has sent; return its task's outcome if that is over, one way or another."""
    try:
        while worker.pipe.poll():
            what, part = worker.pipe.recv()
            if what == READY:
                worker.is_ready = True
            elif what == PART:
                worker.parts.append(part)
            else:
                return _over(worker, f"failed: {part}" if what == FAILED else "")
    except (EOFError, OSError):
        worker.process.join()
        return _over(worker, f"failed: its process ended by itself (exit code {worker.process.exitcode})")
    if time.monotonic() >= worker.ends:
        return _over(worker, f"stopped after {seconds:g} s")
    return None


def _over(worker: Worker, unfinished: str) -> TaskOutcome:
    if worker.task is None:
        msg = "a process that was to measure did not start; try again with one job and without a time limit"
        raise InputError(msg)
    outcome = TaskOutcome(worker.task, worker.parts, unfinished)
    worker.task, worker.ends = None, float("inf")
    return outcome


def _serve(pipe: Connection, function: Callable[..., Iterable[Any]], prepare: Callable[[], None]) -> None:
    """Run tasks in the worker's process and send each part at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who waits, and it ends its workers
    prepare()
    pipe.send((READY, None))
    while True:
        try:
            task = pipe.recv()
        except EOFError:  # nobody waits any more
            return
        try:
            for part in function(*task):
                pipe.send((PART, part))
        except Exception as error:  # any error is reported, and the other tasks continue
            pipe.send((FAILED, in_one_line(error)))
        else:
            pipe.send((END, None))
