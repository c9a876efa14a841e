"""Class-conditional marginals of a release, with error variances, for fitting classifiers.

A model needs two things of a release: weighted rows of features, for their joint distribution; and for each term the
count of each class in each group, with the expected square of its error. The first may be drawn, the second is taken
as exactly as it was released. `ClassTables` says so. `CellTables` are those of an estimate of every cell.
`ModelTables` are those of a model of noisy marginals: a feature that was measured with the class has its table by class
measured. That of any other follows from the model and has a modelled error, estimated from marginals held out; where
that is unknown, the feature is left out. Rows are drawn from the model, the same each time.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.errors import QueryError
from dpcube.core.memory import check_memory
from dpcube.learn.additive import Evidence
from dpcube.learn.features import Features
from dpcube.learn.terms import Feature, Term, pair_terms, single_terms
from dpcube.models import Estimate
from dpcube.models.cell_sums import non_negative
from dpcube.models.marginals.fitting import nearest_with_sums
from dpcube.models.protocol import MarginalModel
from dpcube.models.sampling import same_rows
from dpcube.queries import CountingQueries, Workload

if TYPE_CHECKING:
    from dpcube.models.cuboids.fitting import CountedTable

MAX_FITTED_ROWS = 2**15
"""Rows of cells that a model is fitted on; of more, so many are drawn by their weights, evenly."""
BYTES_OF_CELL = 48
"""The estimate, its copy without negatives and its order, the copy by class, and sums of it."""
NO_ROWS = "this release has no rows by its estimate, so nothing can be learnt from it"

CountsAndSquares = tuple[Floats, Floats]
WeightedCells = tuple[Ints, Floats]


def class_tables(estimate: Estimate, target: int, features: Features) -> "ClassTables":
    """Return the tables of an estimate for the class on axis `target`; QueryError if nothing can be learnt."""
    model = estimate.marginal_model
    if model is None:
        return CellTables.from_estimate(estimate, target, features)
    return ModelTables.from_model(estimate, model, target, features)


class ClassTables(ABC):
    """What a kind of release answers of a class: features are numbered as in `Features`, classes from 0."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """Number of classes."""

    @abstractmethod
    def class_rows(self) -> Floats:
        """Return the rows of each class."""

    @abstractmethod
    def cell_rows(self) -> list[Floats]:
        """Return the rows of every cell of each feature."""

    @abstractmethod
    def features(self) -> list[Feature]:
        """Return each feature, as finely as its cells were counted by class."""

    @abstractmethod
    def table(self, term: Term) -> CountsAndSquares:
        """Return a term's counts by class, shape (groups, classes), and the expected squares of their errors."""

    @abstractmethod
    def rows(self, most: int) -> WeightedCells:
        """Return at most so many rows of cells, shape (rows, features), and the weight of each class in each."""

    @abstractmethod
    def sampled(self, most: int) -> tuple[Ints, Ints, Floats]:
        """Return at most so many rows of cells, shape (rows, features), the class of each, and their weights."""

    def singles(self) -> list[Term]:
        """Return the terms of one feature."""
        return single_terms(self.features())

    def pairs(self) -> list[Term]:
        """Return the terms of two features whose counts by class say more than those of each feature do."""
        return pair_terms(self.features())

    def stated(self) -> float:
        """Return the sum of the expected squares of errors of all counts of a feature by class."""
        return float(sum(self.table(term)[1].sum() for term in self.singles()))


@dataclass(frozen=True, slots=True, eq=False)
class CellTables(ClassTables):
    """The estimated counts of a cube whose last axis is the class, with none below zero, and whose estimate it is.

    `order` has for each feature how many of its first cells are in order, and `axes` the cube's axis of each feature
    and, last, of the class.
    """

    counts: Floats
    order: tuple[int, ...]
    estimate: Estimate
    axes: tuple[int, ...]

    @classmethod
    def from_estimate(cls, estimate: Estimate, target: int, features: Features) -> "CellTables":
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
        errors = self.estimate.errors(Workload(shape, lower, upper))
        squares = np.nan_to_num(errors.noise_variances) + np.nan_to_num(errors.nonuniformity_squares)
        return np.asarray(squares.reshape(term.size, self.classes))


