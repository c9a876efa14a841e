"""Hierarchical counts (Hay, Rastogi, Miklau, Suciu, PVLDB 2010): every box of a regular tree, down to single cells.

The counts are made consistent by least squares, which is the estimate `tree_least_squares`. In more than one dimension
the tree is one of three: every axis is cut at each level (`boxes`: a quad-tree in 2-D), or the cells stand in a row, in
row-major order or along a Hilbert curve, and the row is cut. Both rows give boxes: an aligned run of row-major cells is
a box if the axes are cut one after another, and an aligned run of 2^k cells of a Hilbert curve is a box because each
step of the curve fills one half of a square (a cube) before the other.

*HB* (Qardaji, Yang, Li, "Understanding hierarchical methods for differentially private histograms", PVLDB 2013): a
regular tree with equal budgets for its levels, the root not counted, its branching selected to make ranges accurate.

*The quad-tree* of Cormode, Procopiuc, Srivastava, Shen and Yu ("Private spatial decompositions", ICDE 2012): every
axis is halved at each level, and the budgets of the levels grow geometrically towards the cells.
"""

import math
from collections.abc import Callable
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


FLAT = 3
"""From so many axes on a tree hardly ever reduces the error (their section 5), so cells alone are counted."""


@dataclass(frozen=True, slots=True)
class HB:
    """`Hierarchical` with the branching of least expected error, a function of the public shape."""

    name: str = "hb"

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there are no parameters."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the regular tree."""
        return Hierarchical().peak_bytes(shape)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count the regular tree of the branching that fits the shape: proof as there."""
        return Hierarchical(branching=best_branching(counter.shape), root=False).run(counter)


def best_branching(shape: tuple[int, ...]) -> int:
    """Return the branching of least expected error of a range.

    With h levels, the error of a range in a row of n cells is proportional to (b - 1) h^3 - 2 (b + 1) h^2/3 (their
    equation 3), and that of a rectangle in a square of side n to b (n - 1) h^2 (their section 5.1). Sides that differ
    are taken for the square of as many cells.

    >>> [best_branching((n,)) for n in (256, 1024, 4096)], best_branching((128, 128))
    ([16, 32, 16], 12)
    """
    sides = [extent for extent in shape if extent > 1]
    if len(sides) in (0, 1):
        return _least(sides[0] if sides else 2, lambda b, h: (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3)
    if len(sides) >= FLAT:
        return min(max(sides), MAX_BRANCHING)
    return _least(math.isqrt(math.prod(sides)), lambda b, h: b * h**2)


def _least(side: int, error: Callable[[int, int], float]) -> int:
    """Return the branching of least error among 2 to the side: of those with equal numbers of levels, the smallest."""
    candidates = {levels: _root(side, levels) for levels in range(1, max(side - 1, 1).bit_length() + 1)}
    return min(candidates.values(), key=lambda b: (error(b, _levels(side, b)), b))


def _root(side: int, levels: int) -> int:
    """Return the least branching (from 2) with which so many levels reach single cells."""
    branching: int = max(2, math.floor(side ** (1 / levels)) - 1)
    while branching**levels < side:
        branching += 1
    return min(branching, MAX_BRANCHING)


def _levels(side: int, branching: int) -> int:
    levels, reached = 0, 1
    while reached < side:
        levels, reached = levels + 1, reached * branching
    return max(levels, 1)


@dataclass(frozen=True, slots=True)
class QuadTree:
    """Count every node of the tree of halves, the budget of a level being 2^((axes - 1)/3) that of the level above."""

    name: str = "quad_tree"

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there are no parameters."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the regular tree."""
        return Hierarchical().peak_bytes(shape)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count every node in one call; a cell is in one box of each level, so it is charged the whole budget."""
        grown = tree_of_levels(counter.shape, regular_levels(counter.shape, 2))
        budgets = geometric_budgets(len(grown.nodes), sum(extent > 1 for extent in counter.shape))
        return measured_tree(counter, grown, level_units(grown, budgets))


def geometric_budgets(levels: int, axes: int) -> list[int]:
    """Return the units of each level, the root's first; the last has what rounding leaves.

    At depth i a range's border meets some 2^((axes - 1) i) boxes, and sum of m_i/e_i^2 is least for e_i proportional to
    m_i^(1/3): in 2-D the paper's rule, in 1-D equal budgets.

    >>> [round(units / BUDGET_UNITS, 4) for units in geometric_budgets(5, 2)]
    [0.1195, 0.1506, 0.1897, 0.239, 0.3012]
    """
    ratio = 2 ** ((max(axes, 1) - 1) / 3)
    weights = [ratio ** (depth - levels) for depth in range(levels)]
    units = [max(math.floor(BUDGET_UNITS * weight / sum(weights)), 1) for weight in weights[:-1]]
    return [*units, BUDGET_UNITS - sum(units)]
