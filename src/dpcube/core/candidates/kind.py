"""Base class of the candidates of a private selection, and checks that its kinds share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Box, Boxes, box_sums, first_meeting
from dpcube.core.errors import InputError

Scores = NDArray[Any]
"""Whole numbers: 64-bit ones of which none is above 0, or Python's, of any size."""


class Counted(Protocol):
    """Exact counts as scores are computed from them. None is negative, and those of a cube are together below 2^63."""

    def table(self, axes: tuple[int, ...], box: Box | None = None) -> Ints:
        """Return the marginal over some axes, ascending, of the whole cube or of the cells of a box."""

    def sums(self, boxes: Boxes) -> Ints:
        """Return the count of each box."""


@dataclass(frozen=True, slots=True, repr=False)
class CountedCells:
    """Exact counts of every cell, in an array. No sum wraps around: all counts together are below 2^63."""

    cells: Ints

    def table(self, axes: tuple[int, ...], box: Box | None = None) -> Ints:
        """Return sums over all other axes."""
        cells = self.cells if box is None else self.cells[tuple(map(slice, box.lower, box.upper))]
        others = tuple(axis for axis in range(cells.ndim) if axis not in axes)
        return np.asarray(np.add.reduce(cells, axis=others, dtype=np.int64))

    def sums(self, boxes: Boxes) -> Ints:
        """Return the sum of each box."""
        return box_sums(self.cells, boxes)


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


def check_questions(boxes: Boxes) -> None:
    """Raise InputError unless there are boxes, of which no two have a cell in common."""
    if len(boxes) == 0:
        msg = "a selection needs at least one box to be about"
        raise InputError(msg)
    if first_meeting(boxes, np.zeros(len(boxes), np.int64)) >= 0:
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
