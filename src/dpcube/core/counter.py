"""What a strategy sees of the private table: a `NoisyCounter`, and nothing else.

A job has BUDGET_UNITS units of budget for every cell. A call spends some of them on every cell it measures, and the
counter refuses a call that would overdraw any cell. `epsilon_per_unit` is the noise parameter of one unit: a count
measured with u units carries noise P(z) proportional to exp(-u * epsilon_per_unit * |z|).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes
from dpcube.core.candidates import Candidates, TableDistances
from dpcube.core.errors import InputError

BUDGET_UNITS = 2**40
MOST_TABLE_CELLS = 2**24
"""Cells of one table of a wide cube: a strategy that asked for more by mistake would fail once charged."""


class BoxCounter(Protocol):
    """Counts boxes with noise, for budget: all that can be asked of a cube too fine to hold."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    @property
    def epsilon_per_unit(self) -> Fraction:
        """Noise parameter of one unit of budget."""
        ...

    def count_boxes(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a noisy count of each box; a cell is charged the sum over the boxes that hold it."""
        ...


class NoisyCounter(BoxCounter, Protocol):
    """Counts cells, boxes and tables over some axes with noise, and chooses among candidates, for budget."""

    def count_cells(self, units: int) -> NDArray[np.int64]:
        """Return a noisy count of every cell, each cell charged `units`."""
        ...

    def count_marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Return a noisy table over some axes of the cube, ascending; each cell of the cube is charged `units`."""
        ...

    def choose(self, candidates: Candidates, units: int) -> NDArray[np.int64]:
        """Return the number of the candidate chosen for each question; each cell they cover is charged `units` once.

        The better a candidate's score the likelier it is: by a factor of exp(units * epsilon_per_unit / spread) for
        each point, about.
        """
        ...


class CuboidCounter(Protocol):
    """Counts tables over few axes of a cube too large to hold, and chooses among them, for one budget.

    A job has BUDGET_UNITS units in all, which every call spends from.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    @property
    def epsilon_per_unit(self) -> Fraction:
        """Noise parameter of one unit of budget."""
        ...

    def grouped(self, groups: Sequence[NDArray[np.int64]]) -> "CuboidCounter":
        """Return the counter of a coarser cube, of the same budget: `groups` has the group of each axis's cells."""
        ...

    def count_marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Return a noisy table over some axes of the cube, ascending."""
        ...

    def choose(self, candidates: TableDistances, units: int) -> NDArray[np.int64]:
        """Return the number of the candidate chosen, as one number in an array."""
        ...


def check_axes(axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise InputError unless there can be a table over these axes of a cube: before anything is charged.

    >>> check_axes((0, 2), (4, 3, 2))
    """
    # Plain integers and nothing that acts like them: what is checked here is what the counts are summed over. They are
    # not quoted: a strategy may have made them of noisy counts, which were not released.
    plain = type(axes) is tuple and all(type(axis) is int for axis in axes)
    if not plain or not axes or not set(axes) <= set(range(len(shape))) or list(axes) != sorted(set(axes)):
        msg = (
            f"count_marginal needs a tuple of one or more of the axes 0 to {len(shape) - 1} of the cube, ascending and "
            "each once; count_boxes counts the whole cube"
        )
        raise InputError(msg)


def share_units(share: Fraction) -> int:
    """Return a share of the whole budget in units, rounded down so that shares of one never add up to more."""
    return int(share * BUDGET_UNITS)
