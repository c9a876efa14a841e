"""Tree of nested boxes (hierarchical partition of a cube), validated, with its nodes in preorder.

The descendants of node i are i+1..end[i]-1, and a traversal needs no stack: from node i go to i+1 to descend and to
end[i] to skip the subtree. Properties that follow from the bounds and parents (the boxes of the leaves, the level of
each node, the cut below it) are computed at first use and cached.

A `CutTree` is a binary tree given by its cuts alone, with its bounds computed by NumPy, as estimates are stored: the
compiled loops that check a `BoxTree` take longer to load than a few queries to answer.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import MAX_LABELLED_CELLS, Boxes, Partitioning, paint_selected
from dpcube.core.compiled import compiled
from dpcube.core.errors import DomainError
from dpcube.core.memory import check_memory

Item = TypeVar("Item", bound=np.generic)

_FAULTS = (
    "the first node must be the only root, with parent -1",
    "its parent must come before it",
    "the nodes must be in preorder: each parent, then its subtrees one after another",
    "it must lie inside its parent",
    "its children must have as many cells as it has",
)


class Cuts(NamedTuple):
    """The cut below each node, as arrays of shape (nodes,): its axis, and the first cell of the upper half.

    Without a cut the axis is -1 and the place 0.
    """

    axis: Ints
    place: Ints


@dataclass(frozen=True, eq=False, repr=False)
class BoxTree:
    """Nested boxes in preorder: the root is the whole shape and the children of a node partition it.

    `lower` and `upper` have shape (nodes, axes); `parent`, `sizes` (numbers of cells) and `end` have shape (nodes,);
    `leaves` are the numbers of the nodes without children; a tree `is_straight` if all others have two, the lower
    first.

    >>> lower, upper = np.array([[0], [0], [1]]), np.array([[3], [1], [3]])
    >>> BoxTree((3,), lower, upper, parent=np.array([-1, 0, 0])).leaves
    array([1, 2])
    """

    shape: tuple[int, ...]
    lower: Ints
    upper: Ints
    parent: Ints
    sizes: Ints = field(init=False)
    end: Ints = field(init=False)
    leaves: Ints = field(init=False)
    is_straight: bool = field(init=False)

    def __post_init__(self) -> None:
        boxes = Boxes(self.shape, self.lower, self.upper)
        parent = self._checked_parent(len(boxes))
        if len(boxes) == 0 or boxes[0].size != np.prod(boxes.shape, dtype=np.int64):
            message = f"the first node of a tree must be the whole shape {boxes.shape}"
            raise DomainError(message)
        sizes, end = boxes.sizes, np.empty(len(boxes), dtype=np.int64)
        fault, node = _first_fault(boxes.lower, boxes.upper, parent, sizes, end)
        if fault >= 0:
            message = f"node {node} ({boxes[node]}, parent {parent[node]}) of the tree is wrong: {_FAULTS[fault]}"
            raise DomainError(message)
        leaves = np.flatnonzero(_is_leaf(end))
        in_two, is_straight = _cuts_in_two(boxes.lower, boxes.upper, end)
        if not in_two:
            cells = int(sizes[0])
            check_memory(
                4 * min(cells, MAX_LABELLED_CELLS), what=f"a cube of {cells:,} cells", remedy="use a larger machine"
            )
            try:
                paint_selected(boxes, leaves)
            except DomainError as error:
                message = f"the leaves of the tree do not partition its shape: {error}"
                raise DomainError(message) from None
        for array in (sizes, end, leaves, parent):
            array.flags.writeable = False
        fixed = {"shape": boxes.shape, "lower": boxes.lower, "upper": boxes.upper, "parent": parent}
        found = {"sizes": sizes, "end": end, "leaves": leaves, "is_straight": is_straight}
        for name, value in (fixed | found).items():
            object.__setattr__(self, name, value)

    def _checked_parent(self, nodes: int) -> Ints:
        parent = np.asarray(self.parent)
        if parent.shape != (nodes,) or parent.dtype.kind not in "iu":
            message = f"parents must be {nodes} whole numbers, one for each node, not {parent.dtype} {parent.shape}"
            raise DomainError(message)
        shared = parent.dtype == np.int64 and parent.flags.c_contiguous and not parent.flags.writeable
        return parent if shared else np.array(parent, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.parent)

    def __repr__(self) -> str:
        return f"<BoxTree: {len(self)} nodes, {len(self.leaves)} leaves in {self.shape}>"

    @classmethod
    def uncut(cls, shape: tuple[int, ...]) -> "BoxTree":
        """Return the tree of one box, the whole shape.

        >>> BoxTree.uncut((4, 3))
        <BoxTree: 1 nodes, 1 leaves in (4, 3)>
        """
        return cls(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]), np.array([-1]))

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each node has no children."""
        return _kept(_is_leaf(self.end))

    @cached_property
    def leaf_boxes(self) -> Boxes:
        """The boxes of the leaves, in the order of `leaves`."""
        return self.boxes(self.leaves)

    @cached_property
    def levels(self) -> Ints:
        """Level of each node: the number of its ancestors."""
        return _kept(_levels(self.parent))

    @cached_property
    def cuts(self) -> Cuts:
        """The cut below each node that has two children; no cut below the others."""
        return Cuts(*map(_kept, _cuts(self.lower, self.upper, self.end)))

    @cached_property
    def is_halved(self) -> bool:
        """Whether every node that has children is cut at the middle of an axis, the lower half coming first."""
        inner, cuts = np.flatnonzero(~self.is_leaf), self.cuts
        axis, left = cuts.axis[inner], inner + 1
        middle = (self.lower[inner, axis] + self.upper[inner, axis]) // 2
        return bool(np.all((axis >= 0) & (cuts.place[inner] == middle) & (self.upper[left, axis] == middle)))

    def boxes(self, nodes: Ints) -> Boxes:
        """Return the boxes of some nodes."""
        return Boxes(self.shape, *self._bounds(nodes))

    def partitioning(self) -> Partitioning:
        """Return the leaves, in preorder, as a partitioning of the shape; paint its labels anew at each call."""
        return Partitioning(self.shape, *self._bounds(self.leaves))

    def _bounds(self, nodes: Ints) -> tuple[Ints, Ints]:
        lower, upper = self.lower[nodes], self.upper[nodes]
        lower.flags.writeable = upper.flags.writeable = False  # spares a copy
        return lower, upper


