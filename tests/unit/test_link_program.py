"""What a linkage program computes, in the clear, against a plain loop over pairs; and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.core.arrays import Ints
from dpcube.core.errors import InputError
from dpcube.link.limits import MAX_COMPARED
from dpcube.link.program import Comparison, Kind, Program, check_features, matches


def test_a_tolerance_holds_at_its_edge_and_not_beyond() -> None:
    program = Program((Comparison("number", 1, 1, tolerance=2),), threshold=1)
    found = matches(program, np.array([[1, -3]]), np.array([[1, -6], [1, -5], [1, -1], [1, 0]]))
    assert found.tolist() == [[False, True, True, False]]


def test_dice_is_compared_without_division() -> None:
    program = Program((Comparison("text", 4, 1, dice=(4, 5)),), threshold=1)
    left = np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    right = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 1], [1, 0, 0, 0, 0]])
    assert matches(program, left, right).tolist() == [[True, False, False], [False, False, False]]  # 4/5, 1/2, no bits


def test_a_dummy_matches_nothing() -> None:
    program = Program((Comparison("exact", 2, 3),), threshold=3)
    rows = np.array([[1, 5, 6], [0, 5, 6]])
    assert matches(program, rows, rows).tolist() == [[True, False], [False, False]]


def test_numbers_at_the_bounds_do_not_overflow() -> None:
    program = Program((Comparison("number", 1, 1, tolerance=2**27),), threshold=1)
    ends = np.array([[1, -MAX_COMPARED], [1, -MAX_COMPARED // 2], [1, 0], [1, MAX_COMPARED]])
    near = [[True, True, False, False], [True, True, True, False], [False, True, True, False], [False] * 3 + [True]]
    assert matches(program, ends, ends).tolist() == near


@given(st.integers(0, 2**32 - 1))
def test_weights_are_added_for_each_pair(seed: int) -> None:
    draw = np.random.default_rng(seed)
    program = Program((Comparison("exact", 1, 2), Comparison("number", 1, 3, tolerance=1)), int(draw.integers(1, 6)))
    left, right = (np.c_[draw.integers(0, 2, 5), draw.integers(-2, 3, (5, 2))] for _ in range(2))

    def pair(a: Ints, b: Ints) -> bool:
        weight = 2 * (a[1] == b[1]) + 3 * (abs(a[2] - b[2]) <= 1)
        return bool(a[0] and b[0] and weight >= program.threshold)

    assert matches(program, left, right).tolist() == [[pair(a, b) for b in right] for a in left]


def test_equal_programs_have_one_digest_and_others_another() -> None:
    one = Comparison("text", 8, 2, dice=(4, 5))
    digests = {Program((one,), 1).digest(), Program((one,), 2).digest(), Program((one, one), 2).digest()}
    digests |= {Program((Comparison("text", 8, 2, dice=(3, 4)),), 1).digest()}
    assert len(digests) == 4
    assert Program((Comparison("text", 8, 2, dice=(4, 5)),), 1).digest() in digests


@pytest.mark.parametrize(
    ("kind", "columns", "weight", "tolerance", "dice"),
    [
        ("fuzzy", 1, 1, 0, (0, 1)),
        ("exact", 0, 1, 0, (0, 1)),
        ("exact", 1, 0, 0, (0, 1)),
        ("exact", 1, 1, 1, (0, 1)),
        ("exact", 1, 1, 0, (1, 2)),
        ("number", 2, 1, 0, (0, 1)),
        ("number", 1, 1, -1, (0, 1)),
        ("number", 1, 1, 2**27 + 1, (0, 1)),
        ("number", 1, 2**20 + 1, 0, (0, 1)),
        ("text", 4097, 1, 0, (1, 2)),
        ("text", 8, 1, 0, (0, 1)),
        ("text", 8, 1, 0, (3, 2)),
        ("text", 8, 1, 0, (1, 1025)),
        ("text", True, 1, 0, (1, 2)),
    ],
)
def test_a_comparison_outside_the_bounds_is_refused(
    kind: Kind, columns: int, weight: int, tolerance: int, dice: tuple[int, int]
) -> None:
    with pytest.raises(InputError):
        Comparison(kind, columns, weight, tolerance, dice)


@pytest.mark.parametrize("threshold", [0, 3])
def test_a_threshold_that_all_or_none_reach_is_refused(threshold: int) -> None:
    with pytest.raises(InputError, match="threshold"):
        Program((Comparison("exact", 1, 2),), threshold)


@pytest.mark.parametrize("row", [[2, 0, 0], [1, 2, 0], [1, 0, 2**28 + 1], [1, 0, -(2**28) - 1], [1, 0]])
def test_features_outside_the_bounds_are_refused_without_being_told(row: list[int]) -> None:
    program = Program((Comparison("text", 1, 1, dice=(1, 2)), Comparison("number", 1, 1)), 1)
    with pytest.raises(InputError) as refused:
        check_features(program, np.array([row]))
    assert str(row[-1]) not in str(refused.value).replace(str(2**28), "").replace("0 or 1", "") or len(row) == 2


def test_what_needs_all_is_told_by_the_weights() -> None:
    exact, number = Comparison("exact", 1, 2), Comparison("number", 1, 1)
    assert Program((exact, number), 3).needs_all
    assert not Program((exact, number), 2).needs_all
    assert Program((exact, exact), 3).is_equality
    assert not Program((exact, number), 3).is_equality
