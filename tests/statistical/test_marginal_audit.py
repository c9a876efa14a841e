"""The exact audit of tables over some axes, and for each way to break them a gate that the audit does not pass.

The auditor is that of `test_audit.py`: the loss of what was said is a rational number, worked out for every neighbour.
"""

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from checks import Values
from test_audit import CUBES, EPSILON, INFINITE, Job, MakeGate, Said, Tape, Witness, draws, rows_forgotten, worst

from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import BudgetError
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise

Axes = tuple[int, ...]
Asked = tuple[Axes, Fraction]
THIRD = Fraction(BUDGET_UNITS // 3, BUDGET_UNITS)


def units(share: Fraction) -> int:
    assert (share * BUDGET_UNITS).denominator == 1
    return int(share * BUDGET_UNITS)


def tables(*asked: Asked, gate: MakeGate = Gate, max_rows: int = 1) -> Job:
    """Tables over some axes, one after another, each with a share of the budget."""

    def run(exact: Values, noise: Noise) -> Said:
        counter = gate(exact, EPSILON, max_rows=max_rows, noise=noise)
        return [counter.marginal(axes, units(share)).reshape(-1) for axes, share in asked]

    return run


def all_axes(cube: str) -> list[Axes]:
    axes = range(CUBES[cube].ndim)
    return [some for many in range(1, len(axes) + 1) for some in itertools.combinations(axes, many)]


ONE_TABLE = [(cube, axes) for cube in CUBES for axes in all_axes(cube)]


@pytest.mark.parametrize(("cube", "axes"), ONE_TABLE, ids=str)
def test_a_table_loses_what_it_was_charged_and_no_more(cube: str, axes: Axes) -> None:
    assert worst(tables((axes, Fraction(1))), CUBES[cube]) == EPSILON
    assert worst(tables((axes, THIRD)), CUBES[cube]) == EPSILON * THIRD


@pytest.mark.parametrize(("cube", "rows"), [("line", 3), ("square", 2), ("cell", 4)])
def test_a_table_loses_no_more_for_a_unit_of_several_rows(cube: str, rows: int) -> None:
    for axes in all_axes(cube):
        assert worst(tables((axes, THIRD), max_rows=rows), CUBES[cube], rows=rows) == EPSILON * THIRD


def test_a_unit_of_more_rows_than_declared_would_lose_more() -> None:
    """The bound is the bound's, not slack: one row too many shows."""
    found = worst(tables(((0,), Fraction(1)), max_rows=2), CUBES["square"], rows=3)
    assert found == EPSILON * Fraction(3, 2)


def test_the_losses_of_tables_add_up() -> None:
    asked = ((0,), Fraction(1, 4)), ((0, 2), Fraction(1, 8)), ((1,), Fraction(1, 2)), ((0, 1, 2), Fraction(1, 8))
    assert worst(tables(*asked), CUBES["cube"]) == EPSILON
    with pytest.raises(BudgetError):
        worst(tables(*asked, ((1, 2), Fraction(1, BUDGET_UNITS))), CUBES["cube"])


def every_verb(gate: MakeGate = Gate) -> Job:
    """A table, then the cells, a box, and a table that is chosen by what the first one said."""

    def run(exact: Values, noise: Noise) -> Said:
        counter = gate(exact, EPSILON, max_rows=1, noise=noise)
        quarter, corner = BUDGET_UNITS // 4, np.zeros((1, exact.ndim), np.int64)
        first = counter.marginal((1,), quarter)
        said = [first, every_cell(counter, quarter).reshape(-1)]
        said.append(counter.boxes(Boxes(exact.shape, corner, corner + 1), np.array([quarter])))
        return [*said, counter.marginal((0,) if first[0] > first[1] else (0, 1), quarter).reshape(-1)]

    return run


def test_tables_cells_and_boxes_lose_together_what_they_were_charged() -> None:
    assert worst(every_verb(), CUBES["square"]) == EPSILON


# The sabotages that the audit sees.


class ChargeForgotten(Gate):
    """Tables for nothing."""

    def marginal(self, axes: Axes, units: int) -> Values:
        table = self._exact.marginal(axes)
        return table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))


class SharedNoise(Gate):
    """One noise for each value of the last axis, shared by all cells of the table that have it."""

    def marginal(self, axes: Axes, units: int) -> Values:
        self._budget.charge_all(units)
        table = self._exact.marginal(axes).reveal()
        noisy: Values = table + self._noise.draw(units * self.epsilon_per_unit, table.shape[-1])
        return noisy


class Overlapping(Gate):
    """A cell of the cube is in two cells of the table: its own, and the next one on the first axis."""

    def marginal(self, axes: Axes, units: int) -> Values:
        self._budget.charge_all(units)
        table = self._exact.marginal(axes).reveal()
        noise = self._noise.draw(units * self.epsilon_per_unit, table.size).reshape(table.shape)
        noisy: Values = table + np.roll(table, 1, axis=0) + noise
        return noisy


