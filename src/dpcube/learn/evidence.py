"""What a release tells of a class: an estimate of a cube enters, rows of cells with class shares and noise leave.

A model needs two things of a cube, and a release of several tables over few attributes could give them as well: rows of
features with weights, to know how features hang together; and for each term the share of each class in each group,
with the variance that noise leaves in it. The first may be drawn, the second is taken as exactly as it was released.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcube.arrays import Floats, Ints
from dpcube.errors import QueryError
from dpcube.estimate import Estimate
from dpcube.estimate.non_negative import non_negative
from dpcube.learn.additive import Evidence
from dpcube.learn.features import Features
from dpcube.learn.terms import Feature, Term, single_terms
from dpcube.memory import check_memory
from dpcube.query import Workload

MOST_FITTED_ROWS = 2**15
"""Rows of cells that a model is fitted on; of more cells, so many are drawn by their weights, evenly."""

BYTES_OF_CELL = 48
"""The estimate, its copy without negatives and its order, the copy by class, and sums of it."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassTables:
    """The estimated counts of a cube whose last axis is the class, with none below zero, and whose estimate it is.

    `order` has for each feature how many of its first cells are in order, and `axes` the cube's axis of each feature
    and, last, of the class.
    """

    counts: Floats
    order: tuple[int, ...]
    estimate: Estimate
    axes: tuple[int, ...]

    @classmethod
    def of(cls, estimate: Estimate, target: int, features: Features) -> "ClassTables":
        """Return the tables of an estimate for the class on axis `target`; QueryError if it holds no rows."""
        cells = math.prod(estimate.shape)
        check_memory(BYTES_OF_CELL * cells, what=f"a cube of {cells:,} cells", remedy="use a larger machine")
        axes = (*(axis for axis in range(len(estimate.shape)) if axis != target), target)
        counts = non_negative(estimate.cells()).reshape(estimate.shape).transpose(axes)
        counts = counts[..., : features.target.bins]  # no value of the target is no class
        if not counts.sum() > 0:
            msg = "this release has no rows by its estimate, so nothing can be learnt from it"
            raise QueryError(msg)
        return cls(np.ascontiguousarray(counts), features.order, estimate, axes)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.counts.shape[-1])

    def features(self) -> list[Feature]:
        """Return each feature with the rows of its cells."""
        last = self.counts.ndim - 1
        rows = [self.counts.sum(axis=tuple(j for j in range(last + 1) if j != axis)) for axis in range(last)]
        return [Feature(len(of), ordered, of) for of, ordered in zip(rows, self.order, strict=True)]

    def rows(self) -> tuple[Ints, Floats]:
        """Return rows of cells of the features, shape (rows, features), and their weights."""
        flat = self.counts.sum(axis=-1).reshape(-1)
        at, weights = drawn_evenly(flat, MOST_FITTED_ROWS)
        return np.stack(np.unravel_index(at, self.counts.shape[:-1]), axis=1).astype(np.int64), weights

    def evidence(self, terms: Sequence[Term], cells: Ints, weights: Floats, number: int) -> Evidence:
        """Return what is known of the class with this number against the others."""
        overall = float(self.counts[..., number].sum() / self.counts.sum())
        share, noise = [], []
        for term in terms:
            table = term.sums(self.counts)
            part = _shares(table[:, number], table.sum(axis=1), overall)
            variances = self._variances(term)
            of_class, of_others = variances[:, number], variances.sum(axis=1) - variances[:, number]
            share.append(part)
            noise.append((1 - part) ** 2 * of_class + part**2 * of_others)
        return Evidence(cells, weights, overall, tuple(share), tuple(noise))

    def stated(self) -> float:
        """Return the sum of the expected squares of errors of all counts of a feature by class."""
        return float(sum(self._variances(term).sum() for term in single_terms(self.features())))

    def _variances(self, term: Term) -> Floats:
        """Return the expected squares of the errors of a term's counts by class, shape (groups, classes).

        Groups of a term are runs of cells, so that their counts are ranges. What an estimate cannot state is left out.
        """
        first, past = term.bounds()
        shape = self.estimate.shape
        lower, upper = np.zeros((term.size, len(shape)), np.int64), np.tile(shape, (term.size, 1))
        for at, axis in enumerate(term.axes):
            lower[:, self.axes[axis]], upper[:, self.axes[axis]] = first[:, at], past[:, at]
        lower, upper = np.repeat(lower, self.classes, axis=0), np.repeat(upper, self.classes, axis=0)
        lower[:, self.axes[-1]] = np.tile(np.arange(self.classes), term.size)
        upper[:, self.axes[-1]] = lower[:, self.axes[-1]] + 1
        errors = self.estimate.range_errors(Workload(shape, lower, upper))
        squares = np.nan_to_num(errors.noise_variances) + np.nan_to_num(errors.within_squares)
        return np.asarray(squares.reshape(term.size, self.classes))


def drawn_evenly(weights: Floats, most: int) -> tuple[Ints, Floats]:
    """Return the cells with some weight, and their weights; if there are more than `most`, so many evenly drawn.

    The weights are laid end to end and a cell is taken at every step of the line: none is chosen by chance.

    >>> drawn_evenly(np.array([0.0, 3, 1, 4]), 2)
    (array([1, 3]), array([4., 4.]))
    """
    some = np.flatnonzero(weights > 0)
    if len(some) <= most:
        return some, weights[some]
    ends = np.cumsum(weights[some])
    step = float(ends[-1]) / most
    found = np.searchsorted(ends, (np.arange(most) + 0.5) * step)
    cells, times = np.unique(some[np.minimum(found, len(some) - 1)], return_counts=True)
    return np.asarray(cells, np.int64), np.asarray(times * step, np.float64)


def _shares(part: Floats, whole: Floats, otherwise: float) -> Floats:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)
