"""The exact audit of the gate of fine grids, and for each way to break it a twin that the audit does not pass.

The auditor is that of `test_audit.py`: the loss of what was said is a rational number, worked out for every neighbour.
`tests/property/test_box_regions.py` holds the same gate against that of a cube, on any boxes.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from checks import Values
from test_audit import CUBES, EPSILON, INFINITE, Job, Said, Tape, Witness, worst
from test_marginal_audit import HalfTheNoise

from dpcube.core.boxes import Boxes
from dpcube.core.budget import CellBudget
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise, drawn_for_units

MakeGridGate = Callable[..., Gate]
HALF, QUARTER = BUDGET_UNITS // 2, BUDGET_UNITS // 4
SQUARE = (2, 3)


def made(gate: MakeGridGate, exact: Values, noise: Noise, max_rows: int = 1) -> Gate:
    cells = np.nonzero(exact)
    return gate(SparseRows(exact.shape, cells, exact[cells]), EPSILON, max_rows=max_rows, noise=noise)


def square(*bounds: tuple[int, int, int, int]) -> Boxes:
    """Boxes of the square: first row and column, and those behind the last."""
    array = np.array(bounds)
    return Boxes(SQUARE, array[:, :2], array[:, 2:])


WHOLE, LEFT, RIGHT = (0, 0, 2, 3), (0, 0, 2, 1), (0, 1, 2, 3)
CELLS = [(row, column, row + 1, column + 1) for row in range(2) for column in range(3)]


def boxes_job(*asked: tuple[Boxes, int | list[int]], gate: MakeGridGate = Gate, max_rows: int = 1) -> Job:
    """Calls, each with units for every box, or for each. What is said is kept as it was drawn, fewest units first."""

    def run(exact: Values, noise: Noise) -> Said:
        counter, said = made(gate, exact, noise, max_rows), []
        for boxes, amounts in asked:
            units = np.resize(amounts, len(boxes))
            counts = counter.boxes(boxes, units)
            said += [counts[units == some] for some in np.unique(units)]
        return said

    return run


def refining(gate: MakeGridGate = Gate) -> Job:
    """The whole, its halves, then the cells of the half that looks larger and the other half once more."""

    def run(exact: Values, noise: Noise) -> Said:
        counter = made(gate, exact, noise)
        said = [counter.boxes(square(WHOLE), np.array([QUARTER]))]
        said.append(counter.boxes(square(LEFT, RIGHT), np.full(2, QUARTER)))
        left = said[1][0] >= said[1][1]
        finer = [cell for cell in CELLS if (cell[1] == 0) == left]
        return [*said, counter.boxes(square(*finer, RIGHT if left else LEFT), np.full(len(finer) + 1, HALF))]

    return run


TREE = [(square(WHOLE), QUARTER), (square(LEFT, RIGHT), QUARTER), (square(*CELLS), HALF)]


def test_a_tree_of_boxes_loses_what_a_path_was_charged_and_no_more() -> None:
    assert worst(boxes_job(*TREE), CUBES["square"]) == EPSILON
    assert worst(refining(), CUBES["square"]) == EPSILON
    with pytest.raises(BudgetError):
        worst(boxes_job(*TREE, (square(CELLS[4]), 1)), CUBES["square"])


def test_regions_that_were_not_asked_keep_their_budget() -> None:
    asked = [(square(LEFT), BUDGET_UNITS), (square(RIGHT), HALF), (square(CELLS[2]), HALF), (square(CELLS[5]), HALF)]
    assert worst(boxes_job(*asked), CUBES["square"]) == EPSILON


def test_boxes_lose_no_more_for_a_unit_of_several_rows() -> None:
    assert worst(boxes_job(*TREE, max_rows=2), CUBES["square"], rows=2) == EPSILON


def test_boxes_that_overlap_in_a_call_are_charged_each() -> None:
    overlapping = square(LEFT, WHOLE)
    assert worst(boxes_job((overlapping, HALF)), CUBES["square"]) == EPSILON
    with pytest.raises(BudgetError):
        worst(boxes_job((overlapping, HALF + 1)), CUBES["square"])


UNEVEN: list[tuple[Boxes, int | list[int]]] = [
    (square(RIGHT, LEFT), [BUDGET_UNITS, QUARTER]),
    (square(CELLS[0], LEFT, CELLS[3]), [HALF, QUARTER, HALF]),
]
"""Every cell is charged the whole budget, the left ones in parts, in calls whose boxes have different units."""


def test_boxes_of_different_units_in_a_call_have_the_noise_of_their_own() -> None:
    assert worst(boxes_job(*UNEVEN), CUBES["square"]) == EPSILON
    assert worst(boxes_job(*UNEVEN, max_rows=2), CUBES["square"], rows=2) == EPSILON
    tape = Tape()
    boxes_job(*UNEVEN)(CUBES["square"], tape)
    shares = [Fraction(part, 4) * EPSILON for part in (1, 4, 1, 2)]
    assert [(epsilon, len(values)) for epsilon, values in tape.drawn] == list(zip(shares, (1, 1, 1, 2), strict=True))


class ChargeForgotten(Gate):
    def boxes(self, boxes: Boxes, units: Values) -> Values:
        return self._exact.box_sums(boxes).plus(drawn_for_units(self._noise, units, self.epsilon_per_unit))


class DrawsFirst(Gate):
    def boxes(self, boxes: Boxes, units: Values) -> Values:
        noisy = ChargeForgotten.boxes(self, boxes, units)  # type: ignore[arg-type]
        self._budget.charge(boxes, units)
        return noisy


class SilentWhereEmpty(Gate):
    """Only boxes that rows fall into get noise, as a GROUP BY would have it."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        noisy = super().boxes(boxes, units)
        return np.where(self._exact.box_sums(boxes).reveal() == 0, 0, noisy)


