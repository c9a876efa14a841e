"""The gate's choices: what is chosen without noise, what is refused before a charge, and which cells pay."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, first_meeting
from dpcube.core.candidates import (
    CANDIDATE_KINDS,
    MAX_CANDIDATE_WEIGHT,
    MAX_COUNTED_ROWS,
    MAX_PREDICTED,
    BestSplit,
    Candidates,
    MedianCuts,
    ReadRows,
    TableDistances,
)
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import BudgetError, DomainError, InputError
from dpcube.core.gate import Gate
from dpcube.core.selection import one_sided, selected
from dpcube.strategies.simulated import simulated_gate
from dpcube.testing import SilentNoise

CUBE: Ints = (np.arange(24) * 7 % 24).reshape(2, 3, 4)
SHAPE = CUBE.shape


def boxes_of(*bounds: tuple[Any, Any], shape: tuple[int, ...] = SHAPE) -> Boxes:
    return Boxes(shape, np.array([low for low, _ in bounds]), np.array([high for _, high in bounds]))


WHOLE = boxes_of(((0, 0, 0), SHAPE))
ONE, ZERO = np.ones(2, np.int64), np.zeros(2, np.int64)
CORNER, REST = ((0, 0, 0), (1, 1, 2)), ((1, 1, 0), (2, 3, 4))
KINDS: list[Candidates] = [
    MedianCuts(WHOLE, np.array([2])),
    MedianCuts(boxes_of(CORNER, REST), np.array([2, 1])),
    *(BestSplit(WHOLE, 2, (0, 1), criterion) for criterion in ("max", "gini", "information")),
    BestSplit(boxes_of(((0, 0, 0), (2, 1, 2)), REST), 2, (0, 1)),
    TableDistances(SHAPE, ((0,), (1, 2)), (np.array([100, 100]), np.full((3, 4), 23)), ONE, ZERO),
    ReadRows(SHAPE, (0, 2), (np.array([True, False]), np.array([True, True, False, False])), (3, 2)),
]


def silent(exact: Ints) -> NoisyCounter:
    return Gate(exact, Fraction(1), noise=SilentNoise())


def simulated(exact: Ints) -> NoisyCounter:
    return simulated_gate(exact, Fraction(100), seed=1)


@pytest.mark.parametrize("candidates", KINDS, ids=lambda kind: type(kind).__name__)
def test_without_noise_the_first_of_the_best_is_chosen(candidates: Candidates) -> None:
    scores = np.split(candidates.scores(CUBE), np.cumsum(candidates.sizes)[:-1])
    expected = [part.tolist().index(max(part.tolist())) for part in scores]
    found = silent(CUBE).select(candidates, BUDGET_UNITS)
    assert found.dtype == np.int64
    assert found.tolist() == expected
    if candidates.sensitivity < 1000:  # of fine scores differences of 1 do not stand out
        assert simulated(CUBE).select(candidates, BUDGET_UNITS).shape == found.shape


def test_counters_of_made_up_tables_choose_what_is_far_ahead() -> None:
    clear = np.array([[1, 1000, 3]])
    totals = tuple(np.array([predicted]) for predicted in (1004, 4, 1001))
    tables = TableDistances((1, 3), ((0,),) * 3, totals, np.ones(3, np.int64), np.zeros(3, np.int64))
    assert simulated_gate(clear, Fraction(1), seed=3).select(tables, BUDGET_UNITS).tolist() == [1]
    counter = simulated_gate(np.zeros((1, 3), np.int64), Fraction(1, 10), seed=3)
    alike = TableDistances((1, 3), ((0,),) * 3, (totals[0],) * 3, np.ones(3, np.int64), np.zeros(3, np.int64))
    assert {int(counter.select(alike, BUDGET_UNITS // 100)[0]) for _ in range(60)} == {0, 1, 2}


def test_medians_are_found_where_they_are() -> None:
    line = np.array([0, 0, 5, 1, 1, 0, 2, 2])
    cuts = MedianCuts(boxes_of(((0,), (8,)), shape=(8,)), np.array([0]))
    assert cuts.places(silent(line).select(cuts, 10**6)).tolist() == [3]  # 5 below and 6 above
    some = MedianCuts(boxes_of(((0,), (3,)), ((4,), (8,)), shape=(8,)), np.array([0, 0]))
    assert some.places(silent(line).select(some, 10**6)).tolist() == [1, 7]


def test_the_largest_scores_there_can_be_do_not_wrap_around() -> None:
    """As many rows as sources let in, and the largest predictions; noise as large as there can be on top."""

    class Loud(SilentNoise):
        def __init__(self, *values: int) -> None:
            self.values = values

        def draw(self, epsilon: Fraction, size: int) -> Ints:  # noqa: ARG002
            return np.array(self.values[:size])

    most = 2**63 - 1
    table = np.array([most, 0, 0])
    line = boxes_of(((0,), (3,)), shape=(3,))
    cuts = MedianCuts(line, np.array([0]))
    assert cuts.scores(table).tolist() == [-most, -most]
    for noise, expected in (((most, 0), 0), ((0, most), 1), ((-(2**63), most), 0), ((most - 1, -(2**63)), 1)):
        assert Gate(table, Fraction(1), noise=Loud(*noise)).select(cuts, BUDGET_UNITS).tolist() == [expected]
    total = np.array([-MAX_PREDICTED])
    weights = np.array([1, MAX_CANDIDATE_WEIGHT])
    far = TableDistances((1, 3), ((0,), (0,)), (total, -total), weights, -ONE * MAX_PREDICTED)
    assert far.scores(table[None]).tolist() == [
        most + 2 * MAX_PREDICTED,
        MAX_CANDIDATE_WEIGHT * most,
    ]
    for noise, expected in (((most, 0), 0), ((0, most), 1)):  # the sums are above 2^63 and 2^64
        near = TableDistances((1, 3), ((0,), (0,)), (total, total), ONE, ZERO)
        assert Gate(table[None], Fraction(1), noise=Loud(*noise)).select(near, BUDGET_UNITS).tolist() == [expected]
    tables = TableDistances((3,), ((0,),), (np.full(3, -(MAX_PREDICTED // 3)),), ONE[:1], ZERO[:1])
    assert tables.scores(table).tolist() == [most + 3 * (MAX_PREDICTED // 3)]
    square = np.array([[most // 2, most // 2]]).T
    for criterion in ("max", "gini", "information"):
        split = BestSplit(boxes_of(((0, 0), (2, 1)), shape=(2, 1)), 0, (1,), criterion)
        (score,) = split.scores(square).tolist()
        assert score == {"max": -(most // 2), "gini": -1024 * (most // 2), "information": score}[criterion]
        assert -(2**74) < score < -(2**60)


def test_noise_is_folded() -> None:
    values = np.array([0, 1, 5, -1, -2, -(2**63), 2**63 - 1])
    assert one_sided(values).tolist() == [0, 1, 5, 0, 1, 2**63 - 1, 2**63 - 1]
    assert selected(np.array([0, 0, 0, 0]), np.array([-3, 2, 0, -2]), sizes=np.array([2, 2])).tolist() == [0, 1]


def test_boxes_that_meet_are_found() -> None:
    boxes = boxes_of(((0, 0), (2, 2)), ((2, 0), (4, 4)), ((1, 1), (2, 3)), ((3, 3), (4, 4)), shape=(4, 4))
    assert first_meeting(boxes) == 2
    assert first_meeting(boxes_of(((0, 0), (2, 2)), ((2, 0), (4, 4)), shape=(4, 4))) == -1
    later = boxes_of(((2, 0), (4, 4)), ((1, 1), (2, 3)), ((3, 3), (4, 4)), shape=(4, 4))
    assert first_meeting(later) == 2


# What is refused, and charges nothing.


class MyMedians(MedianCuts):
    """A score of one's own."""

    def scores(self, counts: Ints) -> Ints:
        return counts.reshape(-1)


