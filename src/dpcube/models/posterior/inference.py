"""The posterior of a tree of noisy counts: totals of every node, and how sure they are.

Enters: a binary tree of boxes with a measured count and its noise variance for some nodes, every leaf among them.
Leaves: a total for every node, none below zero, each the sum of its halves; the variance of every split; and the
marginals of the attributes, by which a box's total is spread over its cells. What the variances leave out is measured
on the counts themselves and added to every stated error (`calibrated.py`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.errors.axis_weights import axis_starts
from dpcube.models.posterior.contradicted import moved_marginals
from dpcube.models.posterior.even import EvenTable
from dpcube.models.posterior.splits import (
    CONTRADICTED,
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
from dpcube.models.posterior.whole import Whole
from dpcube.models.tree_totals import linear_totals, pooled_counts
from dpcube.trees.tree import BoxTree

ROUNDS = 3
LEAST_PSEUDO = 1e-8
SURELY_NEAR = (1e-9, 1e-9, 1e-9, 1 - 3e-9)
"""Weights of the guesses if a table is even: all is near the prediction."""


@dataclass(frozen=True)
class Posterior:
    """What is known of a tree's totals once its noisy counts are seen; arrays of shape (nodes,) but where said."""

    tree: BoxTree
    totals: Floats
    variances: Floats
    """Variance of each node's total."""
    splits: Floats
    """Variance of the total of each node's left half, given the node's own total; 0 for a leaf."""
    prefix: Floats
    """Marginals of the attributes as prefix sums, one axis after another, each with one place more than cells."""
    start: Ints
    """Where each axis begins in `prefix`, shape (axes,)."""
    weights: Floats
    """How likely each guess of a split is a priori, by level of the tree: shape (levels, 4)."""
    pooled: Floats
    """Variance of each node's total as its own and lower counts alone tell it."""
    even: bool = False
    """Whether the table was held to be even (`even.py`): every cell has as many rows, but for chance."""

    @property
    def learnt(self) -> "Learnt":
        """What inference from more counts can start from."""
        return Learnt(self.weights, self.prefix)

    @cached_property
    def uneven(self) -> Floats:
        """For each leaf what, times f (1 - f), is the variance of the count in a part f of it; 0 for other nodes.

        The share in it has a mean f and, by the prior of the cut the leaf never got, a variance 4 u f (1 - f); and rows
        are whole: T of them fall into a part with the spread of a binomial. By the law of total variance the count has
        variance f (1 - f) times (E T^2) 4 u + (E T) (1 - 4 u). That a table is even was seen of the cuts it got and
        of no others, so the prior of those is that of any table.
        """
        tree, learnt = self.tree, np.array([PRIOR]) if self.even else self.weights
        weights = learnt[np.minimum(tree.levels, len(learnt) - 1)]
        unknown = 4 * ((weights[:, 0] + weights[:, 1]) / 4 + weights[:, 2] / 12 + weights[:, 3] * NEARNESS**2)
        squares = self.totals**2 + self.variances
        return np.where(tree.is_leaf & (tree.sizes > 1), unknown * squares + (1 - unknown) * self.totals, 0.0)

    @cached_property
    def measurement_only_splits(self) -> Floats:
        """Variance of the split below each node that the measured counts alone leave, without a prior.

        It is no larger than the node's total leaves room for.
        """
        inner = np.flatnonzero(~self.tree.is_leaf)
        left, right = self.pooled[inner + 1], self.pooled[self.tree.end[inner + 1]]
        found = np.zeros(len(self.tree))
        most = (self.totals[inner] ** 2 + self.pooled[inner]) / 4
        found[inner] = np.minimum(left * right / (left + right), most)
        return found


class Learnt(NamedTuple):
    """What a round of inference leaves for the next: weights of the guesses by level, marginals as prefix sums."""

    weights: Floats
    prefix: Floats


def infer(
    tree: BoxTree,
    measured: Floats,
    variance: Floats,
    *,
    rounds: int = ROUNDS,
    learnt: Learnt | None = None,
    whole: Whole | None = None,
    even: bool | None = False,
    evenly: bool = False,
) -> Posterior:
    """Return the posterior of a tree, given the counts of its nodes and their noise variances, shape (nodes,).

    The variance is infinite where a node was not measured. Each round learns the prior's weights and the marginals from
    the round before; the first may start from what was `learnt` of the same table with fewer counts. If `whole` is
    given, it is the total of the cube in place of what all counts together say, and sums and marginals that the counts
    contradict are corrected (`gather`, `contradicted.py`); estimates of old files, as they were released, never
    were. A table may be held to be `even`: yes, no, or None, if nothing in the counts contradicts it. With `evenly`
    no marginals are learnt, so that time goes by nodes and not by the cells of their sides.
    """
    if even is None:
        even = EvenTable.of(tree, measured, variance).is_likely
    start = axis_starts(tree.shape)
    level, pseudo = tree.levels, 2 * float(np.sqrt(variance.min()))
    if even:
        rounds, learnt = 1, _first_guess(tree, SURELY_NEAR, start, pseudo)
    weights, prefix = learnt or _first_guess(tree, PRIOR, start, pseudo)
    deeper = int(level.max()) + 1 - len(weights)
    weights = np.concatenate([weights, np.tile(weights[-1:], (deeper, 1))])
    splits_of_level = np.bincount(level[~tree.is_leaf], minlength=len(weights))
    every = splits_of_level // LEARNT_FROM + 1
    rows = int((-(-splits_of_level // every)).sum())
    contradicted = np.inf if whole is None else CONTRADICTED
    plain = pooled_counts(tree, measured, variance)
    linear = None if whole is None else linear_totals(tree, measured, variance)
    for _ in range(rounds):
        share = predicted_shares(tree.lower, tree.upper, tree.cuts.axis, prefix, start)
        mean, pooled, empty = gather(tree.end, level, measured, variance, *plain, share, weights, contradicted)
        if whole is not None:
            mean[0], pooled[0] = whole
        likelihood, told = np.zeros((rows, GUESSES + 1)), np.zeros(rows, np.int64)
        messages = (mean, pooled, empty, share, weights)
        totals, splits, variances = divide(tree.end, level, *messages, _nearness(even), every, likelihood, told)
        if even:
            break
        learn(told, likelihood, weights)
        if evenly:
            continue
        marginals = add_marginals(tree.lower, tree.upper, tree.leaves, totals, prefix, start)
        if linear is not None:
            marginals = moved_marginals(tree, marginals, linear, variance, prefix, start)
        prefix = _prefix(marginals, tree.shape, start, pseudo)
    return Posterior(tree, totals, variances, splits, prefix, start, weights, pooled, even)


def with_unseen_departures(posterior: Posterior, measured: Floats, variance: Floats) -> Posterior:
    """Return a posterior of a table held to be even whose splits err by as much as the counts leave room for."""
    apart, splits = EvenTable.of(posterior.tree, measured, variance), posterior.splits.copy()
    splits[apart.inner] += apart.unseen(splits[apart.inner])
    return replace(posterior, splits=splits)


def _nearness(even: bool) -> float:  # noqa: FBT001 (a name for a number)
    return 0.0 if even else NEARNESS


def _first_guess(tree: BoxTree, guesses: tuple[float, ...], start: Ints, pseudo: float) -> Learnt:
    weights = np.tile(np.array(guesses), (int(tree.levels.max()) + 1, 1))
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
