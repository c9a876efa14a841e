"""The exact audit of the gate over every store of exact data, and for each way to break it a twin it does not pass.

Marginals, boxes, coarser cubes and all of them together lose what cells were charged, to the digit, and no more
(`auditor.py`). Selections are audited in `test_selection_audit.py`, whole strategies in `test_release_audit.py`.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from auditor import (
    CUBES,
    EPSILON,
    INFINITE,
    Axes,
    BudgetOfItsOwn,
    CallsForgotten,
    ChargeForgotten,
    DrawsFirst,
    FromNoisyCells,
    LargestUnits,
    MakeGate,
    MostOfABox,
    OneAccount,
    Overlapping,
    ReusesNoise,
    RowsTwice,
    Said,
    Script,
    SharedNoise,
    SilentWhereEmpty,
    Tape,
    Witness,
    asking,
    draws,
    half_the_noise,
    job,
    over,
    rows_forgotten,
    too_little,
    worst,
)
from checks import Values

from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.candidates import TableDistances
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import BudgetError
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise
from dpcube.strategies import Cells, Strategy, TwoPhase

STORES = pytest.mark.parametrize("store", ["dense", "sparse"])
WHOLE_BUDGET, HALF, QUARTER = BUDGET_UNITS, BUDGET_UNITS // 2, BUDGET_UNITS // 4
EIGHTH = BUDGET_UNITS // 8
THIRD = BUDGET_UNITS // 3
SQUARE = (2, 3)
FIRST_TWO = [np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1, 0, 0])]
"""Groups of an axis of three cells."""


def square(*bounds: tuple[int, int, int, int]) -> Boxes:
    """Boxes of the square: first row and column, and those behind the last."""
    array = np.array(bounds)
    return Boxes(SQUARE, array[:, :2], array[:, 2:])


WHOLE, LEFT, RIGHT = (0, 0, 2, 3), (0, 0, 2, 1), (0, 1, 2, 3)
CELLS = [(row, column, row + 1, column + 1) for row in range(2) for column in range(3)]
Call = tuple[Axes, int] | tuple[Boxes, int | list[int]]


def calls(*asked: Call) -> Script:
    """Marginals over axes, and boxes with units for every one or for each; fewest units are said first."""

    def run(counter: NoisyCounter) -> Said:
        said = []
        for what, amounts in asked:
            if isinstance(what, Boxes):
                units = np.resize(amounts, len(what))
                counts = counter.boxes(what, units)
                said += [counts[units == some] for some in np.unique(units)]
            else:
                assert isinstance(amounts, int)
                said.append(counter.marginal(what, amounts).reshape(-1))
        return said

    return run


def refining(counter: NoisyCounter) -> Said:
    """The whole, its halves, then the cells of the half that looks larger and the other half once more."""
    said = [counter.boxes(square(WHOLE), np.array([QUARTER]))]
    said.append(counter.boxes(square(LEFT, RIGHT), np.full(2, QUARTER)))
    left = said[1][0] >= said[1][1]
    finer = [cell for cell in CELLS if (cell[1] == 0) == left]
    return [*said, counter.boxes(square(*finer, RIGHT if left else LEFT), np.full(len(finer) + 1, HALF))]


def every_verb(counter: NoisyCounter) -> Said:
    """A marginal, then the cells, a box, and a marginal that is chosen by what the first one said."""
    corner = np.zeros((1, len(counter.shape)), np.int64)
    first = counter.marginal((1,), QUARTER)
    said = [first, every_cell(counter, QUARTER).reshape(-1)]
    said.append(counter.boxes(Boxes(counter.shape, corner, corner + 1), np.array([QUARTER])))
    return [*said, counter.marginal((0,) if first[0] > first[1] else (0, 1), QUARTER).reshape(-1)]


def coarser(counter: NoisyCounter) -> Said:
    """A marginal, then marginals and boxes of a coarser cube, in groups that the first one chose."""
    said = [counter.marginal((0,), HALF)]
    coarse = counter.grouped([np.arange(2), FIRST_TWO[int(abs(said[0][0])) % 3]])
    said.append(coarse.marginal((1,), QUARTER))
    said.append(coarse.marginal((0, 1), EIGHTH).reshape(-1))
    halves = Boxes((2, 2), np.array([[0, 0], [1, 0]]), np.array([[1, 2], [2, 2]]))
    return [*said, coarse.boxes(halves, np.full(2, EIGHTH))]


TREE: list[Call] = [(square(WHOLE), QUARTER), (square(LEFT, RIGHT), QUARTER), (square(*CELLS), HALF)]
UNEVEN: list[Call] = [
    (square(RIGHT, LEFT), [BUDGET_UNITS, QUARTER]),
    (square(CELLS[0], LEFT, CELLS[3]), [HALF, QUARTER, HALF]),
]
"""Every cell is charged the whole budget, the left ones in parts, in calls whose boxes have different units."""
APART: list[Call] = [(square(LEFT), WHOLE_BUDGET), (square(RIGHT), HALF), (square(CELLS[2], CELLS[5]), HALF)]
SCRIPTS: dict[str, tuple[str, Script]] = {
    "marginals of a square": ("square", calls(((0,), QUARTER), ((1,), QUARTER), ((0, 1), HALF))),
    "marginals of a cube": ("cube", calls(((0,), QUARTER), ((0, 2), EIGHTH), ((1,), HALF), ((0, 1, 2), EIGHTH))),
    "boxes on three levels": ("square", calls(*TREE)),
    "boxes where the first ones are large": ("square", refining),
    "regions that were not asked": ("square", calls(*APART)),
    "boxes that overlap": ("square", calls((square(LEFT, WHOLE), HALF))),
    "boxes with units of their own": ("square", calls(*UNEVEN)),
    "every verb": ("square", every_verb),
    "a coarser cube": ("square", coarser),
}


def all_axes(cube: str) -> list[Axes]:
    axes = range(CUBES[cube].ndim)
    return [some for many in range(1, len(axes) + 1) for some in itertools.combinations(axes, many)]


@STORES
@pytest.mark.parametrize("name", SCRIPTS)
def test_calls_lose_what_cells_were_charged_and_no_more(name: str, store: str) -> None:
    cube, script = SCRIPTS[name]
    assert worst(asking(script, over(store)), CUBES[cube]) == EPSILON


@STORES
@pytest.mark.parametrize("name", SCRIPTS)
def test_all_of_the_budget_is_spent_by_then(name: str, store: str) -> None:
    cube, script = SCRIPTS[name]

    def once_more(counter: NoisyCounter) -> Said:
        return [*script(counter), counter.marginal((0,), 1000)]

    with pytest.raises(BudgetError):
        worst(asking(once_more, over(store)), CUBES[cube])


@STORES
@pytest.mark.parametrize(("cube", "axes"), [(cube, axes) for cube in CUBES for axes in all_axes(cube)], ids=str)
def test_a_marginal_loses_what_it_was_charged_and_no_more(cube: str, axes: Axes, store: str) -> None:
    assert worst(asking(calls((axes, BUDGET_UNITS)), over(store)), CUBES[cube]) == EPSILON
    assert worst(asking(calls((axes, THIRD)), over(store)), CUBES[cube]) == EPSILON * Fraction(THIRD, BUDGET_UNITS)


@STORES
@pytest.mark.parametrize(
    ("cube", "script", "rows"),
    [
        *((cube, calls((axes, BUDGET_UNITS)), rows) for cube, rows in (("line", 3), ("cell", 4)) for axes in [(0,)]),
        ("square", calls(((0,), HALF), ((0, 1), HALF)), 2),
        ("square", calls(*TREE), 2),
        ("square", calls(*UNEVEN), 2),
    ],
    ids=["line", "cell", "square", "tree", "uneven"],
)
def test_calls_lose_no_more_for_a_unit_of_several_rows(cube: str, script: Script, rows: int, store: str) -> None:
    assert worst(asking(script, over(store), max_rows=rows), CUBES[cube], rows=rows) == EPSILON


@STORES
def test_a_unit_of_more_rows_than_declared_would_lose_more(store: str) -> None:
    """The bound is the bound's, not slack: one row too many shows."""
    run = asking(calls(((0,), BUDGET_UNITS)), over(store), max_rows=2)
    assert worst(run, CUBES["square"], rows=3) == EPSILON * Fraction(3, 2)


