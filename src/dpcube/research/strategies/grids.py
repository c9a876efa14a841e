"""UGrid and AGrid (Qardaji, Yang, Li, "Differentially private grids for geospatial data", ICDE 2013).

Both derive the resolution of a grid from the number of rows. The public code takes the true number for free; here a
small part of the budget pays for a noisy one, unless the number is public and given (`rows`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, share_units
from dpcube.core.errors import InputError
from dpcube.measurements import BoxCounts, Transcript
from dpcube.research.strategies.levels import (
    BoxLevel,
    Grown,
    level_units,
    measured_tree,
    parted,
    peak_bytes_of_tree,
    root_level,
    tree_of_levels,
)
from dpcube.strategies.strategy import Parameter

MAX_GRID_BOXES = 2.0**62
"""Upper limit of the number of boxes, whatever the rows hold: far more than a cube has cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UGrid:
    """One grid of about (N e/c)^(2d/(d+2)) boxes with sides alike (in 2-D, N e/c), N a noisy number of rows.

    `share_of_rows` of the budget counts the rows, unless `rows` says how many there are because that is public.
    """

    name: str = "ugrid"
    constant: float = 10.0
    share_of_rows: Fraction = Fraction(1, 50)
    rows: int | None = None

    def __post_init__(self) -> None:
        _check(self.name, constant=self.constant, share=self.share_of_rows, rows=self.rows)

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters, for the release's manifest."""
        return {"constant": self.constant, "share_of_rows": str(self.share_of_rows), "rows": self.rows}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of a box for each cell."""
        return peak_bytes_of_tree(shape, 1 + int(np.prod(shape, dtype=object)))

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count the rows, then the boxes of a grid.

        Privacy: the count of the rows costs its share; the grid is a function of it; its boxes are disjoint and cost
        the rest.
        """
        first = root_level(counter.shape)
        rows, measured = _count_rows(counter, self.rows, self.share_of_rows)
        units = BUDGET_UNITS - sum(one.units for one in measured)
        number = deserved_boxes(
            np.array([rows]), units * float(counter.epsilon_per_unit) / self.constant, counter.shape
        )
        grid = parted(first, parts_for(first.upper - first.lower, number))
        measured += _count_leaves(counter, [first, grid], units)
        return _transcript(counter, [first, grid], measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class AGrid:
    """A coarse grid, and in each of its boxes a grid as fine as the noisy count of the box deserves.

    The coarse one has a quarter of the parts on an axis that `UGrid` would have, but `least_parts` at least.
    """

    name: str = "agrid"
    constant: float = 10.0
    inner_constant: float = 5.0
    coarse_share: Fraction = Fraction(1, 2)
    least_parts: int = 10
    share_of_rows: Fraction = Fraction(1, 50)
    rows: int | None = None

    def __post_init__(self) -> None:
        _check(self.name, constant=self.constant, share=self.share_of_rows, rows=self.rows)
        _check(self.name, constant=self.inner_constant, share=self.coarse_share, rows=self.rows)
        if not self.least_parts >= 1:
            msg = f"strategy {self.name}: least_parts must be at least 1, got {self.least_parts!r}"
            raise InputError(msg)

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters, for the release's manifest."""
        chosen: dict[str, Parameter] = {"constant": self.constant, "inner_constant": self.inner_constant}
        chosen |= {"coarse_share": str(self.coarse_share), "least_parts": self.least_parts}
        return {**chosen, "share_of_rows": str(self.share_of_rows), "rows": self.rows}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of two boxes for each cell."""
        return peak_bytes_of_tree(shape, 1 + 2 * int(np.prod(shape, dtype=object)))

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count the rows, the boxes of a coarse grid, and the boxes of a grid inside each of these.

        Privacy: the boxes of each grid are disjoint, and where they lie follows from what was counted before. The
        three calls cost their shares, the whole together. A box that is not parted is counted again.
        """
        shape, first = counter.shape, root_level(counter.shape)
        rows, measured = _count_rows(counter, self.rows, self.share_of_rows)
        units = BUDGET_UNITS - sum(one.units for one in measured)
        coarse_units = int(units * self.coarse_share)
        epsilon, axes = units * float(counter.epsilon_per_unit), _axes(shape)
        number = deserved_boxes(np.array([rows]), epsilon / self.constant, shape) / 4.0**axes
        number = np.maximum(number, float(self.least_parts) ** axes)
        coarse = parted(first, parts_for(first.upper - first.lower, number))
        found = _count_leaves(counter, [first, coarse], coarse_units)
        rate = epsilon * (1 - coarse_units / units) / self.inner_constant
        number = deserved_boxes(found[-1].counts[: len(coarse.parent)], rate, shape)  # a single cell has no grid
        fine = parted(coarse, parts_for(coarse.upper - coarse.lower, number))
        measured += found + _count_leaves(counter, [first, coarse, fine], units - coarse_units)
        return _transcript(counter, [first, coarse, fine], measured)


class _Measured(NamedTuple):
    """Counts of some boxes of a level, each with the same units."""

    depth: int
    places: Ints
    counts: Ints
    units: int


def deserved_boxes(rows: Ints, rate: float, shape: tuple[int, ...]) -> Floats:
    """Return how many boxes so many rows deserve: (rows * rate)^(2d/(d+2)), one at least; rate is epsilon/constant.

    In a grid of m boxes the noise of a range is of order sqrt(m)/epsilon; its border cuts some m^(1 - 1/d) boxes of N/m
    rows, in proportion to which it errs: N m^(-1/d). The sum is least for such a number; in 2-D it is N epsilon/c.
    """
    axes = _axes(shape)
    deserved: Floats = np.minimum(np.maximum(rows * rate, 1.0) ** (2 * axes / (axes + 2)), MAX_GRID_BOXES)
    return deserved


def parts_for(lengths: Ints, number: Floats) -> Ints:
    """Return into how many parts each axis of each box is cut, for so many boxes with sides as alike as can be.

    `lengths` has shape (boxes, axes), `number` shape (boxes,). An axis shorter than the side is not cut, and the others
    make up for it.

    >>> parts_for(np.array([[128, 128], [300, 2]]), np.array([1000.0, 30.0]))
    array([[32, 32],
           [30,  1]])
    """
    free = np.ones(lengths.shape, np.bool_)
    for _ in range(lengths.shape[1]):
        volume = np.where(free, lengths, 1).prod(axis=1, dtype=np.float64)
        side = (volume / number) ** (1 / np.maximum(free.sum(axis=1), 1))
        free &= lengths > side[:, None]
    parts = np.ceil(lengths / np.maximum(side, 1.0)[:, None] - 1e-9).astype(np.int64)
    return np.where(free, np.minimum(parts, lengths), 1)


def _axes(shape: tuple[int, ...]) -> int:
    """Return the number of axes that can be cut."""
    return max(sum(extent > 1 for extent in shape), 1)


def _count_rows(counter: NoisyCounter, rows: int | None, share: Fraction) -> tuple[int, list[_Measured]]:
    """Return the number of rows that is public, or a noisy one with what it cost."""
    if rows is not None:
        return rows, []
    units = share_units(share)
    counts = counter.boxes(_boxes(counter.shape, root_level(counter.shape)), np.array([units]))
    return int(counts[0]), [_Measured(0, np.zeros(1, np.int64), counts, units)]


def _count_leaves(counter: NoisyCounter, levels: list[BoxLevel], units: int) -> list[_Measured]:
    """Count the boxes of some levels that have no boxes inside: they are disjoint, so in one call a level."""
    found = []
    for depth in range(len(levels)):
        is_leaf = np.ones(len(levels[depth].parent), np.bool_)
        if depth + 1 < len(levels):
            is_leaf[levels[depth + 1].parent] = False
        places = np.flatnonzero(is_leaf)
        if len(places):
            boxes = Boxes(counter.shape, levels[depth].lower[places], levels[depth].upper[places])
            found.append(_Measured(depth, places, counter.boxes(boxes, np.full(len(places), units)), units))
    return found


def _transcript(counter: NoisyCounter, levels: list[BoxLevel], measured: list[_Measured]) -> Transcript:
    grown = tree_of_levels(counter.shape, levels)
    node = np.concatenate([grown.nodes[one.depth][one.places] for one in measured])
    counts = np.concatenate([one.counts for one in measured])
    units = np.repeat([one.units for one in measured], [len(one.counts) for one in measured])
    return Transcript(counter.shape, counter.epsilon_per_unit, (BoxCounts(grown.tree, node, counts, units),))


def _boxes(shape: tuple[int, ...], level: BoxLevel) -> Boxes:
    return Boxes(shape, level.lower, level.upper)


def _check(name: str, *, constant: float, share: Fraction, rows: int | None) -> None:
    if not 0 < constant < math.inf:
        msg = f"strategy {name}: constants must be numbers above 0, got {constant!r}"
        raise InputError(msg)
    if not Fraction(1, 1000) <= share <= Fraction(999, 1000):
        msg = f"strategy {name}: shares must be between 0.001 and 0.999, got {share}"
        raise InputError(msg)
    if rows is not None and not 0 <= rows < 2**63:
        msg = f"strategy {name}: rows must be None or a public number of rows, got {rows!r}"
        raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Count all rows with the whole budget. One box: its cells are charged once."""

    name: str = "uniform"

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there are no parameters."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of exact counts and one box."""
        return peak_bytes_of_tree(shape, 1)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count the whole cube with all units."""
        grown: Grown = tree_of_levels(counter.shape, [root_level(counter.shape)])
        return measured_tree(counter, grown, level_units(grown, [BUDGET_UNITS]))
