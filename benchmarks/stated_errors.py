"""Coverage and calibration of stated errors.

    python -m benchmarks.stated_errors [PART ...] [--runs N] [--epsilons E,E]

* `totals`: all rows of releases as the command makes them (exact noise, the total first) of cubes of three and six
  attributes, a wide table and a fine grid: the half-width of the 95% interval times epsilon, how many intervals hold,
  and the mean square of the error in units of the stated one, with its standard error.
* `periods`: ranges over all of 12 periods put together. `leaves`: ranges by `tree_least_squares`. `few`: ranges of
  tables of which `cuboids` selects two pairs. `groups`: ranges of one attribute of six. Of each: how many questions
  with rows have an interval, how many of these hold, with the standard error over releases, the middle half-width,
  and the mean absolute error.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain, Integer
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.measurements import Provenance
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.release import Release
from dpcube.release.periods import merged
from dpcube.research.arrays import experiment
from dpcube.research.processes import seed_of
from dpcube.research.tables import classes, hills
from dpcube.strategies import Cuboids
from dpcube.testing import SeededNoise

THREE, SIX = (24, 20, 8), (12, 11, 10, 9, 4, 2)
PERIODS, RANGES = 12, 300
Weights = Callable[[tuple[int, ...], np.random.Generator], Floats]


def drawn(weights: Weights, shape: tuple[int, ...], rows: int) -> Ints:
    """Return counts of a number of rows, drawn by a law."""
    random = np.random.default_rng(seed_of("stated errors", weights.__name__, shape))
    shares = weights(shape, random)
    return random.multinomial(rows, shares.ravel() / shares.sum()).reshape(shape).astype(np.int64)


def wide_rows(rows: int, sides: tuple[int, ...]) -> tuple[pa.Table, Domain]:
    """Return rows of attributes each of which follows the one before, and their domain."""
    random = np.random.default_rng(seed_of("wide", sides))
    codes = [random.integers(0, sides[0], rows)]
    for side in sides[1:]:
        codes.append((codes[-1] + random.geometric(0.3, rows)) % side)
    names = [f"x{axis}" for axis in range(len(sides))]
    attributes = [Integer(name, 0, side - 1) for name, side in zip(names, sides, strict=True)]
    return pa.table(dict(zip(names, codes, strict=True))), Domain(attributes)


def totals(epsilon: str, runs: int) -> Iterator[str]:
    """Yield a line for each kind of release."""
    cubes = {"cube of 3": drawn(hills, THREE, 30_000), "cube of 6": drawn(classes, SIX, 60_000)}
    made: dict[str, tuple[object, Domain]] = {name: (of, Domain.of_shape(of.shape)) for name, of in cubes.items()}
    made["wide, 14"] = wide_rows(40_000, (9, 8, 7, 6, 5, 9, 8, 7, 6, 5, 4, 3, 2, 2))
    made["grid"] = wide_rows(50_000, (20_000, 20_000))
    for name, (source, domain) in made.items():
        rows = int(source.sum()) if isinstance(source, np.ndarray) else source.num_rows  # type: ignore[attr-defined]
        found = [
            publish(source, domain, epsilon=epsilon, ledger=None, even_if_empty=False).count() for _ in range(runs)
        ]
        squares = [(one.value - rows) ** 2 / (one.stderr**2 + one.nonuniformity**2) for one in found]
        held = np.mean([one.low <= rows <= one.high for one in found])
        width = max((one.high - one.low) / 2 for one in found) * float(epsilon)
        wrong = np.mean([abs(one.value - rows) for one in found]) * float(epsilon)
        yield (
            f"| {name} | {epsilon} | {width:.1f} | {wrong:.1f} | {held:.2f} | "
            f"{np.mean(squares):.2f} ± {np.std(squares, ddof=1) / math.sqrt(runs):.2f} |"
        )


def released_periods(tables: list[Ints], epsilon: str, seed: int) -> Release:
    """Return the merged release of tables, each of a period."""
    made = []
    for number, counts in enumerate(tables):
        one = experiment(counts, epsilon=epsilon, noise=SeededNoise(seed_of("period", seed, number)))
        words = replace(one.provenance, period=f"day from {number} to {number}")
        made.append(Release(one.domain, one.transcript, words))
    return merged(made)


def asked_of(release: Release, counts: Ints, asked: Workload, estimate: str = "auto") -> list[float]:
    """Return the shares of questions with rows that have an interval and of those that hold, half-width and error."""
    truths = range_sums(summed_area_table(counts.astype(np.float64)), asked.lower, asked.upper)
    answers = release.answer(asked, estimate=estimate)
    low, high = answers.interval()
    width, some = answers.half_width(), truths > 0
    stated = some & np.isfinite(width)
    held = (low <= truths) & (truths <= high)
    wrong = np.abs(answers.values - truths)
    return [stated.sum() / some.sum(), held[stated].mean(), float(np.median(width[stated])), wrong[some].mean()]


def of_one_attribute(shape: tuple[int, ...]) -> Workload:
    """Return every prefix and every value of each attribute."""
    lower, upper = [], []
    for axis, side in enumerate(shape):
        for low, high in {*((0, end) for end in range(1, side)), *((place, place + 1) for place in range(side))}:
            lower.append([low if j == axis else 0 for j in range(len(shape))])
            upper.append([high if j == axis else one for j, one in enumerate(shape)])
    return Workload(shape, np.array(lower, np.int64), np.array(upper, np.int64))


def periods(epsilon: str, seed: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the figures of ranges over all periods."""
    for name, weights, shape, rows in (("hills", hills, THREE, 8000), ("classes", classes, (12, 10, 8, 4), 10_000)):
        law = weights(shape, np.random.default_rng(seed_of(name)))
        random = np.random.default_rng(seed_of(name, "rows"))
        tables = [random.multinomial(rows, law.ravel() / law.sum()).reshape(shape) for _ in range(PERIODS)]
        one = random_ranges(shape, RANGES, seed=5)
        lower, upper = (np.insert(ends, 0, end, axis=1) for ends, end in ((one.lower, 0), (one.upper, PERIODS)))
        asked = Workload((PERIODS, *shape), lower, upper)
        yield f"periods: {name}", asked_of(released_periods(tables, epsilon, seed), np.stack(tables), asked)


