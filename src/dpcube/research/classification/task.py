"""Binary classification tasks: a public table, its target, its split into training and test rows, and public bounds.

Nothing of a task depends on a test row: bins and bounds are from the table's description, the split is fixed or follows
from a seed.

*The official split of the Adult table* has a cube of its training rows that is released. The cube follows from a rule
that looks at no row, and was committed before the test rows were first scored:

* bins: ages by decades; schooling by degrees (none, high school, some college, associate, bachelor, above); hours at
  20, 35, 41 and 51 (part time, full time, more, much more); money at 0 and the powers of ten; other values as UCI lists
  them;
* left out are `fnlwgt`, a weight of the survey, and `education`, which says what `education-num` does;
* the others are taken in the order of how many cells they have, the fewest first, as long as the cube has at most
  2^23 cells, the most to which noisy tables are fitted.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import rankdata

from dpcube.core.arrays import Bools, Floats
from dpcube.core.domain import Attribute, Domain, Integer
from dpcube.datasets import adult_domain, adult_table
from dpcube.models.marginals import MAX_FITTED_CELLS

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


TARGET, POSITIVE = "income", ">50K"
TRAINING_ROWS = 32_561
LEFT_OUT = ("fnlwgt", "education")
BINS: tuple[Attribute, ...] = (
    Integer("age", edges=(0, 20, 30, 40, 50, 60, 70, 120), outside="clip"),
    Integer("education-num", edges=(1, 9, 10, 11, 13, 14, 17), outside="clip"),
    Integer("hours-per-week", edges=(0, 20, 35, 41, 51, 100), outside="clip"),
    Integer("capital-gain", edges=(0, 1, 1000, 10_000, 100_000), outside="clip"),
    Integer("capital-loss", edges=(0, 1, 1000, 10_000), outside="clip"),
)
BOUNDS = {
    **{"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 99_999)},
    **{"capital-loss": (0, 4_999), "hours-per-week": (1, 99)},
}
"""Public bounds of the numbers, for rivals."""


def official_split() -> tuple[pa.Table, pa.Table]:
    """Return UCI's training rows and its test rows."""
    table = pq.read_table(adult_table())
    return table.slice(0, TRAINING_ROWS), table.slice(TRAINING_ROWS)


def cube_by_rule() -> Domain:
    """Return the domain that the rule leads to, in the order of the table's columns.

    >>> cube_by_rule().shape
    (7, 6, 7, 6, 5, 2, 4, 3, 5, 2)
    """
    whole, binned = Domain.load(adult_domain(full=True)), {one.name: one for one in BINS}
    offered = [binned.get(one.name, one) for one in whole.attributes if one.name not in LEFT_OUT]
    taken, cells = {TARGET}, whole[TARGET].size
    for one in sorted(offered, key=lambda one: one.size):
        if one.name not in taken and cells * one.size <= MAX_FITTED_CELLS:
            taken.add(one.name)
            cells *= one.size
    return Domain([one for one in offered if one.name in taken])


def official_task() -> Task:
    """Return the task of the official split, the same for every seed."""
    rows = official_split()
    return Task("adult", TARGET, POSITIVE, cube_by_rule(), BOUNDS, lambda _: rows)
