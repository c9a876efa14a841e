"""How many tables a wide release counts, and how near it comes.

`python -m benchmarks.wide_rounds [RUNS] [EPSILON,...]`: tables of 10 to 30 attributes of few values are made up by two
laws: rows of a few classes, whose attributes depend on the class alone, so that all pairs depend a little; and
attributes that copy an earlier one half of the time, so that few pairs tell all. Printed are how many pairs are counted
and the mean total variation of all pairs and triples, of synthetic rows as many as the table has.
"""

import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.wide_rivals import cuboids, distances
from dpcube import Domain, Integer
from dpcube.core.arrays import Ints

Sides = tuple[int, ...]
MIXED: Sides = (2, 3, 4, 5, 8) * 4


def of_classes(sides: Sides, rows: int, classes: int, seed: int, evenness: float) -> Ints:
    """Return rows of a few classes: an attribute follows a law of its own in each."""
    random = np.random.default_rng(seed)
    of_row = random.choice(classes, rows, p=random.dirichlet(np.full(classes, 2.0)))
    columns = []
    for side in sides:
        below = random.dirichlet(np.full(side, evenness), classes).cumsum(axis=1)
        columns.append((random.random(rows)[:, None] > below[of_row, :-1]).sum(axis=1))
    return np.stack(columns, axis=1)


def of_copies(sides: Sides, rows: int, seed: int) -> Ints:
    """Return rows of which an attribute says half of the time what an earlier one says, and anything otherwise."""
    random = np.random.default_rng(seed)
    columns = [random.integers(0, sides[0], rows)]
    for place, side in enumerate(sides[1:], 1):
        earlier = int(random.integers(0, place))
        said = random.integers(0, side, sides[earlier])[columns[earlier]]
        columns.append(np.where(random.random(rows) < 0.5, said, random.integers(0, side, rows)))
    return np.stack(columns, axis=1)


def tables() -> Iterator[tuple[str, Sides, Ints]]:
    """Yield the tables, each with its name and sides."""
    for name, sides, rows, classes, seed, evenness in (
        ("16 of two values", (2,) * 16, 50_000, 6, 1, 1.0),
        ("12 of four values", (4,) * 12, 50_000, 6, 2, 0.7),
        ("20 of two to eight", MIXED, 100_000, 8, 3, 0.7),
        ("12 of two values, few rows", (2,) * 12, 8_000, 4, 11, 1.0),
        ("10 of two to twelve", (3, 7, 2, 12, 5, 4, 2, 9, 6, 3), 20_000, 10, 12, 0.5),
        ("15 of three values, independent", (3,) * 15, 20_000, 1, 13, 9.0),
    ):
        yield f"classes: {name}", sides, of_classes(sides, rows, classes, seed, evenness)
    for name, sides, rows, seed in (
        ("30 of two values", (2,) * 30, 30_000, 4),
        ("15 of two to twenty", (2, 4, 6, 10, 20) * 3, 40_000, 5),
        ("18 of six values", (6,) * 18, 60_000, 14),
    ):
        yield f"copies: {name}", sides, of_copies(sides, rows, seed)


def main() -> None:
    """Print a line for each table and epsilon."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for epsilon in (sys.argv[2] if len(sys.argv) > 2 else "0.1,1,3").split(","):
        for name, sides, rows in tables():
            domain = Domain(*(Integer(f"a{j}", 0, side - 1) for j, side in enumerate(sides)))
            made = [cuboids(rows, domain, float(epsilon), seed) for seed in range(runs)]
            found = [distances(rows, drawn, sides) for drawn, _ in made]
            pairs, triples = (np.mean([one[way] for one in found]) for way in ("tv2", "tv3"))
            print(f"| {name} | {epsilon} | {made[0][1]} | {pairs:.4f} | {triples:.4f} |", flush=True)


if __name__ == "__main__":
    main()
