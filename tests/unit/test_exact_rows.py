"""Rows of cubes that nobody could hold: counted where they are, hidden, asked for small tables, or refused."""

import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube import Category, Domain, Integer
from dpcube.core import exact
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import BestSplit, MedianCuts, TableDistances
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError, InputError
from dpcube.core.exact import DenseCounts, SparseRows
from dpcube.core.gate import Gate
from dpcube.core.limits import MAX_KEY_CELLS
from dpcube.core.noise import ExactNoise
from dpcube.core.sources import open_rows
from dpcube.core.sources.aggregates import coded, key_name, key_runs
from dpcube.curator.total_first import draw_total
from dpcube.testing import SilentNoise

WIDE = (2**31,) * 5
ONE = np.ones(1, np.int64)


@given(shape=st.lists(st.integers(1, 2**31), min_size=1, max_size=64), data=st.data())
def test_keys_tell_every_cell_apart(shape: list[int], data: st.DataObject) -> None:
    runs = key_runs(tuple(shape))
    assert [axis for run in runs for axis in run] == list(range(len(shape)))
    assert all(math.prod(shape[axis] for axis in run) <= MAX_KEY_CELLS or len(run) == 1 for run in runs)
    cell = [data.draw(st.integers(0, side - 1)) for side in shape]
    answer: dict[str, Any] = {"answer": np.array([3, 4])}
    for place, run in enumerate(runs):
        key = 0
        for axis in run:
            key = key * shape[axis] + cell[axis]
        answer[key_name(place)] = np.array([key, math.prod(shape[axis] for axis in run)], np.uint64)
    codes, rows = coded(answer, tuple(shape))  # the second row has no cell
    assert [int(code[0]) for code in codes] == cell
    assert [len(code) for code in codes] == [1] * len(shape)
    assert rows.tolist() == [3]


def test_a_run_of_axes_is_as_long_as_its_cells_have_numbers() -> None:
    assert key_runs((2**31, 2**31)) == [range(2)]
    assert key_runs((2**31, 2**31, 2)) == [range(2), range(2, 3)]
    assert key_runs((2**40, 2**30, 2**31)) == [range(1), range(1, 2 + 1)]
    assert [key_name(number) for number in range(3)] == ["cell", "cell1", "cell2"]


@pytest.mark.parametrize("side", [1, 2, 256, 257, 65_537])
def test_the_last_cell_of_an_axis_is_itself_in_as_few_bits_as_hold_it(side: int) -> None:
    codes, rows = coded({"cell": np.array([side - 1]), "answer": np.array([3])}, (side,))
    assert (codes[0].tolist(), rows.tolist()) == ([side - 1], [3])
    assert codes[0].dtype == (np.uint8 if side <= 256 else np.uint16 if side <= 65_536 else np.uint32)


def test_rows_of_a_wide_table_are_those_that_its_cubes_count() -> None:
    generator = np.random.default_rng(3)
    columns = {f"x{j}": generator.integers(-1, 12, 500) for j in range(30)}  # -1 and 11 and up are dropped
    kind = ["red", "green", "blue"]
    columns = {**columns, "kind": np.array([*kind, "none of these"])[generator.integers(0, 4, 500)]}
    table = pa.table(columns)
    domain = Domain([*(Integer(f"x{j}", 0, 11) for j in range(30)), Category("kind", tuple(kind))])
    assert domain.size > 2**64
    codes, rows = open_rows(table).count_alike(domain)
    kept = np.all([(columns[f"x{j}"] >= 0) & (columns[f"x{j}"] <= 11) for j in range(30)], axis=0)
    kept &= columns["kind"] != "none of these"
    assert rows.sum() == kept.sum() > 0
    hidden = SparseRows(domain.shape, codes, rows)
    for names in (("x0",), ("x3", "x29"), ("x0", "x11", "kind")):
        axes = tuple(domain.axis(name) for name in names)
        exact = open_rows(table.filter(pa.array(kept))).count_cells(domain.project(names))
        np.testing.assert_array_equal(hidden.marginal(axes).reveal(), exact)
    assert hidden.total().reveal().tolist() == [kept.sum()]


