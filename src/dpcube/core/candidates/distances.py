"""Candidates scored by their distance from predicted counts: the sum of |exact - predicted|, in integers.

One row more changes one count of a candidate by 1 (its boxes are disjoint; a cell of the cube is in one cell of a
table), or none, so the sum changes by at most 1, up or down. A score is weight * (distance - allowance) with public
whole numbers, so it changes by at most the weight, and the sensitivity is twice the largest weight.

Nothing wraps around. The counts of a candidate add up to less than 2^63 and its predictions to at most 2^62, both
without their signs, so a distance is below 2^64: it is summed in unsigned 64-bit integers. The rest is in Python's.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, first_meeting
from dpcube.core.candidates.kind import Candidates, Counted, Scores, bounded_integers, check_axis
from dpcube.core.errors import InputError

MOST_PREDICTED = 2**62
MOST_WEIGHT = 2**20
MOST_VISITS = 64
"""How often the boxes of sets may hold a cell of the cube, on average: to tell that they are disjoint takes a visit."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxDistances(Candidates):
    """Sets of disjoint boxes; box k belongs to candidate `candidate[k]` and is predicted to hold `predicted[k]` rows.

    >>> boxes = Boxes((4,), np.array([[0], [2], [0]]), np.array([[2], [4], [4]]))
    >>> one = np.ones(2, np.int64)
    >>> sets = BoxDistances(boxes, np.array([5, 5, 9]), np.array([0, 0, 1]), weights=one, allowances=0 * one)
    >>> sets.scores(np.array([9, 0, 0, 1]))
    array([8, 1], dtype=object)
    """

    score: ClassVar[str] = "distance of counts of boxes from predictions"
    boxes: Boxes
    predicted: Ints
    candidate: Ints
    weights: Ints
    allowances: Ints

    def __post_init__(self) -> None:
        size, number = len(self.boxes), np.size(self.weights)
        candidate = bounded_integers("the candidates of boxes", self.candidate, size=size, least=0, most=number - 1)
        if not size or not np.array_equal(np.unique(candidate), np.arange(number)) or (np.diff(candidate) < 0).any():
            msg = "boxes must be in the order of their candidates, and each candidate must have at least one"
            raise InputError(msg)
        of_each = np.bincount(candidate)
        object.__setattr__(self, "candidate", candidate)
        object.__setattr__(self, "predicted", _predictions(self.predicted, size=size, summed=int(of_each.max())))
        _keep_weights(self, self.weights, self.allowances, number)
        several = of_each[candidate] > 1
        sets = Boxes(self.shape, self.boxes.lower[several], self.boxes.upper[several])
        if int(sets.sizes.sum()) > MOST_VISITS * int(np.prod(self.shape)):
            msg = f"the sets of boxes hold over {MOST_VISITS} times the cells of the cube; choose among fewer of them"
            raise InputError(msg)
        if first_meeting(sets, candidate[several]) >= 0:
            msg = "the boxes of one candidate must be disjoint, or one row would change its distance more than once"
            raise InputError(msg)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.boxes.shape

    @property
    def covered(self) -> Boxes:
        """The boxes of all candidates."""
        return self.boxes

    @property
    def sizes(self) -> Ints:
        """All candidates are of one question."""
        return np.array([len(self.weights)])

    @property
    def sensitivity(self) -> int:
        """Twice the largest weight."""
        return 2 * int(self.weights.max())

    @property
    def most_cells(self) -> int:
        """A box is counted as one cell."""
        return 1

    def scores_of(self, counted: Counted) -> Scores:
        """Return the weighted distance of each set of boxes."""
        distances = np.zeros(len(self.weights), np.uint64)
        np.add.at(distances, self.candidate, _apart(counted.sums(self.boxes), self.predicted))
        return _weighted(distances.tolist(), self.weights, self.allowances)


