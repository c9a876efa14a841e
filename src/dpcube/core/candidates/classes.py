"""Candidates of private decision trees, scored by class counts: the class of a leaf, the attribute that splits a node.

One of the axes of the cube is the class; scores are integers, none above 0.

Below, a split of a box by an axis has a part for each of the box's values of it; n is the number of rows in a part and
n_c those of class c in it. One row more, of class c, changes its own part alone: n and n_c by one. So what one row does
to a score is what it does to one part's term, whatever the axis.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates.kind import Candidates, Counted, Scores, check_axis, check_questions
from dpcube.core.errors import InputError

Criterion = Literal["max", "gini", "information"]
CRITERIA: tuple[Criterion, ...] = ("max", "gini", "information")
ONE = 2**10
"""A score of 1 by the criteria that divide or take logarithms: they are whole numbers of parts of this."""
MOST_ROWS = 2**63 - 1
LOG_BITS = 80
GUARD_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class LargestClass(Candidates):
    """The classes of each box: candidate k is the box's k-th value of the class, and the best has most rows.

    The score is less than 0 by the number of rows of other classes. One row more lowers the scores of all classes but
    its own by 1: none goes up, and the sensitivity is 1.

    >>> LargestClass(Boxes((3,), np.array([[0]]), np.array([[3]])), target=0).scores(np.array([5, 1, 2]))
    array([-3, -7, -6])
    """

    score: ClassVar[str] = "rows of a class"
    boxes: Boxes
    target: int

    def __post_init__(self) -> None:
        check_questions(self.boxes)
        check_axis("the axis of the class", self.target, self.shape)

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
        """Number of classes of each box."""
        sizes: Ints = self.boxes.upper[:, self.target] - self.boxes.lower[:, self.target]
        return sizes

    @property
    def sensitivity(self) -> int:
        """The sensitivity of a count: scores go down together."""
        return 1

    @property
    def most_cells(self) -> int:
        """All classes."""
        return self.shape[self.target]

    def scores_of(self, counted: Counted) -> Ints:
        """Return each class's rows less all rows of the box."""
        tables = [counted.table((self.target,), self.boxes[k]) for k in range(len(self.boxes))]
        return np.concatenate([table - table.sum() for table in tables])


@dataclass(frozen=True, slots=True, eq=False)
class BestSplit(Candidates):
    """The axes by which a box can be split into its values: candidate k is `axes[k]`, best by a criterion of ID3.

    The term of a part with n rows, n_c of class c, and what one row more of class c does to it:

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
    most_rows: int = MOST_ROWS

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
        if type(self.most_rows) is not int or not 1 <= self.most_rows <= MOST_ROWS:
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
