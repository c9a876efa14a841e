"""Additive logistic regression on noisy marginals, with errors in the targets and empirical Bayes shrinkage.

Given are rows of cells with weights, the share of a class in each group of each term, and the variance that noise
leaves there; the result is a coefficient for each group, and their covariance.

The log-odds of the class are a constant and one number for each term: b0 + sum_T b_T[group]. If the counts were exact,
the b that are likeliest solve, for each group j, target_j = sum of w p over its rows; the target is the number of rows
of the class there. Let H be the matrix of second derivatives and V the variance that noise leaves in each target. Then
b is off by H^-1 (sampling + noise), a variance of H^-1 (H + V) H^-1, not H^-1. So what tables tell of b has the
precision M = W H with W = H (H + V)^-1, and what differs from the target counts W times. This matters most where
features tell nearly the same: how they differ is known by few rows, and noise divided by these would drown all.

The numbers of a term are taken to be drawn from a normal law whose precision is L = l_T K_T: K is the identity, or for
groups in order the squares of differences between neighbours. Each l_T is learnt (empirical Bayes: MacKay's fixed
point, l = (numbers that were learnt) / b'Kb), so a term that noise drowns shrinks, and nobody tunes anything. This
is post-processing of a release.

What is learnt solves W (target - sums of w p) = L b, and its covariance around b is (M + L)^-1. With (H + V) held as it
was at the start of a climb that is where the squares Q = r' (H + V)^-1 r + b' L b are least, r = target - sums of w p.
So each of Fisher's steps, (M + L)^-1 (W r - L b), is halved until Q is less: where a group is nearly of one class a
whole one goes too far, to where H is 0 and r counts for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.learn.terms import Term, weights_by
from dpcube.noise.special import logistic

SPREAD_ALONE, SPREAD_IN_PAIRS, SURE = 1.0, 0.3, 2.0
"""How far the numbers of a term are thought to spread before anything is known: as SURE numbers of this size would say.

Without it a term that noise hides would shrink to nothing.
"""
WIDEST = 3.0
"""The widest spread of a term's numbers: a group all of one class would move its number and the spread without end."""
OWN_SCALE = 1e-3
"""Beside differences of neighbours, the part of a walk's precision that holds its numbers near 0."""
ROUNDS, STEPS, SETTLED = 12, 25, 0.02
HALVINGS = 10
NEAR, MAX_STEP = 1e-3, 2.0
"""A step no longer than the first ends a climb; the second is the longest that is gone: H may change beyond it."""
MAX_PARAMETERS = 640
LEARNT = 0.05
"""A term of which fewer numbers than this were learnt says nothing, and is left out."""


