"""The same split released as a wide table: all attributes but the survey's weight, in one file of cuboids.

The bins are public conventions, chosen without a look at any row: ages by five years; hours as the US Bureau of Labor
Statistics tells them apart (15, 30, 35, 40, 41, 49, 60); money at 0, 1, and in each decade from a thousand on at 1, 2
and 5; all other values as UCI lists them. What is counted follows from `Cuboids(target=...)` alone.
"""

import tempfile
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from dpcube import __version__
from dpcube.core.domain import Attribute, Domain, Integer
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.sources import open_rows
from dpcube.datasets import adult_domain
from dpcube.measurements import Provenance
from dpcube.release import Release
from dpcube.research.classification.measure import score_of_release
from dpcube.research.classification.official import TARGET
from dpcube.research.classification.task import Score, Task, TrainAndTest
from dpcube.strategies import Cuboids
from dpcube.testing import SeededNoise

WEIGHT = "fnlwgt"
CONVENTIONAL_BINS: tuple[Attribute, ...] = (
    Integer("age", edges=(0, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 120), outside="clip"),
    Integer("hours-per-week", edges=(0, 15, 30, 35, 40, 41, 49, 60, 100), outside="clip"),
    Integer("capital-gain", edges=(0, 1, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000), outside="clip"),
    Integer("capital-loss", edges=(0, 1, 1000, 2000, 5000), outside="clip"),
)


def wide_domain() -> Domain:
    """Return the domain of all usable attributes.

    >>> wide_domain().shape
    (13, 9, 16, 16, 7, 15, 6, 5, 2, 8, 4, 8, 42, 2)
    """
    binned = {one.name: one for one in CONVENTIONAL_BINS}
    whole = Domain.load(adult_domain(full=True))
    return Domain([binned.get(one.name, one) for one in whole.attributes if one.name != WEIGHT])


def wide_release(train: pa.Table, epsilon: str, seed: int) -> Release:
    """Return a release of training rows as cuboids for the target, read from its file, with noise from a seed."""
    domain, amount = wide_domain(), Fraction(epsilon)
    strategy = Cuboids(target=TARGET).for_domain(domain)
    rows = SparseRows(domain.shape, *open_rows(train).count_alike(domain))
    transcript = strategy.run(Gate(rows, amount, noise=SeededNoise(seed)))
    made = Provenance(strategy.name, amount, f"dpcube {__version__}", strategy.parameters(), private=False)
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "adult.dpcube"
        Release(domain, transcript, made).save(path)
        return Release.open(path)


def wide_score(task: Task, rows: TrainAndTest, epsilon: str, seed: int) -> Score:
    """Return how well the default classifier of a wide release tells the classes of test rows."""
    return score_of_release(wide_release(rows[0], epsilon, seed), task, rows[1])
