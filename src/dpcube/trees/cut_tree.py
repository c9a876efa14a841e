"""A tree of boxes cut in two, by its cuts alone, with its bounds worked out by NumPy: as estimates are stored.

A `BoxTree` is checked by compiled loops, which take longer to load than few questions to answer.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.trees.tree import BoxTree


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
