"""Coverage of 95% confidence intervals on the demo's cube of the bundled table.

`python -m dpcube.research.trust` prints the percentages that reports quote (`release/trust.py`).
"""

import numpy as np

from dpcube import datasets
from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.models.metrics import exact_answers
from dpcube.plan.queries import QueryKind, workload_of
from dpcube.release.trust import INTERVAL_KINDS
from dpcube.research.tables import experiment
from dpcube.strategies import BY_NAME
from dpcube.testing import SeededNoise

RUNS, EPSILON = 10, "1"


def coverage(strategy: str, kind: QueryKind, *, runs: int = RUNS, epsilon: str = EPSILON) -> float:
    """Return the percentage of 95% intervals, rounded outwards to whole rows, that hold the truth."""
    exact = count(datasets.adult_table(), Domain.load(datasets.adult_domain()))
    workload = workload_of(kind, exact.shape, seed=5)
    truth, held = exact_answers(exact, workload), []
    for seed in range(runs):
        release = experiment(exact, epsilon=epsilon, strategy=strategy, noise=SeededNoise(seed))
        low, high = release.answer(workload).interval(0.95)
        held.append(np.mean((np.floor(low) <= truth) & (truth <= np.ceil(high))))
    return 100 * float(np.mean(held))


def default_estimate(strategy: str) -> str:
    """Return the estimate behind the answers of a release of the demo's cube."""
    exact = count(datasets.adult_table(), Domain.load(datasets.adult_domain()))
    return experiment(exact, epsilon=EPSILON, strategy=strategy, noise=SeededNoise(0)).default_estimate


def print_trust() -> None:
    """Print the table."""
    kinds: tuple[QueryKind, ...] = ("ranges", "marginals", "cells")
    assert set(kinds) == set(INTERVAL_KINDS)
    for strategy in BY_NAME:
        print(
            f"{(strategy, default_estimate(strategy))}: { ({kind: round(coverage(strategy, kind)) for kind in kinds}) }"
        )


if __name__ == "__main__":
    print_trust()