@STORES
def test_boxes_that_overlap_in_a_call_are_charged_each(store: str) -> None:
    with pytest.raises(BudgetError):
        worst(asking(calls((square(LEFT, WHOLE), HALF + 1)), over(store)), CUBES["square"])


@STORES
def test_boxes_of_different_units_in_a_call_have_the_noise_of_their_own(store: str) -> None:
    tape = Tape()
    asking(calls(*UNEVEN), over(store))(CUBES["square"], tape)
    shares = [Fraction(part, 4) * EPSILON for part in (1, 4, 1, 2)]
    assert [(epsilon, len(values)) for epsilon, values in tape.drawn] == list(zip(shares, (1, 1, 1, 2), strict=True))


def regions(counter: NoisyCounter, *, times: int) -> Said:
    """Half of the budget on every cell, then a quarter on one region, several times."""
    part = square(LEFT)
    said = [every_cell(counter, HALF).reshape(-1)]
    return said + [counter.boxes(part, np.array([QUARTER])) for _ in range(times)]


@STORES
def test_a_region_may_spend_what_it_has_and_no_more(store: str) -> None:
    for times, share in ((1, Fraction(3, 4)), (2, Fraction(1))):
        run = asking(lambda counter, times=times: regions(counter, times=times), over(store))  # type: ignore[misc]
        assert worst(run, CUBES["square"]) == EPSILON * share
    with pytest.raises(BudgetError):
        worst(asking(lambda counter: regions(counter, times=3), over(store)), CUBES["square"])


