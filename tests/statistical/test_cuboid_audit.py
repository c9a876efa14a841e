"""The exact audit of the gate of wide tables, and for each way to break it a twin that the audit does not pass.

The auditor is that of `test_audit.py`: the loss of what was said is a rational number, worked out for every neighbour.
Choices are held against those of the gate of a cube, whose law `test_choice_audit.py` audits: with the same noise both
must choose the same, ask for the same noise and be charged the same.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from checks import Values
from hypothesis import given
from hypothesis import strategies as st
from test_audit import CUBES, EPSILON, INFINITE, Job, Said, Tape, Witness, worst
from test_marginal_audit import HalfTheNoise

from dpcube.core.candidates import Candidates, TableDistances
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise, Noise

Axes = tuple[int, ...]
MakeCuboidGate = Callable[..., Gate]
QUARTER = BUDGET_UNITS // 4
FIRST_TWO = [np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1, 0, 0])]
"""Groups of an axis of three cells."""


def rows_of(exact: Values) -> SparseRows:
    """The rows of a cube that is small enough to be held."""
    cells = np.nonzero(exact)
    return SparseRows(exact.shape, cells, exact[cells])


def made(gate: MakeCuboidGate, exact: Values, noise: Noise, max_rows: int = 1) -> Gate:
    return gate(rows_of(exact), EPSILON, max_rows=max_rows, noise=noise)


def cuboids(*asked: tuple[Axes, int], gate: MakeCuboidGate = Gate, max_rows: int = 1) -> Job:
    def run(exact: Values, noise: Noise) -> Said:
        counter = made(gate, exact, noise, max_rows)
        return [counter.marginal(axes, units).reshape(-1) for axes, units in asked]

    return run


def coarser(gate: MakeCuboidGate = Gate) -> Job:
    """A table of the square's rows, one of its columns in groups, and both in groups that the first one chose."""

    def run(exact: Values, noise: Noise) -> Said:
        counter = made(gate, exact, noise)
        said = [counter.marginal((0,), 2 * QUARTER)]
        groups = FIRST_TWO[int(abs(said[0][0])) % 3]
        coarse = counter.grouped([np.arange(2), groups])
        said.append(coarse.marginal((1,), QUARTER))
        return [*said, coarse.marginal((0, 1), QUARTER).reshape(-1)]

    return run


@pytest.mark.parametrize(
    ("cube", "asked"),
    [
        ("line", [((0,), BUDGET_UNITS)]),
        ("square", [((0,), QUARTER), ((1,), QUARTER), ((0, 1), 2 * QUARTER)]),
        ("cube", [((0, 2), QUARTER), ((1,), 2 * QUARTER), ((0, 1, 2), QUARTER)]),
        ("cell", [((0, 1), BUDGET_UNITS)]),
    ],
)
def test_tables_lose_what_they_were_charged_and_no_more(cube: str, asked: list[tuple[Axes, int]]) -> None:
    assert worst(cuboids(*asked), CUBES[cube]) == EPSILON
    with pytest.raises(BudgetError):
        worst(cuboids(*asked, ((0,), 1000)), CUBES[cube])


def test_a_coarser_cube_spends_the_same_budget() -> None:
    assert worst(coarser(), CUBES["square"]) == EPSILON


@pytest.mark.parametrize(("cube", "rows"), [("line", 3), ("square", 2)])
def test_tables_lose_no_more_for_a_unit_of_several_rows(cube: str, rows: int) -> None:
    assert worst(cuboids(((0,), BUDGET_UNITS), max_rows=rows), CUBES[cube], rows=rows) == EPSILON


class ChargeForgotten(Gate):
    def marginal(self, axes: Axes, units: int) -> Values:
        table = self._exact.marginal(axes)
        return table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))


class DrawsFirst(Gate):
    def marginal(self, axes: Axes, units: int) -> Values:
        table = self._exact.marginal(axes)
        noisy = table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))
        self._budget.charge_all(units)
        return noisy


class SilentWhereEmpty(Gate):
    """Only cells that rows fall into get noise, as a GROUP BY would have it."""

    def marginal(self, axes: Axes, units: int) -> Values:
        noisy = super().marginal(axes, units)
        return np.where(self._exact.marginal(axes).reveal() == 0, 0, noisy)


class RowsTwice(Gate):
    """Rows that are alike come twice."""

    def marginal(self, axes: Axes, units: int) -> Values:
        return super().marginal(axes, units) + self._exact.marginal(axes).reveal()


class BudgetOfItsOwn(Gate):
    """A coarser cube gets the whole budget once more."""

    def grouped(self, groups: object) -> Gate:
        rows = self._exact.grouped(groups)  # type: ignore[arg-type]
        return Gate(rows, self.epsilon_per_unit * BUDGET_UNITS, noise=self._noise)


def half_the_noise(rows: SparseRows, epsilon: Fraction, *, max_rows: int, noise: Noise) -> Gate:
    return Gate(rows, epsilon, max_rows=max_rows, noise=HalfTheNoise(noise))