class Factor(NamedTuple):
    """A positive definite matrix A by the inverse of its Cholesky factor L, where A = L L'."""

    inverse: Floats

    @classmethod
    def from_matrix(cls, matrix: Floats) -> "Factor":
        """Factorise a matrix; LinAlgError if it is not positive definite."""
        return cls(np.linalg.inv(np.linalg.cholesky(matrix)))

    def solve(self, right: Floats) -> Floats:
        """Return the x of A x = right, of one column or several."""
        return np.asarray(self.inverse.T @ (self.inverse @ right))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is known of one class: rows of cells with weights, and for each group of a term its share and noise.

    `share` is the part of a group's rows that are of the class, `noise` the variance of their number around it.
    """

    cells: Ints
    weights: Floats
    overall: float
    share: tuple[Floats, ...]
    noise: tuple[Floats, ...]

    def subset(self, chosen: Sequence[int]) -> "Evidence":
        """Return the same of some terms only."""
        share, noise = (tuple(of_terms[k] for k in chosen) for of_terms in (self.share, self.noise))
        return Evidence(self.cells, self.weights, self.overall, share, noise)


@dataclass(frozen=True, slots=True, eq=False)
class Additive:
    """A model of the log-odds of one class: a constant, then a number for each group of each term; all covariances."""

    terms: tuple[Term, ...]
    numbers: Floats
    covariance: Floats

    def places(self, cells: Ints) -> Ints:
        """Return which of the numbers belong to each row of cells, shape (rows, 1 + terms); -1 for none."""
        return _places(self.terms, cells)

    def log_odds(self, cells: Ints) -> Floats:
        """Return the log-odds of the class in each row; a value without a cell counts as an average one."""
        # The last number, 0, is that of no group: the place -1.
        return np.asarray(np.append(self.numbers, 0.0)[self.places(cells)].sum(axis=1))

    def deviations(self, cells: Ints) -> Floats:
        """Return the standard deviation of the log-odds in each row."""
        padded = np.pad(self.covariance, (0, 1))
        variances = [padded[at[:, :, None], at[:, None, :]].sum((1, 2)) for at in _batches(self.places(cells))]
        return np.asarray(np.sqrt(np.maximum(np.concatenate([*variances, np.zeros(0)]), 0.0)))


def learn_additive(evidence: Evidence, singles: Sequence[Term], pairs: Sequence[Term]) -> Additive:
    """Return the model of one class; its evidence is of the single terms, then of the pairs.

    Pairs join where they differ from what single terms expect by more than chance and noise would have it.
    """
    alone = list(range(len(singles)))
    terms = [*singles, *pairs]
    first = _fit(evidence.subset(alone), singles)
    chosen = alone + _worth_joining(first.model, evidence, terms, len(singles))
    if len(chosen) > len(alone):
        first = _fit(evidence.subset(chosen), [terms[k] for k in chosen])
    kept = [k for k, learnt in zip(chosen, first.learnt, strict=True) if learnt > LEARNT]
    model = first.model if len(kept) == len(chosen) else _fit(evidence.subset(kept), [terms[k] for k in kept]).model
    return _centred(model, evidence)


def _worth_joining(model: Additive, evidence: Evidence, terms: Sequence[Term], singles: int) -> list[int]:
    """Return the pairs that differ most from a model, as many as there is room for."""
    expected = evidence.weights * logistic(model.log_odds(evidence.cells))
    found: dict[int, float] = {}
    for k in range(singles, len(terms)):
        at, size = terms[k].places(evidence.cells), terms[k].size
        rows = weights_by(at, evidence.weights, size)
        apart = evidence.share[k] * rows - weights_by(at, expected, size)
        chance = weights_by(at, expected * (1 - expected / np.maximum(evidence.weights, 1e-300)), size)
        found[k] = float((apart**2 / (chance + evidence.noise[k] + 1e-9) - 1)[rows > 0].sum())
    chosen, room = [], MAX_PARAMETERS - len(model.numbers)
    for k in sorted(found, key=lambda k: -found[k]):
        if found[k] > 0 and terms[k].size <= room:
            chosen.append(k)
            room -= terms[k].size
    return sorted(chosen)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    model: Additive
    learnt: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Prior:
    """What is thought of the numbers beforehand: of each term where they stand, K, and how far they may spread."""

    blocks: tuple[slice, ...]
    walks: tuple[Floats, ...]
    spreads: tuple[float, ...]

    @classmethod
    def from_terms(cls, terms: Sequence[Term]) -> "_Prior":
        starts = np.cumsum([1, *(term.size for term in terms)]).tolist()
        spreads = (SPREAD_ALONE if len(term.axes) == 1 else SPREAD_IN_PAIRS for term in terms)
        return cls(tuple(starmap(slice, pairwise(starts))), tuple(map(_precision, terms)), tuple(spreads))

    def precision(self, scales: Floats, size: int) -> Floats:
        """Return L, the precision of what is thought beforehand."""
        made = np.zeros((size, size))
        made[0, 0] = 1e-6
        for block, walk, scale in zip(self.blocks, self.walks, scales.tolist(), strict=True):
            made[block, block] = scale * walk
        return made

    def learnt(self, inverse: Floats, precision: Floats) -> Floats:
        """Return how many numbers of each term the evidence tells: the trace of its part of (M + L)^-1 M."""
        told = [np.size(inverse[b, 0]) - float((inverse[b, b] * precision[b, b]).sum()) for b in self.blocks]
        return np.asarray(np.maximum(told, 1e-6))


def _fit(evidence: Evidence, terms: Sequence[Term]) -> _Fitted:
    """Return the model of these terms, and of how many numbers of each the evidence tells anything."""
    at, prior = _places(terms, evidence.cells), _Prior.from_terms(terms)
    starts = np.cumsum([0, 1, *(term.size for term in terms)])
    rows = _sums(at, evidence.weights, starts[-1])
    overall = min(max(evidence.overall, 1e-6), 1 - 1e-6)
    target = rows * np.concatenate([[overall], *evidence.share])
    noise, size = np.concatenate([[0.0], *evidence.noise]), int(starts[-1])
    numbers, scales = np.zeros(size), 1 / np.square(prior.spreads)
    numbers[0] = np.log(overall / (1 - overall))
    data = _Data(at, starts, evidence.weights, target, noise)
    for _ in range(ROUNDS):
        numbers, told = _climbed(numbers, data, prior.precision(scales, size))
        before, scales = scales, _scales(told, numbers, prior, scales)
        if np.abs(np.log(scales / before)).max(initial=0) < SETTLED:
            break
    precision = prior.precision(scales, size)
    inverse = _inverse(told.precision + precision)
    return _Fitted(Additive(tuple(terms), numbers, inverse), prior.learnt(inverse, precision))


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    """Rows with weights and where their numbers stand, and of each number its target and the noise in it."""

    at: Ints
    starts: Ints
    weights: Floats
    target: Floats
    noise: Floats

    def apart(self, numbers: Floats) -> Floats:
        """Return r: the targets less what some numbers expect."""
        chance = logistic(numbers[self.at].sum(axis=1))
        return np.asarray(self.target - _sums(self.at, self.weights * chance, len(numbers)))

    def curved(self, numbers: Floats) -> Floats:
        """Return H."""
        chance = logistic(numbers[self.at].sum(axis=1))
        return _products(self.at, self.weights * chance * (1 - chance), self.starts)

    def spread(self, curved: Floats) -> Factor:
        """Return H + V, as its factor."""
        # The least that is added keeps it regular: numbers of one term may stand for those of another.
        least = 1e-9 * max(float(curved.diagonal().max()), 1.0)
        return Factor.from_matrix(curved + np.diag(self.noise + least))


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """What the evidence tells at some numbers: its precision M, and the slope, noise taken into account: W r."""

    precision: Floats
    slope: Floats

    @classmethod
    def from_curvature(cls, curved: Floats, apart: Floats, spread: Factor) -> "_Told":
        weighed = spread.solve(curved).T
        precision = weighed @ curved
        return cls((precision + precision.T) / 2, weighed @ apart)


def _climbed(numbers: Floats, data: _Data, prior: Floats) -> tuple[Floats, _Told]:
    """Go to the numbers at which evidence and prior are in balance; return them, and what is told there."""
    curved, apart = data.curved(numbers), data.apart(numbers)
    spread = data.spread(curved)

    def squares(apart: Floats, numbers: Floats) -> float:
        return float(apart @ spread.solve(apart) + numbers @ prior @ numbers)

    least = squares(apart, numbers)
    for _ in range(STEPS):
        told = _Told.from_curvature(curved, apart, spread)
        regular = told.precision + prior + 1e-9 * np.eye(len(numbers))
        step = Factor.from_matrix(regular).solve(told.slope - prior @ numbers)
        longest = float(np.abs(step).max())
        for part in min(1.0, MAX_STEP / max(longest, 1e-300)) * 0.5 ** np.arange(HALVINGS):
            reached = numbers + part * step
            apart = data.apart(reached)
            found = squares(apart, reached)
            if found <= least:
                break
        numbers, least, curved = reached, found, data.curved(reached)
        if longest < NEAR:
            break
    return numbers, _Told.from_curvature(curved, apart, data.spread(curved))


def _scales(told: _Told, numbers: Floats, prior: _Prior, scales: Floats) -> Floats:
    """Return the precision l of each term by MacKay's fixed point, on the parabola that was told at some numbers."""
    towards = told.slope + told.precision @ numbers
    for _ in range(STEPS):
        precision = prior.precision(scales, len(numbers))
        inverse = _inverse(told.precision + precision)
        best, learnt = inverse @ towards, prior.learnt(inverse, precision)
        blocks = zip(prior.blocks, prior.walks, prior.spreads, strict=True)
        squares = [float(best[b] @ walk @ best[b]) + SURE * spread**2 for b, walk, spread in blocks]
        before, scales = scales, np.maximum((learnt + SURE) / np.array(squares), WIDEST**-2)
        if np.abs(np.log(scales / before)).max(initial=0) < SETTLED:
            break
    return scales


