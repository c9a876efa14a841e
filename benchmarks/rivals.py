"""Our rivals beside the public code of DPBench (dpcomp_core), on its arrays: do they err as much?

`python -m benchmarks.rivals DIRECTORY [NAME...]` runs each system on every array of the directory and prints its error
over that of the public code in `peers.csv`: geometric means over the sets, with standard errors of both, and how many
in a hundred geometric means over as few of our runs as are recorded lie below what is recorded. Where the
public code has a defect, the system stands twice in the table: as it is, and with the defect (`PUBLIC` below), which is
the one that must agree. These variants live here because nobody should release with them.
"""

import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.research.accuracy.dpbench import BENCH_SCALES, EPSILON, QUERY_FILES, TRIALS, Bench
from dpcube.research.rivals.dawa import Dawa
from dpcube.research.rivals.interval_partition import deviations_of_runs
from dpcube.research.rivals.mwem import Mwem
from dpcube.research.rivals.registry import rival_of
from dpcube.research.rivals.rival import OfStrategy, Rival
from dpcube.strategies import Strategy, strategy_of
from dpcube.strategies.rivals.grids import AGrid, UGrid
from dpcube.strategies.rivals.hierarchical import Hierarchical

Make = Callable[[Ints, Workload], Rival]


def _of(strategy: Strategy) -> Rival:
    return OfStrategy(strategy_of(strategy), "tree_least_squares")


def _named(name: str) -> Make:
    return lambda _, workload: rival_of(name, workload)


class PublicDawa(Dawa):
    """DAWA with the defects of the public code: half of the noise, none on single cells, and a floor under costs."""

    __slots__ = ()

    def noisy_costs(self, row: Floats, first: float, rest: float, rng: np.random.Generator) -> Floats:
        costs = deviations_of_runs(row) + 1 / rest
        length = 2.0 ** np.arange(len(costs))[:, None]
        scale = np.where(length > 1, (2 - 1 / length - 1 / len(row)) / first, 0.0)
        return np.maximum(costs + scale * rng.laplace(size=costs.shape), 1 / rest)


class PublicDawaRow(PublicDawa):
    """The same in one dimension: the public code hands its second stage Q'Q, which that takes for the questions Q.

    It does so in two dimensions too, where Q'Q of thousands of buckets is more than is worth holding here.
    """

    __slots__ = ()

    def questions_of(self, place: Ints, begin: Ints, cells: int) -> Floats:
        questions = super().questions_of(place, begin, cells)
        return questions.T @ questions