# The sabotages that the audit sees.

BOTH: Call = ((0, 1), BUDGET_UNITS)
TWICE: list[Call] = [(square(WHOLE), BUDGET_UNITS), (square(LEFT, RIGHT), BUDGET_UNITS)]
Twin = tuple[Script, dict[str, object], int, Fraction]
TWINS: dict[str, Twin] = {
    "marginals for nothing": (calls(BOTH, ((0,), BUDGET_UNITS)), {"gate": ChargeForgotten}, 1, 2 * EPSILON),
    "boxes for nothing": (calls(*TWICE), {"gate": ChargeForgotten}, 1, 2 * EPSILON),
    "calls forgotten: marginals": (calls(BOTH, BOTH), {"budget": CallsForgotten}, 1, 2 * EPSILON),
    "calls forgotten: boxes": (calls(*TWICE), {"budget": CallsForgotten}, 1, 2 * EPSILON),
    "overlap accepted": (calls((square(WHOLE, LEFT), BUDGET_UNITS)), {"budget": MostOfABox}, 1, 2 * EPSILON),
    "one account for all": (
        lambda counter: regions(counter, times=3),
        {"budget": OneAccount},
        1,
        EPSILON * Fraction(5, 4),
    ),
    "empty cells without noise": (calls(BOTH), {"gate": SilentWhereEmpty}, 1, INFINITE),
    "empty boxes without noise": (calls((square(*CELLS), BUDGET_UNITS)), {"gate": SilentWhereEmpty}, 1, INFINITE),
    "noise shared along an axis": (calls(BOTH), {"gate": SharedNoise}, 1, INFINITE),
    "noise shared by boxes": (calls((square(*CELLS), BUDGET_UNITS)), {"gate": SharedNoise}, 1, INFINITE),
    "a cell in two cells of a marginal": (calls(BOTH), {"gate": Overlapping}, 1, 2 * EPSILON),
    "a cell in two cells of a marginal over one axis": (
        calls(((1,), QUARTER)),
        {"gate": Overlapping},
        1,
        EPSILON / 2,
    ),
    "a cell in two boxes": (calls((square(*CELLS), BUDGET_UNITS)), {"gate": Overlapping}, 1, 2 * EPSILON),
    "rows twice in marginals": (calls(BOTH), {"gate": RowsTwice}, 1, 2 * EPSILON),
    "rows twice in boxes": (calls(*TREE), {"gate": RowsTwice}, 1, 2 * EPSILON),
    "half the noise on marginals": (calls(BOTH), {"gate": half_the_noise}, 1, 2 * EPSILON),
    "half the noise on boxes": (calls(*TREE), {"gate": half_the_noise}, 1, 2 * EPSILON),
    "nine tenths of the noise": (calls(*TREE), {"gate": too_little}, 1, EPSILON * Fraction(10, 9)),
    "noise of the largest units": (calls(*UNEVEN), {"gate": LargestUnits}, 1, 2 * EPSILON),
    "noise used again": (lambda counter: regions(counter, times=2), {"gate": ReusesNoise}, 1, INFINITE),
    "unit bound ignored": (calls(((0,), BUDGET_UNITS)), {"gate": rows_forgotten}, 2, 2 * EPSILON),
    # Less than was charged: nobody is harmed, and the boxes measured nothing. See below.
    "boxes from noisy cells": (lambda counter: regions(counter, times=2), {"gate": FromNoisyCells}, 1, EPSILON / 2),
}


