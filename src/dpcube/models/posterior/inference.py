"""Bayesian inference of the splits of a tree of noisy counts: a total for every node, and how uncertain each split is.

In goes a binary tree of boxes with a measured count and its noise variance for some nodes, every leaf among them. The
posterior has a total for every node, none below zero, each the sum of its halves; the variance of every split; and the
marginals of the attributes, by which a box's total is spread over its cells. What the variances leave out is estimated
from the counts themselves and added to every stated error (`calibration.py`).

*Marginals that the counts contradict.* The posterior draws the two halves of a box together where nothing predicts that
they differ. Along an axis on which many values differ from their neighbours (stripes, ages at multiples of five) that
goes the same way in every box, so its marginal is too even, and marginals are what the next round predicts by. Least
squares of the same counts has no such bias: its marginal adds up the noise of many boxes, but not their errors. So
marginals are moved to it where it contradicts them (`moved_marginals`).

*Even tables.* The posterior expects halves to differ, so it sees structure in the noise of a table that has none. If a
table is even (every cell has as many rows, but for chance), a half of a box of n rows that has a part s of its cells
has s n of them, with the variance s (1 - s) n of rows that fall independently. How far the two halves of each box are
off that, in deviations of noise and chance together, is the test (`EvenTable`): that of all boxes down to each level
together, and of the one that is farthest off. And departures as large as those of other tables must have been in sight.
Real tables are far from even: at epsilon 0.1 none of 190 releases of DPBench's arrays of 10^5 rows was found to be (100
of 2-D arrays, 90 of 1-D).

*Worst-case variance within leaves.* The leaves of `adaptive` are boxes in which its posterior found little left to
learn, and the same posterior says how uneven they are. Other partitions end where their rule says. What they leave
inside a box was not measured, so it is taken for the worst that independent boxes can be (`UnseenInside`): all rows of
a box at one place, anywhere in it. A part f of the box then holds all T of them or none, and the count in it has
variance f (1 - f) E T^2. What this cannot see is boxes that are uneven in the same way (rows that heap at one value of
an attribute): docs/guides/strategies.md has the coverage that was measured.

*The total of the root* (`whole_count`) is that of complete sets of counts whose selection did not depend on their own
noise. Adaptive refinement continues where counts are large, so it favours counts that noise has raised, and the pooled
total of all counts has a positive bias. The sum of boxes that partition the cube and were counted in one call is
unbiased, because its noise was drawn after the boxes were selected: the count of the whole, the pilot, every cell or
every box of a level, and last the final boxes. The mean of these sums, weighted by precision, is unbiased with a known
variance. It alone is the total of an estimate: all counts together would add little (these are among them), and with a
bias.
"""

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.measurements import BoxCounts, Transcript
from dpcube.models.errors.axis_weights import axis_starts
from dpcube.models.least_squares_tree import linear_totals, pooled_counts
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
from dpcube.noise import noise_variances
from dpcube.noise.special import chi_square_tail
from dpcube.trees.tree import BoxTree


class Whole(NamedTuple):
    """A noisy count of the whole table, and the variance of its noise."""

    total: float
    variance: float

    def pooled_with(self, other: "Whole") -> "Whole":
        """Return the mean with an independent count, weighted by precision."""
        both = self.variance + other.variance
        total = (self.total * other.variance + other.total * self.variance) / both
        return Whole(total, self.variance * other.variance / both)


def counted_apart(transcript: Transcript) -> Whole | None:
    """Return the mean, weighted by precision, of the counts of the whole that were measured by themselves."""
    if not transcript.totals:
        return None
    units = np.array([one.units for one in transcript.totals], np.int64)
    precisions = 1 / noise_variances(units, transcript.epsilon_per_unit)
    counts = np.array([int(one.counts) for one in transcript.totals], np.float64)
    return Whole(float(counts @ precisions / precisions.sum()), float(1 / precisions.sum()))


