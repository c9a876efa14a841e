"""Peak memory of a release, predicted and measured, by strategy and number of attributes.

`python -m benchmarks.memory` measures every shape below (about 10^6 cells each), `python -m benchmarks.memory adaptive
5 5 5 5` one. Each run is a process of its own that releases a table and saves it. Tables are made to take the most:
the prediction must hold for every table, for rows may not decide whether a run fails.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.release import peak_bytes
from dpcube import Domain
from dpcube.core.memory import in_words
from dpcube.curator import publish
from dpcube.strategies import BY_NAME, strategy_of

SHAPES: tuple[tuple[int, ...], ...] = (
    (1_000_000,),
    (1000, 1000),
    (500_000, 2),
    (100, 100, 100),
    (32, 32, 32, 32),
    (16,) * 5,
    (10,) * 6,
    (9, 9, 9, 9, 9, 9, 2),
    (5,) * 9,
    (4,) * 10,
    (5,) * 8 + (2,) * 3,
    (3,) * 12,
    (3,) * 8 + (2,) * 7,
    (2,) * 20,
)
TABLES = {"adaptive": ("scattered", "full", "empty"), "dpcube": ("scattered", "huge", "empty"), "cells": ("huge",)}
"""Tables that make trees and files as large as they can get. Which it is depends on the shape."""
EPSILON = {"empty": "1"}
"""At 5 there is little noise, and `adaptive` does not simply count the cells yet."""


def run(strategies: Iterable[str] = BY_NAME, shapes: Iterable[tuple[int, ...]] = SHAPES) -> list[str]:
    """Measure each strategy on each shape, and return a table of the worst."""
    lines = [f"{'strategy':9} {'attributes':>10} {'cells':>12} {'predicted':>10} {'measured':>10}  predicted/measured"]
    for strategy in strategies:
        for shape in shapes:
            predicted = strategy_of(strategy).peak_bytes(shape)
            worst = max(measure(strategy, table, shape) for table in TABLES[strategy])
            lines.append(
                f"{strategy:9} {len(shape):10} {int(np.prod(shape)):12,} {in_words(predicted):>10} "
                f"{in_words(worst):>10}  {predicted / worst:.2f}"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def measure(strategy: str, table: str, shape: tuple[int, ...]) -> int:
    """Return the most memory that a release of a table takes, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--here", strategy, table, *map(str, shape)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(json.loads(done.stdout))


def table_of(name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return counts that make a release large: all different, all alike, or none."""
    if name == "empty":
        return np.zeros(shape, np.int64)
    if name == "full":
        return np.full(shape, 1000, np.int64)
    most = min(2**50 if name == "huge" else 2**30, 2**61 // int(np.prod(shape)))  # they add up to less than 2^62
    return np.random.default_rng(1).integers(0, most, shape)


def _measure_here(strategy: str, table: str, shape: tuple[int, ...]) -> int:
    with TemporaryDirectory() as folder:
        # Two values each of many attributes are a large cube: what its run left behind hid what the next one took.
        small = tuple(2 if axis < 8 else 1 for axis in range(len(shape)))
        counts = table_of(table, shape)
        for name, given in (("small", table_of(table, small)), ("large", counts)):  # the first compiles
            domain, before = Domain.of_shape(given.shape), _reset_peak()
            publish(
                given,
                domain,
                epsilon=EPSILON.get(table, "5"),
                ledger=None,
                strategy=strategy,
                save_to=Path(folder) / f"{name}.dpcube",
            )
    return peak_bytes() - before


def _reset_peak() -> int:
    """Reset the peak of memory, and return the present memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_bytes()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(_measure_here(sys.argv[2], sys.argv[3], tuple(map(int, sys.argv[4:])))))
    elif len(sys.argv) > 1:
        print("\n".join(run(sys.argv[1:2], [tuple(map(int, sys.argv[2:]))] if sys.argv[2:] else SHAPES)))
    else:
        print("\n".join(run()))
