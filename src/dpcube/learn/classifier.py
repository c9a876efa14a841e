"""The default classifier, as scikit-learn has its estimators: no parameter to tune, probabilities with uncertainty.

`release.classifier("income")` returns one that learnt from a release. It can learn from rows as well, as any estimator
can; then it is only as private as they are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dpcube.core.arrays import Floats, Ints
from dpcube.learn.features import Features
from dpcube.learn.model import NO_RELEASE, ClassModel, Origin, model_of_rows
from dpcube.learn.terms import MAX_TERM_GROUPS, Feature, weights_by


class CubeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """An additive logistic model of groups of cells, shrunk by what is known of noise (`additive.py`).

    With `features` (of a release) X is rows by the names of attributes, as `Features.cells` takes them; without, X is
    a matrix of numbers.
    """

    def __init__(self, features: Features | None = None) -> None:
        self.features = features

    @classmethod
    def learnt(cls, features: Features, model: ClassModel, origin: Origin) -> "CubeClassifier":
        """Return the classifier of a model that was learnt from a release."""
        made = cls(features)
        made.model_, made.origin_, made.classes_ = model, origin, features.classes
        made.n_features_in_, made.feature_names_in_ = len(features.names), np.array(features.names, object)
        return made

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "CubeClassifier":
        """Learn from rows: what is learnt is not private, whatever X comes from."""
        if self.features is None:
            X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = np.asarray(_check_sample_weight(sample_weight, np.zeros((len(y), 1))), np.float64)
        used = weights > 0
        self.classes_, target = np.unique(np.asarray(y)[used], return_inverse=True)
        self.thresholds_ = None if self.features is not None else _thresholds(X[used], weights[used])
        cells, shape, order = self._cells(X), self._shape(), self._order()
        known = used & (cells >= 0).all(axis=1)
        target = target[known[used]]
        if len(target) == 0:
            msg = "there are no rows to learn from: every weight is 0, or every row has a value without a cell"
            raise ValueError(msg)
        self.model_ = model_of_rows(cells[known], target, weights[known], shape, order)
        self.origin_ = NO_RELEASE
        if self.features is not None:
            self.n_features_in_ = len(shape)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, shape (rows, classes)."""
        cells = self._read(X)
        return self.model_.probabilities(cells)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        cells = self._read(X)
        return np.asarray(self.classes_[self.model_.probabilities(cells).argmax(axis=1)])

    def predict_interval(self, X: Any, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return between what each probability lies, by noise and by chance, if the model's form is true."""
        cells = self._read(X)
        return self.model_.interval(cells, confidence)

    def _read(self, X: Any) -> Ints:
        check_is_fitted(self, "model_")
        return self._cells(validate_data(self, X, dtype=np.float64, reset=False) if self.features is None else X)

    def _cells(self, X: Any) -> Ints:
        if self.features is not None:
            return self.features.cells(X)
        pairs = zip(self.thresholds_ or [], X.T, strict=True)
        columns = [np.searchsorted(of, column, side="right") for of, column in pairs]
        return np.stack(columns, axis=1).astype(np.int64)

    def _shape(self) -> tuple[int, ...]:
        return self.features.shape if self.features is not None else tuple(len(of) + 1 for of in self.thresholds_ or [])

    def _order(self) -> tuple[int, ...]:
        return self._shape() if self.features is None else self.features.order


def _thresholds(matrix: Floats, weights: Floats) -> list[Floats]:
    """Return for each column where its cells begin: between all its values, or groups of about as many rows."""
    found = []
    for column in matrix.T:
        values, at = np.unique(column, return_inverse=True)
        rows = weights_by(at.reshape(-1), weights, len(values))
        groups = Feature(len(values), len(values), rows).groups(MAX_TERM_GROUPS)
        ends = np.flatnonzero(np.diff(groups))
        # Half of each before adding: the sum of two large numbers may be infinite.
        found.append(values[ends] / 2 + values[ends + 1] / 2)
    return found
