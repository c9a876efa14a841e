"""Plans of wide tables beside what releases err by: `python -m benchmarks.wide_plans adult|network [EPSILON] [RUNS]`.

The table is that of the bundled 14 attributes, or one drawn from a random Bayesian network of 12. A plan is made for
"about 50,000 rows", and releases with seeded noise are measured by the same questions. Printed are, of each kind of
question and of its parts, the mean of the releases with its standard error, the prediction with its range, the ratio.
"""

import sys
import time
from fractions import Fraction

import numpy as np

from benchmarks.wide_tables import wide_adult
from dpcube import Domain, Integer, plan
from dpcube.core.arrays import Ints
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.models import estimate
from dpcube.models.cuboids import CuboidsEstimate
from dpcube.plan.errors_by_rows import errors_of_cuboids
from dpcube.plan.made_up_rows import MadeUpRows
from dpcube.strategies import Cuboids
from dpcube.testing import SeededNoise

PLANNED_ROWS = 50_000


def network(rows: int = PLANNED_ROWS, seed: int = 11) -> tuple[Domain, Ints]:
    """Return rows of a random Bayesian network of 12 attributes: each follows up to two earlier ones."""
    generator = np.random.default_rng(seed)
    sides = generator.choice([2, 4, 7, 12, 25, 60], 12).tolist()
    cells = np.empty((rows, len(sides)), np.int64)
    for j, side in enumerate(sides):
        parents = generator.choice(j, min(j, 2), replace=False).tolist()
        state = np.zeros(rows, np.int64)
        for parent in parents:
            state = state * sides[parent] + cells[:, parent]
        tables = generator.dirichlet(np.full(side, 0.5), int(state.max()) + 1).cumsum(axis=1)
        drawn = (tables[state] < generator.random((rows, 1))).sum(axis=1)
        cells[:, j] = np.minimum(drawn, side - 1)
    return Domain(*(Integer(f"a{j}", 0, side - 1) for j, side in enumerate(sides))), cells


def main() -> None:
    """Print predictions beside measured errors."""
    domain, cells = wide_adult() if sys.argv[1] == "adult" else network()
    epsilon = sys.argv[2] if len(sys.argv) > 2 else "0.1"
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    table = MadeUpRows(domain.shape, cells, np.ones(len(cells), np.int64))
    found: dict[tuple[str, str], list[float]] = {}
    begun = time.process_time()
    for seed in range(runs):
        gate = Gate(SparseRows(domain.shape, table.columns, table.alike), Fraction(epsilon), noise=SeededNoise(seed))
        made = estimate(Cuboids().for_domain(domain).run(gate))
        assert isinstance(made, CuboidsEstimate)
        for asked, (error, _) in errors_of_cuboids(made, table, domain.names).items():
            found.setdefault(asked, []).append(error)
    print(f"{runs} releases: {time.process_time() - begun:.1f} CPU-seconds", flush=True)
    for part, errors in found.items():
        spread = np.std(errors, ddof=1) / np.sqrt(runs) if runs > 1 else 0.0
        print(f"measured {' '.join(part)}: {np.mean(errors):.3g} +- {spread:.2g}", flush=True)
    begun = time.process_time()
    planned = plan.plan(domain, rows=PLANNED_ROWS, epsilon=epsilon, strategies=Cuboids())
    print(f"the plan: {time.process_time() - begun:.1f} CPU-seconds", flush=True)
    ratios, inside = [], []
    for one in planned.predictions:
        if (one.queries, one.about) in found:
            mean = float(np.mean(found[one.queries, one.about]))
            ratios.append(one.typical / mean)
            inside.append(one.low <= mean <= one.high)
            told = f"{one.typical:.3g} ({one.low:.3g} to {one.high:.3g}), measured {mean:.3g}"
            print(f"{one.queries} {one.about}: {told}, ratio {ratios[-1]:.2f}", flush=True)
    print(
        f"inside: {np.mean(inside):.2f}; ratios {min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
