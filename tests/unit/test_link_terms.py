"""The terms that each side brings give the match bits of the reference, by the very function that the engine compiles.

Here it runs in NumPy, whose int64 wraps around as the engine's ring does: what overflows there is wrong here.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.arrays import Bools, Ints
from dpcube.link.program import LARGEST_COMPARED, Comparison, Kind, Program, matches
from dpcube.link.secure import terms
from dpcube.link.secure.terms import dummy_row, public_program, side_terms
from dpcube.link.secure.worker import filled, matcher, tiles

EDGES = (-LARGEST_COMPARED, -LARGEST_COMPARED + 1, -2, -1, 0, 1, 2, LARGEST_COMPARED - 1, LARGEST_COMPARED)
EXTREMES = (-(2**63), -1, 0, 1, 2**63 - 1)


def comparisons() -> st.SearchStrategy[Comparison]:
    weight = st.integers(1, 2**20)
    return st.one_of(
        st.builds(lambda c, w: Comparison("exact", c, w), st.integers(1, 3), weight),
        st.builds(lambda w, t: Comparison("number", 1, w, t), weight, st.sampled_from((0, 1, 2, 2**29, 2**30))),
        st.builds(
            lambda c, w, n, d: Comparison("text", c, w, dice=(min(n, d), d)),
            st.integers(1, 9),
            weight,
            st.integers(1, 1024),
            st.integers(1, 1024),
        ),
    )


@st.composite
def programs(draw: Any) -> Program:
    made = tuple(draw(st.lists(comparisons(), min_size=1, max_size=4)))
    total = sum(one.weight for one in made)
    return Program(made, draw(st.one_of(st.just(total), st.integers(1, total))))


@st.composite
def features(draw: Any, program: Program) -> Ints:
    """Rows of few values, so that many pairs match, at the edges of what is allowed."""
    columns = [st.sampled_from((1, 1, 0))]
    for one in program.comparisons:
        values: Any = {"text": st.integers(0, 1), "number": st.sampled_from(EDGES), "exact": st.sampled_from(EXTREMES)}
        columns += [values[one.kind]] * one.columns
    rows = draw(st.lists(st.tuples(*columns), max_size=5))
    return np.array(rows, np.int64).reshape(len(rows), program.width)


def by_terms(program: Program, left: Ints, right: Ints) -> Bools:
    match = matcher(public_program(program), np)
    found: Bools = match(side_terms(program, left, "listener"), side_terms(program, right, "connector"))
    return found


@given(st.data())
@settings(max_examples=50)
def test_terms_of_both_sides_give_the_match_bits(data: st.DataObject) -> None:
    program = data.draw(programs())
    left, right = data.draw(features(program)), data.draw(features(program))
    assert np.array_equal(by_terms(program, left, right), matches(program, left, right))


@pytest.mark.parametrize("kind", ["exact", "number", "text"])
@pytest.mark.parametrize("threshold", [1, 2])
def test_of_rows_that_are_equal_only_records_match_and_texts_of_no_bits_never(kind: Kind, threshold: int) -> None:
    one = Comparison(kind, 1, 1, dice=(1, 2) if kind == "text" else (0, 1))
    program = Program((one, one), threshold)
    rows = np.array([[real, value, value] for real in (0, 1) for value in (0, 1)], np.int64)
    found = by_terms(program, rows, rows)
    assert np.array_equal(found, matches(program, rows, rows))
    assert not found[:2].any()
    assert not found[:, :2].any()
    assert found[2, 2] == (kind != "text")
    assert found[3, 3]


@pytest.mark.parametrize(("name", "wrong"), [("NEVER", 2**59), ("NEVER", 0), ("LOWERED_SCORE", 0)])
def test_too_small_a_penalty_lets_dummies_match(monkeypatch: pytest.MonkeyPatch, name: str, wrong: int) -> None:
    """The check above can fail: dummies would match with less."""
    both = (Comparison("number", 1, 1, 2**30), Comparison("exact", 1, 1))
    program = Program(both[:1] if name == "NEVER" else both, 1)
    rows = np.zeros((2, program.width), np.int64)
    rows[1, 0] = 1
    assert np.array_equal(by_terms(program, rows, rows), matches(program, rows, rows))
    monkeypatch.setattr(terms, name, wrong)
    assert not np.array_equal(by_terms(program, rows, rows), matches(program, rows, rows))


@given(st.data())
@settings(max_examples=25)
def test_tiles_cover_a_block_and_their_filling_matches_nothing(data: st.DataObject) -> None:
    program = data.draw(programs())
    left, right = data.draw(features(program)), data.draw(features(program))
    match, found = matcher(public_program(program), np), np.zeros((len(left), len(right)), bool)
    rows, columns = side_terms(program, left, "listener"), side_terms(program, right, "connector")
    for top, bottom, height in tiles(len(left), 4, 2):
        for start, stop, width in tiles(len(right), 4, 2):
            bits = match(
                filled(rows[top:bottom], height, dummy_row(program, "listener")),
                filled(columns[start:stop], width, dummy_row(program, "connector")),
            )
            assert bits.shape == (height, width)
            assert not bits[bottom - top :].any()
            assert not bits[:, stop - start :].any()
            found[top:bottom, start:stop] = bits[: bottom - top, : stop - start]
    assert np.array_equal(found, matches(program, left, right))


def test_sizes_of_tiles_are_few_whatever_the_sizes_of_blocks() -> None:
    shapes = {size for rows in range(2000) for _, _, size in tiles(rows, 256, 32)}
    assert shapes == set(range(32, 257, 32))
    assert tiles(0, 256, 32) == []
    assert tiles(257, 256, 32) == [(0, 256, 256), (256, 257, 32)]