def test_nothing_shows_what_rows_there_are() -> None:
    hidden = SparseRows((3, 2), [np.array([0, 2]), np.array([1, 1])], np.array([7654321, 5]))
    assert "7654321" not in repr(hidden) + str([getattr(hidden, name) for name in hidden.__slots__])
    with pytest.raises(AttributeError):
        hidden.shape = (1,)
    assert "7654321" not in repr(Gate(hidden, Fraction(1)))


def test_a_coarser_cube_has_the_sums_of_its_groups() -> None:
    hidden = SparseRows((3, 2), [np.array([0, 1, 2, 2]), np.array([1, 1, 0, 1])], np.array([4, 5, 6, 7]))
    coarse = hidden.grouped([np.array([1, 0, 1]), np.array([0, 0])])
    assert coarse.shape == (2, 1)
    assert coarse.marginal((0, 1)).reveal().tolist() == [[5], [17]]


def test_tables_that_are_kept_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.exact.MAX_CACHED_CELLS", 4)
    hidden = SparseRows((3, 2), [np.array([0, 2]), np.array([1, 1])], np.array([4, 5]))
    for _ in range(2):
        assert hidden.marginal((0,)).reveal().tolist() == [4, 0, 5]
        assert hidden.marginal((1,)).reveal().tolist() == [0, 9]
        assert hidden.marginal((0, 1)).reveal().tolist() == [[0, 4], [0, 0], [0, 5]]
    assert sum(table.size for table in hidden._kept().values()) <= 6


def test_kept_tables_and_blocks_take_as_much_memory_as_is_said() -> None:
    """128 MiB of tables, and half a megabyte a column: more could fail after the charge."""
    assert 8 * exact.MAX_CACHED_CELLS == 128 * 2**20
    assert 8 * exact.BLOCK_ROWS == 2**19


def test_tables_that_fill_the_room_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.exact.MAX_CACHED_CELLS", 5)
    hidden = SparseRows((3, 2), [np.array([0, 2]), np.array([1, 1])], np.array([4, 5]))
    for axes in ((0,), (1,)):
        hidden.marginal(axes)
    assert set(hidden._kept()) == {(0,), (1,)}
    hidden.marginal((0, 1))
    assert set(hidden._kept()) == {(0, 1)}


def test_the_total_of_a_wide_table_is_drawn_first_too() -> None:
    rows = SparseRows(WIDE, [np.array([7])] * 5, np.array([60_000]))
    assert abs(draw_total(rows, Fraction(10), max_rows=1) - 60_000) < 50
    assert abs(draw_total(DenseCounts(np.array([[60_000, 1]])), Fraction(10), max_rows=1) - 60_001) < 50


def wide_gate() -> Gate:
    return Gate(SparseRows(WIDE, [np.array([7])] * 5, ONE), Fraction(1), noise=SilentNoise())


LINE = Boxes((2,), np.array([[0]]), np.array([[2]]))
IDENTITY = [np.zeros(4, np.int64), np.arange(2)]


@pytest.mark.parametrize("axes", [(), (1, 0), (5,), (0, 0), [0], (0,), (0, 1), (0, 1, 2, 3, 4), (True,)])
def test_a_table_that_cannot_be_is_refused_before_a_charge(axes: Any) -> None:
    gate = wide_gate()
    with pytest.raises(InputError):
        gate.marginal(axes, BUDGET_UNITS)
    assert gate._budget._left == BUDGET_UNITS


@pytest.mark.parametrize("candidates", [MedianCuts(LINE, np.array([0])), None, "tables"])
def test_other_choices_are_refused_before_a_charge(candidates: Any) -> None:
    gate = wide_gate()
    with pytest.raises(InputError):
        gate.select(candidates, BUDGET_UNITS)
    assert gate._budget._left == BUDGET_UNITS


def square_gate(epsilon: Fraction = Fraction(1)) -> Gate:
    return Gate(SparseRows((2, 2), [np.array([1]), np.array([0])], ONE), epsilon, noise=SilentNoise())


def table_of_ones(shape: tuple[int, ...]) -> TableDistances:
    return TableDistances(shape, ((0,),), (np.ones(shape[0], np.int64),), ONE, ONE)


