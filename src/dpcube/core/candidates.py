"""Public candidates of private selections and their scores: a small closed set of kinds.

Each kind states its sensitivity, the most by which one row changes the difference of two scores, with a proof beside
it; scores are integers throughout. The mechanism that uses them is proved in `core/selection.py`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Box, Boxes, first_meeting
from dpcube.core.errors import InputError

Criterion = Literal["max", "gini", "information"]
CRITERIA: tuple[Criterion, ...] = ("max", "gini", "information")
ONE = 2**10
"""A score of 1 by the criteria that divide or take logarithms: they are whole numbers of parts of this."""
MAX_COUNTED_ROWS = 2**63 - 1
LOG_BITS = 80
GUARD_BITS = 8
MAX_PREDICTED = 2**62
MAX_CANDIDATE_WEIGHT = 2**20

Scores = NDArray[Any]
"""Whole numbers: 64-bit ones of which none is above 0, or Python's, of any size."""


class Counted(Protocol):
    """Exact counts as scores are computed from them. None is negative, and those of a cube are together below 2^63."""

    def table(self, axes: tuple[int, ...], box: Box | None = None) -> Ints:
        """Return the marginal over some axes, ascending, of the whole cube or of the cells of a box."""


@dataclass(frozen=True, slots=True, repr=False)
class CountedCells:
    """Exact counts of every cell, in an array. No sum wraps around: all counts together are below 2^63."""

    cells: Ints

    def table(self, axes: tuple[int, ...], box: Box | None = None) -> Ints:
        """Return sums over all other axes."""
        cells = self.cells if box is None else self.cells[tuple(map(slice, box.lower, box.upper))]
        others = tuple(axis for axis in range(cells.ndim) if axis not in axes)
        return np.asarray(np.add.reduce(cells, axis=others, dtype=np.int64))


class Candidates(ABC):
    """Public candidates, of one question or of several about disjoint boxes, and the score of each.

    One row more changes the scores of one question at most: that of the box it is in.
    """

    __slots__ = ()
    score: ClassVar[str]
    """The name of the score, in files."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""

    @property
    @abstractmethod
    def covered(self) -> Boxes | None:
        """The boxes that contain every cell on which a score depends; None for all cells."""

    @property
    @abstractmethod
    def sizes(self) -> Ints:
        """Number of candidates of each question: one or more."""

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """The most by which one row more or less changes the difference of two scores of one question.

        If it changes each score by at most d, that is 2 d; if besides all of them go up, or all down, it is d.
        """

    @property
    @abstractmethod
    def most_cells(self) -> int:
        """Cells of the largest table that a score is computed from."""

    @abstractmethod
    def scores_of(self, counted: Counted) -> Scores:
        """Return the score of each candidate, question after question; the highest is best."""

    def scores(self, counts: Ints) -> Scores:
        """Return the scores by the counts of every cell of the cube."""
        return self.scores_of(CountedCells(counts))


@dataclass(frozen=True, slots=True, eq=False)
class MedianCuts(Candidates):
    """Every cut of a box across an axis: candidate k is before the box's cell k + 1, and the best is at the median.

    The score of a cut with r of the box's N rows below it is -|N - 2r|. One row more makes N - 2r one more if it is
    above the cut and one less if it is below, so a score changes by 1, some up and some down: the sensitivity is 2.

    >>> cuts = MedianCuts(Boxes((4,), np.array([[0]]), np.array([[4]])), np.array([0]))
    >>> cuts.scores(np.array([5, 1, 1, 1])), cuts.places(np.array([0]))
    (array([-2, -4, -6]), array([1]))
    """

    score: ClassVar[str] = "distance of a rank from the middle"
    boxes: Boxes
    axes: Ints

    def __post_init__(self) -> None:
        check_questions(self.boxes)
        most = len(self.shape) - 1
        axes = bounded_integers("the axes of cuts", self.axes, size=len(self.boxes), least=0, most=most)
        object.__setattr__(self, "axes", axes)
        if self.sizes.min() < 1:
            msg = "a box of one cell along an axis cannot be cut across it; leave it out"
            raise InputError(msg)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.boxes.shape

    @property
    def covered(self) -> Boxes:
        """The boxes."""
        return self.boxes

    @property
    def sizes(self) -> Ints:
        """Number of cuts of each box."""
        rows = np.arange(len(self.boxes))
        cuts: Ints = self.boxes.upper[rows, self.axes] - self.boxes.lower[rows, self.axes] - 1
        return cuts

    @property
    def sensitivity(self) -> int:
        """Twice the sensitivity of a rank's distance from the middle."""
        return 2

    @property
    def most_cells(self) -> int:
        """The longest axis, at most."""
        return max(self.shape)

    def scores_of(self, counted: Counted) -> Ints:
        """Return -|N - 2r| of every cut."""
        axes = self.axes.tolist()
        return np.concatenate([_ranks(counted.table((axis,), self.boxes[k])) for k, axis in enumerate(axes)])

    def places(self, chosen: Ints) -> Ints:
        """Return the first cell behind each chosen cut."""
        places: Ints = self.boxes.lower[np.arange(len(self.boxes)), self.axes] + 1 + chosen
        return places


