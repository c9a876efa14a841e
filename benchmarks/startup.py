"""Processor time of commands, beside that of a bare interpreter."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from dpcube import Domain, Integer, datasets
from dpcube.core import caches
from dpcube.curator import publish

TARGETS = {"--help": 15, "count again": 50, "count again of 2 million cells": 100}
"""Times a bare interpreter. One of 10 to 20 ms makes these the half second and the second that are aimed at."""


def run() -> Iterator[str]:
    with TemporaryDirectory() as place:
        where = Path(place)
        os.environ[caches.SWITCH] = str(where / "cache")
        bare = cpu([sys.executable, "-c", "pass"], repeats=15)
        yield f"bare interpreter {1e3 * bare:.0f} ms of processor time; medians"
        for words, command, repeats in commands(where):
            took = cpu(command, repeats=repeats)
            target = f" (target: at most {TARGETS[words]})" if words in TARGETS else ""
            yield f"{words:<34} {took:6.2f} s = {took / bare:5.0f}x a bare interpreter{target}"


def commands(where: Path) -> Iterator[tuple[str, list[str], int]]:
    """Yield a name, a command and how often to run it; simulated tables and the bundled one are released in between."""
    dpcube = [sys.executable, "-m", "dpcube"]
    yield "--help", [*dpcube, "--help"], 15
    yield "demo", [*dpcube, "demo", "-o", str(where)], 3
    publish(datasets.adult_table(), datasets.adult_domain(), epsilon=1, ledger=None).save(where / "small.dpcube")
    publish(simulated(), large(), epsilon=1, ledger=None).save(where / "large.dpcube")
    for name, of in (("small", ""), ("large", " of 2 million cells")):
        asked = [*dpcube, "count", str(where / f"{name}.dpcube"), "age >= 65"]
        yield f"count{of}", asked, 1
        yield f"count again{of}", asked, 7
        yield f"info{of}", [*dpcube, "info", str(where / f"{name}.dpcube")], 3


def large() -> Domain:
    return Domain(Integer("age", 0, 127), Integer("hours", 0, 127), Integer("income", 0, 127))


def simulated(rows: int = 500_000) -> Any:
    generator = np.random.default_rng(1)
    columns = {
        "age": generator.normal(50, 20, rows),
        "hours": generator.gamma(4, 10, rows),
        "income": generator.gamma(2, 20, rows),
    }
    return pa.table({name: np.clip(column, 0, 127).astype(np.int64) for name, column in columns.items()})


def cpu(command: Sequence[str], *, repeats: int) -> float:
    """Return the median processor time of a command."""
    took = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return float(np.median(took))


if __name__ == "__main__":
    for line in run():
        print(line, flush=True)
