"""How near releases of a wide table come to it: `python -m benchmarks.wide_tables [EPSILON,...] [RUNS]`.

The 14 attributes of the bundled Adult table (fnlwgt apart), released as cuboids with seeded noise. Printed are the mean
total variation of synthetic rows from the table over all pairs and some triples of attributes, how often intervals of
measured and of modelled questions held the truth, and the processor's seconds.
"""

import itertools
import math
import sys
import time
from fractions import Fraction

import numpy as np

from dpcube import Domain, Release
from dpcube.core.arrays import Floats, Ints
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.sources import open_rows
from dpcube.datasets import adult_domain, adult_table
from dpcube.measurements import Provenance
from dpcube.models.cuboids.estimate import CuboidsEstimate
from dpcube.queries import CountingQueries
from dpcube.release.answer import Answers
from dpcube.strategies import Cuboids
from dpcube.testing import SeededNoise

TRIPLES, QUESTIONS = 120, 300


def total_variation(one: Ints, other: Ints, shape: tuple[int, ...], axes: tuple[int, ...]) -> float:
    """Return the total variation of two sets of rows over some attributes."""
    sides = [shape[axis] for axis in axes]
    shares = []
    for rows in (one, other):
        place = np.ravel_multi_index([rows[:, axis] for axis in axes], sides)
        shares.append(np.bincount(place, minlength=math.prod(sides)) / len(rows))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def random_questions(shape: tuple[int, ...], attributes: int, seed: int) -> CountingQueries:
    """Return ranges of so many attributes drawn at random, each from one cell to another."""
    generator = np.random.default_rng(seed)
    weights = [[np.ones(side)] for side in shape]
    chosen = np.zeros((QUESTIONS, len(shape)), np.int64)
    for question in range(QUESTIONS):
        for axis in generator.choice(len(shape), attributes, replace=False):
            low, high = np.sort(generator.integers(0, shape[axis], 2))
            row = np.zeros(shape[axis])
            row[low : high + 1] = 1
            chosen[question, axis] = len(weights[axis])
            weights[axis].append(row)
    return CountingQueries(tuple(map(np.stack, weights)), chosen)


def truths(rows: Ints, queries: CountingQueries) -> Floats:
    """Return the exact answers."""
    inside = [
        np.prod(
            [
                weights[pick][rows[:, axis]]
                for axis, (weights, pick) in enumerate(zip(queries.weights, of, strict=True))
                if pick
            ],
            axis=0,
        ).sum()
        for of in queries.chosen
    ]
    return np.array(inside, np.float64)


def measure(epsilon: str, seed: int, domain: Domain, exact: SparseRows, rows: Ints) -> dict[str, float]:
    """Make one release and return its figures."""
    begun = time.process_time()
    transcript = Cuboids().for_domain(domain).run(Gate(exact, Fraction(epsilon), noise=SeededNoise(seed)))
    seconds = time.process_time() - begun
    release = Release(domain, transcript, Provenance("cuboids", Fraction(epsilon), "benchmark", private=False))
    estimate = release.estimate()
    assert isinstance(estimate, CuboidsEstimate)
    (places,) = estimate.draw(len(rows), np.random.default_rng(seed), batch=len(rows))
    drawn = np.stack(places, axis=1)
    figures = {"seconds": seconds}
    for way in (1, 2, 3):
        sets = list(itertools.combinations(range(len(domain.shape)), way))
        few = [sets[k] for k in np.random.default_rng(0).permutation(len(sets))[:TRIPLES]]
        figures[f"{way}-way"] = float(np.mean([total_variation(rows, drawn, domain.shape, axes) for axes in few]))
    held: dict[str, list[bool]] = {"measured": [], "modelled": []}
    for attributes in (1, 2, 3):
        queries = random_questions(domain.shape, attributes, seed)
        answers, exact_counts = Answers.asked(domain, estimate, queries), truths(rows, queries)
        low, high = answers.interval(0.95)
        assert answers.modelled is not None
        for name, which in (("measured", ~answers.modelled), ("modelled", answers.modelled)):
            held[name] += ((low <= exact_counts) & (exact_counts <= high))[which].tolist()
    return figures | {f"held, {name}": float(np.mean(of)) for name, of in held.items() if of}


def wide_adult() -> tuple[Domain, Ints]:
    """Return the 14 attributes of the bundled table, and the cell of each row on every one."""
    whole = Domain.load(adult_domain(full=True))
    domain = whole.project(tuple(name for name in whole.names if name != "fnlwgt"))
    codes, alike = open_rows(adult_table()).count_alike(domain)
    return domain, np.repeat(np.stack(codes, axis=1).astype(np.int64), alike, axis=0)


def main() -> None:
    """Print the mean figures of some releases for each epsilon."""
    epsilons = sys.argv[1].split(",") if len(sys.argv) > 1 else ["0.1", "1", "3"]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    domain, rows = wide_adult()
    exact = SparseRows(domain.shape, list(rows.T), np.ones(len(rows), np.int64))
    for epsilon in epsilons:
        found = [measure(epsilon, seed, domain, exact, rows) for seed in range(runs)]
        told = {name: np.mean([one[name] for one in found]) for name in found[0]}
        print(
            f"epsilon {epsilon}, {runs} runs:",
            ", ".join(f"{name} {value:.4g}" for name, value in told.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