BOTH = (0, 1), BUDGET_UNITS


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (cuboids(BOTH, ((0,), BUDGET_UNITS), gate=ChargeForgotten), 2 * EPSILON),
        (cuboids(BOTH, gate=SilentWhereEmpty), INFINITE),
        (cuboids(BOTH, gate=RowsTwice), 2 * EPSILON),
        (cuboids(BOTH, gate=half_the_noise), 2 * EPSILON),
    ],
    ids=["charge forgotten", "empty cells without noise", "rows twice", "half the noise"],
)
def test_sabotage_loses_more_than_epsilon(run: Job, expected: Fraction) -> None:
    assert worst(run, CUBES["square"]) == expected


def overspent(gate: MakeCuboidGate) -> bool:
    """Whether a coarser cube can be asked once all is spent."""
    counter = made(gate, CUBES["square"], ExactNoise())
    coarse = counter.grouped([np.arange(2), np.zeros(3, np.int64)])
    counter.marginal((0,), BUDGET_UNITS)
    try:
        coarse.marginal((0,), QUARTER)
    except BudgetError:
        return False
    return True


def test_sabotage_a_coarser_cube_with_a_budget_of_its_own_is_caught() -> None:
    assert not overspent(Gate)
    assert overspent(BudgetOfItsOwn)


def pays_first(gate: MakeCuboidGate) -> bool:
    """A refused call draws nothing, and at every draw what was left has gone down already."""
    left = (2 * QUARTER, QUARTER, 0)
    noise = Witness(lambda: bool(np.all(counter._budget._left == left[min(2, len(noise.draws))])))
    counter = made(gate, CUBES["square"], noise)
    counter.marginal((0,), 2 * QUARTER)
    coarse = counter.grouped([np.arange(2), FIRST_TWO[0]])
    coarse.select(tables_of(coarse.shape, [(0,), (1,)]), QUARTER)
    counter.marginal((0, 1), QUARTER)
    for asked in (counter, coarse):
        with pytest.raises(BudgetError):
            asked.marginal((0,), 10**6)
        with pytest.raises(BudgetError):
            asked.select(tables_of(asked.shape, [(0,)]), 10**6)
    return noise.draws == [True, True, True]


def test_the_charge_comes_before_the_draw() -> None:
    assert pays_first(Gate)
    assert not pays_first(DrawsFirst)


# Choices: the same as those of the audited gate of a cube.


def tables_of(shape: tuple[int, ...], axes: list[Axes], *, weight: int = 1) -> TableDistances:
    predicted = tuple(np.ones([shape[axis] for axis in some], np.int64) for some in axes)
    many = np.arange(len(axes))
    return TableDistances(shape, tuple(axes), predicted, weight + many, 2 * many)


CHOICES: dict[str, list[Axes]] = {"line": [(0,)], "square": [(0,), (1,), (0, 1)], "cube": [(0, 1), (1, 2), (2,)]}


def noise_for_choices(gate: MakeCuboidGate) -> Iterator[Fraction]:
    for name, axes in CHOICES.items():
        counter = made(gate, CUBES[name], tape := Tape())
        counter.select(tables_of(counter.shape, axes, weight=3), QUARTER)
        yield from (epsilon for epsilon, _ in tape.drawn)


def expected_noise() -> list[Fraction]:
    """The epsilon of a choice over its spread: twice the largest weight."""
    return [EPSILON / 4 / (2 * (2 + len(axes))) for axes in CHOICES.values()]


class SpreadForgotten(Gate):
    def select(self, candidates: Candidates, units: int) -> Values:
        self._budget.charge_all(units)
        noise = self._noise.draw(units * self.epsilon_per_unit, int(candidates.sizes.sum()))
        return self._exact.selected(candidates, noise)


class ChoiceForNothing(Gate):
    def select(self, candidates: Candidates, units: int) -> Values:
        noise = self._noise.draw(units * self.epsilon_per_unit / candidates.sensitivity, int(candidates.sizes.sum()))
        return self._exact.selected(candidates, noise)


def test_choices_have_the_noise_of_their_spread() -> None:
    assert list(noise_for_choices(Gate)) == expected_noise()
    assert list(noise_for_choices(SpreadForgotten)) != expected_noise()


@given(noise=st.lists(st.integers(-40, 40), min_size=3, max_size=3), cube=st.sampled_from(sorted(CHOICES)))
def test_a_choice_is_that_of_the_gate_of_a_cube(noise: list[int], cube: str) -> None:
    exact, told = CUBES[cube], np.array(noise[: len(CHOICES[cube])])
    asked = tables_of(exact.shape, CHOICES[cube], weight=3)
    wide = made(Gate, exact, Tape([told]))
    dense = Gate(exact, EPSILON, noise=Tape([told]))
    np.testing.assert_array_equal(wide.select(asked, QUARTER), dense.select(asked, QUARTER))
    assert np.all(wide._budget._left == dense._budget._left)


def test_sabotage_a_choice_that_is_not_charged_is_caught() -> None:
    left = []
    for gate in (Gate, ChoiceForNothing):
        counter = made(gate, CUBES["square"], Tape())
        counter.select(tables_of((2, 3), [(0,), (1,)]), QUARTER)
        left.append(int(np.max(counter._budget._left)))
    assert left == [3 * QUARTER, BUDGET_UNITS]
