"""The default strategy: a pilot measurement, selection of a plan by simulation, then the measurements of the plan.

Halving the axis that matters most to a query, again and again, makes a public tree of boxes. Plans differ in which of
its boxes they count (`plans.py`): all cells at once, whole levels, or, by adaptive refinement from the top down, the
boxes below those that meet the split criterion. Where the cube is small and may be dense (`pilot.py`), the plan with
the least simulated error is selected (`plan_selection.py`); all other cubes are refined adaptively. One-way marginals
are counted before any plan (`one_way.py`); from three attributes on, all plans but that of cells count two-way
marginals too (`marginals.py`).
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, share_units
from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.marginals.components import axes_of_several
from dpcube.noise import noise_variances
from dpcube.queries import query
from dpcube.queries.workload_model import KINDS, MIXED, WorkloadModel
from dpcube.strategies.cells import Cells
from dpcube.strategies.level_budgets import BESIDE_QUERIES, LevelBudgets
from dpcube.strategies.marginal_selection import MAX_TRIED_CELLS, PILOT_SHARE, best_share
from dpcube.strategies.marginals import (
    count_class_tables,
    count_pairs,
    pairs_of_attributes,
    peak_bytes_of_tables,
    shares_of_pairs,
)
from dpcube.strategies.one_way import count_one_way, count_same_marginals, counts_one_way, one_way_shares
from dpcube.strategies.partial_tree import ROOT, PartialTree, largest_tree
from dpcube.strategies.pilot import count_pilot, is_small
from dpcube.strategies.plan_selection import PlanWorkload, select_plan
from dpcube.strategies.plans import ADAPTIVE, CELLS, PlanSetting, TreePlan
from dpcube.strategies.refinement import REFINEMENT_SHARE, ROOT_SHARE, level_shares, refinement_levels
from dpcube.strategies.strategy import STARTING, OfCells, Parameter
from dpcube.trees.halving import depth

PLAIN = 1 / 45
"""All of the budget goes to cells when their noise is below this part of the variance that half a split would leave.

Noise falls exponentially with a large epsilon, so a share of it is worth next to nothing: from about 5.4 on.
"""
FAINT = Fraction(1, 10**4)
"""Below this epsilon no marginal is counted before the tree: a share of a share could be too small to draw noise for.

