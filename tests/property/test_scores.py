"""Scores of candidates: each equals its formula, and one row changes the difference of two by the spread at most."""

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import (
    CRITERIA,
    MAX_CANDIDATE_WEIGHT,
    MAX_COUNTED_ROWS,
    MAX_PREDICTED,
    ONE,
    BestSplit,
    Candidates,
    Criterion,
    MedianCuts,
    TableDistances,
    _rows_times_log,
    _slope,
)

quick = settings(deadline=None, max_examples=60, derandomize=True)
SHAPE = (3, 4, 2)
SIZE = math.prod(SHAPE)
# Where floats begin to skip whole numbers, where sums of squares leave 64 bits, and as many rows as a source lets in.
LARGE = st.sampled_from([0, 1, 2, 3, 2**31, 2**32 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**58 - 1])
CUBES = st.lists(st.integers(0, 6) | LARGE, min_size=SIZE, max_size=SIZE).map(
    lambda counts: np.array(counts, np.int64).reshape(SHAPE)
)
CELLS = st.tuples(*(st.integers(0, side - 1) for side in SHAPE))


def whole(shape: tuple[int, ...] = SHAPE) -> Boxes:
    return Boxes(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))


def slabs() -> Boxes:
    """Two boxes side by side, which leave cells out."""
    return Boxes(SHAPE, np.array([[0, 0, 0], [1, 1, 0]]), np.array([[1, 4, 2], [3, 4, 2]]))


