"""Binary classification tasks: a public table, its target, its split into training and test rows, and public bounds.

Nothing of a task depends on a test row: bins and bounds are from the table's description, the split is fixed or follows
from a seed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from dpcube.core.arrays import Bools, Floats
from dpcube.core.domain import Domain

TrainAndTest = tuple[pa.Table, pa.Table]
"""Training rows, and test rows."""


@dataclass(frozen=True, slots=True)
class Task:
    """A table whose class `target` is `positive` or not; `domain` is the cube that is released of it.

    `bounds` are the columns of numbers with the public bounds that rivals are given; other columns are categories.
    """

    name: str
    target: str
    positive: str
    domain: Domain
    bounds: Mapping[str, tuple[float, float]]
    split: Callable[[int], TrainAndTest]

    def truth(self, rows: pa.Table) -> Bools:
        """Return which rows are of the positive class."""
        return np.array([value == self.positive for value in rows[self.target].to_pylist()], np.bool_)


@dataclass(frozen=True, slots=True)
class Score:
    """Accuracy, area under the ROC curve and logarithmic loss on test rows."""

    accuracy: float
    auc: float
    log_loss: float


SCORES = ("accuracy", "auc", "log_loss")


def score(chances: Floats, truth: Bools) -> Score:
    """Return the score of probabilities of the positive class.

    >>> score(np.array([0.1, 0.8, 0.6]), np.array([False, True, False])).auc
    1.0
    """
    positives = int(truth.sum())
    above = rankdata(chances)[truth].sum() - positives * (positives + 1) / 2
    right = np.where(truth, chances, 1 - chances)
    return Score(
        accuracy=float(((chances > 0.5) == truth).mean()),
        auc=float(above / (positives * (len(truth) - positives))),
        log_loss=float(-np.log(np.maximum(right, 1e-12)).mean()),
    )


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean of values and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
