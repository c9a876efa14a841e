"""Record and replay of whole releases: what is lost in any transcript of any strategy, computed, not sampled.

A job on the table x is run with some noise and everything it is told is kept. A neighbour x' would be told the same
with other noise, value by value: the noisy count less its own exact count. Both jobs are told the same, so both ask the
same and write the same file (which is checked, as in arXiv 2602.17454), and the log-ratio of their probabilities is the
sum of epsilon_b (|z'_b| - |z_b|) over every count, epsilon_b being what the noise source was asked for, not what was
charged. It is a rational number. A selection adds at most its epsilon times the most by which a row raises another
candidate's score above that of the selected one: by the proof of `core/selection.py`, for this outcome.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pytest
from auditor import STORES, ChargeForgotten, OneRegionForgotten, over
from checks import Values, revealed
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpcube import Domain
from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.candidates import Candidates
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.errors import BudgetError
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise, Noise
from dpcube.measurements import Marginal, Provenance, Transcript
from dpcube.release import Release
from dpcube.strategies import (
    Adaptive,
    Cells,
    Cuboids,
    Strategy,
    adaptive,
    pilot,
)
from dpcube.strategies.partial_tree import PartialTree
from dpcube.strategies.plans import ADAPTIVE, CELLS, PLANS, TreePlan
from dpcube.strategies.registry import BY_NAME, OF_ROWS, RIVALS, fitted_strategy

EPSILON = Fraction(2)
EMPTY = np.zeros(1, np.int64)
Draw = Callable[[Fraction, int], Values]
MakeGate = Callable[[Values, Noise], NoisyCounter]
Coarse = Callable[[Values], Values]


class Source:
    """Noise from a function."""

    private = False

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def draw(self, epsilon: Fraction, size: int) -> Values:
        return np.asarray(self._draw(epsilon, size), np.int64)


class Numbers:
    """In the place of noise: one number after another, so that each count tells where its noise comes from."""

    private = False

    def __init__(self) -> None:
        self.epsilons: list[Fraction] = []

    def draw(self, epsilon: Fraction, size: int) -> Values:
        first = len(self.epsilons)
        self.epsilons += [epsilon] * size
        return np.arange(first, first + size)


def plain(value: object) -> object:
    if isinstance(value, Boxes):
        return value.shape, value.lower.tolist(), value.upper.tolist()
    if isinstance(value, Candidates):
        return type(value).__name__, [plain(getattr(value, one.name)) for one in fields(value)]  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass
class Call:
    """What was asked and said, the exact answers as a function of a table, and the epsilon of each one's noise."""

    asked: object
    said: Values
    exact: Callable[[Values], Values]
    epsilons: list[Fraction]
    selection: Candidates | None = None

    def loss(self, one: Values, other: Values) -> Fraction:
        """The log-ratio of the probabilities of what was said, or for a selection at least that."""
        before, after = self.exact(one), self.exact(other)
        if self.selection is not None:
            return self._loss_of_selection(self.selection, before, after)
        noise, another = np.abs(self.said.reshape(-1) - before), np.abs(self.said.reshape(-1) - after)
        changed = np.flatnonzero(noise != another)
        return sum((self.epsilons[at] * int(another[at] - noise[at]) for at in changed), Fraction(0))

    def _loss_of_selection(self, selection: Candidates, before: Values, after: Values) -> Fraction:
        found, first = Fraction(0), 0
        for size, chosen in zip(selection.sizes.tolist(), self.said.tolist(), strict=True):
            change = [
                int(b) - int(a) for a, b in zip(before[first : first + size], after[first : first + size], strict=True)
            ]
            found += self.epsilons[first] * max(abs(one - change[chosen]) for one in change)
            first += size
        return found