def _inverse(matrix: Floats) -> Floats:
    inverse = Factor.from_matrix(matrix + 1e-9 * np.eye(len(matrix))).inverse
    return np.asarray(inverse.T @ inverse)


def _precision(term: Term) -> Floats:
    """Return K of a term: squares of differences between neighbours in order, and of the numbers by themselves."""
    if len(term.axes) > 1 or term.in_order < 3:
        return np.eye(term.size)
    # A walk of n steps of variance v spreads with n v / 6 around its mean.
    apart = np.diff(np.eye(term.size)[: term.in_order], axis=0) * np.sqrt(term.in_order / 6)
    own = np.where(np.arange(term.size) < term.in_order, OWN_SCALE, 1.0)
    return np.asarray(apart.T @ apart + np.diag(own))


def _centred(model: Additive, evidence: Evidence) -> Additive:
    """Return the same model with terms whose mean over all rows is 0, so that 0 is an average value's."""
    moved, first = np.eye(len(model.numbers)), 1
    total = max(float(evidence.weights.sum()), 1e-300)
    for term in model.terms:
        block = slice(first, first + term.size)
        mean = weights_by(term.places(evidence.cells), evidence.weights, term.size) / total
        moved[block, block] -= mean
        moved[0, block] += mean
        first += term.size
    return Additive(model.terms, moved @ model.numbers, moved @ model.covariance @ moved.T)


