"""What a junction tree holds: factors of its cliques enter, the table of every clique leaves, all of them agreeing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcube.arrays import Floats
from dpcube.estimate.cuboids.junction import CliqueAxes, JunctionTree, table_cells


@dataclass(frozen=True)
class Beliefs:
    """A cube as the tables of the cliques of a junction tree, `tables`, which agree on what they share.

    Given the axes that a clique shares with its parent, what it holds besides does not depend on the others.
    """

    tree: JunctionTree
    tables: tuple[Floats, ...]

    @property
    def total(self) -> float:
        """The count of the whole."""
        return float(self.tables[0].sum())

    @cached_property
    def _given(self) -> tuple[Floats, ...]:
        """Each clique's table divided by that of the axes it shares with its parent."""
        found = []
        for table, clique, shared in zip(self.tables, self.tree.cliques, self.tree.shared, strict=True):
            below = spread(summed(table, clique, shared), shared, clique)
            found.append(np.divide(table, below, out=np.zeros_like(table), where=below > 0))
        return tuple(found)

    @cached_property
    def _below(self) -> tuple[frozenset[int], ...]:
        """The axes of each clique and of all below it."""
        found = [set(clique) for clique in self.tree.cliques]
        for k in range(len(found) - 1, 0, -1):
            found[self.tree.parents[k]] |= found[k]
        return tuple(map(frozenset, found))

    @cached_property
    def _homes(self) -> dict[int, int]:
        """The clique in which each axis comes first: it is not shared with the parent there."""
        pairs = zip(self.tree.cliques, self.tree.shared, strict=True)
        return {axis: k for k, (clique, shared) in enumerate(pairs) for axis in clique if axis not in shared}

    def marginal(self, axes: CliqueAxes, weights: Mapping[int, Floats] | None = None) -> Floats:
        """Return the table over some axes, ascending; cells of other axes count by their weights, 1 unless given.

        It is made in a clique below which all of these axes are: what is wanted further below is brought up to it.
        """
        weights = weights or {}
        wanted = set(axes) | set(weights)
        top, path = self._paths(wanted)
        factors: dict[int, list[tuple[Floats, CliqueAxes]]] = {}
        for k in (*path, top):
            made = (self.tables[k] if k == top else self._given[k]), self.tree.cliques[k]
            for factor in factors.pop(k, []):
                made = _product(made, factor)
            keep = set(axes) if k == top else (set(axes) & self._below[k]) | set(self.tree.shared[k])
            upper = set() if k == top else set(self.tree.shared[k])
            for axis in (set(made[1]) & set(weights)) - upper:
                made = _product(made, (weights[axis], (axis,)))
            kept = tuple(sorted(keep & set(made[1])))
            factors.setdefault(top if k == top else self.tree.parents[k], []).append((summed(*made, kept), kept))
        ((table, _),) = factors[top]
        return table

    def _paths(self, wanted: set[int]) -> tuple[int, list[int]]:
        """Return a clique below which all wanted axes are, and those on the ways up to it, each before its parent.

        An axis that is below the clique and comes first elsewhere is in the clique itself: nothing is brought up.
        """
        homes, parents = [self._homes[axis] for axis in wanted], self.tree.parents
        top = max(homes, default=0)
        while not wanted <= self._below[top]:
            top = parents[top]
        path: set[int] = set()
        for k in homes:
            while k > top and k not in path:
                path.add(k)
                k = parents[k]
        return top, sorted(path, reverse=True)


def _product(first: tuple[Floats, CliqueAxes], second: tuple[Floats, CliqueAxes]) -> tuple[Floats, CliqueAxes]:
    axes = tuple(sorted({*first[1], *second[1]}))
    return spread(first[0], first[1], axes) * spread(second[0], second[1], axes), axes


def calibrated(tree: JunctionTree, factors: Sequence[Floats]) -> tuple[tuple[Floats, ...], float]:
    """Return the clique tables of a cube that adds up to 1, and the logarithm of what it was divided by.

    The cube is proportional to the product of exp(factor) over the cliques; `factors` are used up. Messages go up the
    tree in logarithms, each from its largest so that nothing overflows. What a clique holds given its parent is then
    its exponentials divided by their sums, and going down only multiplies: there is one exponential for each cell.
    """
    sums: list[Floats] = [np.zeros(())] * len(factors)
    whole = 0.0
    for k in range(len(factors) - 1, -1, -1):
        table, others = factors[k], tree.own_places[k]
        high = table.max(axis=others, keepdims=True)
        table -= high
        np.exp(table, out=table)
        sums[k] = table.sum(axis=others, keepdims=True)
        sent = np.log(sums[k]) + high
        if k:
            factors[tree.parents[k]][...] += sent.reshape(tree.sides_above[k])
        else:
            whole = float(sent.reshape(()))
    factors[0][...] /= sums[0]
    for k in range(1, len(factors)):
        agreed = factors[tree.parents[k]].sum(axis=tree.places_above[k])
        factors[k][...] *= agreed.reshape(sums[k].shape) / sums[k]
    return tuple(factors), whole


def spread(table: Floats, axes: CliqueAxes, over: CliqueAxes) -> Floats:
    """Return a table laid out to be broadcast over more axes; both ascend."""
    sides = iter(table.shape)
    return table.reshape([next(sides) if axis in axes else 1 for axis in over])


def summed(table: Floats, axes: CliqueAxes, kept: CliqueAxes) -> Floats:
    """Return a table with all but some of its axes summed up."""
    return np.asarray(table.sum(axis=tuple(j for j, axis in enumerate(axes) if axis not in kept)))


def zero_factors(tree: JunctionTree) -> list[Floats]:
    """Return a factor of 0 for each clique: a cube that is the same everywhere."""
    return [np.zeros([tree.shape[axis] for axis in clique]) for clique in tree.cliques]


__all__ = ["Beliefs", "calibrated", "spread", "summed", "table_cells", "zero_factors"]
