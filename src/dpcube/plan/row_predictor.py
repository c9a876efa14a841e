"""Predicted errors of releases of wide tables and of fine grids, by simulation on rows.

A strategy is run once on the rows of each simulated table. The prediction is the expected absolute error of each kind
of question and of its parts (`row_errors.py`): the median over the tables, and their range.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np

from dpcube.core.domain import Domain
from dpcube.models import estimate
from dpcube.plan.axes import axes_of
from dpcube.plan.predict import Prediction, prediction_of
from dpcube.plan.row_errors import ERRORS, Found
from dpcube.plan.simulated_rows import SimulatedRows, simulated_rows
from dpcube.strategies.simulated import simulated_gate
from dpcube.strategies.strategy import FittedStrategy, WorkloadKind

SIMULATED = ("smooth", "clustered", "heavy-tailed", "even", "concentrated")
"""The distributions that are simulated, each for seconds; the first ROUGHLY of them where a rough plan will do."""
ROUGHLY = 3
MAX_SIMULATED_ROWS: dict[WorkloadKind, int] = {"wide": 2**16, "grid": 2**20}
"""Simulated rows, at most. For a larger table they are repeated: the noise is as small relative to the counts, but the
table is as rough as one of so many rows."""


class RowPredictor:
    """Predictor of the errors of a release of cuboids or of a grid of about `rows` rows."""

    def __init__(self, domain: Domain, rows: int, *, max_rows: int = 1, seed: int = 0) -> None:
        self._domain, self._rows = domain, rows
        self._max_rows, self._seed = max_rows, seed
        self._simulated = cache(self._simulate)

    def predict(
        self, strategy: FittedStrategy, epsilon: Fraction, *, roughly: bool = False
    ) -> Mapping[str, Prediction]:
        """Return the predicted error of every kind of question, then of its parts; `roughly` on fewer tables."""
        each = epsilon / self._max_rows
        found = [self._errors_on(name, strategy, each) for name in (SIMULATED[:ROUGHLY] if roughly else SIMULATED)]
        basis = "simulated" if self._rows <= _most_rows(strategy) else "extrapolated"
        predictions = {}
        for kind, about in dict.fromkeys(asked for one in found for asked in one):
            errors, shares = np.array([one[kind, about] for one in found if (kind, about) in one]).T
            answer = self._rows * float(np.median(shares))
            made = prediction_of(strategy.name, kind, epsilon, errors, answer=answer, each=each, basis=basis)
            predictions[f"{kind} {about}".rstrip()] = replace(made, about=about)
        return predictions

    def _simulate(self, name: str, most: int) -> SimulatedRows:
        return simulated_rows(name, axes_of(self._domain), rows=self._rows, most=most, seed=self._seed)

    def _errors_on(self, name: str, strategy: FittedStrategy, epsilon: Fraction) -> Found:
        table = self._simulated(name, _most_rows(strategy))
        seed = (self._seed, SIMULATED.index(name))  # the same for every epsilon: what differs then is due to it
        found = estimate(strategy.run(simulated_gate(table.exact(), epsilon, seed=seed)))
        return ERRORS[strategy.workload](found, table, self._domain.names)


def _most_rows(strategy: FittedStrategy) -> int:
    return MAX_SIMULATED_ROWS[strategy.workload]
