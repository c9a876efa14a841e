"""What a release tells of a class, whatever was counted: tables by class with their errors, and rows to learn on.

A model needs two things of a release: rows of features with weights, to know how features hang together; and for each
term the count of each class in each group, with the expected square of its error. The first may be drawn, the second is
taken as exactly as it was released. `ClassTables` says so; one cube answers in `cube_tables.py`, and the cuboids of a
wide table in `cuboid_tables.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.learn.additive import Evidence
from dpcube.learn.terms import Feature, Term, pair_terms, single_terms

MOST_FITTED_ROWS = 2**15
"""Rows of cells that a model is fitted on; of more, so many are drawn by their weights, evenly."""
NO_ROWS = "this release has no rows by its estimate, so nothing can be learnt from it"


CountsAndSquares = tuple[Floats, Floats]
WeightedCells = tuple[Ints, Floats]


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
