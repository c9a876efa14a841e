"""How a step is timed: once to warm up, then the median of several runs."""

import time
from collections.abc import Callable
from statistics import median


def seconds(step: Callable[[], object], *, repeats: int = 5) -> float:
    """Return the median time of a step."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return median(times)
