"""A classifier over all classes: class probabilities of cells of features, with their uncertainty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.errors import QueryError
from dpcube.learn.additive import Additive, Evidence, learn_additive
from dpcube.learn.class_tables import MAX_FITTED_ROWS, ClassTables, evidence_of_class
from dpcube.learn.terms import Feature, Term, pair_terms, single_terms, weights_by
from dpcube.noise.special import logistic


@dataclass(frozen=True, slots=True, eq=False)
class ClassModel:
    """Of two classes, one additive model of the second; of more, one of each against the others; of one, none."""

    classes: int
    models: tuple[Additive, ...]

    def probabilities(self, cells: Ints) -> Floats:
        """Return the probability of each class in each row of cells, shape (rows, classes)."""
        return self._laid_out([logistic(one.log_odds(cells)) for one in self.models], len(cells))

    def interval(self, cells: Ints, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return between what each probability lies, by the noise of the release and by chance: (rows, classes) both.

        It takes the model's form for true. With more than two classes, each is modelled against the others
        (one-vs-rest).
        """
        if not 0 < confidence < 1:
            msg = f"confidence must be between 0 and 1, got {confidence!r}"
            raise QueryError(msg)
        reach = NormalDist().inv_cdf((1 + confidence) / 2)
        ends = [(one.log_odds(cells), reach * one.deviations(cells)) for one in self.models]
        low, high = ([logistic(middle + sign * width) for middle, width in ends] for sign in (-1, 1))
        if self.classes > 2:
            return np.stack(low, axis=1), np.stack(high, axis=1)
        if self.classes == 1:
            return np.ones((len(cells), 1)), np.ones((len(cells), 1))
        return np.column_stack([1 - high[0], low[0]]), np.column_stack([1 - low[0], high[0]])

    def _laid_out(self, found: Sequence[Floats], rows: int) -> Floats:
        if self.classes == 1:
            return np.ones((rows, 1))
        if self.classes == 2:
            return np.column_stack([1 - found[0], found[0]])
        together = np.stack(found, axis=1)
        return np.asarray(together / together.sum(axis=1, keepdims=True))


def model_of_tables(tables: ClassTables) -> ClassModel:
    """Return the model that a release's tables lead to."""
    cells, by_class = tables.rows(MAX_FITTED_ROWS)
    fitted, singles, pairs = (cells, by_class.sum(axis=1)), tables.singles(), tables.pairs()
    known = [tables.table(term) for term in (*singles, *pairs)]
    return _model(singles, pairs, tables.classes, lambda k: evidence_of_class(tables, known, fitted, k))


def model_of_rows(cells: Ints, target: Ints, weights: Floats, shape: Sequence[int], order: Sequence[int]) -> ClassModel:
    """Return the model that rows of cells lead to, without noise; classes are numbered from 0."""
    cells, at = np.unique(cells, axis=0, return_inverse=True)
    classes = int(target.max()) + 1
    counts = weights_by(at.reshape(-1) * classes + target, weights, len(cells) * classes).reshape(-1, classes)
    rows = counts.sum(axis=1)
    features = [
        Feature(size, ordered, weights_by(of, rows, size))
        for size, ordered, of in zip(shape, order, cells.T, strict=True)
    ]

    singles, pairs = single_terms(features), pair_terms(features)

    def evidence(number: int) -> Evidence:
        part, share = counts[:, number], []
        for term in (*singles, *pairs):
            places = term.places(cells)
            whole = weights_by(places, rows, term.size)
            share.append(weights_by(places, part, term.size) / np.where(whole > 0, whole, 1.0))
        overall = float(part.sum() / rows.sum())
        return Evidence(cells, rows, overall, tuple(share), tuple(map(np.zeros_like, share)))

    return _model(singles, pairs, classes, evidence)


def _model(
    singles: Sequence[Term], pairs: Sequence[Term], classes: int, evidence: Callable[[int], Evidence]
) -> ClassModel:
    numbers = [] if classes == 1 else [1] if classes == 2 else range(classes)
    return ClassModel(classes, tuple(learn_additive(evidence(number), singles, pairs) for number in numbers))
