"""The kd-tree with private medians: where it cuts without noise, what it spends, and that it makes a real release."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube import Category, Domain, Integer, Release
from dpcube.core.arrays import Ints
from dpcube.core.boxes import box_sums
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import InputError
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.measurements import BoxCounts, Provenance, Transcript
from dpcube.release.periods import merged
from dpcube.research.strategies.median_tree import HIGHEST, MedianTree
from dpcube.strategies import ExternalStrategy, strategy_of
from dpcube.strategies.simulated import simulated_gate
from dpcube.testing import SeededNoise, SilentNoise

SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)


def silent(exact: Ints, **settings_: Any) -> Transcript:
    return MedianTree(stop=0, **settings_).run(Gate(exact, Fraction(1), noise=SilentNoise()))


def boxes_of(transcript: Transcript) -> BoxCounts:
    assert transcript.boxes is not None
    return transcript.boxes


def expected_boxes(exact: Ints, low: list[int], high: list[int], depth: int, height: int) -> list[tuple[Any, Any]]:
    """The boxes in preorder, cut at the first median in turn, by plain recursion."""
    found = [(tuple(low), tuple(high))]
    axes = [(depth + k) % len(low) for k in range(len(low))]
    axis = next((a for a in axes if high[a] - low[a] > 1), None)
    if axis is None or depth == height:
        return found
    inside = exact[tuple(map(slice, low, high))]
    rows, best = int(inside.sum()), (math.inf, 0)
    for place in range(low[axis] + 1, high[axis]):
        below = int(np.moveaxis(inside, axis, 0)[: place - low[axis]].sum())
        best = min(best, (abs(rows - 2 * below), place))
    first, second = high.copy(), low.copy()
    first[axis] = second[axis] = best[1]
    found += expected_boxes(exact, low, first, depth + 1, height)
    return found + expected_boxes(exact, second, high, depth + 1, height)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(SHAPES, st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_without_noise_boxes_are_cut_at_their_medians_and_counts_are_exact(
    shape: tuple[int, ...], seed: int, height: int
) -> None:
    exact = np.random.default_rng(seed).integers(0, 9, shape)
    boxes = boxes_of(silent(exact, height=height))
    real = min(height, sum((side - 1).bit_length() for side in shape))
    expected = expected_boxes(exact, [0] * len(shape), list(shape), 0, real)
    tree = boxes.tree
    assert [(tuple(a), tuple(b)) for a, b in zip(tree.lower.tolist(), tree.upper.tolist(), strict=True)] == expected
    np.testing.assert_array_equal(boxes.counts, box_sums(exact, tree.boxes(boxes.node)))


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    SHAPES, st.integers(0, 2**32 - 1), st.integers(1, HIGHEST), st.sampled_from(["in turn", "widest"]), st.booleans()
)
def test_any_shape_is_served_within_the_budget(
    shape: tuple[int, ...], seed: int, height: int, axis: Any, leftovers: Any
) -> None:
    exact = np.random.default_rng(seed).integers(0, 30, shape)
    strategy = MedianTree(height=height, axis=axis, leftovers=leftovers)
    for counter in (
        Gate(exact, Fraction(1, 3), noise=SeededNoise(seed)),
        simulated_gate(exact, Fraction(1, 3), seed=seed),
    ):
        transcript = strategy.run(counter)
        boxes = boxes_of(transcript)
        assert set(boxes.tree.leaves.tolist()) <= set(boxes.node.tolist())
        assert set(boxes.node.tolist()) == set(range(len(boxes.tree)))
        assert transcript.most_charged() <= BUDGET_UNITS
        assert boxes.tree.levels.max() <= height
        if leftovers:  # all of it, in every cell
            charges = np.zeros(shape, np.int64)
            for kept in transcript.measurements:
                kept.add_charges(charges)
            assert (charges == BUDGET_UNITS).all()


def test_the_literal_tree_gives_a_leaf_half_of_a_level() -> None:
    exact = np.arange(64).reshape(8, 8)
    boxes = boxes_of(silent(exact, height=3, leftovers=False))
    assert set(boxes.units.tolist()) == {BUDGET_UNITS // 4 // 2}
    assert len(boxes.node) == len(boxes.tree) == 15
    cuts = silent(exact, height=3).selections
    assert [len(kept.chosen) for kept in cuts] == [1, 2, 4]
    assert {kept.units for kept in cuts} == {BUDGET_UNITS // 4 - BUDGET_UNITS // 4 // 2}


def test_boxes_without_enough_rows_are_not_cut() -> None:
    """The left half is empty: once it is cut off, it is a leaf, and has the budget of its subtree."""
    exact = np.zeros((16, 16), np.int64)
    exact[8:] = 10**6
    gate = Gate(exact, Fraction(1), noise=SilentNoise())
    boxes = boxes_of(MedianTree(height=4, stop=1.0).run(gate))
    assert boxes.tree.levels[boxes.tree.leaves].max() == 4
    empty = np.flatnonzero((boxes.tree.upper[:, 0] <= 8) & boxes.tree.is_leaf)
    assert all(np.count_nonzero(boxes.node == node) == 2 for node in empty[boxes.tree.levels[empty] < 4])
    few = boxes_of(MedianTree(height=4, stop=1e12).run(Gate(exact, Fraction(1), noise=SilentNoise())))
    assert len(few.tree) == 1
    assert few.units.sum() == BUDGET_UNITS


def test_the_widest_side_is_cut() -> None:
    tree = boxes_of(silent(np.ones((2, 9, 5), np.int64), height=2, axis="widest")).tree
    assert tree.cuts.axis[:2].tolist() == [1, 2]
    tree = boxes_of(silent(np.ones((2, 9, 5), np.int64), height=2)).tree
    assert tree.cuts.axis[:2].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"height": 0}, "height must be from 1 to 30"),
        ({"height": HIGHEST + 1}, "height"),
        ({"height": 2.0}, "height"),
        ({"axis": "longest"}, "axis must be 'in turn' or 'widest'"),
        ({"stop": -1.0}, "stop"),
        ({"stop": math.nan}, "stop"),
        ({"stop": math.inf}, "stop"),
    ],
)
def test_parameters_that_cannot_be_are_refused(given: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        MedianTree(**given)


def test_it_is_known_by_its_name() -> None:
    found = strategy_of("median_tree")
    assert isinstance(found, ExternalStrategy)
    assert found.strategy == MedianTree()
    assert found.parameters() == {"height": 10, "axis": "in turn", "stop": 2.0, "leftovers": True}
    assert found.peak_bytes((1000, 1000)) == MedianTree().peak_bytes((1000, 1000)) > 8 * 10**6


def test_it_makes_a_real_release(tmp_path: Path) -> None:
    domain = Domain((Integer(name="age", min=0, max=31), Category(name="sex", values=("F", "M"), null="cell")))
    exact = np.random.default_rng(2).integers(0, 40, domain.shape)
    made = publish(exact, domain, epsilon=1, ledger=None, strategy="median_tree", save_to=tmp_path / "m.dpcube")
    release = Release.open(tmp_path / "m.dpcube")
    assert release.digest == made.digest
    assert release.provenance.private
    assert release.estimates == ("balanced", "posterior", "consistent", "uniform", "tree_least_squares")
    for question in ("", "age < 10", "sex = 'F' and age between 3 and 17"):
        answer = release.count(question) if question else release.count()
        assert np.isfinite([answer.value, answer.low, answer.high]).all()
        assert answer.low < answer.high
    assert "selection among up to" in str(release.explain())


def test_releases_of_periods_are_put_together_by_their_counts() -> None:
    """Each has choices of its own, of as many levels as it took."""
    domain = Domain((Integer(name="x", min=0, max=15), Integer(name="y", min=0, max=7)))
    parts = []
    for month in (1, 2):
        exact = np.random.default_rng(month).integers(0, 20, domain.shape)
        transcript = MedianTree(height=2 * month).run(Gate(exact, Fraction(1), noise=SilentNoise()))
        made = Provenance("median_tree", Fraction(1), "test", {}, period=f"month from {month} to {month}")
        parts.append((Release(domain, transcript, made), exact.sum()))
    whole = merged([release for release, _ in parts])
    assert [type(kept) for kept in whole.transcript.measurements] == [BoxCounts]
    assert whole.count().value == pytest.approx(sum(rows for _, rows in parts), rel=0.01)
