"""The strategies beside the published rivals, on DPBench's arrays: the same inputs and queries, fresh noise.

The directory holds what its README says: `x_2d_NAME.npz` and `x_1d_NAME.npz` with counts of N rows drawn from a shape
five times (`N1000_t0`, ...), `queries_*.npz` with inclusive corners of ranges, and `peers.csv` with the rivals' errors.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.errors import InputError
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.research.arrays import experiment
from dpcube.research.ratios import MeanError, geometric_mean
from dpcube.strategies import Adaptive, FittedStrategy, Strategy, strategy_of
from dpcube.testing import SeededNoise

BENCH_SCALES = (1_000, 100_000, 10_000_000)
TRIALS = 5
EPSILON = "0.1"
BENCH_SHAPES = {1: (4096,), 2: (128, 128)}
QUERY_FILES = {(2, "randomrange"): "2d_randomrange_128x128", (1, "randomrange"): "1d_randomrange_4096"}
QUERY_FILES |= {(1, "prefix"): "1d_prefix_4096"}
SHOWN_RIVALS = {2: ("DAWA-float", "DAWA", "AGrid", "HB", "Identity"), 1: ("DAWA", "GreedyH", "HB", "Identity")}
"""Rivals whose geometric means are shown; the best rival of a set is sought among all of them."""


class Key(NamedTuple):
    """What was measured: a set of one or two dimensions, at a scale, by a kind of queries, with an algorithm."""

    dims: int
    queries: str
    scale: int
    name: str
    algorithm: str


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
        """Return the names of the sets of so many dimensions."""
        prefix = f"x_{dims}d_"
        return sorted(path.stem.removeprefix(prefix) for path in self.directory.glob(f"{prefix}*.npz"))

    def counts(self, dims: int, name: str, scale: int, trial: int) -> NDArray[np.int64]:
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


@dataclass(frozen=True, slots=True)
class RunErrors:
    """The mean absolute error of each run: one draw of noise on one trial."""

    key: Key
    errors: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return float(self.errors.mean())

    @property
    def stderr(self) -> float:
        """Standard error of the mean."""
        return float(self.errors.std(ddof=1) / math.sqrt(len(self.errors))) if len(self.errors) > 1 else math.nan


def chosen_strategy(name: str | Strategy) -> FittedStrategy:
    """Return a strategy as it was given or by name; `adaptive:KIND` is the one told that queries are of that kind.

    >>> chosen_strategy("adaptive:prefixes").parameters()
    {'queries': 'prefixes'}
    """
    if not isinstance(name, str):
        return strategy_of(name)
    base, _, kind = name.partition(":")
    return Adaptive(queries=kind) if base == "adaptive" and kind else strategy_of(name)


def measure_errors(
    bench: Bench, strategies: Iterable[str | Strategy], *, draws: int, seed: int, dims: Iterable[int] = (2, 1)
) -> Iterator[RunErrors]:
    """Release every trial of every set `draws` times over, and yield the errors of each kind of query."""
    seeds = np.random.default_rng(seed)
    for dim in dims:
        workloads = {queries: bench.workload(dim, queries) for d, queries in QUERY_FILES if d == dim}
        for name in bench.sets(dim):
            for scale in BENCH_SCALES:
                tables = [bench.counts(dim, name, scale, trial) for trial in range(TRIALS) for _ in range(draws)]
                for algorithm in strategies:
                    named = algorithm if isinstance(algorithm, str) else algorithm.name
                    errors = [_errors(table, algorithm, workloads.values(), seeds) for table in tables]
                    for queries, column in zip(workloads, np.array(errors).T, strict=True):
                        yield RunErrors(Key(dim, queries, scale, name, named), column)


def _errors(
    table: NDArray[np.int64], algorithm: str | Strategy, workloads: Iterable[Workload], seeds: np.random.Generator
) -> list[float]:
    noise = SeededNoise(int(seeds.integers(2**63)))
    cells = experiment(table, epsilon=EPSILON, strategy=chosen_strategy(algorithm), noise=noise).cells()
    return [float(absolute_errors(table, cells, workload).mean()) for workload in workloads]


def mean_over_sets(measured: Iterable[RunErrors]) -> MeanError:
    """Return the geometric mean over sets of their mean errors."""
    return geometric_mean(MeanError(one.mean, one.stderr) for one in measured)


@dataclass(frozen=True, slots=True)
class Summary:
    """One strategy at one scale by one kind of query: geometric means, and how it stands on each set."""

    dims: int
    queries: str
    scale: int
    algorithm: str
    mean: float
    stderr: float
    rivals: dict[str, float]
    sets: tuple[dict[str, object], ...]
    worst: float

    def as_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


def summaries(bench: Bench, measured: Iterable[RunErrors]) -> list[Summary]:
    """Summarise what was measured, in the order it was met."""
    together: dict[tuple[int, str, int, str], list[RunErrors]] = defaultdict(list)
    for one in measured:
        together[one.key.dims, one.key.queries, one.key.scale, one.key.algorithm].append(one)
    return [_summary(bench, *key, found) for key, found in together.items()]


def _summary(bench: Bench, dims: int, queries: str, scale: int, algorithm: str, found: list[RunErrors]) -> Summary:
    mean = mean_over_sets(found)
    rivals = {}
    for rival in SHOWN_RIVALS[dims]:
        errors = [bench.rivals[one.key._replace(algorithm=rival)] for one in found]
        rivals[rival] = geometric_mean(map(MeanError, errors)).mean
    sets = []
    for one in found:
        rival, error = bench.best_rival(one.key)
        against = bench.rivals[one.key._replace(algorithm=SHOWN_RIVALS[dims][0])]
        row = {"set": one.key.name, "mean": one.mean, "stderr": one.stderr, "best rival": rival}
        sets.append(row | {"to the best": one.mean / error, f"to {SHOWN_RIVALS[dims][0]}": one.mean / against})
    worst = max(float(str(row["to the best"])) for row in sets)
    return Summary(dims, queries, scale, algorithm, mean.mean, mean.stderr, rivals, tuple(sets), worst)


def dpbench_report(found: Iterable[Summary]) -> list[str]:
    """Return the geometric means as one table, then each strategy's ratios set by set."""
    found = sorted(found, key=lambda s: (-s.dims, s.queries, s.scale))
    lines: list[str] = []
    for dims, queries in dict.fromkeys((s.dims, s.queries) for s in found):
        chosen = [s for s in found if (s.dims, s.queries) == (dims, queries)]
        lines += ["", f"{dims}-D {queries}, epsilon {EPSILON}: geometric means over {len(chosen[0].sets)} sets", ""]
        lines += _means(chosen, dims)
        for algorithm in dict.fromkeys(s.algorithm for s in chosen):
            lines += ["", *_ratios([s for s in chosen if s.algorithm == algorithm], dims)]
    return lines[1:]


