"""Terms of the additive model: a table for each feature, and coarser ones (interactions) for pairs of features.

A term puts every cell of its features into a group, by the estimated rows of the cells; the model has one coefficient
for each group.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints

MAX_TERM_GROUPS = 32
"""Groups of a feature by itself: ordered cells are put together until there are no more, about as many rows in each."""
MAX_PAIR_GROUPS = 8
"""Groups of a feature in a term of two."""
WIDEST_CATEGORY = 16
"""Features without order and with more cells than this are in no term of two: their groups would be too small."""


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """An axis of the cube: its number of cells, how many of the first are in order, and the rows of each.

    Where cells were counted in groups only, these groups are the cells, and `group_of` has the group of every cell.
    """

    cells: int
    in_order: int
    rows: Floats
    group_of: Ints | None = None

    def groups(self, most: int) -> Ints:
        """Return the group of each cell: runs of ordered cells with about as many rows each, every other cell its own.

        >>> Feature(5, 4, np.array([9.0, 1, 1, 7, 2])).groups(2).tolist()
        [0, 1, 1, 1, 2]
        """
        first = np.arange(self.in_order)
        if self.in_order > most:
            below = np.cumsum(self.rows[: self.in_order])
            middle = (below - self.rows[: self.in_order] / 2) / max(float(below[-1]), 1e-300)
            first = np.unique(np.minimum((middle * most).astype(np.int64), most - 1), return_inverse=True)[1]
        own = np.arange(self.cells - self.in_order) + (int(first[-1]) + 1 if self.in_order else 0)
        return np.concatenate([first, own])

    def spread(self, groups: Ints) -> Ints:
        """Return the group of every cell of the cube, given those of the cells that were counted."""
        return groups if self.group_of is None else groups[self.group_of]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A table of the model: the features it is over, the group of each of their cells, how many groups are in order.

    Groups in order are expected to be like their neighbours.
    """

    axes: tuple[int, ...]
    groups: tuple[Ints, ...]
    in_order: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of groups of each feature."""
        return tuple(int(groups.max()) + 1 for groups in self.groups)

    @property
    def size(self) -> int:
        """Number of groups of the table."""
        return math.prod(self.shape)

    def places(self, cells: Ints) -> Ints:
        """Return the group of each row of cells, shape (rows, features); -1 where a value has no cell."""
        found = np.zeros(len(cells), np.int64)
        for axis, groups, size in zip(self.axes, self.groups, self.shape, strict=True):
            found = np.where(cells[:, axis] < 0, -1, np.where(found < 0, -1, found * size + groups[cells[:, axis]]))
        return found

    def sums(self, cube: Floats) -> Floats:
        """Return the sums of a cube of features and a last axis of classes: shape (groups, classes)."""
        others = tuple(axis for axis in range(cube.ndim - 1) if axis not in self.axes)
        table = cube.sum(axis=others)
        for axis, (groups, size) in enumerate(zip(self.groups, self.shape, strict=True)):
            summed = np.zeros((*table.shape[:axis], size, *table.shape[axis + 1 :]))
            np.add.at(np.moveaxis(summed, axis, 0), groups, np.moveaxis(table, axis, 0))
            table = summed
        return np.asarray(table.reshape(self.size, -1))

    def bounds(self) -> tuple[Ints, Ints]:
        """Return the first cell of each group along each of the axes, and one past its last: (groups, axes) both."""
        numbers = np.unravel_index(np.arange(self.size), self.shape)
        first = [np.searchsorted(groups, number) for groups, number in zip(self.groups, numbers, strict=True)]
        past = [np.searchsorted(groups, number, "right") for groups, number in zip(self.groups, numbers, strict=True)]
        return np.stack(first, axis=1).astype(np.int64), np.stack(past, axis=1).astype(np.int64)


def weights_by(groups: Ints, weights: Floats, size: int) -> Floats:
    """Return the weight of each of so many groups.

    >>> weights_by(np.array([0, 2, 0]), np.array([1.0, 5, 2]), 3)
    array([3., 0., 5.])
    """
    return np.asarray(np.bincount(groups, weights, size), np.float64)


def single_terms(features: Sequence[Feature]) -> list[Term]:
    """Return a term for each feature that can tell anything."""
    made = []
    for axis, feature in enumerate(features):
        groups = feature.groups(MAX_TERM_GROUPS)
        if groups.max() > 0:
            in_order = int(groups[feature.in_order - 1]) + 1 if feature.in_order else 0
            made.append(Term((axis,), (feature.spread(groups),), in_order))
    return made


def pair_terms(features: Sequence[Feature]) -> list[Term]:
    """Return a term for each pair of features whose groups are not too many."""
    coarse = {axis: feature.groups(MAX_PAIR_GROUPS) for axis, feature in enumerate(features)}
    kept = [axis for axis, groups in coarse.items() if 0 < groups.max() < WIDEST_CATEGORY]
    spread = {axis: features[axis].spread(coarse[axis]) for axis in kept}
    return [Term((one, other), (spread[one], spread[other])) for one, other in itertools.combinations(kept, 2)]