class Told:
    """A counter around a gate, which keeps each call.

    A second gate over the same table gets the same calls and numbers in the place of noise: by its number a count is
    known to have the noise of a certain draw, and so its epsilon, however the gate hands its noise out.
    """

    def __init__(self, make: MakeGate, exact: Values, draw: Draw) -> None:
        self._numbers = Numbers()
        self._gate, self._twin = make(exact, Source(draw)), make(exact, self._numbers)
        self.exact, self._coarse = exact, [np.arange(side) for side in exact.shape]
        self.shape, self.epsilon_per_unit = self._gate.shape, self._gate.epsilon_per_unit
        self.calls: list[Call] = []

    def grouped(self, groups: Sequence[Values]) -> "Told":
        coarse: Told = object.__new__(Told)
        coarse.__dict__.update(self.__dict__)
        coarse._gate, coarse._twin = self._gate.grouped(groups), self._twin.grouped(groups)
        coarse.shape = coarse._gate.shape
        coarse._coarse = [of[before] for of, before in zip(groups, self._coarse, strict=True)]
        return coarse

    def _table(self, exact: Values) -> Values:
        found = np.zeros(self.shape, np.int64)
        np.add.at(found, np.ix_(*self._coarse), exact)
        return found

    def _keep(
        self, asked: tuple[object, ...], said: Values, numbered: Values, exact: Callable[[Values], Values]
    ) -> Values:
        numbers = (numbered.reshape(-1) - exact(self.exact)).tolist()
        epsilons = [self._numbers.epsilons[number] for number in numbers]
        self.calls.append(Call(plain(asked), said.copy(), exact, epsilons))
        return said

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        others = tuple(set(range(len(self.shape))) - set(axes))
        told = self._gate.marginal(axes, units), self._twin.marginal(axes, units)
        return self._keep(
            ("marginal", axes, units), *told, lambda exact: self._table(exact).sum(axis=others).reshape(-1)
        )

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        told = self._gate.boxes(boxes, units), self._twin.boxes(boxes, units)
        return self._keep(("boxes", boxes, units), *told, lambda exact: box_sums(self._table(exact), boxes))

    def select(self, candidates: Candidates, units: int) -> Values:
        said, first = self._gate.select(candidates, units), len(self._numbers.epsilons)
        self._twin.select(candidates, units)
        exact = lambda exact: candidates.scores(self._table(exact))  # noqa: E731
        asked = plain(("select", candidates, units))
        self.calls.append(Call(asked, said.copy(), exact, self._numbers.epsilons[first:], candidates))
        return said


class Again:
    """A counter that says what was said before, and notices when it is asked anything else."""

    def __init__(self, told: Told) -> None:
        self.shape, self.epsilon_per_unit = told.shape, told.epsilon_per_unit
        self._calls = iter(told.calls)

    def _said(self, *asked: object) -> Values:
        call = next(self._calls)
        assert plain(asked) == call.asked, "a neighbour asks for something else"
        return call.said.copy()

    def grouped(self, groups: Sequence[Values]) -> "Again":
        coarse: Again = object.__new__(Again)
        coarse.__dict__.update(self.__dict__)
        coarse.shape = tuple(int(of_axis.max()) + 1 for of_axis in groups)
        return coarse

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        return self._said("marginal", axes, units)

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        return self._said("boxes", boxes, units)

    def select(self, candidates: Candidates, units: int) -> Values:
        return self._said("select", candidates, units)


def file_of(strategy: Strategy, transcript: Transcript) -> str:
    """The digest of the file of a release."""
    domain = Domain.of_shape(transcript.shape)
    return Release(domain, transcript, Provenance(strategy.name, EPSILON, "audited", {})).digest


def losses(strategy: Strategy, exact: Values, draw: Draw, make: MakeGate) -> dict[tuple[int, ...], Fraction]:
    """For every cell, the larger of |log P(told | x) - log P(told | x')| over x' with a row more or less in it."""
    told = Told(make, exact, draw)
    released = strategy.run(told)
    again = strategy.run(
        Again(told)
    )  # what is asked depends on what was told alone, so the neighbour is asked the same
    assert file_of(strategy, again) == file_of(strategy, released)
    largest: dict[tuple[int, ...], Fraction] = {}
    for cell in np.ndindex(exact.shape):
        changes = [change for change in (1, -1) if exact[cell] + change >= 0]
        largest[cell] = max(_loss(told, exact, cell, change) for change in changes)
    return largest


def _loss(told: Told, exact: Values, cell: tuple[int, ...], change: int) -> Fraction:
    other = exact.copy()
    other[cell] += change
    counted = abs(sum((call.loss(exact, other) for call in told.calls if call.selection is None), Fraction(0)))
    return counted + sum((call.loss(exact, other) for call in told.calls if call.selection), Fraction(0))


def honest(exact: Values, noise: Noise, store: str = "dense") -> NoisyCounter:
    return over(store)(exact, EPSILON, max_rows=1, noise=noise)


def draws() -> Iterator[Draw]:
    """Noise with which losses are largest, and fresh noise."""
    for value in (9, -9, 0, 1, -1):
        yield lambda _, size, value=value: np.full(size, value)  # type: ignore[misc]
    yield lambda _, size: np.asarray(7 * (-1) ** np.arange(size), np.int64)
    for _ in range(4):
        yield ExactNoise().draw


CUBES = {
    "cell": np.array([[2]]),
    "pair": np.array([0, 5]),
    "line": np.array([3, 0, 1, 1, 40, 0, 0, 9, 0, 2, 0]),
    "square": np.array([[4, 0, 0], [1, 2, 0], [0, 90, 1]]),
    "cube": np.array([[[1, 0], [0, 7]], [[0, 0], [2, 2]], [[30, 0], [0, 0]]]),
    "sparse cube": np.bincount([7, 30, 30, 58], minlength=60).reshape(5, 4, 3),  # one-way marginals get a third
    "values": np.bincount([3, 3, 64], minlength=66),  # asked one by one, each is counted
    "deep line": np.repeat([0, 50, 1, 0], 32),  # two levels are looked at
}


