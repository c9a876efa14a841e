"""Ahead-of-time compilation of the numerical loops, for `dpcube compile`.

A loop is compiled for the types that it is called with. So every kind of release is made of the bundled table and
queried once, by the strategies and estimates themselves; nothing of it is kept.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from dpcube import datasets
from dpcube.core.compiled import tell_when_compiling
from dpcube.core.domain import Domain, Float, Integer
from dpcube.curator.publishing import publish
from dpcube.queries.random_ranges import random_ranges
from dpcube.release import Release
from dpcube.strategies import BUILT_IN, BY_NAME

MANY_RANGES = 20_000
"""Errors of this many ranges are read from tables, by loops that are compiled for each number of axes."""
MAX_COMPILED_ATTRIBUTES = 6
"""Attributes of the largest cube for which those loops are compiled ahead."""


class KindOfRelease(NamedTuple):
    """A kind of release: its strategy, the domain by which the bundled table is counted, and queries of it."""

    strategy: str
    domain: Domain
    question: str
    sql: str
    materialised: bool = True
    """Whether all of its cells, or marginals of them, can be held in memory."""


def kinds() -> Iterator[KindOfRelease]:
    """Return every kind of release: dense ones by the built-in strategies, a wide one, and a fine grid."""
    adult = Domain.load(datasets.adult_domain())
    grid = Domain(*(Float(name, 0.0, 100.0, width=0.0001) for name in ("age", "hours-per-week")))
    for strategy in (made() for made in BUILT_IN):
        if strategy.workload == "grid":
            sql = "SELECT count(*) FROM cube WHERE age >= 30"
            yield KindOfRelease(strategy.name, grid, "age between 30 and 39.5", sql, materialised=False)
        else:
            sql = "SELECT count(*), avg(age) FROM cube WHERE age >= 30 GROUP BY sex"
            yield KindOfRelease(strategy.name, adult, "age between 30 and 39 and sex = 'Female'", sql)


def few_cells(axes: int) -> Domain:
    """Return a domain of some attributes of two bins each."""
    return Domain(*(Integer(f"age {axis}", 0, 99, width=50, column="age") for axis in range(axes)))


def compile_ahead() -> int:
    """Make and query every kind of release, and return how many loops were compiled anew."""
    made = [0]

    def count_one() -> None:
        made[0] += 1

    tell_when_compiling(count_one)
    with TemporaryDirectory() as folder:
        for kind in kinds():
            path = Path(folder) / f"{kind.strategy}.dpcube"
            _released(kind.strategy, kind.domain).save(path)
            _ask(Release.open(path), kind)
    for strategy, axes in product(BY_NAME, range(1, MAX_COMPILED_ATTRIBUTES + 1)):
        _ask_ranges(_released(strategy, few_cells(axes)))
    return made[0]


def _released(strategy: str, domain: Domain) -> Release:
    return publish(datasets.adult_table(), domain, epsilon="1", strategy=strategy, ledger=None)


def _ask(release: Release, kind: KindOfRelease) -> None:
    """Query a release as analysts do: counts, SQL with errors, groups, every cell, many ranges, synthetic rows."""
    release.count(kind.question)
    release.explain()
    release.sql(kind.sql, error=True)
    release.synthesize(1000, seed=0)
    if kind.materialised:
        release.group_by("age").table(errors=True)
        release.cells()
        _ask_ranges(release)


def _ask_ranges(release: Release) -> None:
    release.answer(random_ranges(release.domain.shape, MANY_RANGES, seed=0))
