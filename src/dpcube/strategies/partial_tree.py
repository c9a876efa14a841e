"""A tree of boxes under adaptive refinement: its nodes, their noisy counts, and the units that each has left.

The counter and the order of the cuts are public; the tree grows by halving boxes in that order.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.compiled import compiled
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import BoxCounts
from dpcube.models.posterior import Learnt, Posterior, infer
from dpcube.trees.halving import CutOrder, halve, most_nodes
from dpcube.trees.tree import BoxTree

REFINEMENT_ROUNDS = 1
"""Rounds of inference after each level: each starts from the parameters that the one before has estimated."""
MAX_NODES = 2**22
"""About the number of nodes to which the tree grows; if more boxes meet the split criterion, the best are refined.

Cubes of up to two million cells never reach it. It bounds the memory of a release whatever the domain.
"""
SPARE = 2**8
"""Nodes by which the tree may exceed that: one box is always refined."""
ROOT = np.zeros(1, np.int64)


def largest_tree(shape: tuple[int, ...]) -> int:
    """Return the maximal number of nodes of a tree of a shape: two for each cell, or `MAX_NODES` and a margin."""
    return min(2 * math.prod(shape), MAX_NODES + SPARE)


@dataclass(slots=True)
class PartialTree:
    """A tree that is still refined, with the noisy counts of its nodes.

    `whole` is the number of units that the tree may spend on each cell.
    """

    counter: NoisyCounter
    order: CutOrder
    whole: int = BUDGET_UNITS
    evenly: bool = False
    """Whether axes are so long that the posterior estimates no marginals of them."""
    most: int = field(default_factory=lambda: MAX_NODES)
    """The approximate number of nodes to which the tree grows."""
    tree: BoxTree = field(init=False)
    left: Ints = field(init=False)
    """The units that the poorest cell of each node has left."""
    rows: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    learnt: Learnt | None = None

    def __post_init__(self) -> None:
        self.tree = BoxTree.uncut(self.counter.shape)
        self._settle()

    def on(self, counter: NoisyCounter) -> "PartialTree":
        """Return a copy whose further counts come from another counter."""
        other = PartialTree(counter, self.order, self.whole, self.evenly, self.most)
        other.tree, other.left, other.rows, other.learnt = self.tree, self.left, list(self.rows), self.learnt
        return other

    def set_aside(self, units: int) -> None:
        """Reserve units of each cell for other measurements than the tree's."""
        self.whole -= units
        self._settle()

    def share_units(self, share: Fraction) -> int:
        """Return a share of what the tree may spend in units, rounded down."""
        return int(share * self.whole)

    def count(self, nodes: Ints, units: Ints) -> None:
        """Measure disjoint nodes."""
        if len(nodes) == 0:
            return
        boxes = self.tree.boxes(nodes)
        self.rows.append((nodes, self.counter.boxes(boxes, units), units))
        self._settle()

    def count_total(self, share: Fraction) -> None:
        """Measure the total, so that its measurements together have had a share of the budget."""
        units = self.share_units(share) - sum(int(units[nodes == 0].sum()) for nodes, _, units in self.rows)
        if units > 0:
            self.count(ROOT, np.array([units]))

    def below(self, active: Ints, level: int, others: Ints = ROOT) -> tuple[Ints, Ints]:
        """Cut what lies below active nodes down to a level; return its nodes there, and where other nodes are now.

        Cells that are reached above the level stand for themselves.
        """
        while True:
            tree, inside = self.tree, inside_of(self.tree.end, active)
            short = np.flatnonzero(inside & tree.is_leaf & (tree.levels < level) & (tree.sizes > 1))
            if len(short) == 0:
                reached = (tree.levels == level) | (tree.is_leaf & (tree.levels < level))
                return np.flatnonzero(inside & reached), others
            highest = int(tree.levels[short].min())
            grown = halve(tree, short[tree.levels[short] == highest], level - highest, self.order)
            self.tree, active, others = grown.tree, grown.moved[active], grown.moved[others]
            self.rows = [(grown.moved[nodes], counts, units) for nodes, counts, units in self.rows]
            self._settle()

    def affordable(self, active: Ints, level: int) -> Ints:
        """Return the first nodes, as many as may be refined down to a level without exceeding `most` nodes."""
        cuts = max(level - int(self.tree.levels[active].min()), 0)
        nodes = np.cumsum(most_nodes(self.tree.sizes[active], cuts))
        return active[: max(int(np.searchsorted(nodes, self.most - len(self.tree), side="right")), 1)]

    def total(self) -> float:
        """Return the pooled noisy count of the whole table."""
        return float(self.counts().by_node(self.counter.epsilon_per_unit)[0][0])

    def counts(self) -> BoxCounts:
        """Return all measurements of the tree."""
        node, counts, units = (np.concatenate(columns) for columns in zip(*self.rows, strict=True))
        return BoxCounts(self.tree, node, counts, units)

    def posterior(self) -> Posterior:
        """Return the posterior of every node given the counts so far."""
        measured = self.counts().by_node(self.counter.epsilon_per_unit)
        found = infer(self.tree, *measured, rounds=REFINEMENT_ROUNDS, learnt=self.learnt, even=None, evenly=self.evenly)
        if not found.even:
            self.learnt = found.learnt
        return found

    def spent_everything(self) -> NDArray[np.bool_]:
        """Say of each node whether no cell of it has anything left."""
        return nowhere_left(self.tree.parent, self.tree.is_leaf, self.left)

    def _settle(self) -> None:
        spent = np.zeros(len(self.tree), np.int64)
        for nodes, _, units in self.rows:
            spent[nodes] += units
        self.left = self.whole - most_below(self.tree.parent, sums_to(self.tree.parent, spent))


@compiled
def sums_to(parent: Ints, units: Ints) -> Ints:
    """Return the units of each node and of all around it together, in place; in preorder parents come first."""
    for node in range(1, len(parent)):
        units[node] += units[parent[node]]
    return units


@compiled
def most_below(parent: Ints, units: Ints) -> Ints:
    """Return the most that each node or any below it has, in place; going backwards meets children first."""
    for node in range(len(parent) - 1, 0, -1):
        units[parent[node]] = max(units[parent[node]], units[node])
    return units


@compiled
def nowhere_left(parent: Ints, is_leaf: NDArray[np.bool_], left: Ints) -> NDArray[np.bool_]:
    """Say of each node whether all leaves in it have nothing left."""
    nothing = np.ones(len(parent), np.bool_)
    for node in range(len(parent) - 1, -1, -1):
        if is_leaf[node]:
            nothing[node] = left[node] <= 0
        if node > 0:
            nothing[parent[node]] &= nothing[node]
    return nothing


@compiled
def inside_of(end: Ints, chosen: Ints) -> NDArray[np.bool_]:
    """Mark some nodes of a tree, and all below them."""
    inside = np.zeros(len(end), np.bool_)
    for node in chosen:
        inside[node : end[node]] = True
    return inside