@STORES
@pytest.mark.parametrize("sabotage", TWINS)
def test_sabotage_does_not_lose_what_was_charged(sabotage: str, store: str) -> None:
    script, fault, rows, expected = TWINS[sabotage]
    run = asking(script, over(store, **fault), max_rows=rows)  # type: ignore[arg-type]
    assert worst(run, CUBES["square"], rows=rows) == expected


@STORES
def test_what_the_twins_are_let_do_is_refused(store: str) -> None:
    for asked in ([BOTH, ((0,), BUDGET_UNITS)], TWICE, [(square(WHOLE, LEFT), BUDGET_UNITS)]):
        with pytest.raises(BudgetError):
            worst(asking(calls(*asked), over(store)), CUBES["square"])


def overspent(gate: MakeGate) -> bool:
    """Whether a coarser cube can be asked once all is spent."""
    counter = gate(CUBES["square"], EPSILON, max_rows=1, noise=ExactNoise())
    coarse = counter.grouped([np.arange(2), np.zeros(3, np.int64)])
    counter.marginal((0,), BUDGET_UNITS)
    try:
        coarse.marginal((0,), QUARTER)
    except BudgetError:
        return False
    return True


@STORES
def test_sabotage_a_coarser_cube_with_a_budget_of_its_own_is_caught(store: str) -> None:
    assert not overspent(over(store))
    assert overspent(over(store, BudgetOfItsOwn))


# What no audit for too much loss sees.


def measures_the_table(gate: MakeGate) -> bool:
    """Whether what is said is an exact count plus the noise that was drawn for it, to the digit.

    To sum boxes and marginals from noisy cells is post-processing: it loses no more than the cells did, so no audit for
    too much loss can see it. What it breaks is the release's word: the counts claim a budget that was not spent on
    measuring and an independent noise that they have not, and every error stated from them is too small.
    """
    exact = CUBES["square"]
    for draw in draws():
        counter = gate(exact, EPSILON, max_rows=1, noise=(tape := Tape(then=draw)))
        every_cell(counter, HALF)
        told = [counter.marginal((1,), QUARTER) - exact.sum(axis=0)]
        halves = square(LEFT, RIGHT)
        told.append(counter.boxes(halves, np.full(2, QUARTER)) - box_sums(exact, halves))
        if [len(values) for _, values in tape.drawn] != [6, 3, 2]:
            return False
        if any(not np.array_equal(t, z) for t, (_, z) in zip(told, tape.drawn[1:], strict=True)):
            return False
    return True


@STORES
def test_marginals_and_boxes_are_counted_and_not_summed_from_noisy_cells(store: str) -> None:
    assert measures_the_table(over(store))
    for gate in (FromNoisyCells, Overlapping, SilentWhereEmpty, RowsTwice):
        assert not measures_the_table(over(store, gate)), gate


def one_table(shape: tuple[int, ...]) -> TableDistances:
    one = np.ones(1, np.int64)
    return TableDistances(shape, ((0,),), (np.ones(shape[0], np.int64),), one, one)


