"""What the gate draws and what it charges, call by call, with noise that keeps a record of what it is asked for."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcube.core import budget as regions
from dpcube.core.boxes import Boxes, Partitioning
from dpcube.core.budget import CellBudget
from dpcube.core.candidates import BestSplit, Candidates, MedianCuts, TableDistances
from dpcube.core.counter import BUDGET_UNITS, every_cell
from dpcube.core.errors import BudgetError, InputError
from dpcube.core.exact import DenseCounts, SparseRows
from dpcube.core.gate import Gate

HALF = Fraction(1, 2)
LEFT = np.array([[0, 0]]), np.array([[2, 1]])


class RecordedNoise:
    """Noise of which every number tells with how many units it was drawn."""

    private = False

    def __init__(self, per_unit: Fraction) -> None:
        self.per_unit = per_unit
        self.drawn: list[tuple[Fraction, int]] = []

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        self.drawn.append((epsilon, size))
        return np.full(size, int(epsilon / self.per_unit) * 1000, np.int64)


class GivenNoise:
    """Noise that is these numbers."""

    private = False

    def __init__(self, *numbers: int) -> None:
        self.numbers = np.array(numbers, np.int64)

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert (epsilon > 0, size) == (True, self.numbers.size)
        return self.numbers.copy()


@pytest.mark.parametrize("max_rows", [1, 2, 7])
def test_a_person_with_many_rows_gets_the_more_noise_for_each(max_rows: int) -> None:
    per_unit = HALF / max_rows / BUDGET_UNITS
    noise = RecordedNoise(per_unit)
    gate = Gate(np.zeros((2, 3), np.int64), HALF, max_rows=max_rows, noise=noise)
    assert gate.epsilon_per_unit == per_unit
    every_cell(gate, BUDGET_UNITS // 4)
    assert noise.drawn == [(HALF / max_rows / 4, 6)]


def test_a_unit_is_one_row_unless_it_is_said_to_be_more() -> None:
    assert Gate(np.zeros(2, np.int64), HALF).epsilon_per_unit == HALF / BUDGET_UNITS


@pytest.mark.parametrize("max_rows", [1, 7])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_a_table_over_some_axes_is_drawn_at_what_it_was_charged(axes: tuple[int, ...], max_rows: int) -> None:
    noise = RecordedNoise(HALF / max_rows / BUDGET_UNITS)
    gate = Gate(np.ones((2, 3), np.int64), HALF, max_rows=max_rows, noise=noise)
    table = gate.marginal(axes, 5)
    size = int(np.prod([(2, 3)[axis] for axis in axes], dtype=int))
    assert noise.drawn == [(5 * noise.per_unit, size)]
    assert (table == 5000 + 6 // size).all()


@pytest.mark.parametrize("name", ["shape", "_hold", "other"])
def test_exact_counts_are_never_changed(name: str) -> None:
    exact = DenseCounts(np.zeros(2, np.int64))
    with pytest.raises(AttributeError, match="exact counts are never changed"):
        setattr(exact, name, (3,))
    assert exact.shape == (2,)


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, float("nan")])
def test_a_unit_has_a_whole_number_of_rows(max_rows: int) -> None:
    with pytest.raises(InputError, match=f"1 or more, got max_rows {max_rows}"):
        Gate(np.zeros(2, np.int64), HALF, max_rows=max_rows)


def test_the_gate_draws_real_noise_unless_it_is_given_other() -> None:
    assert Gate(np.zeros(2, np.int64), HALF).private
    assert not Gate(np.zeros(2, np.int64), HALF, noise=RecordedNoise(HALF)).private


def test_each_box_has_the_noise_of_its_own_units() -> None:
    noise = RecordedNoise(HALF / BUDGET_UNITS)
    gate = Gate(np.array([1, 20, 300, 4]), HALF, noise=noise)
    boxes = Boxes((4,), np.array([[0], [1], [2], [0]]), np.array([[1], [2], [4], [4]]))
    assert gate.boxes(boxes, np.array([3, 1, 3, 2])).tolist() == [3001, 1020, 3304, 2325]
    assert sorted(noise.drawn) == [(units * noise.per_unit, size) for units, size in ((1, 1), (2, 1), (3, 2))]


def test_no_boxes_have_no_counts_and_cost_nothing() -> None:
    noise = RecordedNoise(HALF / BUDGET_UNITS)
    gate = Gate(np.array([1, 2]), HALF, noise=noise)
    none = gate.boxes(Boxes((2,), np.empty((0, 1), np.int64), np.empty((0, 1), np.int64)), np.empty(0, np.int64))
    assert (none.shape, none.dtype) == ((0,), np.dtype(np.int64))
    assert not noise.drawn
    every_cell(gate, BUDGET_UNITS)


def test_a_budget_is_spent_to_the_last_unit_and_not_beyond() -> None:
    for last in (1, 2):
        budget = CellBudget((2, 3), 10)
        budget.charge_all(10 - last)
        with pytest.raises(BudgetError):
            budget.charge_all(last + 1)
        budget.charge_all(last)
        with pytest.raises(BudgetError):
            budget.charge_all(1)
        with pytest.raises(BudgetError):
            budget.charge(Boxes((2, 3), *LEFT), np.array([1]))


@pytest.mark.parametrize("units", [0, -1])
def test_nothing_is_measured_for_nothing(units: int) -> None:
    budget = CellBudget((2, 3), 10)
    with pytest.raises(BudgetError, match="a positive whole number of units"):
        budget.charge_all(units)
    with pytest.raises(BudgetError):
        budget.charge(Boxes((2, 3), *LEFT), np.array([units]))
    budget.charge(Boxes((2, 3), *LEFT), np.array([1]))


def test_charges_whose_sum_wraps_around_are_refused() -> None:
    """Four times 2^62 is 0 in 64 bits: each must be seen to be too much, though a small one stands beside them."""
    budget = CellBudget((1,), 10)
    lower, upper = np.zeros((5, 1), np.int64), np.ones((5, 1), np.int64)
    with pytest.raises(BudgetError):
        budget.charge(Boxes((1,), lower, upper), np.array([2**62, 2**62, 2**62, 2**62, 1]))
    budget.charge_all(10)


@pytest.mark.parametrize(
    ("shape", "units"), [((3, 2), [1]), ((2, 3), [1, 1]), ((2, 3), [[1]])], ids=["shape", "more", "nested"]
)
def test_a_call_that_does_not_fit_is_refused(shape: tuple[int, int], units: list[int]) -> None:
    budget = CellBudget((2, 3), 10)
    with pytest.raises(BudgetError, match="one whole number of units for each"):
        budget.charge(Boxes(shape, *LEFT), np.array(units))
    with pytest.raises(BudgetError, match="one whole number of units for each"):
        budget.charge(Boxes((2, 3), *LEFT), np.array([1.0]))
    budget.charge_all(10)


def test_a_partitioning_is_charged_once_and_its_boxes_what_each_asks() -> None:
    halves = np.array([[0], [2]]), np.array([[2], [3]])
    budget = CellBudget((3,), 10)
    budget.charge(Partitioning((3,), *halves), np.array([4, 4]))
    budget.charge(Partitioning((3,), *halves), np.array([6, 1]))
    with pytest.raises(BudgetError):
        budget.charge(Boxes((3,), np.array([[1]]), np.array([[2]])), np.array([1]))
    budget.charge(Boxes((3,), np.array([[2]]), np.array([[3]])), np.array([5]))
    with pytest.raises(BudgetError):
        budget.charge(Boxes((3,), np.array([[2]]), np.array([[3]])), np.array([1]))


def test_a_sum_is_refused_before_it_can_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell that cannot pay is enough: eight times 2^61 is 0 in 64 bits, by when it would look as if it could."""
    assert (regions._AT_A_TIME + 1) * BUDGET_UNITS < 2**62
    monkeypatch.setattr(regions, "_AT_A_TIME", 2)
    budget = CellBudget((2,), 2**61)
    lower, upper = np.zeros((8, 1), np.int64), np.ones((8, 1), np.int64)
    with pytest.raises(BudgetError):
        budget.charge(Boxes((2,), lower, upper), np.full(8, 2**61))
    budget.charge_all(2**61)


