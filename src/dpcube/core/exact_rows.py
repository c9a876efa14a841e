"""Exact rows that cannot be seen: the cell of each row on every axis enters, hidden counts of small tables leave.

For a table whose cube is too large to hold. Rows that fall into the same cell of every axis are kept once, with their
number, so memory goes by rows, never by the cells of the domain. As in `exact.py` nobody holds the arrays: they are in
the closure of a function, behind the seal (`core/seal.py`).

All memory that goes by rows is taken when the rows come in, before a budget is charged. From then on they are gone
through a block at a time, and a coarser cube keeps the groups of the cells instead of a copy of the rows: what is asked
later takes memory by the public sizes of tables and boxes alone (tests/unit/test_exact_rows.py).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import TableDistances
from dpcube.core.exact import ExactCounts
from dpcube.core.regions import RegionTree
from dpcube.core.seal import sealed
from dpcube.core.selection import chosen
from dpcube.core.unique import Unique

Codes = Sequence[NDArray[Any]]
MOST_KEPT = 2**24
"""Cells of exact tables that are kept for the next choice: candidates come again, round after round."""
ROWS_AT_A_TIME = 2**16
"""Rows at a time: half a megabyte a column."""


class ExactRows(Unique):
    """Exact rows of a cube whose shape is public, as the cell of each on every axis, and how many rows are alike.

    >>> ExactRows((3, 2), [np.array([0, 2]), np.array([1, 1])], np.array([7654321, 5]))
    <exact rows of a cube of shape (3, 2), hidden>
    """

    __slots__ = ("_hold", "_kept", "shape")

    _hold: Callable[[], tuple[Codes, Ints, Codes | None]]
    _kept: Callable[[], dict[tuple[int, ...], Ints]]
    shape: tuple[int, ...]

    @sealed
    def __init__(self, shape: tuple[int, ...], codes: Codes, rows: Ints, *, groups: Codes | None = None) -> None:
        """Hold rows whose cells are `codes`, or of a coarser cube the groups that these are put into."""
        held = tuple(codes), np.ascontiguousarray(rows, np.int64), groups
        kept: dict[tuple[int, ...], Ints] = {}
        object.__setattr__(self, "_hold", lambda: held)
        object.__setattr__(self, "_kept", lambda: kept)
        object.__setattr__(self, "shape", tuple(shape))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = "exact rows are never changed"
        raise AttributeError(msg)

    def __repr__(self) -> str:
        return f"<exact rows of a cube of shape {self.shape}, hidden>"

    @sealed
    def total(self) -> ExactCounts:
        """Return the exact number of rows, as a table of one cell."""
        return ExactCounts(self._hold()[1].sum(keepdims=True))

    @sealed
    def marginal(self, axes: tuple[int, ...]) -> ExactCounts:
        """Return the exact count of each cell of the table over some axes, which are checked and ascending."""
        return ExactCounts(self._table(axes))

    @sealed
    def sums(self, boxes: Boxes, regions: RegionTree) -> ExactCounts:
        """Return the exact count of each box, given regions of the cube in which each is whole leaves.

        A row is in one leaf; the largest regions inside a box are disjoint and make it up, so a row in the box is in
        one of them. No sum wraps around: there are fewer than 2^63 rows.
        """
        axes = range(len(self.shape))
        return ExactCounts(regions.sums(boxes, regions.counted(self._block(axes, start) for start in self._starts())))

    @sealed
    def grouped(self, groups: Sequence[Ints]) -> "ExactRows":
        """Return the same rows in a coarser cube: `groups` has the new cell of every cell of each axis."""
        codes, rows, before = self._hold()
        shape = tuple(int(of_axis.max()) + 1 for of_axis in groups)
        narrow = [of_axis.astype(np.min_scalar_type(side - 1)) for of_axis, side in zip(groups, shape, strict=True)]
        if before is not None:
            narrow = [of_axis[of_before] for of_axis, of_before in zip(narrow, before, strict=True)]
        return ExactRows(shape, codes, rows, groups=narrow)

    @sealed
    def chosen(self, candidates: TableDistances, noise: Ints) -> Ints:
        """Return the candidate chosen, by its score and the noise for it."""
        return chosen(candidates.scores_of(self._table), noise, sizes=candidates.sizes)

    @sealed
    def _table(self, axes: tuple[int, ...]) -> Ints:
        """Count a table in whole numbers. No sum wraps around: there are fewer than 2^63 rows."""
        kept = self._kept()
        if axes not in kept:
            sides = tuple(self.shape[axis] for axis in axes)
            table = np.zeros(math.prod(sides), np.int64)
            for cells, rows in (self._block(axes, start) for start in self._starts()):
                place = np.zeros(len(rows), np.int64)
                for column, side in enumerate(sides):
                    place *= side
                    place += cells[:, column]
                np.add.at(table, place, rows)
            if sum(one.size for one in kept.values()) + table.size > MOST_KEPT:
                kept.clear()
            kept[axes] = table.reshape(sides)
        return kept[axes]

    @sealed
    def _starts(self) -> range:
        """Return where the blocks of rows begin."""
        return range(0, len(self._hold()[1]), ROWS_AT_A_TIME)

    @sealed
    def _block(self, axes: Sequence[int], start: int) -> tuple[Ints, Ints]:
        """Return a block of rows: their cells on some axes, shape (rows, axes), and how many are alike."""
        codes, rows, groups = self._hold()
        block = slice(start, start + ROWS_AT_A_TIME)
        cells = np.empty((len(rows[block]), len(axes)), np.int64)
        for column, axis in enumerate(axes):
            cells[:, column] = codes[axis][block] if groups is None else groups[axis][codes[axis][block]]
        return cells, rows[block]