class MostOfABox(CellBudget):
    """Boxes of one call are taken to be apart: a cell is charged for the dearest of them alone."""

    def charge(self, boxes: Boxes, units: Values) -> None:
        super().charge(Boxes(boxes.shape, boxes.lower[:1], boxes.upper[:1]), units[:1])


class NodesAlone(CellBudget):
    """A box is held against what was charged to itself, not to the boxes around it."""

    def charge(self, boxes: Boxes, units: Values) -> None:
        self._charged[:] = 0
        super().charge(boxes, units)


class LargestUnits(Gate):
    """All boxes of a call get the noise of the box that pays the most, each for what it pays itself."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        noise = [self._noise.draw(int(units.max()) * self.epsilon_per_unit, int(n)) for n in np.unique_counts(units)[1]]
        drawn = np.empty(len(units), np.int64)
        drawn[np.argsort(units, kind="stable")] = np.concatenate(noise)
        return self._exact.box_sums(boxes).plus(drawn)


def with_budget(budget: type[CellBudget]) -> MakeGridGate:
    def gate(rows: SparseRows, epsilon: Fraction, *, max_rows: int, noise: Noise) -> Gate:
        made = Gate(rows, epsilon, max_rows=max_rows, noise=noise)
        made._budget = budget(rows.shape, BUDGET_UNITS, by_cells=False)
        return made

    return gate


def half_the_noise(rows: SparseRows, epsilon: Fraction, *, max_rows: int, noise: Noise) -> Gate:
    return Gate(rows, epsilon, max_rows=max_rows, noise=HalfTheNoise(noise))


TWICE = [(square(WHOLE), BUDGET_UNITS), (square(LEFT, RIGHT), BUDGET_UNITS)]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (boxes_job(*TWICE, gate=ChargeForgotten), 2 * EPSILON),
        (boxes_job(*TWICE, gate=with_budget(NodesAlone)), 2 * EPSILON),
        (boxes_job((square(WHOLE, LEFT), BUDGET_UNITS), gate=with_budget(MostOfABox)), 2 * EPSILON),
        (boxes_job((square(*CELLS), BUDGET_UNITS), gate=SilentWhereEmpty), INFINITE),
        (boxes_job(*TREE, gate=half_the_noise), 2 * EPSILON),
        (boxes_job(*UNEVEN, gate=LargestUnits), 2 * EPSILON),
    ],
    ids=[
        *("charge forgotten", "path forgotten", "overlap accepted", "empty boxes without noise", "half the noise"),
        "noise of the largest units",
    ],
)
def test_sabotage_loses_more_than_epsilon(run: Job, expected: Fraction) -> None:
    assert worst(run, CUBES["square"]) == expected


def test_what_the_twins_are_let_do_is_refused() -> None:
    for asked in (TWICE, [(square(WHOLE, LEFT), BUDGET_UNITS)]):
        with pytest.raises(BudgetError):
            worst(boxes_job(*asked), CUBES["square"])


def pays_first(gate: MakeGridGate) -> bool:
    """A refused call draws nothing, and at every draw what was charged has gone up already."""
    charged = (QUARTER, HALF, BUDGET_UNITS)
    noise = Witness(lambda: counter._budget.most_charged() == charged[min(2, len(noise.draws))])
    counter = made(gate, CUBES["square"], noise)
    for boxes, units in TREE:
        counter.boxes(boxes, np.full(len(boxes), units))
    with pytest.raises(BudgetError):
        counter.boxes(square(WHOLE), np.array([10**6]))
    return noise.draws == [True, True, True]


def test_the_charge_comes_before_the_draw() -> None:
    assert pays_first(Gate)
    assert not pays_first(DrawsFirst)
