"""Groups of tables on which accuracy is measured, each table with an epsilon and the ranges to ask.

`dense` are small simulated cubes and cubes of the bundled table, `dpbench` the arrays of DPBench, `wide` cubes of
several attributes, `even` tables without structure, `drawn` tables simulated from a seed that nobody tuned on,
`held-out` tables on which nothing was tuned.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.research.accuracy import dpbench, held_out_tables
from dpcube.research.processes import seed_of
from dpcube.research.tables import PublicTable, bundled_cube, coded_questions, coded_tables, drawn_tables

CASE_GROUPS = ("dense", "dpbench", "wide", "even", "drawn", "held-out")
DENSE_SHAPES = ((10,), (64,), (256,), (8, 8), (16, 15), (32, 32), (64, 64), (6, 5, 4), (10, 10, 10), (5, 4, 3, 3))
SIZES = ((1e3, "0.1"), (1e3, "1"), (1e5, "0.1"), (1e5, "1"), (1e7, "0.1"))
SMALL_CUBES = (
    ("education", "occupation"),
    ("sex", "race", "marital-status"),
    ("age", "sex"),
    ("workclass", "income", "relationship"),
    ("education-num",),
    ("age",),
    ("marital-status", "race"),
)
CUBES = (
    ("age", "hours-per-week", "education-num"),
    ("age", "education-num", "sex"),
    ("occupation", "education", "native-country"),
    ("age", "education-num", "race", "sex"),
    ("age", "marital-status", "occupation", "income"),
    ("age", "education-num", "marital-status", "sex", "income"),
    ("age", "education-num", "workclass", "relationship", "income"),
    ("education-num", "workclass", "marital-status", "race", "sex", "income"),
    ("education", "occupation", "relationship", "race", "sex", "income"),
)
"""Cubes of three to six attributes of the bundled table."""
WIDE_EPSILONS = ("0.1", "1", "3")
EVEN_TABLES, EVEN_EPSILONS = ("uniform, 2-D", "stripes, 2-D"), ("0.01", "0.1")
HELD_OUT_EPSILONS = ("0.01", "0.1", "1")
ASKED_RANGES = 2000


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyCase:
    """A table, perhaps in several samples, with its domain, an epsilon, and the ranges asked of it.

    Means are taken over the cases of a `family`: the shape of a dense cube, the scale of DPBench's arrays.
    """

    group: str
    family: str
    name: str
    domain: Domain
    samples: tuple[Ints, ...]
    epsilon: str
    asked: Workload
    recorded: dpbench.Key | None = None


def asked_ranges(domain: Domain, number: int = ASKED_RANGES, *, seed: int) -> Workload:
    """Return random ranges; of an attribute without an order, one value or all of them."""
    random = random_ranges(domain.shape, number, seed=seed)
    lower, upper = random.lower.copy(), random.upper.copy()
    every = np.random.default_rng(seed).random((number, len(domain.shape))) < 0.5
    for axis, attribute in enumerate(domain.attributes):
        if not attribute.ordered:
            lower[:, axis] = np.where(every[:, axis], 0, lower[:, axis])
            upper[:, axis] = np.where(every[:, axis], attribute.size, lower[:, axis] + 1)
    return Workload(domain.shape, lower, upper)


def dense() -> Iterator[AccuracyCase]:
    """Yield small and dense cubes: every shape, law, number of rows and epsilon, then cubes of the bundled table."""
    for shape, law, (rows, epsilon) in product(DENSE_SHAPES, DENSE_LAWS, SIZES):
        family = "x".join(map(str, shape))
        random = np.random.default_rng(seed_of("dense", shape, law, rows, epsilon))
        weights = DENSE_LAWS[law](shape, random).reshape(-1)
        counts = random.multinomial(int(rows), weights / weights.sum()).reshape(shape).astype(np.int64)
        table = PublicTable("generated", f"{law} {family} N={rows:.0e}", Domain.of_shape(shape), counts)
        yield _case("dense", family, table, epsilon)
    for table in map(bundled_cube, SMALL_CUBES):
        yield from (_case("dense", table.name, table, epsilon) for epsilon in ("0.1", "1"))


def dpbench_cases(directory: Path) -> Iterator[AccuracyCase]:
    """Yield DPBench's arrays with each kind of its queries, all trials of a set and scale together."""
    bench = dpbench.Bench(directory)
    for dims, queries in dpbench.QUERY_FILES:
        asked, domain = bench.workload(dims, queries), Domain.of_shape(dpbench.BENCH_SHAPES[dims])
        for scale, name in product(dpbench.BENCH_SCALES, bench.sets(dims)):
            trials = tuple(bench.counts(dims, name, scale, trial) for trial in range(dpbench.TRIALS))
            family = f"{dims}-D {'' if queries == 'randomrange' else f'{queries} '}N={scale:.0e}"
            key = dpbench.Key(dims, queries, scale, name)
            yield AccuracyCase("dpbench", family, f"{name} {family}", domain, trials, dpbench.EPSILON, asked, key)


