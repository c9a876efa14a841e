"""The terms that each side brings give the match bits of the reference, by the very function that the engine compiles.

Here it runs in NumPy, whose integers wrap around as the engine's rings do: what overflows there is wrong here.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.arrays import Bools, Ints
from dpcube.link.limits import MAX_COMPARED
from dpcube.link.program import Comparison, Kind, Program, matches
from dpcube.link.secure import terms
from dpcube.link.secure.terms import public_program, side_terms, text_places, text_shape
from dpcube.link.secure.worker import PairStream, decider, tile_shares, tiles

EDGES = (-MAX_COMPARED, -MAX_COMPARED + 1, -2, -1, 0, 1, 2, MAX_COMPARED - 1, MAX_COMPARED)
EXTREMES = (-(2**63), -1, 0, 1, 2**63 - 1)


def comparisons() -> st.SearchStrategy[Comparison]:
    weight = st.integers(1, 2**20)
    return st.one_of(
        st.builds(lambda c, w: Comparison("exact", c, w), st.integers(1, 3), weight),
        st.builds(lambda w, t: Comparison("number", 1, w, t), weight, st.sampled_from((0, 1, 2, 2**26, 2**27))),
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


def by_terms(program: Program, left: Ints, right: Ints, *, edge: int = 4, at_once: int = 5, off: int = 0) -> Bools:
    """The worker's own steps for both sides, with products that are shared at random and off by so much."""
    public = {**public_program(program), "edge": edge, "rows_alike": 2, "sizes": [[len(left)], [len(right)]]}
    draw = np.random.default_rng(len(left))
    given: list[Ints] = []

    def noted(own: Ints, rows: int) -> Any:
        given.append(own)
        return np.zeros((len(own), rows), np.uint64)

    def side(rank: int, product: Any) -> list[Any]:
        bits, added = side_terms(program, (left, right)[rank], "listener" if rank == 0 else "connector")
        return list(tile_shares({**public, "rank": rank}, {"bits0": bits, "added0": added}, [0, 0], product))

    side(0, noted)
    factors = iter(given)

    def multiplied(own: Ints, rows: int) -> Any:
        other = next(factors)
        assert rows == len(other)
        made = (other @ own.T).astype(np.uint64) + np.int64(off).astype(np.uint64)
        masks.append(draw.integers(0, 2**64, made.shape, np.uint64))
        return made - masks[-1]

    masks: list[Any] = []
    connector = side(1, multiplied)
    queue = iter(masks)
    listener = side(0, lambda *_: next(queue))
    decide, found = decider(public, np), np.zeros((len(left), len(right)), bool)
    stream = PairStream(lambda conditions: decide(conditions.view(np.int32)), at_once, 4)
    for (one, rows, columns), (other, *_) in zip(listener, connector, strict=True):
        stream.take(one + other, found[rows, columns])  # here one stream decides for both
    stream.finish()
    assert stream.placed == found.size
    return found


@given(st.data())
@settings(max_examples=50)
def test_terms_of_both_sides_give_the_match_bits(data: st.DataObject) -> None:
    program = data.draw(programs())
    left, right = data.draw(features(program)), data.draw(features(program))
    for off in (-1, 0, 1):  # what the engine's products may be off by
        assert np.array_equal(by_terms(program, left, right, off=off), matches(program, left, right))


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


@pytest.mark.parametrize(("name", "wrong"), [("NEVER", 2**27), ("NEVER", 0), ("LOWERED_SCORE", 0)])
def test_too_small_a_penalty_lets_dummies_match(monkeypatch: pytest.MonkeyPatch, name: str, wrong: int) -> None:
    """The check above can fail: dummies would match with less."""
    both = (Comparison("number", 1, 1, 2**27), Comparison("exact", 1, 1))
    program = Program(both[:1] if name == "NEVER" else both, 1)
    rows = np.zeros((2, program.width), np.int64)
    rows[1, 0] = 1
    assert np.array_equal(by_terms(program, rows, rows), matches(program, rows, rows))
    monkeypatch.setattr(terms, name, wrong)
    assert not np.array_equal(by_terms(program, rows, rows), matches(program, rows, rows))


@pytest.mark.parametrize("columns", [1, 7, 128, 4096])
@pytest.mark.parametrize("dice", [(1, 1), (4, 5), (13, 20), (1023, 1024), (1, 1024)])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_text_is_decided_as_in_the_clear_however_near_the_threshold(
    columns: int, dice: tuple[int, int], off: int
) -> None:
    """Rows of the first so many bits: all sizes and overlaps near where the answer turns, in every field."""
    program = Program(tuple([Comparison("text", columns, 1, dice=dice)] * 5), 1)
    sizes = sorted({0, 1, 2, 3, columns // 2, columns - 2, columns - 1, columns, columns * dice[0] // dice[1]})
    ones = np.array([np.arange(columns) < size for size in sizes if 0 <= size <= columns], np.int64)
    for text in range(5):
        rows = np.zeros((len(ones), program.width), np.int64)
        rows[:, 0] = 1
        others = rows.copy()
        for other in range(5):  # the other texts have nothing in common, and as many bits as can be
            rows[:, 1 + other * columns], others[:, 2 + other * columns :][:, : columns - 1] = columns > 1, 1
        for one in (rows, others):
            one[:, 1 + text * columns : 1 + (text + 1) * columns] = ones
        found = by_terms(program, rows, others, edge=4, at_once=64, off=off)
        assert np.array_equal(found, matches(program, rows, others))


@given(comparisons().filter(lambda one: one.kind == "text"))
def test_fields_of_a_product_do_not_touch(text: Comparison) -> None:
    (f, g), places = text_shape(text), text_places(text)
    assert places[0] - g >= 1
    assert 32 - g - f >= 0
    assert places[-1] + f <= 64
    for below, place in pairwise(places):
        assert below + text.columns.bit_length() + g <= place
        assert below + f <= place


def test_four_texts_of_the_usual_size_share_a_product_and_the_largest_still_fits() -> None:
    assert len(text_places(Comparison("text", 128, 1, dice=(4, 5)))) == 4
    assert len(text_places(Comparison("text", 4096, 1, dice=(1023, 1024)))) == 2


def test_sizes_of_tiles_are_few_whatever_the_sizes_of_blocks() -> None:
    shapes = {size for rows in range(2000) for _, _, size in tiles(rows, 256, 32)}
    assert shapes == {32, 64, 128, 256}
    assert tiles(0, 256, 32) == []
    assert tiles(257, 256, 32) == [(0, 256, 256), (256, 257, 32)]


@pytest.mark.parametrize("columns", [1, 2, 3, 7])
def test_each_column_that_must_be_equal_has_two_conditions(columns: int) -> None:
    assert terms._conditions(Comparison("exact", columns, 1)) == (0, 2 * columns)


def test_a_field_holds_three_times_what_texts_can_have_in_common() -> None:
    """With its sign: the sums of two sides and what they have in common stay apart."""
    for columns in range(1, 600):
        bits, _ = text_shape(Comparison("text", columns, 1, dice=(13, 20)))
        assert 2 ** (bits - 2) <= 3 * (columns + 1) < 2 ** (bits - 1)