@pytest.mark.parametrize("cube", CUBES)
@pytest.mark.parametrize("queries", ["ranges", "groups"])
def test_no_transcript_loses_more_than_epsilon_in_any_cell(cube: str, queries: str) -> None:
    strategy, reached = Adaptive(queries=queries), Fraction(0)
    for draw in draws():
        worst = max(losses(strategy, CUBES[cube], draw, honest).values())
        assert worst <= EPSILON
        reached = max(reached, worst)
    assert reached == EPSILON  # and some lose all of it: the audit would see a unit more


def released(name: str, shape: tuple[int, ...]) -> Strategy:
    """A strategy fitted to a cube."""
    domain = Domain.of_shape(shape)
    if name == "named cuboids":
        return Cuboids(cuboids=(domain.names[:2], domain.names[1:])).for_domain(domain)
    return fitted_strategy(name, domain)


WHOLE = {*BY_NAME, *OF_ROWS, "named cuboids", *RIVALS} - {"cuboids", "median_tree"}
"""Strategies without selections: all that is charged is lost, on some tape."""
AUDITED = [*sorted(WHOLE), "cuboids", "median_tree"]
SHAPES = {"ugrid": "square", "agrid": "square"}


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize("name", AUDITED)
def test_no_release_of_any_strategy_loses_more_than_epsilon(name: str, store: str) -> None:
    """By any strategy, over any store: a cube has a strategy of rows, and rows have a strategy of cubes."""
    exact, reached = CUBES[SHAPES.get(name, "cube")], Fraction(0)
    strategy = released(name, exact.shape)
    for draw in draws():
        worst = max(losses(strategy, exact, draw, lambda exact, noise: honest(exact, noise, store)).values())
        assert worst <= EPSILON
        reached = max(reached, worst)
    if name in WHOLE:
        assert EPSILON * (1 - Fraction(1, 2**30)) <= reached  # but for units that shares are rounded down by
    else:
        assert reached > EPSILON / 2


def test_every_strategy_is_audited() -> None:
    assert {*AUDITED} >= {*BY_NAME, *OF_ROWS, *RIVALS}


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    hnp.arrays(np.int64, hnp.array_shapes(max_dims=3, max_side=4), elements=st.integers(0, 60)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 5, 40]),
)
def test_random_tables_and_noise(exact: Values, seed: int, size: int) -> None:
    generator = np.random.default_rng(seed)
    found = losses(Adaptive(), exact, lambda _, n: generator.integers(-size, size + 1, n), honest)
    assert max(found.values()) <= EPSILON


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("cube", ["line", "cube", "deep line"])
def test_no_plan_loses_more_than_epsilon_whichever_is_chosen(
    cube: str, plan: TreePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive, "select_plan", lambda *_: plan)
    monkeypatch.setattr(pilot, "SPARSE", 0.0)  # the choice is never left out
    found = [max(losses(Adaptive(), CUBES[cube], draw, honest).values()) for draw in draws()]
    assert max(found) == EPSILON


# The twins: the same checker finds each of these.


def forgetful(exact: Values, noise: Noise) -> NoisyCounter:
    return over("dense", budget=OneRegionForgotten)(exact, EPSILON, max_rows=1, noise=noise)


