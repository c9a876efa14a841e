"""The table of the paper's experiments: the first 10^4 rows of Adult on two attributes, on three grids (spec 5).

The paper takes the attributes Age and Income. Adult has no numeric income (E32), so hours-per-week stands in for it.
The paper does not say how many cells there are, which matters more than anything else, so everything is made for three
grids.
"""

from functools import cache

import pyarrow.parquet as pq

from dpcube import datasets
from dpcube.core.arrays import Ints
from dpcube.core.domain import Domain, Integer
from dpcube.curator.publishing import count

ROWS = 10_000
WIDTHS = {"coarse": (10, 10), "middle": (4, 5), "fine": (1, 1)}
"""Years of age and hours per week in a bin."""


def domain_of(grid: str) -> Domain:
    """Return the two attributes on one of the three grids."""
    years, hours = WIDTHS[grid]
    age = Integer(name="age", min=17, max=90, width=years)
    return Domain((age, Integer(name="hours-per-week", min=1, max=99, width=hours)))


@cache
def exact_counts(grid: str) -> Ints:
    """Return the counts of the first rows of the bundled table, which is public."""
    return count(pq.read_table(datasets.adult_table()).slice(0, ROWS), domain_of(grid))


def size_words(grid: str) -> str:
    """Return how many cells a grid has along its axes."""
    return "{} x {} cells".format(*domain_of(grid).shape)


def table_words(grid: str) -> str:
    """Return which table it is, on which grid."""
    return f"age and hours-per-week of the first 10,000 rows of Adult, {size_words(grid)}"
