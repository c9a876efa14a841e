"""The walk down a tree of cuts level by level in NumPy: for few questions, where loading a compiler takes longer.

It gives what the compiled walks of `walks.py` and `least_squares_tree.py` give, but for rounding. On the bundled
table's tree of 11,523 nodes a question takes 2 to 18 ms so, and 100 to 126 ms by the same loops uncompiled; loading
the compiler takes half a second. So this second walk is kept.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.models.errors.axis_weights import ROW, AxisWeights
from dpcube.models.errors.walks import COVERED
from dpcube.trees.tree import CutTree

FEW = 128
"""Questions at once that are answered by this walk."""


@dataclass(frozen=True, slots=True, eq=False)
class WalkedTree:
    """What a walk adds up over the nodes of a tree, arrays of shape (nodes,) but where said.

    `variances` are those of the splits and, of a leaf, what times f (1 - f) is the variance of the count in a part f of
    it; `columns`, shape (nodes, columns), are more totals that add up; `subtree` are the variances of least squares.
    """

    tree: CutTree
    totals: Floats
    variances: Floats
    columns: Floats
    of_total: float = 0.0
    unordered: tuple[int, ...] = ()
    subtree: Floats | None = None


class Walked(NamedTuple):
    """What a walk gives of each question: its value, and what its error is made of, shape (questions,) but `apart`.

    `variance` is that by the total and the splits, `within` that inside leaves, `hidden` what is beyond it if single
    values have all rows of leaves, `linear` that of least squares. `apart` has shape (questions, columns).
    """

    value: Floats
    variance: Floats
    within: Floats
    hidden: Floats
    linear: Floats
    apart: Floats


def walked(tree: WalkedTree, asked: AxisWeights) -> Walked:
    """Return the sums of each question."""
    walks = [_Walk(tree, asked, asked.taken[query, :, ROW]) for query in range(len(asked.taken))]
    value, variance, within, hidden, linear = (
        np.array([getattr(one, name) for one in walks], np.float64) for name in Walked._fields[:-1]
    )
    apart = np.array([one.apart for one in walks]).reshape(len(walks), tree.columns.shape[1])
    return Walked(value, variance, within, hidden, linear, apart)


class _Level(NamedTuple):
    """Nodes that were met together, and the weight of each that goes no further down; NaN for the others."""

    nodes: Ints
    weights: Floats


class _Walk:
    """One question on its way down a tree: boxes are columns of arrays of shape (axes, boxes)."""

    def __init__(self, tree: WalkedTree, asked: AxisWeights, rows: Ints) -> None:
        self.tree, self.asked = tree, asked
        self.rows, self.starts = rows[:, None], asked.start[:, None]
        self.apart = np.zeros(tree.columns.shape[1])
        self.value = self.variance = self.within = self.hidden = self.linear = 0.0
        met, nodes = [], np.zeros(1, np.int64)
        self.variance += tree.of_total * float(self._means(nodes, 0)[0]) ** 2
        while len(nodes):
            level = self._taken(nodes)
            met.append(level)
            nodes = self._below(nodes[np.isnan(level.weights)])
        if tree.subtree is not None:
            self.linear = self._linear(met, tree.subtree)

    def _taken(self, nodes: Ints) -> _Level:
        """Add what nodes give whose cells all have one weight, and what leaves give; return the weights of these."""
        tree = self.tree
        weights, alike = self._common(nodes)
        leaf = ~alike & (tree.tree.end[nodes] == nodes + 1)
        means, squares = (self._means(nodes[leaf], power) for power in (0, 1))
        weights[leaf], weights[~alike & ~leaf] = means, np.nan
        done = alike | leaf
        self.value += float(weights[done] @ tree.totals[nodes[done]])
        self.apart += weights[done] @ tree.columns[nodes[done]]
        within = np.maximum(squares - means**2, 0.0) * tree.variances[nodes[leaf]]
        self.within += float(within.sum())
        if tree.unordered:
            alone = tree.totals[nodes[leaf]] ** 2 * self._of_one_value(nodes[leaf])
            self.hidden += float(np.maximum(alone - within, 0.0).sum())
        return _Level(nodes, weights)

    def _below(self, nodes: Ints) -> Ints:
        """Add the variance of the splits of nodes, and return their halves."""
        left, right = nodes + 1, self.tree.tree.end[nodes + 1]
        apart = self._means(left, 0) - self._means(right, 0)
        self.variance += float(apart**2 @ self.tree.variances[nodes])
        return np.concatenate([left, right])

    def _linear(self, met: list[_Level], variance: Floats) -> float:
        """Return the variance of least squares, up the tree again: see `least_squares_tree.py`."""
        parent = self.tree.tree.parent
        weighted, squared, found = np.zeros(len(parent)), np.zeros(len(parent)), 0.0
        inner, left = self.tree.tree.inner, self.tree.tree.inner + 1
        of_children = np.ones(len(parent))
        of_children[inner] = variance[left] + variance[self.tree.tree.end[left]]
        for nodes, weights in reversed(met):
            cut = np.isnan(weights)
            taken = np.where(cut, weighted[nodes] / of_children[nodes], weights)
            rest = squared[nodes[cut]] - weighted[nodes[cut]] * taken[cut]
            found += float(np.maximum(rest, 0.0).sum())
            if nodes[0] == 0:
                return found + float(taken[0] ** 2 * variance[0])
            np.add.at(weighted, parent[nodes], taken * variance[nodes])
            np.add.at(squared, parent[nodes], taken**2 * variance[nodes])
        return found

    def _common(self, nodes: Ints) -> tuple[Floats, Bools]:
        """Return the weight that all cells of each box have, and whether they have one."""
        at = self.rows + self.tree.tree.lower[nodes].T
        alike, weight = self.asked.until[at] >= self.tree.tree.upper[nodes].T, self.asked.weight[at]
        nothing = (alike & (weight == 0)).any(axis=0)
        return np.where(nothing, 0.0, weight.prod(axis=0)), nothing | alike.all(axis=0)

    def _means(self, nodes: Ints, power: int) -> Floats:
        """Return the mean over each box, by the measure, of the weights (0) or of their squares (1)."""
        return np.asarray(self._means_along(nodes, power).prod(axis=0))

    def _means_along(self, nodes: Ints, power: int) -> Floats:
        """Return the same along each axis, shape (axes, boxes)."""
        lower, upper = self.tree.tree.lower[nodes].T, self.tree.tree.upper[nodes].T
        sums, measure = self.asked.sums[:, power], self.asked.measure
        taken = sums[self.rows + upper] - sums[self.rows + lower]
        return np.asarray(taken / (measure[self.starts + upper] - measure[self.starts + lower]))

    def _of_one_value(self, nodes: Ints) -> Floats:
        """Return the squared error, in units of each leaf's total, if one value without an order has all its rows."""
        means = self._means_along(nodes, 0)
        free = np.isin(np.arange(len(means)), self.tree.unordered)
        part, along = np.clip(means[free], 0.0, 1.0).prod(axis=0), means[~free].prod(axis=0)
        return np.asarray(np.where(part > 0, along**2 * (1 - part) * np.maximum(part, (1 - part) / COVERED), 0.0))
