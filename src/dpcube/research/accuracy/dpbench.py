"""The arrays, queries and recorded errors of the DPBench study, from a directory that holds them.

There are `x_2d_NAME.npz` and `x_1d_NAME.npz` with counts of N rows drawn five times from a shape (`N1000_t0`, ...),
`queries_*.npz` with inclusive corners of ranges, and `peers.csv` with the errors of the study's algorithms.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.errors import InputError
from dpcube.queries import Workload

BENCH_SCALES = (1_000, 100_000, 10_000_000)
TRIALS = 5
EPSILON = "0.1"
BENCH_SHAPES = {1: (4096,), 2: (128, 128)}
QUERY_FILES = {(2, "randomrange"): "2d_randomrange_128x128", (1, "randomrange"): "1d_randomrange_4096"}
QUERY_FILES |= {(1, "prefix"): "1d_prefix_4096"}
SHOWN_RIVALS = {2: ("DAWA-float", "DAWA", "AGrid", "HB", "Identity"), 1: ("DAWA", "GreedyH", "HB", "Identity")}
"""Rivals whose geometric means are shown; the best rival of a set is sought among all of them."""


class Key(NamedTuple):
    """A measurement of the study: dimensions, kind of queries, number of rows, name of the set, and algorithm."""

    dims: int
    queries: str
    scale: int
    name: str
    algorithm: str = ""


@dataclass(frozen=True)
class Bench:
    """DPBench's arrays, queries and results in a directory."""

    directory: Path

    def __post_init__(self) -> None:
        if not (self.directory / "peers.csv").is_file():
            msg = (
                f"{self.directory} does not hold DPBench's arrays (there is no peers.csv in it); name their directory "
                "with --data or the environment variable DPBENCH"
            )
            raise InputError(msg)

    def sets(self, dims: int) -> list[str]:
        """Return the names of the sets of 1 or 2 dimensions."""
        prefix = f"x_{dims}d_"
        return sorted(path.stem.removeprefix(prefix) for path in self.directory.glob(f"{prefix}*.npz"))

    def counts(self, dims: int, name: str, scale: int, trial: int) -> Ints:
        """Return the exact counts of one trial."""
        with np.load(self.directory / f"x_{dims}d_{name}.npz") as arrays:
            return np.asarray(arrays[f"N{scale}_t{trial}"], np.int64).reshape(BENCH_SHAPES[dims])

    def workload(self, dims: int, queries: str) -> Workload:
        """Return DPBench's queries of one kind."""
        with np.load(self.directory / f"queries_{QUERY_FILES[dims, queries]}.npz") as corners:
            low, high = (np.asarray(corners[end], np.int64).reshape(-1, dims) for end in ("lb", "ub"))
        return Workload.inclusive(BENCH_SHAPES[dims], low, high)

    @cached_property
    def rivals(self) -> dict[Key, float]:
        """Mean absolute errors of the rivals, over the trials that were published."""
        found: dict[Key, list[float]] = defaultdict(list)
        with (self.directory / "peers.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = Key(int(row["ndim"]), row["workload"], int(row["scale"]), row["dataset"], row["algorithm"])
                found[key].append(float(row["mean_abs_error"]))
        return {key: float(np.mean(errors)) for key, errors in found.items()}

    def best_rival(self, key: Key) -> tuple[str, float]:
        """Return the rival with the least error where `key` was measured."""
        errors = {other.algorithm: error for other, error in self.rivals.items() if other[:4] == key[:4]}
        best = min(errors, key=errors.__getitem__)
        return best, errors[best]
