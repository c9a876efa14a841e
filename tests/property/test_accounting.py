"""Budgets against models that are slow and plainly right: what is refused changes nothing, and nothing is overspent."""

from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core import budget as regions
from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, Partitioning
from dpcube.core.budget import CellBudget
from dpcube.core.candidates import MedianCuts
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.epsilon import check_positive
from dpcube.core.errors import BudgetError, DomainError, InputError
from dpcube.core.gate import Gate
from dpcube.measurements import Marginal
from dpcube.testing import SilentNoise
from dpcube.trees.growth import grow

quick = settings(deadline=None, max_examples=100, derandomize=True)
AMOUNTS = st.fractions(Fraction(1, 1000), Fraction(1, 2), max_denominator=1000)


@pytest.mark.parametrize("wrong", [Fraction(0), Fraction(-1, 10), 0.1, 1, "0.1", float("nan"), None])
def test_only_positive_rationals_are_charged(wrong: object) -> None:
    with pytest.raises(BudgetError, match="exact rational above 0"):
        check_positive(wrong)  # type: ignore[arg-type]


class Cells:
    """The model of a region budget: a fraction of what is left, for every cell by itself."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.left = {cell: Fraction(1) for cell in np.ndindex(shape)}

    def charge(self, lower: list[list[int]], upper: list[list[int]], units: list[int]) -> bool:
        left = dict(self.left)
        for low, high, amount in zip(lower, upper, units, strict=True):
            for cell in left:
                if all(a <= i < b for a, i, b in zip(low, cell, high, strict=True)):
                    left[cell] -= Fraction(amount, BUDGET_UNITS)
        if min(left.values()) < 0 or min(units) <= 0:
            return False
        self.left = left
        return True


def spend_the_rest(budget: CellBudget, cell: tuple[int, ...], shape: tuple[int, ...], share: Fraction) -> None:
    """Fail unless exactly `share` is left in a cell: one unit more is refused, and it is not."""
    box = Boxes(shape, np.array([cell]), np.array([cell]) + 1)
    with pytest.raises(BudgetError):
        budget.charge(box, np.array([int(share * BUDGET_UNITS) + 1]))
    if share:
        budget.charge(box, np.array([int(share * BUDGET_UNITS)]))


SHAPES = st.sampled_from([(4,), (3, 4), (2, 3, 2), (1, 5)])


@st.composite
def calls(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]], list[int]]:
    lower, upper, units = [], [], []
    for _ in range(draw(st.integers(1, 5))):
        ends = [sorted((draw(st.integers(0, side - 1)), draw(st.integers(0, side - 1)))) for side in shape]
        lower.append([low for low, _ in ends])
        upper.append([high + 1 for _, high in ends])
        units.append(
            draw(
                st.sampled_from(
                    [1, BUDGET_UNITS // 7, BUDGET_UNITS // 4, BUDGET_UNITS // 2, BUDGET_UNITS - 1, BUDGET_UNITS]
                )
            )
        )
    return lower, upper, units


@quick
@given(st.data(), SHAPES)
def test_every_cell_is_charged_the_sum_of_the_boxes_that_hold_it(data: st.DataObject, shape: tuple[int, ...]) -> None:
    budget, model = CellBudget(shape, BUDGET_UNITS, by_cells=data.draw(st.booleans())), Cells(shape)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            lower, upper, units = data.draw(calls(shape))
            accepted = model.charge(lower, upper, units)
        else:
            lower, upper = [[0] * len(shape)], [list(shape)]
            units = [data.draw(st.sampled_from([1, BUDGET_UNITS // 5, BUDGET_UNITS]))]
            accepted = model.charge(lower, upper, units)
        try:
            if len(units) == 1 and not any(lower[0]) and upper == [list(shape)] and data.draw(st.booleans()):
                budget.charge_all(units[0])
            else:
                budget.charge(Boxes(shape, np.array(lower), np.array(upper)), np.array(units))
        except BudgetError:
            assert not accepted
        else:
            assert accepted
    for cell, share in model.left.items():
        assert share >= 0
        spend_the_rest(budget, cell, shape, share)


def cuts_of(shape: tuple[int, ...], lower: list[list[int]], upper: list[list[int]]) -> MedianCuts:
    """Cuts of those boxes that can be cut and meet none before them, or of the whole."""
    kept: list[list[list[int]]] = []
    for low, high in zip(lower, upper, strict=True):
        meets = any(all(a < d and c < b for a, b, c, d in zip(low, high, *one, strict=True)) for one in kept)
        if not meets and max(b - a for a, b in zip(low, high, strict=True)) > 1:
            kept.append([low, high])
    bounds = np.array(kept or [[[0] * len(shape), list(shape)]])
    boxes = Boxes(shape, bounds[:, 0], bounds[:, 1])
    return MedianCuts(boxes, np.argmax(boxes.upper - boxes.lower, axis=1))


class CountsDraws(SilentNoise):
    """Silence that knows how many values it was asked for."""

    def __init__(self) -> None:
        self.values = 0

    def draw(self, epsilon: Fraction, size: int) -> Ints:
        self.values += size
        return super().draw(epsilon, size)


@quick
@given(st.data(), SHAPES)
def test_no_order_of_cells_boxes_tables_and_choices_overdraws_a_cell(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    """A call is granted if and only if every cell can pay for it, and draws nothing if it is not."""
    gate, model = Gate(np.ones(shape, np.int64), Fraction(1), noise=(noise := CountsDraws())), Cells(shape)
    whole = [[0] * len(shape)], [list(shape)]
    shares = st.sampled_from([1, BUDGET_UNITS // 5, BUDGET_UNITS // 3, BUDGET_UNITS // 2, BUDGET_UNITS])
    for _ in range(data.draw(st.integers(1, 8))):
        verb, before = data.draw(st.sampled_from(["cells", "boxes", "marginal", "choice"])), noise.values
        if verb == "choice":
            amount = max(data.draw(shares), 10_000)  # as little as can be drawn with
            cuts = cuts_of(shape, *data.draw(calls(shape))[:2])
            lower, upper = cuts.boxes.lower.tolist(), cuts.boxes.upper.tolist()
            accepted = model.charge(lower, upper, [amount] * len(lower))
            asked: Callable[[], Ints] = partial(gate.select, cuts, amount)
        elif verb == "boxes":
            lower, upper, units = data.draw(calls(shape))
            boxes, accepted = Boxes(shape, np.array(lower), np.array(upper)), model.charge(lower, upper, units)
            asked = partial(gate.boxes, boxes, np.array(units))
        else:
            amount = data.draw(shares)
            accepted = model.charge(*whole, [amount])
            axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
            asked = partial(every_cell, gate, amount) if verb == "cells" else partial(gate.marginal, axes, amount)
        with nullcontext() if accepted else pytest.raises(BudgetError, match="nothing was drawn"):
            said = asked()
        drawn = int(cuts.sizes.sum()) if verb == "choice" else said.size if accepted else 0
        assert noise.values - before == (drawn if accepted else 0)
    for cell, share in model.left.items():
        spend_the_rest(gate._budget, cell, shape, share)


@quick
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([BUDGET_UNITS // 8, BUDGET_UNITS // 3, BUDGET_UNITS // 2]), max_size=5),
)
def test_a_partitioning_is_charged_as_its_boxes_are(seed: int, charges: list[int]) -> None:
    """The short cut for a partitioning of equal units debits what the same boxes debit one by one."""
    generator = np.random.default_rng(seed)
    shape = (4, 3)
    parts = grow(generator.integers(0, 9, shape), threshold=0, max_boxes=int(generator.integers(1, 8))).partitioning()
    one, other = CellBudget(shape, BUDGET_UNITS), CellBudget(shape, BUDGET_UNITS)
    boxes = Boxes(shape, parts.lower, parts.upper)
    left = BUDGET_UNITS
    for amount in charges:
        units = np.full(len(parts), amount)
        refused = amount > left
        for budget, measured in ((one, parts), (other, boxes)):
            if refused:
                with pytest.raises(BudgetError):
                    budget.charge(measured, units)
            else:
                budget.charge(measured, units)
        left -= 0 if refused else amount
    for cell in np.ndindex(shape):
        spend_the_rest(one, cell, shape, Fraction(left, BUDGET_UNITS))
        spend_the_rest(other, cell, shape, Fraction(left, BUDGET_UNITS))


@pytest.mark.parametrize("how", ["all", "partitioning", "unequal partitioning", "boxes"])
def test_a_cell_that_is_one_unit_short_refuses_for_all(how: str) -> None:
    budget = CellBudget((4,), BUDGET_UNITS)
    budget.charge(Boxes((4,), np.array([[2]]), np.array([[3]])), np.array([1]))
    halves = Partitioning((4,), np.array([[0], [2]]), np.array([[2], [4]]))
    for amount in (BUDGET_UNITS, BUDGET_UNITS - 1):  # the first is one unit more than the third cell has
        refusal = pytest.raises(BudgetError) if amount == BUDGET_UNITS else nullcontext()
        with refusal:
            match how:
                case "all":
                    budget.charge_all(amount)
                case "partitioning":
                    budget.charge(halves, np.array([amount, amount]))
                case "unequal partitioning":
                    budget.charge(halves, np.array([1, amount]))
                case "boxes":
                    budget.charge(Boxes((4,), np.array([[1]]), np.array([[4]])), np.array([amount]))
    spend_the_rest(budget, (2,), (4,), Fraction(0))


def test_the_parts_of_a_partitioning_may_have_unequal_units() -> None:
    budget = CellBudget((4,), BUDGET_UNITS)
    parts = Partitioning((4,), np.array([[0], [1]]), np.array([[1], [4]]))
    budget.charge(parts, np.array([BUDGET_UNITS // 4, BUDGET_UNITS // 2]))
    spend_the_rest(budget, (0,), (4,), Fraction(3, 4))
    for cell in (1, 2, 3):
        spend_the_rest(budget, (cell,), (4,), Fraction(1, 2))


@pytest.mark.parametrize(
    "units",
    [
        np.array([0, 5]),
        np.array([5, -1]),
        np.array([5]),
        np.array([[5, 5]]),
        np.array([5.0, 5.0]),
        np.array([5, 5], np.int32),
        np.array([True, True]),
        np.array([2**62, 2**62]),
        np.array([2**63 - 1, 1]),
        np.array([BUDGET_UNITS + 1, 1]),
    ],
    ids=str,
)
def test_units_that_cannot_be_are_refused(units: Ints) -> None:
    boxes = Boxes((4,), np.array([[0], [1]]), np.array([[2], [4]]))
    budget = CellBudget((4,), BUDGET_UNITS)
    with pytest.raises(BudgetError):
        budget.charge(boxes, units)
    budget.charge_all(BUDGET_UNITS)  # nothing had been taken


@pytest.mark.parametrize("units", [0, -1, BUDGET_UNITS + 1, 2**63, 2**70, float("nan"), 0.5, 1.0, "1", None])
@pytest.mark.parametrize("before", [None, 7])
def test_units_of_all_cells_that_cannot_be_are_refused(units: Any, before: int | None) -> None:
    budget = CellBudget((4,), BUDGET_UNITS)
    if before is not None:  # from here on each cell has a number of its own
        budget.charge(Boxes((4,), np.array([[1]]), np.array([[3]])), np.array([before]))
    with pytest.raises(BudgetError):
        budget.charge_all(units)
    budget.charge_all(BUDGET_UNITS - (before or 0))


@pytest.mark.parametrize("units", [0, -1, BUDGET_UNITS + 1, 2**63, 2**70, float("nan"), 0.5, 1.0, "1", None])
def test_units_of_a_choice_that_cannot_be_are_refused(units: Any) -> None:
    gate = Gate(np.ones(6, np.int64), Fraction(1), noise=SilentNoise())
    cuts = MedianCuts(Boxes((6,), np.array([[3], [0]]), np.array([[5], [2]])), np.array([0, 0]))
    with pytest.raises((BudgetError, InputError)):
        gate.select(cuts, units)
    gate.select(cuts, BUDGET_UNITS)
    for cell, left in ((0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (5, 1)):
        spend_the_rest(gate._budget, (cell,), (6,), Fraction(left))


def test_sums_of_huge_units_do_not_wrap_around() -> None:
    """Four times 2^62 is 0 in 64 bits."""
    boxes = Boxes((3,), np.zeros((4, 1), np.int64), np.full((4, 1), 3))
    budget = CellBudget((3,), BUDGET_UNITS)
    with pytest.raises(BudgetError):
        budget.charge(boxes, np.full(4, 2**62))
    budget.charge_all(BUDGET_UNITS)


def test_sums_of_many_boxes_do_not_wrap_around() -> None:
    """2^24 full charges on one cell add up to 2^64, which is 0 in 64 bits."""
    many = 2**24
    lower, upper = np.zeros((many, 1), np.int64), np.ones((many, 1), np.int64)
    lower.flags.writeable = upper.flags.writeable = False  # taken without a copy
    boxes = Boxes((1,), lower, upper)
    budget = CellBudget((1,), BUDGET_UNITS)
    with pytest.raises(BudgetError):
        budget.charge(boxes, np.full(many, BUDGET_UNITS))
    budget.charge_all(BUDGET_UNITS)


def test_many_disjoint_boxes_may_have_the_whole_budget_each() -> None:
    many = 2**22 + 1
    lower = np.arange(many)[:, None]
    budget = CellBudget((many,), BUDGET_UNITS)
    budget.charge(Boxes((many,), lower, lower + 1), np.full(many, BUDGET_UNITS))
    with pytest.raises(BudgetError):
        budget.charge(Boxes((many,), np.array([[many - 1]]), np.array([[many]])), np.array([1]))


@quick
@given(st.data(), SHAPES)
def test_boxes_summed_a_few_at_a_time_are_charged_alike(data: st.DataObject, shape: tuple[int, ...]) -> None:
    lower, upper, units = data.draw(calls(shape))
    model, budget = Cells(shape), CellBudget(shape, BUDGET_UNITS)
    accepted = model.charge(lower, upper, units)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "_AT_A_TIME", data.draw(st.integers(1, 3)))
        try:
            budget.charge(Boxes(shape, np.array(lower), np.array(upper)), np.array(units))
        except BudgetError:
            assert not accepted
        else:
            assert accepted
    for cell, share in model.left.items():
        spend_the_rest(budget, cell, shape, share)


def test_boxes_of_another_shape_are_refused() -> None:
    budget = CellBudget((4, 3), BUDGET_UNITS)
    with pytest.raises(BudgetError, match="shape"):
        budget.charge(Boxes((3, 4), np.array([[0, 0]]), np.array([[1, 1]])), np.array([1]))


class NeverDrawn:
    """Noise that fails the test when it is drawn."""

    private = False

    def draw(self, epsilon: Fraction, size: int) -> NoReturn:
        pytest.fail(f"noise was drawn ({size} values at {epsilon}) for a request that had to be refused")


class Allowed(NeverDrawn):
    """Noise that may be drawn a number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def draw(self, epsilon: Fraction, size: int) -> Ints:  # type: ignore[override]
        if not self.times:
            super().draw(epsilon, size)
        self.times -= 1
        return np.zeros(size, np.int64)


