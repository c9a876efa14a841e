"""The public tree of halves: a function of the shape, of the kind of queries and of which leaves are cut."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpcube.core.arrays import Ints
from dpcube.queries.workload_model import WorkloadModel
from dpcube.trees import halving
from dpcube.trees.halving import CutOrder, Halved, depth
from dpcube.trees.tree import BoxTree, Cuts

quick = settings(deadline=None, max_examples=100, derandomize=True)
SHAPES = hnp.array_shapes(max_dims=5, max_side=6) | st.tuples(st.just(1), st.integers(1, 300))


def order_of(shape: tuple[int, ...]) -> CutOrder:
    """Ranges on the first axes, groups on the last of several."""
    kinds = ("ranges",) * (len(shape) - 1) + ("groups" if len(shape) > 2 else "ranges",)
    return WorkloadModel(shape, kinds).cut_order()


def halve(tree: BoxTree, chosen: Ints, cuts: int) -> Halved:
    return halving.halve(tree, chosen, cuts, order_of(tree.shape))


def cuts_of(tree: BoxTree) -> Cuts:
    return order_of(tree.shape).cuts_of(tree)


def slow_halves(lower: list[int], upper: list[int], cuts: int, order: CutOrder) -> list[tuple[list[int], list[int]]]:
    """The same tree by recursion: every box in preorder."""
    middles = [(low + high) // 2 for low, high in zip(lower, upper, strict=True)]
    worth = [
        round(float(order.worth[start + middle]), 9) if high - low > 1 else -1
        for start, middle, low, high in zip(order.start, middles, lower, upper, strict=True)
    ]
    found = [(lower, upper)]
    if cuts == 0 or max(worth) < 0:
        return found
    axis = worth.index(max(worth))
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[axis] = right_lower[axis] = middles[axis]
    halves = (lower, left_upper), (right_lower, upper)
    return found + [box for half in halves for box in slow_halves(*half, cuts - 1, order)]


def boxes_of(tree: BoxTree) -> list[tuple[list[int], list[int]]]:
    return list(zip(tree.lower.tolist(), tree.upper.tolist(), strict=True))


@quick
@given(SHAPES, st.integers(0, 9))
def test_the_tree_is_the_recursion_s(shape: tuple[int, ...], cuts: int) -> None:
    grown = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), cuts)
    assert boxes_of(grown.tree) == slow_halves([0] * len(shape), list(shape), cuts, order_of(shape))
    assert grown.moved.tolist() == [0]
    one_box = len(grown.tree) == 1
    assert grown.new_leaves.tolist() == ([] if one_box else grown.tree.leaves.tolist())


@quick
@given(SHAPES)
def test_so_many_cuts_as_the_depth_reach_every_cell_and_one_less_does_not(shape: tuple[int, ...]) -> None:
    root, deepest = np.zeros(1, np.int64), depth(shape)
    tree = halve(BoxTree.uncut(shape), root, deepest).tree
    assert (tree.sizes[tree.leaves] == 1).all()
    assert len(tree.leaves) == math.prod(shape)
    assert tree.levels.max() == deepest
    if deepest > 0:
        shallow = halve(BoxTree.uncut(shape), root, deepest - 1).tree
        assert shallow.sizes[shallow.leaves].max() > 1


@quick
@given(SHAPES, st.data())
def test_only_chosen_leaves_are_cut_and_old_nodes_keep_their_boxes(shape: tuple[int, ...], data: st.DataObject) -> None:
    tree = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), data.draw(st.integers(0, 4))).tree
    keep = data.draw(hnp.arrays(np.bool_, len(tree.leaves)))
    order = order_of(shape)
    chosen, cuts = tree.leaves[keep], data.draw(st.integers(0, 4))
    grown = halve(tree, chosen, cuts)
    np.testing.assert_array_equal(grown.tree.lower[grown.moved], tree.lower)
    np.testing.assert_array_equal(grown.tree.upper[grown.moved], tree.upper)
    others = np.setdiff1d(tree.leaves, chosen)
    assert grown.tree.is_leaf[grown.moved[others]].all()
    new = np.setdiff1d(np.arange(len(grown.tree)), grown.moved)
    assert grown.new_leaves.tolist() == new[grown.tree.is_leaf[new]].tolist()
    expected = [
        box
        for leaf in chosen
        for box in slow_halves(tree.lower[leaf].tolist(), tree.upper[leaf].tolist(), cuts, order)[1:]
    ]
    assert [boxes_of(grown.tree)[node] for node in new] == expected


@quick
@given(SHAPES, st.integers(0, 6), st.integers(0, 6))
def test_cutting_in_two_steps_is_cutting_once(shape: tuple[int, ...], first: int, then: int) -> None:
    at_once = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), first + then).tree
    before = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), first).tree
    assert boxes_of(halve(before, before.leaves, then).tree) == boxes_of(at_once)


@quick
@given(SHAPES, st.integers(0, 6))
def test_cuts_are_where_the_halves_meet_and_where_a_leaf_would_be_cut(shape: tuple[int, ...], cuts: int) -> None:
    tree = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), cuts).tree
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
    grown = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), 5)
    assert len(grown.tree) == 1
    assert len(grown.new_leaves) == 0
    assert cuts_of(grown.tree).axis.tolist() == [-1]


def test_attributes_asked_by_group_are_cut_first_and_odd_sides_round_down() -> None:
    order = WorkloadModel((4, 3), ("ranges", "groups")).cut_order()
    tree = halving.halve(BoxTree.uncut((4, 3)), np.zeros(1, np.int64), 2, order).tree
    assert tree.lower.tolist() == [[0, 0], [0, 0], [0, 0], [2, 0], [0, 1], [0, 1], [0, 2]]
    assert tree.upper.tolist() == [[4, 3], [4, 1], [2, 1], [4, 1], [4, 3], [4, 2], [4, 3]]


def test_of_equal_axes_the_first_is_cut_and_then_the_other() -> None:
    tree = halve(BoxTree.uncut((8, 8)), np.zeros(1, np.int64), 2).tree
    assert tree.upper[tree.leaves].tolist() == [[4, 4], [4, 8], [8, 4], [8, 8]]


@pytest.mark.parametrize("kind", ["ranges", "prefixes", "mixed"])
def test_a_cut_is_worth_k_over_f_of_ranges_whatever_is_asked(kind: str) -> None:
    order, kernel = WorkloadModel((12, 5), (kind, kind)).cut_order(), WorkloadModel((12, 5), ("ranges", "ranges"))
    lower, upper = np.array([[6, 0]]), np.array([[12, 5]])
    for axis, middle in ((0, 9), (1, 2)):
        covered, differ = kernel.values(lower, upper, np.array([axis]), np.array([middle]))
        assert order.worth[order.start[axis] + middle] == pytest.approx(differ[0] / covered[0])
