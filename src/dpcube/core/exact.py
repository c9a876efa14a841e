"""Exact data that cannot be seen: `DenseCounts`, an array of every cell, and `SparseRows`, the occupied cells alone.

Both answer what the gate asks: totals, marginals, box sums, a coarser cube, a private selection. Whoever holds exact
numbers may be a frame in somebody's traceback, so nobody holds the arrays: they are in the closure of a function, where
no repr, no format, no walk over attributes and no serialiser comes across them. What the gate needs is done here,
behind the seal (`core/seal.py`), and only what noise was added to leaves.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Box, Boxes, box_sums
from dpcube.core.candidates import Candidates
from dpcube.core.counter import MOST_TABLE_CELLS
from dpcube.core.errors import InputError
from dpcube.core.regions import RegionTree
from dpcube.core.seal import sealed
from dpcube.core.selection import chosen
from dpcube.core.unique import Unique

_Axes = tuple[int, ...]
Codes = Sequence[NDArray[Any]]
MOST_KEPT = 2**24
"""Cells of exact marginals that are kept for the next selection: candidates come again, round after round."""
BLOCK_ROWS = 2**16
"""Rows at a time: half a megabyte a column."""


class ExactData(Unique):
    """Exact counts of a cube whose shape is public and whose numbers are not."""

    __slots__ = ("shape",)
    _what: ClassVar[str]
    by_cells: ClassVar[bool]
    """Whether the cube is materialised: an array of its cells is no more than what is held already."""
    shape: tuple[int, ...]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = f"{self._what} are never changed"
        raise AttributeError(msg)

    @abstractmethod
    def total(self) -> "DenseCounts":
        """Return the exact count of the whole, as a table of one cell.

        No sum here or below wraps around: no count is negative, and the sources keep all of a cube together below 2^63
        (`sources/rows.py`, `sources/open.py`), so the sum of any of them is in between.
        """

    @abstractmethod
    def marginal(self, axes: _Axes) -> "DenseCounts":
        """Return the exact count of each cell of the table over some axes, which are checked and ascending."""

    @abstractmethod
    def box_sums(self, boxes: Boxes) -> "DenseCounts":
        """Return the exact count of each box."""

    @abstractmethod
    def grouped(self, groups: Sequence[Ints]) -> "ExactData":
        """Return the same rows in a coarser cube: `groups` has the new cell of every cell of each axis."""

    @abstractmethod
    def check_selection(self, candidates: Candidates) -> None:
        """Raise InputError if the scores of candidates need more memory than any selection should."""

    @abstractmethod
    def selected(self, candidates: Candidates, noise: Ints) -> Ints:
        """Return the candidate selected for each question, by its score and the noise for it."""


class DenseCounts(ExactData):
    """Exact counts of every cell, in an array.

    >>> DenseCounts(np.array([[7654321, 0]]))
    <exact counts of shape (1, 2), hidden>
    """

    __slots__ = ("_hold",)
    _what = "exact counts"
    by_cells = True
    _hold: Callable[[], Ints]

    @sealed
    def __init__(self, counts: Ints) -> None:
        held = np.ascontiguousarray(counts, np.int64)
        object.__setattr__(self, "_hold", lambda: held)
        object.__setattr__(self, "shape", held.shape)

    def __repr__(self) -> str:
        return f"<exact counts of shape {self.shape}, hidden>"

    @property
    def size(self) -> int:
        """Number of counts, which is public."""
        return int(np.prod(self.shape, dtype=np.int64))

    @sealed
    def total(self) -> "DenseCounts":
        """Return the sum of all."""
        return DenseCounts(self._hold().sum(dtype=np.int64).reshape(1))

    @sealed
    def marginal(self, axes: _Axes) -> "DenseCounts":
        """Return sums over the other axes; over none the counts themselves, without a copy."""
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        return DenseCounts(np.add.reduce(self._hold(), axis=others, dtype=np.int64)) if others else self

    @sealed
    def box_sums(self, boxes: Boxes) -> "DenseCounts":
        """Return the sum of each box."""
        return DenseCounts(box_sums(self._hold(), boxes))

    @sealed
    def grouped(self, groups: Sequence[Ints]) -> "DenseCounts":
        """Return the sums of groups of cells."""
        coarse = np.zeros([int(of_axis.max()) + 1 for of_axis in groups], np.int64)
        np.add.at(coarse, np.ix_(*groups), self._hold())
        return DenseCounts(coarse)

    def check_selection(self, candidates: Candidates) -> None:
        """Accept all: no table of a cube is larger than the cube."""

    @sealed
    def selected(self, candidates: Candidates, noise: Ints) -> Ints:
        """Return the highest of scores and noise, for each question."""
        return chosen(candidates.scores(self._hold()), noise, sizes=candidates.sizes)

    @sealed
    def plus(self, noise: Ints) -> Ints:
        """Return each count plus its noise, in the array of the noise."""
        noisy = noise.reshape(self.shape)
        noisy += self._hold()
        return noisy

    def reveal(self) -> Ints:
        """Return the array itself: for tables that are public, and for tests."""
        return self._hold()


class SparseRows(ExactData):
    """Exact rows of a cube too large to materialise: the cell of each on every axis, and how many rows are alike.

    Memory that goes by rows is taken when the rows come in, before a budget is charged. From then on they are gone
    through a block at a time, and a coarser cube keeps the groups of the cells instead of a copy of the rows: what is
    asked later takes memory by the public sizes of tables and boxes alone (tests/unit/test_exact_rows.py).

    >>> SparseRows((3, 2), [np.array([0, 2]), np.array([1, 1])], np.array([7654321, 5]))
    <exact rows of a cube of shape (3, 2), hidden>
    """

    __slots__ = ("_hold", "_kept")
    _what = "exact rows"
    by_cells = False
    _hold: Callable[[], tuple[Codes, Ints, Codes | None]]
    _kept: Callable[[], dict[_Axes, Ints]]

    @sealed
    def __init__(self, shape: tuple[int, ...], codes: Codes, rows: Ints, *, groups: Codes | None = None) -> None:
        """Hold rows whose cells are `codes`, or of a coarser cube the groups that these are put into."""
        held = tuple(codes), np.ascontiguousarray(rows, np.int64), groups
        kept: dict[_Axes, Ints] = {}
        object.__setattr__(self, "_hold", lambda: held)
        object.__setattr__(self, "_kept", lambda: kept)
        object.__setattr__(self, "shape", tuple(shape))

    def __repr__(self) -> str:
        return f"<exact rows of a cube of shape {self.shape}, hidden>"

    @sealed
    def total(self) -> DenseCounts:
        """Return the number of rows."""
        return DenseCounts(self._hold()[1].sum(keepdims=True))

    @sealed
    def marginal(self, axes: _Axes) -> DenseCounts:
        """Return the counts of a table of at most MOST_TABLE_CELLS cells."""
        self._check_cells(math.prod(self.shape[axis] for axis in axes), len(axes))
        return DenseCounts(self._table(axes))

    @sealed
    def box_sums(self, boxes: Boxes) -> DenseCounts:
        """Return sums over regions of the cube in which each box is whole leaves.

        A row is in one leaf; the largest regions inside a box are disjoint and make it up, so a row in the box is in
        one of them.
        """
        regions, axes = RegionTree(self.shape), range(len(self.shape))
        regions.part(boxes)
        return DenseCounts(regions.sums(boxes, regions.counted(self._block(axes, start) for start in self._starts())))

    @sealed
    def grouped(self, groups: Sequence[Ints]) -> "SparseRows":
        """Return the same rows, with groups in the place of cells."""
        codes, rows, before = self._hold()
        shape = tuple(int(of_axis.max()) + 1 for of_axis in groups)
        narrow = [of_axis.astype(np.min_scalar_type(side - 1)) for of_axis, side in zip(groups, shape, strict=True)]
        if before is not None:
            narrow = [of_axis[of_before] for of_axis, of_before in zip(narrow, before, strict=True)]
        return SparseRows(shape, codes, rows, groups=narrow)

    def check_selection(self, candidates: Candidates) -> None:
        """Refuse scores of tables that are too large."""
        self._check_cells(candidates.most_cells, len(self.shape))

    @sealed
    def selected(self, candidates: Candidates, noise: Ints) -> Ints:
        """Return the highest of scores and noise, for each question."""
        return chosen(candidates.scores_of(_CountedRows(self)), noise, sizes=candidates.sizes)

    def _check_cells(self, cells: int, axes: int) -> None:
        if cells > MOST_TABLE_CELLS:
            msg = f"a table over {axes} axes has {cells:,} cells; at most {MOST_TABLE_CELLS:,} are counted at once"
            raise InputError(msg)

    @sealed
    def _table(self, axes: _Axes) -> Ints:
        kept = self._kept()
        if axes not in kept:
            table = self._counted(axes, None)
            if sum(one.size for one in kept.values()) + table.size > MOST_KEPT:
                kept.clear()
            kept[axes] = table
        return kept[axes]

    @sealed
    def _counted(self, axes: _Axes, box: Box | None) -> Ints:
        """Count the table over some axes, of the whole cube or of the cells of a box."""
        lower, upper = ((0,) * len(self.shape), self.shape) if box is None else (box.lower, box.upper)
        sides = tuple(upper[axis] - lower[axis] for axis in axes)
        table = np.zeros(math.prod(sides), np.int64)
        for start in self._starts():
            cells, rows = self._block(axes, start)
            if box is not None:
                every, rows = self._block(range(len(self.shape)), start)
                rows = np.where(((every >= lower) & (every < upper)).all(axis=1), rows, 0)
                cells = np.clip(cells - [lower[axis] for axis in axes], 0, np.array(sides) - 1)
            place = np.zeros(len(rows), np.int64)
            for column, side in enumerate(sides):
                place *= side
                place += cells[:, column]
            np.add.at(table, place, rows)
        return table.reshape(sides)

    @sealed
    def _starts(self) -> range:
        """Return where the blocks of rows begin."""
        return range(0, len(self._hold()[1]), BLOCK_ROWS)

    @sealed
    def _block(self, axes: Sequence[int], start: int) -> tuple[Ints, Ints]:
        """Return a block of rows: their cells on some axes, shape (rows, axes), and how many are alike."""
        codes, rows, groups = self._hold()
        block = slice(start, start + BLOCK_ROWS)
        cells = np.empty((len(rows[block]), len(axes)), np.int64)
        for column, axis in enumerate(axes):
            cells[:, column] = codes[axis][block] if groups is None else groups[axis][codes[axis][block]]
        return cells, rows[block]


class _CountedRows:
    """Exact counts of sparse rows as scores are computed from them (`Counted`), behind the seal of a selection."""

    def __init__(self, rows: SparseRows) -> None:
        self._rows = rows

    def table(self, axes: _Axes, box: Box | None = None) -> Ints:
        """Count the table over some axes, of the whole cube or of a box."""
        return self._rows._table(axes) if box is None else self._rows._counted(axes, box)