def leaves(epsilon: str, seed: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the figures of `tree_least_squares` of the default's releases."""
    for name, weights, shape, rows in (("hills", hills, (64, 64), 5000), ("classes", classes, THREE, 30_000)):
        counts = drawn(weights, shape, rows)
        made = experiment(counts, epsilon=epsilon, noise=SeededNoise(seed_of("leaves", seed)))
        asked = random_ranges(shape, RANGES, seed=5)
        yield f"tree_least_squares: {name}", asked_of(made, counts, asked, "tree_least_squares")


def few(epsilon: str, seed: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the figures of `cuboids` where few pairs are selected."""
    for name, weights in (("hills", hills), ("classes", classes)):
        counts, noise = drawn(weights, THREE, 30_000), SeededNoise(seed_of("few", seed))
        rows = SparseRows(THREE, np.nonzero(counts), counts[np.nonzero(counts)])
        transcript = Cuboids().run(Gate(rows, Fraction(epsilon), noise=noise))
        made = Release(Domain.of_shape(THREE), transcript, Provenance("cuboids", Fraction(epsilon), "", private=False))
        pairs = sum(one.groups is not None for one in made.transcript.marginals)
        yield f"cuboids, {pairs} pairs: {name}", asked_of(made, counts, random_ranges(THREE, RANGES, seed=5))


def groups(epsilon: str, seed: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the figures of groups of one attribute of six."""
    for name, weights in (("hills", hills), ("classes", classes)):
        counts = drawn(weights, SIX, 60_000)
        made = experiment(counts, epsilon=epsilon, noise=SeededNoise(seed_of("groups", seed)))
        yield f"groups of one of six: {name}", asked_of(made, counts, of_one_attribute(SIX))


PARTS = {"periods": periods, "leaves": leaves, "few": few, "groups": groups}


def main() -> None:
    """Print a row for each table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("parts", nargs="*", help=f"totals, {', '.join(PARTS)}; all by default")
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--epsilons", default="0.1,1")
    given = parser.parse_args()
    for part in given.parts or ["totals", *PARTS]:
        for epsilon in given.epsilons.split(","):
            if part == "totals":
                for line in totals(epsilon, given.runs):
                    print(line, flush=True)
                continue
            rows: dict[str, list[list[float]]] = {}
            for seed in range(given.runs):
                for name, found in PARTS[part](epsilon, seed):
                    rows.setdefault(name, []).append(found)
            for name, every in rows.items():
                stated, held, width, wrong = np.nanmean(every, axis=0)
                sure = np.std([one[1] for one in every], ddof=1) / math.sqrt(len(every))
                figures = f"{stated:.0%} | {held:.3f} ± {sure:.3f} | {width:,.0f} | {wrong:,.0f}"
                print(f"| {name} | {epsilon} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
