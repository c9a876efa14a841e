"""Errors predicted by plans beside measured errors, on cubes of the bundled table.

`python -m dpcube.research.planning` prints the table of docs/research/planning.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcube import datasets
from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.models.metrics import absolute_errors
from dpcube.plan import Prediction, plan
from dpcube.plan.predict import rounded_rows
from dpcube.plan.queries import QUERY_KINDS, workload_of
from dpcube.research.tables import release_array
from dpcube.strategies import BY_NAME, strategy_of

PLANNED_CUBES = (
    ("age", "hours-per-week"),
    ("capital-gain", "capital-loss"),
    ("education", "occupation"),
    ("age", "education-num", "sex"),
    ("age", "hours-per-week", "education-num"),
    ("occupation", "education", "native-country"),
    ("age", "education-num", "race", "sex"),
    ("age", "marital-status", "occupation", "income"),
)
PLANNED_EPSILONS = ("0.05", "0.1", "1")
RUNS = 5
PLANNED_ROWS = 50_000
SHOWN = ("ranges", "cells", "marginals")  # a total is one number, whose error differs from run to run
FACTOR = 2
"""The largest ratio of a measured error to the predicted range, or of the range to it but for near-constant tables."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A prediction, and the mean absolute error that was measured."""

    prediction: Prediction
    measured: float

    def __str__(self) -> str:
        p = self.prediction
        spread = "" if p.basis == "exact" else f" ({rounded_rows(p.low)} to {rounded_rows(p.high)})"
        return f"{rounded_rows(p.typical)}{spread}: **{rounded_rows(self.measured)}**"

    @property
    def outside(self) -> float:
        """How many times the measured error is above the predicted range, or below it; 1 inside."""
        return max(self.measured / self.prediction.high, self.prediction.low / self.measured, 1.0)

    @property
    def off(self) -> float:
        """How many times the measured error is the typical prediction."""
        return self.measured / self.prediction.typical


def compare_plan(names: tuple[str, ...], epsilon: str, *, runs: int = RUNS) -> Iterator[Compared]:
    """Predict, release and measure one cube of the bundled table with every strategy."""
    domain = Domain.load(datasets.adult_domain(full=True)).project(names)
    exact_counts = count(datasets.adult_table(), domain)
    workloads = {kind: workload_of(kind, domain.shape, seed=99) for kind in QUERY_KINDS}
    predictions = plan(domain, rows=PLANNED_ROWS, epsilon=epsilon).predictions
    for strategy in BY_NAME:
        fitted = strategy_of(strategy, domain)
        released = [release_array(exact_counts, epsilon=epsilon, strategy=fitted, seed=seed) for seed in range(runs)]
        for prediction in predictions:
            if prediction.strategy == strategy:
                asked = workloads[prediction.queries]
                errors = [absolute_errors(exact_counts, cells, asked).mean() for cells in released]
                yield Compared(prediction, float(np.mean(errors)))


def planning_table() -> list[str]:
    """Return the comparison of all cubes, epsilons and strategies, and a summary, as text."""
    lines = [
        f"| cube | epsilon | strategy | {' | '.join(SHOWN)} |",
        f"|---|---|---|{'---|' * len(SHOWN)}",
    ]
    every: list[Compared] = []
    for names in PLANNED_CUBES:
        for epsilon in PLANNED_EPSILONS:
            compared = list(compare_plan(names, epsilon))
            every += compared
            for strategy in BY_NAME:
                cells = " | ".join(map(str, _of(strategy, compared)))
                lines.append(f"| {' x '.join(names)} | {epsilon} | {strategy} | {cells} |")
    return [*lines, "", *(_summary(strategy, _of(strategy, every)) for strategy in BY_NAME)]


def _of(strategy: str, compared: list[Compared]) -> list[Compared]:
    return [c for c in compared if c.prediction.strategy == strategy and c.prediction.queries in SHOWN]


def _summary(strategy: str, chosen: list[Compared]) -> str:
    off = np.array([max(c.off, 1 / c.off) for c in chosen])
    above = np.array([c.measured / c.prediction.high for c in chosen])
    below = np.array([c.prediction.low / c.measured for c in chosen])
    inside = np.mean([c.outside == 1 for c in chosen])
    return (
        f"{strategy}: {len(chosen)} predictions; off by a factor of {np.median(off):.2f} (median), "
        f"{np.quantile(off, 0.9):.2f} (9 in 10); {inside:.0%} inside the range; at worst {above.max():.2f} times its "
        f"high end, and {below.max():.2f} times less than its low end"
    )


if __name__ == "__main__":
    print("\n".join(planning_table()))