def pays_first(gate: MakeGate) -> bool:
    """A refused call draws nothing, and at every draw what was charged has gone up already."""
    charged = (QUARTER, HALF, HALF + EIGHTH, HALF + QUARTER, BUDGET_UNITS)

    def paid() -> bool:
        assert isinstance(counter, Gate)
        return counter._budget.most_charged() == charged[min(4, len(noise.draws))]

    noise = Witness(paid)
    counter = gate(CUBES["square"], EPSILON, max_rows=1, noise=noise)
    counter.marginal((0,), QUARTER)
    counter.boxes(square(LEFT, RIGHT), np.full(2, QUARTER))
    coarse = counter.grouped([np.arange(2), FIRST_TWO[0]])
    coarse.select(one_table(coarse.shape), EIGHTH)
    counter.select(one_table(counter.shape), EIGHTH)
    every_cell(counter, QUARTER)
    for asked in (counter, coarse):
        whole = Boxes(asked.shape, np.zeros((1, 2), np.int64), np.array([asked.shape]))
        with pytest.raises(BudgetError):
            asked.marginal((0,), 10**6)
        with pytest.raises(BudgetError):
            asked.select(one_table(asked.shape), 10**6)
        with pytest.raises(BudgetError):
            asked.boxes(whole, np.array([10**6]))
    return noise.draws == [True] * 5


@STORES
def test_the_charge_comes_before_the_draw(store: str) -> None:
    assert pays_first(over(store))
    assert not pays_first(over(store, DrawsFirst))


# The strategies of the paper, whole.

JOBS: dict[str, Strategy] = {
    "cells": Cells(),
    "dpcube": TwoPhase(),
    "dpcube at 1/3": TwoPhase(share=Fraction(1, 3), slack=0),
    "dpcube of the paper": TwoPhase(share=Fraction(1, 5), noise_corrected=False, slack=0, rule="longest"),
}
HALVES = TwoPhase(share=Fraction(1, 2), slack=0)


@STORES
@pytest.mark.parametrize("cube", CUBES)
@pytest.mark.parametrize("strategy", JOBS)
def test_no_transcript_loses_more_than_epsilon_and_some_lose_all_of_it(strategy: str, cube: str, store: str) -> None:
    assert worst(job(JOBS[strategy], over(store)), CUBES[cube]) == EPSILON


@pytest.mark.slow
@pytest.mark.parametrize(("cube", "rows"), [("line", 4), ("square", 3), ("cell", 5)])
@pytest.mark.parametrize("strategy", ["cells", "dpcube"])
def test_no_transcript_loses_more_than_epsilon_for_a_unit_of_several_rows(strategy: str, cube: str, rows: int) -> None:
    assert worst(job(JOBS[strategy], over("dense"), max_rows=rows), CUBES[cube], rows=rows) == EPSILON


@pytest.mark.parametrize(
    ("strategy", "gate", "rows", "expected"),
    [
        (Cells(), too_little, 1, EPSILON * Fraction(10, 9)),
        (HALVES, too_little, 1, EPSILON * Fraction(10, 9)),
        (HALVES, ReusesNoise, 1, INFINITE),
        (Cells(), SilentWhereEmpty, 1, INFINITE),
        (Cells(), rows_forgotten, 3, 3 * EPSILON),
        (HALVES, FromNoisyCells, 1, EPSILON / 2),
    ],
    ids=["cells x 0.9", "phases x 0.9", "noise used again", "empty cells", "unit bound ignored", "from noisy cells"],
)
def test_sabotage_of_a_strategy_does_not_lose_epsilon_exactly(
    strategy: Cells | TwoPhase, gate: MakeGate, rows: int, expected: Fraction
) -> None:
    run = job(strategy, over("dense", gate), max_rows=rows)
    assert worst(run, CUBES["line"], rows=rows) == expected != EPSILON


def phases_measure_the_table(gate: MakeGate) -> bool:
    """Whether what each phase says is an exact count plus the noise that was drawn for it, to the digit."""
    exact = CUBES["square"]
    for draw in draws():
        transcript = HALVES.run(gate(exact, EPSILON, max_rows=1, noise=(tape := Tape(then=draw))))
        assert transcript.cells is not None
        assert transcript.boxes is not None
        told: list[Values] = [transcript.cells.counts - exact]
        told.append(transcript.boxes.counts - box_sums(exact, transcript.boxes.tree.partitioning()))
        if any(not np.array_equal(t.reshape(-1), z) for t, (_, z) in zip(told, tape.drawn, strict=False)):
            return False
        if len(tape.drawn) != 2:
            return False
    return True


@STORES
def test_both_phases_measure_the_table(store: str) -> None:
    assert phases_measure_the_table(over(store))
    for gate in (FromNoisyCells, ReusesNoise, SilentWhereEmpty):
        assert not phases_measure_the_table(over(store, gate)), gate
