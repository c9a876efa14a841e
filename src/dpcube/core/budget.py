"""Budget of one job, kept for every cell: per-cell privacy accounting, also for cubes too large to materialise.

Proof. Let x' be x with one row more, in cell i. A call adds independent noise to the counts of its boxes; only the
boxes that hold i change, each by 1, so the ratio of the call's output densities is at most exp of the summed epsilons
of those boxes. A marginal is a call whose boxes are disjoint and cover the cube: each cell is in one of them and is
charged its units, all cells alike. A selection costs a row in a cell that any candidate covers its units
(`core/selection.py`) and any other row nothing: every cell is charged its units, or those of the disjoint boxes that it
is about. The transcript's density is the product over calls of conditional densities (each call may depend on earlier
outputs), so the whole loss at i is the sum of what cell i was charged. Every charge is refused that would take any
cell's sum above the job's epsilon, whatever the earlier outputs were: the bound holds transcript by transcript.

That sum is kept as what all cells were charged alike, and besides, if the cube is materialised, by cell, and else by
regions (`core/regions.py`): a tree of cuts whose leaves partition the cube, each box being whole leaves. A box adds its
units to the largest nodes inside it. These are disjoint and make up the box, so of the nodes around a cell, from the
root to its leaf, exactly one has the units of a box that holds the cell, and none those of a box that does not. A node
that is cut later keeps what it has, for both halves lie in whatever box it was in. So the sum along the path to a leaf
is what each cell of the leaf was charged, and as every cell is in a leaf, the largest sum over all paths is the most
that any cell was charged.

Threads charge one after another under one lock; noise is drawn outside of it, after a charge that was granted, so what
was drawn was charged. Nothing is ever in two places: copies and pickles are refused, and a forked process, which has a
copy of its parent's memory, is refused before it asks for the lock, which in that copy may be held for ever.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from fractions import Fraction
from threading import RLock
from typing import NoReturn

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, Partitioning, add_to_boxes
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError, DomainError, InputError
from dpcube.core.regions import RegionTree
from dpcube.core.unique import Unique, this_process

_AT_A_TIME = 2**21
"""Boxes added up at a time. A cell that has not overdrawn owes at most 2^40 units, and so many boxes add less than
2^62: no sum wraps around."""


class Account(Unique):
    """The lock of a budget and of all that hangs from it, and the process in which they may be spent.

    >>> with Account().mine():
    ...     pass
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = RLock()
        self._owner = this_process()

    def mine(self) -> AbstractContextManager[object]:
        """Return the lock to charge under, or raise BudgetError in a process that has a copy of the budget."""
        if self._owner != this_process():
            msg = "a budget is spent in the process that made it, and this is another; ask there; nothing was drawn"
            raise BudgetError(msg)
        return self._lock


def epsilon_per_row(epsilon: Fraction, max_rows: int) -> Fraction:
    """Return what one row may cost if a unit has up to `max_rows` of them and may cost epsilon in all."""
    if not isinstance(max_rows, int) or max_rows < 1:  # a float would make epsilon one, and NaN is not below 1
        msg = f"a unit has a whole number of rows, 1 or more, got max_rows {max_rows!r:.50}"
        raise InputError(msg)
    return check_positive(epsilon) / max_rows


