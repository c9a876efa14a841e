"""DAWA (Li, Hay, Miklau, Wang, "A data- and workload-aware algorithm for range queries", PVLDB 2014).

Cells stand in a row (in several dimensions along a Hilbert curve, of which places outside of the table are passed over:
the public code has zeros there, which in five dimensions are thousands for each cell), are parted into buckets by noisy
deviations with a share of epsilon (`Intervals`, with the proof), and the counts of the buckets are
measured by a tree weighted for the workload with the rest; inside a bucket they are spread evenly.

It needs noisy deviations, and a choice of buckets proved as a whole, so it is research code.

*First stage: buckets of a row of cells, selected by noisy deviations.* Every run of 2^j cells, at any place, is a
candidate. Its cost is the sum of |x_i - mean| over its cells, plus 1/epsilon2 for the noise that its count will have. A
dynamic programme over right ends finds the cheapest way to cover the row.

**Privacy.** One row more in cell i changes the deviation of a run of n cells that holds i by 2(1 - 1/n) at most, and
that of no other run. Every partition has exactly one bucket that holds i. Let P be a partition, B its bucket around i,
of n cells, and fix the noise of all other runs. Partitions that have B too are beaten or not whatever B's noise and
whatever x_i. The others, with B' around i, are beaten if B's noise is at most the difference of the remaining noisy
costs; from x to its neighbour this threshold falls by 2(1 - 1/n) for B plus 2(1 - 1/N) for B' at most, N the number of
all cells. So Laplace noise of scale 2(2 - 1/n - 1/N)/epsilon on *every* run of n cells makes each partition at most
exp(epsilon) times as likely: the partition is epsilon-DP.

The proof needs noise on runs of one cell too, though their deviation is 0 whatever they hold: all their rivals move
together, each with noise of its own, and nothing covers that. On (1,0,1,1) and (1,1,1,1), with silent single cells, the
log-ratio of all cells being buckets is (1/2.5 + 1/2.5 + 1.5/3) epsilon = 1.3 epsilon, and it grows with the number of
cells. Raising noisy costs to a floor breaks the proof in the same way, for at the floor there is no noise either. The
public code does both, with half of the noise.

*Second stage: GreedyH, a binary tree over a row of counts, its levels weighted for a workload.* The weights that each
question gives to each count have shape (questions, counts). The weights of nodes add up to 1 along every path, so that
weighted counts with Laplace noise of scale 1/epsilon are epsilon-DP. From the leaves upwards each node shares between
its own count and its subtree, scaled by p, so that the error of the questions is least: with u the row sums of the
subtree's covariance, k their sum and E its error, the error is (E - (1-p)^2 |Q u|^2/(p^2 + k (1-p)^2))/p^2 (a rank-one
update); a hundred values of p are tried.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.models.least_squares_tree import least_squares_totals
from dpcube.queries import Workload
from dpcube.research.rivals.rival import PURE, checked
from dpcube.research.strategies.hilbert import hilbert_places
from dpcube.research.strategies.levels import BoxLevel, parted, root_level, tree_of_levels
from dpcube.trees.tree import BoxTree

SHARES_TRIED = 100


class WeightedTree(NamedTuple):
    """A tree over a row of counts and the weight of each node; a weight of 0 is not measured."""

    tree: BoxTree
    weight: Floats


def greedy_tree(questions: Floats) -> WeightedTree:
    """Return the tree of halves and its weights. Counts that every question takes alike are counted as one box."""
    levels = _levels(questions)
    leads = [np.ones(len(level.parent), np.float64) for level in levels]
    own_share = _shares(questions, levels)
    for depth in range(1, len(levels)):
        parent = levels[depth].parent
        leads[depth] = leads[depth - 1][parent] * own_share[depth - 1][parent]
    grown = tree_of_levels((questions.shape[1],), levels)
    weight = np.empty(len(grown.tree))
    for depth, nodes in enumerate(grown.nodes):
        is_leaf = grown.tree.is_leaf[nodes]
        weight[nodes] = leads[depth] * np.where(is_leaf, 1.0, 1 - own_share[depth])
    return WeightedTree(grown.tree, weight)


def _levels(questions: Floats) -> list[BoxLevel]:
    """Return the levels of halves, ending at single counts and at runs that no question divides."""
    differs = np.concatenate([[0], np.cumsum((questions[:, 1:] != questions[:, :-1]).any(axis=0))])
    levels = [root_level((questions.shape[1],))]
    while True:
        low, high = levels[-1].lower[:, 0], levels[-1].upper[:, 0]
        parts = np.where(differs[high - 1] > differs[low], 2, 1)
        below = parted(levels[-1], parts[:, None])
        if len(below.parent) == 0:
            return levels
        levels.append(below)


def _shares(questions: Floats, levels: list[BoxLevel]) -> list[Floats]:
    """Return p of every node of every level, from the leaves upwards: the part of its weight that its subtree keeps."""
    sums = np.ones(questions.shape[1])  # u: row sums of the covariance, of counts measured alone
    error = [np.zeros(len(level.parent)) for level in levels]
    shares = [np.ones(len(level.parent)) for level in levels]
    for depth in range(len(levels) - 1, -1, -1):
        low, high = levels[depth].lower[:, 0], levels[depth].upper[:, 0]
        is_leaf = np.ones(len(low), np.bool_)
        if depth + 1 < len(levels):
            is_leaf[levels[depth + 1].parent] = False
        for_leaf = np.repeat(np.where(is_leaf, 1 / (high - low), 1.0), high - low)
        sums[_inside(low, high)] *= for_leaf
        of_node = _taken(questions, sums, low, high)
        error[depth] = np.where(is_leaf, of_node, error[depth])
        if not is_leaf.all():
            inner = np.flatnonzero(~is_leaf)
            of_children = _taken(questions, sums, levels[depth + 1].lower[:, 0], levels[depth + 1].upper[:, 0])
            apart = np.zeros(len(low))
            np.add.at(apart, levels[depth + 1].parent, of_children)
            total = _segment_sums(sums, low[inner], high[inner])
            found, least = _best_share(error[depth][inner], of_node[inner], apart[inner], total, depth)
            shares[depth][inner], error[depth][inner] = found, least
            moved = (1 - found) ** 2 / (found**2 + total * (1 - found) ** 2)
            factor = (1 - moved * total) / found**2
            sums[_inside(low[inner], high[inner])] *= np.repeat(factor, (high - low)[inner])
        if depth:
            error[depth - 1] += np.bincount(levels[depth].parent, error[depth], minlength=len(error[depth - 1]))
    return shares


def _best_share(error: Floats, together: Floats, apart: Floats, total: Floats, depth: int) -> tuple[Floats, Floats]:
    """Return the p of least error of each node, and that error. Deep nodes are taken to serve their halves apart.

    The public code has this heuristic, a decay of 2^(-depth/2): a range that ends in a deep node takes a part of it.
    """
    share = np.arange(SHARES_TRIED, 0, -1) / SHARES_TRIED
    decay = 2.0 ** (-depth / 2)
    own = (1 - share) ** 2 * decay
    gained = ((together - apart) * decay + apart)[:, None] * own / (share**2 + own * total[:, None])
    errors = (error[:, None] - gained) / share**2
    best = errors.argmin(axis=1)
    return share[best], errors[np.arange(len(best)), best]


def _taken(questions: Floats, sums: Floats, low: Ints, high: Ints) -> Floats:
    """Return |Q u|^2 of each segment: the summed variance of the questions by the segment's own noise."""
    reached = np.zeros((len(questions), questions.shape[1] + 1))
    np.cumsum(questions * sums, axis=1, out=reached[:, 1:])
    taken: Floats = ((reached[:, high] - reached[:, low]) ** 2).sum(axis=0)
    return taken