class PublicAGrid:
    """AGrid as the public code has it: the rows for free, square boxes of whole sides, rounded down.

    Its least squares weighs by the number of boxes that a box deserves, not by the number that it got.
    """

    name, privacy = "agrid", "none: it uses the exact number of rows"

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        half, side = epsilon / 2, len(counts)
        parts = max(10, math.floor(math.sqrt(counts.sum() * epsilon / 10) / 4))
        step, estimated = max(side // parts, 1), np.zeros(counts.shape)
        for low in np.ndindex(-(-side // step), -(-side // step)):
            where = tuple(slice(a * step, min((a + 1) * step, side)) for a in low)
            block = counts[where]
            whole = block.sum() + rng.laplace(scale=1 / half)
            wanted = max(1, math.floor(math.sqrt(max(whole, 0.0) * half / 5)))
            inner = max(math.floor(math.sqrt(block.size / wanted**2)), 1)
            rows, columns = (np.arange(0, length, inner) for length in block.shape)
            sums = np.add.reduceat(np.add.reduceat(block, rows, axis=0), columns, axis=1).astype(float)
            sums += rng.laplace(scale=1 / half, size=sums.shape)
            moved = (wanted**2 * whole + sums.sum()) / (wanted**2 + 1) - sums.sum()
            lengths = [
                np.diff(np.append(ends, length)) for ends, length in zip((rows, columns), block.shape, strict=True)
            ]
            each = (sums + moved / sums.size) / np.outer(*lengths)
            estimated[where] = np.repeat(np.repeat(each, lengths[0], axis=0), lengths[1], axis=1)
        return estimated


CASES: dict[str, tuple[str, tuple[int, ...], Make]] = {
    "cells": ("Identity", (1, 2), _named("cells")),
    "uniform": ("Uniform", (1, 2), _named("uniform")),
    "hierarchical": ("H2", (1,), _named("hierarchical")),
    "hb": ("HB", (2,), _named("hb")),
    "hb 1-D": ("HB", (1,), _named("hb")),
    "hb 1-D, root counted": ("HB", (1,), lambda *_: _of(Hierarchical(branching=16))),
    "quad_tree": ("QuadTree", (2,), _named("quad_tree")),
    "ugrid": ("UGrid", (2,), _named("ugrid")),
    "ugrid, rows free": ("UGrid", (2,), lambda x, _: _of(UGrid(rows=int(x.sum())))),
    "agrid": ("AGrid", (2,), _named("agrid")),
    "agrid, rows free": ("AGrid", (2,), lambda x, _: _of(AGrid(rows=int(x.sum())))),
    "agrid, as public": ("AGrid", (2,), lambda *_: PublicAGrid()),
    "privelet": ("Privelet", (1, 2), _named("privelet")),
    "mwem": ("MWEM*", (1, 2), _named("mwem")),
    "mwem, rows free": ("MWEM*", (1, 2), lambda x, workload: Mwem(workload, rows=int(x.sum()))),
    "dawa": ("DAWA-float", (2,), _named("dawa")),
    "dawa 1-D": ("DAWA", (1,), _named("dawa")),
    "dawa, public noise": ("DAWA-float", (2,), lambda _, workload: PublicDawa(workload)),
    "dawa 1-D, public noise": ("DAWA", (1,), lambda _, workload: PublicDawaRow(workload)),
}
"""Of each variant: the public algorithm that it stands beside, in which dimensions, and how it is made."""


def peer_errors(bench: Bench) -> dict[tuple[str, ...], list[float]]:
    """Return the public code's errors: one for each trial, by dimensions, workload, scale, set and algorithm."""
    import csv

    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with (bench.directory / "peers.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["ndim"], row["workload"], row["scale"], row["dataset"], row["algorithm"])
            found[key].append(float(row["mean_abs_error"]))
    return found


def log_mean(errors: list[list[float]]) -> tuple[float, float]:
    """Return the mean over sets of the logarithm of the mean error, and its variance (to first order).

    A set that was run once is taken to spread as the others do on average: some of the public code's were.
    """
    logs = [math.log(np.mean(e)) for e in errors]
    known = [float(np.var(e, ddof=1) / np.mean(e) ** 2) for e in errors if len(e) > 1]
    usual = float(np.mean(known)) if known else math.nan
    spread = [(float(np.var(e, ddof=1) / np.mean(e) ** 2) if len(e) > 1 else usual) / len(e) for e in errors]
    return float(np.mean(logs)), sum(spread) / len(errors) ** 2


def share_below(ours: list[list[float]], theirs: list[list[float]], rng: np.random.Generator) -> float:
    """Return how often the geometric mean of as few of our runs as theirs has lies below theirs.

    One run in many errs by several times the others, so the logarithm of a mean over one or two runs is low, most of
    the time, and a ratio to a mean over many is not to be judged by its standard error.
    """
    recorded = float(np.mean([math.log(np.mean(e)) for e in theirs]))
    few = [[rng.choice(e, len(some)).mean() for e, some in zip(ours, theirs, strict=True)] for _ in range(2000)]
    return float(np.mean(np.log(few).mean(axis=1) < recorded))


def compare(bench: Bench, case: str, *, draws: int, scales: tuple[int, ...] = BENCH_SCALES) -> Iterator[str]:
    """Yield a row of the table for each workload: the ratio of errors at each scale and over all, and seconds a run."""
    public, dims, make = CASES[case]
    peers, rng = peer_errors(bench), np.random.default_rng(1)
    trials = int(os.environ.get("TRIALS", TRIALS))
    for dim, queries in (key for key in QUERY_FILES if key[0] in dims):
        workload, cells, total, spent = bench.workload(dim, queries), [], [0.0, 0.0], []
        for scale in scales:
            ours, theirs = [], []
            for name in bench.sets(dim):
                tables = [bench.counts(dim, name, scale, trial) for trial in range(trials) for _ in range(draws)]
                errors = []
                for table in tables:
                    began = time.process_time()
                    estimated = make(table, workload).release(table, float(EPSILON), rng)
                    spent.append(time.process_time() - began)
                    errors.append(float(absolute_errors(table, estimated, workload).mean()))
                ours.append(errors)
                theirs.append(peers[str(dim), queries, str(scale), name, public])
            (a, va), (b, vb) = log_mean(ours), log_mean(theirs)
            total = [total[0] + (a - b) / len(scales), total[1] + (va + vb) / len(scales) ** 2]
            below = share_below(ours, theirs, rng)
            cells.append(f"{math.exp(a):.4g} / {math.exp(b):.4g} = {math.exp(a - b):.2f} ({100 * below:.0f}% below)")
        overall = f"{math.exp(total[0]):.3f} +- {math.exp(total[0]) * math.sqrt(total[1]):.3f}"
        yield f"| {case} | {public} | {dim}-D {queries} | {' | '.join(cells)} | {overall} | {np.median(spent):.3f} |"


def main() -> None:
    """Print the table."""
    directory, *names = sys.argv[1:]
    draws = int(os.environ.get("DRAWS", "4"))
    print(f"| variant | public | questions | {' | '.join(f'N = {s:.0e}' for s in BENCH_SCALES)} | all | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for case in names or CASES:
        for line in compare(Bench(Path(directory)), case, draws=draws):
            print(line, flush=True)


if __name__ == "__main__":
    main()
