"""Selection of a plan by simulation: each plan is run on tables simulated from the pilot, and the least loss wins.

The pilot is a tree with noisy counts of the whole table and of a few boxes. Selection is post-processing of these: it
costs time and no budget. All of its random numbers come from fixed seeds (`simulated.py`).
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.measurements import Marginal
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.marginals.balanced import moved_by_departures
from dpcube.models.marginals.components import Components, NoisyTable, tables_with_noise
from dpcube.models.marginals.fitting import Departures, signals
from dpcube.models.posterior import Posterior, PosteriorEstimate, infer, whole_count
from dpcube.models.posterior.splits import PRIOR, PSEUDO_SPLITS, predicted_shares
from dpcube.queries import Workload
from dpcube.queries.workload_model import MIXED
from dpcube.strategies.one_way import count_same_marginals
from dpcube.strategies.partial_tree import PartialTree
from dpcube.strategies.plans import ADAPTIVE, PLANS, PlanSetting, TreePlan
from dpcube.strategies.simulated import draw_below, noise_of_cells, ranges_of, simulated_gate
from dpcube.trees.halving import depth, halve

MAX_SIMULATED_CELLS, MAX_SIMULATED_TABLES = 2**14, 4
"""Cells of all simulated tables of one law together, and the number of such tables, at most. There is at least one."""
SIMULATED_ROUNDS = 2
"""Rounds of inference for the estimate of a simulated table: one less than for a release, to save time."""
FEW_EMPTY = (0.005, 0.005, 0.1, 0.89)
"""Prior weights of the second law (nothing left, nothing right, anything, near the prediction).

The prior of the posterior has many empty halves, which favours refinement. Tables are simulated by either law.
"""
ROUGH, SMOOTH = 0.3, 0.1
"""Deviation of shares from their predictions, by the first law and by the second."""
WORSE_THAN_CELLS = 2.0
"""Weight of the excess error over plain cells in single cells or small marginals, in logarithms."""
TOLERATED = 0.03
"""An excess up to this does not count."""
SURER = 0.15
"""Credit of refinement where it is no worse than plain cells: it adapts where simulated tables are wrong."""
HOPELESS = 1.0
"""A plan whose loss exceeds the best by this is not run on further tables."""
NO_ERROR = 1e-3
"""Rows added to every error: at a large epsilon plain cells of a small table often have no error at all."""
LEAST_OF_MEAN = 1e-3
"""Least expected count of a value of a simulated table, as a part of the mean of its attribute's values."""
MAX_QUESTIONS = 64
"""Declared questions that are asked of a simulated table, at regular places of the list."""


@dataclass(frozen=True, slots=True)
class PlanWorkload:
    """The workload of a simulated table: ranges by kind, or declared questions; `any_kind` if nothing was declared."""

    ranges: tuple[Workload, ...]
    questions: tuple[Floats, ...] | None
    any_kind: bool

    @classmethod
    def from_kinds(
        cls, shape: tuple[int, ...], kinds: tuple[str, ...], weights: tuple[Floats, ...] | None
    ) -> "PlanWorkload":
        """Return the workload of the kinds of queries on each axis, or of the weights of given questions."""
        if weights is not None:
            picked = np.unique(np.linspace(0, len(weights[0]) - 1, MAX_QUESTIONS).astype(np.int64))
            return cls((), tuple(of_axis[picked] for of_axis in weights), any_kind=False)
        each = [
            tuple(kind if of_axis == MIXED else of_axis for of_axis in kinds)
            for kind in ("ranges", "prefixes", "short")
        ]
        any_kind = set(kinds) <= {MIXED, "groups"}
        return cls(tuple(ranges_of(shape, one) for one in dict.fromkeys(each)), None, any_kind=any_kind)

    def errors(self, wrong: Floats) -> Floats:
        """Return the mean absolute error of each kind of question, those of the declared workload first."""
        found = [_mean_of_questions(wrong, self.questions)] if self.questions is not None else []
        sums = summed_area_table(wrong)
        found += [float(np.abs(range_sums(sums, asked.lower, asked.upper)).mean()) for asked in self.ranges]
        return np.array(found + (_of_tables(wrong) if self.any_kind else []))

    @property
    def wanted(self) -> int:
        """How many of the errors are of the declared workload."""
        return len(self.ranges) + (self.questions is not None)


def _mean_of_questions(wrong: Floats, questions: tuple[Floats, ...]) -> float:
    found = 0.0
    for weights in zip(*questions, strict=True):
        part = wrong
        for of_axis in weights:
            part = np.tensordot(of_axis, part, 1)
        found += abs(float(part))
    return found / len(questions[0])


def _of_tables(wrong: Floats) -> list[float]:
    """Return the mean absolute errors of single cells, and of tables over one and over two axes."""
    found, axes = [float(np.abs(wrong).mean())], range(wrong.ndim)
    for way in range(1, min(3, wrong.ndim)):
        sums = (wrong.sum(tuple(set(axes) - set(kept))) for kept in itertools.combinations(axes, way))
        found.append(float(np.mean([np.abs(table).mean() for table in sums])))
    return found


