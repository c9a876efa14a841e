"""The public tree of halves: a function of the shape and of which leaves are cut, and of nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from dpcube.partition import BoxTree
from dpcube.partition.halving import cuts_of, depth, halve, levels, whole

Ints = NDArray[np.int64]

quick = settings(deadline=None, max_examples=100, derandomize=True)
SHAPES = hnp.array_shapes(max_dims=5, max_side=6) | st.tuples(st.just(1), st.integers(1, 300))


def slow_halves(lower: list[int], upper: list[int], cuts: int) -> list[tuple[list[int], list[int]]]:
    """The same tree by recursion: every box in preorder."""
    sides = [high - low for low, high in zip(lower, upper, strict=True)]
    halvings = [math.ceil(math.log2(side)) for side in sides]
    found = [(lower, upper)]
    if cuts == 0 or max(halvings) == 0:
        return found
    axis = halvings.index(max(halvings))
    middle = (lower[axis] + upper[axis]) // 2
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[axis] = right_lower[axis] = middle
    return found + slow_halves(lower, left_upper, cuts - 1) + slow_halves(right_lower, upper, cuts - 1)


def boxes_of(tree: BoxTree) -> list[tuple[list[int], list[int]]]:
    return list(zip(tree.lower.tolist(), tree.upper.tolist(), strict=True))


@quick
@given(SHAPES, st.integers(0, 9))
def test_the_tree_is_the_recursion_s(shape: tuple[int, ...], cuts: int) -> None:
    grown = halve(whole(shape), np.zeros(1, np.int64), cuts)
    assert boxes_of(grown.tree) == slow_halves([0] * len(shape), list(shape), cuts)
    assert grown.moved.tolist() == [0]
    one_box = len(grown.tree) == 1
    assert grown.new_leaves.tolist() == ([] if one_box else grown.tree.leaves.tolist())


@quick
@given(SHAPES)
def test_so_many_cuts_as_the_depth_reach_every_cell_and_one_less_does_not(shape: tuple[int, ...]) -> None:
    root, deepest = np.zeros(1, np.int64), depth(shape)
    tree = halve(whole(shape), root, deepest).tree
    assert (tree.sizes[tree.leaves] == 1).all()
    assert len(tree.leaves) == math.prod(shape)
    assert levels(tree).max() == deepest
    if deepest > 0:
        shallow = halve(whole(shape), root, deepest - 1).tree
        assert shallow.sizes[shallow.leaves].max() > 1


@quick
@given(SHAPES, st.data())
def test_only_chosen_leaves_are_cut_and_old_nodes_keep_their_boxes(shape: tuple[int, ...], data: st.DataObject) -> None:
    tree = halve(whole(shape), np.zeros(1, np.int64), data.draw(st.integers(0, 4))).tree
    keep = data.draw(hnp.arrays(np.bool_, len(tree.leaves)))
    chosen, cuts = tree.leaves[keep], data.draw(st.integers(0, 4))
    grown = halve(tree, chosen, cuts)
    np.testing.assert_array_equal(grown.tree.lower[grown.moved], tree.lower)
    np.testing.assert_array_equal(grown.tree.upper[grown.moved], tree.upper)
    others = np.setdiff1d(tree.leaves, chosen)
    assert grown.tree.is_leaf[grown.moved[others]].all()
    new = np.setdiff1d(np.arange(len(grown.tree)), grown.moved)
    assert grown.new_leaves.tolist() == new[grown.tree.is_leaf[new]].tolist()
    expected = [
        box for leaf in chosen for box in slow_halves(tree.lower[leaf].tolist(), tree.upper[leaf].tolist(), cuts)[1:]
    ]
    assert [boxes_of(grown.tree)[node] for node in new] == expected


@quick
@given(SHAPES, st.integers(0, 6), st.integers(0, 6))
def test_cutting_in_two_steps_is_cutting_once(shape: tuple[int, ...], first: int, then: int) -> None:
    at_once = halve(whole(shape), np.zeros(1, np.int64), first + then).tree
    before = halve(whole(shape), np.zeros(1, np.int64), first).tree
    assert boxes_of(halve(before, before.leaves, then).tree) == boxes_of(at_once)


@quick
@given(SHAPES, st.integers(0, 6))
def test_cuts_are_where_the_halves_meet_and_where_a_leaf_would_be_cut(shape: tuple[int, ...], cuts: int) -> None:
    tree = halve(whole(shape), np.zeros(1, np.int64), cuts).tree
    axis, middle = cuts_of(tree)
    deeper = halve(tree, tree.leaves, 1)
    assert (axis[tree.sizes == 1] == -1).all()
    for node in np.flatnonzero(tree.sizes > 1):
        left = deeper.moved[node] + 1
        changed = np.flatnonzero(deeper.tree.upper[left] != tree.upper[node])
        assert changed.tolist() == [axis[node]]
        assert deeper.tree.upper[left, axis[node]] == middle[node]


@pytest.mark.parametrize("shape", [(1,), (1, 1, 1)])
def test_a_single_cell_stays_whole(shape: tuple[int, ...]) -> None:
    assert depth(shape) == 0
    grown = halve(whole(shape), np.zeros(1, np.int64), 5)
    assert len(grown.tree) == 1
    assert len(grown.new_leaves) == 0
    assert cuts_of(grown.tree).axis.tolist() == [-1]


def test_the_first_of_equally_long_axes_is_cut_and_odd_sides_round_down() -> None:
    tree = halve(whole((3, 4)), np.zeros(1, np.int64), 2).tree
    assert tree.lower.tolist() == [[0, 0], [0, 0], [0, 0], [0, 2], [1, 0], [1, 0], [1, 2]]
    assert tree.upper.tolist() == [[3, 4], [1, 4], [1, 2], [1, 4], [3, 4], [3, 2], [3, 4]]
