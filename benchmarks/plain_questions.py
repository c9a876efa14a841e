"""Errors and coverage of single values, groups and ranges, beside plain noisy tables.

    python -m benchmarks.plain_questions [NAME ...]

Zipf categories of 300 to 30,000 values alone and by 4 kinds, drawn tables of two to six attributes and a cube of the
bundled table are released with seeded noise. Printed for each table and epsilon, with standard errors over releases:

* the 20 commonest values of a category: mean absolute error, that of one noisy table over the category with all of
  epsilon, and how many of the 95% intervals hold the truth;
* groups of one attribute: the same, beside noisy tables of all attributes that share epsilon equally; intervals of
  values that have rows;
* errors of 2-way tables, of ranges (one value or all of an attribute without an order) and of single cells, and how
  many intervals of non-empty ranges hold.

`--tables DIRECTORY` adds tables kept as `NAME.npz`: the rows' `codes`, and the `shape` and `ordered` of the attributes.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.datasets import adult_domain, adult_table
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.marginals.balanced import cells_of_table
from dpcube.queries import Workload
from dpcube.research.accuracy.runs import errors_by_kind, laplace_error
from dpcube.research.arrays import experiment
from dpcube.research.processes import seed_of
from dpcube.research.ratios import MeanError
from dpcube.research.tables import classes, coded_domain, hills
from dpcube.strategies.simulated import ranges_of
from dpcube.testing import SeededNoise

CATEGORIES = ((300, 100_000), (3_000, 100_000), (10_000, 100_000), (30_000, 300_000))
EXPONENT, KINDS, COMMONEST = 1.05, 4, 20
SIX, SIX_ROWS = (12, 11, 10, 9, 4, 2), 60_000
ADULT5 = ("age", "education-num", "marital-status", "sex", "income")
COLUMNS = ("20 commonest", "plain", "hold", "1-way", "plain", "hold", "2-way", "ranges", "hold", "cells")

Subject = tuple[str, Domain, Ints]


def zipf_category(values: int, rows: int, kinds: int) -> Ints:
    """Return counts of the values of a category in random order, by Zipf's law, by kinds that depend on the value."""
    random = np.random.default_rng(seed_of("zipf", values, kinds))
    share = random.permutation(np.arange(1.0, values + 1) ** -EXPONENT)
    by_kind = share[:, None] * random.dirichlet(np.full(kinds, 2.0), values)
    return random.multinomial(rows, by_kind.ravel() / by_kind.sum()).reshape(values, kinds).astype(np.int64)


def subjects(directory: Path | None) -> Iterator[Subject]:
    """Yield every table by its name."""
    for values, rows in CATEGORIES:
        for kinds in (KINDS, 1):
            counts = zipf_category(values, rows, kinds).squeeze()
            yield _subject(f"{values} x {kinds}", counts, (False,) * counts.ndim)
    random = np.random.default_rng(seed_of("plain questions"))
    drawn = {
        "six smooth": (hills(SIX, random), SIX_ROWS, (True, True, True, True, False, False)),
        "six classes": (classes(SIX, random), SIX_ROWS, (True, False, True, False, False, False)),
        "trips": (classes((200, 200), random), 100_000, (False, False)),
        "sales": (classes((120, 50, 24), random), 200_000, (False, False, True)),
    }
    for name, (weights, rows, ordered) in drawn.items():
        counts = random.multinomial(rows, weights.ravel() / weights.sum()).reshape(weights.shape).astype(np.int64)
        yield _subject(name, counts, ordered)
    adult = Domain.load(adult_domain(full=True)).project(ADULT5)
    yield "adult5", adult, np.asarray(count(adult_table(), adult))
    for path in sorted(directory.glob("*.npz")) if directory else []:
        kept = np.load(path)
        if "codes" in kept:
            shape = tuple(int(side) for side in kept["shape"])
            counts = np.bincount(np.ravel_multi_index(kept["codes"].T, shape), minlength=int(np.prod(shape)))
            yield _subject(path.stem, counts.reshape(shape), tuple(map(bool, kept["ordered"])))


def _subject(name: str, counts: Ints, ordered: tuple[bool, ...]) -> Subject:
    return name, coded_domain(counts.shape, ordered, tuple(f"a{axis}" for axis in range(counts.ndim))), counts


def measured(domain: Domain, counts: Ints, epsilon: str, seed: int) -> list[float]:
    """Return the figures of one release, in the order of `COLUMNS`; NaN where a table has no such questions."""
    release = experiment(counts, epsilon=epsilon, noise=SeededNoise(seed), domain=domain)
    summed = summed_area_table(counts.astype(np.float64))

    def asked(workload: Workload) -> tuple[Floats, Floats, Bools]:
        """Return the truths, the absolute errors, and whether the intervals hold."""
        answers, truths = release.answer(workload), range_sums(summed, workload.lower, workload.upper)
        low, high = answers.interval()
        return truths, np.asarray(np.abs(answers.values - truths)), (low <= truths) & (truths <= high)

    ones = [asked(cells_of_table(counts.shape, (axis,))) for axis in range(counts.ndim)]
    truths, wrong, held = ones[0]
    common = np.argsort(-truths, kind="stable")[:COMMONEST]
    ranges = ranges_of(counts.shape, tuple("ranges" if one.ordered else "groups" for one in domain.attributes))
    of_ranges = asked(ranges)
    found = dict(zip(("ranges", "cells", "m1", "m2"), errors_by_kind(counts, release.cells(), ranges), strict=False))
    one_way = [np.concatenate(parts) for parts in zip(*ones, strict=True)]
    return [
        wrong[common].mean(),
        laplace_error(float(epsilon)),
        held[common].mean(),
        float(np.mean([of_axis.mean() for _, of_axis, _ in ones])),
        laplace_error(float(epsilon), counts.ndim),
        one_way[2][one_way[0] > 0].mean(),
        found["m2"],
        found["ranges"],
        of_ranges[2][of_ranges[0] > 0].mean(),
        found["cells"],
    ]


def main() -> None:
    """Print a row for each table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("names", nargs="*", help="tables to measure; all by default")
    parser.add_argument("--tables", type=Path, help="directory of further tables")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--epsilons", default="0.1,1")
    given = parser.parse_args()
    print(f"| table | epsilon | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}", flush=True)
    for name, domain, counts in subjects(given.tables):
        for epsilon in given.epsilons.split(",") if not given.names or name in given.names else ():
            runs = [measured(domain, counts, epsilon, seed_of(name, epsilon, run)) for run in range(given.runs)]
            stderrs = np.std(runs, axis=0, ddof=1) / np.sqrt(given.runs)
            means = map(MeanError, np.mean(runs, axis=0), stderrs)
            print(f"| {name} | {epsilon} | {' | '.join(map(str, means))} |", flush=True)


if __name__ == "__main__":
    main()