class Overspending(Adaptive):
    """The adaptive strategy, which then counts the first cell once more with a tenth of the budget."""

    def run(self, counter: NoisyCounter) -> Transcript:
        transcript = Adaptive.run(self, counter)
        first = np.zeros((1, len(counter.shape)), np.int64)
        counter.boxes(Boxes(counter.shape, first, first + 1), np.array([BUDGET_UNITS // 10]))
        return transcript


class LouderThere(Gate):
    """A gate that draws less noise than it charges for, in one region only."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        first = (boxes.lower == 0).all(axis=1) & (boxes.sizes < math.prod(self.shape))
        noisy = box_sums(revealed(self._exact), boxes)
        for at in range(len(boxes)):
            factor = Fraction(10, 9) if first[at] else Fraction(1)
            noisy[at] += int(self._noise.draw(int(units[at]) * self.epsilon_per_unit * factor, 1)[0])
        return noisy


def test_an_honest_gate_refuses_a_strategy_that_overspends_one_region() -> None:
    with pytest.raises(BudgetError):
        losses(Overspending(), CUBES["line"], ExactNoise().draw, honest)


def nines(_: Fraction, size: int) -> Values:
    return np.full(size, 9)


def alone(worst: dict[tuple[int, ...], Fraction]) -> bool:
    """Whether the first cell loses too much, and no cell beyond its half of the line does."""
    return worst[0,] > EPSILON and all(loss <= EPSILON for (cell,), loss in worst.items() if cell > 5)


def test_sabotage_one_region_overspent_is_caught() -> None:
    worst = losses(Overspending(), CUBES["line"], nines, forgetful)
    assert worst[0,] == EPSILON + EPSILON * Fraction(BUDGET_UNITS // 10, BUDGET_UNITS)
    assert alone(worst)


def test_sabotage_too_little_noise_in_one_region_is_caught() -> None:
    worst = losses(Adaptive(), CUBES["line"], nines, lambda exact, noise: LouderThere(exact, EPSILON, noise=noise))
    assert alone(worst)


class TablesForNothing(Gate):
    """A gate that charges nothing for tables over some attributes."""

    marginal = ChargeForgotten.marginal


def test_sabotage_a_tree_that_spends_what_tables_were_charged_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategy forgets what its tables cost: an honest gate refuses, and of another the audit tells."""
    monkeypatch.setattr(adaptive, "select_plan", lambda *_: ADAPTIVE)
    monkeypatch.setattr(adaptive, "best_share", lambda _, shares, *__: shares[1])
    monkeypatch.setattr(adaptive, "one_way_shares", lambda *_, **__: [Fraction(1, 8)] * 3)
    forgotten: list[int] = []
    monkeypatch.setattr(PartialTree, "set_aside", lambda _, units: forgotten.append(units))
    with pytest.raises(BudgetError):
        losses(Adaptive(), CUBES["cube"], nines, honest)
    forgotten.clear()
    worst = losses(Adaptive(), CUBES["cube"], nines, lambda exact, noise: TablesForNothing(exact, EPSILON, noise=noise))
    of_ones, of_pairs = forgotten[:2]  # of the first of two runs
    assert min(of_ones, of_pairs) > 0
    assert max(worst.values()) == EPSILON * (1 + Fraction(of_ones + of_pairs, BUDGET_UNITS))


def test_sabotage_a_plan_that_is_chosen_by_the_data_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the exact counts through the counter, which a neighbour's job would not find the same."""
    monkeypatch.setattr(
        adaptive,
        "select_plan",
        lambda partial, *_: CELLS if getattr(partial.counter, "exact", EMPTY).sum() else ADAPTIVE,
    )
    with pytest.raises((AssertionError, StopIteration)):
        losses(Adaptive(), CUBES["line"], ExactNoise().draw, honest)


class Peeking(Adaptive):
    """A strategy that asks by the exact counts: it counts a smaller box when the table has more than ten rows."""

    def run(self, counter: NoisyCounter) -> Transcript:
        rows = getattr(counter, "exact", np.zeros(1)).sum()
        lower = np.zeros((1, len(counter.shape)), np.int64)
        counter.boxes(Boxes(counter.shape, lower, lower + (1 if rows > 10 else 2)), np.array([BUDGET_UNITS]))
        nothing = Marginal.from_cells(np.zeros(counter.shape, np.int64), BUDGET_UNITS)
        return Transcript(counter.shape, counter.epsilon_per_unit, (nothing,))


def test_sabotage_a_strategy_that_asks_by_the_data_is_caught() -> None:
    with pytest.raises(AssertionError, match="asks for something else"):
        losses(Peeking(), CUBES["line"], ExactNoise().draw, honest)


class Leaking(Cells):
    """A strategy that asks as it should, and writes into the file what it read of the exact counts."""

    def run(self, counter: NoisyCounter) -> Transcript:
        honest = Cells.run(self, counter)
        assert honest.cells is not None
        rows = int(getattr(counter, "exact", np.zeros(1)).sum())
        cells = Marginal.from_cells(honest.cells.counts + rows, BUDGET_UNITS)
        return Transcript(counter.shape, counter.epsilon_per_unit, (cells,))


def test_sabotage_a_file_that_depends_on_the_data_is_caught() -> None:
    with pytest.raises(AssertionError):
        losses(Leaking(), CUBES["line"], ExactNoise().draw, honest)


class NoisierSelections(Gate):
    """A gate whose selections have half of the noise."""

    def select(self, candidates: Candidates, units: int) -> Values:
        self._budget.charge_all(units)
        noise = self._noise.draw(
            2 * units * self.epsilon_per_unit / candidates.sensitivity, int(candidates.sizes.sum())
        )
        return self._exact.selected(candidates, noise)


def test_sabotage_selections_with_half_of_the_noise_are_caught() -> None:
    exact = CUBES["cube"]
    strategy = released("cuboids", exact.shape)

    def worst(gate: type[Gate]) -> Fraction:
        make = over("sparse", gate)
        found = [losses(strategy, exact, draw, lambda x, z: make(x, EPSILON, max_rows=1, noise=z)) for draw in draws()]
        return max(max(one.values()) for one in found)

    assert worst(Gate) <= EPSILON < worst(NoisierSelections)
