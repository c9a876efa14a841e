"""Ours: look from the top down, stop where nothing is left to learn, then spend all that is left on fitting boxes.

Halving the axis that matters most to a query, again and again, makes a tree of boxes that is public. The total is
counted first; then, at a few levels of the tree, the boxes below those still worth a look; at last each region's whole
remainder goes on the boxes that cost least. Every decision weighs what a query would lose (`query/workload_model.py`):
noise of variance v on a box costs F v, a split that stays unknown with variance u costs K u.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.arrays import Floats, Ints
from dpcube.compiled import compiled
from dpcube.counter import BUDGET_UNITS, NoisyCounter, share_units
from dpcube.domain import Domain
from dpcube.errors import InputError
from dpcube.estimate.posterior import Learnt, Posterior, infer
from dpcube.geometry.halving import CutOrder, boxes_at, depth, halve, most_nodes
from dpcube.geometry.tree import BoxTree
from dpcube.noise import noise_variances
from dpcube.query import query
from dpcube.query.workload_model import KINDS, MIXED, WorkloadModel
from dpcube.strategy.cells import Cells
from dpcube.strategy.marginals import count_tables, peak_bytes_of_tables
from dpcube.strategy.strategy import STARTING, Parameter
from dpcube.transcript import BoxCounts, Transcript

# The constants below are flat optima: a quarter more or less of any moves the error by less than its own noise
# (docs/adaptive.md has the measurements).
TOTAL_SHARE = Fraction(4, 100)
"""Share of the budget for the count of the whole table, which chooses the level that gets most."""
LOOK_SHARE = Fraction(70, 100)
"""Share for looking, at all levels together; the rest, and what is not spent, is for the boxes."""
LAST_CUTS, CUTS = 6, 4
"""Cuts between the last two levels that are looked at, and between the levels above them."""
ABOVE_PEAK, BELOW_PEAK = 0.5, 0.7
"""Ratio of a level's budget to the next one's, on the two sides of the level that gets most."""
CLEAR = 2.0
"""How many noise deviations (times sqrt(F/K)) a level's mean count must reach for the level below to get most."""
LEFT_TO_LEARN = 0.25
"""Expected sum of K times the split variances below a box, in units of K times its squared count."""
LEAF_NOISE = 0.15
"""How much of a box's noise matters: boxes around it are counted too, so only queries that cut those see all of it."""
LOOK_ROUNDS = 1
"""Rounds of inference after each look: each starts from what the one before has learnt."""
MOST_NODES = 2**22
"""The tree grows to about so many nodes; where more boxes are worth a look, those worth most are looked into.

Cubes of up to two million cells never come there. It bounds the memory of a release whatever the domain.
"""
SPARE = 2**8
"""Nodes by which the tree may exceed that: one box is looked into whatever there is."""
PLAIN = 1 / 45
"""Cells are counted with everything when that noise is below this part of the variance that half of a look would leave.

Noise falls exponentially with a large epsilon, so a share of it is worth next to nothing: from about 5.4 on.
"""
FAINT = Fraction(1, 10**4)
"""Below this epsilon no table is counted before the tree: a share of its share could be too small to draw noise for.

Tens of thousands of rows cannot be told from none there.
"""
MOST_WEIGHTS = 2**26
"""Weights that given questions may have, over all attributes: half a gigabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """The default strategy; it has nothing to choose but what will be asked, which is public and costs nothing.

    `queries` is a name for every attribute or one name each: "ranges" (ends anywhere), "prefixes", "short" ranges,
    "groups" (one value or all together), or "mixed", all of these. By default it is mixed, and groups where values
    have no order. Or `questions` are given, such as "age between 30 and 39 and sex = 'Female'": then boxes are made
    for what these ask of each attribute, and for a quarter still for any.
    """

    name: str = "adaptive"
    queries: str | tuple[str, ...] | None = None
    questions: tuple[str, ...] = ()
    weights: tuple[Floats, ...] | None = field(default=None, repr=False, compare=False)
    """What each question takes of every cell of each attribute, once the domain is known."""

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
        if self.queries is not None:
            return self
        kinds = tuple(MIXED if attribute.ordered else "groups" for attribute in domain.attributes)
        if not self.questions:
            return replace(self, queries=kinds)
        if len(self.questions) * sum(domain.shape) > MOST_WEIGHTS:
            many, cells = len(self.questions), sum(domain.shape)
            msg = f"strategy adaptive: {many:,} questions on attributes of {cells:,} cells are too many; give fewer"
            raise InputError(msg)
        asked = [query(domain, question).weights for question in self.questions]
        return replace(self, queries=kinds, weights=tuple(np.stack(of_axis) for of_axis in zip(*asked, strict=True)))

    def parameters(self) -> dict[str, Parameter]:
        """Return what was said to be asked, for the release's manifest."""
        if self.questions:
            return {"questions": "; ".join(self.questions)}
        queries = self.queries or MIXED
        return {"queries": queries if isinstance(queries, str) else ", ".join(queries)}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of a few arrays of the shape, of the axes, and of the largest tree.

        Exact counts, and the gate's account of each cell before and after a call; what queries cover of each interval
        of an axis; and of each node its bounds with all that the posterior tells, or once more, in the tree that grows
        out of this one or in what goes into the file.
        """
        cells, axes = math.prod(shape), len(shape)
        of_node = max(200 + 16 * axes, 140 + 32 * axes)
        given = 0 if self.weights is None else 3 * max(weights.nbytes for weights in self.weights)
        tables = peak_bytes_of_tables(shape)
        return STARTING + 26 * cells + 100 * sum(shape) + given + tables + min(2 * cells, MOST_NODES + SPARE) * of_node

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count tables of low order, the total, look level by level, count the boxes.

        Privacy: every count goes through `counter`, which refuses what any cell cannot pay (privacy/regions.py), and
        what is asked follows from earlier answers and the shape alone. So the loss is at most the job's epsilon.
        """
        kernel = WorkloadModel(counter.shape, self._kinds(counter.shape), self.weights)
        everything, half_a_look = noise_variances(
            np.array([BUDGET_UNITS, share_units(LOOK_SHARE / 2)]), counter.epsilon_per_unit
        )
        if everything < PLAIN * half_a_look:
            return Cells().run(counter)
        tables = [] if BUDGET_UNITS * counter.epsilon_per_unit < FAINT else count_tables(counter)
        seen = _Seen(counter, kernel.cut_order(), BUDGET_UNITS - sum(table.units for table in tables))
        seen.count(np.zeros(1, np.int64), np.array([seen.share_units(TOTAL_SHARE)]))
        looks = _levels(depth(counter.shape))
        active, above = seen.tree.leaves, 0
        for level, units in zip(looks, _look_units(seen, kernel, looks), strict=True):
            fresh = seen.cut(seen.affordable(active, level - above), level - above)
            seen.count(fresh, np.full(len(fresh), units))
            active, above = _worth_a_look(seen, fresh, kernel), level
            if len(active) == 0:
                break
        seen.count(*_best_boxes(seen, kernel))
        return Transcript(counter.shape, counter.epsilon_per_unit, (*tables, seen.counts()))

    def _kinds(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        queries = self.queries or MIXED
        return (queries,) * len(shape) if isinstance(queries, str) else queries


@dataclass(slots=True)
class _Seen:
    """The tree so far, the counts of its nodes, and the units that each node's cells have left at least.

    `whole` is what the tree may spend on each cell.
    """

    counter: NoisyCounter
    order: CutOrder
    whole: int = BUDGET_UNITS
    tree: BoxTree = field(init=False)
    left: Ints = field(init=False)
    rows: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    learnt: Learnt | None = None

    def __post_init__(self) -> None:
        self.tree, self.left = BoxTree.uncut(self.counter.shape), np.full(1, self.whole, np.int64)

    def share_units(self, share: Fraction) -> int:
        """Return a share of what the tree may spend in units, rounded down."""
        return int(share * self.whole)

    def count(self, nodes: Ints, units: Ints) -> None:
        """Have nodes counted; no two of them overlap."""
        if len(nodes) == 0:
            return
        boxes = self.tree.boxes(nodes)
        self.rows.append((nodes, self.counter.count_boxes(boxes, units), units))
        self.left[nodes] -= units

    def cut(self, leaves: Ints, cuts: int) -> Ints:
        """Cut leaves into halves so many times over, and return the new leaves."""
        grown = halve(self.tree, leaves, cuts, self.order)
        left = np.full(len(grown.tree), -1, np.int64)
        left[grown.moved] = self.left
        self.tree, self.left = grown.tree, _inherit(grown.tree.parent, left)
        self.rows = [(grown.moved[nodes], counts, units) for nodes, counts, units in self.rows]
        return grown.new_leaves

    def affordable(self, leaves: Ints, cuts: int) -> Ints:
        """Return the first of the leaves, as many as may be cut so many times over."""
        nodes = np.cumsum(most_nodes(self.tree.sizes[leaves], cuts))
        return leaves[: max(int(np.searchsorted(nodes, MOST_NODES - len(self.tree), side="right")), 1)]

    def total(self) -> float:
        """Return the noisy count of the whole table, the first count of all."""
        return float(self.rows[0][1][0])

    def counts(self) -> BoxCounts:
        """Return everything counted."""
        node, counts, units = (np.concatenate(columns) for columns in zip(*self.rows, strict=True))
        return BoxCounts(self.tree, node, counts, units)

    def posterior(self) -> Posterior:
        """Return what the counts say of every node."""
        found = infer(
            self.tree, *self.counts().by_node(self.counter.epsilon_per_unit), rounds=LOOK_ROUNDS, learnt=self.learnt
        )
        self.learnt = found.learnt
        return found


def _levels(deepest: int) -> list[int]:
    """Return the levels that are looked at, the cells last.

    >>> _levels(14), _levels(12), _levels(3), _levels(0)
    ([4, 8, 14], [2, 6, 12], [3], [])
    """
    levels, cuts = [deepest], LAST_CUTS
    while levels[0] - cuts >= 2:
        levels.insert(0, levels[0] - cuts)
        cuts = CUTS
    return [level for level in levels if level > 0]


def _look_units(seen: _Seen, kernel: WorkloadModel, levels: list[int]) -> list[int]:
    """Divide the budget for looking: most for the deepest level whose boxes still stand out of the noise."""
    deviation, peak = math.sqrt(2) / float(seen.whole * seen.counter.epsilon_per_unit), 0
    for number, above in enumerate(levels[:-1], start=1):
        hard = _hardness(seen.counter.shape, above, kernel, seen.order)
        mean_count = max(seen.total(), deviation) / max(len(hard), 1)
        if len(hard) == 0 or mean_count >= CLEAR * deviation * float(np.median(hard, overwrite_input=True)):
            peak = number
    ratios = [ABOVE_PEAK ** (peak - n) if n <= peak else BELOW_PEAK ** (n - peak) for n in range(len(levels))]
    return [seen.share_units(LOOK_SHARE * Fraction(ratio) / Fraction(sum(ratios))) for ratio in ratios]


def _hardness(shape: tuple[int, ...], level: int, kernel: WorkloadModel, order: CutOrder) -> Floats:
    """Return sqrt(F/K) of every box of a level whose halves differ to a query: how hard their difference is to see."""
    hard, found = np.empty(min(2**level, math.prod(shape))), 0
    for boxes in boxes_at(shape, level, order):
        covered, differ = kernel.values(*boxes)
        cut = differ > 0
        some = np.sqrt(covered[cut] / differ[cut])
        hard[found : found + len(some)] = some
        found += len(some)
    return hard[:found]


def _worth_a_look(seen: _Seen, fresh: Ints, kernel: WorkloadModel) -> Ints:
    """Return the fresh leaves whose cuts could teach more than all their remaining budget spent on them, best first."""
    fresh = fresh[seen.tree.sizes[fresh] > 1]
    if len(fresh) == 0:
        return fresh
    posterior = seen.posterior()
    covered, differ = kernel.values(seen.tree.lower, seen.tree.upper, *seen.order.cuts_of(seen.tree))
    unknown = LEFT_TO_LEARN * (posterior.totals[fresh] ** 2 + posterior.variances[fresh])
    noise = noise_variances(seen.left[fresh], seen.counter.epsilon_per_unit)
    gain = differ[fresh] * unknown / (covered[fresh] * noise)
    best = np.argsort(-gain, kind="stable")
    return fresh[best[gain[best] > 1]]


def _best_boxes(seen: _Seen, kernel: WorkloadModel) -> tuple[Ints, Ints]:
    """Return disjoint nodes that cost a query least, and all the units that each can still pay."""
    tree = seen.tree
    left = _least_below(tree.parent, seen.left)
    covered, differ = kernel.values(tree.lower, tree.upper, *seen.order.cuts_of(tree))
    noise = (
        LEAF_NOISE * covered * noise_variances(left, seen.counter.epsilon_per_unit)
    )  # the total and looks leave over a quarter
    chosen = np.flatnonzero(_cheapest(tree.parent, tree.end, differ * seen.posterior().splits, noise))
    return chosen, left[chosen]


@compiled
def _inherit(parent: Ints, left: Ints) -> Ints:
    """Give new nodes, marked -1, what their parents have left."""
    for node in range(1, len(parent)):
        if left[node] < 0:
            left[node] = left[parent[node]]
    return left


@compiled
def _least_below(parent: Ints, left: Ints) -> Ints:
    """Return what every cell of a node has left at least."""
    least = left.copy()
    for node in range(len(parent) - 1, 0, -1):
        least[parent[node]] = min(least[parent[node]], least[node])
    return least


@compiled
def _cheapest(parent: Ints, end: Ints, unknown: Floats, noise: Floats) -> NDArray[np.bool_]:
    """Mark the nodes to stop at: a node alone costs its noise and all that is unknown below it, or else its halves do.

    Optimal pruning from the leaves up: nodes are in preorder, so going backwards meets the halves first.
    """
    nodes = len(parent)
    inside, below, cut = unknown.copy(), np.zeros(nodes), np.zeros(nodes, np.bool_)
    for node in range(nodes - 1, -1, -1):
        alone = inside[node] + noise[node]
        cut[node] = end[node] > node + 1 and below[node] < alone
        if node > 0:
            inside[parent[node]] += inside[node]
            below[parent[node]] += below[node] if cut[node] else alone
    chosen = np.zeros(nodes, np.bool_)
    node = 0
    while node < nodes:
        chosen[node] = not cut[node]
        node = node + 1 if cut[node] else end[node]
    return chosen