PREDICTED = st.integers(-9, 30) | st.sampled_from([MAX_PREDICTED // SIZE, -MAX_PREDICTED // SIZE + 1, 2**53 + 1])
WEIGHTS = st.lists(st.integers(1, 5) | st.just(MAX_CANDIDATE_WEIGHT), min_size=3, max_size=3).map(np.array)
ALLOWANCES = st.lists(
    st.integers(-9, 9) | st.sampled_from([MAX_PREDICTED, -MAX_PREDICTED]), min_size=3, max_size=3
).map(np.array)
AXES = ((0,), (0, 2), (1, 2))


@st.composite
def table_distances(draw: st.DrawFn) -> TableDistances:
    sides = [tuple(SHAPE[axis] for axis in axes) for axes in AXES]
    tables = tuple(
        np.array(draw(st.lists(PREDICTED, min_size=math.prod(some), max_size=math.prod(some)))).reshape(some)
        for some in sides
    )
    return TableDistances(SHAPE, AXES, tables, draw(WEIGHTS), draw(ALLOWANCES))


MEDIANS = st.sampled_from([MedianCuts(whole(), np.array([axis])) for axis in range(3)])
MEDIANS |= st.just(MedianCuts(slabs(), np.array([1, 0])))
SPLITS = st.builds(
    BestSplit,
    st.sampled_from([whole(), slabs()]),
    st.just(2),
    st.just((0, 1)),
    st.sampled_from(CRITERIA),
    st.sampled_from([1, 2, 5, 1000, 2**53, MAX_COUNTED_ROWS]),
)
EVERY: st.SearchStrategy[Candidates] = st.one_of(MEDIANS, SPLITS, table_distances())


def by_question(candidates: Candidates, counts: Ints) -> list[list[int]]:
    scores = iter(candidates.scores(counts).tolist())
    found = [list(itertools.islice(scores, size)) for size in candidates.sizes.tolist()]
    assert next(scores, None) is None
    assert all(type(score) is int for score in itertools.chain.from_iterable(found))
    return found


def spreads(before: list[list[int]], after: list[list[int]]) -> list[int]:
    """For each question, the most by which the difference of two of its scores has changed."""
    changes = [[b - a for a, b in zip(one, other, strict=True)] for one, other in zip(before, after, strict=True)]
    return [max(change) - min(change) for change in changes]


@quick
@given(EVERY, CUBES, CELLS)
def test_one_row_changes_the_difference_of_two_scores_by_the_spread_at_most(
    candidates: Candidates, counts: Ints, cell: tuple[int, ...]
) -> None:
    more = counts.copy()
    more[cell] += 1
    found = spreads(by_question(candidates, counts), by_question(candidates, more))
    assert max(found) <= candidates.sensitivity
    assert sum(one > 0 for one in found) <= 1  # a row is in one question's box


@quick
@given(EVERY, CUBES)
def test_scores_of_64_bits_are_not_above_zero(candidates: Candidates, counts: Ints) -> None:
    """With noise from 0 to 2^63 - 1 on top, none of them wraps around."""
    scores = candidates.scores(counts)
    assert scores.dtype == object or (scores.dtype == np.int64 and scores.max() <= 0 and scores.min() > -(2**63))


@quick
@given(EVERY, CUBES, st.data())
def test_cells_that_no_candidate_covers_change_nothing(
    candidates: Candidates, counts: Ints, data: st.DataObject
) -> None:
    covered = np.zeros(SHAPE, bool)
    for k in range(0 if candidates.covered is None else len(candidates.covered)):
        assert candidates.covered is not None
        box = candidates.covered[k]
        covered[tuple(map(slice, box.lower, box.upper))] = True
    if candidates.covered is None or covered.all():
        return
    other = np.where(covered, counts, data.draw(CUBES))
    assert by_question(candidates, other) == by_question(candidates, counts)


# Each score is its formula, in exact arithmetic.


def cells_of(counts: Ints, boxes: Boxes, k: int) -> Iterator[tuple[tuple[int, ...], int]]:
    box = boxes[k]
    for cell in np.ndindex(counts.shape):
        if all(a <= i < b for a, i, b in zip(box.lower, cell, box.upper, strict=True)):
            yield cell, int(counts[cell])


@quick
@given(MEDIANS, CUBES)
def test_a_cut_scores_by_its_rank(cuts: MedianCuts, counts: Ints) -> None:
    for k, scores in enumerate(by_question(cuts, counts)):
        axis, low = int(cuts.axes[k]), cuts.boxes[k].lower[int(cuts.axes[k])]
        for number, score in enumerate(scores):
            rows = sum(count for _, count in cells_of(counts, cuts.boxes, k))
            below = sum(count for cell, count in cells_of(counts, cuts.boxes, k) if cell[axis] < low + 1 + number)
            assert score == -abs(rows - 2 * below)
    first = np.zeros(len(cuts.boxes), np.int64)
    assert cuts.places(first).tolist() == [
        box.lower[axis] + 1 for box, axis in zip([cuts.boxes[k] for k in range(len(first))], cuts.axes, strict=True)
    ]


@quick
@given(table_distances(), CUBES)
def test_tables_score_by_their_distance(tables: TableDistances, counts: Ints) -> None:
    expected = []
    for axes, predicted, weight, allowed in zip(
        tables.axes, tables.predicted, tables.weights.tolist(), tables.allowances.tolist(), strict=True
    ):
        apart = -predicted.astype(object)
        for cell in np.ndindex(SHAPE):
            apart[tuple(cell[axis] for axis in axes)] += int(counts[cell])
        expected.append(weight * (int(np.abs(apart).sum()) - allowed))
    assert by_question(tables, counts) == [expected]


def parts_of(split: BestSplit, counts: Ints, k: int, axis: int) -> list[list[int]]:
    box = split.boxes[k]
    parts = [[0] * (box.upper[2] - box.lower[2]) for _ in range(box.upper[axis] - box.lower[axis])]
    for cell, count in cells_of(counts, split.boxes, k):
        parts[cell[axis] - box.lower[axis]][cell[2] - box.lower[2]] += count
    return parts


def max_term(part: list[int]) -> Fraction:
    return Fraction(max(part) - sum(part))


def gini_term(part: list[int]) -> Fraction:
    rows = sum(part)
    return rows * (sum((Fraction(count, rows) ** 2 for count in part), Fraction(-1))) if rows else Fraction(0)


@quick
@given(st.sampled_from([whole(), slabs()]), CUBES)
def test_splits_score_by_their_criterion(boxes: Boxes, counts: Ints) -> None:
    terms: dict[Criterion, tuple[Callable[[list[int]], Fraction], int]] = {
        "max": (max_term, 1),
        "gini": (gini_term, ONE),
    }
    for criterion, (term, one) in terms.items():
        split = BestSplit(boxes, 2, (0, 1), criterion)
        for k, scores in enumerate(by_question(split, counts)):
            for axis, score in zip((0, 1), scores, strict=True):
                parts = parts_of(split, counts, k, axis)
                exact = one * sum(map(term, parts))
                assert exact - (0 if one == 1 else len(parts)) <= score <= exact


def exact_log_term(rows: int) -> Decimal:
    """Return ONE x log2 x to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return ONE * rows * Decimal(rows).ln() / Decimal(2).ln() if rows else Decimal(0)


ROWS = st.integers(0, 300) | st.integers(0, 2**63) | st.integers(0, 63).map(lambda k: 2**k)
ROWS |= st.integers(1, 63).map(lambda k: 2**k - 1)


@quick
@given(ROWS)
def test_a_logarithm_is_less_than_two_off(rows: int) -> None:
    assert -(Decimal(10) ** -30) < exact_log_term(rows) - _rows_times_log(rows) < 2


def test_logarithms_of_powers_of_two_are_exact() -> None:
    assert [_rows_times_log(2**k) for k in range(64)] == [ONE * 2**k * k for k in range(64)]
    assert (_rows_times_log(0), _rows_times_log(3)) == (0, 4869)  # 1024 * 3 * 1.58496... = 4869.001


@quick
@given(CUBES)
def test_information_is_the_entropy_that_is_left(counts: Ints) -> None:
    split = BestSplit(whole(), 2, (0, 1), "information")
    for axis, score in zip((0, 1), by_question(split, counts)[0], strict=True):
        parts = parts_of(split, counts, 0, axis)
        exact = sum((sum(map(exact_log_term, part)) - exact_log_term(sum(part)) for part in parts), Decimal(0))
        assert abs(exact - score) < 2 * 3 * len(parts)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100, 2**20, MAX_COUNTED_ROWS])
def test_the_spread_of_information_is_that_of_its_bound(most: int) -> None:
    """Of N rows at most it is log2(N + 1) + 1/ln 2 at most, and above it by rounding alone."""
    spread = BestSplit(whole(), 2, (0, 1), "information", most).sensitivity
    tight = (
        math.log2(most + 1) + most * math.log2(1 + 1 / most) if most < 2**50 else math.log2(most + 1) + 1 / math.log(2)
    )
    assert tight <= spread / ONE < min(tight, math.log2(most + 1) + 1 / math.log(2)) + 13 / ONE
    assert abs(_slope(most) - ONE * tight) < 3


def test_of_more_rows_than_declared_the_spread_is_kept() -> None:
    """One class on one side: the row that costs most, with far more rows than were declared."""
    split = BestSplit(whole((1, 2, 2)), 2, (0, 1), "information", 5)
    for rows in (4, 5, 6, 50, 10**6):
        before = np.array([[[rows, 0], [rows, 0]]])
        after = before + np.array([[[0, 1], [0, 0]]])
        assert max(spreads(by_question(split, before), by_question(split, after))) <= split.sensitivity < 3.95 * ONE


# The bounds of ../shared/baselines.md section 4, and that spreads are not loose.


def worst_of(candidates: Candidates, tables: Iterator[Ints]) -> tuple[int, int]:
    """Return the most by which one row changes a score, and the difference of two, over tables and all their cells."""
    single = pair = 0
    for table in tables:
        before = by_question(candidates, table)
        for cell in np.ndindex(table.shape):
            more = table.copy()
            more[cell] += 1
            after = by_question(candidates, more)
            single = max(single, *(abs(b - a) for a, b in zip(before[0], after[0], strict=True)))
            pair = max(pair, *spreads(before, after))
    return single, pair


def small_tables(shape: tuple[int, ...], most: int) -> Iterator[Ints]:
    for counts in itertools.product(range(most + 1), repeat=math.prod(shape)):
        yield np.array(counts).reshape(shape)


def test_spreads_are_attained_on_small_tables() -> None:
    shape = (2, 2)
    one, zero = np.ones(2, np.int64), np.zeros(2, np.int64)

    def tables() -> Iterator[Ints]:
        return small_tables(shape, 2)

    assert worst_of(MedianCuts(whole((3,)), np.array([0])), small_tables((3,), 3)) == (1, 2)
    pairs = (np.array([2, 1]), np.array([1, 2]))
    assert worst_of(TableDistances(shape, ((0,), (1,)), pairs, one, zero), tables()) == (1, 2)
    assert worst_of(TableDistances(shape, ((0,), (1,)), pairs, np.array([1, 3]), zero), tables())[1] == 4
    total = (np.array([0]), np.array([2]))  # one row more takes the count further from 0 and nearer to 2
    assert worst_of(TableDistances((1, 3), ((0,), (0,)), total, one, zero), small_tables((1, 3), 2)) == (1, 2)
    assert worst_of(BestSplit(whole((1, 2, 2)), 2, (0, 1)), small_tables((1, 2, 2), 2)) == (1, 1)


@pytest.mark.parametrize(
    ("criterion", "largest", "spread"), [("max", 1, 1), ("gini", 5 / 3, 2), ("information", 3.9001, 3.92)]
)
def test_sensitivities_at_five_rows_are_those_of_friedman_and_schuster(
    criterion: Criterion, largest: float, spread: float
) -> None:
    """A part with up to five rows of one class, and a row of the other."""
    split = BestSplit(whole((1, 2, 2)), 2, (0, 1), criterion, 5)
    one = 1 if criterion == "max" else ONE
    tables = (np.array([[[a, b], [c, 0]]]) for a in range(6) for b in range(6 - a) for c in range(6 - a - b))
    single, pair = worst_of(split, tables)
    assert single / one == pytest.approx(largest, abs=2e-3)
    assert pair <= split.sensitivity <= spread * one
