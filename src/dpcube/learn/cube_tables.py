"""Tables by class of one released cube: an estimate of every cell enters."""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.errors import QueryError
from dpcube.core.memory import check_memory
from dpcube.learn.evidence import NO_ROWS, ClassTables, CountsAndSquares, WeightedCells, drawn_evenly
from dpcube.learn.features import Features
from dpcube.learn.terms import Feature, Term
from dpcube.models import Estimate
from dpcube.models.non_negative import non_negative
from dpcube.queries import Workload

BYTES_OF_CELL = 48
"""The estimate, its copy without negatives and its order, the copy by class, and sums of it."""


@dataclass(frozen=True, slots=True, eq=False)
class CubeTables(ClassTables):
    """The estimated counts of a cube whose last axis is the class, with none below zero, and whose estimate it is.

    `order` has for each feature how many of its first cells are in order, and `axes` the cube's axis of each feature
    and, last, of the class.
    """

    counts: Floats
    order: tuple[int, ...]
    estimate: Estimate
    axes: tuple[int, ...]

    @classmethod
    def of(cls, estimate: Estimate, target: int, features: Features) -> "CubeTables":
        """Return the tables of an estimate for the class on axis `target`; QueryError if it holds no rows."""
        cells = math.prod(estimate.shape)
        check_memory(BYTES_OF_CELL * cells, what=f"a cube of {cells:,} cells", remedy="use a larger machine")
        axes = (*(axis for axis in range(len(estimate.shape)) if axis != target), target)
        counts = non_negative(estimate.cells()).reshape(estimate.shape).transpose(axes)
        counts = counts[..., : features.target.bins]  # no value of the target is no class
        if not counts.sum() > 0:
            raise QueryError(NO_ROWS)
        return cls(np.ascontiguousarray(counts), features.order, estimate, axes)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.counts.shape[-1])

    def class_rows(self) -> Floats:
        """Return the rows of each class."""
        return np.asarray(self.counts.reshape(-1, self.classes).sum(axis=0))

    def cell_rows(self) -> list[Floats]:
        """Return the rows of every cell of each feature."""
        axes = range(self.counts.ndim)
        return [self.counts.sum(axis=tuple(j for j in axes if j != axis)) for axis in axes[:-1]]

    def features(self) -> list[Feature]:
        """Return each feature with the rows of its cells."""
        return [Feature(len(of), ordered, of) for of, ordered in zip(self.cell_rows(), self.order, strict=True)]

    def table(self, term: Term) -> CountsAndSquares:
        """Return a term's counts by class and the expected squares of their errors."""
        return term.sums(self.counts), self._squares(term)

    def rows(self, most: int) -> WeightedCells:
        """Return cells of the features and the weight of each class in them."""
        flat = self.counts.reshape(-1, self.classes)
        at, weights = drawn_evenly(flat.sum(axis=1), most)
        cells = np.stack(np.unravel_index(at, self.counts.shape[:-1]), axis=1).astype(np.int64)
        return cells, flat[at] * (weights / flat[at].sum(axis=1))[:, None]

    def sampled(self, most: int) -> tuple[Ints, Ints, Floats]:
        """Return cells of the features and the class."""
        at, weights = drawn_evenly(self.counts.reshape(-1), most)
        places = np.stack(np.unravel_index(at, self.counts.shape), axis=1).astype(np.int64)
        return places[:, :-1], places[:, -1], weights

    def _squares(self, term: Term) -> Floats:
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
