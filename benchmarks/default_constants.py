"""What halving or doubling each constant of the default does: `python -m benchmarks.default_constants [RUNS]`.

Tables of the generated shapes (`dpcube compare --shapes`) and cubes of the bundled table are released with the constant
as it is, halved and doubled, with the same noise. Printed are the geometric means over tables and epsilons of the mean
absolute error of ranges and of single cells, to those of the constant as it is. Constants inside compiled loops cannot
be changed while a program runs; those are not here.
"""

import sys
from fractions import Fraction
from types import ModuleType

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.datasets import adult_domain, adult_table
from dpcube.models.marginals import balanced, shrinkage
from dpcube.models.posterior import inference
from dpcube.queries.random_ranges import random_ranges
from dpcube.research.arrays import experiment
from dpcube.research.seeds import seed_of
from dpcube.research.shapes import shape_shares
from dpcube.strategies import adaptive, first_look, pseudo, simulation
from dpcube.testing import SeededNoise

CONSTANTS: tuple[tuple[ModuleType, str], ...] = (
    (adaptive, "PLAIN"),
    (first_look, "FIRST_TOTAL"),
    (first_look, "MOST_LOOK"),
    (first_look, "STAND_OUT"),
    (first_look, "SPARSE"),
    (pseudo, "CLUMPING"),
    (simulation, "ROUGH"),
    (simulation, "SMOOTH"),
    (simulation, "WORSE_THAN_CELLS"),
    (simulation, "TOLERATED"),
    (simulation, "SURER"),
    (inference, "ORDINARY"),
    (inference, "RARE"),
    (inference, "RARELY_APART"),
    (balanced, "SURPRISE"),
    (balanced, "LEAST_MOVE"),
    (shrinkage, "PRIOR_CELLS"),
)
SHAPES = (
    ("sparse", (256,)),
    ("smooth", (256,)),
    ("clumped", (64, 64)),
    ("spiky", (64, 64)),
    ("striped", (64, 64)),
    ("uniform", (16, 15)),
    ("smooth", (12, 10, 8)),
    ("clumped", (6, 5, 4, 4, 3)),
)
ROWS, RANGES, TRIED = 100_000, 500, ("0.1", "1")
CUBES = (("age", "hours-per-week"), ("marital-status", "sex", "income"), ("age", "marital-status", "sex", "income"))


def constant_tables() -> list[Ints]:
    """Return the tables that are released."""
    found = []
    for number, (law, sides) in enumerate(SHAPES):
        shares = shape_shares(law, sides, seed=number)
        found.append(np.random.default_rng(number).multinomial(ROWS, shares.reshape(-1)).reshape(sides))
    whole = Domain.load(adult_domain())
    return found + [np.asarray(count(adult_table(), whole.project(names))) for names in CUBES]


def wrong(table: Ints, epsilon: str, seed: int) -> tuple[float, float]:
    """Return the mean absolute errors of ranges and of single cells of one release."""
    found = experiment(table, epsilon=Fraction(epsilon), noise=SeededNoise(seed)).cells() - table
    asked = random_ranges(table.shape, RANGES, seed=1)
    within = [found[tuple(map(slice, low, high))].sum() for low, high in zip(asked.lower, asked.upper, strict=True)]
    return float(np.mean(np.abs(within))), float(np.mean(np.abs(found)))


def measured_constants(tables: list[Ints], runs: int) -> Floats:
    """Return the errors of all tables and epsilons, means over runs: shape (tables, epsilons, 2)."""
    errors = [
        [[wrong(table, epsilon, seed_of(epsilon, number, run)) for run in range(runs)] for epsilon in TRIED]
        for number, table in enumerate(tables)
    ]
    return np.asarray(np.mean(np.array(errors), axis=2))


def main() -> None:
    """Print a row for each constant, as it is known."""
    tables, runs = constant_tables(), int(sys.argv[1]) if len(sys.argv) > 1 else 4
    usual = measured_constants(tables, runs)
    print("| constant | value | halved: ranges, cells | doubled: ranges, cells | the table that loses most |")
    print("|---|---|---|---|---|", flush=True)
    for module, name in CONSTANTS:
        value, told, worst = getattr(module, name), [], 0.0
        for factor in (Fraction(1, 2), 2):
            setattr(module, name, type(value)(value * factor))
            ratio = (measured_constants(tables, runs) + 1e-9) / (usual + 1e-9)
            told.append(" ".join(f"{number:.3f}" for number in np.exp(np.log(ratio).mean(axis=(0, 1)))))
            worst = max(worst, float(ratio.max()))
            setattr(module, name, value)
        print(f"| `{name}` | {value} | {told[0]} | {told[1]} | {worst:.2f} |", flush=True)


if __name__ == "__main__":
    main()
