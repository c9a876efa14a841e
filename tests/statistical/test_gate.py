"""The law of what leaves the gate, and for each checker a broken gate that it must reject.

Each checker is given a way to make a gate and returns one p-value. The honest gate fails an assertion with probability
ALARM; each broken one is gross enough, at the sizes drawn here, to escape with a smaller probability still: 12,000
values see a scale that is 10% off at 11 standard deviations.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
import pytest
from checks import ALARM, Values, independence, revealed, scale, union
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.exact import DenseCounts
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise
from dpcube.strategies import Cells, TwoPhase
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.growth import grow

SHAPE = (300, 240)
# Distinct counts, and two cells of five are empty.
TABLE: NDArray[np.int64] = np.where(np.arange(72_000) % 5 < 2, 0, np.arange(72_000)).reshape(SHAPE)
EMPTY = TABLE == 0
EPSILON = Fraction(3, 10)
HALF = BUDGET_UNITS // 2


class MakeGate(Protocol):
    """How a gate is made."""

    def __call__(self, exact: NDArray[np.int64], epsilon: Fraction, *, max_rows: int = 1) -> NoisyCounter: ...


def single_cells() -> Boxes:
    lower = np.stack(np.unravel_index(np.arange(TABLE.size), SHAPE), axis=1)
    return Boxes(SHAPE, lower, lower + 1)


def pairs() -> Boxes:
    """Boxes of two cells side by side, which cover the cube."""
    lower = np.stack(np.unravel_index(np.arange(0, TABLE.size, 2), SHAPE), axis=1)
    return Boxes(SHAPE, lower, lower + np.array([1, 2]))


def cells(make: MakeGate) -> float:
    """Every cell has noise of the law its units give, and empty cells have it too."""
    gate = make(TABLE, EPSILON)
    noise = every_cell(gate, HALF) - TABLE
    alpha = EPSILON * Fraction(HALF, BUDGET_UNITS)
    return union(scale(noise[EMPTY], alpha), scale(noise[~EMPTY], alpha))


def cells_of_persons(make: MakeGate) -> float:
    """A person with up to three rows is protected by noise at a third of epsilon."""
    gate = make(TABLE, EPSILON, max_rows=3)
    return union(
        scale((every_cell(gate, HALF) - TABLE).reshape(-1), EPSILON / 6),
        scale(gate.boxes(pairs(), np.full(36_000, HALF)) - box_sums(TABLE, pairs()), EPSILON / 6),
    )


def boxes(make: MakeGate) -> float:
    """Each box of a call has noise of the law that its own units give."""
    measured = pairs()
    units = np.array([BUDGET_UNITS // 8, BUDGET_UNITS // 4, BUDGET_UNITS // 2])[np.arange(len(measured)) % 3]
    noise = make(TABLE, EPSILON).boxes(measured, units) - box_sums(TABLE, measured)
    shares = (1, 8), (1, 4), (1, 2)
    return union(*(scale(noise[k::3], EPSILON * Fraction(*share)) for k, share in enumerate(shares)))


def boxes_of_one_call(make: MakeGate) -> float:
    """The noises of one call have nothing to do with one another, be the boxes disjoint or the same."""
    measured = pairs()
    apart = make(TABLE, EPSILON).boxes(measured, np.full(len(measured), HALF)) - box_sums(TABLE, measured)
    twice = Boxes(SHAPE, np.repeat(measured.lower, 2, axis=0), np.repeat(measured.upper, 2, axis=0))
    again = make(TABLE, EPSILON).boxes(twice, np.full(len(twice), HALF)) - box_sums(TABLE, twice)
    return union(
        independence(apart[::2], apart[1::2]),
        independence(apart[:18_000], apart[18_000:]),
        independence(again[::2], again[1::2]),
    )


def phases(make: MakeGate) -> float:
    """Phase II counts the exact cells again, with noise that has nothing to do with that of phase I."""
    p_values = []
    for first, second in ((HALF, HALF), (BUDGET_UNITS // 4, 3 * (BUDGET_UNITS // 4))):
        gate = make(TABLE, EPSILON)
        one = (every_cell(gate, first) - TABLE).reshape(-1)
        other = gate.boxes(single_cells(), np.full(TABLE.size, second)) - TABLE.reshape(-1)
        p_values += [scale(other, EPSILON * Fraction(second, BUDGET_UNITS)), independence(one, other)]
    return union(*p_values)


def two_phase(make: MakeGate) -> float:
    """The same of a whole run. The boxes depend on phase I, but given them the noise of phase II is fresh."""
    transcript = TwoPhase(share=Fraction(1, 4), noise_corrected=False, slack=0).run(make(TABLE % 50, EPSILON))
    assert transcript.cells is not None
    assert transcript.boxes is not None
    leaves = transcript.boxes.tree.partitioning()
    assert len(leaves) > 12_000
    one = transcript.cells.counts - TABLE % 50
    other = transcript.boxes.counts - box_sums(TABLE % 50, leaves)
    return union(
        scale(one.reshape(-1), EPSILON / 4),
        scale(other, 3 * EPSILON / 4),
        independence(box_sums(one, leaves), other),
    )


def two_gates(make: MakeGate) -> float:
    """Two jobs over one table share no noise: their difference would be exact otherwise."""
    one, other = (every_cell(make(TABLE, EPSILON), BUDGET_UNITS) - TABLE for _ in range(2))
    return independence(one.reshape(-1), other.reshape(-1))


def learnt_boxes(make: MakeGate) -> float:
    """Few, large boxes that depend on phase I, in many small jobs."""
    exact, noise = np.full((4, 5), 20), []
    for _ in range(600):
        gate = make(exact, Fraction(1, 2))
        leaves = grow(every_cell(gate, HALF), threshold=30.0).partitioning()
        noise.append(gate.boxes(leaves, np.full(len(leaves), HALF)) - box_sums(exact, leaves))
    assert min(map(len, noise)) < max(map(len, noise))
    return scale(np.concatenate(noise), Fraction(1, 4))


def tables(make: MakeGate) -> float:
    """Every cell of a table over some axes has noise of its own, of the law its units give, be it empty or not."""
    cube = np.stack([TABLE, 2 * TABLE], axis=2)
    gate = make(cube, EPSILON, max_rows=3)
    one = gate.marginal((0, 1), HALF) - 3 * TABLE
    other = gate.marginal((0, 1), HALF // 2) - 3 * TABLE
    return union(
        scale(one[EMPTY], EPSILON / 6),
        scale(one[~EMPTY], EPSILON / 6),
        scale(other.reshape(-1), EPSILON / 12),
        independence(one.reshape(-1), other.reshape(-1)),
        independence(one[::2].reshape(-1), one[1::2].reshape(-1)),
        independence(one[:150].reshape(-1), one[150:].reshape(-1)),
    )


def empty_table(make: MakeGate) -> float:
    """An empty table is released like any other."""
    transcript = Cells().run(make(np.zeros(SHAPE, np.int64), EPSILON))
    assert transcript.cells is not None
    return scale(transcript.cells.counts.reshape(-1), EPSILON)


CHECKERS: dict[str, Callable[[MakeGate], float]] = {
    checker.__name__: checker
    for checker in (
        cells,
        cells_of_persons,
        boxes,
        boxes_of_one_call,
        phases,
        two_phase,
        learnt_boxes,
        two_gates,
        tables,
        empty_table,
    )
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_gate_adds_noise_of_the_right_law(checker: str) -> None:
    assert CHECKERS[checker](Gate) > ALARM


class TooLittle:
    """Nine tenths of the noise."""

    private = True

    def draw(self, epsilon: Fraction, size: int) -> Values:
        return ExactNoise().draw(epsilon / Fraction(9, 10), size)


class Reused:
    """The first noise again at every draw of as many values, stretched to another epsilon."""

    private = True

    def __init__(self) -> None:
        self._drawn: dict[int, tuple[Fraction, Values]] = {}

    def draw(self, epsilon: Fraction, size: int) -> Values:
        if size not in self._drawn:
            self._drawn[size] = epsilon, ExactNoise().draw(epsilon, size)
        first, values = self._drawn[size]
        stretched: Values = np.rint(values * float(first / epsilon)).astype(np.int64)
        return stretched


class Blocks:
    """Honest noise for the first half of the values, and the same for the second."""

    private = True

    def draw(self, epsilon: Fraction, size: int) -> Values:
        return np.resize(ExactNoise().draw(epsilon, -(-size // 2)), size)


class SilentWhereEmpty(Gate):
    """Cells without rows are published as they are."""

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        noisy = super().marginal(axes, units)
        return np.where(self._exact.marginal(axes).reveal() == 0, 0, noisy)


class SharedAlongAnAxis(Gate):
    """A table has one noise for each value of its last axis."""

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        self._budget.charge_all(units)
        table = self._exact.marginal(axes).reveal()
        noisy: Values = table + self._noise.draw(units * self.epsilon_per_unit, table.shape[-1])
        return noisy


class FromNoisyCells(Gate):
    """Phase II counts the noisy cells of phase I."""

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        self._noisy = super().marginal(axes, units)
        return self._noisy

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        exact = self._exact
        self._exact = DenseCounts(self._noisy) if hasattr(self, "_noisy") else exact
        noisy = super().boxes(boxes, units)
        self._exact = exact
        return noisy


class OneEpsilon(Gate):
    """Every box of a call is measured with the units of the largest."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        return box_sums(revealed(self._exact), boxes) + self._noise.draw(
            int(units.max()) * self.epsilon_per_unit, len(boxes)
        )