def select_plan(
    partial: PartialTree, setting: PlanSetting, asked: PlanWorkload, ones: Sequence[Marginal] = ()
) -> TreePlan:
    """Return the plan of least loss on simulated tables; a hopeless one is not run on all of them.

    `ones` are one-way marginals that were counted: simulated tables have them, and they are counted there too.
    """
    tables = 2 * min(max(MAX_SIMULATED_CELLS // int(np.prod(partial.tree.shape)), 1), MAX_SIMULATED_TABLES)
    wrong, loss = np.zeros((len(PLANS), tables, len(asked.errors(np.zeros(partial.tree.shape))))), np.zeros(len(PLANS))
    plain = wrong[0].copy()
    for number, (table, noise) in enumerate(_tables_and_noise(partial, ones, tables)):
        plain[number] = asked.errors(noise)
        hopeful = loss < loss.min() + HOPELESS
        for plan in np.flatnonzero(hopeful):
            counter = simulated_gate(table, partial.counter.epsilon_per_unit * BUDGET_UNITS, seed=number)
            twin = partial.on(counter)
            PLANS[plan].run(twin, setting)
            wrong[plan, number] = asked.errors(_estimated(twin, count_same_marginals(counter, ones)) - table)
        if number % 2:  # each of the two laws has been drawn as often
            laws = [slice(law, number + 1, 2) for law in (0, 1)]
            by_law = [(wrong[:, law].mean(1) + NO_ERROR) / (plain[law].mean(0) + NO_ERROR) for law in laws]
            loss = np.where(hopeful, _loss(np.log(np.array(by_law)), asked), np.inf)
    return PLANS[int(loss.argmin())]


def _loss(wrong: Floats, asked: PlanWorkload) -> Floats:
    """Return the loss of each plan, given logarithms of its errors to plain cells': shape (laws, plans, kinds).

    The mean error of the workload, and by the worse law the excess of single cells and small marginals.
    """
    loss: Floats = wrong[:, :, : asked.wanted].mean(axis=(0, 2))
    if not asked.any_kind:
        return loss
    excess = np.maximum(wrong[:, :, asked.wanted :].max(axis=0) - TOLERATED, 0).sum(axis=1)
    refines = np.array([plan is ADAPTIVE for plan in PLANS])
    loss += WORSE_THAN_CELLS * excess - SURER * (refines & (excess == 0))
    return loss


def _estimated(partial: PartialTree, ones: list[Marginal]) -> Floats:
    counts, epsilon_per_unit = partial.counts(), partial.counter.epsilon_per_unit
    measured, whole = counts.by_node(epsilon_per_unit), whole_count(counts, epsilon_per_unit)
    found = infer(partial.tree, *measured, rounds=SIMULATED_ROUNDS, whole=whole, even=None)
    cells = PosteriorEstimate("balanced", found, *measured).cells()
    tables = tables_with_noise(ones, epsilon_per_unit)
    return moved_by_departures(cells, Components.from_tables(partial.tree.shape, tables)) if tables else cells


def _predicting_marginals(found: Posterior, shape: tuple[int, ...], tables: list[NoisyTable]) -> Floats:
    """Return the prefix sums of a posterior's marginals, with shrunk noisy marginals in their place."""
    prefix, total = found.prefix.copy(), max(float(found.totals[0]), 1.0)
    for (axis,), counts, variance in tables:
        first, values = int(found.start[axis]), shape[axis]
        departures = Departures(counts - counts.mean(), variance, np.zeros(values, np.int64))
        marginal = np.maximum(total / values + signals([departures])[0], LEAST_OF_MEAN * total / values)
        prefix[first + 1 : first + values + 1] = np.cumsum(marginal) * total / marginal.sum()
    return prefix


def _tables_and_noise(partial: PartialTree, ones: Sequence[Marginal], tables: int) -> Iterator[tuple[Ints, Floats]]:
    """Yield simulated tables, by two laws in turn, and the noise of plain cells on each."""
    found, shape = infer(partial.tree, *partial.counts().by_node(partial.counter.epsilon_per_unit)), partial.tree.shape
    tree, moved, _ = halve(partial.tree, partial.tree.leaves, depth(shape), partial.order)
    places, known = tree.lower[tree.leaves], moved[partial.tree.leaves]
    prefix = _predicting_marginals(found, shape, tables_with_noise(ones, partial.counter.epsilon_per_unit))
    share = predicted_shares(tree.lower, tree.upper, tree.cuts.axis, prefix, found.start)
    laws = _laws(found, int(tree.levels.max()) + 1)
    for number in range(tables):
        totals, table = np.zeros(len(tree), np.int64), np.zeros(shape, np.int64)
        totals[known] = np.rint(found.totals[partial.tree.leaves])
        draw_below(tree, totals, known, share, *laws[number % 2], seed=number)
        table[tuple(places.T)] = totals[tree.leaves]
        yield table, noise_of_cells(shape, places, float(BUDGET_UNITS * partial.counter.epsilon_per_unit), seed=number)


def _laws(found: Posterior, levels: int) -> tuple[tuple[Floats, float], tuple[Floats, float]]:
    """Return the weights of the mixture by level, and the deviation of shares, of two laws.

    The first is the posterior's. The second has few empty halves in place of the prior's part of the weights.
    """
    learnt = found.weights[np.minimum(np.arange(levels), len(found.weights) - 1)]
    splits = np.count_nonzero(~found.tree.is_leaf)
    of_prior = PSEUDO_SPLITS / (PSEUDO_SPLITS + (splits + 1) / 2)  # splits of the last level that was counted
    even = np.maximum(learnt - of_prior * (np.array(PRIOR) - np.array(FEW_EMPTY)), 1e-3)
    return (learnt, ROUGH), (even, SMOOTH)
