"""Predicted errors of wide tables and fine grids, of which no cube could be made up: strategies are run on rows.

Enters: the domain, roughly how many rows, a strategy, an epsilon. Leaves: the expected absolute error of each kind of
question and of its parts (`errors_by_rows.py`), typical and over the range of the stand-ins, from a run on each.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np

from dpcube.core.domain import Domain
from dpcube.models import estimate
from dpcube.plan.axes import axes_of
from dpcube.plan.errors_by_rows import ERRORS, Found
from dpcube.plan.made_up_rows import MadeUpRows, rows_made_up
from dpcube.plan.predict import Prediction, prediction_of
from dpcube.strategies.simulated import simulated_gate
from dpcube.strategies.strategy import FittedStrategy, WorkloadKind

CHARACTERS = ("smooth", "clustered", "heavy-tailed", "even", "concentrated")
"""The stand-ins that are run, each for seconds; the first ROUGHLY of them where a rough plan will do."""
ROUGHLY = 3
MAX_SIMULATED_ROWS: dict[WorkloadKind, int] = {"wide": 2**16, "grid": 2**20}
"""Made-up rows. Of a larger table each stands for several: their noise is as small beside the counts, but the table is
as rough as one of so many rows."""


class RowPredictor:
    """Predicts errors of a release of cuboids or of a grid of about `rows` rows."""

    def __init__(self, domain: Domain, rows: int, *, max_rows: int = 1, seed: int = 0) -> None:
        self._domain, self._rows = domain, rows
        self._max_rows, self._seed = max_rows, seed
        self._made_up = cache(self._make_up)

    def predict(
        self, strategy: FittedStrategy, epsilon: Fraction, *, roughly: bool = False
    ) -> Mapping[str, Prediction]:
        """Return the predicted error of every kind of question, then of its parts; `roughly`, on fewer stand-ins."""
        each = epsilon / self._max_rows
        found = [self._errors_on(name, strategy, each) for name in (CHARACTERS[:ROUGHLY] if roughly else CHARACTERS)]
        basis = "simulated" if self._rows <= _most_rows(strategy) else "extrapolated"
        predictions = {}
        for kind, about in dict.fromkeys(asked for one in found for asked in one):
            errors, shares = np.array([one[kind, about] for one in found if (kind, about) in one]).T
            answer = self._rows * float(np.median(shares))
            made = prediction_of(strategy.name, kind, epsilon, errors, answer=answer, each=each, basis=basis)
            predictions[f"{kind} {about}".rstrip()] = replace(made, about=about)
        return predictions

    def _make_up(self, name: str, most: int) -> MadeUpRows:
        return rows_made_up(name, axes_of(self._domain), rows=self._rows, most=most, seed=self._seed)

    def _errors_on(self, name: str, strategy: FittedStrategy, epsilon: Fraction) -> Found:
        made_up = self._made_up(name, _most_rows(strategy))
        seed = (self._seed, CHARACTERS.index(name))  # the same for every epsilon: what differs then is due to it
        found = estimate(strategy.run(simulated_gate(made_up.exact(), epsilon, seed=seed)))
        return ERRORS[strategy.workload](found, made_up, self._domain.names)


def _most_rows(strategy: FittedStrategy) -> int:
    return MAX_SIMULATED_ROWS[strategy.workload]