def one_cell_too_much(counter: NoisyCounter) -> None:
    """Two boxes with half of the budget each, and a third that meets both in one cell."""
    boxes = Boxes((4, 4), np.array([[0, 0], [0, 0], [3, 3]]), np.array([[4, 4], [1, 1], [4, 4]]))
    counter.boxes(boxes, np.array([BUDGET_UNITS // 2, BUDGET_UNITS // 2 + 1, BUDGET_UNITS // 2]))


def over_two_calls(counter: NoisyCounter) -> None:
    every_cell(counter, BUDGET_UNITS // 2)
    counter.boxes(Boxes((4, 4), np.array([[2, 1]]), np.array([[3, 4]])), np.array([BUDGET_UNITS // 2 + 1]))


def all_cells_twice(counter: NoisyCounter) -> None:
    every_cell(counter, BUDGET_UNITS // 2)
    every_cell(counter, BUDGET_UNITS // 2 + 1)


def tables_after_cells(counter: NoisyCounter) -> None:
    every_cell(counter, BUDGET_UNITS // 2)
    counter.marginal((1,), BUDGET_UNITS // 2 + 1)


def cells_after_tables(counter: NoisyCounter) -> None:
    counter.marginal((0,), BUDGET_UNITS // 2)
    counter.marginal((0, 1), BUDGET_UNITS // 2)
    every_cell(counter, 1)


def a_choice_after_cells(counter: NoisyCounter) -> None:
    every_cell(counter, BUDGET_UNITS // 2)
    counter.select(
        MedianCuts(Boxes((4, 4), np.array([[2, 1]]), np.array([[3, 4]])), np.array([1])), BUDGET_UNITS // 2 + 1
    )


def cells_after_a_choice(counter: NoisyCounter) -> None:
    counter.select(MedianCuts(Boxes((4, 4), np.array([[2, 1]]), np.array([[3, 4]])), np.array([1])), BUDGET_UNITS)
    every_cell(counter, 1)


def leaves_after_all(counter: NoisyCounter) -> None:
    every_cell(counter, BUDGET_UNITS)
    halves = Partitioning((4, 4), np.array([[0, 0], [2, 0]]), np.array([[2, 4], [4, 4]]))
    counter.boxes(halves, np.array([1, 1]))


@pytest.mark.parametrize(
    ("strategy", "fair_draws"),
    [
        (one_cell_too_much, 0),
        (over_two_calls, 1),
        (all_cells_twice, 1),
        (tables_after_cells, 1),
        (cells_after_tables, 2),
        (a_choice_after_cells, 1),
        (cells_after_a_choice, 1),
        (leaves_after_all, 1),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_gate_refuses_to_overspend_one_cell_before_it_draws(
    strategy: Callable[[NoisyCounter], None], fair_draws: int
) -> None:
    noise = Allowed(fair_draws)
    gate = Gate(np.arange(16).reshape(4, 4), Fraction(1), noise=noise)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        strategy(gate)
    assert noise.times == 0  # what was affordable had been drawn


def test_what_one_region_leaves_another_cannot_take() -> None:
    """Leftovers belong to their cells: the left half's may be spent on the left half only."""
    gate = Gate(np.arange(8), Fraction(1), noise=Allowed(2))
    left, right = (Boxes((8,), np.array([[a]]), np.array([[b]])) for a, b in ((0, 4), (4, 8)))
    gate.boxes(right, np.array([BUDGET_UNITS]))
    with pytest.raises(BudgetError):
        gate.boxes(Boxes((8,), np.array([[3]]), np.array([[5]])), np.array([1]))
    gate.boxes(left, np.array([BUDGET_UNITS]))


def test_cells_cannot_claim_more_than_the_whole_budget() -> None:
    with pytest.raises(DomainError, match="units"):
        Marginal.from_cells(np.zeros(4, np.int64), BUDGET_UNITS + 1)
