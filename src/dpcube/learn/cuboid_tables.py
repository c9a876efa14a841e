"""Tables by class of a wide release: the model of its cuboids enters.

A feature that was counted with the class has its table by class measured. That of any other follows from the model and
has a modelled error, told by cuboids held out; where that is unknown, the feature is left out. Rows are drawn from the
model, the same whenever they are asked for.
"""

from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.errors import QueryError
from dpcube.learn.evidence import NO_ROWS, ClassTables, CountsAndSquares, WeightedCells
from dpcube.learn.features import Features
from dpcube.learn.terms import Feature, Term, pair_terms, single_terms
from dpcube.models.cuboids.drawing import same_rows
from dpcube.models.cuboids.estimate import CuboidsEstimate
from dpcube.models.cuboids.fitting import CountedTable
from dpcube.models.marginals.fitting import nearest_with_sums
from dpcube.queries import CountingQueries


@dataclass(frozen=True, eq=False)
class CuboidTables(ClassTables):
    """The model of a wide table, its axes of the features and, last, of the class, and how many classes there are."""

    estimate: CuboidsEstimate
    axes: tuple[int, ...]
    order: tuple[int, ...]
    bins: int

    @classmethod
    def of(cls, estimate: CuboidsEstimate, target: int, features: Features) -> "CuboidTables":
        """Return the tables of a model for the class on axis `target`; QueryError if nothing tells it."""
        if estimate.beliefs.total <= 1:
            raise QueryError(NO_ROWS)
        if not any(target in table.axes and len(table.axes) > 1 for table in estimate.cuboids):
            name = features.target.name
            msg = f"no table of this release holds '{name}' beside another attribute, so nothing in it tells "
            msg += f"'{name}'; release with --target {name}"
            raise QueryError(msg)
        axes = (*(axis for axis in range(len(estimate.shape)) if axis != target), target)
        return cls(estimate, axes, features.order, features.target.bins)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.bins

    def class_rows(self) -> Floats:
        """Return the rows of each class."""
        target = self.axes[-1]
        rows = self.estimate.beliefs.marginal((target,))[self.estimate.groups[target]] * self.estimate.shares[target]
        return rows[: self.classes]

    def cell_rows(self) -> list[Floats]:
        """Return the rows of every cell of each feature."""
        return [self._along(axis) for axis in self.axes[:-1]]

    def _along(self, axis: int) -> Floats:
        """Return the rows of every cell of a feature that are of any class: no value of the target is no class."""
        target = self.axes[-1]
        of_class = self.estimate.shares[target] * (np.arange(self.estimate.shape[target]) < self.classes)
        kept = {target: np.bincount(self.estimate.groups[target], weights=of_class).astype(np.float64)}
        return self.estimate.beliefs.marginal((axis,), kept)[self.estimate.groups[axis]] * self.estimate.shares[axis]

    def features(self) -> list[Feature]:
        """Return each feature in the groups in which its cells were counted together with others."""
        found = []
        for axis, ordered in zip(self.axes[:-1], self.order, strict=True):
            if self._by_class(axis) is not None:
                rows = self._along(axis)
                found.append(Feature(len(rows), ordered, rows))
                continue
            groups = self.estimate.groups[axis]
            rises = ordered and bool((np.diff(groups[:ordered]) >= 0).all()) and groups[0] == 0
            in_order = int(groups[ordered - 1]) + 1 if rises else 0
            rows = self.estimate.beliefs.marginal((axis,))
            found.append(Feature(len(rows), in_order, rows, groups))
        return found

    def singles(self) -> list[Term]:
        """Return the terms of one feature; those of which the model's error is unknown are left out."""
        return [term for term in single_terms(self.features()) if self._is_told(self.axes[term.axes[0]])]

    def _is_told(self, axis: int) -> bool:
        together = any({axis, self.axes[-1]} <= set(table.axes) for table in self.estimate.cuboids)
        return together or self.estimate.departure is not None

    def pairs(self) -> list[Term]:
        """Return the pairs of features that were counted with the class; of others the model knows no more."""
        counted = [set(table.axes) for table in self.estimate.cuboids if self.axes[-1] in table.axes]
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
        squares = (errors.noise_variances + errors.within_squares).reshape(counts.shape)
        # A count whose error nobody knows may be anything up to its group's rows.
        anything = np.broadcast_to(counts.sum(axis=1, keepdims=True) ** 2, counts.shape)
        return counts, np.where(np.isnan(squares), anything, squares)

    def _by_class(self, axis: int) -> CountedTable | None:
        """Return the table that counts the cells of a feature by class, if there is one."""
        wanted = tuple(sorted((axis, self.axes[-1])))
        return next((table for table in self.estimate.firsts if table.axes == wanted), None)

    def _counted(self, term: Term, table: CountedTable) -> CountsAndSquares:
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
        total = self.estimate.beliefs.total
        drawn = min(max(round(total), 1), most)
        rows = same_rows(self.estimate, drawn)[:, self.axes]
        rows = rows[rows[:, -1] < self.classes]
        if len(rows) == 0:
            raise QueryError(NO_ROWS)
        return rows[:, :-1], rows[:, -1], np.full(len(rows), total / drawn)
