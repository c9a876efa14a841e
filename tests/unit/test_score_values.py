"""Scores, spreads and limits by their values: what every score is on a table small enough to work out by hand."""

from typing import Any

import numpy as np
import pytest

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import (
    CRITERIA,
    MAX_CANDIDATE_WEIGHT,
    MAX_COUNTED_ROWS,
    MAX_PREDICTED,
    ONE,
    BestSplit,
    MedianCuts,
    TableDistances,
    _rows_times_log,
)
from dpcube.core.errors import InputError

ONES = np.ones(2, np.int64)


def box(low: tuple[int, ...], high: tuple[int, ...], shape: tuple[int, ...]) -> Boxes:
    return Boxes(shape, np.array([low]), np.array([high]))


def whole(*shape: int) -> Boxes:
    return box((0,) * len(shape), shape, shape)


# By 60 digits of ln x / ln 2, rounded down.
LOGARITHMS = {
    0: 0,
    1: 0,
    3: 4869,
    5: 11888,
    1000: 10204963,
    10**6 + 3: 20409991876,
    2**31 - 1: 68169720888890,
    10**15 + 37: 51024815537471828242,
    2**53 + 1: 488838717953303173573,
    3**39: 256514836516797655514937,
    6569059083475691566: 420489688403829090592065,
    7941853417859328989: 510589712350916463943539,
    2**63 - 25: 595018176841575295275963,
    2**63 - 1: 595018176841575296859706,
}


def test_logarithms_are_rounded_down() -> None:
    assert {rows: _rows_times_log(rows) for rows in LOGARITHMS} == LOGARITHMS


def test_spreads_and_limits() -> None:
    """A spread that is too small is not private, and one that is too large is noise for nothing."""
    cube = whole(2, 2)
    assert MedianCuts(cube, np.array([0])).sensitivity == 2
    weights = np.array([3, 5])
    assert TableDistances((2, 2), ((0,), (1,)), (ONES, ONES), weights, ONES).sensitivity == 10
    assert [BestSplit(cube, 0, (1,), criterion).sensitivity for criterion in CRITERIA] == [1, 2 * ONE, 66000]
    few = [BestSplit(cube, 0, (1,), "information", most).sensitivity for most in (1, 5, 1000, MAX_COUNTED_ROWS)]
    assert few == [2058, 4004, 11693, 66000]
    assert (MAX_PREDICTED, MAX_CANDIDATE_WEIGHT, MAX_COUNTED_ROWS, ONE) == (2**62, 2**20, 2**63 - 1, 1024)


CUBE: Ints = (np.arange(24) * 5 % 17).reshape(2, 3, 4)


def test_boxes_away_from_the_origin_have_their_own_counts() -> None:
    split = BestSplit(box((1, 1, 2), (2, 3, 4), CUBE.shape), 2, (0, 1))
    assert split.sizes.tolist() == [2]
    inside = CUBE[1:2, 1:3, 2:4].sum(axis=0)
    assert split.scores(CUBE).tolist() == [-int(inside.sum(axis=0).min()), -int(inside.min(axis=1).sum())]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_split_scores_alike_wherever_the_class_stands_among_the_axes(criterion: Any) -> None:
    expected = BestSplit(whole(2, 3, 4), 2, (0, 1), criterion).scores(CUBE).tolist()
    first = np.moveaxis(CUBE, 2, 0).copy()
    assert BestSplit(whole(*first.shape), 0, (1, 2), criterion).scores(first).tolist() == expected
    middle = np.moveaxis(CUBE, 2, 1).copy()
    assert BestSplit(whole(*middle.shape), 1, (0, 2), criterion).scores(middle).tolist() == expected
    assert len(set(expected)) == 2


def test_a_table_without_rows_scores_zero() -> None:
    empty = np.zeros((2, 2, 2), np.int64)
    for criterion in CRITERIA:
        assert BestSplit(whole(2, 2, 2), 2, (0, 1), criterion).scores(empty).tolist() == [0, 0]


def test_beyond_the_declared_rows_information_goes_on_in_a_straight_line() -> None:
    """A row of a rare class costs a mixed part log2 n, and a pure part nothing: declared rows bound the difference."""
    before = np.array([[[2, 0], [0, 10**6]]])
    after = before + np.array([[[1, 0], [0, 0]]])
    changes = []
    for most in (5, MAX_COUNTED_ROWS):
        split = BestSplit(whole(1, 2, 2), 2, (0, 1), "information", most)
        mixed, pure = (int(b) - int(a) for a, b in zip(split.scores(before), split.scores(after), strict=True))
        assert abs(pure) <= 4
        assert abs(mixed - pure) <= split.sensitivity
        changes.append(-mixed / ONE)
    assert changes == pytest.approx([3.9001 - 2.7549, 21.37 - 2.7549], abs=0.01)


def test_distances_are_pythons_integers_of_any_size() -> None:
    """An unsigned one of 64 bits would become a float when noise is added to it."""
    table = np.array([[2**63 - 1, 0]])
    totals = TableDistances((1, 2), ((0,), (0,)), (np.array([-(2**62)]), np.array([2**62])), ONES, 0 * ONES)
    for scores in (totals.scores(table), totals.scores(0 * table)):
        assert scores.dtype == object
        assert all(type(score) is int for score in scores)
    assert totals.scores(table).tolist() == [2**63 - 1 + 2**62, 2**63 - 1 - 2**62]


def test_lists_may_stand_for_tuples() -> None:
    split = BestSplit(whole(2, 2, 2), 2, [0, 1])  # type: ignore[arg-type]
    tables = TableDistances([np.int64(2), 3], [[0], [1]], (ONES, np.ones(3, np.int64)), ONES, ONES)  # type: ignore
    assert (split.axes, tables.axes, tables.shape) == ((0, 1), ((0,), (1,)), (2, 3))
    assert [type(side) for side in tables.shape] == [int, int]
    split.axes.index(1)


def test_more_that_cannot_be() -> None:
    with pytest.raises(InputError, match="the axis of the class"):
        BestSplit(whole(2, 2), 5, (0,))
    half = np.array([0, 2**61])
    TableDistances((2,), ((0,),), (half,), ONES[:1], ONES[:1])
    TableDistances((2,), ((0,),), (-half,), ONES[:1], ONES[:1])
    with pytest.raises(InputError, match="predicted counts"):  # two cells of one table may add up to no more
        TableDistances((2,), ((0,),), (half + 1,), ONES[:1], ONES[:1])
    with pytest.raises(InputError, match="predicted counts"):  # as many numbers, in another shape
        TableDistances((2, 3), ((0, 1),), (np.ones((3, 2), np.int64),), ONES[:1], ONES[:1])
    two = Boxes((4, 4), np.array([[0, 0], [2, 0]]), np.array([[2, 4], [3, 4]]))
    with pytest.raises(InputError, match="cannot be cut across it"):  # the second, and not the first
        MedianCuts(two, np.array([0, 0]))
