"""Junction trees of the axes of marginals: cliques that contain every marginal, and their separators.

A cube that is a product of factors over few axes each (a graphical model) has its marginals by messages along such a
tree: each table lies in a clique, and the cliques that hold an axis are connected (Lauritzen and Spiegelhalter).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.compiled import compiled

CliqueAxes = tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Cliques of axes, each after its parent; the first has none. `shared` are the axes that one has with its parent.

    Cliques without common axes are joined too, by no axes: they are independent.
    """

    shape: tuple[int, ...]
    cliques: tuple[CliqueAxes, ...]
    parents: tuple[int, ...]
    shared: tuple[CliqueAxes, ...]

    @classmethod
    def from_marginals(cls, shape: tuple[int, ...], tables: Iterable[CliqueAxes]) -> "JunctionTree":
        """Return a small tree whose cliques contain all axes and marginals."""
        left = [set(clique) for clique in _maximal(_eliminated(shape, tables))]
        cliques, parents = [tuple(sorted(left.pop(0)))], [-1]
        shared: list[CliqueAxes] = [()]
        # The next is always the one that has most in common with any before it: a spanning tree of greatest weight.
        best = [(len(one & set(cliques[0])), 0) for one in left]
        while left:
            at = max(range(len(left)), key=lambda k: best[k][0])
            one, parent = left.pop(at), best.pop(at)[1]
            shared.append(tuple(sorted(one & set(cliques[parent]))))
            cliques.append(tuple(sorted(one)))
            parents.append(parent)
            best = [
                max(old, (len(other & one), len(cliques) - 1), key=lambda pair: pair[0])
                for other, old in zip(left, best, strict=True)
            ]
        return cls(shape, tuple(cliques), tuple(parents), tuple(shared))

    @cached_property
    def own_places(self) -> tuple[tuple[int, ...], ...]:
        """In each clique, the places of the axes that it does not share with its parent."""
        pairs = zip(self.cliques, self.shared, strict=True)
        return tuple(places_without(clique, shared) for clique, shared in pairs)

    @cached_property
    def places_above(self) -> tuple[tuple[int, ...], ...]:
        """For each clique, the places in its parent of the axes that it does not share with it."""
        pairs = zip(self.parents, self.shared, strict=True)
        return tuple(places_without(self.cliques[above], shared) if above >= 0 else () for above, shared in pairs)

    @cached_property
    def sides_above(self) -> tuple[tuple[int, ...], ...]:
        """For each clique, the shape in which a table over what it shares is laid out over its parent."""
        return tuple(
            tuple(self.shape[axis] if axis in shared else 1 for axis in self.cliques[above]) if above >= 0 else ()
            for above, shared in zip(self.parents, self.shared, strict=True)
        )

    @property
    def cells(self) -> int:
        """Number of cells of all cliques."""
        return sum(table_cells(self.shape, clique) for clique in self.cliques)

    def home(self, axes: CliqueAxes) -> int:
        """Return the smallest clique that contains some axes; there is one for every marginal of the tree."""
        holding = [k for k, clique in enumerate(self.cliques) if set(axes) <= set(clique)]
        return min(holding, key=lambda k: table_cells(self.shape, self.cliques[k]))


def places_without(clique: CliqueAxes, shared: CliqueAxes) -> tuple[int, ...]:
    """Return the places in a clique of the axes that are not among others."""
    return tuple(place for place, axis in enumerate(clique) if axis not in shared)


def table_cells(shape: Sequence[int], axes: Iterable[int]) -> int:
    """Return how many cells a table over some axes has."""
    return math.prod(shape[axis] for axis in axes)


def model_cells(shape: tuple[int, ...], tables: Iterable[CliqueAxes]) -> int:
    """Return how many cells the cliques have that tables need, in an elimination order that is good, if not best."""
    return sum(table_cells(shape, clique) for clique in _maximal(_eliminated(shape, tables)))


def model_cells_with(shape: tuple[int, ...], tables: Iterable[CliqueAxes], pairs: Sequence[CliqueAxes]) -> Floats:
    """Return how many cells the cliques would have with each of many pairs of axes besides: `model_cells`, compiled.

    >>> model_cells_with((2, 3, 5), [(0, 1)], [(0, 2), (1, 2)])
    array([16., 21.])
    """
    near = np.eye(len(shape), dtype=np.bool_)
    for table in tables:
        near[np.ix_(table, table)] = True
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return _cells_with(near, np.array(shape, np.float64), ends[:, 0].copy(), ends[:, 1].copy())


@compiled
def _cells_with(near: Bools, sides: Floats, first: Ints, second: Ints) -> Floats:
    found = np.empty(len(first))
    for pair in range(len(first)):
        joined = near.copy()
        joined[first[pair], second[pair]] = joined[second[pair], first[pair]] = True
        found[pair] = _cells_of_cliques(joined, sides)
    return found


@compiled
def _cells_of_cliques(near: Bools, sides: Floats) -> float:
    """Take axes away as `_eliminated` does. A clique has an axis that no later one has."""
    axes, total = len(sides), 0.0
    left, cliques = np.ones(axes, np.bool_), np.zeros((axes, axes), np.bool_)
    cost = np.array([np.prod(sides[near[axis]]) for axis in range(axes)])
    for step in range(axes):
        best = -1
        for axis in range(axes):
            if left[axis] and (best < 0 or cost[axis] < cost[best]):
                best = axis
        cliques[step] = near[best]
        held = False
        for earlier in range(step):
            held = held or not (cliques[step] & ~cliques[earlier]).any()
        if not held:
            total += cost[best]
        left[best] = False
        for other in range(axes):
            if cliques[step, other] and other != best:
                near[other] |= cliques[step]
                near[other, best] = False
                cost[other] = np.prod(sides[near[other]])
    return total


def _eliminated(shape: tuple[int, ...], tables: Iterable[CliqueAxes]) -> list[frozenset[int]]:
    """Return the cliques that come about when axes are taken away, always one that makes the smallest clique."""
    near: list[set[int]] = [{axis} for axis in range(len(shape))]
    for table in tables:
        for axis in table:
            near[axis] |= set(table)
    left, cliques = set(range(len(shape))), []
    cost = {axis: table_cells(shape, near[axis]) for axis in left}
    while left:
        axis = min(left, key=lambda one: (cost[one], one))
        clique = frozenset(near[axis])
        cliques.append(clique)
        left.remove(axis)
        for other in clique - {axis}:
            near[other] |= clique
            near[other].discard(axis)
            cost[other] = table_cells(shape, near[other])
    return cliques


def _maximal(cliques: list[frozenset[int]]) -> list[frozenset[int]]:
    kept: list[frozenset[int]] = []
    for clique in sorted(cliques, key=lambda one: (-len(one), sorted(one))):
        if not any(clique <= other for other in kept):
            kept.append(clique)
    return kept
