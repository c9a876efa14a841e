"""The exact audit of whole releases of units of several rows, at each gate, and twins that forget how many rows.

The auditor is that of `auditor.py`. What is audited is `publish` from the table to the release; the strategies are
the plainest that each gate has: every cell, at the whole budget. A neighbour has the rows of one unit more or fewer.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from auditor import EPSILON, Draw, Said, loss
from checks import Values

from dpcube import Domain, Integer
from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise
from dpcube.curator import publish, publishing
from dpcube.measurements import Marginal, Transcript
from dpcube.strategies import Cuboids, FineGrid

SHAPE = (2, 2)
DOMAIN = Domain(Integer("x", 0, 1), Integer("y", 0, 1))
EXACT = np.array([[5, 0], [1, 3]])
ROWS = 3
STRATEGIES = ("cells", "cuboids", "fine_grid")


def whole(counter: Any, counts: Values) -> Transcript:
    return Transcript(SHAPE, counter.epsilon_per_unit, (Marginal.from_cells(counts, BUDGET_UNITS),))


def one_table(_: Cuboids, counter: NoisyCounter) -> Transcript:
    """A wide table whose one marginal is the table."""
    return whole(counter, counter.marginal((0, 1), BUDGET_UNITS))


def every_cell(_: FineGrid, counter: NoisyCounter) -> Transcript:
    """A grid whose boxes are its cells."""
    lower = np.indices(SHAPE).reshape(2, -1).T
    counts = counter.boxes(Boxes(SHAPE, lower, lower + 1), np.full(len(lower), BUDGET_UNITS))
    return whole(counter, counts.reshape(SHAPE))


def table_of(exact: Values) -> pa.Table:
    """Rows with these counts, each of a person of its own: whose they are decides nothing below the limit."""
    x, y = np.repeat(np.indices(SHAPE).reshape(2, -1), exact.ravel(), axis=1)
    return pa.table({"x": x, "y": y, "person": np.arange(len(x))})


def released(strategy: str, exact: Values, noise: Noise) -> Said:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpcube.core.gate.ExactNoise", lambda: noise)
        patch.setattr(Cuboids, "run", one_table)
        patch.setattr(FineGrid, "run", every_cell)
        how: dict[str, Any] = {"strategy": strategy, "unit": "person", "max_rows": ROWS, "ledger": None}
        release = publish(table_of(exact), DOMAIN, epsilon=EPSILON, **how)
    assert release.transcript.cells is not None
    return [release.transcript.cells.counts.reshape(-1)]


def neighbours() -> Iterator[Values]:
    """Tables with one to three rows of a person more, in one cell or in two, or as many less."""
    for change in ([1, 0, 0, 0], [0, 0, 0, 3], [2, 0, 0, 1], [0, 3, 0, 0], [-3, 0, 0, 0], [-1, 0, 0, -2]):
        yield EXACT + np.array(change).reshape(SHAPE)


def draws() -> list[Draw]:
    return [lambda _, size: np.full(size, 9), lambda _, size: np.full(size, -9), lambda _, size: np.arange(size) - 1]


def worst(strategy: str) -> Fraction:
    def run(exact: Values, noise: Noise) -> Said:
        return released(strategy, exact, noise)

    return max(abs(loss(run, EXACT, other, draw)) for draw in draws() for other in neighbours())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_release_loses_epsilon_for_all_rows_of_a_unit(strategy: str) -> None:
    assert worst(strategy) == EPSILON


@pytest.mark.parametrize(("strategy", "gate"), [("cells", Gate), ("cuboids", Gate), ("fine_grid", Gate)])
def test_sabotage_a_gate_that_is_not_told_of_the_rows_loses_more(
    strategy: str, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, gate.__name__, lambda exact, epsilon, **_: gate(exact, epsilon))
    assert worst(strategy) == ROWS * EPSILON