def test_scores_of_tables_that_are_too_large_are_refused_before_a_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.exact.MAX_TABLE_CELLS", 3)
    gate = square_gate()
    whole = Boxes((2, 2), np.array([[0, 0]]), np.array([[2, 2]]))
    with pytest.raises(InputError, match="4 cells; at most 3"):
        gate.select(BestSplit(whole, target=1, axes=(0,)), BUDGET_UNITS)
    assert gate._budget._left == BUDGET_UNITS
    assert gate.select(MedianCuts(whole, np.array([0])), BUDGET_UNITS).tolist() == [0]


def test_a_choice_in_another_cube_is_refused_before_a_charge() -> None:
    gate = square_gate()
    with pytest.raises(InputError, match="shape"):
        gate.select(table_of_ones((3, 2)), BUDGET_UNITS)
    assert gate._budget._left == BUDGET_UNITS


@pytest.mark.parametrize("units", [0, -1, 2.0, "7", None, float("nan")])
def test_a_choice_is_charged_a_whole_number_of_units(units: Any) -> None:
    gate = square_gate()
    with pytest.raises(BudgetError, match="positive whole number of units"):
        gate.select(table_of_ones((2, 2)), units)
    assert gate._budget._left == BUDGET_UNITS


def test_a_choice_whose_noise_cannot_be_drawn_is_refused_before_a_charge() -> None:
    gate = square_gate(Fraction(1, 10**6))
    with pytest.raises(InputError, match="noise cannot be drawn"):
        gate.select(table_of_ones((2, 2)), 1)
    assert gate._budget._left == BUDGET_UNITS


@pytest.mark.parametrize("more", [0, 1])
def test_a_table_has_as_many_cells_as_are_counted_at_once(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.exact.MAX_TABLE_CELLS", 4 - more)
    gate = square_gate()
    if more:
        with pytest.raises(InputError, match="4 cells; at most 3"):
            gate.marginal((0, 1), BUDGET_UNITS)
        assert gate._budget._left == BUDGET_UNITS
    else:
        assert gate.marginal((0, 1), BUDGET_UNITS).tolist() == [[0, 0], [1, 0]]


def test_a_gate_that_is_given_no_noise_has_the_real_thing() -> None:
    made = Gate(SparseRows((2, 2), [np.array([1]), np.array([0])], ONE), Fraction(1))
    assert made.private
    assert made._noise == ExactNoise()


def test_rows_are_counted_in_64_bits_whatever_their_type() -> None:
    rows: Any = np.array([200, 7, 100, 7], np.uint8)[::2]
    hidden = SparseRows((3,), [np.array([0, 2], np.uint8)], rows)
    assert hidden.marginal((0,)).reveal().tolist() == [200, 0, 100]
    assert hidden.total().reveal().tolist() == [300]
    assert hidden._hold()[1].dtype == np.int64


@pytest.mark.parametrize("side", [1, 2, 256, 257, 65_537])
def test_the_last_group_of_many_is_itself(side: int) -> None:
    hidden = SparseRows((side, 2), [np.array([side - 1]), np.array([1])], np.array([5]))
    coarse = hidden.grouped([np.arange(side), np.zeros(2, np.int64)])
    assert coarse.marginal((0,)).reveal()[-1] == 5
    groups = coarse._hold()[2]
    assert groups is not None
    assert groups[0].dtype == (np.uint8 if side <= 256 else np.uint16 if side <= 65_536 else np.uint32)


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [np.zeros(4, np.int64)],
        [np.zeros(4, np.int64), np.array([0, 2])],
        [np.zeros(4, np.int64), np.array([-1, 0])],
        [np.zeros(4, np.int64), np.array([0.0, 1.0])],
        [np.zeros(3, np.int64), np.arange(2)],
        [*IDENTITY, np.arange(2)],
        [np.zeros((4, 1), np.int64), np.arange(2)],
        [np.zeros(4, np.int64), np.empty(0, np.int64)],
    ],
    ids=range(9),
)
def test_groups_that_are_none_are_refused(groups: Any) -> None:
    gate = Gate(SparseRows((4, 2), [np.array([1]), np.array([1])], ONE), Fraction(1), noise=SilentNoise())
    with pytest.raises(InputError, match="groups"):
        gate.grouped(groups)
    gate.grouped(IDENTITY)


def test_groups_are_taken_as_they_were() -> None:
    gate = Gate(SparseRows((4, 2), [np.array([3]), np.array([1])], ONE), Fraction(1), noise=SilentNoise())
    groups = [np.array([0, 1, 2, 3]), np.arange(2)]
    coarse = gate.grouped(groups)
    groups[0][:] = 0
    assert coarse.marginal((0,), BUDGET_UNITS).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("sides", [(2,) * 64, (2**31,) * 3])
