"""The posterior of a tree of noisy counts: totals of every node, and how sure they are.

Enters: a binary tree of boxes with a measured count and its noise variance for some nodes, every leaf among them.
Leaves: a total for every node, none below zero, each the sum of its halves; the variance of every split; and the
marginals of the attributes, by which a box's total is spread over its cells. What the variances leave out is measured
on the counts themselves (`estimate/calibration.py`) and added to every stated error.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.estimate.box_tables import worthwhile
from dpcube.estimate.calibration import linear_totals, measured_calibration
from dpcube.estimate.error_table import ErrorTable, is_halved
from dpcube.estimate.estimate import DENSE_CELLS, Errors
from dpcube.estimate.kernels import range_sums, summed_area_table
from dpcube.estimate.products import axis_weights, tree_sums
from dpcube.estimate.splits import (
    GUESSES,
    LEARNT_FROM,
    NEARNESS,
    PRIOR,
    add_marginals,
    divide,
    gather,
    learn,
    predicted_shares,
)
from dpcube.estimate.spread import fill, range_sums_of_tree
from dpcube.estimate.within import evenly_placed_ranges
from dpcube.geometry.halving import levels
from dpcube.geometry.tree import BoxTree
from dpcube.query import CountingQueries, Workload

ROUNDS = 3
LEAST_PSEUDO = 1e-8


@dataclass(frozen=True)
class Posterior:
    """Totals of a tree's nodes, variances of the totals and of the splits below them, marginals as prefix sums.

    `pooled` is the variance of a node's total as its own and lower counts alone tell it.
    """

    tree: BoxTree
    totals: Floats
    variances: Floats
    splits: Floats
    prefix: Floats
    start: Ints
    weights: Floats
    pooled: Floats

    @property
    def learnt(self) -> "Learnt":
        """What inference from more counts can start from."""
        return Learnt(self.weights, self.prefix)

    @cached_property
    def uneven(self) -> Floats:
        """Return for each leaf what, times f (1 - f), is the variance of the count in a part f of it.

        The share in it has a mean f and, by the prior of the cut the leaf never got, a variance 4 u f (1 - f); and rows
        are whole: T of them fall into a part with the spread of a binomial. By the law of total variance the count has
        variance f (1 - f) times (E T^2) 4 u + (E T) (1 - 4 u).
        """
        tree, weights = self.tree, self.weights[np.minimum(levels(self.tree), len(self.weights) - 1)]
        unknown = 4 * ((weights[:, 0] + weights[:, 1]) / 4 + weights[:, 2] / 12 + weights[:, 3] * NEARNESS**2)
        squares = self.totals**2 + self.variances
        return np.where(tree.is_leaf & (tree.sizes > 1), unknown * squares + (1 - unknown) * self.totals, 0.0)

    @cached_property
    def raw_splits(self) -> Floats:
        """Variance of the split below each node by the counts alone, no larger than its total leaves room for."""
        inner = np.flatnonzero(~self.tree.is_leaf)
        left, right = self.pooled[inner + 1], self.pooled[self.tree.end[inner + 1]]
        raw = np.zeros(len(self.tree))
        most = (self.totals[inner] ** 2 + self.pooled[inner]) / 4
        raw[inner] = np.minimum(left * right / (left + right), most)
        return raw


@dataclass(frozen=True)
class PosteriorEstimate:
    """An estimate of the whole cube by the posterior of its tree."""

    name: str
    posterior: Posterior
    measured: Floats
    variance: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.posterior.tree.shape

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        posterior, leaves = self.posterior, self.posterior.tree.leaves
        cells = np.zeros(self.shape)
        strides = np.array(cells.strides, np.int64) // cells.itemsize
        lower, upper = posterior.tree.lower[leaves], posterior.tree.upper[leaves]
        fill(cells.reshape(-1), strides, lower, upper, posterior.totals[leaves], posterior.prefix, posterior.start)
        return cells

    def answers(self, queries: CountingQueries) -> tuple[Floats, Errors]:
        """Return the estimated answers of many queries and what their errors are made of."""
        posterior, tree = self.posterior, self.posterior.tree
        ends = zip(posterior.start.tolist(), self.shape, strict=True)
        weights = axis_weights(queries, [np.diff(posterior.prefix[base : base + n + 1]) for base, n in ends])
        nodes = posterior.totals, self._splits, posterior.uneven
        values, of_splits, of_leaves = tree_sums(tree.lower, tree.upper, tree.end, *nodes, weights).T
        whole = np.prod(
            weights.sums[weights.first + self.shape, 0] / weights.measure[weights.start + self.shape], axis=1
        )
        return values, Errors(of_splits + posterior.variances[0] * whole**2, of_leaves)

    @cached_property
    def _splits(self) -> Floats:
        """Variance of the split below each node, with what the posterior's errors exceed it by."""
        posterior, tree = self.posterior, self.posterior.tree
        ranges = evenly_placed_ranges(self.shape)

        def answers(totals: Floats) -> Floats:
            return self._range_sums(ranges, posterior.splits, totals)[:, 0]

        excess = measured_calibration(
            self.measured,
            np.sqrt(np.where(np.isfinite(self.variance), self.variance, 0.0)),
            estimated=lambda counts: answers(infer(tree, counts, self.variance).totals),
            linear=lambda counts: answers(linear_totals(tree, counts, self.variance)),
            stated=self._range_sums(ranges, posterior.splits)[:, 1] + self._of_total(ranges),
            raw=self._range_sums(ranges, posterior.raw_splits)[:, 1],
        )
        return posterior.splits + excess * posterior.raw_splits

    @cached_property
    def _error_table(self) -> ErrorTable | None:
        posterior = self.posterior
        if not is_halved(posterior.tree):
            return None
        variance, of_total = self._splits + posterior.uneven, float(posterior.variances[0])
        return ErrorTable.of(posterior.tree, variance, posterior.prefix, posterior.start, of_total=of_total)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self._range_sums(workload, self.posterior.splits)[:, 0]
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> Errors:
        """Return the variances that noise leaves, and the expected squared within-box errors, of many ranges."""
        table = self._error_table if worthwhile(ErrorTable.numbers(self.shape), len(workload)) else None
        if table is not None:
            return Errors(*table.variances(workload))
        _, of_splits, of_leaves = self._range_sums(workload, self._splits).T
        return Errors(of_splits + self._of_total(workload), of_leaves)

    def _range_sums(self, workload: Workload, splits: Floats, totals: Floats | None = None) -> Floats:
        posterior, tree = self.posterior, self.posterior.tree
        return range_sums_of_tree(
            tree.lower,
            tree.upper,
            tree.end,
            posterior.totals if totals is None else totals,
            splits,
            posterior.uneven,
            posterior.prefix,
            posterior.start,
            workload.lower,
            workload.upper,
        )

    def _of_total(self, workload: Workload) -> Floats:
        """Return what the variance of the whole cube's total adds to each range, by its part of the marginals."""
        prefix, start = self.posterior.prefix, self.posterior.start
        taken = prefix[workload.upper + start] - prefix[workload.lower + start]
        of_total: Floats = (
            self.posterior.variances[0] * np.prod(taken / prefix[start + np.array(self.shape)], axis=1) ** 2
        )
        return of_total