@dataclass(frozen=True, eq=False)
class ModelTables(ClassTables):
    """The model of a wide table, its axes of the features and, last, of the class, and how many classes there are."""

    estimate: Estimate
    model: MarginalModel
    axes: tuple[int, ...]
    order: tuple[int, ...]
    bins: int

    @classmethod
    def from_model(cls, estimate: Estimate, model: MarginalModel, target: int, features: Features) -> "ModelTables":
        """Return the tables of a model for the class on axis `target`; QueryError if nothing tells it."""
        if model.beliefs.total <= 1:
            raise QueryError(NO_ROWS)
        if not any(target in table.axes and len(table.axes) > 1 for table in model.cuboids):
            name = features.target.name
            msg = f"no table of this release holds '{name}' beside another attribute, so nothing in it tells "
            msg += f"'{name}'; release with --target {name}"
            raise QueryError(msg)
        axes = (*(axis for axis in range(len(estimate.shape)) if axis != target), target)
        return cls(estimate, model, axes, features.order, features.target.bins)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.bins

    def class_rows(self) -> Floats:
        """Return the rows of each class."""
        target = self.axes[-1]
        rows = self.model.beliefs.marginal((target,))[self.model.groups[target]] * self.model.shares[target]
        return rows[: self.classes]

    def cell_rows(self) -> list[Floats]:
        """Return the rows of every cell of each feature."""
        return [self._along(axis) for axis in self.axes[:-1]]

    def _along(self, axis: int) -> Floats:
        """Return the rows of every cell of a feature that are of any class: no value of the target is no class."""
        target = self.axes[-1]
        of_class = self.model.shares[target] * (np.arange(self.estimate.shape[target]) < self.classes)
        kept = {target: np.bincount(self.model.groups[target], weights=of_class).astype(np.float64)}
        return self.model.beliefs.marginal((axis,), kept)[self.model.groups[axis]] * self.model.shares[axis]

    def features(self) -> list[Feature]:
        """Return each feature in the groups in which its cells were counted together with others."""
        found = []
        for axis, ordered in zip(self.axes[:-1], self.order, strict=True):
            if self._by_class(axis) is not None:
                rows = self._along(axis)
                found.append(Feature(len(rows), ordered, rows))
                continue
            groups = self.model.groups[axis]
            rises = ordered and bool((np.diff(groups[:ordered]) >= 0).all()) and groups[0] == 0
            in_order = int(groups[ordered - 1]) + 1 if rises else 0
            rows = self.model.beliefs.marginal((axis,))
            found.append(Feature(len(rows), in_order, rows, groups))
        return found

    def singles(self) -> list[Term]:
        """Return the terms of one feature; those of which the model's error is unknown are left out."""
        return [term for term in single_terms(self.features()) if self._is_told(self.axes[term.axes[0]])]

    def _is_told(self, axis: int) -> bool:
        together = any({axis, self.axes[-1]} <= set(table.axes) for table in self.model.cuboids)
        return together or self.model.departure is not None

    def pairs(self) -> list[Term]:
        """Return the pairs of features that were counted with the class; of others the model knows no more."""
        counted = [set(table.axes) for table in self.model.cuboids if self.axes[-1] in table.axes]
        return [
            term
            for term in pair_terms(self.features())
            if any({self.axes[axis] for axis in term.axes} <= table for table in counted)
        ]

    def table(self, term: Term) -> CountsAndSquares:
        """Return a term's counts by class and the expected squares of their errors, modelled or measured."""
        if len(term.axes) == 1 and (counted := self._by_class(self.axes[term.axes[0]])) is not None:
            return self._counted(term, counted)
        weights = [np.ones((1, side)) for side in self.estimate.shape]
        chosen = np.zeros((*term.shape, self.classes, len(weights)), np.int64)
        numbers = np.indices((*term.shape, self.classes))
        for at, axis in enumerate(term.axes):
            weights[self.axes[axis]] = np.eye(term.shape[at])[:, term.groups[at]]
            chosen[..., self.axes[axis]] = numbers[at]
        weights[self.axes[-1]] = np.eye(self.classes, self.estimate.shape[self.axes[-1]])
        chosen[..., self.axes[-1]] = numbers[-1]
        asked = CountingQueries(tuple(weights), chosen.reshape(-1, len(weights)))
        values, errors = self.estimate.answers(asked)
        counts = np.maximum(values, 0).reshape(term.size, self.classes)
        squares = (errors.noise_variances + errors.nonuniformity_squares).reshape(counts.shape)
        # A count whose error nobody knows may be anything up to its group's rows.
        anything = np.broadcast_to(counts.sum(axis=1, keepdims=True) ** 2, counts.shape)
        return counts, np.where(np.isnan(squares), anything, squares)

    def _by_class(self, axis: int) -> "CountedTable | None":
        """Return the table that counts the cells of a feature by class, if there is one."""
        wanted = tuple(sorted((axis, self.axes[-1])))
        return next((table for table in self.model.firsts if table.axes == wanted), None)

    def _counted(self, term: Term, table: "CountedTable") -> CountsAndSquares:
        """Return what a table counts of a term, none below zero, and the variance of the noise in it.

        The model knows the rows of a group better than its few noisy counts do: what these have more or less is taken
        from or given to all classes alike.
        """
        cells = (table.counts if table.axes[-1] == self.axes[-1] else table.counts.T)[:, : self.classes]
        counts, rows = np.zeros((term.size, self.classes)), np.zeros(term.size)
        np.add.at(counts, term.groups[0], cells)
        np.add.at(rows, term.groups[0], self._along(self.axes[term.axes[0]]))
        noise = table.variance * np.bincount(term.groups[0], minlength=term.size)
        return nearest_with_sums(counts, rows), np.repeat(noise[:, None], self.classes, axis=1)

    def rows(self, most: int) -> WeightedCells:
        """Return rows drawn from the model, each of one class."""
        cells, target, weights = self.sampled(most)
        return cells, np.eye(self.classes)[target] * weights[:, None]

    def sampled(self, most: int) -> tuple[Ints, Ints, Floats]:
        """Return rows drawn from the model, as many as it has unless these are too many; no class is no row."""
        total = self.model.beliefs.total
        drawn = min(max(round(total), 1), most)
        rows = same_rows(self.estimate, drawn)[:, self.axes]
        rows = rows[rows[:, -1] < self.classes]
        if len(rows) == 0:
            raise QueryError(NO_ROWS)
        return rows[:, :-1], rows[:, -1], np.full(len(rows), total / drawn)


def evidence_of_class(
    tables: ClassTables, known: Sequence[CountsAndSquares], fitted: WeightedCells, number: int
) -> Evidence:
    """Return what is known of the class with this number against the others: of terms by what `table` told of them.

    A group of which a part p is of the class is off by (1 - p) times the error of its count, less p times the others'.
    """
    of_classes = tables.class_rows()
    overall, share, noise = float(of_classes[number] / of_classes.sum()), [], []
    for counts, squares in known:
        whole = counts.sum(axis=1)
        part = np.where(whole > 0, counts[:, number] / np.where(whole > 0, whole, 1.0), overall)
        of_class, of_others = squares[:, number], squares.sum(axis=1) - squares[:, number]
        share.append(part)
        noise.append((1 - part) ** 2 * of_class + part**2 * of_others)
    return Evidence(*fitted, overall, tuple(share), tuple(noise))


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
