"""Optimal fixed budgets of the levels of the public tree, for a model of the workload.

Without refinement, the variance of a box given the counts of all levels follows from the budgets alone, so the cost is
a closed form and no table is needed. The budgets of least cost to queries and single cells are found by local search.
"""

import math
from functools import cache

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.queries.workload_model import WorkloadModel
from dpcube.strategies.partial_tree import ROOT
from dpcube.trees.halving import CutOrder, depth, halve
from dpcube.trees.tree import BoxTree

BESIDE_QUERIES = 0.3
"""Weight of single cells beside queries when no workload was declared; none otherwise."""
FINEST = 200
"""Budgets are moved between levels in steps down to this part of all that is divided; four such are a level's least."""


class LevelBudgets:
    """The best budgets of the levels, by the sums over each level of the query weights of its boxes and cuts."""

    def __init__(
        self, model: WorkloadModel, order: CutOrder, shape: tuple[int, ...], epsilon: float, *, cells: float
    ) -> None:
        self.deepest = depth(shape)
        tree = halve(BoxTree.uncut(shape), ROOT, self.deepest, order).tree
        covered, differ = model.values(tree.lower, tree.upper, *order.cuts_of(tree))
        inner, size = ~tree.is_leaf, self.deepest + 1
        self._differ: Floats = np.bincount(tree.levels[inner], differ[inner], minlength=size).astype(np.float64)
        self._covered: Floats = np.bincount(tree.levels, covered, minlength=size).astype(np.float64)
        self._inner = np.bincount(tree.levels[inner], minlength=size)
        self._leaves = np.bincount(tree.levels[~inner], minlength=size)
        self._epsilon, self._cells = epsilon, cells
        self.best = cache(self._best)

    def _best(self, first: int, share: float, known: tuple[float, ...]) -> Floats:
        """Return the budgets of the levels from `first` on, `share` in all, where `first` is the level of the regions.

        `known[l]` is the precision that a box of level l has already.
        """
        sums = (self._differ, self._covered, self._inner, self._leaves)
        budgets = np.zeros(self.deepest + 1)
        budgets[-1] = share
        _descend(budgets, first, np.array(known), self._cells, self._epsilon, *sums)
        budgets[budgets < 4 * share / FINEST] = 0
        budgets[-1] = max(budgets[-1], share / 20)  # every leaf is counted
        budgets *= share / budgets.sum()
        return budgets


@compiled
def _descend(
    budgets: Floats,
    first: int,
    known: Floats,
    cells: float,
    epsilon: float,
    differ: Floats,
    covered: Floats,
    inner: Ints,
    leaves: Ints,
) -> None:
    """Move budget from level to level, in place, as long as it costs less: by a quarter first, then by finer steps."""
    of_queries, of_cells = _cost(budgets, first, known, epsilon, differ, covered, inner, leaves)
    share, least = budgets.sum(), 1.0 + cells
    step = share / 4
    while step > share / FINEST:
        better = False
        for giver in range(first, len(budgets)):
            for taker in range(first, len(budgets)):
                moved = min(step, budgets[giver])
                if giver == taker or moved <= 0:
                    continue
                budgets[giver] -= moved
                budgets[taker] += moved
                queries, single = _cost(budgets, first, known, epsilon, differ, covered, inner, leaves)
                found = queries / of_queries + cells * single / of_cells
                if found < least * (1 - 1e-6):
                    least, better = found, True
                else:
                    budgets[giver] += moved
                    budgets[taker] -= moved
        if not better:
            step /= 2


@compiled
def _cost(
    budgets: Floats,
    first: int,
    known: Floats,
    epsilon: float,
    differ: Floats,
    covered: Floats,
    inner: Ints,
    leaves: Ints,
) -> tuple[float, float]:
    """Return F P + sum of K P/2 over the splits, P the variance of a box by the counts in it; and that of all cells."""
    left, below, of_queries, of_cells = 0.0, 0.0, 0.0, 0.0
    for level in range(len(budgets) - 1, first - 1, -1):
        left += budgets[level]
        precision = known[level] + 2 * math.sinh(budgets[level] * epsilon / 2) ** 2
        inside = 1 / (1 / (2 * below) + precision) if below > 0 else 0.0
        leaf = 1 / (2 * math.sinh(max(left, 1e-6) * epsilon / 2) ** 2 + known[level])
        of_queries += differ[level] * below / 2
        of_cells += leaves[level] * leaf
        below = (inner[level] * inside + leaves[level] * leaf) / (inner[level] + leaves[level])
    return of_queries + covered[first] * below, of_cells
