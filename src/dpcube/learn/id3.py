"""ID3 decision trees on weighted cells, as the paper trains them on released histograms.

Quinlan's ID3: a node is split by the attribute that tells most of the class (information gain), into all its values,
until its rows are of one class or no informative attribute is left; nothing is pruned. A value that no row of a
node has leads nowhere: such a row is given the largest class of the node where it stops, and `unseen` marks it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dpcube.core.arrays import Floats, Ints
from dpcube.learn.terms import weights_by

LEAST_GAIN = 1e-9
"""Minimal information gain of a split, in bits a row: less is rounding."""


@dataclass(slots=True, eq=False)
class Node:
    """A node: the weight of each class in it, the attribute that splits it, and the node for each of its values."""

    weights: Floats
    axis: int = -1
    children: dict[float, "Node"] = field(default_factory=dict)


class HistogramID3(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A decision tree by ID3; each column of X is an attribute, and each number in it a value of its own.

    For a release: `X, y, weight = release.to_training("income", encoding="cells")`, then `fit(X, y, weight)`.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "HistogramID3":
        """Grow the tree."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = np.asarray(_check_sample_weight(sample_weight, X), np.float64)
        self.classes_, target = np.unique(y[weights > 0], return_inverse=True)
        if len(self.classes_) == 0:
            msg = "there are no rows to learn from: every weight is 0"
            raise ValueError(msg)
        used = np.flatnonzero(weights > 0)
        codes = [np.unique(column, return_inverse=True) for column in X[used].T]
        numbers = np.stack([code.reshape(-1) for _, code in codes], axis=1)
        self.tree_ = _grown(numbers, target, weights[used], [values for values, _ in codes], len(self.classes_))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the largest class of the node that each row reaches."""
        weights = self._reached(X)[0]
        return np.asarray(self.classes_[weights.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the share of each class in the node that each row reaches, shape (rows, classes)."""
        weights = self._reached(X)[0]
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def unseen(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows have a value that no training row of the node had: plain ID3 gives them no class."""
        return self._reached(X)[1]

    def _reached(self, X: Any) -> tuple[Floats, NDArray[np.bool_]]:
        check_is_fitted(self, "tree_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return reached(self.tree_, X)


def reached(tree: Node, rows: Floats | Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the weights of the classes where each row stops, and whether it stopped at a value of no training row."""
    weights, unseen = np.zeros((len(rows), len(tree.weights))), np.zeros(len(rows), np.bool_)
    waiting = [(tree, np.arange(len(rows)))]
    while waiting:
        node, here = waiting.pop()
        weights[here] = node.weights
        if node.axis < 0:
            continue
        values, at = np.unique(rows[here, node.axis], return_inverse=True)
        for number, value in enumerate(values.tolist()):
            below = here[at.reshape(-1) == number]
            if value in node.children:
                waiting.append((node.children[value], below))
            else:
                unseen[below] = True
    return weights, unseen


def _grown(codes: Ints, target: Ints, weights: Floats, values: list[Floats], classes: int) -> Node:
    root = Node(weights_by(target, weights, classes))
    waiting = [(root, np.arange(len(codes)), tuple(range(codes.shape[1])))]
    while waiting:
        node, rows, axes = waiting.pop()
        tables = {axis: _table(codes[rows, axis], target[rows], weights[rows], classes) for axis in axes}
        told = {axis: _entropy(node.weights[None]) - _entropy(table) for axis, table in tables.items()}
        best = max(axes, key=lambda axis: told[axis], default=-1)
        if best < 0 or told[best] <= LEAST_GAIN * node.weights.sum():
            continue
        node.axis = best
        others = tuple(axis for axis in axes if axis != best)
        column = codes[rows, best]
        order = np.argsort(column, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(column[order])) + 1):
            below = rows[part]
            child = Node(weights_by(target[below], weights[below], classes))
            node.children[float(values[best][codes[below[0], best]])] = child
            waiting.append((child, below, others))
    return root


def _table(codes: Ints, target: Ints, weights: Floats, classes: int) -> Floats:
    """Return the weights by value and class, shape (values, classes)."""
    size = int(codes.max()) + 1
    return weights_by(codes * classes + target, weights, size * classes).reshape(size, classes)


def _entropy(table: Floats) -> float:
    """Return the conditional entropy of the classes of all rows given their value, in bits."""
    rows = table.sum(axis=1, keepdims=True)
    shares = table / np.where(rows > 0, rows, 1.0)
    return float(-(table * np.log2(np.where(shares > 0, shares, 1.0))).sum())
