"""The auditor of exact losses, and the gates and budgets that an audit must not pass.

Noise comes from a tape, so what a job says is a function of the table and the tape. For a neighbour, the auditor works
out the one tape that makes the job say the same, call after call. The log-ratio of the two probabilities is then a
rational number: each value on the tapes contributes epsilon_b (|z'| - |z|), where epsilon_b is what the noise was asked
for. Where no tape makes the neighbour say the same, the loss is infinite. An honest job loses at most epsilon on every
tape, and exactly epsilon on some: all that was charged was spent on measuring the table.

A sabotage twin is a gate, a budget or a noise with one fault, written once for every store of exact data.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from checks import Values

from dpcube.core.boxes import Boxes, add_to_boxes
from dpcube.core.budget import CellBudget
from dpcube.core.candidates import Candidates
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.exact import DenseCounts, ExactData, SparseRows
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise, Noise, drawn_for_units
from dpcube.strategies import Strategy

EPSILON = Fraction(2)
INFINITE = Fraction(10**9)  # the loss of what a neighbour could never have said
Draw = Callable[[Fraction, int], Values]
Said = list[Values]
Axes = tuple[int, ...]
CUBES = {
    "line": np.array([3, 0, 1, 1]),
    "square": np.array([[4, 0, 0], [1, 2, 0]]),
    "cube": np.array([[[1, 0], [0, 7]], [[0, 0], [2, 2]]]),
    "cell": np.array([[2]]),
}


def sparse(exact: Values) -> SparseRows:
    """The rows of a cube that is small enough to be held."""
    cells = np.nonzero(exact)
    return SparseRows(exact.shape, cells, exact[cells])


STORES: dict[str, Callable[[Values], ExactData]] = {"dense": DenseCounts, "sparse": sparse}


class Tape:
    """Noise that was told beforehand, then noise of another kind; it keeps what was drawn at what epsilon."""

    private = False

    def __init__(self, told: Sequence[Values] = (), *, then: Draw = lambda _, size: np.zeros(size, np.int64)) -> None:
        self._told = list(told)
        self._then = then
        self.drawn: list[tuple[Fraction, Values]] = []

    def draw(self, epsilon: Fraction, size: int) -> Values:
        turn = len(self.drawn)
        values = self._told[turn] if turn < len(self._told) else self._then(epsilon, size)
        self.drawn.append((epsilon, np.resize(values, size)))
        return self.drawn[-1][1].copy()


class Job(Protocol):
    """From exact counts and noise to everything that is said, a part for each draw: then the boxes chosen."""

    def __call__(self, exact: Values, noise: Noise, /) -> Said: ...


class MakeGate(Protocol):
    """How a gate is made."""

    def __call__(self, exact: Values, epsilon: Fraction, /, *, max_rows: int, noise: Noise) -> NoisyCounter: ...


def over(store: str, gate: Callable[..., NoisyCounter] = Gate, budget: type[CellBudget] | None = None) -> MakeGate:
    """Make gates over a store of exact data, honest or with a fault, and with a budget of another kind."""

    def make(exact: Values, epsilon: Fraction, /, *, max_rows: int, noise: Noise) -> NoisyCounter:
        data = STORES[store](exact)
        made = gate(data, epsilon, max_rows=max_rows, noise=noise)
        if budget is not None:
            assert isinstance(made, Gate)
            made._budget = budget(made.shape, BUDGET_UNITS, by_cells=data.by_cells)
        return made

    return make


def job(strategy: Strategy, gate: MakeGate = Gate, *, max_rows: int = 1) -> Job:
    def run(exact: Values, noise: Noise) -> Said:
        transcript = strategy.run(gate(exact, EPSILON, max_rows=max_rows, noise=noise))
        said = [part.counts.reshape(-1) for part in (transcript.cells, transcript.boxes) if part is not None]
        if transcript.boxes is not None:
            said.append(np.concatenate([transcript.boxes.tree.lower, transcript.boxes.tree.upper]).reshape(-1))
        assert transcript.epsilon_per_unit * BUDGET_UNITS * max_rows == EPSILON
        return said

    return run


Script = Callable[[NoisyCounter], Said]


def asking(script: Script, gate: MakeGate, *, max_rows: int = 1) -> Job:
    """The job of a script of calls at a gate."""
    return lambda exact, noise: script(gate(exact, EPSILON, max_rows=max_rows, noise=noise))


def loss(run: Job, exact: Values, other: Values, draw: Draw) -> Fraction:
    """log P(said | exact) - log P(said | other) of what the job says of `exact` with this noise."""
    said = run(exact, tape := Tape(then=draw))
    needed: Said = []
    for turn, heard in enumerate(said):
        trial = run(other, Tape(needed))[turn]
        if trial.shape != heard.shape:
            return INFINITE
        needed.append(heard - trial)
    again = Tape(needed)
    if any(not np.array_equal(a, b) for a, b in zip(run(other, again), said, strict=True)):
        return INFINITE
    assert [epsilon for epsilon, _ in tape.drawn] == [epsilon for epsilon, _ in again.drawn]
    pairs = zip(tape.drawn, again.drawn, strict=True)
    return sum((e * int(np.abs(z).sum() - np.abs(t).sum()) for (e, t), (_, z) in pairs), Fraction(0))


def draws() -> list[Draw]:
    """Noise with which losses are largest, and fresh noise."""

    def constant(value: int) -> Draw:
        return lambda _, size: np.full(size, value)

    def alternating(_: Fraction, size: int) -> Values:
        return np.asarray(9 * (-1) ** np.arange(size), np.int64)

    return [*map(constant, (9, -9, 0, 1, -1)), alternating, *[ExactNoise().draw] * 10]


def neighbours(exact: Values, *, rows: int = 1) -> Iterator[Values]:
    """Every table with up to `rows` rows more, or as many less, in any cells."""
    for number in range(1, rows + 1):
        for cells in itertools.combinations_with_replacement(range(exact.size), number):
            change = np.bincount(cells, minlength=exact.size).reshape(exact.shape)
            yield exact + change
            if (exact >= change).all():
                yield exact - change


def worst(run: Job, exact: Values, *, rows: int = 1) -> Fraction:
    """The largest loss of any noise and any neighbour."""
    return max(abs(loss(run, exact, other, draw)) for draw in draws() for other in neighbours(exact, rows=rows))


# What no audit of outputs sees: the order of charge and draw.


class Witness:
    """Real noise, which asks at every draw whether it has been paid for."""

    private = True

    def __init__(self, paid: Callable[[], bool]) -> None:
        self._paid = paid
        self.draws: list[bool] = []

    def draw(self, epsilon: Fraction, size: int) -> Values:
        self.draws.append(self._paid())
        return ExactNoise().draw(epsilon, size)


# Sabotage twins: noise.


class Stretched:
    """A part of the noise: that of an epsilon `factor` times as large."""

    private = False

    def __init__(self, noise: Noise, factor: Fraction | int) -> None:
        self._noise, self._factor = noise, factor

    def draw(self, epsilon: Fraction, size: int) -> Values:
        return self._noise.draw(epsilon * self._factor, size)


def half_the_noise(exact: Any, epsilon: Fraction, /, *, max_rows: int, noise: Noise) -> Gate:
    return Gate(exact, epsilon, max_rows=max_rows, noise=Stretched(noise, 2))


def too_little(exact: Any, epsilon: Fraction, /, *, max_rows: int, noise: Noise) -> Gate:
    """Nine tenths of the noise."""
    return Gate(exact, epsilon, max_rows=max_rows, noise=Stretched(noise, Fraction(10, 9)))


def rows_forgotten(exact: Any, epsilon: Fraction, /, *, max_rows: int, noise: Noise) -> Gate:
    """A gate that adds the noise for one row a unit, and says that it added more."""
    return Gate(exact, epsilon, max_rows=max_rows, noise=Stretched(noise, max_rows))


# Sabotage twins: gates.


def epsilon_of(gate: Gate, candidates: Candidates, units: int) -> Fraction:
    """The epsilon of the noise of a selection."""
    return units * gate.epsilon_per_unit / candidates.sensitivity


def drawn(gate: Gate, candidates: Candidates, epsilon: Fraction) -> Values:
    """Noise for every score."""
    return gate._noise.draw(epsilon, int(candidates.sizes.sum()))


def charge_selection(gate: Gate, candidates: Candidates, units: int) -> None:
    """Charge what a selection costs."""
    if candidates.covered is None:
        gate._budget.charge_all(units)
    else:
        gate._budget.charge(candidates.covered, np.full(len(candidates.covered), units))


class ChargeForgotten(Gate):
    """Everything for nothing."""

    def marginal(self, axes: Axes, units: int) -> Values:
        table = self._exact.marginal(axes)
        return table.plus(self._noise.draw(units * self.epsilon_per_unit, table.size))

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        return self._exact.box_sums(boxes).plus(drawn_for_units(self._noise, units, self.epsilon_per_unit))

    def select(self, candidates: Candidates, units: int) -> Values:
        return self._exact.selected(candidates, drawn(self, candidates, epsilon_of(self, candidates, units)))


class DrawsFirst(ChargeForgotten):
    """Charges come after the draws."""

    def marginal(self, axes: Axes, units: int) -> Values:
        noisy = super().marginal(axes, units)
        self._budget.charge_all(units)
        return noisy

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        noisy = super().boxes(boxes, units)
        self._budget.charge(boxes, units)
        return noisy

    def select(self, candidates: Candidates, units: int) -> Values:
        found = super().select(candidates, units)
        charge_selection(self, candidates, units)
        return found


class SilentWhereEmpty(Gate):
    """Only what rows fall into gets noise, as a GROUP BY would have it."""

    def marginal(self, axes: Axes, units: int) -> Values:
        noisy = super().marginal(axes, units)
        return np.where(self._exact.marginal(axes).reveal() == 0, 0, noisy)

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        noisy = super().boxes(boxes, units)
        return np.where(self._exact.box_sums(boxes).reveal() == 0, 0, noisy)


class SharedNoise(Gate):
    """One noise for each value of the last axis of a marginal, for all boxes, for all candidates."""

    def marginal(self, axes: Axes, units: int) -> Values:
        self._budget.charge_all(units)
        table = self._exact.marginal(axes).reveal()
        noisy: Values = table + self._noise.draw(units * self.epsilon_per_unit, table.shape[-1])
        return noisy

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        return self._exact.box_sums(boxes).reveal() + self._noise.draw(int(units.max()) * self.epsilon_per_unit, 1)

    def select(self, candidates: Candidates, units: int) -> Values:
        charge_selection(self, candidates, units)
        one = self._noise.draw(epsilon_of(self, candidates, units), 1)
        return self._exact.selected(candidates, np.repeat(one, int(candidates.sizes.sum())))


class Overlapping(Gate):
    """A row counts twice: in its own cell of a marginal or box of a call, and in the next one."""

    def marginal(self, axes: Axes, units: int) -> Values:
        noisy = super().marginal(axes, units)
        return noisy + np.roll(self._exact.marginal(axes).reveal(), 1, axis=0)

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        return super().boxes(boxes, units) + np.roll(self._exact.box_sums(boxes).reveal(), 1)


class RowsTwice(Gate):
    """Rows that are alike come twice."""

    def marginal(self, axes: Axes, units: int) -> Values:
        return super().marginal(axes, units) + self._exact.marginal(axes).reveal()

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        return super().boxes(boxes, units) + self._exact.box_sums(boxes).reveal()


class LargestUnits(Gate):
    """All boxes of a call get the noise of the box that pays the most, each for what it pays itself."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        noise = [self._noise.draw(int(units.max()) * self.epsilon_per_unit, int(n)) for n in np.unique_counts(units)[1]]
        values = np.empty(len(units), np.int64)
        values[np.argsort(units, kind="stable")] = np.concatenate(noise)
        return self._exact.box_sums(boxes).plus(values)