def test_counts_of_any_layout_and_width_are_held_alike() -> None:
    counts = DenseCounts(np.arange(6, dtype=np.uint64).reshape(2, 3).T)  # type: ignore[arg-type]
    assert counts.plus(np.zeros(6, np.int64)).tolist() == [[0, 3], [1, 4], [2, 5]]
    row = Boxes((3, 2), np.array([[1, 0]]), np.array([[2, 2]]))
    assert counts.box_sums(row).plus(np.array([100])).tolist() == [105]
    assert (counts.shape, counts.size) == ((3, 2), 6)


UPPER_ROW = Boxes((2, 3), np.array([[0, 0]]), np.array([[1, 3]]))
LOWER_ROW = Boxes((2, 3), np.array([[1, 0]]), np.array([[2, 3]]))
SELECTIONS: dict[str, Candidates] = {
    "cuts of a row": MedianCuts(UPPER_ROW, np.array([1])),
    "splits of a row": BestSplit(UPPER_ROW, 0, (1,), "gini"),
    "tables of the cube": TableDistances(
        (2, 3), ((0,), (1,)), (np.zeros(2, np.int64), np.zeros(3, np.int64)), np.array([1, 3]), np.zeros(2, np.int64)
    ),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_noise_of_scores_is_for_the_units_charged_and_the_sensitivity(name: str) -> None:
    candidates = SELECTIONS[name]
    noise = RecordedNoise(HALF / 5 / BUDGET_UNITS)
    gate = Gate(np.ones((2, 3), np.int64), HALF, max_rows=5, noise=noise)
    gate.select(candidates, BUDGET_UNITS // 4)
    sensitivity, scores = {"cuts": (2, 2), "splits": (2 * 2**10, 1), "tables": (6, 2)}[name.split()[0]]
    assert noise.drawn == [(HALF / 5 / 4 / sensitivity, scores)]


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_spends_the_budget_of_the_cells_that_it_covers_and_no_other(name: str) -> None:
    candidates = SELECTIONS[name]
    noise = RecordedNoise(HALF / BUDGET_UNITS)
    gate = Gate(np.ones((2, 3), np.int64), HALF, noise=noise)
    gate.select(candidates, BUDGET_UNITS)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        gate.select(candidates, BUDGET_UNITS // 4)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        gate.boxes(UPPER_ROW, np.array([1]))
    assert len(noise.drawn) == 1
    if candidates.covered is None:
        with pytest.raises(BudgetError, match="nothing was drawn"):
            gate.boxes(LOWER_ROW, np.array([1]))
    else:
        gate.boxes(LOWER_ROW, np.array([BUDGET_UNITS]))


@pytest.mark.parametrize(
    ("boxes", "units"),
    [(Boxes((2, 4), *LEFT), [1]), (UPPER_ROW, [1, 1]), (UPPER_ROW, [1.0])],
    ids=["another cube", "units of another box", "a float"],
)
def test_boxes_are_checked_before_exact_rows_are_counted(
    boxes: Boxes, units: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loops that count do not check bounds: boxes of another cube would read memory that is not the table's."""
    counted: list[object] = []
    monkeypatch.setattr(DenseCounts, "box_sums", lambda _, boxes: counted.append(boxes))
    gate = Gate(np.ones((2, 3), np.int64), HALF, noise=RecordedNoise(HALF))
    with pytest.raises(BudgetError, match="one whole number of units for each"):
        gate.boxes(boxes, np.array(units))
    assert counted == []


def test_a_coarser_cube_counts_groups_and_spends_the_budget_of_the_finer() -> None:
    gate = Gate(np.array([1, 20, 300]), HALF, noise=RecordedNoise(HALF / BUDGET_UNITS))
    coarser = gate.grouped([np.array([0, 1, 1])])
    assert (coarser.shape, coarser.epsilon_per_unit) == ((2,), gate.epsilon_per_unit)
    right = Boxes((2,), np.array([[1]]), np.array([[2]]))
    assert coarser.boxes(right, np.array([3])).tolist() == [3320]
    with pytest.raises(BudgetError):
        every_cell(gate, BUDGET_UNITS - 2)
    assert every_cell(gate, 2).tolist() == [2001, 2020, 2300]
    with pytest.raises(BudgetError):
        coarser.boxes(right, np.array([BUDGET_UNITS - 4]))
    coarser.boxes(right, np.array([BUDGET_UNITS - 5]))
    with pytest.raises(BudgetError):
        every_cell(coarser, 1)


@pytest.mark.parametrize("by_cells", [True, False])
def test_the_most_that_any_cell_was_charged_is_that_of_the_cell_charged_most(*, by_cells: bool) -> None:
    budget = CellBudget((2, 3), 10, by_cells=by_cells)
    assert budget.most_charged() == 0
    budget.charge(LOWER_ROW, np.array([3]))
    budget.charge_all(2)
    assert budget.most_charged() == 5


@pytest.mark.parametrize(
    ("noise", "chosen"),
    [
        ((0, 0, 0, 0), [0, 1]),  # of cuts that are as good the first
        ((0, 1, 0, 0), [1, 1]),
        ((-2, 1, 0, 0), [0, 1]),  # what is below 0 is folded: -1 - z
        ((-1, 0, 0, 0), [0, 1]),
        ((0, 0, 3, 0), [0, 1]),
        ((0, 0, 5, 0), [0, 0]),
        ((0, 0, -6, 0), [0, 0]),
    ],
)
def test_the_highest_score_with_its_noise_is_selected_for_each_question(
    noise: tuple[int, ...], chosen: list[int]
) -> None:
    """Cuts score -|N - 2r|: -1 and -1 of the row above, -4 and 0 of the one below."""
    counts = np.array([[0, 1, 0], [1, 2, 3]])
    rows = Boxes((2, 3), np.array([[0, 0], [1, 0]]), np.array([[1, 3], [2, 3]]))
    cuts = MedianCuts(rows, np.array([1, 1]))
    assert cuts.scores(counts).tolist() == [-1, -1, -4, 0]
    assert Gate(counts, HALF, noise=GivenNoise(*noise)).select(cuts, BUDGET_UNITS).tolist() == chosen


def test_a_coarser_cube_too_large_to_materialise_keeps_no_array_of_its_cells() -> None:
    shape = (2**20, 2**20)
    rows = SparseRows(shape, [np.array([5, 9]), np.array([7, 2**19])], np.array([1, 20]))
    coarser = Gate(rows, HALF, noise=RecordedNoise(HALF / BUDGET_UNITS)).grouped([np.arange(2**20)] * 2)
    halves = Boxes(shape, np.array([[0, 0], [0, 2**18]]), np.array([[2**20, 2**18], [2**20, 2**20]]))
    assert coarser.boxes(halves, np.array([3, 3])).tolist() == [3001, 3020]