def _segment_sums(values: Floats, low: Ints, high: Ints) -> Floats:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    found: Floats = sums[high] - sums[low]
    return found


def _inside(low: Ints, high: Ints) -> Ints:
    """Return the places of all cells of some segments, one segment after another."""
    length = high - low
    start = np.repeat(low - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    return start + np.arange(length.sum())


def deviations_of_runs(row: Floats) -> Floats:
    """Return the deviation of the run of 2^j cells that ends at each cell: shape (lengths, cells), infinite if none.

    >>> deviations_of_runs(np.array([0.0, 0.0, 9.0, 9.0]))
    array([[ 0.,  0.,  0.,  0.],
           [inf,  0.,  9.,  0.],
           [inf, inf, inf, 18.]])
    """
    values = np.sort(row)
    rank = np.empty(len(row), np.int64)
    rank[np.argsort(row, kind="stable")] = np.arange(len(row))
    return _deviations(row, values, rank, len(row).bit_length())


def cheapest_buckets(costs: Floats) -> Ints:
    """Return where the buckets of the cheapest cover begin, ascending; costs are laid out as `deviations_of_runs`."""
    return _cheapest(costs)


@compiled
def _deviations(row: Floats, values: Floats, rank: Ints, lengths: int) -> Floats:
    """Slide a window of each length along the row, with its counts and sums by rank in a Fenwick tree."""
    cells = len(row)
    found = np.full((lengths, cells), np.inf)
    found[0] = 0.0
    for level in range(1, lengths):
        length = 1 << level
        counts, sums, total = np.zeros(cells + 1), np.zeros(cells + 1), 0.0
        for place in range(cells):
            _add(counts, sums, rank[place], 1.0, row[place])
            total += row[place]
            if place >= length:
                _add(counts, sums, rank[place - length], -1.0, -row[place - length])
                total -= row[place - length]
            if place >= length - 1:
                mean = total / length
                at = np.searchsorted(values, mean, side="right")
                number, below = 0.0, 0.0
                while at > 0:
                    number += counts[at]
                    below += sums[at]
                    at -= at & -at
                found[level, place] = max(2 * (mean * number - below), 0.0)
    return found


@compiled
def _add(counts: Floats, sums: Floats, rank: int, number: float, value: float) -> None:
    at = rank + 1
    while at < len(counts):
        counts[at] += number
        sums[at] += value
        at += at & -at


@compiled
def _cheapest(costs: Floats) -> Ints:
    lengths, cells = costs.shape
    least, begin = np.zeros(cells + 1), np.zeros(cells + 1, np.int64)
    for place in range(cells):
        least[place + 1] = np.inf
        for level in range(lengths):
            first = place + 1 - (1 << level)
            if first >= 0 and least[first] + costs[level, place] <= least[place + 1]:
                least[place + 1], begin[place + 1] = least[first] + costs[level, place], first
    number, at = 0, cells
    while at > 0:
        at = begin[at]
        number += 1
    found = np.empty(number, np.int64)
    at = cells
    for bucket in range(number - 1, -1, -1):
        at = begin[at]
        found[bucket] = at
    return found


@dataclass(frozen=True, slots=True)
class Dawa:
    """Both stages of DAWA for a workload; `share` of epsilon goes to the first.

    Unless given, the share is 1/4, and 1/2 in one dimension, as in the public code. Every bucket costs `penalty` times
    the largest scale of the noise besides: without a floor under noisy costs, which would break the proof, the cheapest
    cover is else made of many small runs whose noise is far below zero. It depends on nothing but public numbers.
    """

    workload: Workload
    name: str = "dawa"
    share: float | None = None
    penalty: float = 2.0
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated counts."""
        exact = checked(counts, epsilon)
        share = self.share if self.share is not None else (0.5 if exact.ndim == 1 else 0.25)
        first, rest = share * epsilon, (1 - share) * epsilon
        place = row_of(exact.shape)
        row = np.empty(exact.size)
        row[place.reshape(-1)] = exact.reshape(-1)
        begin = cheapest_buckets(self.noisy_costs(row, first, rest, rng))
        totals = self._totals(row, place, begin, rest, rng)
        length = np.diff(np.append(begin, len(row)))
        return np.repeat(totals / length, length)[place]

    def noisy_costs(self, row: Floats, first: float, rest: float, rng: np.random.Generator) -> Floats:
        """Return the noisy cost of every run of 1, 2, 4 ... cells, laid out as `deviations_of_runs`: see the proof."""
        costs = deviations_of_runs(row) + 1 / rest
        length = 2.0 ** np.arange(len(costs))[:, None]
        scale = 2 * (2 - 1 / length - 1 / len(row)) / first
        noisy: Floats = costs + self.penalty * scale.max() + scale * rng.laplace(size=costs.shape)
        return noisy

    def questions_of(self, place: Ints, begin: Ints, cells: int) -> Floats:
        """Return the questions for which the tree is weighted, a row each, over the buckets."""
        return mean_weights(self.workload, place, begin, cells)

    def _totals(self, row: Floats, place: Ints, begin: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the least-squares totals of the buckets from noisy counts of a weighted tree over them."""
        tree, weight = greedy_tree(self.questions_of(place, begin, len(row)))
        sums = np.concatenate([[0.0], np.cumsum(np.add.reduceat(row, begin))])
        with np.errstate(divide="ignore"):
            scale = 1 / (weight * epsilon)
        measured = weight > 0
        noisy = sums[tree.upper[:, 0]] - sums[tree.lower[:, 0]]
        noisy[measured] += scale[measured] * rng.laplace(size=int(measured.sum()))
        found, _ = least_squares_totals(tree, np.where(measured, noisy, 0.0), 2 * scale**2)
        leaves = tree.leaves
        return np.repeat(found[leaves] / tree.sizes[leaves], tree.sizes[leaves])


def row_of(shape: tuple[int, ...]) -> Ints:
    """Return the place of every cell in the row: itself in 1-D, else its rank along the Hilbert curve.

    >>> row_of((2, 2)).tolist()
    [[0, 1], [3, 2]]
    """
    if len(shape) == 1:
        return np.arange(shape[0])
    rank = np.empty(math.prod(shape), np.int64)
    rank[np.argsort(hilbert_places(shape).reshape(-1))] = np.arange(len(rank))
    return rank.reshape(shape)


def mean_weights(workload: Workload, place: Ints, begin: Ints, cells: int) -> Floats:
    """Return the mean weight that each question gives the cells of each bucket: shape (questions, buckets)."""
    bucket = np.searchsorted(begin, place.reshape(-1), side="right") - 1
    taken = np.zeros((len(workload), len(begin)))
    _count_cells(taken, bucket, np.array(workload.shape), workload.lower, workload.upper)
    return taken / np.diff(np.append(begin, cells))


@compiled
def _count_cells(taken: Floats, bucket: Ints, shape: Ints, lower: Ints, upper: Ints) -> None:
    """Add to `taken` how many cells of each bucket each range holds; `bucket` is that of each cell, row-major."""
    axes = len(shape)
    index = np.empty(axes, np.int64)
    for query in range(len(lower)):
        index[:] = lower[query]
        while True:
            start = 0
            for axis in range(axes):
                start = start * shape[axis] + index[axis]
            for cell in range(start, start + upper[query, axes - 1] - lower[query, axes - 1]):
                taken[query, bucket[cell]] += 1.0
            axis = axes - 2
            while axis >= 0:
                index[axis] += 1
                if index[axis] < upper[query, axis]:
                    break
                index[axis] = lower[query, axis]
                axis -= 1
            if axis < 0:
                break