class ReusesNoise(Gate):
    """The count of a box gets the noise of its first cell again."""

    def marginal(self, axes: Axes, units: int) -> Values:
        noisy = super().marginal(axes, units)
        self._kept = noisy - self._exact.marginal(axes).reveal()
        return noisy

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        noisy: Values = self._exact.box_sums(boxes).reveal() + self._kept[tuple(boxes.lower.T)]
        return noisy


class FromNoisyCells(Gate):
    """Marginals and boxes are summed from the noisy cells that were said before."""

    def marginal(self, axes: Axes, units: int) -> Values:
        if len(axes) == len(self.shape):
            self._noisy = super().marginal(axes, units)
            return self._noisy
        self._budget.charge_all(units)
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        summed: Values = self._noisy.sum(axis=others)
        return summed

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        honest = self._exact
        self._exact = DenseCounts(self._noisy)
        noisy = super().boxes(boxes, units)
        self._exact = honest
        return noisy


class BudgetOfItsOwn(Gate):
    """A coarser cube gets the whole budget once more."""

    def grouped(self, groups: Any) -> Gate:
        return Gate(self._exact.grouped(groups), self.epsilon_per_unit * BUDGET_UNITS, noise=self._noise)


def left_of(gate: Gate) -> Values:
    """The units that each cell of a cube has left, however they are accounted for."""
    budget, left = gate._budget, np.zeros(gate.shape, np.int64)
    left += budget._left
    if budget._regions is not None:
        regions, charged = budget._regions, budget._by_region()
        parts = Boxes(gate.shape, regions.lower[: regions.used], regions.upper[: regions.used])
        add_to_boxes(left, parts, -charged)
    return left


