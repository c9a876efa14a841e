"""Median times of steps after a warm-up; several steps take turns, so that the load of the machine affects all."""

import time
from collections.abc import Callable
from statistics import median


def seconds(step: Callable[[], object], *, repeats: int = 5) -> float:
    """Return the median time of a step."""
    return in_turns(step, repeats=repeats)[0]


def in_turns(*steps: Callable[[], object], repeats: int = 5) -> tuple[float, ...]:
    """Return the median time of each step, all of them run in turns."""
    times: list[list[float]] = [[] for _ in steps]
    for turn in range(repeats + 1):
        for step, taken in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            if turn:
                taken.append(time.perf_counter() - start)
    return tuple(median(taken) for taken in times)
