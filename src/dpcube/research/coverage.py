"""Coverage of 95% confidence intervals for random ranges of public tables.

For each table, epsilon and strategy, a number of seeded releases answer the same random ranges by the default estimate;
ranges whose true answer is zero are left out. `dpcube coverage` prints the table of docs/research/coverage.md, and
beside it what `by_question` finds for the questions that people ask of a table.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Ints
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.curator.publishing import count
from dpcube.models.metrics import exact_answers
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.research.by_question import UNDER, Tally, worst_part
from dpcube.research.processes import in_processes
from dpcube.research.tables import experiment
from dpcube.strategies import BY_NAME, Strategy, strategy_of
from dpcube.testing import SeededNoise

COVERAGE_EPSILONS = ("0.05", "0.1", "1")
RANGES = 2000
RELEASES = 20
TENTHS = 10
WANTED, WANTED_OF_DECILE = (0.93, 0.99), 0.90
SAMPLE = re.compile(r"\w+_t\d+")
BUNDLED = "Adult (bundled)"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage for one table, epsilon and strategy, over all ranges and by tenths of the ranges' sizes.

    `width` is the mean width of an interval over the mean absolute error: 4.9 if errors were normal and all alike, 6
    for one Laplace noise; more where errors of some ranges cannot be foreseen. `worst_ranges` is the mean of the tenth
    of the ranges that held least over the releases, `under` the share of ranges that held less than 90% of the time.
    """

    table: str
    epsilon: str
    strategy: str
    overall: float
    deciles: tuple[float, ...]
    width: float
    worst_ranges: float
    under: float

    @property
    def met(self) -> bool:
        """Whether coverage is as wanted."""
        return WANTED[0] <= self.overall <= WANTED[1] and min(self.deciles) >= WANTED_OF_DECILE

    def __str__(self) -> str:
        star = " " if self.met else "*"
        tenths = f"{100 * min(self.deciles):5.1f} {100 * self.worst_ranges:5.1f}"
        return f"{100 * self.overall:5.1f} {tenths} {100 * self.under:4.1f} {self.width:4.1f}{star}"

    def as_dict(self) -> dict[str, object]:
        """Return the figures as plain values."""
        return {**asdict(self), "met": self.met}


def measure_coverage(
    table: str,
    samples: list[Ints],
    *,
    epsilon: str,
    strategy: str | Strategy,
    releases: int = RELEASES,
    asked: Workload | None = None,
) -> Coverage:
    """Release a table many times, its samples in turn, and measure how often intervals hold the truth.

    Random ranges are asked unless others are given.
    """
    asked = random_ranges(samples[0].shape, RANGES, seed=1) if asked is None else asked
    strategy = strategy_of(strategy)
    held, sizes, error, tally = [], [], 0.0, Tally.nothing(len(asked))
    for seed in range(releases):
        exact_counts = samples[seed % len(samples)]
        truth = exact_answers(exact_counts, asked)
        some = truth > 0
        released = experiment(exact_counts, epsilon=epsilon, strategy=strategy, noise=SeededNoise(seed))
        answers = released.answer(asked)
        one = Tally.of_release(answers, truth, counted=some)
        held.append(one.sums[2, some] > 0)
        sizes.append(asked.sizes[some])
        error += float(np.abs(answers.values - truth)[some].sum())
        tally += one
    every, order = np.concatenate(held), np.argsort(np.concatenate(sizes), kind="stable")
    if len(every) < TENTHS:
        msg = f"{table} has too few rows: random ranges of it are empty, so there is nothing to cover"
        raise InputError(msg)
    deciles = tuple(float(part.mean()) for part in np.array_split(every[order], TENTHS))
    shares, width = tally.shares(tally.asked), 2 * float(tally.sums[5].sum()) / max(error, 1e-300)
    under = float((shares < UNDER).mean())
    return Coverage(table, epsilon, strategy.name, float(every.mean()), deciles, width, worst_part(shares), under)


def bundled() -> list[Ints]:
    """Return the exact counts of the bundled public table."""
    return [count(datasets.adult_table(), Domain.load(datasets.adult_domain()))]


def samples_of(path: Path) -> dict[str, list[Ints]]:
    """Return the samples in a `.npz` file of arrays named SCALE_TRIAL, by scale."""
    name = path.stem.removeprefix("x_")
    found: dict[str, list[Ints]] = {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for key in filter(SAMPLE.fullmatch, arrays.files):
                found.setdefault(f"{name} {key.split('_')[0]}", []).append(arrays[key].astype(np.int64))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        msg = f"cannot read arrays of counts from {path}; it must be a .npz file of NumPy arrays"
        raise InputError(msg) from None
    return found


def every_coverage(
    arrays: Path | None = None,
    *,
    strategies: Sequence[str | Strategy] = tuple(BY_NAME),
    epsilons: Sequence[str] = COVERAGE_EPSILONS,
    releases: int = RELEASES,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Coverage]:
    """Measure strategies at every epsilon on the bundled table and on every `x_*.npz` of a directory, read at once."""
    tables = {BUNDLED: bundled()}
    for path in [] if arrays is None else sorted(arrays.glob("x_*.npz")):
        tables |= samples_of(path)

    def settings() -> Iterator[tuple[object, ...]]:
        for (table, samples), epsilon, strategy in product(tables.items(), epsilons, strategies):
            progress(f"{table}, epsilon {epsilon}, {strategy_of(strategy).name}")
            yield table, samples, epsilon, strategy, releases

    return in_processes(_measured, settings(), jobs=jobs)


def _measured(table: str, samples: list[Ints], epsilon: str, strategy: str | Strategy, releases: int) -> Coverage:
    return measure_coverage(table, samples, epsilon=epsilon, strategy=strategy, releases=releases)


def coverage_summary(found: list[Coverage]) -> list[str]:
    """Return a line for each strategy: how many settings are as wanted, and what the others miss."""
    lines = []
    for strategy in dict.fromkeys(one.strategy for one in found):
        chosen = [one for one in found if one.strategy == strategy]
        met = sum(one.met for one in chosen)
        narrow = sum(one.overall < WANTED[0] for one in chosen)
        wide = sum(one.overall > WANTED[1] for one in chosen)
        tenths = sum(min(one.deciles) < WANTED_OF_DECILE for one in chosen)
        mean = np.mean([one.overall for one in chosen])
        lines.append(
            f"{strategy}: {met} of {len(chosen)} as wanted; coverage {mean:.1%} on average; {narrow} below "
            f"{WANTED[0]:.0%}, {wide} above {WANTED[1]:.0%}, {tenths} with a tenth below {WANTED_OF_DECILE:.0%} (*)"
        )
    return lines
