"""Accuracy of releases of a wide table, and their time and memory at many attributes.

    python -m benchmarks.wide adult [EPSILON,...] [RUNS]
    python -m benchmarks.wide many [ATTRIBUTES] [ROWS] [EPSILON]

`adult` releases the 14 attributes of the bundled table (fnlwgt apart) and prints, over all pairs and triples of
attributes, the mean total variation of synthetic rows from the table and the mean absolute error of a cell; how often
intervals of measured and of modelled ranges hold; and the processor's seconds of a release. `many` releases a simulated
table whose attributes depend on each other from a Parquet file, opens it, asks it questions and synthesises rows; it
prints the processor's seconds of each step, and the peak of memory so far, the simulation included.
"""

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube import Domain, Integer, Release
from dpcube.core.arrays import Ints
from dpcube.curator import publish
from dpcube.curator.publishing import count
from dpcube.datasets import adult_domain, adult_table
from dpcube.plan.axes import axes_of
from dpcube.plan.simulated_rows import simulated_rows
from dpcube.queries import CountingQueries
from dpcube.release.answer import Answers

QUESTIONS = 300
SIDES = (2, 3, 5, 7, 12, 20, 40, 80)


def wide_adult() -> Domain:
    """Return the 14 attributes of the bundled table."""
    whole = Domain.load(adult_domain(full=True))
    return whole.project(tuple(name for name in whole.names if name != "fnlwgt"))


@cache
def exact_marginal(names: tuple[str, ...]) -> Ints:
    """Return the exact counts of the bundled table over some attributes."""
    return np.asarray(count(adult_table(), wide_adult().project(names)), np.int64)


def distances(rows: pa.Table, domain: Domain) -> dict[str, float]:
    """Return how far synthetic rows are from the bundled table, over all pairs and triples of attributes."""
    found = {}
    for way in (2, 3):
        wrong = []
        for names in itertools.combinations(domain.names, way):
            exact = exact_marginal(names)
            wrong.append((np.abs(count(rows, domain.project(names)) - exact).sum(), exact.size, exact.sum()))
        found[f"tv{way}"] = float(np.mean([apart / (2 * total) for apart, _, total in wrong]))
        found[f"mae{way}"] = float(np.mean([apart / size for apart, size, _ in wrong]))
    return found


def coverage(release: Release, seed: int) -> dict[str, float]:
    """Return the share of 95% intervals of random ranges over 1 to 3 attributes that hold the truth."""
    domain, random = release.domain, np.random.default_rng(seed)
    weights: list[list[np.ndarray]] = [[np.ones(side)] for side in domain.shape]
    chosen, truths = np.zeros((3 * QUESTIONS, len(domain.shape)), np.int64), np.empty(3 * QUESTIONS)
    for question in range(3 * QUESTIONS):
        axes = np.sort(random.choice(len(domain.shape), 1 + question // QUESTIONS, replace=False)).tolist()
        ends = [np.sort(random.integers(0, domain.shape[axis], 2)) + np.array([0, 1]) for axis in axes]
        for axis, (low, high) in zip(axes, ends, strict=True):
            chosen[question, axis] = len(weights[axis])
            cells = np.arange(domain.shape[axis])
            weights[axis].append(((low <= cells) & (cells < high)).astype(float))
        inside = tuple(slice(low, high) for low, high in ends)
        truths[question] = exact_marginal(tuple(domain.names[axis] for axis in axes))[inside].sum()
    answers = Answers.asked(domain, release.estimate(), CountingQueries(tuple(map(np.stack, weights)), chosen))
    low, high = answers.interval(0.95)
    held = (low <= truths) & (truths <= high)
    assert answers.modelled is not None
    parts = {"measured": ~answers.modelled, "modelled": answers.modelled}
    return {f"held, {name}": float(held[which].mean()) for name, which in parts.items() if which.any()}


def adult(epsilons: str = "0.1,1,3", runs: str = "5") -> Iterator[str]:
    """Yield the mean figures of some releases for each epsilon, with their standard errors."""
    domain, number = wide_adult(), int(runs)
    for epsilon in epsilons.split(","):
        found = []
        for seed in range(number):
            begun = time.process_time()
            release = publish(adult_table(), domain, epsilon=epsilon, ledger=None)
            figures = {"seconds": time.process_time() - begun}
            rows = release.synthesize(int(exact_marginal(domain.names[:1]).sum()), seed=seed)
            found.append(figures | distances(rows, domain) | coverage(release, seed))
        means = []
        for name in found[0]:
            values = [one[name] for one in found if name in one]
            error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
            means.append(f"{name} {np.mean(values):.4g} +- {error:.2g}")
        yield f"epsilon {epsilon}, {number} releases: {', '.join(means)}"


def simulated(attributes: int, rows: int, to: Path) -> Domain:
    """Write a simulated table of some attributes, and return its domain."""
    sides = np.random.default_rng(5).choice(SIDES, attributes).tolist()
    domain = Domain(*(Integer(f"a{j}", 0, side - 1) for j, side in enumerate(sides)))
    made = simulated_rows("heavy-tailed", axes_of(domain), rows=rows, most=rows, seed=0)
    columns = [column.astype(np.int16) for column in made.columns]
    pq.write_table(pa.table(dict(zip(domain.names, columns, strict=True))), to)
    return domain


def many(attributes: str = "40", rows: str = "300000", epsilon: str = "1") -> Iterator[str]:
    """Yield a line for each step."""
    with tempfile.TemporaryDirectory() as folder:
        table, file = Path(folder) / "wide.parquet", Path(folder) / "wide.dpcube"
        domain = simulated(int(attributes), int(rows), table)
        first, second, third = domain.names[:3]
        clock = _Clock()
        publish(table, domain, epsilon=epsilon, ledger=None, save_to=file)
        yield clock.line("release")
        release = Release.open(file)
        yield clock.line("open")
        str(release.count(f"{first} = 1 and {second} <= 2 and {third} >= 1"))
        yield clock.line("a first question, with its interval")
        for name in domain.names[3:]:
            str(release.count(f"{first} = 1 and {name} = 1"))
        yield clock.line(f"{len(domain.names) - 3} questions of two attributes")
        release.synthesize(int(rows))
        yield clock.line(f"{int(rows):,} synthetic rows")


class _Clock:
    def __init__(self) -> None:
        self.begun = time.process_time()

    def line(self, step: str) -> str:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds, self.begun = time.process_time() - self.begun, time.process_time()
        return f"{step}: {seconds:.1f} CPU-seconds, peak {peak:.0f} MB"


def main(part: str = "adult", *given: str) -> None:
    for line in many(*given) if part == "many" else adult(*given):
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
