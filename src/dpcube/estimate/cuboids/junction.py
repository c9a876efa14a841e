"""Junction trees: sets of axes that tables are over enter, a tree of cliques that hold them leaves.

A cube that is a product of factors over few axes each (a graphical model) has its marginals by messages along such a
tree: each table lies in a clique, and the cliques that hold an axis are connected (Lauritzen and Spiegelhalter).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

CliqueAxes = tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Cliques of axes, each after its parent; the first has none. `shared` are the axes that one has with its parent.

    Cliques without common axes are joined too, by no axes: what they hold is independent.
    """

    shape: tuple[int, ...]
    cliques: tuple[CliqueAxes, ...]
    parents: tuple[int, ...]
    shared: tuple[CliqueAxes, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], tables: Iterable[CliqueAxes]) -> "JunctionTree":
        """Return a small tree that holds all axes and tables."""
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
        """Return the smallest clique that holds some axes; there is one for every table it was made of."""
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
