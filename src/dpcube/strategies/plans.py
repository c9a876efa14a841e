"""The plans that there are for a tree: count the cells, or some levels, at once; or look, level by level.

Enters: a tree as it is counted. Leaves: the tree with all of its budget spent, on every cell to the last unit that the
poorest cell of a box has. Each plan asks by what it was told and by public facts alone.
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
from dpcube.strategies.looking import ROOT_SHARE, best_boxes, worth_a_look
from dpcube.strategies.seen import ROOT, Seen, inside_of, sums_to


@dataclass(frozen=True, slots=True)
class PlanSetting:
    """What all plans for a cube share: a model of what will be asked, level budgets, the looks and their shares."""

    model: WorkloadModel
    budgets: LevelBudgets | None
    looks: list[int]
    shares: list[Fraction]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What to do with the budget of a tree.

    A plan that `looks` goes down level by level. Regions may get all that they have left `at_once`: their cells, or
    the levels below them by the best budgets. The region is everything where a plan does not look; where it does, those
    whose mean count of a cell stands out of the noise of all that they have left.
    """

    name: str
    looks: bool
    at_once: Literal["nothing", "cells", "levels"]

    def run(self, seen: Seen, setting: PlanSetting) -> None:
        """Spend what is left of the budget."""
        if not self.looks:
            self._commit(seen, ROOT, ROOT, setting)
            return
        active = ROOT
        seen.count_total(ROOT_SHARE)
        for level, share in zip(setting.looks, setting.shares, strict=True):
            fresh, _ = seen.below(seen.affordable(active, level), level)
            seen.count(fresh, np.full(len(fresh), seen.share_units(share)))
            active = worth_a_look(seen, fresh, setting.model)
            if self.at_once != "nothing" and level < setting.looks[-1]:
                active = self._commit_clear(seen, active, setting)
            if len(active) == 0:
                break
        seen.count(*best_boxes(seen, setting.model))

    def _commit_clear(self, seen: Seen, active: Ints, setting: PlanSetting) -> Ints:
        """Commit the regions whose cells stand out on the whole, and return the others."""
        noise = np.sqrt(noise_variances(seen.left[active], seen.counter.epsilon_per_unit))
        clear = seen.posterior().totals[active] >= noise * seen.tree.sizes[active]
        return self._commit(seen, active[clear], active, setting)[~clear]

    def _commit(self, seen: Seen, regions: Ints, others: Ints, setting: PlanSetting) -> Ints:
        """Spend all that regions of one level have left on the levels below them; return where other nodes are now."""
        if len(regions) == 0 or setting.budgets is None:
            return others
        budgets = self._budgets(seen, regions, setting.budgets)
        together = np.concatenate([regions, others])
        cells, together = seen.below(regions, setting.budgets.deepest, together)
        tree = seen.tree
        inside = inside_of(tree.end, together[: len(regions)]) & ~tree.is_leaf
        units = np.where(inside, (budgets[tree.levels] * BUDGET_UNITS).astype(np.int64), 0)
        # The cells first: on a made-up table their noise is then that of plain cells, but for its size.
        seen.count(cells, seen.left[cells] - sums_to(tree.parent, units.copy())[cells])
        for level in np.flatnonzero(budgets[:-1] > 0):
            nodes = np.flatnonzero((units > 0) & (tree.levels == level))
            seen.count(nodes, units[nodes])
        return together[len(regions) :]

    def _budgets(self, seen: Seen, regions: Ints, budgets: LevelBudgets) -> Floats:
        """Return what the levels below regions get, as shares of the whole budget; the cells get what is left."""
        tree, first = seen.tree, int(seen.tree.levels[regions].max())
        if self.at_once == "cells" or first == budgets.deepest:
            return np.zeros(budgets.deepest + 1)
        precision = 1 / seen.counts().by_node(seen.counter.epsilon_per_unit)[1]
        inside, known = inside_of(tree.end, regions), np.zeros(budgets.deepest + 1)
        for level in np.unique(tree.levels[inside]):
            known[level] = np.median(precision[inside & (tree.levels == level)])
        share = int(seen.left[regions].min()) / BUDGET_UNITS
        return budgets.best(first, share, tuple(known.tolist()))


CELLS = TreePlan("cells", looks=False, at_once="cells")
LEVELS = TreePlan("levels", looks=False, at_once="levels")
ADAPTIVE = TreePlan("adaptive", looks=True, at_once="nothing")
CLEAR_AT_ONCE = TreePlan("adaptive, clear regions at once", looks=True, at_once="levels")
PLANS = (CELLS, LEVELS, ADAPTIVE, CLEAR_AT_ONCE)
"""Those that are run on made-up tables; the first is what all are compared with."""