Tens of thousands of rows are then within the noise of an empty table.
"""
SHARE_OF_TOTAL = Fraction(4, 100)
"""Share for the count of the whole table by which one-way marginals get theirs."""
MANY_VALUES = 64
"""A category that is alone in a cube is counted value by value from more values on: see `one_way.py`."""
OF_SHRUNK_VALUE = 600
"""Bytes of a value of a marginal while its departures are shrunk (`models/marginals/fitting.py`)."""
SIMULATED_CELL_BYTES = 90
"""Bytes of a cell of a simulated table, with its estimate and its noise."""
MAX_WEIGHTS = 2**26
"""Weights that given questions may have, over all attributes: half a gigabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(OfCells):
    """The default strategy. Its only parameter is the workload, which is public and costs no budget.

    `queries` is a name for every attribute or one name each: "ranges" (ends anywhere), "prefixes", "short" ranges,
    "groups" (one value or all together), or "mixed", all of these. By default it is mixed, and groups where values
    have no order. Or `questions` are given, such as "age between 30 and 39 and sex = 'Female'": then boxes are made
    for what these ask of each attribute, and for a quarter still for any. A `target` names the attribute that a
    classifier will predict from the others: their marginals with the target are counted first, whatever is asked.
    """

    name: str = "adaptive"
    queries: str | tuple[str, ...] | None = None
    questions: tuple[str, ...] = ()
    target: str | None = None
    target_axis: int | None = field(default=None, repr=False, compare=False)
    """Axis of the target, set by `for_domain`."""
    weights: tuple[Floats, ...] | None = field(default=None, repr=False, compare=False)
    """Weights of each question on the cells of each attribute, set by `for_domain`."""

    def __post_init__(self) -> None:
        given = () if self.queries is None else (self.queries,) if isinstance(self.queries, str) else self.queries
        for kind in given:
            if kind not in KINDS:
                msg = f"strategy adaptive: queries must be among {', '.join(KINDS)}, got {kind!r}"
                raise InputError(msg)
        if isinstance(self.questions, str) or (given and self.questions and self.weights is None):
            msg = "strategy adaptive: give kinds of queries, or a list of questions, not both"
            raise InputError(msg)

    def for_domain(self, domain: Domain) -> "Adaptive":
        """Return the strategy with what will be asked of each attribute of a domain."""
        if isinstance(self.queries, tuple) and len(self.queries) != len(domain.attributes):
            msg = f"strategy adaptive: queries must be one kind, or one for each of {len(domain.attributes)} attributes"
            raise InputError(msg)
        if self.weights is not None and tuple(w.shape[1] for w in self.weights) != domain.shape:
            msg = "strategy adaptive: its questions were fitted to another domain; give the strategy as it was before"
            raise InputError(msg)
        if self.target is not None:
            if self.target not in domain.names:
                msg = f"strategy adaptive: the target must be one of {listing(domain.names)}, got {self.target!r}"
                raise InputError(msg)
            if self.target_axis != domain.axis(self.target):
                return replace(self, target_axis=domain.axis(self.target)).for_domain(domain)
        if self.queries is not None:
            return self
        kinds = tuple(MIXED if attribute.ordered else "groups" for attribute in domain.attributes)
        if not self.questions:
            return replace(self, queries=kinds)
        if len(self.questions) * sum(domain.shape) > MAX_WEIGHTS:
            many, cells = len(self.questions), sum(domain.shape)
            msg = f"strategy adaptive: {many:,} questions on attributes of {cells:,} cells are too many; give fewer"
            raise InputError(msg)
        asked = [query(domain, question).weights for question in self.questions]
        return replace(self, queries=kinds, weights=tuple(np.stack(of_axis) for of_axis in zip(*asked, strict=True)))

    def parameters(self) -> dict[str, Parameter]:
        """Return the declared workload, for the release's manifest."""
        target: dict[str, Parameter] = {} if self.target is None else {"target": self.target}
        if self.questions:
            return {"questions": "; ".join(self.questions), **target}
        queries = self.queries or MIXED
        return {"queries": queries if isinstance(queries, str) else ", ".join(queries), **target}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of a few arrays of the shape, of the axes, and of the largest tree.

        Exact counts, and the gate's account of each cell before and after a call; what queries cover of each interval
        of an axis; and of each node its bounds and its posterior, or its bounds once more, in the tree that grows
        out of this one or in what goes into the file.
        """
        cells, axes = math.prod(shape), len(shape)
        of_node = max(200 + 16 * axes, 140 + 32 * axes)
        given = 0 if self.weights is None else 3 * max(weights.nbytes for weights in self.weights)
        tried = is_small(shape) or (len(pairs_of_attributes(shape)) > 0 and cells <= MAX_TRIED_CELLS)
        trees = 3 if tried else 1  # that of all cells and that of a simulated table, where a plan is selected
        nodes = trees * largest_tree(shape)
        of_cell = 26 + (SIMULATED_CELL_BYTES if tried else 0)
        of_value = 100 + (OF_SHRUNK_VALUE if tried else 0)
        return (
            STARTING + of_cell * cells + of_value * sum(shape) + given + peak_bytes_of_tables(shape) + nodes * of_node
        )

    def run(self, counter: NoisyCounter) -> Transcript:
        """Run the pilot, count one-way marginals, select a plan by these, and run it, perhaps with two-way marginals.

        Privacy: every count goes through `counter`, which refuses what any cell cannot pay (core/budget.py), and
        what is asked follows from earlier answers, the shape and constants alone: selecting a plan is post-processing
        of answers. So the loss is at most the job's epsilon.
        """
        if _is_plain(counter):
            return replace(Cells().run(counter), plan=CELLS.name)
        model = WorkloadModel(counter.shape, self._kinds(counter.shape), self.weights)
        partial, faint = PartialTree(counter, model.cut_order()), BUDGET_UNITS * counter.epsilon_per_unit < FAINT
        ones = [] if faint else self._one_way_marginals(counter, partial)
        if self._is_one_category(counter.shape):
            _count_values(partial)
            return Transcript(counter.shape, counter.epsilon_per_unit, (partial.counts(),), plan=CELLS.name)
        plan, setting = self._planned(partial, model, ones)
        pairs = [] if faint or plan is CELLS else self._two_way_marginals(counter, model, plan, setting, ones)
        _count_tree(partial, pairs, plan, setting)
        return Transcript(counter.shape, counter.epsilon_per_unit, (*ones, *pairs, partial.counts()), plan=plan.name)

    def _one_way_marginals(self, counter: NoisyCounter, partial: PartialTree) -> list[Marginal]:
        """Count the total, and the one-way marginals with shares that follow from it, if any are to be counted."""
        kinds = self._kinds(counter.shape)
        if self.target_axis is not None or not counts_one_way(counter.shape, kinds):
            return []
        partial.count_total(SHARE_OF_TOTAL)
        undeclared = (MIXED, "groups") if self.weights is None else ("groups",)
        single_values = tuple(kind in undeclared for kind in kinds)
        epsilon = float(BUDGET_UNITS * counter.epsilon_per_unit)
        ones = count_one_way(
            counter, one_way_shares(counter.shape, single_values, epsilon=epsilon, total=partial.total())
        )
        partial.set_aside(sum(table.units for table in ones))
        return ones

    def _two_way_marginals(
        self,
        counter: NoisyCounter,
        model: WorkloadModel,
        plan: TreePlan,
        setting: PlanSetting,
        ones: list[Marginal],
    ) -> list[Marginal]:
        """Count a pilot of all two-way marginals, and more of them if simulation says that they reduce the error."""
        if self.target_axis is not None:
            return count_class_tables(counter, self.target_axis)
        of_ones = sum(table.units for table in ones)
        shares = shares_of_pairs(counter.shape, before=Fraction(of_ones, BUDGET_UNITS))
        if max(shares) <= PILOT_SHARE:
            return []
        pilot = count_pairs(counter, PILOT_SHARE)
        asked = PlanWorkload.from_kinds(counter.shape, self._kinds(counter.shape), self.weights)

        def count(simulated: NoisyCounter, of_pairs: Fraction) -> tuple[list[Marginal], BoxCounts]:
            tables, tree = count_same_marginals(simulated, ones), PartialTree(simulated, model.cut_order())
            pairs = count_pairs(simulated, of_pairs) if of_pairs else []
            tree.set_aside(of_ones + sum(table.units for table in pairs))
            tree.count_total(ROOT_SHARE)
            _count_tree(tree, [], plan, setting)
            return tables + pairs, tree.counts()

        share = best_share(ones + pilot, shares, counter, asked, count)
        return pilot + count_pairs(counter, share - PILOT_SHARE) if share > PILOT_SHARE else pilot

    def _is_one_category(self, shape: tuple[int, ...]) -> bool:
        """Say whether one attribute alone has several values, many and asked one by one, all of which fit a tree."""
        several = axes_of_several(shape)
        if len(several) != 1 or self._kinds(shape)[several[0]] != "groups":
            return False
        return shape[several[0]] > MANY_VALUES and 2 * math.prod(shape) <= largest_tree(shape)

    def _planned(
        self, partial: PartialTree, model: WorkloadModel, ones: list[Marginal]
    ) -> tuple[TreePlan, PlanSetting]:
        """Return the plan for a table, selected after a pilot where the cube is small enough."""
        shape, levels = partial.tree.shape, refinement_levels(depth(partial.tree.shape))
        if not is_small(shape) or not count_pilot(partial):
            return ADAPTIVE, PlanSetting(model, None, levels, [])
        asked = PlanWorkload.from_kinds(shape, self._kinds(shape), self.weights)
        epsilon = float(BUDGET_UNITS * partial.counter.epsilon_per_unit)
        cells = BESIDE_QUERIES if asked.any_kind else 0.0
        budgets = LevelBudgets(model, partial.order, shape, epsilon, cells=cells)
        setting = PlanSetting(model, budgets, levels, level_shares(partial, model, levels))
        return select_plan(partial, setting, asked, ones), setting

    def _kinds(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        queries = self.queries or MIXED
        return (queries,) * len(shape) if isinstance(queries, str) else queries


def _count_tree(partial: PartialTree, tables: list[Marginal], plan: TreePlan, setting: PlanSetting) -> None:
    """Count the tree by a plan with the budget that marginals leave."""
    partial.set_aside(sum(table.units for table in tables))
    if plan.refines:
        partial.count_total(ROOT_SHARE)
        setting = replace(setting, shares=level_shares(partial, setting.model, setting.levels))
    plan.run(partial, setting)


def _count_values(partial: PartialTree) -> None:
    """Count the total, then every cell with all that is left."""
    partial.count_total(ROOT_SHARE)
    partial.below(ROOT, depth(partial.tree.shape))
    cells = partial.tree.leaves
    partial.count(cells, partial.left[cells])


def _is_plain(counter: NoisyCounter) -> bool:
    """Say whether epsilon is so large that plain cells are best whatever the table."""
    units = np.array([BUDGET_UNITS, share_units(REFINEMENT_SHARE / 2)])
    everything, half_a_split = noise_variances(units, counter.epsilon_per_unit)
    return bool(everything < PLAIN * half_a_split)