class SilentWhereEmpty(Gate):
    """Cells of a table without rows are published as they are."""

    def marginal(self, axes: Axes, units: int) -> Values:
        noisy = super().marginal(axes, units)
        return np.where(self._exact.marginal(axes).reveal() == 0, 0, noisy)


class FromNoisyCells(Gate):
    """A table is summed from the noisy cells that were said before."""

    def marginal(self, axes: Axes, units: int) -> Values:
        if len(axes) == len(self.shape):
            self._noisy = super().marginal(axes, units)
            return self._noisy
        self._budget.charge_all(units)
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        summed: Values = self._noisy.sum(axis=others)
        return summed


class HalfTheNoise:
    private = False

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def draw(self, epsilon: Fraction, size: int) -> Values:
        return self._noise.draw(2 * epsilon, size)


def half_the_noise(exact_counts: Values, epsilon: Fraction, /, *, max_rows: int, noise: Noise) -> Gate:
    return Gate(exact_counts, epsilon, max_rows=max_rows, noise=HalfTheNoise(noise))


BOTH: Asked = ((0, 1), Fraction(1))
SEEN_EXACTLY: dict[str, tuple[Job, int, Fraction]] = {
    "charge forgotten": (tables(BOTH, ((0,), Fraction(1)), gate=ChargeForgotten), 1, 2 * EPSILON),
    "noise shared along an axis": (tables(BOTH, gate=SharedNoise), 1, INFINITE),
    "half the noise": (tables(BOTH, gate=half_the_noise), 1, 2 * EPSILON),
    "a cell in two cells of the table": (tables(BOTH, gate=Overlapping), 1, 2 * EPSILON),
    "a cell in two cells of a table over one axis": (tables(((1,), THIRD), gate=Overlapping), 1, 2 * THIRD * EPSILON),
    "empty cells without noise": (tables(BOTH, gate=SilentWhereEmpty), 1, INFINITE),
    "unit bound ignored": (tables(((0,), Fraction(1)), gate=rows_forgotten, max_rows=2), 2, 2 * EPSILON),
}


@pytest.mark.parametrize("sabotage", SEEN_EXACTLY)
def test_sabotage_loses_more_than_epsilon(sabotage: str) -> None:
    run, rows, expected = SEEN_EXACTLY[sabotage]
    assert worst(run, CUBES["square"], rows=rows) == expected


def test_sabotage_a_charge_that_is_forgotten_is_refused_by_an_honest_gate() -> None:
    with pytest.raises(BudgetError):
        worst(tables(BOTH, ((0,), Fraction(1))), CUBES["square"])


# What no audit for too much loss sees.


def measures_the_table(gate: MakeGate) -> bool:
    """Whether what is said is an exact count plus the noise that was drawn for it, a value for each cell."""
    exact = CUBES["square"]
    for draw in draws():
        counter: NoisyCounter = gate(exact, EPSILON, max_rows=1, noise=(tape := Tape(then=draw)))
        every_cell(counter, BUDGET_UNITS // 2)
        noise = counter.marginal((1,), BUDGET_UNITS // 2) - exact.sum(axis=0)
        if len(tape.drawn) != 2 or not np.array_equal(noise, tape.drawn[1][1]):
            return False
    return True


def test_a_table_is_counted_and_not_summed_from_noisy_cells() -> None:
    assert measures_the_table(Gate)
    assert not measures_the_table(FromNoisyCells)
    assert not measures_the_table(Overlapping)


class DrawsFirst(Gate):
    def marginal(self, axes: Axes, units: int) -> Values:
        table = self._exact.marginal(axes)
        noisy = table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))
        self._budget.charge_all(units)
        return noisy


def pays_first(gate: Callable[..., Gate]) -> bool:
    """A refused call draws nothing, and at every draw what was left has gone down already."""
    left = (BUDGET_UNITS // 2, 0)
    noise = Witness(lambda: bool(np.all(made._budget._left == left[min(1, len(noise.draws))])))
    made = gate(CUBES["square"], EPSILON, noise=noise)
    made.marginal((0,), BUDGET_UNITS // 2)
    made.marginal((0, 1), BUDGET_UNITS // 2)
    for axes in ((0,), (1,), (0, 1)):
        with pytest.raises(BudgetError):
            made.marginal(axes, 1000)
    return noise.draws == [True, True]


def test_the_charge_comes_before_the_draw() -> None:
    assert pays_first(Gate)


def test_sabotage_a_charge_after_the_draw_is_caught() -> None:
    assert not pays_first(DrawsFirst)
