"""Hierarchical counts (Hay, Rastogi, Miklau, Suciu, PVLDB 2010): every box of a regular tree, down to single cells.

The counts are made consistent by least squares, which is the estimate `tree_least_squares`. In more than one dimension
the tree is one of three: every axis is cut at each level (`boxes`: a quad-tree in 2-D), or the cells stand in a row, in
row-major order or along a Hilbert curve, and the row is cut. Both rows give boxes: an aligned run of row-major cells is
a box if the axes are cut one after another, and an aligned run of 2^k cells of a Hilbert curve is a box because each
step of the curve fills one half of a square (a cube) before the other.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.errors import InputError
from dpcube.measurements import Transcript
from dpcube.research.strategies.hilbert import hilbert_levels, padded_cells
from dpcube.research.strategies.levels import (
    BoxLevel,
    grown_levels,
    level_units,
    measured_tree,
    peak_bytes_of_tree,
    tree_of_levels,
)
from dpcube.strategies.strategy import Parameter

Order = Literal["boxes", "row-major", "hilbert"]
MAX_BRANCHING = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchical:
    """Count every node of a tree with equal budgets for its levels.

    `branching` is into how many parts an axis (or, of cells in a row, the row) is cut at each level; along a Hilbert
    curve it is a power of two. `root` says whether the whole is counted too: without it a level less shares the budget.
    """

    name: str = "hierarchical"
    branching: int = 2
    order: Order = "boxes"
    root: bool = True

    def __post_init__(self) -> None:
        if self.order not in ("boxes", "row-major", "hilbert"):
            msg = f"strategy {self.name}: order must be 'boxes', 'row-major' or 'hilbert', got {self.order!r}"
            raise InputError(msg)
        is_power = self.branching & (self.branching - 1) == 0
        if not 2 <= self.branching <= MAX_BRANCHING or (self.order == "hilbert" and not is_power):
            allowed = "a power of two from 2" if self.order == "hilbert" else "from 2"
            msg = f"strategy {self.name}: branching must be {allowed} to {MAX_BRANCHING}, got {self.branching!r}"
            raise InputError(msg)

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters, for the release's manifest."""
        return {"branching": self.branching, "order": self.order, "root": self.root}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of a tree of two nodes for each cell at most (a Hilbert curve's: of the square around)."""
        cells = padded_cells(shape) if self.order == "hilbert" else int(np.prod(shape, dtype=object))
        return peak_bytes_of_tree(shape, 2 * cells)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count every node of the tree in one call.

        Privacy: a cell is in one box of each level, and a leaf has what the levels below it leave: every cell is
        charged the sum of the levels' budgets, the whole (the counter refuses more).
        """
        grown = tree_of_levels(counter.shape, regular_levels(counter.shape, self.branching, self.order))
        return measured_tree(counter, grown, level_units(grown, even_budgets(len(grown.nodes), root=self.root)))


def even_budgets(levels: int, *, root: bool) -> list[int]:
    """Return equal units for each level, the last with what rounding leaves; none for the root unless it is counted.

    >>> even_budgets(2, root=False) == [0, BUDGET_UNITS]
    True
    """
    counted = levels if root or levels == 1 else levels - 1
    units = [BUDGET_UNITS // counted] * counted
    units[-1] += BUDGET_UNITS - sum(units)
    return [0] * (levels - counted) + units


def regular_levels(shape: tuple[int, ...], branching: int, order: Order = "boxes") -> list[BoxLevel]:
    """Return the levels of the tree that cuts everything alike, down to single cells."""
    if order == "hilbert":
        return hilbert_levels(shape, branching)
    if order == "boxes":
        return grown_levels(shape, lambda lengths: np.minimum(lengths, branching))
    return grown_levels(shape, lambda lengths: _first_long_axis(lengths, branching))


def _first_long_axis(lengths: Ints, branching: int) -> Ints:
    """Return parts of one for every axis but the first that is longer than a cell: later axes vary faster."""
    is_long = lengths > 1
    is_first = is_long & (np.cumsum(is_long, axis=1) == 1)
    return np.where(is_first, np.minimum(lengths, branching), 1)
