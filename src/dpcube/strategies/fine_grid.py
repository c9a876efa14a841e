"""Ours for fine grids: a few attributes of so many cells that nobody could hold the cube, counted as boxes alone.

From the whole down, boxes that are worth a look are cut in halves, four times over, and what lies below them is counted
(`looking.py` says what is worth it, and which boxes get what is left). How much of its budget a box gives to the next
look follows from its own count: where many more looks will pay, little now; where the boxes below will hardly stand out
of the noise, most of it. So a dense clump and the empty land around it each spend by their own depth.
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
from dpcube.strategies.looking import (
    ABOVE_PEAK,
    BELOW_PEAK,
    CLEAR,
    CUTS,
    LOOK_SHARE,
    ROOT_SHARE,
    best_boxes,
    worth_a_look,
)
from dpcube.strategies.seen import ROOT, SPARE, Seen, largest_tree, sums_to
from dpcube.strategies.strategy import STARTING, UNIT_EPSILON, Parameter, Store, WorkloadKind
from dpcube.trees.halving import depth

MAX_GRID_ATTRIBUTES = 3
"""Attributes, of more than one cell, of a domain that is released so unless another strategy is named."""
MAX_GRID_NODES = 2**20
"""Nodes to which the tree grows, about: some 0.7 GB with the regions by which the gate counts and charges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FineGrid:
    """The strategy for few attributes of very many cells each, such as coordinates or times."""

    name: str = "fine_grid"
    store: ClassVar[Store] = "rows"
    workload: ClassVar[WorkloadKind] = "grid"
    kinds: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """What will be asked of each attribute, once the domain is known."""

    def for_domain(self, domain: Domain) -> "FineGrid":
        """Return the strategy with what will be asked of each attribute of a domain."""
        if domain.size > MAX_GRID_CELLS:
            msg = f"strategy {self.name}: a grid has at most 2^61 cells, and the domain {domain.size:,}; use wider bins"
            raise DomainError(msg)
        return replace(self, kinds=tuple(MIXED if attribute.ordered else "groups" for attribute in domain.attributes))

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there is nothing to choose."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the axes and of the largest tree with its regions; rows take theirs besides."""
        nodes = min(largest_tree(shape), MAX_GRID_NODES + SPARE)
        return STARTING + 200 * sum(shape) + nodes * (450 + 100 * len(shape))

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:  # noqa: ARG002
        """Return sentences on what a release would count.

        >>> print(FineGrid().description(Domain.of_shape((10**6, 10**6)))[1])
        From the whole down, boxes that stand out are cut in halves four times over and counted: 10 looks at most.
        """
        looks = len(list(grid_levels(depth(domain.shape))))
        return [
            f"{domain.size:,} cells: released as a fine grid, boxes of cells alone, from one count of the rows that "
            "are alike (docs/grids.md).",
            "From the whole down, boxes that stand out are cut in halves four times over and counted: "
            f"{looks} looks at most.",
        ]

    def run(self, counter: NoisyCounter) -> Transcript:
        """Look down from the whole, then count the boxes that fit best with all that is left.

        Privacy: every count goes through `counter`, which refuses what any cell cannot pay (core/budget.py),
        and what is asked follows from earlier answers, the shape and constants alone. So the loss is at most the job's
        epsilon.
        """
        shape = counter.shape
        model = WorkloadModel(shape, self.kinds or (MIXED,) * len(shape))
        seen = Seen(counter, model.cut_order(), evenly=True, most=MAX_GRID_NODES)
        seen.count_total(ROOT_SHARE)
        active = ROOT
        for level, more in grid_levels(depth(shape)):
            if len(active) > 0:
                active, units = next_look(seen, seen.affordable(active, level), more)
            if len(active) == 0:
                break
            fresh, active = seen.below(active, level, active)
            of_nodes = np.zeros(len(seen.tree), np.int64)
            of_nodes[active] = units
            seen.count(fresh, sums_to(seen.tree.parent, of_nodes)[fresh])
            active = worth_a_look(seen, fresh, model)
        seen.count(*best_boxes(seen, model))
        return Transcript(shape, counter.epsilon_per_unit, (seen.counts(),), layout="grid")


def grid_levels(deepest: int) -> Iterator[tuple[int, int]]:
    """Yield the levels that are looked at, the cells last, and how many more come after each.

    >>> list(grid_levels(10)), list(grid_levels(8))
    ([(2, 2), (6, 1), (10, 0)], [(4, 1), (8, 0)])
    """
    levels = range(deepest % CUTS or CUTS, deepest + 1, CUTS)
    yield from ((level, len(levels) - number) for number, level in enumerate(levels, start=1))


def next_look(seen: Seen, active: Ints, more: int) -> tuple[Ints, Ints]:
    """Return which of some nodes can pay for a look, and the units that each gives to it.

    Looks get more from one to the next until boxes no longer stand out of the noise, and less from there on, as in
    `look_shares`; a node takes its own count to be spread evenly over those to come. What is not for looking is left.
    """
    per = float(seen.counter.epsilon_per_unit)
    kept = seen.whole - seen.share_units(LOOK_SHARE + ROOT_SHARE)
    spare = np.maximum(seen.left[active] - kept, 0)
    left = np.asarray(seen.left[active] * per, np.float64)
    units = (spare / weights_to_come(seen.posterior().totals[active], left, more)).astype(np.int64)
    can_pay: Bools = units >= math.ceil(MIN_SHARE / seen.counter.epsilon_per_unit) + 1
    can_pay &= units >= BUDGET_UNITS >> 20
    return active[can_pay], units[can_pay]


def weights_to_come(totals: Floats, epsilons: Floats, more: int) -> Floats:
    """Return what all looks to come weigh together if the next one weighs 1, given what each box has left to spend."""
    deviations = math.sqrt(2) / epsilons
    clear = np.log(np.maximum(totals / (CLEAR * deviations), 1.0)) / (CUTS * math.log(2))
    peak = np.minimum(np.floor(clear), more)
    rising = (ABOVE_PEAK ** -(peak + 1) - 1) / (1 / ABOVE_PEAK - 1)
    falling = BELOW_PEAK * (1 - BELOW_PEAK ** (more - peak)) / (1 - BELOW_PEAK)
    found: Floats = rising + ABOVE_PEAK**-peak * falling
    return found