COUNTERS = pytest.mark.parametrize(
    "make", [silent, lambda exact: simulated_gate(exact, Fraction(1), seed=1)], ids=["gate", "plan"]
)


@COUNTERS
@pytest.mark.parametrize("candidates", [None, 3, [1, 2], MyMedians(WHOLE, np.array([2])), MedianCuts], ids=repr)
def test_what_is_no_known_kind_is_refused_before_a_charge(make: Any, candidates: Any) -> None:
    counter = make(CUBE)
    with pytest.raises(
        InputError, match="select needs candidates of one of the kinds MedianCuts, BestSplit, TableDistances"
    ):
        counter.select(candidates, BUDGET_UNITS)
    every_cell(counter, BUDGET_UNITS)


@COUNTERS
def test_candidates_of_another_cube_are_refused(make: Any) -> None:
    counter = make(CUBE.reshape(4, 3, 2))
    for candidates in KINDS:
        with pytest.raises(InputError, match="of a cube of shape"):
            counter.select(candidates, BUDGET_UNITS)
    every_cell(counter, BUDGET_UNITS)


NO_UNITS: list[Any] = [0, -1, BUDGET_UNITS + 1, 2**70, float("nan"), 0.5, 1.0, "1", None, Fraction(1, 2), np.array([5])]


