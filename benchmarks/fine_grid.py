"""Accuracy, time and memory of a grid of 10^6 x 10^6 cells, beside PrivTree.

    python -m benchmarks.fine_grid [EPSILON] [RUNS] [ROWS]

Rows are clusters of many sizes with some rows anywhere, read from a Parquet file. Printed are the mean errors of 500
ranges, a hundred of each of five sizes, half of them around rows; how often intervals of 95% held the truth; and what a
release takes of the processor and of memory.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube import Domain, Integer, Release
from dpcube.core.arrays import Floats, Ints
from dpcube.curator import publish
from dpcube.queries import Workload
from dpcube.research.rivals.privtree import noise_and_bias

SIDE, CLUSTERS = 10**6, 200
SIZES = (1e-6, 1e-4, 1e-2, 0.05, 0.25)
"""Shares of the grid that ranges cover."""


def clustered(rows: int, seed: int = 1) -> Ints:
    """Return the cells of rows around places of very different density, one in twenty anywhere."""
    generator = np.random.default_rng(seed)
    weights, centres = generator.dirichlet(np.full(CLUSTERS, 0.3)), generator.random((CLUSTERS, 2))
    spread = 10 ** generator.uniform(-4.5, -1.3, (CLUSTERS, 1)) * np.exp(0.4 * generator.normal(size=(CLUSTERS, 2)))
    which = generator.choice(CLUSTERS, rows, p=weights)
    places = centres[which] + spread[which] * generator.normal(size=(rows, 2))
    anywhere = generator.random(rows) < 0.05
    places[anywhere] = generator.random((int(anywhere.sum()), 2))
    return np.asarray(np.clip(places, 0, np.nextafter(1, 0)) * SIDE, np.int64)


def sized_ranges(cells: Ints, each: int = 100, seed: int = 2) -> Workload:
    """Return ranges of each size, one after another; every other one holds a row."""
    generator = np.random.default_rng(seed)
    lower, upper = [], []
    for number, share in enumerate(np.repeat(SIZES, each)):
        sides = np.exp(0.5 * generator.normal(size=2))
        sides *= np.sqrt(share / sides.prod()) * SIDE
        length = np.clip(sides, 1, SIDE).astype(np.int64)
        row = cells[generator.integers(len(cells))] - (generator.random(2) * length).astype(np.int64)
        low = row if number % 2 else (generator.random(2) * (SIDE - length)).astype(np.int64)
        lower.append(np.clip(low, 0, SIDE - length))
        upper.append(lower[-1] + length)
    return Workload((SIDE, SIDE), np.array(lower), np.array(upper))


def counts_in(cells: Ints, asked: Workload) -> Ints:
    """Return the exact answers of ranges."""
    ordered = cells[np.argsort(cells[:, 0])]
    found = np.empty(len(asked), np.int64)
    for number, (low, high) in enumerate(zip(asked.lower, asked.upper, strict=True)):
        first, last = np.searchsorted(ordered[:, 0], [low[0], high[0]])
        column = ordered[first:last, 1]
        found[number] = np.count_nonzero((column >= low[1]) & (column < high[1]))
    return found


def sparse_privtree(cells: Ints, epsilon: float, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Return the leaves of PrivTree and their noisy counts; rows go down with the boxes that hold them."""
    scale, bias = noise_and_bias(4, epsilon / 2)
    lower, upper = np.zeros((1, 2), np.int64), np.full((1, 2), SIDE)
    box, rows, depth = np.zeros(len(cells), np.int64), cells, 0
    kept: list[tuple[Ints, Ints, Ints]] = []
    while len(lower):
        counts = np.bincount(box, minlength=len(lower))
        biased = np.maximum(counts - depth * bias, -bias)
        cut = (upper - lower > 1).all(axis=1) & (biased + rng.laplace(scale=scale, size=len(counts)) > 0)
        kept.append((lower[~cut], upper[~cut], counts[~cut]))
        inside = cut[box]
        rows, box = rows[inside], (np.cumsum(cut) - 1)[box[inside]]
        lower, upper = lower[cut], upper[cut]
        middle = (lower + upper) // 2
        above = rows >= middle[box]
        box = 4 * box + 2 * above[:, 0] + above[:, 1]
        part = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], bool)
        lower, upper = (
            np.where(part, of_upper[:, None], of_lower[:, None]).reshape(-1, 2)
            for of_lower, of_upper in ((lower, middle), (middle, upper))
        )
        depth += 1
    leaves = [np.concatenate(side) for side in zip(*kept, strict=True)]
    return leaves[0], leaves[1], leaves[2] + rng.laplace(scale=2 / epsilon, size=len(leaves[2]))


def spread_evenly(lower: Ints, upper: Ints, counts: Floats, asked: Workload) -> Floats:
    """Return what each range takes of boxes in which counts are spread evenly."""
    found = np.empty(len(asked))
    for number, (low, high) in enumerate(zip(asked.lower, asked.upper, strict=True)):
        shared = np.maximum(np.minimum(upper, high) - np.maximum(lower, low), 0) / (upper - lower)
        found[number] = counts @ shared.prod(axis=1)
    return found


def by_size(name: str, runs: list[Floats]) -> str:
    """Return the means of each size of ranges, with the standard error over runs."""
    means = np.array(runs).reshape(len(runs), len(SIZES), -1).mean(axis=2)
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(SIZES))
    figures = " ".join(f"{mean:.3g}({error:.2g})" for mean, error in zip(means.mean(axis=0), errors, strict=True))
    return f"{name}: {figures}; all {means.mean():.3g}"


def run(epsilon: float = 1.0, runs: int = 5, rows: int = 10**6) -> Iterator[str]:
    """Yield lines of results."""
    cells = clustered(rows)
    asked = sized_ranges(cells)
    truth = counts_in(cells, asked)
    domain = Domain(Integer("x", 0, SIDE - 1), Integer("y", 0, SIDE - 1))
    errors, held = [], []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "points.parquet"
        pq.write_table(pa.table({"x": cells[:, 0], "y": cells[:, 1]}), table)
        for turn in range(runs):
            start, before = time.perf_counter(), time.process_time()
            publish(table, domain, epsilon=str(epsilon), ledger=None, save_to=Path(folder) / f"{turn}.dpcube")
            cpu, wall = time.process_time() - before, time.perf_counter() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            release = Release.open(Path(folder) / f"{turn}.dpcube")
            before = time.process_time()
            answers = release.answer(asked)
            low, high = answers.interval(0.95)
            asking = time.process_time() - before
            errors.append(np.abs(answers.values - truth))
            held.append(((low <= truth) & (truth <= high)).astype(float))
            size = (Path(folder) / f"{turn}.dpcube").stat().st_size
            yield (
                f"epsilon {epsilon:g} run {turn}: {cpu:.1f} CPU-seconds ({wall:.0f} s), peak {peak:.0f} MB, "
                f"file {size / 1024:.0f} kB, 500 ranges {asking:.1f} CPU-seconds"
            )
    yield by_size("fine_grid, mean absolute error", errors)
    yield by_size("intervals that held", held)
    theirs = []
    for turn in range(runs):
        leaves = sparse_privtree(cells, epsilon, np.random.default_rng(turn))
        theirs.append(np.abs(spread_evenly(*leaves, asked) - truth))
    yield by_size("PrivTree, mean absolute error", theirs)


if __name__ == "__main__":
    epsilon = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for line in run(epsilon, *map(int, sys.argv[2:])):
        print(line, flush=True)
