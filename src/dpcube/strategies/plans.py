"""Plans for the budget of a tree: all cells at once, fixed level budgets, or adaptive refinement level by level.

A plan spends all of the budget of a `PartialTree`: every box gets all units that its poorest cell has left. What a
plan asks for follows from earlier noisy answers and public facts alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.noise import noise_variances
from dpcube.queries.workload_model import WorkloadModel
from dpcube.strategies.level_budgets import LevelBudgets
from dpcube.strategies.partial_tree import ROOT, PartialTree, inside_of, sums_to
from dpcube.strategies.refinement import ROOT_SHARE, best_boxes, worth_refining


@dataclass(frozen=True, slots=True)
class PlanSetting:
    """Settings that the plans for a cube share: workload model, level budgets, refinement levels and their shares."""

    model: WorkloadModel
    budgets: LevelBudgets | None
    levels: list[int]
    shares: list[Fraction]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A plan: how the budget of a tree is spent.

    A plan that `refines` goes down level by level. Regions may get all that they have left `at_once`: their cells, or
    the levels below them by the best budgets. Without refinement the region is the whole cube; with it, the regions are
    those whose mean cell count stands out of the noise of all that they have left.
    """

    name: str
    refines: bool
    at_once: Literal["nothing", "cells", "levels"]

    def run(self, partial: PartialTree, setting: PlanSetting) -> None:
        """Spend what is left of the budget."""
        if not self.refines:
            self._commit(partial, ROOT, ROOT, setting)
            return
        active = ROOT
        partial.count_total(ROOT_SHARE)
        for level, share in zip(setting.levels, setting.shares, strict=True):
            fresh, _ = partial.below(partial.affordable(active, level), level)
            partial.count(fresh, np.full(len(fresh), partial.share_units(share)))
            active = worth_refining(partial, fresh, setting.model)
            if self.at_once != "nothing" and level < setting.levels[-1]:
                active = self._commit_clear(partial, active, setting)
            if len(active) == 0:
                break
        partial.count(*best_boxes(partial, setting.model))

    def _commit_clear(self, partial: PartialTree, active: Ints, setting: PlanSetting) -> Ints:
        """Commit the regions whose cells stand out on the whole, and return the others."""
        noise = np.sqrt(noise_variances(partial.left[active], partial.counter.epsilon_per_unit))
        clear = partial.posterior().totals[active] >= noise * partial.tree.sizes[active]
        return self._commit(partial, active[clear], active, setting)[~clear]

    def _commit(self, partial: PartialTree, regions: Ints, others: Ints, setting: PlanSetting) -> Ints:
        """Spend all that regions of one level have left on the levels below them; return where other nodes are now."""
        if len(regions) == 0 or setting.budgets is None:
            return others
        budgets = self._budgets(partial, regions, setting.budgets)
        together = np.concatenate([regions, others])
        cells, together = partial.below(regions, setting.budgets.deepest, together)
        tree = partial.tree
        inside = inside_of(tree.end, together[: len(regions)]) & ~tree.is_leaf
        units = np.where(inside, (budgets[tree.levels] * BUDGET_UNITS).astype(np.int64), 0)
        # The cells first: on a simulated table their noise is then that of plain cells, but for its size.
        partial.count(cells, partial.left[cells] - sums_to(tree.parent, units.copy())[cells])
        for level in np.flatnonzero(budgets[:-1] > 0):
            nodes = np.flatnonzero((units > 0) & (tree.levels == level))
            partial.count(nodes, units[nodes])
        return together[len(regions) :]

    def _budgets(self, partial: PartialTree, regions: Ints, budgets: LevelBudgets) -> Floats:
        """Return what the levels below regions get, as shares of the whole budget; the cells get what is left."""
        tree, first = partial.tree, int(partial.tree.levels[regions].max())
        if self.at_once == "cells" or first == budgets.deepest:
            return np.zeros(budgets.deepest + 1)
        precision = 1 / partial.counts().by_node(partial.counter.epsilon_per_unit)[1]
        inside, known = inside_of(tree.end, regions), np.zeros(budgets.deepest + 1)
        for level in np.unique(tree.levels[inside]):
            known[level] = np.median(precision[inside & (tree.levels == level)])
        share = int(partial.left[regions].min()) / BUDGET_UNITS
        return budgets.best(first, share, tuple(known.tolist()))


CELLS = TreePlan("cells", refines=False, at_once="cells")
LEVELS = TreePlan("levels", refines=False, at_once="levels")
ADAPTIVE = TreePlan("adaptive", refines=True, at_once="nothing")
CLEAR_AT_ONCE = TreePlan("adaptive, clear regions at once", refines=True, at_once="levels")
PLANS = (CELLS, LEVELS, ADAPTIVE, CLEAR_AT_ONCE)
"""The plans that are tried on simulated tables; errors are relative to the first."""
