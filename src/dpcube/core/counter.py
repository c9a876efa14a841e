"""The interface of a strategy to the private table: a `NoisyCounter`, and nothing else.

A job has BUDGET_UNITS units of budget for every cell. A call spends some of them on every cell it measures, and the
counter refuses a call that would overdraw any cell. `epsilon_per_unit` is the noise parameter of one unit: a count
measured with u units carries noise P(z) proportional to exp(-u * epsilon_per_unit * |z|).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import Candidates
from dpcube.core.errors import InputError

BUDGET_UNITS = 2**40
MAX_TABLE_CELLS = 2**24
"""Cells of one marginal of a cube too large to materialise: a strategy that asked for more would fail once charged."""


class NoisyCounter(Protocol):
    """Noisy marginals, noisy box counts and private selections, each for units of the budget."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    @property
    def epsilon_per_unit(self) -> Fraction:
        """Noise parameter of one unit of budget."""
        ...

    def marginal(self, axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
        """Return a noisy marginal over some axes, ascending, or over all of them, which is every cell of the cube.

        Each cell of the cube is charged `units`.
        """
        ...

    def boxes(self, boxes: Boxes, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a noisy count of each box; a cell is charged the sum over the boxes that contain it."""
        ...

    def select(self, candidates: Candidates, units: int) -> NDArray[np.int64]:
        """Return the number of the candidate selected for each question; each cell they cover is charged `units` once.

        Each point of score makes a candidate likelier by a factor of about
        exp(units * epsilon_per_unit / sensitivity).
        """
        ...

    def grouped(self, groups: Sequence[NDArray[np.int64]]) -> "NoisyCounter":
        """Return the counter of a coarser cube, of the same budget: `groups` has the group of each axis's cells."""
        ...


def every_cell(counter: NoisyCounter, units: int) -> Ints:
    """Return a noisy count of every cell: the marginal over all axes."""
    return counter.marginal(tuple(range(len(counter.shape))), units)


def check_axes(axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise InputError unless there can be a marginal over these axes of a cube: before anything is charged.

    >>> check_axes((0, 2), (4, 3, 2))
    """
    # Plain integers and nothing that acts like them: what is checked here is what the counts are summed over. They are
    # not quoted: a strategy may have made them of noisy counts, which were not released.
    plain = type(axes) is tuple and all(type(axis) is int for axis in axes)
    if not plain or not axes or not set(axes) <= set(range(len(shape))) or list(axes) != sorted(set(axes)):
        msg = (
            f"marginal needs a tuple of one or more of the axes 0 to {len(shape) - 1} of the cube, ascending and "
            "each once; boxes counts the whole cube"
        )
        raise InputError(msg)


def check_groups(groups: Sequence[Ints], shape: tuple[int, ...]) -> None:
    """Raise InputError unless these put every cell of each axis into one group, numbered from 0 without a gap."""
    fits = len(groups) == len(shape) and all(
        of_axis.dtype == np.int64
        and of_axis.shape == (side,)
        and np.array_equal(np.unique(of_axis), np.arange(of_axis.max() + 1))
        for of_axis, side in zip(groups, shape, strict=False)
    )
    if not fits:
        msg = f"groups need one array of 64-bit integers for each of {len(shape)} axes: the group of every cell, from 0"
        raise InputError(msg)


def share_units(share: Fraction) -> int:
    """Return a share of the whole budget in units, rounded down so that shares of one never add up to more."""
    return int(share * BUDGET_UNITS)
