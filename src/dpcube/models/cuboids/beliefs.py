"""Belief propagation on a junction tree: calibrated clique tables, and the marginals that follow from them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.cuboids.junction import CliqueAxes, JunctionTree, table_cells

MAX_CACHED_TABLE = 2**13
"""Cells of a table that is kept while many others are made that may use it."""

_Part = tuple[Floats, CliqueAxes]
_Brought = dict[tuple[int, CliqueAxes], _Part]


@dataclass(frozen=True)
class Beliefs:
    """A cube as the tables of the cliques of a junction tree, `tables`, which agree on what they share.

    Given the axes that a clique shares with its parent, the rest of it is independent of the others.
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
        return self._marginal(axes, weights or {}, {})

    def marginals(self, several: Iterable[CliqueAxes]) -> Iterator[Floats]:
        """Yield the tables over several sets of axes; what is brought up for one of them is used again."""
        brought: _Brought = {}
        for axes in several:
            yield self._marginal(axes, {}, brought)

    def _marginal(self, axes: CliqueAxes, weights: Mapping[int, Floats], brought: _Brought) -> Floats:
        """Return the table over some axes; `brought` has what was brought up before without weights, and gets more."""
        top, path = self._paths(set(axes) | set(weights))
        factors: dict[int, list[_Part]] = {}
        for k in path:
            wanted = tuple(axis for axis in axes if axis in self._below[k])
            found = brought.get((k, wanted))
            if found is None:
                upper = self.tree.shared[k]
                own = [
                    (weights[axis], (axis,)) for axis in self.tree.cliques[k] if axis in weights and axis not in upper
                ]
                parts = [(self._given[k], self.tree.cliques[k]), *factors.pop(k, []), *own]
                found = _contracted(parts, {*wanted, *upper})
                if not weights and found[0].size <= MAX_CACHED_TABLE:
                    brought[k, wanted] = found
            factors.setdefault(self.tree.parents[k], []).append(found)
        own = [(weights[axis], (axis,)) for axis in self.tree.cliques[top] if axis in weights]
        return _contracted([(self.tables[top], self.tree.cliques[top]), *factors.pop(top, []), *own], set(axes))[0]

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


def _contracted(parts: Sequence[_Part], keep: set[int]) -> _Part:
    """Return the product of some tables, summed up over all axes but those to keep, each as soon as no other has it."""
    needed = [keep.union(*(axes for _, axes in parts[place:])) for place in range(1, len(parts) + 1)]
    table, axes = parts[0]
    has = tuple(axis for axis in axes if axis in needed[0])
    made = summed(table, axes, has)
    for (factor, axes), later in zip(parts[1:], needed[1:], strict=True):
        joint = sorted({*has, *axes})
        kept = tuple(axis for axis in joint if axis in later)
        names = ("".join(ascii_letters[joint.index(axis)] for axis in some) for some in (has, axes, kept))
        made, has = np.einsum("{},{}->{}".format(*names), made, factor), kept
    return made, has


def calibrated(tree: JunctionTree, factors: Sequence[Floats]) -> tuple[tuple[Floats, ...], float]:
    """Return the clique tables of a cube that adds up to 1, and the logarithm of what it was divided by.

    The cube is proportional to the product of exp(factor) over the cliques; `factors` are used up. Messages go up the
    tree in logarithms, each from its largest so that nothing overflows. A clique given its parent is then
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
