from typing import TypedDict, TypeVar

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dpcube.core.errors import DomainError
from dpcube.trees.tree import BoxTree

# The cube is cut in three along its first axis; the middle part is then cut in two along the second.
LOWER = [[0, 0], [0, 0], [1, 0], [1, 0], [1, 2], [3, 0]]
UPPER = [[4, 3], [1, 3], [3, 3], [3, 2], [3, 3], [4, 3]]
PARENT = [-1, 0, 0, 2, 2, 0]

Item = TypeVar("Item")


class Fields(TypedDict, total=False):
    lower: ArrayLike
    upper: ArrayLike
    parent: ArrayLike
    shape: tuple[int, ...]


def tree(
    lower: ArrayLike = LOWER, upper: ArrayLike = UPPER, parent: ArrayLike = PARENT, shape: tuple[int, ...] = (4, 3)
) -> BoxTree:
    return BoxTree(shape, np.array(lower), np.array(upper), np.array(parent))


def changed(rows: list[Item], row: int, value: Item) -> list[Item]:
    return [value if i == row else old for i, old in enumerate(rows)]


def test_what_follows_from_the_bounds() -> None:
    grown = tree()
    assert len(grown) == 6
    assert grown.end.tolist() == [6, 2, 5, 4, 5, 6]
    assert grown.leaves.tolist() == [1, 3, 4, 5]
    assert grown.is_leaf.tolist() == [False, True, False, True, True, True]
    assert grown.sizes.tolist() == [12, 3, 6, 4, 2, 3]
    assert grown.partitioning().labels.tolist() == [[0, 0, 0], [1, 1, 2], [1, 1, 2], [3, 3, 3]]
    assert repr(grown) == "<BoxTree: 6 nodes, 4 leaves in (4, 3)>"


def test_a_root_alone_is_a_tree() -> None:
    grown = tree([[0, 0]], [[4, 3]], [-1])
    assert grown.end.tolist() == [1]
    assert grown.leaves.tolist() == [0]


def test_arrays_are_read_only_and_the_callers_are_not() -> None:
    parent = np.array(PARENT)
    grown = BoxTree((4, 3), np.array(LOWER), np.array(UPPER), parent)
    assert parent.flags.writeable
    for name in ("lower", "upper", "parent", "end", "leaves", "sizes"):
        array = getattr(grown, name)
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        ({"lower": changed(LOWER, 0, [0, 1])}, "the first node of a tree must be the whole shape"),
        ({"lower": np.empty((0, 2), int), "upper": np.empty((0, 2), int), "parent": np.empty(0, int)}, "whole shape"),
        ({"parent": changed(PARENT, 0, 0)}, "node 0 .* the only root"),
        ({"parent": changed(PARENT, 5, -1)}, "node 5 .* the only root"),
        ({"parent": changed(PARENT, 2, 3)}, "node 2 .* its parent must come before it"),
        ({"parent": changed(PARENT, 3, 3)}, "node 3 .* its parent must come before it"),
        ({"parent": [-1, 0, 0, 0, 2, 2]}, "node 4 .* in preorder"),
        ({"upper": changed(UPPER, 4, [4, 3])}, "node 4 .* inside its parent"),
        ({"lower": changed(LOWER, 3, [1, 1])}, "node 2 .* as many cells"),
        ({"lower": changed(LOWER, 3, [1, 1]), "upper": changed(UPPER, 3, [3, 3])}, "leaves .* box 4 .* overlaps"),
        ({"parent": PARENT[:-1]}, "6 whole numbers, one for each node"),
        ({"parent": [float(node) for node in PARENT]}, "whole numbers"),
        ({"shape": (4, 2)}, "box 0 .* not inside"),
    ],
)
def test_what_is_no_tree(faulty: Fields, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        tree(**faulty)


def test_preorder_is_what_was_checked() -> None:
    # The last case above is refused for its order alone: in preorder the same boxes are a tree.
    order = [0, 1, 5, 2, 3, 4]
    assert len(tree([LOWER[i] for i in order], [UPPER[i] for i in order], [-1, 0, 0, 0, 3, 3])) == 6


def test_a_tree_knows_its_levels_cuts_and_leaves() -> None:
    lower = np.array([[0, 0], [0, 0], [2, 0], [2, 2], [2, 0]])  # the second cut has its upper half first
    upper = np.array([[4, 3], [2, 3], [4, 3], [4, 3], [4, 2]])
    tree = BoxTree((4, 3), lower, upper, np.array([-1, 0, 0, 2, 2]))
    assert tree.levels.tolist() == [0, 1, 1, 2, 2]
    assert tree.cuts.axis.tolist() == [0, -1, 1, -1, -1]
    assert tree.cuts.place.tolist() == [2, 0, 2, 0, 0]
    assert tree.leaf_boxes.lower.tolist() == [[0, 0], [2, 2], [2, 0]]
    assert not tree.is_halved
    with pytest.raises(ValueError, match="read-only"):
        tree.levels[0] = 1


def test_a_node_of_three_children_has_no_cut() -> None:
    lower, upper = np.array([[0], [0], [1], [2]]), np.array([[3], [1], [2], [3]])
    tree = BoxTree((3,), lower, upper, np.array([-1, 0, 0, 0]))
    assert tree.cuts.axis.tolist() == [-1] * 4
    assert not tree.is_halved
    assert BoxTree.uncut((3,)).is_halved