def test_a_prediction_for_a_table_that_nobody_could_hold_is_refused(sides: tuple[int, ...]) -> None:
    """The product of 64 twos is 0 in 64 bits."""
    with pytest.raises(InputError):
        TableDistances(sides, (tuple(range(len(sides))),), (ONE,), ONE, ONE)


# Memory that goes by rows is taken before the charge.

ROWS = 300_000


def many_rows(sides: tuple[int, ...]) -> SparseRows:
    generator = np.random.default_rng(4)
    codes = [generator.integers(0, side, ROWS).astype(np.uint8) for side in sides]
    return SparseRows(sides, codes, generator.integers(1, 5, ROWS))


def table_of_pair(gate: Gate) -> None:
    gate.marginal((0, 2), 1)


def table_of_a_coarser_cube(gate: Gate) -> None:
    gate.grouped([np.arange(100) // 7, np.arange(50), np.zeros(9, np.int64)]).marginal((0, 1), 1)


def selection(gate: Gate) -> None:
    predicted = tuple(np.zeros(shape, np.int64) for shape in ((100, 50), (50, 9)))
    gate.select(
        TableDistances(gate.shape, ((0, 1), (1, 2)), predicted, np.ones(2, np.int64), np.zeros(2, np.int64)),
        BUDGET_UNITS // 10,
    )


@pytest.mark.parametrize("ask", [table_of_pair, table_of_a_coarser_cube, selection])
def test_tables_take_no_memory_by_rows(ask: Callable[[Gate], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of one column of the rows would be 2.4 MB."""
    gate = Gate(many_rows((100, 50, 9)), Fraction(1), noise=SilentNoise())
    monkeypatch.setattr("dpcube.core.exact.BLOCK_ROWS", 2**12)
    assert taken(lambda: ask(gate)) < 2**20


def test_boxes_take_no_memory_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(many_rows((100, 50, 9)), Fraction(1), noise=SilentNoise())
    box = Boxes((100, 50, 9), np.array([[3, 4, 5]]), np.array([[90, 40, 8]]))
    gate.boxes(box, np.array([1]))  # the loops are compiled
    monkeypatch.setattr("dpcube.core.exact.BLOCK_ROWS", 2**12)
    assert taken(lambda: gate.boxes(box, np.array([1]))) < 2**20


def taken(run: Callable[[], object]) -> int:
    """Return the memory that a run takes at its most."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(data=st.data())
def test_blocks_of_rows_count_as_all_rows_at_once(data: st.DataObject) -> None:
    shape, number = (4, 3, 5), data.draw(st.integers(0, 12))
    codes = [
        np.array(data.draw(st.lists(st.integers(0, side - 1), min_size=number, max_size=number)), np.int64)
        for side in shape
    ]
    alike = np.array(data.draw(st.lists(st.integers(1, 9), min_size=number, max_size=number)), np.int64)
    cube = np.zeros(shape, np.int64)
    np.add.at(cube, tuple(codes), alike)
    groups = [np.array([0, 1, 1, 0]), np.array([0, 0, 1]), np.array([2, 0, 1, 1, 2])]
    twice = [np.array([1, 0]), np.array([0, 0]), np.array([0, 1, 0])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpcube.core.exact.BLOCK_ROWS", data.draw(st.integers(1, 5)))
        hidden = SparseRows(shape, codes, alike)
        assert (hidden.marginal((0, 1, 2)).reveal() == cube).all()
        assert (hidden.marginal((1,)).reveal() == cube.sum((0, 2))).all()
        coarse = hidden.grouped(groups).grouped(twice)
        expected = np.zeros((2, 1, 2), np.int64)
        np.add.at(expected, tuple(of[first[code]] for of, first, code in zip(twice, groups, codes, strict=True)), alike)
        assert (coarse.marginal((0, 1, 2)).reveal() == expected).all()
        boxes = Boxes(shape, np.array([[1, 0, 2], [0, 0, 0]]), np.array([[4, 2, 5], [4, 3, 5]]))
        assert hidden.box_sums(boxes).reveal().tolist() == [cube[1:4, 0:2, 2:5].sum(), cube.sum()]
