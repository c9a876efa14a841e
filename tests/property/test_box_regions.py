"""The gate of fine grids against that of a cube small enough to hold: the same counts, the same refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.core import budget as accounting
from dpcube.core import regions as regions_of_boxes
from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, add_to_boxes, box_sums
from dpcube.core.budget import CellBudget
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError, DomainError, InputError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.regions import RegionTree
from dpcube.testing import SilentNoise

SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)
FINE = (10**6, 10**6)


@st.composite
def boxes_in(draw: st.DrawFn, shape: tuple[int, ...], most: int = 6) -> Boxes:
    """Any boxes: they may overlap, touch, nest and be the same."""
    many = draw(st.integers(1, most))
    lower, upper = np.empty((many, len(shape)), np.int64), np.empty((many, len(shape)), np.int64)
    for box in range(many):
        for axis, side in enumerate(shape):
            lower[box, axis] = draw(st.integers(0, side - 1))
            upper[box, axis] = draw(st.integers(int(lower[box, axis]) + 1, side))
    return Boxes(shape, lower, upper)


def rows_of(exact: Ints) -> SparseRows:
    cells = np.nonzero(exact)
    return SparseRows(exact.shape, cells, exact[cells])


def accepted(budget: CellBudget, boxes: Boxes, units: Ints) -> bool:
    try:
        budget.charge(boxes, units)
    except BudgetError:
        return False
    return True


@given(data=st.data())
def test_charges_are_those_of_a_budget_with_every_cell(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    dense, fine = (CellBudget(shape, BUDGET_UNITS, by_cells=by_cells) for by_cells in (True, False))
    for _ in range(data.draw(st.integers(1, 5))):
        boxes = data.draw(boxes_in(shape))
        amounts = st.one_of(st.integers(-1, BUDGET_UNITS + 1), st.integers(1, BUDGET_UNITS // 4))
        units = np.array(data.draw(st.lists(amounts, min_size=len(boxes), max_size=len(boxes))))
        assert accepted(fine, boxes, units) == accepted(dense, boxes, units)
        assert fine.most_charged() == BUDGET_UNITS - np.min(dense._left)


class Told:
    """Noise that says at what epsilon it was drawn: ten times the units, of a job at epsilon 1."""

    private = False

    def draw(self, epsilon: Fraction, size: int) -> Ints:
        return np.full(size, epsilon * BUDGET_UNITS, np.int64) * 10


@given(data=st.data())
def test_counts_and_their_noise_are_those_of_the_gate_of_a_cube(data: st.DataObject) -> None:
    """Boxes of one call may have different units, each noise of its own."""
    shape = data.draw(SHAPES)
    cells = math.prod(shape)
    exact = np.array(data.draw(st.lists(st.integers(0, 9), min_size=cells, max_size=cells))).reshape(shape)
    fine = Gate(rows_of(exact), Fraction(1), noise=Told())
    dense = Gate(exact, Fraction(1), noise=Told())
    assert fine.epsilon_per_unit == dense.epsilon_per_unit
    for _ in range(3):
        boxes = data.draw(boxes_in(shape))
        units = np.array(data.draw(st.lists(st.integers(2**10, 2**30), min_size=len(boxes), max_size=len(boxes))))
        noisy = fine.boxes(boxes, units)
        np.testing.assert_array_equal(noisy, dense.boxes(boxes, units))
        np.testing.assert_array_equal(noisy - units * 10, box_sums(exact, boxes))


@given(data=st.data())
def test_regions_hold_the_values_of_boxes(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    tree, values = RegionTree(shape), np.array([], np.int64)
    expected, nodes = np.zeros(shape, np.int64), np.zeros(1, np.int64)
    for _ in range(3):
        boxes = data.draw(boxes_in(shape))
        values = np.arange(1, len(boxes) + 1) * 7
        tree.part(boxes)
        nodes = np.append(nodes, np.zeros(tree.used - len(nodes), np.int64))
        tree.add(boxes, values, nodes)
        add_to_boxes(expected, boxes, values)
        assert tree.most_on_a_path(nodes) == expected.max()
    leaves = np.flatnonzero(tree.half[: tree.used] == 0)
    parts = Boxes(shape, tree.lower[leaves], tree.upper[leaves])
    assert parts.sizes.sum() == math.prod(shape)
    found = np.zeros(shape, np.int64)
    add_to_boxes(found, parts, np.ones(len(parts), np.int64))
    assert (found == 1).all()  # the leaves are a partition


def test_a_grid_of_a_trillion_cells_takes_time_by_rows_and_boxes() -> None:
    generator = np.random.default_rng(5)
    cells = generator.integers(0, 10**6, (2000, 2))
    cells[:4] = [[0, 0], [0, 10**6 - 1], [10**6 - 1, 0], [10**6 - 1, 10**6 - 1]]
    rows = generator.integers(1, 4, 2000)
    gate = Gate(SparseRows(FINE, list(cells.T), rows), Fraction(1), noise=SilentNoise())
    edges = np.append(np.sort(generator.choice(np.arange(1, 10**6), 40, replace=False)), 10**6)
    first = np.append(0, edges[:-1])
    lower = np.stack(np.meshgrid(first, first), axis=2).reshape(-1, 2)
    upper = np.stack(np.meshgrid(edges, edges), axis=2).reshape(-1, 2)
    counts = gate.boxes(Boxes(FINE, lower, upper), np.full(len(lower), BUDGET_UNITS))
    inside = (cells[None] >= lower[:, None]) & (cells[None] < upper[:, None])
    np.testing.assert_array_equal(counts, inside.all(axis=2) @ rows)
    assert counts.sum() == rows.sum()
    with pytest.raises(BudgetError):  # every cell has spent all
        gate.boxes(Boxes(FINE, np.array([[5, 5]]), np.array([[6, 6]])), np.array([1]))


def test_boxes_in_a_row_make_a_shallow_tree() -> None:
    many = 2**14
    edges = np.arange(many + 1)[:, None] * 60
    boxes = Boxes((10**6,), edges[:-1], edges[1:])
    tree = RegionTree((10**6,))
    tree.part(boxes)
    depth = tree.most_on_a_path(np.ones(tree.used, np.int64))
    assert tree.used == 2 * (many + 1) - 1
    assert depth <= 3 * math.log2(many)


def test_too_many_regions_are_refused_and_nothing_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions_of_boxes, "MAX_REGIONS", 2**6)
    gate = Gate(SparseRows(FINE, [np.zeros(1, np.int64)] * 2, np.ones(1, np.int64)), Fraction(1))
    some = np.arange(50)[:, None] * np.array([7, 11])
    with pytest.raises(DomainError, match="regions"):
        gate.boxes(Boxes(FINE, some, some + 3), np.full(50, 1000))
    assert gate._budget.most_charged() == 0
    whole = Boxes(FINE, np.zeros((1, 2), np.int64), np.array([FINE]))
    gate._budget.charge(whole, np.array([77]))
    with pytest.raises(BudgetError):
        gate._budget.charge(Boxes(FINE, some, some + 3), np.full(50, 1000))
    assert gate._budget._regions is not None
    assert gate._budget._regions.used > len(gate._budget._charged)  # the refused call has left its cuts
    assert gate._budget.most_charged() == 77
    gate._budget.charge(whole, np.array([1]))
    assert gate._budget.most_charged() == 78


@pytest.mark.parametrize(("many", "parts"), [(31, 63), (32, 0)])
def test_a_tree_has_as_many_nodes_as_are_allowed(many: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes in a row have a cut at the end of each, and every cut makes two nodes of one."""
    monkeypatch.setattr(regions_of_boxes, "MAX_REGIONS", 2**6)
    edges = np.arange(many + 1)[:, None]
    tree = RegionTree((many + 1,))
    if parts:
        tree.part(Boxes((many + 1,), edges[:-1], edges[1:]))
        assert tree.used == parts
    else:
        with pytest.raises(DomainError, match="more than 32 regions"):
            tree.part(Boxes((many + 1,), edges[:-1], edges[1:]))