def _places(terms: Sequence[Term], cells: Ints) -> Ints:
    places, first = [np.zeros(len(cells), np.int64)], 1
    for term in terms:
        found = term.places(cells)
        places.append(np.where(found < 0, -1, found + first))
        first += term.size
    return np.stack(places, axis=1)


def _sums(at: Ints, weights: Floats, size: int) -> Floats:
    """Return X'w for the matrix X that has ones at these places."""
    return sum((weights_by(column, weights, size) for column in at.T), np.zeros(size))


def _products(at: Ints, weights: Floats, starts: Ints) -> Floats:
    """Return X'diag(w)X for the matrix X that has ones at these places, a column of them in each block."""
    made, sizes = np.zeros((starts[-1], starts[-1])), np.diff(starts)
    local = at - starts[:-1]
    for one, (first, size) in enumerate(zip(starts[:-1].tolist(), sizes.tolist(), strict=True)):
        for other in range(one + 1):
            begin, width = int(starts[other]), int(sizes[other])
            block = weights_by(local[:, one] * width + local[:, other], weights, size * width).reshape(size, width)
            made[first : first + size, begin : begin + width] = block
            made[begin : begin + width, first : first + size] = block.T
    return made


def _batches(places: Ints) -> list[Ints]:
    """Cut rows into batches whose covariances fit in little memory."""
    rows = max(2**22 // places.shape[1] ** 2, 1)
    return [places[first : first + rows] for first in range(0, len(places), rows)]