def check_positive(epsilon: Fraction) -> Fraction:
    """Return epsilon, or raise BudgetError unless it is a rational above zero."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        msg = f"a charge must be an exact rational above 0, got {epsilon!r}"
        raise BudgetError(msg)
    return epsilon


def check_units(units: object) -> None:
    """Raise BudgetError unless these are units that something can cost."""
    # NaN is neither above what is left nor below zero: charged once, it would leave a budget without end.
    if not isinstance(units, int | np.int64) or units <= 0:
        msg = f"a measurement must spend a positive whole number of units, got {units!r:.50}"
        raise BudgetError(msg)


class CellBudget(Unique):
    """Units left in each cell: one number while every cell has been charged alike, then an array or a region tree.

    `by_cells` says whether the cube is materialised, so that an array of its cells can be afforded.
    """

    def __init__(self, shape: tuple[int, ...], units: int, *, by_cells: bool = True) -> None:
        self._account = Account()
        self._shape, self._by_cells = shape, by_cells
        self._units = units
        self._left: int | Ints = units
        self._regions: RegionTree | None = None
        self._charged = np.zeros(1, np.int64)
        """What each region was charged besides."""

    def charge_all(self, units: int) -> None:
        """Charge every cell, or refuse and change nothing."""
        check_units(units)
        with self._account.mine():
            if units > np.max(self._left):
                self._refuse()
            self._debit(int(units))

    def check_call(self, boxes: Boxes, units: Ints) -> None:
        """Raise BudgetError unless these are boxes of the cube, and units for each."""
        if boxes.shape != self._shape or units.shape != (len(boxes),) or units.dtype != np.int64:
            msg = f"a call needs boxes in a cube of shape {self._shape} and one whole number of units for each"
            raise BudgetError(msg)

    def charge(self, boxes: Boxes, units: Ints) -> None:
        """Charge every cell the sum over the boxes that hold it, or refuse and change nothing."""
        self.check_call(boxes, units)
        with self._account.mine():
            if len(units) == 0 or units.min() <= 0 or units.max() > np.max(self._left):
                self._refuse()
            if isinstance(boxes, Partitioning) and (units == units[0]).all():
                self._debit(int(units[0]))
            elif self._by_cells:
                self._debit(self._sum(boxes, units))
            else:
                self._debit_regions(boxes, units)

    def most_charged(self) -> int:
        """Return the most that any cell was charged."""
        with self._account.mine():
            return self._units - int(np.min(self._left)) + self._most(self._by_region())

    def _sum(self, boxes: Boxes, units: Ints) -> Ints:
        """Return what each cell is to be charged, refusing on the way once a cell cannot pay."""
        debit = np.zeros(self._shape, np.int64)
        for some in _slices(len(boxes)):
            add_to_boxes(debit, Boxes(self._shape, boxes.lower[some], boxes.upper[some]), units[some])
            if (debit > self._left).any():
                self._refuse()
        return debit

    def _debit(self, debit: int | Ints) -> None:
        # The room of the debit is used again: it is as large as the cube.
        left = np.subtract(self._left, debit, out=debit if isinstance(debit, np.ndarray) else None)
        if np.min(left) < self._most(self._by_region()):
            self._refuse()
        self._left = left

    def _debit_regions(self, boxes: Boxes, units: Ints) -> None:
        """Charge by regions: each box to the largest nodes inside it."""
        try:
            self._regions = self._regions or RegionTree(self._shape)
            self._regions.part(boxes)
        except DomainError:
            self._refuse()
        charged = self._by_region()
        for some in _slices(len(boxes)):
            self._regions.add(Boxes(self._shape, boxes.lower[some], boxes.upper[some]), units[some], charged)
            if self._most(charged) > self._left:
                self._refuse()
        self._charged = charged

    def _by_region(self) -> Ints:
        """Return what each region was charged: nothing, if it came by a later cut, be it that of a refused call."""
        used = 1 if self._regions is None else self._regions.used
        return np.concatenate([self._charged, np.zeros(used - len(self._charged), np.int64)])

    def _most(self, charged: Ints) -> int:
        return 0 if self._regions is None else self._regions.most_on_a_path(charged)

    def _refuse(self) -> NoReturn:
        msg = "a measurement was refused: some cell it covers has less budget left than it asks for"
        msg += "; nothing was drawn" if self._by_cells else ", or its boxes are too many; nothing was drawn"
        raise BudgetError(msg)


class CoarseBudget(CellBudget):
    """The budget of a coarser cube: every cell of the finer one pays the most that any cell of the coarser is charged.

    A cell of the finer cube is in one cell of the coarser, so it pays no less than its own.
    """

    def __init__(self, finer: CellBudget, shape: tuple[int, ...], *, by_cells: bool) -> None:
        super().__init__(shape, BUDGET_UNITS, by_cells=by_cells)
        self._finer = finer

    def charge_all(self, units: int) -> None:
        """Charge every cell, or refuse and change nothing."""
        self._finer.charge_all(units)

    def charge(self, boxes: Boxes, units: Ints) -> None:
        """Charge every cell the largest sum over the boxes that hold a cell of the coarser cube."""
        call = CellBudget(self._shape, BUDGET_UNITS, by_cells=self._by_cells)
        call.charge(boxes, units)
        self._finer.charge_all(call.most_charged())

    def most_charged(self) -> int:
        """Return the most that any cell was charged."""
        return self._finer.most_charged()


def _slices(boxes: int) -> Iterator[slice]:
    yield from (slice(start, start + _AT_A_TIME) for start in range(0, boxes, _AT_A_TIME))