@pytest.mark.parametrize("units", [[5, -3], [-3, 5], [0, 5], [1, 2**62, 2**62], [2**62, 2**62, 1], []])
def test_units_that_cannot_be_are_refused_and_change_nothing(units: list[int]) -> None:
    """The sum of the large ones is negative in 64 bits."""
    budget = CellBudget((4,), BUDGET_UNITS, by_cells=False)
    lower = np.zeros((len(units), 1), np.int64)
    with pytest.raises(BudgetError):
        budget.charge(Boxes((4,), lower, lower + 4), np.array(units, np.int64))
    assert budget.most_charged() == 0


def test_boxes_that_are_added_up_in_parts_are_all_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "_AT_A_TIME", 2)
    budget = CellBudget((4,), BUDGET_UNITS, by_cells=False)
    lower = np.zeros((3, 1), np.int64)
    budget.charge(Boxes((4,), lower[:2], lower[:2] + 4), np.array([1, 2]))
    assert budget.most_charged() == 3
    budget.charge(Boxes((4,), lower, lower + 4), np.array([1, 2, 3]))
    assert budget.most_charged() == 9
    for last in (BUDGET_UNITS - 11, BUDGET_UNITS - 12):
        assert accepted(budget, Boxes((4,), lower, lower + 4), np.array([1, 2, last])) == (last == BUDGET_UNITS - 12)