def whole_count(boxes: BoxCounts, epsilon_per_unit: Fraction, *, periods: int = 1) -> Whole | None:
    """Return the mean, weighted by precision, of what every run of counts that fills the cube adds up to.

    Of releases put together, runs fill the slab of a period; what the periods say is added up, if each says something.
    """
    tree = boxes.tree
    run = _complete_runs(tree.end[boxes.node], tree.sizes[boxes.node], boxes.node, int(tree.sizes[0]) // periods)
    taken = run >= 0
    counts = np.bincount(run[taken], boxes.counts[taken])
    precisions = 1 / np.bincount(run[taken], noise_variances(boxes.units[taken], epsilon_per_unit))
    period = np.zeros(len(counts), np.int64)
    if periods > 1:
        period[run[taken]] = tree.lower[boxes.node[taken], 0]
    of_period = np.bincount(period, precisions, minlength=periods)
    if not of_period.all():
        return None
    totals = np.bincount(period, counts * precisions, minlength=periods) / of_period
    return Whole(float(totals.sum()), float((1 / of_period).sum()))


@compiled
def _complete_runs(end: Ints, sizes: Ints, node: Ints, cells: int) -> Ints:
    """Return the number of the run that each count is of, -1 if none: boxes beside each other that fill the cube."""
    run, runs, first, covered = np.full(len(sizes), -1), 0, 0, 0
    for row in range(len(sizes)):
        if covered > 0 and (node[row] < end[row - 1] or covered + sizes[row] > cells):
            covered = 0
        if covered == 0:
            first = row
        covered += sizes[row]
        if covered == cells:
            run[first : row + 1] = runs
            runs += 1
            covered = 0
    return run


RARELY_APART = 1e-3
"""Departures that noise makes with a smaller chance move a marginal."""


def moved_marginals(
    tree: BoxTree, marginals: Floats, linear: Floats, variance: Floats, prefix: Floats, start: Ints
) -> Floats:
    """Return the marginals of all axes, laid out as `prefix`, each moved if the counts of the leaves contradict it.

    `linear` is the least-squares total of every node, `variance` the noise variance of its count: shape (nodes,). The
    bias has the variance by which the two marginals are apart more than noise explains, and each value is moved by its
    part of that and of its noise together.
    """
    leaves, moved = tree.leaves, marginals.copy()
    plain = add_marginals(tree.lower, tree.upper, leaves, linear, prefix, start)
    for axis, (base, extent) in enumerate(zip(start.tolist(), tree.shape, strict=True)):
        of_axis = slice(base, base + extent)
        noise = noise_along(tree.lower[leaves, axis], tree.upper[leaves, axis], variance[leaves], extent)
        apart = plain[of_axis] - marginals[of_axis]
        apart -= apart.mean()
        if chi_square_tail(float(np.sum(apart**2 / noise)), extent) < RARELY_APART:
            bias = max(float(np.mean(apart**2) - np.mean(noise)), 0.0)
            moved[of_axis] = np.maximum(marginals[of_axis] + bias / (bias + noise) * apart, 0.0)
    return moved


def noise_along(lower: Ints, upper: Ints, variance: Floats, extent: int) -> Floats:
    """Return the variance of each value's sum, where the count of each leaf is spread evenly from lower to upper."""
    each = variance / (upper - lower) ** 2
    steps = np.bincount(lower, each, minlength=extent + 1) - np.bincount(upper, each, minlength=extent + 1)
    found: Floats = np.maximum(np.cumsum(steps)[:-1], 1e-9)
    return found


ORDINARY = 0.1
"""Variance of the share of a half in other tables, a priori: about that of the posterior's guesses."""
RARE = 0.01
"""Departures that noise makes with a smaller chance are believed; and the evidence must be a hundred to one."""


class EvenTable(NamedTuple):
    """How far the halves of each box are off an even table: arrays of shape (boxes that were halved,)."""

    inner: Ints
    """The nodes."""
    levels: Ints
    squares: Floats
    """Squares of how far they are off, in deviations of noise and chance together."""
    expected: Floats
    """The variance that noise and chance have."""
    chance: Floats
    """The part of it that chance has."""
    ordinary: Floats
    """What variance departures of other tables would have besides, in parts of that."""

    @classmethod
    def from_measured(cls, tree: BoxTree, measured: Floats, variance: Floats) -> "EvenTable":
        """Hold the counts of a binary tree, and the variances of their noise, against an even table."""
        inner = np.flatnonzero(~tree.is_leaf)
        counts, noise = pooled_counts(tree, measured, variance)
        left, right = inner + 1, tree.end[inner + 1]
        share = tree.sizes[left] / tree.sizes[inner]
        rows = max(counts[0], 0.0) * tree.sizes[inner] / tree.sizes[0]
        off = (1 - share) * counts[left] - share * counts[right]
        chance = share * (1 - share) * rows + 1e-12
        expected = (1 - share) ** 2 * noise[left] + share**2 * noise[right] + chance
        return cls(inner, tree.levels[inner], off**2 / expected, expected, chance, ORDINARY * rows**2 / expected)

    @property
    def is_likely(self) -> bool:
        """Whether nothing contradicts an even table, and departures of other tables would have been seen."""
        if len(self.inner) == 0:
            return False
        evidence = np.log1p(self.ordinary) - self.squares * self.ordinary / (1 + self.ordinary)
        return bool(evidence.sum() / 2 > -math.log(RARE)) and not self._is_large_together and not self._is_large_alone

    @property
    def _is_large_together(self) -> bool:
        """Whether squares of noise down to some level rarely add up to so much."""
        sums, number = np.cumsum(np.bincount(self.levels, self.squares)), np.cumsum(np.bincount(self.levels))
        return any(chi_square_tail(*down_to) < RARE for down_to in zip(sums.tolist(), number.tolist(), strict=True))

    @property
    def _is_large_alone(self) -> bool:
        """Whether the largest of so many is rare.

        The difference of two Laplace noises exceeds z of its deviations with a chance of about (1 + z) exp(-2 z).
        """
        largest = math.sqrt(float(self.squares.max()))
        return 2 * largest - math.log1p(largest) > math.log(len(self.squares) / RARE)

    def unseen(self, splits: Floats) -> Floats:
        """Return the squared error that departures of each split may still make, unseen in noise.

        Departures have the variance that the squares of a level leave room for: their mean and a standard deviation of
        it, without the noise. A split that is measured to `splits`, its variance by a posterior that knows of chance
        alone, is drawn to an even one by that part of what chance has, and errs by as much of its departure.
        """
        number = np.maximum(np.bincount(self.levels), 1)
        mean = np.bincount(self.levels, self.squares) / number
        departures = np.maximum(mean - 1 + np.sqrt(2 / number), 0.0)[self.levels] * self.expected
        unseen: Floats = departures * np.minimum(splits / self.chance, 1.0) ** 2
        return unseen


ROUNDS = 3
LEAST_PSEUDO = 1e-8
SURELY_NEAR = (1e-9, 1e-9, 1e-9, 1 - 3e-9)
"""Weights of the guesses if a table is even: all is near the prediction."""


@dataclass(frozen=True)
class Posterior:
    """The posterior of a tree's totals given its noisy counts; arrays of shape (nodes,) unless stated otherwise."""

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
    """Variance of each node's total given its own and lower counts alone."""
    even: bool = False
    """Whether the table was assumed uniform (`EvenTable`): every cell has the same expected count."""

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
    contradict are corrected (`gather`, `moved_marginals`); those of the estimate `posterior` never
    were. A table may be assumed uniform (`even`): yes, no, or with None if the counts do not contradict it. With
    `evenly` no marginals are learnt, so that time goes by nodes and not by the cells of their sides.
    """
    if even is None:
        even = EvenTable.from_measured(tree, measured, variance).is_likely
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
    """Return a posterior of a table assumed uniform whose split errors are as large as the counts allow."""
    apart, splits = EvenTable.from_measured(posterior.tree, measured, variance), posterior.splits.copy()
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


@dataclass(frozen=True)
class UnseenInside(Posterior):
    """A posterior whose leaves may have all their rows in one cell."""

    @classmethod
    def from_posterior(cls, posterior: Posterior) -> "UnseenInside":
        """Return the same posterior without any knowledge of the inside of its leaves."""
        return cls(**{one.name: getattr(posterior, one.name) for one in fields(Posterior)})

    @cached_property
    def uneven(self) -> Floats:
        """Return for each leaf what, times f (1 - f), is the variance of the count in a part f of it: E T^2."""
        tree = self.tree
        return np.where(tree.is_leaf & (tree.sizes > 1), self.totals**2 + self.variances, 0.0)
