"""A classifier over all classes: class probabilities of cells of features, with their uncertainty, origin and quality.

Quality is estimated from the release alone, without held-out rows, in two ways. *By the release's cells*: the model's
predictions against the estimated counts, from which it also learnt; so it flatters, the more so the more noise there
is. *By the model itself*: what it would score if its own probabilities were the truth, with the standard error that its
numbers leave in it; so it is right if the model's form is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class Origin:
    """The release that a model was learnt from, and whether that release is private.

    A model of a private release costs no more than the release did: it is made from nothing else.
    """

    private: bool
    release: str | None = None
    epsilon: str | None = None
    protects: str | None = None

    @property
    def words(self) -> str:
        """The same for people to read."""
        if self.release is None:
            return "NOT PRIVATE: learnt from rows, not from a release"
        of = f"release {self.release[:16]} (epsilon {self.epsilon}, protects {self.protects})"
        return f"learnt from {of}" if self.private else f"NOT PRIVATE: learnt from {of}, which is not"


NO_RELEASE = Origin(private=False)


MAX_SCORED_CELLS = 2**17
SAID = "estimated from the release alone, by its cells, from which the model also learnt; not measured on other rows"


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares of rows: of the largest class, and told rightly by the released cells and by the model's own word.

    `auc` is the chance that of two rows of different classes the one of the second class is ranked higher, by the
    released cells; None where there are more than two classes.
    """

    majority: float
    accuracy: float
    auc: float | None
    log_loss: float
    expected_accuracy: float
    expected_accuracy_stderr: float

    def as_dict(self) -> dict[str, float | str | None]:
        """Return the numbers by name, and what they are."""
        return {**asdict(self), "said": SAID}


def quality(model: ClassModel, tables: ClassTables) -> Quality:
    """Return what a release can tell of a model that was learnt from it."""
    cells, counts = tables.rows(MAX_SCORED_CELLS)
    weights = counts.sum(axis=1)
    chances, total = model.probabilities(cells), float(weights.sum())
    chosen = chances.argmax(axis=1)
    expected, stderr = _own_word(model, cells, chances, weights / total)
    return Quality(
        majority=float(counts.sum(axis=0).max() / total),
        accuracy=float(counts[np.arange(len(chosen)), chosen].sum() / total),
        auc=_auc(chances[:, 1], counts) if tables.classes == 2 else None,
        log_loss=float(-(counts * np.log(np.clip(chances, 1e-12, 1))).sum() / total),
        expected_accuracy=expected,
        expected_accuracy_stderr=stderr,
    )


def _own_word(model: ClassModel, cells: Ints, chances: Floats, weights: Floats) -> tuple[float, float]:
    """Return the accuracy that the model has by its own word, and its standard error; NaN with more than one model.

    A number that is off by a little moves the accuracy by its slope there, so the error is that of the slopes' sum.
    """
    accuracy = float(weights @ chances.max(axis=1))
    if len(model.models) != 1:
        return accuracy, math.nan
    one, second = model.models[0], chances[:, 1]
    moved = weights * second * (1 - second) * np.where(second > 0.5, 1, -1)
    places, slopes = one.places(cells), np.zeros(len(one.numbers))
    for column in places.T:
        slopes += weights_by(column, moved, len(slopes))
    return accuracy, math.sqrt(max(float(slopes @ one.covariance @ slopes), 0.0))


def _auc(scores: Floats, counts: Floats) -> float | None:
    """Return the area under the curve of weighted rows, None if a class has none."""
    _, at = np.unique(scores, return_inverse=True)
    first, second = (np.bincount(at.reshape(-1), counts[:, number]) for number in (0, 1))
    pairs = first.sum() * second.sum()
    below = np.cumsum(first) - first / 2
    return float(second @ below / pairs) if pairs > 0 else None
