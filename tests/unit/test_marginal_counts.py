"""The gate's tables over some axes: what they hold, what they refuse before a charge, and their place in a file."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcube.arrays import Ints
from dpcube.counter import BUDGET_UNITS, NoisyCounter
from dpcube.curator.gate import Gate
from dpcube.errors import BudgetError, InputError
from dpcube.plan.counter import SimulatedCounter
from dpcube.testing import SilentNoise

# Not square, no two counts alike, and no two tables over it alike.
CUBE: Ints = np.arange(24).reshape(2, 3, 4) ** 3
ALL_AXES = [axes for many in (1, 2, 3) for axes in itertools.combinations(range(3), many)]


def silent(exact: Ints) -> NoisyCounter:
    return Gate(exact, Fraction(1), noise=SilentNoise())


def simulated(exact: Ints) -> NoisyCounter:
    """With so little noise that it is none but once in exp(99) times."""
    return SimulatedCounter(exact, Fraction(100), seed=1)


COUNTERS = pytest.mark.parametrize("make", [silent, simulated])


@COUNTERS
@pytest.mark.parametrize("axes", ALL_AXES, ids=str)
def test_a_table_holds_the_count_of_all_cells_with_its_indices(make: Any, axes: tuple[int, ...]) -> None:
    table = make(CUBE).count_marginal(axes, BUDGET_UNITS)
    expected = np.zeros([CUBE.shape[axis] for axis in axes], np.int64)
    for cell in np.ndindex(CUBE.shape):
        expected[tuple(cell[axis] for axis in axes)] += CUBE[cell]
    assert (table.dtype, table.shape) == (np.int64, expected.shape)
    assert table.flags.c_contiguous
    np.testing.assert_array_equal(table, expected)


def test_a_table_is_not_the_array_that_the_gate_holds() -> None:
    exact = CUBE.copy()
    gate = silent(exact)
    for axes in ALL_AXES:
        gate.count_marginal(axes, 1)[...] = -1
    np.testing.assert_array_equal(exact, CUBE)


def test_no_sum_wraps_around() -> None:
    """All that the sources let through: counts that add up to 2^63 - 1."""
    most = np.full((2, 4), (2**63 - 1) // 8)
    assert silent(most).count_marginal((0,), 1).tolist() == [4 * ((2**63 - 1) // 8)] * 2
    one = np.array([[2**63 - 1, 0], [0, 0]])
    assert silent(one).count_marginal((1,), 1).tolist() == [2**63 - 1, 0]


class Lying(int):
    """A whole number that is not what it says."""


NO_AXES: list[Any] = [
    (),
    (3,),
    (-1,),
    (0, 3),
    (1, 0),
    (0, 0),
    (0, 1, 2, 2),
    [0],
    {0},
    0,
    None,
    "0",
    np.array([0]),
    range(1),
    (0.0,),
    (True,),
    (Lying(0),),
    (np.int64(0),),
    (None,),
    ("0",),
    ((0,),),
    (float("nan"),),
    (10**30,),
]


@COUNTERS
@pytest.mark.parametrize("axes", NO_AXES, ids=repr)
def test_what_is_no_axes_is_refused_before_a_charge(make: Any, axes: Any) -> None:
    counter = make(CUBE)
    with pytest.raises(InputError, match=r"one or more of the axes 0 to 2 of the cube, ascending and each once"):
        counter.count_marginal(axes, BUDGET_UNITS)
    counter.count_marginal((0,), BUDGET_UNITS)  # nothing was charged


NO_UNITS: list[Any] = [0, -1, BUDGET_UNITS + 1, 2**200, float("nan"), float("inf"), 0.5, 1.0, None, "1"]
NO_UNITS += [Fraction(1, 2), np.float64("nan"), np.array([1]), np.array([1, 1])]


@COUNTERS
@pytest.mark.parametrize("units", NO_UNITS, ids=repr)
def test_what_is_no_number_of_units_is_refused_and_charges_nothing(make: Any, units: Any) -> None:
    """NaN was charged once: what is left was NaN then, and every later call was granted."""
    counter = make(CUBE)
    for call in (lambda: counter.count_marginal((0, 2), units), lambda: counter.count_cells(units)):
        with pytest.raises(BudgetError):
            call()
    counter.count_marginal((1,), BUDGET_UNITS)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        counter.count_marginal((1,), 1)