def test_boxes_of_another_cube_are_refused() -> None:
    gate = Gate(rows_of(np.ones((3, 3), np.int64)), Fraction(1), noise=SilentNoise())
    for boxes in (
        Boxes((3,), np.array([[0]]), np.array([[3]])),
        Boxes((4, 3), np.zeros((1, 2), int), np.ones((1, 2), int)),
    ):
        with pytest.raises(BudgetError):
            gate.boxes(boxes, np.array([5]))
    whole = Boxes((3, 3), np.zeros((1, 2), int), np.full((1, 2), 3))
    for units in (np.array([0]), np.array([5, 5]), np.array([5.0]), np.array([BUDGET_UNITS + 1])):
        with pytest.raises(BudgetError):
            gate.boxes(whole, units)
    assert gate.boxes(whole, np.array([BUDGET_UNITS])).tolist() == [9]
    assert len(gate.boxes(Boxes((3, 3), np.zeros((0, 2), int), np.zeros((0, 2), int)), np.array([], int))) == 0


def test_a_cube_of_too_many_cells_is_refused() -> None:
    assert RegionTree((2**31, 2**30)).used == 1
    with pytest.raises(DomainError, match="2\\^61"):
        RegionTree((2**31, 2**30, 2))
    with pytest.raises(InputError):
        Gate(rows_of(np.ones((3, 3), np.int64)), Fraction(1), max_rows=0)


def test_a_box_that_others_cut_has_the_rows_of_all_its_parts() -> None:
    exact = np.array([1, 20, 300, 4000, 0, 0, 0, 50_000])
    bounds = np.array([[0, 4], [0, 2], [0, 1], [6, 8], [7, 8], [0, 8]])
    boxes = Boxes((8,), bounds[:, :1], bounds[:, 1:])
    assert rows_of(exact).box_sums(boxes).reveal().tolist() == [4321, 21, 1, 50_000, 50_000, 54_321]


def test_sums_of_boxes_need_no_partition() -> None:
    exact = np.arange(24).reshape(4, 6)
    boxes = Boxes((4, 6), np.array([[0, 0], [1, 2], [1, 2]]), np.array([[4, 6], [2, 3], [4, 4]]))
    np.testing.assert_array_equal(rows_of(exact).box_sums(boxes).reveal(), box_sums(exact, boxes))
