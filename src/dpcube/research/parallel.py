"""Work on several cores: a function and its tasks enter, results in the order of the tasks leave."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

TaskResult = TypeVar("TaskResult")

AHEAD = 2
"""Tasks that wait for each process: a task may hold a table, so that not all of them are laid out at once."""


def in_processes(
    function: Callable[..., TaskResult], tasks: Iterable[tuple[Any, ...]], *, jobs: int = 1
) -> Iterator[TaskResult]:
    """Yield `function(*task)` for every task in order; with more than one job, in processes of their own.

    Processes are spawned, not forked: what draws noise may not be copied (`core/unique.py`).
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