def _kept(array: NDArray[Item]) -> NDArray[Item]:
    array.flags.writeable = False
    return array


@compiled
def _is_leaf(end: Ints) -> NDArray[np.bool_]:
    return np.equal(end, np.arange(1, len(end) + 1))


@compiled
def _first_fault(lower: Ints, upper: Ints, parent: Ints, sizes: Ints, end: Ints) -> tuple[int, int]:
    """Fill `end`; return the first violated rule of `_FAULTS` and its node, or -1 and -1."""
    if parent[0] != -1:
        return 0, 0
    for node in range(1, len(parent)):
        if not 0 <= parent[node] < node:
            return 1 if parent[node] >= node else 0, node
        if not _is_next_in_preorder(parent, node):
            return 2, node
        for axis in range(lower.shape[1]):
            if lower[node, axis] < lower[parent[node], axis] or upper[node, axis] > upper[parent[node], axis]:
                return 3, node
    return _first_leak(parent, sizes, end)


@compiled
def _is_next_in_preorder(parent: Ints, node: int) -> bool:
    """Whether the parent of `node` is the node before it or one of that node's ancestors."""
    # In a whole tree each node is passed at most once, so this is linear over all nodes.
    ancestor = node - 1
    while ancestor > parent[node]:
        ancestor = parent[ancestor]
    return bool(ancestor == parent[node])


@compiled
def _first_leak(parent: Ints, sizes: Ints, end: Ints) -> tuple[int, int]:
    """Fill `end` from the last node to the first, and check that children have all cells of their parent."""
    inside = np.zeros(len(parent), dtype=np.int64)
    for node in range(len(parent)):
        end[node] = node + 1
    for node in range(len(parent) - 1, -1, -1):
        if inside[node] not in (0, sizes[node]):
            return 4, node
        if node > 0:
            inside[parent[node]] += sizes[node]
            end[parent[node]] = max(end[parent[node]], end[node])
    return -1, -1


@compiled
def _cuts_in_two(lower: Ints, upper: Ints, end: Ints) -> tuple[bool, bool]:
    """Whether every inner node has two children, disjoint on some axis, and whether the lower one is always first.

    They have as many cells as the node, so they partition it, and the leaves partition the shape.
    """
    in_order = True
    for node in range(len(end)):
        left = node + 1
        if end[node] == left:
            continue
        right, below, above = end[left], False, False
        if right == end[node] or end[right] != end[node]:
            return False, False
        for axis in range(lower.shape[1]):
            below |= upper[left, axis] <= lower[right, axis]
            above |= upper[right, axis] <= lower[left, axis]
        if not (below or above):
            return False, False
        in_order &= below
    return True, in_order


