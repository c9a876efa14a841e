"""The posterior of a tree of noisy counts: totals of every node, and how sure they are.

Enters: a binary tree of boxes with a measured count and its noise variance for some nodes, every leaf among them.
Leaves: a total for every node, none below zero, each the sum of its halves; the variance of every split; and the
marginals of the attributes, by which a box's total is spread over its cells.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcube.estimate.estimate import DENSE_CELLS, Estimated
from dpcube.estimate.kernels import range_sums, summed_area_table
from dpcube.estimate.splits import (
    GUESSES,
    NEARNESS,
    PRIOR,
    add_marginals,
    divide,
    gather,
    learn,
    predicted_shares,
)
from dpcube.estimate.spread import fill, range_sums_of_tree, weighed_sums
from dpcube.partition import BoxTree
from dpcube.partition.halving import levels
from dpcube.query import CountingQuery, Workload

Floats = NDArray[np.float64]

ROUNDS = 3
LEAST_PSEUDO = 1e-8


@dataclass(frozen=True)
class Posterior:
    """Totals of a tree's nodes, variances of the totals and of the splits below them, marginals as prefix sums."""

    tree: BoxTree
    totals: Floats
    variances: Floats
    splits: Floats
    prefix: Floats
    start: NDArray[np.int64]
    weights: Floats

    @cached_property
    def uneven(self) -> Floats:
        """Return for each leaf what, times f (1 - f), is the variance of the count in a part f of it.

        It is the expected square of its total times the variance of a share, by the prior of the cut it never got.
        """
        tree, weights = self.tree, self.weights[np.minimum(levels(self.tree), len(self.weights) - 1)]
        unknown = (weights[:, 0] + weights[:, 1]) / 4 + weights[:, 2] / 12 + weights[:, 3] * NEARNESS**2
        return np.where(tree.is_leaf & (tree.sizes > 1), 4 * unknown * (self.totals**2 + self.variances), 0.0)


@dataclass(frozen=True)
class PosteriorEstimate:
    """An estimate of the whole cube by the posterior of its tree."""

    name: str
    posterior: Posterior

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

    def answer(self, query: CountingQuery) -> Estimated:
        """Return the estimated answer of one query and what its error is made of."""
        posterior, tree = self.posterior, self.posterior.tree
        weighed, squared = (self._weighed(query, power) for power in (1, 2))
        found = weighed_sums(
            tree.lower,
            tree.upper,
            tree.end,
            posterior.totals,
            posterior.splits,
            posterior.uneven,
            weighed,
            squared,
            posterior.prefix,
            posterior.start,
        )
        value, variance, within = found
        last = [base + extent for base, extent in zip(posterior.start.tolist(), self.shape, strict=True)]
        whole = float(np.prod(weighed[last] / posterior.prefix[last]))
        return Estimated(value, variance + posterior.variances[0] * whole**2, within)

    def _weighed(self, query: CountingQuery, power: int) -> Floats:
        """Return, for each axis one after another, prefix sums of the query's weights times the marginal."""
        posterior = self.posterior
        weighed = np.zeros_like(posterior.prefix)
        for base, weights in zip(posterior.start.tolist(), query.weights, strict=True):
            marginal = np.diff(posterior.prefix[base : base + len(weights) + 1])
            weighed[base + 1 : base + len(weights) + 1] = np.cumsum(weights**power * marginal)
        return weighed

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self._range_sums(workload)[:, 0]
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return the variances that noise leaves, and the expected squared within-box errors, of many ranges."""
        sums = self._range_sums(workload)
        return sums[:, 1], sums[:, 2]

    def _range_sums(self, workload: Workload) -> Floats:
        posterior, tree = self.posterior, self.posterior.tree
        sums = range_sums_of_tree(
            tree.lower,
            tree.upper,
            tree.end,
            posterior.totals,
            posterior.splits,
            posterior.uneven,
            posterior.prefix,
            posterior.start,
            workload.lower,
            workload.upper,
        )
        sums[:, 1] += posterior.variances[0] * self._shares(workload) ** 2
        return sums

    def _shares(self, workload: Workload) -> Floats:
        """Return the part of the whole cube in each range, by the marginals."""
        prefix, start = self.posterior.prefix, self.posterior.start
        taken = prefix[workload.upper + start] - prefix[workload.lower + start]
        shares: Floats = np.prod(taken / prefix[start + np.array(self.shape)], axis=1)
        return shares


def infer(tree: BoxTree, measured: Floats, variance: Floats, *, rounds: int = ROUNDS) -> Posterior:
    """Return the posterior; each round learns the prior's weights and the marginals from the round before."""
    start = np.cumsum([0, *(extent + 1 for extent in tree.shape[:-1])])
    level = levels(tree)
    weights = np.tile(np.array(PRIOR), (int(level.max()) + 1, 1))
    pseudo = 2 * float(np.sqrt(variance.min()))
    prefix = _prefix(np.ones(int(start[-1]) + tree.shape[-1] + 1), tree.shape, start, pseudo)
    for _ in range(rounds):
        share = predicted_shares(tree.lower, tree.upper, tree.end, prefix, start)
        mean, spread, empty = gather(tree.end, level, measured, variance, share, weights)
        likelihood = np.zeros((len(tree), GUESSES + 1))
        totals, splits, variances = divide(tree.end, level, mean, spread, empty, share, weights, likelihood)
        learn(level, likelihood, weights)
        marginals = add_marginals(tree.lower, tree.upper, tree.leaves, totals, prefix, start)
        prefix = _prefix(marginals, tree.shape, start, pseudo)
    return Posterior(tree, totals, variances, splits, prefix, start, weights)


def _prefix(marginals: Floats, shape: tuple[int, ...], start: NDArray[np.int64], pseudo: float) -> Floats:
    """Return prefix sums of each axis's marginal, with `pseudo` rows spread evenly added so that none is empty.

    They are so many of all rows at least that no sum swallows a cell's part of them.
    """
    prefix = np.zeros(len(marginals))
    for base, extent in zip(start.tolist(), shape, strict=True):
        marginal = marginals[base : base + extent]
        evenly = max(pseudo, LEAST_PSEUDO * float(marginal.sum())) / extent
        prefix[base + 1 : base + extent + 1] = np.cumsum(marginal + evenly)
    return prefix
