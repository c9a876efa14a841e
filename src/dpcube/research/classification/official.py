"""The official split of the Adult table, and the cube that is released of its training rows.

The cube follows from a rule that looks at no row, and was committed before the test rows were first scored:

* bins: ages by decades; schooling by degrees (none, high school, some college, associate, bachelor, above); hours at
  20, 35, 41 and 51 (part time, full time, more, much more); money at 0 and the powers of ten; other values as UCI lists
  them;
* left out are `fnlwgt`, a weight of the survey, and `education`, which says what `education-num` does;
* the others are taken in the order of how many cells they have, the fewest first, as long as the cube has at most
  2^23 cells, the most to which noisy tables are fitted.
"""

import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.domain import Attribute, Domain, Integer
from dpcube.datasets import adult_domain, adult_table
from dpcube.models.marginals import MAX_FITTED_CELLS
from dpcube.research.classification.task import Task

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