def _ranks(along: Ints) -> Ints:
    below = np.cumsum(along)
    above = below[-1] - below
    # Neither is negative, so their difference fits where twice a rank may not.
    return np.asarray(-np.abs(above - below)[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class BestSplit(Candidates):
    """The axes by which a box can be split into its values: candidate k is `axes[k]`, best by a criterion of ID3.

    A split has a part for each of the box's values of the axis; n is the number of rows in a part and n_c those of
    class c in it. One row more, of class c, changes its own part alone: n and n_c by one. So what one row does to a
    score is what it does to one part's term, whatever the axis. The term, and what one row more of class c does to it:

    * `max`: max_c n_c - n, the rows that the largest class does not have. The first goes up by 0 or 1 and n by 1, so
      the term changes by 0 or -1: the sensitivity is 1.
    * `gini`: (sum_c n_c^2) / n - n. With S the sum of squares, S/n changes by (2 n_c + 1 - S/n) / (n + 1). As
      n_c^2 <= S <= n^2, that is at most (2 n_c + 1 - n_c^2/n) / (n + 1), which grows with n_c <= n and is 1 there, and
      at least (1 - n) / (n + 1) > -1. So the term changes by 0 to -2; that of an empty part is 0, and stays it. ONE S/n
      is rounded down to whole numbers: it changes by ONE at most, so its whole part does. The sensitivity is 2 ONE.
    * `information`: sum_c n_c log2(n_c / n), less than 0 by the bits that tell the classes of the part's rows. With
      f(x) = x log2 x and g(x) = f(x + 1) - f(x), which grows with x since f is convex, the term changes by
      g(n_c) - g(n): by 0 to -g(n), and g(n) = log2(n + 1) + n log2(1 + 1/n) has no bound but that of n. So f is taken
      to go on in a straight line from `most_rows` M, with slope g(M): g is then at most g(M) for every n. Fewer rows
      than that are scored as they are; more rows only lose sharpness. In whole numbers f is wrong by less than 2 (see
      `_rows_times_log`), and a term changes by two differences of it, each off by less than 2: by more than
      -ONE g(M) - 4 and less than 4. The slope in whole numbers is less than 2 from ONE g(M): the sensitivity is that
      slope and 10.

    >>> box = Boxes((2, 2, 2), np.zeros((1, 3), np.int64), np.full((1, 3), 2))
    >>> counts = np.array([[[4, 0], [4, 0]], [[0, 3], [1, 2]]])
    >>> BestSplit(box, target=2, axes=(0, 1), criterion="max").scores(counts)
    array([-1, -5], dtype=object)
    """

    score: ClassVar[str] = "what a split tells of the class"
    boxes: Boxes
    target: int
    axes: tuple[int, ...]
    criterion: Criterion = "max"
    most_rows: int = MAX_COUNTED_ROWS

    def __post_init__(self) -> None:
        check_questions(self.boxes)
        check_axis("the axis of the class", self.target, self.shape)
        object.__setattr__(self, "axes", tuple(self.axes))
        for axis in self.axes:
            check_axis("each axis of a split", axis, self.shape)
        if not self.axes or list(self.axes) != sorted(set(self.axes) - {self.target}):
            msg = "the axes of splits must ascend, each of them once, without that of the class"
            raise InputError(msg)
        if self.criterion not in CRITERIA:
            msg = f"a criterion of splits must be one of {', '.join(CRITERIA)}"
            raise InputError(msg)
        if type(self.most_rows) is not int or not 1 <= self.most_rows <= MAX_COUNTED_ROWS:
            msg = "most_rows must be a whole number from 1 to 2^63 - 1"
            raise InputError(msg)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.boxes.shape

    @property
    def covered(self) -> Boxes:
        """The boxes."""
        return self.boxes

    @property
    def sizes(self) -> Ints:
        """Number of axes, for each box."""
        return np.full(len(self.boxes), len(self.axes))

    @property
    def sensitivity(self) -> int:
        """As the criterion has it: all scores go down together, but for what is rounded."""
        if self.criterion == "information":
            return _slope(self.most_rows) + 10
        return 1 if self.criterion == "max" else 2 * ONE

    @property
    def most_cells(self) -> int:
        """The largest table of an axis by class."""
        return max(self.shape[axis] for axis in self.axes) * self.shape[self.target]

    def scores_of(self, counted: Counted) -> Scores:
        """Return the score of each axis, box after box."""
        return np.array([self._score(counted, k, axis) for k in range(len(self.boxes)) for axis in self.axes], object)

    def _score(self, counted: Counted, box: int, axis: int) -> int:
        first, second = sorted((axis, self.target))
        table = counted.table((first, second), self.boxes[box])
        parts: list[list[int]] = (table if axis < self.target else table.T).tolist()
        if self.criterion == "max":
            return sum(max(part) - sum(part) for part in parts)
        if self.criterion == "gini":
            return sum(_gini(part) for part in parts)
        told = [sum(_entropy_term(count, self.most_rows) for count in part) for part in parts]
        return sum(told) - sum(_entropy_term(sum(part), self.most_rows) for part in parts)


def _gini(part: list[int]) -> int:
    rows = sum(part)
    return ONE * sum(count * count for count in part) // rows - ONE * rows if rows else 0


def _entropy_term(rows: int, most: int) -> int:
    """Return ONE x log2 x for x rows in whole numbers, and from `most` on a straight line."""
    within = min(rows, most)
    return _rows_times_log(within) + (rows - within) * _slope(most)


@lru_cache(maxsize=64)
def _slope(most: int) -> int:
    return _rows_times_log(most + 1) - _rows_times_log(most)


def _rows_times_log(rows: int) -> int:
    """Return ONE x log2 x for x up to 2^63 rows, rounded down, or one below that: less than 2 from the exact value.

    Digit by digit: a number of [1, 2) is squared, the next digit of its logarithm is 1 if the square is 2 or more, and
    that is halved. Numbers are kept in LOG_BITS + GUARD_BITS bits, rounded down. To round down lowers a logarithm by
    less than 1.45 * 2^-(LOG_BITS + GUARD_BITS), twice for each digit, and to square doubles what was lost before: after
    LOG_BITS digits it is below 2^LOG_BITS times 4 of these, below 1/32 of the last digit. So the digits found are less
    than 2^-LOG_BITS (1 + 1/32) below the logarithm; times ONE x <= 2^73 that is less than 2^-6, and rounding down takes
    less than 1. It is the same number of steps at every x, 0 included, of which the logarithm of 1 is taken 0 times.
    """
    some, bits = max(rows, 1), LOG_BITS + GUARD_BITS
    log = some.bit_length() - 1
    mantissa = some << (bits - log)
    for _ in range(LOG_BITS):
        mantissa = mantissa * mantissa >> bits
        digit = mantissa >> (bits + 1)
        mantissa >>= digit
        log = 2 * log + digit
    return (ONE * rows * log) >> LOG_BITS


@dataclass(frozen=True, slots=True, eq=False)
class TableDistances(Candidates):
    """Tables over some axes of a cube, ascending, each with a prediction of every one of its cells.

    The worst-approximated marginal is best: the distance of a table is the sum of |exact - predicted|. A cell of the
    cube is in one cell of a table, so one row more changes one count by 1, and the distance by 1, up or down. A score
    is weight * (distance - allowance) with public whole numbers, so it changes by at most the weight, and the
    sensitivity is twice the largest weight.

    Nothing wraps around. The counts of a table add up to less than 2^63 and its predictions to at most 2^62, both
    without their signs, so a distance is below 2^64: it is summed in unsigned 64-bit integers. The rest is in Python's.

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
        for name, least, most in (("weights", 1, MAX_CANDIDATE_WEIGHT), ("allowances", -MAX_PREDICTED, MAX_PREDICTED)):
            given, what = getattr(self, name), f"the {name} of candidates"
            object.__setattr__(self, name, bounded_integers(what, given, size=len(tables), least=least, most=most))

    def _table(self, axes: tuple[int, ...], predicted: Ints) -> Ints:
        for axis in axes:
            check_axis("each axis of a table", axis, self.shape)
        if not axes or list(axes) != sorted(set(axes)):
            msg = "the axes of a table must ascend, each of them once"
            raise InputError(msg)
        sides = tuple(self.shape[axis] for axis in axes)
        cells = math.prod(sides)  # of many axes, more than 64 bits count
        flat = np.asarray(predicted).reshape(-1) if np.shape(predicted) == sides else np.empty(0)
        most = MAX_PREDICTED // max(cells, 1)  # no table adds up to more than MAX_PREDICTED, whatever the signs
        return bounded_integers("predicted counts", flat, size=cells, least=-most, most=most).reshape(sides)

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
        given = zip(self.axes, self.predicted, self.weights.tolist(), self.allowances.tolist(), strict=True)
        scores = [
            weight * (int(_apart(counted.table(axes), predicted).sum()) - allowance)
            for axes, predicted, weight, allowance in given
        ]
        return np.array(scores, dtype=object)


@dataclass(frozen=True, slots=True, eq=False)
class ReadRows(Candidates):
    """Ways to read one column, each an axis of the cube, and the best reads the most rows.

    The score of a reading is its weight times the number of rows whose cell on its axis is one of its `cells` (a mask).
    One row more adds 0 or its weight to each score: all go up or stay, so the sensitivity is the largest weight.

    >>> read = ReadRows((2, 2), (0, 1), (np.array([True, False]), np.array([True, True])), (3, 2))
    >>> read.scores(np.array([[5, 0], [0, 1]])).tolist()
    [15, 12]
    """

    score: ClassVar[str] = "rows that a reading reads"
    cube: tuple[int, ...]
    axes: tuple[int, ...]
    cells: tuple[NDArray[np.bool_], ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.axes or not len(self.axes) == len(self.cells) == len(self.weights):
            msg = "readings need one axis, one mask of its cells and one weight each"
            raise InputError(msg)
        for axis, cells, weight in zip(self.axes, self.cells, self.weights, strict=True):
            check_axis("the axis of a reading", axis, self.cube)
            whole = type(weight) is int and 1 <= weight <= MAX_CANDIDATE_WEIGHT
            if not whole or cells.dtype != np.bool_ or cells.shape != (self.cube[axis],):
                msg = f"a reading has a mask of the cells of its axis and a weight from 1 to {MAX_CANDIDATE_WEIGHT:,}"
                raise InputError(msg)
        masks = tuple(cells.copy() for cells in self.cells)
        for cells in masks:
            cells.flags.writeable = False
        object.__setattr__(self, "cells", masks)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.cube

    @property
    def covered(self) -> None:
        """All cells."""
        return

    @property
    def sizes(self) -> Ints:
        """One question, about all readings."""
        return np.array([len(self.axes)])

    @property
    def sensitivity(self) -> int:
        """The largest weight."""
        return max(self.weights)

    @property
    def most_cells(self) -> int:
        """The longest axis of a reading."""
        return max(self.cube[axis] for axis in self.axes)

    def scores_of(self, counted: Counted) -> Scores:
        """Return the weighted rows that each reading reads, in integers of any size."""
        read = [int(counted.table((axis,))[cells].sum()) for axis, cells in zip(self.axes, self.cells, strict=True)]
        return np.array([weight * rows for weight, rows in zip(self.weights, read, strict=True)], dtype=object)


def _apart(exact: Ints, predicted: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Return |exact - predicted| in unsigned integers, whose subtraction is exact where the difference fits them."""
    high, low = np.maximum(exact, predicted), np.minimum(exact, predicted)
    apart: np.ndarray[tuple[int, ...], np.dtype[np.uint64]] = high.view(np.uint64) - low.view(np.uint64)
    return apart


def check_questions(boxes: Boxes) -> None:
    """Raise InputError unless there are boxes, of which no two have a cell in common."""
    if len(boxes) == 0:
        msg = "a selection needs at least one box to be about"
        raise InputError(msg)
    if first_meeting(boxes) >= 0:
        msg = "the boxes of one selection must be disjoint; ask about boxes that meet in calls of their own"
        raise InputError(msg)


def check_axis(what: str, axis: object, shape: tuple[int, ...]) -> None:
    """Raise InputError unless an axis is the plain number of one of the cube's."""
    if type(axis) is not int or not 0 <= axis < len(shape):
        msg = f"{what} must be one of the axes 0 to {len(shape) - 1} of the cube, a plain int"
        raise InputError(msg)


def bounded_integers(what: str, given: object, *, size: int, least: int, most: int) -> Ints:
    """Return a read-only copy of so many 64-bit integers, each within bounds; raise InputError otherwise."""
    found = np.asarray(given)
    if found.shape != (size,) or found.dtype != np.int64 or (size and not least <= found.min() <= found.max() <= most):
        msg = f"{what} must be an array of {size:,} 64-bit integers, each from {least:,} to {most:,}"
        raise InputError(msg)
    kept = np.array(found)
    kept.flags.writeable = False
    return kept


CANDIDATE_KINDS: tuple[type[Candidates], ...] = (MedianCuts, BestSplit, TableDistances, ReadRows)
"""Every kind. A counter refuses any other, because its sensitivity is not proved."""


def check_candidates(candidates: object, shape: tuple[int, ...]) -> None:
    """Raise InputError unless these are candidates of a known kind in a cube of this shape: before a charge."""
    # Exactly these classes and no subclass: the sensitivity of others' scores is not proved.
    if type(candidates) not in CANDIDATE_KINDS:
        names = ", ".join(kind.__name__ for kind in CANDIDATE_KINDS)
        msg = f"select needs candidates of one of the kinds {names}, not {type(candidates).__name__}"
        raise InputError(msg)
    assert isinstance(candidates, Candidates)
    if candidates.shape != shape:
        msg = f"these candidates are of a cube of shape {candidates.shape}, and this one has shape {shape}"
        raise InputError(msg)