class Learnt(NamedTuple):
    """What a round of inference leaves for the next: weights of the guesses by level, marginals as prefix sums."""

    weights: Floats
    prefix: Floats


def infer(
    tree: BoxTree, measured: Floats, variance: Floats, *, rounds: int = ROUNDS, learnt: Learnt | None = None
) -> Posterior:
    """Return the posterior; each round learns the prior's weights and the marginals from the round before.

    The first may start from what was learnt of the same table with fewer counts.
    """
    start = np.cumsum([0, *(extent + 1 for extent in tree.shape[:-1])])
    level, pseudo = levels(tree), 2 * float(np.sqrt(variance.min()))
    weights, prefix = _first_guess(tree, level, start, pseudo) if learnt is None else learnt
    deeper = int(level.max()) + 1 - len(weights)
    weights = np.concatenate([weights, np.tile(weights[-1:], (deeper, 1))])
    splits_of_level = np.bincount(level[~tree.is_leaf], minlength=len(weights))
    every = splits_of_level // LEARNT_FROM + 1
    rows = int((-(-splits_of_level // every)).sum())
    for _ in range(rounds):
        share = predicted_shares(tree.lower, tree.upper, tree.end, prefix, start)
        mean, spread, empty = gather(tree.end, level, measured, variance, share, weights)
        likelihood, told = np.zeros((rows, GUESSES + 1)), np.zeros(rows, np.int64)
        messages = (mean, spread, empty, share, weights)
        totals, splits, variances = divide(tree.end, level, *messages, every, likelihood, told)
        learn(told, likelihood, weights)
        marginals = add_marginals(tree.lower, tree.upper, tree.leaves, totals, prefix, start)
        prefix = _prefix(marginals, tree.shape, start, pseudo)
    return Posterior(tree, totals, variances, splits, prefix, start, weights, spread)


def _first_guess(tree: BoxTree, level: Ints, start: Ints, pseudo: float) -> Learnt:
    weights = np.tile(np.array(PRIOR), (int(level.max()) + 1, 1))
    return Learnt(weights, _prefix(np.ones(int(start[-1]) + tree.shape[-1] + 1), tree.shape, start, pseudo))


def _prefix(marginals: Floats, shape: tuple[int, ...], start: Ints, pseudo: float) -> Floats:
    """Return prefix sums of each axis's marginal, with `pseudo` rows spread evenly added so that none is empty.

    They are so many of all rows at least that no sum swallows a cell's part of them.
    """
    prefix = np.zeros(len(marginals))
    for base, extent in zip(start.tolist(), shape, strict=True):
        marginal = marginals[base : base + extent]
        evenly = max(pseudo, LEAST_PSEUDO * float(marginal.sum())) / extent
        prefix[base + 1 : base + extent + 1] = np.cumsum(marginal + evenly)
    return prefix