def _means(chosen: list[Summary], dims: int) -> list[str]:
    first = SHOWN_RIVALS[dims][0]
    lines = [
        f"| N | strategy | error | of {first} | {' | '.join(SHOWN_RIVALS[dims])} |",
        f"|{'---|' * (4 + len(SHOWN_RIVALS[dims]))}",
    ]
    for s in chosen:
        others = " | ".join(f"{s.rivals[rival]:.4g}" for rival in SHOWN_RIVALS[dims])
        error = f"{s.mean:.4g} +- {s.stderr:.2g} | {s.mean / s.rivals[first]:.2f}"
        lines.append(f"| {s.scale:.0e} | {s.algorithm} | {error} | {others} |")
    return lines


def _ratios(chosen: list[Summary], dims: int) -> list[str]:
    first = SHOWN_RIVALS[dims][0]
    scales = " | ".join(f"N = {s.scale:.0e}" for s in chosen)
    lines = [f"| {chosen[0].algorithm}, to {first} / to the best rival | {scales} |", f"|{'---|' * (1 + len(chosen))}"]
    for rows in zip(*(s.sets for s in chosen), strict=True):
        cells = [f"{row[f'to {first}']:.2f} / {row['to the best']:.2f} ({row['best rival']})" for row in rows]
        lines.append(f"| {rows[0]['set']} | {' | '.join(cells)} |")
    return [*lines, "", f"{chosen[0].algorithm}: worst ratio to the best rival {max(s.worst for s in chosen):.2f}"]
