"""Adaptive (top-down) refinement of a tree of boxes: refinement levels, split criterion, and the final boxes.

Every decision weighs what a query of the workload model would lose (`queries/workload_model.py`): noise of variance v
on a box costs F v, a split that stays unknown with variance u costs K u.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.noise import noise_variances
from dpcube.queries.workload_model import WorkloadModel
from dpcube.strategies.partial_tree import PartialTree
from dpcube.trees.halving import CutOrder, boxes_at

# The constants below are flat optima: a quarter more or less of any moves the error by less than its own noise
# (docs/research/adaptive.md has the measurements).
ROOT_SHARE = Fraction(8, 100)
"""Share of the budget for the total, which decides which level gets most.

It is also what corrects the total of all counts together (`models/posterior/inference.py`): with half of it the error
of the bundled table's total is half as large again, and ranges on DPBench's arrays are no better.
"""
REFINEMENT_SHARE = Fraction(70, 100)
"""Share for refinement, at all levels together; the rest, and what is not spent, is for the final boxes."""
MAX_SPENT_SHARE = Fraction(1, 10)
"""Refinement gets less where more than this was spent before it: where marginals leave the tree little, the total."""
LAST_CUTS, CUTS = 6, 4
"""Cuts between the last two refinement levels, and between the levels above them."""
ABOVE_PEAK, BELOW_PEAK = 0.5, 0.7
"""Ratio of a level's budget to the next one's, on the two sides of the level that gets most."""
CLEAR = 2.0
"""How many noise deviations (times sqrt(F/K)) a level's mean count must reach for the level below to get most."""
EXPECTED_SPLITS = 0.25
"""Expected sum of K times the split variances below a box, in units of K times its squared count."""
OF_EVEN = 1 / 25
"""What part of that is expected where no box so far departs from an even table: a fifth of the deviation of a split."""
LEAF_NOISE = 0.15
"""How much of a box's noise matters: boxes around it are counted too, so only queries that cut those see all of it."""


def refinement_levels(deepest: int) -> list[int]:
    """Return the levels that are counted, the cells last.

    >>> refinement_levels(14), refinement_levels(12), refinement_levels(3), refinement_levels(0)
    ([4, 8, 14], [2, 6, 12], [3], [])
    """
    levels, cuts = [deepest], LAST_CUTS
    while levels[0] - cuts >= 2:
        levels.insert(0, levels[0] - cuts)
        cuts = CUTS
    return [level for level in levels if level > 0]


def level_shares(partial: PartialTree, model: WorkloadModel, levels: list[int]) -> list[Fraction]:
    """Divide the budget for refinement: most for the deepest level whose boxes still stand out of the noise."""
    deviation, peak = math.sqrt(2) / float(partial.whole * partial.counter.epsilon_per_unit), 0
    total = max(partial.total(), deviation)
    for number, above in enumerate(levels[:-1], start=1):
        hard = _hardness(partial.counter.shape, above, model, partial.order)
        mean_count = total / max(len(hard), 1)
        if len(hard) == 0 or mean_count >= CLEAR * deviation * float(np.median(hard, overwrite_input=True)):
            peak = number
    ratios = [ABOVE_PEAK ** (peak - n) if n <= peak else BELOW_PEAK ** (n - peak) for n in range(len(levels))]
    left = Fraction(int(partial.left.min()), partial.whole)
    share = REFINEMENT_SHARE * min(left / (1 - MAX_SPENT_SHARE), Fraction(1))
    return [share * Fraction(ratio) / Fraction(sum(ratios)) for ratio in ratios]


def _hardness(shape: tuple[int, ...], level: int, model: WorkloadModel, order: CutOrder) -> Floats:
    """Return sqrt(F/K) of every box of a level whose halves differ to a query: how hard these are to distinguish."""
    hard, found = np.empty(min(2**level, math.prod(shape))), 0
    for boxes in boxes_at(shape, level, order):
        covered, differ = model.values(*boxes)
        cut = differ > 0
        some = np.sqrt(covered[cut] / differ[cut])
        hard[found : found + len(some)] = some
        found += len(some)
    return hard[:found]


def worth_refining(partial: PartialTree, fresh: Ints, model: WorkloadModel) -> Ints:
    """Return the fresh nodes that meet the split criterion, by descending gain.

    The gain is the expected cost of the unknown splits below a node over the cost of its noise if all of its remaining
    budget were spent on it; above 1 the node is refined.
    """
    fresh = fresh[partial.tree.sizes[fresh] > 1]
    if len(fresh) == 0:
        return fresh
    posterior = partial.posterior()
    covered, differ = model.values(partial.tree.lower, partial.tree.upper, *partial.order.cuts_of(partial.tree))
    expected = EXPECTED_SPLITS * (OF_EVEN if posterior.even else 1.0)
    unknown = expected * (posterior.totals[fresh] ** 2 + posterior.variances[fresh])
    noise = noise_variances(partial.left[fresh], partial.counter.epsilon_per_unit)
    gain = differ[fresh] * unknown / (covered[fresh] * noise)
    best = np.argsort(-gain, kind="stable")
    return fresh[best[gain[best] > 1]]


def best_boxes(partial: PartialTree, model: WorkloadModel) -> tuple[Ints, Ints]:
    """Return the disjoint nodes of least expected cost to a query, and all the units that each has left.

    Regions without any units left take no part: they cost no more, and no box around one can be counted.
    """
    tree, left = partial.tree, partial.left
    covered, differ = model.values(tree.lower, tree.upper, *partial.order.cuts_of(tree))
    noise = LEAF_NOISE * covered * noise_variances(left, partial.counter.epsilon_per_unit)
    noise[partial.spent_everything()] = 0.0
    selected = np.flatnonzero(cheapest(tree.parent, tree.end, differ * partial.posterior().splits, noise))
    selected = selected[left[selected] > 0]
    return selected, left[selected]


@compiled
def cheapest(parent: Ints, end: Ints, unknown: Floats, noise: Floats) -> NDArray[np.bool_]:
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
    selected = np.zeros(nodes, np.bool_)
    node = 0
    while node < nodes:
        selected[node] = not cut[node]
        node = node + 1 if cut[node] else end[node]
    return selected
