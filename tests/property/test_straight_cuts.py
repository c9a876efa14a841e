"""Boxes in between: every tree that straight cuts can part becomes one of halves, and no other does."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.arrays import Ints
from dpcube.trees import straight_cuts
from dpcube.trees.straight_cuts import StraightCuts
from dpcube.trees.straight_cuts import straight_cuts as cut
from dpcube.trees.tree import BoxTree
from random_trees import random_tree

quick = settings(deadline=None, max_examples=80, derandomize=True)
SHAPES = st.sampled_from([(1,), (2,), (9,), (1, 6), (4, 4), (3, 5), (2, 3, 2)])
Bounds = tuple[tuple[int, ...], tuple[int, ...]]
WINDING: list[Bounds] = [((0, 0), (1, 2)), ((0, 2), (2, 3)), ((1, 1), (2, 2)), ((1, 0), (3, 1)), ((2, 1), (3, 3))]


def parted(shape: tuple[int, ...], children: list[Bounds]) -> BoxTree:
    """A tree of the whole shape and its parts."""
    lower, upper = (np.array(column) for column in zip(((0,) * len(shape), shape), *children, strict=True))
    return BoxTree(shape, lower, upper, np.array([-1] + [0] * len(children)))


def shuffled(tree: BoxTree, generator: np.random.Generator) -> BoxTree:
    """The same boxes, the children of each in another order."""
    order: list[int] = []
    parent: list[int] = []

    def visit(node: int, above: int) -> None:
        me = len(order)
        order.append(node)
        parent.append(above)
        for child in generator.permutation(np.flatnonzero(tree.parent == node)):
            visit(int(child), me)

    visit(0, -1)
    return BoxTree(tree.shape, tree.lower[order], tree.upper[order], np.array(parent))


def check(tree: BoxTree, found: StraightCuts | None) -> None:
    """Old boxes are where they are said to be, new ones are halves with the lower first, and leaves are the same."""
    assert found is not None
    new, moved = found
    np.testing.assert_array_equal(new.lower[moved], tree.lower)
    np.testing.assert_array_equal(new.upper[moved], tree.upper)
    assert len(new) == 2 * len(new.leaves) - 1
    inner = np.flatnonzero(~new.is_leaf)
    left, right = inner + 1, new.end[inner + 1]
    np.testing.assert_array_equal(new.end[right], new.end[inner])
    assert ((new.upper[left] <= new.lower[right]).sum(axis=1) == 1).all()
    assert sorted(boxes_of(new, new.leaves)) == sorted(set(boxes_of(tree, tree.leaves)))
    for node in range(1, len(tree)):  # what lay inside another still does
        above = moved[tree.parent[node]]
        assert above <= moved[node] < new.end[above]


def boxes_of(tree: BoxTree, nodes: Ints) -> list[Bounds]:
    pairs = zip(tree.lower[nodes].tolist(), tree.upper[nodes].tolist(), strict=True)
    return [(tuple(low), tuple(high)) for low, high in pairs]


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_boxes_cut_across_an_axis_in_any_order(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = shuffled(random_tree(shape, generator, stop=0.3), generator)
    check(tree, cut(tree))


def can_be_parted(boxes: list[Bounds]) -> bool:
    """By trying every cut."""
    if len(boxes) == 1:
        return True
    for axis in range(len(boxes[0][0])):
        for place in {low[axis] for low, _ in boxes}:
            below = [box for box in boxes if box[1][axis] <= place]
            above = [box for box in boxes if box[0][axis] >= place]
            if below and above and len(below) + len(above) == len(boxes):
                return can_be_parted(below) and can_be_parted(above)  # a straight cut never spoils another
    return False


def random_parts(generator: np.random.Generator, side: int) -> list[Bounds]:
    """Fill a square with random boxes, first corner first: they often wind around one another."""
    free = np.ones((side, side), np.bool_)
    found: list[Bounds] = []
    while free.any():
        x, y = np.argwhere(free)[0]
        high = next((b for b in range(y, side) if not free[x, b]), side)
        wide = int(generator.integers(y + 1, high + 1))
        deep = next((a for a in range(x, side) if not free[a, y:wide].all()), side)
        last = int(generator.integers(x + 1, deep + 1))
        free[x:last, y:wide] = False
        found.append(((int(x), int(y)), (last, wide)))
    return found


@quick
@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_exactly_those_that_straight_cuts_can_part(side: int, seed: int) -> None:
    parts = random_parts(np.random.default_rng(seed), side)
    tree, possible = parted((side, side), parts), can_be_parted(parts)
    found = cut(tree)
    assert (found is not None) == possible
    if possible:
        check(tree, found)


def test_boxes_that_wind_around_one_another_cannot() -> None:
    assert not can_be_parted(WINDING)
    assert cut(parted((3, 3), WINDING)) is None


def test_a_tree_of_halves_is_returned_as_it_is() -> None:
    tree = parted((4, 2), [((0, 0), (1, 2)), ((1, 0), (4, 2))])
    found = cut(tree)
    assert found is not None
    assert found.tree is tree
    assert found.moved.tolist() == [0, 1, 2]


def test_an_only_child_is_its_parent() -> None:
    tree = BoxTree((2,), np.array([[0], [0], [0], [1]]), np.array([[2], [2], [1], [2]]), np.array([-1, 0, 1, 1]))
    found = cut(tree)
    check(tree, found)
    assert found is not None
    assert found.moved.tolist() == [0, 0, 1, 2]


def test_a_grid_is_cut_evenly_and_once() -> None:
    corners = list(itertools.product(range(16), repeat=2))
    tree = parted((16, 16), [((x, y), (x + 1, y + 1)) for x, y in corners])
    found = cut(tree)
    check(tree, found)
    assert found is not None
    depth = np.zeros(len(found.tree), np.int64)
    for node in range(1, len(depth)):
        depth[node] = depth[found.tree.parent[node]] + 1
    assert depth.max() == 8
    assert cut(tree) is found  # kept as long as the tree is
    del found, tree
    assert len(straight_cuts._MADE) == 0 or all(one is not None for one in straight_cuts._MADE)


def test_peeling_boxes_off_one_by_one_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    side, at = 300, 0
    peeled: list[Bounds] = []
    while at < side - 1:
        peeled += [((at, at), (at + 1, side)), ((at + 1, at), (side, at + 1))]
        at += 1
    peeled.append(((at, at), (side, side)))
    check(first := parted((side, side), peeled), cut(first))
    monkeypatch.setattr(straight_cuts, "WORK", 10_000)
    began = time.process_time()
    assert cut(parted((side, side), peeled)) is None
    assert time.process_time() - began < 1
