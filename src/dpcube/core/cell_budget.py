"""Budget of one job, kept for every cell: a call may measure some regions and leave the others their budget.

Enters: boxes and the units each is measured with. Leaves: nothing, or a BudgetError before anything is drawn.

Proof. Let x' be x with one row more, in cell i. A call adds independent noise to the counts of its boxes; only the
boxes that hold i change, each by 1, so the ratio of the call's output densities is at most exp of the summed epsilons
of those boxes. A count of every cell, or a table over some axes, is a call whose boxes are disjoint and cover the cube:
each cell is in one of them and is charged its units, all cells alike. A choice costs a row in a cell that any candidate
covers its units (`core/selection.py`) and any other row nothing, and such cells are charged them once. The transcript's
density is the product over calls of conditional densities (each call may depend on earlier outputs), so the whole loss
at i is the sum of what cell i was charged. Every charge is refused that would take any cell's sum above the job's
epsilon, whatever the earlier outputs were: the bound holds transcript by transcript.
Threads charge one after another under one lock; noise is drawn outside of it, after a charge that was granted, so what
was drawn was charged. Copies, pickles and forked processes, which would spend the same again, are refused.
"""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes, Partitioning, add_to_boxes
from dpcube.core.budget import Account
from dpcube.core.errors import BudgetError
from dpcube.core.unique import Unique

# A cell that has not overdrawn owes at most 2^40 units, and so many boxes add less than 2^62: no sum wraps around.
_AT_A_TIME = 2**21


def check_units(units: object) -> None:
    """Raise BudgetError unless these are units that something can cost."""
    # NaN is neither above what is left nor below zero: charged once, it would leave a budget without end.
    if not isinstance(units, int | np.int64) or units <= 0:
        msg = f"a measurement must spend a positive whole number of units, got {units!r:.50}"
        raise BudgetError(msg)


class RegionBudget(Unique):
    """Units left in each cell. While every cell has been charged alike, one number stands for them all."""

    def __init__(self, shape: tuple[int, ...], units: int) -> None:
        self._account = Account()
        self._shape = shape
        self._left: int | NDArray[np.int64] = units

    def charge_all(self, units: int) -> None:
        """Charge every cell, or refuse and change nothing."""
        check_units(units)
        with self._account.mine():
            if units > np.max(self._left):
                self._refuse()
            self._debit(units)

    def charge(self, boxes: Boxes, units: NDArray[np.int64]) -> None:
        """Charge every cell the sum over the boxes that hold it, or refuse and change nothing."""
        if boxes.shape != self._shape or units.shape != (len(boxes),) or units.dtype != np.int64:
            msg = f"a call needs boxes in a cube of shape {self._shape} and one whole number of units for each"
            raise BudgetError(msg)
        with self._account.mine():
            if len(units) == 0 or units.min() <= 0 or units.max() > np.max(self._left):
                self._refuse()
            if isinstance(boxes, Partitioning) and (units == units[0]).all():
                self._debit(int(units[0]))
            else:
                self._debit(self._sum(boxes, units))

    def charge_once(self, boxes: Boxes, units: int) -> None:
        """Charge every cell that is in any of the boxes, in however many, or refuse and change nothing."""
        check_units(units)
        if boxes.shape != self._shape:
            msg = f"a call needs boxes in a cube of shape {self._shape}"
            raise BudgetError(msg)
        with self._account.mine():
            if units > np.max(self._left):
                self._refuse()
            held = np.zeros(self._shape, np.int64)
            add_to_boxes(held, boxes, np.ones(len(boxes), np.int64))
            self._debit(np.minimum(held, 1) * int(units))

    def _sum(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what each cell is to be charged, refusing on the way once a cell cannot pay."""
        debit = np.zeros(self._shape, np.int64)
        for start in range(0, len(boxes), _AT_A_TIME):
            some = slice(start, start + _AT_A_TIME)
            add_to_boxes(debit, Boxes(self._shape, boxes.lower[some], boxes.upper[some]), units[some])
            if (debit > self._left).any():
                self._refuse()
        return debit

    def _debit(self, debit: int | NDArray[np.int64]) -> None:
        # The room of the debit is used again: it is as large as the cube.
        left = np.subtract(self._left, debit, out=debit if isinstance(debit, np.ndarray) else None)
        if np.min(left) < 0:
            self._refuse()
        self._left = left

    def _refuse(self) -> NoReturn:
        msg = "a measurement was refused: some cell it covers has less budget left than it asks for; nothing was drawn"
        raise BudgetError(msg)
