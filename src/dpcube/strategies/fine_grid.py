"""Adaptive refinement of fine grids: a few attributes of so many cells that the cube is too large to materialise.

From the root down, boxes that meet the split criterion are halved four times over and the boxes below are counted
(`refinement.py` has the criterion and the final boxes). How much of its budget a box spends on the next level follows
from its own count: little where many more levels will pay, most of it where the boxes below will hardly stand out of
the noise. So a dense cluster and the empty space around it each spend by their own depth.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.domain import Domain
from dpcube.core.epsilon import MIN_SHARE
from dpcube.core.errors import DomainError
from dpcube.core.regions import MAX_GRID_CELLS
from dpcube.measurements import Transcript
from dpcube.queries.workload_model import MIXED, WorkloadModel
from dpcube.strategies.partial_tree import ROOT, SPARE, PartialTree, largest_tree, sums_to
from dpcube.strategies.refinement import (
    ABOVE_PEAK,
    BELOW_PEAK,
    CLEAR,
    CUTS,
    REFINEMENT_SHARE,
    ROOT_SHARE,
    best_boxes,
    worth_refining,
)
from dpcube.strategies.strategy import STARTING, UNIT_EPSILON, Parameter, Store, WorkloadKind
from dpcube.trees.halving import depth

MAX_GRID_ATTRIBUTES = 3
"""A domain of at most so many attributes of more than one cell is released as a grid by default."""
MAX_GRID_NODES = 2**20
"""Approximate nodes of the tree: some 0.7 GB with the regions by which the gate counts and charges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FineGrid:
    """The strategy for few attributes of very many cells each, such as coordinates or times."""

    name: str = "fine_grid"
    store: ClassVar[Store] = "rows"
    workload: ClassVar[WorkloadKind] = "grid"
    kinds: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """Kind of query of each attribute, set by `for_domain`."""

    def for_domain(self, domain: Domain) -> "FineGrid":
        """Return the strategy with the kind of query of each attribute of a domain."""
        if domain.size > MAX_GRID_CELLS:
            msg = f"strategy {self.name}: a grid has at most 2^61 cells, and the domain {domain.size:,}; use wider bins"
            raise DomainError(msg)
        return replace(self, kinds=tuple(MIXED if attribute.ordered else "groups" for attribute in domain.attributes))

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there are no parameters."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the axes and of the largest tree with its regions; rows take theirs besides."""
        nodes = min(largest_tree(shape), MAX_GRID_NODES + SPARE)
        return STARTING + 200 * sum(shape) + nodes * (450 + 100 * len(shape))

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:  # noqa: ARG002
        """Return sentences on what a release would count.

        >>> print(FineGrid().description(Domain.of_shape((10**6, 10**6)))[1])
        From the root down, boxes that stand out of the noise are halved four times over and counted: at most 10 levels.
        """
        levels = len(list(grid_levels(depth(domain.shape))))
        return [
            f"{domain.size:,} cells: released as a fine grid: noisy counts of boxes of cells instead of every "
            "cell (docs/guides/coordinates.md).",
            "From the root down, boxes that stand out of the noise are halved four times over and counted: "
            f"at most {levels} levels.",
        ]

    def run(self, counter: NoisyCounter) -> Transcript:
        """Refine from the root down, then count the final boxes with all that is left.

        Privacy: every count goes through `counter`, which refuses what any cell cannot pay (core/budget.py),
        and what is asked follows from earlier answers, the shape and constants alone. So the loss is at most the job's
        epsilon.
        """
        shape = counter.shape
        model = WorkloadModel(shape, self.kinds or (MIXED,) * len(shape))
        partial = PartialTree(counter, model.cut_order(), evenly=True, most=MAX_GRID_NODES)
        partial.count_total(ROOT_SHARE)
        active = ROOT
        for level, more in grid_levels(depth(shape)):
            if len(active) > 0:
                active, units = next_refinement(partial, partial.affordable(active, level), more)
            if len(active) == 0:
                break
            fresh, active = partial.below(active, level, active)
            of_nodes = np.zeros(len(partial.tree), np.int64)
            of_nodes[active] = units
            partial.count(fresh, sums_to(partial.tree.parent, of_nodes)[fresh])
            active = worth_refining(partial, fresh, model)
        partial.count(*best_boxes(partial, model))
        return Transcript(shape, counter.epsilon_per_unit, (partial.counts(),), layout="grid")


def grid_levels(deepest: int) -> Iterator[tuple[int, int]]:
    """Yield the refinement levels, the cells last, and how many more come after each.

    >>> list(grid_levels(10)), list(grid_levels(8))
    ([(2, 2), (6, 1), (10, 0)], [(4, 1), (8, 0)])
    """
    levels = range(deepest % CUTS or CUTS, deepest + 1, CUTS)
    yield from ((level, len(levels) - number) for number, level in enumerate(levels, start=1))


def next_refinement(partial: PartialTree, active: Ints, more: int) -> tuple[Ints, Ints]:
    """Return which nodes have the units for another level, and the units that each spends on it.

    Levels get more from one to the next until boxes no longer stand out of the noise, and less from there on, as in
    `level_shares`; a node takes its own count to be spread evenly over those to come. The units of the final boxes are
    left.
    """
    per = float(partial.counter.epsilon_per_unit)
    kept = partial.whole - partial.share_units(REFINEMENT_SHARE + ROOT_SHARE)
    spare = np.maximum(partial.left[active] - kept, 0)
    left = np.asarray(partial.left[active] * per, np.float64)
    units = (spare / weights_to_come(partial.posterior().totals[active], left, more)).astype(np.int64)
    can_pay: Bools = units >= math.ceil(MIN_SHARE / partial.counter.epsilon_per_unit) + 1
    can_pay &= units >= BUDGET_UNITS >> 20
    return active[can_pay], units[can_pay]


def weights_to_come(totals: Floats, epsilons: Floats, more: int) -> Floats:
    """Return the total weight of the levels to come if the next one weighs 1, given the epsilon left to each box."""
    deviations = math.sqrt(2) / epsilons
    clear = np.log(np.maximum(totals / (CLEAR * deviations), 1.0)) / (CUTS * math.log(2))
    peak = np.minimum(np.floor(clear), more)
    rising = (ABOVE_PEAK ** -(peak + 1) - 1) / (1 / ABOVE_PEAK - 1)
    falling = BELOW_PEAK * (1 - BELOW_PEAK ** (more - peak)) / (1 - BELOW_PEAK)
    found: Floats = rising + ABOVE_PEAK**-peak * falling
    return found