class OneNoise(Gate):
    """The boxes of a call that have the same units share one noise."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        noisy = box_sums(revealed(self._exact), boxes)
        for same in np.unique(units).tolist():
            noisy[units == same] += self._noise.draw(same * self.epsilon_per_unit, 1)
        return noisy


class MisplacedUnits(Gate):
    """Noise is drawn by units and handed out in the order of the boxes, not of their units."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        by_units = np.sort(units).tolist()
        drawn = [self._noise.draw(same * self.epsilon_per_unit, by_units.count(same)) for same in sorted(set(by_units))]
        return box_sums(revealed(self._exact), boxes) + np.concatenate(drawn)


def ignoring_rows(exact: NDArray[np.int64], epsilon: Fraction, *, max_rows: int = 1) -> Gate:
    return Gate(exact, epsilon)


def with_noise(noise: Callable[[], object]) -> MakeGate:
    def make(exact: NDArray[np.int64], epsilon: Fraction, *, max_rows: int = 1) -> Gate:
        return Gate(exact, epsilon, max_rows=max_rows, noise=noise())  # type: ignore[arg-type]

    return make


SABOTAGES: dict[str, tuple[MakeGate, tuple[str, ...]]] = {
    "scale x 0.9": (with_noise(TooLittle), ("cells", "cells_of_persons", "boxes", "phases", "two_phase", "tables")),
    "no noise": (with_noise(SilentNoise), ("cells", "cells_of_persons", "boxes", "phases", "two_phase", "tables")),
    "phase II counted from noisy cells": (FromNoisyCells, ("phases", "two_phase", "learnt_boxes")),
    "noise reused between phases": (with_noise(Reused), ("phases", "tables")),
    "noise repeated within a draw": (with_noise(Blocks), ("boxes_of_one_call", "tables")),
    "noise shared along an axis": (SharedAlongAnAxis, ("tables",)),
    "one noise for all boxes": (OneNoise, ("boxes", "phases")),
    "empty cells without noise": (SilentWhereEmpty, ("cells", "two_phase", "empty_table")),
    "one epsilon for all boxes": (OneEpsilon, ("boxes",)),
    "units of other boxes": (MisplacedUnits, ("boxes",)),
    "persons protected as rows": (ignoring_rows, ("cells_of_persons", "tables")),
    "the same seed in two jobs": (with_noise(lambda: SeededNoise(0)), ("two_gates",)),
}
CASES = [(sabotage, checker) for sabotage, (_, checkers) in SABOTAGES.items() for checker in checkers]


@pytest.mark.parametrize(("sabotage", "checker"), CASES)
def test_sabotage_is_rejected(sabotage: str, checker: str) -> None:
    make, _ = SABOTAGES[sabotage]
    assert CHECKERS[checker](make) < ALARM


def test_every_checker_has_a_sabotage_that_it_rejects() -> None:
    assert {checker for _, checker in CASES} == set(CHECKERS)
