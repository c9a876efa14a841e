"""The exact audit of what is learnt of a column of numbers or dates: a row more costs the column's epsilon, no more.

Values of text have an audit of their own (`test_sparse_histogram.py`), and so has the selection of how a column is read
(`test_selection_audit.py`, "readings").
"""

from collections.abc import Callable
from datetime import date
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from auditor import INFINITE, Said, draws, loss
from checks import ALARM, Values
from scipy import stats

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise
from dpcube.core.sources import open_rows
from dpcube.core.text_code import TextCode
from dpcube.curator import bounds, learnt_columns
from dpcube.curator.learnt_columns import counted_column, learn_column
from dpcube.testing import SeededNoise

SHARE = Fraction(2, 3)
NUMBERS = [3.0, 3.5, -70.0, 8.0, None, 1e300, float("inf")]
DATES = [date(2020, 1, 31), date(2020, 2, 1), date(1300, 1, 1), None]


class Heard(Gate):
    """A gate that keeps what it said."""

    said: ClassVar[Said] = []

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        answered = super().marginal(axes, units)
        Heard.said.append(answered.reshape(-1).copy())
        return answered


def learning(values: Any, noise: Noise) -> Said:
    """Everything that is measured of a column whose type is declared, so that it is read in one way."""
    Heard.said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learnt_columns, "Gate", Heard)
        learn_column(_counted(tuple(values)), SHARE, TextCode(), noise=noise)
    return list(Heard.said)


@cache
def _counted(values: tuple[Any, ...]) -> learnt_columns.PrivateColumn:
    type_ = pa.float64() if isinstance(values[0], float) else pa.date32()
    return counted_column(open_rows(pa.table({"x": pa.array(values, type_)})).as_declared(), "x", SHARE)


def losses(run: Callable[[Any, Noise], Said], values: Any) -> list[Fraction]:
    """Return the losses of tables with one row more, both ways, on noise with which they are largest."""
    found = []
    for more in (values[0], values[2], None):
        one: Any = values
        other: Any = [*values, more]
        found += [loss(run, a, b, draw) for a, b in ((one, other), (other, one)) for draw in draws()[:3]]
    return found


@pytest.mark.parametrize("values", [NUMBERS, DATES], ids=["numbers", "dates"])
def test_a_row_costs_the_epsilon_of_its_column_and_no_more(values: list[Any]) -> None:
    assert max(losses(learning, values)) == SHARE


def less_noise(values: Any, noise: Noise) -> Said:
    """The noise of a column has nine tenths of its scale."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learnt_columns, "content_epsilon", lambda epsilon, _: epsilon * 10 / 9)
        return learning(values, noise)


def fine_cells_unpaid(values: Any, noise: Noise) -> Said:
    """The fine counts have the noise of the whole epsilon, as if the coarse ones cost nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learnt_columns, "COARSE_UNITS", BUDGET_UNITS // 2)
        patch.setattr(learnt_columns, "DATE_UNITS", BUDGET_UNITS * 2 // 3)
        patch.setattr("dpcube.core.budget.CellBudget.charge_all", lambda *_: None)
        return learning(values, noise)


def rows_said(values: Any, noise: Noise) -> Said:
    """The number of rows is a part of what is said, without noise."""
    return [*learning(values, noise), np.array([len(values)])]


def type_said(values: Any, noise: Noise) -> Said:
    """The unpaid read of whether any value is missing, as an inferred type may show it."""
    return [*learning(values, noise), np.array([int(values.count(None) > 1)])]


@pytest.mark.parametrize("values", [NUMBERS, DATES], ids=["numbers", "dates"])
@pytest.mark.parametrize("twin", [less_noise, fine_cells_unpaid, rows_said, type_said])
def test_sabotage_costs_more(twin: Callable[[Any, Noise], Said], values: list[Any]) -> None:
    worst = max(losses(twin, values))
    assert worst > SHARE
    if twin in (rows_said, type_said):
        assert worst == INFINITE


# Bounds far too wide, by a cell that noise alone took to its threshold.

RUNS = 300


def far_too_wide(false_cells: float) -> float:
    """Return the p-value of how often bounds are a hundred times too wide, if m is false_cells."""
    values = tuple(float(x) for x in np.random.default_rng(2).normal(8, 9, 4000))
    column, wide = _counted(values), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "FALSE_CELLS", false_cells)
        for seed in range(RUNS):
            made = learn_column(column, SHARE, TextCode(), noise=SeededNoise(seed)).attribute
            wide += made is not None and bool(np.ptp(made.bin_edges()) > 100 * np.ptp(values))
    # A run has at most m / 2 false cells in expectation.
    return float(stats.binom.sf(wide - 1, RUNS, 0.01 / 2))


def test_bounds_are_seldom_far_too_wide() -> None:
    assert far_too_wide(bounds.FALSE_CELLS) > ALARM


def test_lower_thresholds_are_noticed() -> None:
    assert far_too_wide(40 * bounds.FALSE_CELLS) < ALARM
