"""Budget of one job on a cube that nobody could hold: every cell's account is kept, without an array of cells.

Enters: boxes and the units each is measured with. Leaves: nothing, or a BudgetError before anything is drawn.

Proof. What a call costs a row in a cell is the sum of the units of the boxes that hold the cell, and what the calls of
a job cost it together is the sum over calls (`core/cell_budget.py`, whose proof this is too). Here that sum is kept by
regions (`core/regions.py`): a tree of cuts whose leaves partition the cube, each box being whole leaves.
A box adds its units to the largest nodes inside it. These are disjoint and make up the box, so of the nodes around a
cell, from the root to its leaf, exactly one has the units of a box that holds the cell, and none those of a box that
does not. A node that is cut later keeps what it has, for both halves lie in whatever box it was in. So the sum along
the path to a leaf is what each cell of the leaf was charged, and as every cell is in a leaf, the largest sum over all
paths is the most that any cell was charged. A call that would take it above the job's units is refused.
"""

from typing import NoReturn

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.budget import Account
from dpcube.core.errors import BudgetError, DomainError
from dpcube.core.regions import RegionTree
from dpcube.core.unique import Unique

MOST_BOXES_OF_A_CALL = 2**21
"""Boxes of one call. A cell that has not overdrawn owes at most 2^40 units, and so many add less than 2^62."""


class BoxRegionBudget(Unique):
    """Units that each cell was charged, by regions; a call charges each cell the sum over the boxes that hold it."""

    def __init__(self, shape: tuple[int, ...], units: int) -> None:
        self._account = Account()
        self._units = units
        self._tree = RegionTree(shape)
        self._charged = np.zeros(1, np.int64)

    def charge(self, boxes: Boxes, units: Ints) -> None:
        """Charge every cell the sum over the boxes that hold it, or refuse and change nothing."""
        shape = self._tree.shape
        if boxes.shape != shape or units.shape != (len(boxes),) or units.dtype != np.int64:
            msg = f"a call needs boxes in a cube of shape {shape} and one whole number of units for each"
            raise BudgetError(msg)
        with self._account.mine():
            if not 0 < len(units) <= MOST_BOXES_OF_A_CALL or units.min() <= 0 or units.max() > self._units:
                self._refuse()
            try:
                self._tree.part(boxes)
            except DomainError:
                self._refuse()
            charged = self._charged_by_node()
            self._tree.add(boxes, units, charged)
            if self._tree.most_on_a_path(charged) > self._units:
                self._refuse()
            self._charged = charged

    def most_charged(self) -> int:
        """Return the most that any cell was charged."""
        with self._account.mine():
            return self._tree.most_on_a_path(self._charged_by_node())

    def _charged_by_node(self) -> Ints:
        """Return what each node was charged: nothing, if it came by cuts since, those of a refused call among them."""
        return np.concatenate([self._charged, np.zeros(self._tree.used - len(self._charged), np.int64)])

    def _refuse(self) -> NoReturn:
        msg = "a measurement was refused: some cell it covers has less budget left than it asks for, or there are too "
        msg += f"many boxes (a call has 1 to {MOST_BOXES_OF_A_CALL:,}); nothing was drawn"
        raise BudgetError(msg)