# Sabotage twins: budgets.


class OneAccount(CellBudget):
    """A budget for the cube as a whole: a region may spend what others have left."""

    def __init__(self, shape: tuple[int, ...], units: int, *, by_cells: bool = True) -> None:
        super().__init__(shape, units, by_cells=by_cells)
        self._together = units * math.prod(shape)

    def charge(self, boxes: Boxes, units: Values) -> None:
        self._together -= int((units * (boxes.upper - boxes.lower).prod(axis=1)).sum())
        if self._together < 0:
            self._refuse()


class MostOfABox(CellBudget):
    """Boxes of one call are taken to be apart: a cell is charged for the first of them alone."""

    def charge(self, boxes: Boxes, units: Values) -> None:
        super().charge(Boxes(boxes.shape, boxes.lower[:1], boxes.upper[:1]), units[:1])


class CallsForgotten(CellBudget):
    """A call is held against what a cell had at first, not against what is left of it."""

    def charge(self, boxes: Boxes, units: Values) -> None:
        self._left = BUDGET_UNITS
        self._charged[:] = 0
        super().charge(boxes, units)

    def charge_all(self, units: int) -> None:
        self._left = BUDGET_UNITS
        self._charged[:] = 0
        super().charge_all(units)


class OneRegionForgotten(CellBudget):
    """An account that forgets what the first cell was charged, so its region may spend twice."""

    def charge(self, boxes: Boxes, units: Values) -> None:
        kept = (boxes.lower > 0).any(axis=1)
        if kept.any():
            super().charge(Boxes(boxes.shape, boxes.lower[kept], boxes.upper[kept]), units[kept])