@compiled
def _levels(parent: Ints) -> Ints:
    level = np.zeros(len(parent), np.int64)
    for node in range(1, len(parent)):
        level[node] = level[parent[node]] + 1
    return level


@compiled
def _cuts(lower: Ints, upper: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return axis and place of every cut: the axis on which the first of two children differs from its parent."""
    axes, places = np.full(len(end), -1, np.int64), np.zeros(len(end), np.int64)
    for node in range(len(end)):
        left = node + 1
        if end[node] == left or end[left] == end[node] or end[end[left]] != end[node]:
            continue
        for axis in range(lower.shape[1]):
            if upper[left, axis] < upper[node, axis]:
                axes[node], places[node] = axis, upper[left, axis]
            elif lower[left, axis] > lower[node, axis]:
                axes[node], places[node] = axis, lower[left, axis]
    return axes, places


@dataclass(frozen=True, eq=False)
class CutTree:
    """Nodes in preorder: descendants of a node end before `end`; it is cut across `axis` before the cell `place`.

    Arrays of shape (nodes,); a leaf is not cut. A ValueError says that they are no tree.
    """

    shape: tuple[int, ...]
    end: Ints
    axis: Ints
    place: Ints

    def __post_init__(self) -> None:
        if not self._is_tree():
            msg = "the nodes are no tree of cuts in two"
            raise ValueError(msg)
        object.__setattr__(self, "_bounds", self._bounded())

    def __len__(self) -> int:
        return len(self.end)

    @property
    def lower(self) -> Ints:
        """First cell of each node on every axis, shape (nodes, axes)."""
        bounds: tuple[Ints, Ints] = self.__dict__["_bounds"]
        return bounds[0]

    @property
    def upper(self) -> Ints:
        """One past the last."""
        bounds: tuple[Ints, Ints] = self.__dict__["_bounds"]
        return bounds[1]

    @cached_property
    def inner(self) -> Ints:
        """The nodes that are cut."""
        return np.flatnonzero(self.end > np.arange(1, len(self.end) + 1))

    @cached_property
    def leaves(self) -> Ints:
        """The nodes that are not."""
        return np.flatnonzero(self.end == np.arange(1, len(self.end) + 1))

    @cached_property
    def parent(self) -> Ints:
        """The node that each is a half of, -1 for the first."""
        parent = np.full(len(self.end), -1)
        parent[self.inner + 1] = parent[self.end[self.inner + 1]] = self.inner
        return parent

    @cached_property
    def boxes(self) -> BoxTree:
        """The same tree, for compiled walks."""
        return BoxTree(self.shape, self.lower, self.upper, self.parent)

    def _is_tree(self) -> bool:
        """Whether the nodes have two halves or none: then every walk ends, and meets each node once at most."""
        nodes = np.arange(len(self.end))
        if len(nodes) == 0 or np.any((self.end <= nodes) | (self.end > len(nodes))) or self.end[0] != len(nodes):
            return False
        inner = self.inner
        right, last = self.end[inner + 1], self.end[inner]
        if np.any(right >= last) or np.any(self.end[right] != last):
            return False
        return bool(np.all((self.axis[inner] >= 0) & (self.axis[inner] < len(self.shape))))

    def _bounded(self) -> tuple[Ints, Ints]:
        """Return the bounds of all nodes, level by level; a ValueError if a cut is outside its node."""
        lower = np.zeros((len(self.end), len(self.shape)), np.int64)
        upper = np.tile(np.array(self.shape, np.int64), (len(self.end), 1))
        nodes = np.zeros(1, np.int64)
        while len(nodes := nodes[self.end[nodes] > nodes + 1]):
            axis, place, left, right = self.axis[nodes], self.place[nodes], nodes + 1, self.end[nodes + 1]
            if np.any((place <= lower[nodes, axis]) | (place >= upper[nodes, axis])):
                msg = "a cut lies outside its box"
                raise ValueError(msg)
            lower[left] = lower[right] = lower[nodes]
            upper[left] = upper[right] = upper[nodes]
            upper[left, axis] = lower[right, axis] = place
            nodes = np.concatenate([left, right])
        return lower, upper
