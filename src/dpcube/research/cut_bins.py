"""Coverage and width of intervals of questions that cut bins, on public or simulated tables.

`python -m dpcube.research.cut_bins` prints the table of docs/research/coverage.md. A table of single values is
released in bins of five and asked about single values and about ranges of them, by `count` and by SQL. Of real
numbers, whose bins hold their lower edges, it is asked about ranges from edge to edge, both ends included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain, Float, Integer
from dpcube.core.domain.attribute import Within
from dpcube.curator.publishing import count
from dpcube.queries import CountingQueries, query
from dpcube.release.answer import Answers
from dpcube.release.release import Release
from dpcube.research.tables import experiment
from dpcube.strategies import BY_NAME
from dpcube.testing import SeededNoise

RUNS, EPSILON, WIDTH, ASKED_IN_SQL = 60, "1", 5, 6

ValueRange = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class TableOfValues:
    """Counts of single values of two attributes, and the queried ranges of the second.

    The second attribute is one of real numbers if `real`; its values are whole all the same.
    """

    name: str
    exact: Ints
    start: int
    asked: tuple[ValueRange, ...]
    real: bool = False

    def domain(self, within: Within) -> Domain:
        """Return the domain with the second attribute in bins of five."""
        rows, columns = self.exact.shape
        kind, last = (Float, self.start + columns) if self.real else (Integer, self.start + columns - 1)
        binned = kind(name="x", min=self.start, max=last, width=WIDTH, within=within)
        return Domain((Integer(name="g", min=0, max=rows - 1), binned))

    @property
    def binned(self) -> Ints:
        """Counts of the bins."""
        return np.asarray(self.exact.reshape(len(self.exact), -1, WIDTH).sum(axis=2), np.int64)

    @property
    def truth(self) -> Floats:
        """Exact answers."""
        marginal = self.exact.sum(axis=0)
        return np.array([marginal[a - self.start : b + 1 - self.start].sum() for a, b in self.asked], np.float64)


@dataclass(frozen=True, slots=True)
class Held:
    """Percentage of intervals that hold the truth, and mean width: of the noise alone, of `count`, and of SQL."""

    noise_alone: tuple[float, float]
    counted: tuple[float, float]
    in_sql: tuple[float, float]


def tables_of_values() -> Iterator[TableOfValues]:
    """Return the bundled table by hours and by age, whose values heap; a smooth hill; and empty bins beside rows."""
    every = Domain.load(datasets.adult_domain())
    for name, other in (("hours-per-week", "age"), ("age", "hours-per-week")):
        binned = every[name]
        assert isinstance(binned, Integer)
        exact = count(datasets.adult_table(), Domain((every[other], replace(binned, width=1))))
        start = int(binned.start)
        values = [(x, x) for x in range(start, start + exact.shape[1])]
        yield TableOfValues(f"heaped: {name}, single values", exact, start, tuple(values))
        yield TableOfValues(f"heaped: {name}, ranges", exact, start, tuple(cutting_ranges(start, exact.shape[1])))
        edges = range(start, start + exact.shape[1], WIDTH)
        yield TableOfValues(f"heaped: {name} (real), to edges", exact, start, tuple(edge_pairs(edges)), real=True)
    generator, places = np.random.default_rng(8), np.arange(100)
    hill = 600 * np.exp(-(((places - 50) / 22) ** 2))
    smooth = generator.poisson(np.outer(np.linspace(0.5, 1.5, 8), hill) / 8)
    flat = generator.poisson(np.full((8, 100), 30))
    yield TableOfValues("smooth: flat, single values", flat, 0, tuple((x, x) for x in range(100)))
    yield TableOfValues("smooth: a hill, single values", smooth, 0, tuple((x, x) for x in range(100)))
    yield TableOfValues("smooth: a hill, ranges", smooth, 0, tuple(cutting_ranges(0, 100)))
    half = np.where(places < 50, smooth, 0)
    yield TableOfValues("empty bins, single values", half, 0, tuple((x, x) for x in range(50, 100)))


def cutting_ranges(start: int, length: int, *, number: int = 60) -> Iterator[ValueRange]:
    """Return ranges that cut a bin, always the same ones."""
    generator = np.random.default_rng(3)
    while number:
        low, high = sorted(generator.integers(0, length, 2).tolist())
        if low % WIDTH or (high + 1) % WIDTH:
            number -= 1
            yield start + low, start + high


def edge_pairs(edges: Sequence[int]) -> Iterator[ValueRange]:
    """Return ranges from the first edge, and from each edge to the next, both ends included."""
    yield from ((edges[0], edge) for edge in edges)
    yield from pairwise(edges)


def measure_cut_bins(table: TableOfValues, strategy: str, *, within: Within = "any", runs: int = RUNS) -> Held:
    """Release a table many times and see how often intervals hold."""
    domain, truth = table.domain(within), table.truth
    asked = _joined([CountingQueries.of(query(domain, x=pair)) for pair in table.asked])
    kinds: list[list[tuple[float, float]]] = [[], [], []]
    for seed in range(runs):
        made = experiment(table.binned, epsilon=EPSILON, strategy=strategy, noise=SeededNoise(seed))
        release = Release(domain, made.transcript, made.provenance)
        answers = Answers.asked(domain, release.estimate(), asked)
        noise_alone = Answers.from_parts(*release.estimate().answers(asked))
        for kind, found in zip(kinds, (noise_alone, answers), strict=False):
            kind.append(_held(*found.interval(0.95), truth))
        some = np.random.default_rng(seed).permutation(len(truth))[:ASKED_IN_SQL]
        kinds[2].append(_held(*_in_sql(release, [table.asked[k] for k in some]), truth[some]))
    noise, counted, in_sql = (tuple(np.mean(kind, axis=0).tolist()) for kind in kinds)
    return Held(noise, counted, in_sql)


def _joined(asked: list[CountingQueries]) -> CountingQueries:
    weights = tuple(map(np.concatenate, zip(*(one.weights for one in asked), strict=True)))
    parts = tuple(map(np.concatenate, zip(*(one.parts for one in asked), strict=True)))
    return CountingQueries(weights, np.tile(np.arange(len(asked))[:, None], len(weights)), parts)


def _in_sql(release: Release, asked: list[ValueRange]) -> tuple[Floats, Floats]:
    columns = [f"count(*) FILTER (WHERE x BETWEEN {a} AND {b}) AS q{k}" for k, (a, b) in enumerate(asked)]
    (row,) = release.sql(f"SELECT {', '.join(columns)} FROM cube", error=True).to_pylist()
    low, high = (np.array([row[f"q{k}_{end}"] for k in range(len(asked))]) for end in ("low", "high"))
    return low, high


def _held(low: Floats, high: Floats, truth: Floats) -> tuple[float, float]:
    """Return the percentage held, ends rounded outwards to whole rows, and the mean width."""
    held = (np.floor(low) <= truth) & (truth <= np.ceil(high))
    return 100 * float(held.mean()), float((high - low).mean())


def print_cut_bins() -> None:
    """Print the table."""
    print(f"{'table':<40} {'strategy':<9} within  noise alone      count            SQL             truth")
    for table in tables_of_values():
        settings: list[Within] = ["any", "even"] if table.name.startswith("smooth") else ["any"]
        for strategy in BY_NAME:
            for within in settings:
                found = measure_cut_bins(table, strategy, within=within)
                shown = "  ".join(f"{h:5.1f}% {w:8,.0f}" for h, w in (found.noise_alone, found.counted, found.in_sql))
                print(f"{table.name:<40} {strategy:<9} {within:<5}  {shown}  {table.truth.mean():8,.0f}", flush=True)


if __name__ == "__main__":
    print_cut_bins()