@COUNTERS
@pytest.mark.parametrize("units", NO_UNITS, ids=repr)
def test_what_is_no_number_of_units_is_refused_and_charges_nothing(make: Any, units: Any) -> None:
    counter = make(CUBE)
    for candidates in KINDS:
        with pytest.raises((BudgetError, InputError)):
            counter.select(candidates, units)
    counter.select(KINDS[0], np.int64(BUDGET_UNITS))
    with pytest.raises(BudgetError, match="nothing was drawn"):
        counter.select(KINDS[0], 10**6)


@COUNTERS
def test_too_small_a_share_for_the_spread_is_refused_before_a_charge(make: Any) -> None:
    counter = make(CUBE)
    with pytest.raises(InputError, match="ask for fewer or larger shares"):
        counter.select(BestSplit(WHOLE, 2, (0, 1), "information"), BUDGET_UNITS // 10**6)
    every_cell(counter, BUDGET_UNITS)


def tables(
    *, axes: Any = ((0,), (1,)), predicted: Any = ((1, 2), (1, 2, 3)), weights: Any = ONE, allowances: Any = ZERO
) -> TableDistances:
    return TableDistances(SHAPE, axes, tuple(map(np.array, predicted)), weights, allowances)


def split(**given: Any) -> BestSplit:
    usual: dict[str, Any] = {"boxes": WHOLE, "target": 2, "axes": (0, 1)}
    return BestSplit(**(usual | given))


NONE = Boxes(SHAPE, np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64))
TWICE = boxes_of(CORNER, ((0, 0, 1), (2, 1, 2)))
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no box": (lambda: MedianCuts(NONE, np.empty(0, np.int64)), "at least one box"),
    "boxes that meet": (lambda: MedianCuts(TWICE, np.array([2, 0])), "must be disjoint"),
    "no cut": (lambda: MedianCuts(boxes_of(CORNER), np.array([0])), "cannot be cut across it"),
    "no such axis": (lambda: MedianCuts(WHOLE, np.array([3])), "the axes of cuts .* from 0 to 2"),
    "an axis below 0": (lambda: MedianCuts(WHOLE, np.array([-1])), "the axes of cuts"),
    "axes that are floats": (lambda: MedianCuts(WHOLE, np.array([1.0])), "64-bit integers"),
    "too few axes": (lambda: MedianCuts(boxes_of(CORNER, REST), np.array([2])), "an array of 2"),
    "no such class axis": (lambda: split(target=3), "the axis of the class must be one of the axes 0 to 2"),
    "a class axis of another type": (lambda: split(target=np.int64(2)), "a plain int"),
    "true is no axis": (lambda: split(axes=(0,), target=True), "a plain int"),
    "splits of boxes that meet": (lambda: split(boxes=TWICE), "must be disjoint"),
    "no axes": (lambda: split(axes=()), "must ascend"),
    "axes that descend": (lambda: split(axes=(1, 0)), "must ascend"),
    "an axis twice": (lambda: split(axes=(1, 1)), "must ascend"),
    "a split by the class": (lambda: split(axes=(0, 2)), "without that of the class"),
    "a split by no axis": (lambda: split(axes=(0, 3)), "each axis of a split"),
    "no such criterion": (lambda: split(criterion="ratio"), "one of max, gini, information"),
    "no rows": (lambda: split(most_rows=0), "most_rows"),
    "too many rows": (lambda: split(most_rows=MAX_COUNTED_ROWS + 1), "most_rows"),
    "rows that are no whole number": (lambda: split(most_rows=5.0), "most_rows"),
    "a weight of 0": (lambda: tables(weights=ZERO), "the weights of candidates"),
    "too large a weight": (lambda: tables(weights=ONE * (MAX_CANDIDATE_WEIGHT + 1)), "the weights of candidates"),
    "weights that are floats": (lambda: tables(weights=ONE * 1.5), "the weights of candidates"),
    "one weight for all": (lambda: tables(weights=np.int64(1)), "the weights of candidates"),
    "too large an allowance": (lambda: tables(allowances=ONE * (MAX_PREDICTED + 1)), "the allowances of candidates"),
    "too few allowances": (lambda: tables(allowances=ZERO[:1]), "the allowances of candidates"),
    "no table": (lambda: tables(axes=(), predicted=()), "at least one"),
    "a table without a prediction": (lambda: tables(predicted=((1, 2),)), "one prediction for each"),
    "a table over no axis": (lambda: tables(axes=((0,), ())), "must ascend"),
    "a table whose axes descend": (lambda: tables(axes=((0,), (2, 1))), "must ascend"),
    "a table over an axis that is not there": (lambda: tables(axes=((0,), (3,))), "each axis of a table"),
    "a prediction of another shape": (lambda: tables(axes=((0,), (2,))), "an array of 4"),
    "a table predicted in floats": (lambda: tables(predicted=((1, 2), (1.0, 2.0, 3.0))), "64-bit integers"),
    "a table predicted too large": (
        lambda: tables(predicted=((1, 2), (1, 2, MAX_PREDICTED // 3 + 1))),
        "predicted counts",
    ),
    "a table predicted too small": (
        lambda: tables(predicted=((1, 2), (1, 2, -(MAX_PREDICTED // 3) - 1))),
        "predicted counts",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_candidates_that_cannot_be_are_refused_when_they_are_made(name: str) -> None:
    make, reason = WRONG[name]
    with pytest.raises((InputError, DomainError), match=reason):
        make()


def test_candidates_do_not_change_after_they_were_made() -> None:
    axes, table, weights = np.array([2]), np.array([1, 2]), np.array([1])
    cuts, kept = MedianCuts(WHOLE, axes), TableDistances(SHAPE, ((0,),), (table,), weights, ZERO[:1])
    axes[0], table[0], weights[0] = 0, 9, 9
    assert (cuts.axes.tolist(), kept.predicted[0].tolist(), kept.weights.tolist()) == ([2], [1, 2], [1])
    for array in (cuts.axes, kept.predicted[0], kept.weights, kept.allowances):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_every_kind_is_tried_here() -> None:
    assert {type(candidates) for candidates in KINDS} == set(CANDIDATE_KINDS)


# Which cells pay: those that any candidate covers, once.


@pytest.mark.parametrize("candidates", KINDS, ids=lambda kind: type(kind).__name__)
def test_each_cell_that_a_candidate_covers_pays_once(candidates: Candidates) -> None:
    gate = Gate(CUBE, Fraction(1), noise=SilentNoise())
    gate.select(candidates, BUDGET_UNITS // 4)
    covered = np.zeros(SHAPE, np.int64)
    if candidates.covered is None:
        covered += 1
    else:
        for low, high in zip(candidates.covered.lower, candidates.covered.upper, strict=True):
            covered[tuple(map(slice, low, high))] = 1
    left = np.broadcast_to(np.asarray(gate._budget._left), SHAPE)
    np.testing.assert_array_equal(left, BUDGET_UNITS - covered * (BUDGET_UNITS // 4))
    for cell in ((0, 0, 0), (1, 2, 3), (0, 2, 0)):
        box = boxes_of((cell, tuple(np.array(cell) + 1)))
        with pytest.raises(BudgetError):
            gate.boxes(box, np.array([int(left[cell]) + 1]))
        gate.boxes(box, np.array([int(left[cell])]))


def test_a_choice_is_refused_if_one_cell_of_one_candidate_cannot_pay() -> None:
    gate = Gate(CUBE, Fraction(1), noise=SilentNoise())
    gate.boxes(boxes_of(((1, 2, 3), (2, 3, 4))), np.array([BUDGET_UNITS // 2 + 1]))
    for candidates in KINDS:
        with pytest.raises(BudgetError, match="nothing was drawn"):
            gate.select(candidates, BUDGET_UNITS // 2)
    gate.select(MedianCuts(boxes_of(CORNER), np.array([2])), BUDGET_UNITS)
    gate.select(BestSplit(boxes_of(((1, 2, 3), (2, 3, 4))), 2, (0,)), BUDGET_UNITS // 2 - 1)