@dataclass(frozen=True, slots=True, eq=False)
class TableDistances(Candidates):
    """Tables over some axes of a cube, ascending, each with a prediction of every one of its cells.

    >>> one = np.ones(2, np.int64)
    >>> tables = TableDistances((2, 2), ((0,), (1,)), (np.array([3, 3]), np.array([3, 3])), one, 0 * one)
    >>> tables.scores(np.array([[4, 0], [1, 1]]))
    array([2, 4], dtype=object)
    """

    score: ClassVar[str] = "distance of a table from a prediction"
    cube: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]
    predicted: tuple[Ints, ...]
    weights: Ints
    allowances: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "cube", tuple(int(side) for side in self.cube))
        object.__setattr__(self, "axes", tuple(map(tuple, self.axes)))
        if not self.axes or len(self.axes) != len(self.predicted):
            msg = "a choice among tables needs at least one, and one prediction for each"
            raise InputError(msg)
        tables = [self._table(axes, table) for axes, table in zip(self.axes, self.predicted, strict=True)]
        object.__setattr__(self, "predicted", tuple(tables))
        _keep_weights(self, self.weights, self.allowances, len(self.axes))

    def _table(self, axes: tuple[int, ...], predicted: Ints) -> Ints:
        for axis in axes:
            check_axis("each axis of a table", axis, self.shape)
        if not axes or list(axes) != sorted(set(axes)):
            msg = "the axes of a table must ascend, each of them once"
            raise InputError(msg)
        sides = tuple(self.shape[axis] for axis in axes)
        cells = math.prod(sides)  # of many axes, more than 64 bits count
        flat = np.asarray(predicted).reshape(-1) if np.shape(predicted) == sides else np.empty(0)
        return _predictions(flat, size=cells, summed=cells).reshape(sides)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.cube

    @property
    def covered(self) -> None:
        """All cells: each is in one cell of every table."""
        return

    @property
    def sizes(self) -> Ints:
        """All candidates are of one question."""
        return np.array([len(self.axes)])

    @property
    def sensitivity(self) -> int:
        """Twice the largest weight."""
        return 2 * int(self.weights.max())

    @property
    def most_cells(self) -> int:
        """The largest table."""
        return max(table.size for table in self.predicted)

    def scores_of(self, counted: Counted) -> Scores:
        """Return the weighted distance of each table."""
        pairs = zip(self.axes, self.predicted, strict=True)
        distances = [int(_apart(counted.table(axes), predicted).sum()) for axes, predicted in pairs]
        return _weighted(distances, self.weights, self.allowances)


def _predictions(given: object, *, size: int, summed: int) -> Ints:
    """Return predictions of which no so many add up to more than MOST_PREDICTED, whatever their signs."""
    most = MOST_PREDICTED // max(summed, 1)
    return bounded_integers("predicted counts", given, size=size, least=-most, most=most)


def _keep_weights(kept: Candidates, weights: object, allowances: object, size: int) -> None:
    weights = bounded_integers("the weights of candidates", weights, size=size, least=1, most=MOST_WEIGHT)
    most = MOST_PREDICTED
    allowances = bounded_integers("the allowances of candidates", allowances, size=size, least=-most, most=most)
    object.__setattr__(kept, "weights", weights)
    object.__setattr__(kept, "allowances", allowances)


def _apart(exact: Ints, predicted: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Return |exact - predicted| in unsigned integers, whose subtraction is exact where the difference fits them."""
    high, low = np.maximum(exact, predicted), np.minimum(exact, predicted)
    apart: np.ndarray[tuple[int, ...], np.dtype[np.uint64]] = high.view(np.uint64) - low.view(np.uint64)
    return apart


def _weighted(distances: list[int], weights: Ints, allowances: Ints) -> Scores:
    triples = zip(distances, weights.tolist(), allowances.tolist(), strict=True)
    return np.array([weight * (distance - allowance) for distance, weight, allowance in triples], dtype=object)