def wide(directory: Path | None) -> Iterator[AccuracyCase]:
    """Yield cubes of several attributes: those of the bundled table, then the tables of a directory."""
    for names in CUBES:
        table = bundled_cube(names)
        yield from (_case("wide", table.name, table, epsilon) for epsilon in WIDE_EPSILONS)
    for table in [] if directory is None else coded_tables(directory):
        asked = coded_questions(directory, table) if directory is not None else None
        yield from (_case("wide", table.name, table, epsilon, asked) for epsilon in WIDE_EPSILONS)


def even_cases() -> Iterator[AccuracyCase]:
    """Yield tables without structure, in which an adaptive strategy has nothing to find."""
    for table in held_out_tables.generated():
        if table.name in EVEN_TABLES:
            yield from (_case("even", table.name, table, epsilon) for epsilon in EVEN_EPSILONS)


def drawn(number: int, *, seed: int) -> Iterator[AccuracyCase]:
    """Yield tables that are simulated from a seed."""
    for table in drawn_tables(number, seed=seed):
        yield from (_case("drawn", table.name, table, epsilon) for epsilon in ("0.1", "1"))


def held_out() -> Iterator[AccuracyCase]:
    """Yield tables on which nothing was tuned, those of packages that are installed and simulated ones."""
    for table in held_out_tables.held_out_tables():
        yield from (_case("held-out", table.origin, table, epsilon) for epsilon in HELD_OUT_EPSILONS)


def _case(group: str, family: str, table: PublicTable, epsilon: str, asked: Workload | None = None) -> AccuracyCase:
    asked = asked_ranges(table.domain, seed=seed_of("ranges", table.name)) if asked is None else asked
    return AccuracyCase(group, family, table.name, table.domain, (table.exact_counts,), epsilon, asked)


def _gamma(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return weights without a pattern."""
    return random.gamma(0.7, 1.0, shape)


def _zipf(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return a mixture of three classes, in each of which attributes are independent with Zipf's law in some order."""
    density = np.zeros(shape)
    for part in random.dirichlet(np.full(3, 2.0)):
        sides = [random.permutation(1 / np.arange(1.0, extent + 1)) for extent in shape]
        together = np.prod(np.stack(np.meshgrid(*sides, indexing="ij")), axis=0)
        density += part * together / together.sum()
    return density


def _hill(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return one round hill over a low plain."""
    squares = np.zeros(shape)
    for axis, extent in zip(np.indices(shape), shape, strict=True):
        squares += ((axis + 0.5) / extent - random.uniform(0.3, 0.7)) ** 2
    return np.asarray(np.exp(-squares / (2 * 0.18**2)) + 0.02)


def _uniform(shape: tuple[int, ...], random: np.random.Generator) -> Floats:  # noqa: ARG001 (nothing to draw)
    return np.ones(shape)


DENSE_LAWS: dict[str, Callable[[tuple[int, ...], np.random.Generator], Floats]] = {
    "gamma": _gamma,
    "zipf": _zipf,
    "hill": _hill,
    "uniform": _uniform,
}
