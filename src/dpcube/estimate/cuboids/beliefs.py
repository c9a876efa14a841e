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

    def marginal(self, axes: CliqueAxes, weights: Mapping[int, Floats] | None = None) -> Floats:
        """Return the table over some axes, ascending; cells of other axes count by their weights, 1 unless given.

        It is made from the lowest clique below which all of these axes are.
        """
        weights = weights or {}
        wanted = set(axes) | set(weights)
        top = max((k for k, below in enumerate(self._below) if wanted <= below), default=0)
        factors: dict[int, list[tuple[Floats, CliqueAxes]]] = {}
        for k in range(len(self.tree.cliques) - 1, top - 1, -1):
            # What is wanted below a clique, and not in its parent, is brought up to the parent.
            new = (self._below[k] - set(self.tree.shared[k])) & wanted
            if k != top and (not new or not self._is_under(k, top)):
                continue
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

    def _is_under(self, k: int, top: int) -> bool:
        while k > top:
            k = self.tree.parents[k]
        return k == top


def _product(first: tuple[Floats, CliqueAxes], second: tuple[Floats, CliqueAxes]) -> tuple[Floats, CliqueAxes]:
    axes = tuple(sorted({*first[1], *second[1]}))
    return spread(first[0], first[1], axes) * spread(second[0], second[1], axes), axes


def calibrated(tree: JunctionTree, factors: Sequence[Floats]) -> tuple[tuple[Floats, ...], float]:
    """Return the clique tables of a cube that adds up to 1, and the logarithm of what it was divided by.

    The cube is proportional to the product of exp(factor) over the cliques; `factors` are used up. Messages go up the
    tree and down again, in logarithms, each from its largest so that nothing overflows.
    """
    sent: list[Floats] = [np.zeros(())] * len(factors)
    for k in range(len(factors) - 1, 0, -1):
        sent[k] = log_summed(factors[k], tree.cliques[k], tree.shared[k])
        above = tree.parents[k]
        factors[above][...] += spread(sent[k], tree.shared[k], tree.cliques[above])
    whole = float(log_summed(factors[0], tree.cliques[0], ()))
    tables = [np.exp(factors[0] - whole)]
    for k in range(1, len(factors)):
        above = tree.parents[k]
        agreed = summed(tables[above], tree.cliques[above], tree.shared[k])
        own = np.exp(factors[k] - spread(sent[k], tree.shared[k], tree.cliques[k]))
        tables.append(own * spread(agreed, tree.shared[k], tree.cliques[k]))
    return tuple(tables), whole


def spread(table: Floats, axes: CliqueAxes, over: CliqueAxes) -> Floats:
    """Return a table laid out to be broadcast over more axes; both ascend."""
    sides = iter(table.shape)
    return table.reshape([next(sides) if axis in axes else 1 for axis in over])


def summed(table: Floats, axes: CliqueAxes, kept: CliqueAxes) -> Floats:
    """Return a table with all but some of its axes summed up."""
    return np.asarray(table.sum(axis=tuple(j for j, axis in enumerate(axes) if axis not in kept)))


def log_summed(table: Floats, axes: CliqueAxes, kept: CliqueAxes) -> Floats:
    """Return the logarithms of sums of exponentials over all but some axes."""
    others = tuple(j for j, axis in enumerate(axes) if axis not in kept)
    high = table.max(axis=others, keepdims=True)
    return np.asarray(
        np.log(np.exp(table - high).sum(axis=others))
        + high.reshape([table.shape[j] for j in range(table.ndim) if j not in others])
    )


def zero_factors(tree: JunctionTree) -> list[Floats]:
    """Return a factor of 0 for each clique: a cube that is the same everywhere."""
    return [np.zeros([tree.shape[axis] for axis in clique]) for clique in tree.cliques]


__all__ = ["Beliefs", "calibrated", "log_summed", "spread", "summed", "table_cells", "zero_factors"]
