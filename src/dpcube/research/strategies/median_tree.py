"""The hierarchical kd-tree of Inan, Kantarcioglu, Ghinita and Bertino (EDBT 2010), cut at private medians.

It is the kd-tree that the paper compares with. Theirs cuts at a noisy mean, which needs noisy sums; medians need the
counter's `select` alone, and are what Cormode and others (ICDE 2012) found better.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import MedianCuts
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.errors import InputError
from dpcube.measurements import BoxCounts, Selection, Transcript
from dpcube.noise.law import DiscreteLaplace
from dpcube.research.strategies.levels import BoxLevel, root_level, tree_of_levels
from dpcube.strategies.strategy import STARTING, OfCells, Parameter

HIGHEST = 30
"""A transcript has at most so many selections, one for each level, beside the tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianTree(OfCells):
    """A tree of at most `height` cuts above a leaf, with equal budgets for its levels: half to count, half to cut.

    A box is cut at its private median across the next axis in turn, or across its `widest` side, unless its noisy count
    is below `stop` standard deviations of the count's noise. What a leaf has left of its budget counts it once more;
    `leftovers=False` is the literal system, whose leaves leave it unspent.
    """

    name: str = "median_tree"
    height: int = 10
    axis: Literal["in turn", "widest"] = "in turn"
    stop: float = 2.0
    leftovers: bool = True

    def __post_init__(self) -> None:
        self._check(type(self.height) is int and 1 <= self.height <= HIGHEST, "height", f"from 1 to {HIGHEST}")
        self._check(self.axis in ("in turn", "widest"), "axis", "'in turn' or 'widest'")
        self._check(0 <= self.stop < math.inf, "stop", "a number that is not negative")

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters, for the release's manifest."""
        return {"height": self.height, "axis": self.axis, "stop": self.stop, "leftovers": self.leftovers}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the counts, of what tells boxes apart, of the cuts of a level, of the largest tree."""
        cells, axes = math.prod(shape), len(shape)
        leaves = min(cells, 1 << self._height(shape))
        cuts = min(cells, leaves * max(shape))
        return STARTING + 64 * cells + 48 * cuts + 2 * leaves * (300 + 80 * axes)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count each level, cut its boxes at private medians, and go on with the halves.

        Privacy: everything that depends on rows comes from `counter`, whose charges no cell can overdraw. The boxes of
        a level are disjoint, so a cell pays for one count and one cut of it at most; of height + 1 levels each has
        1/(height + 1) of the budget.
        """
        height = self._height(counter.shape)
        per_level = BUDGET_UNITS // (height + 1)
        to_count, to_cut = per_level // 2, per_level - per_level // 2
        tree = GrowingTree(counter)
        for depth in range(height + 1):
            boxes = np.arange(len(tree.last.parent))
            axis, can_be_cut = self._axes(tree.last, depth)
            can_be_cut &= depth < height
            left = BUDGET_UNITS - depth * per_level
            tree.count(boxes[~can_be_cut], left if self.leftovers else to_count)
            noisy = tree.count(boxes[can_be_cut], to_count)
            worth = noisy >= self.stop * math.sqrt(DiscreteLaplace(to_count * counter.epsilon_per_unit).variance)
            if self.leftovers:
                tree.count(boxes[can_be_cut][~worth], left - to_count)
            cut = boxes[can_be_cut][worth]
            if len(cut) == 0:
                break
            tree.cut(cut, axis[cut], to_cut)
        return tree.transcript()

    def _height(self, shape: tuple[int, ...]) -> int:
        """Return the height, or as much of it as halves of this shape can have."""
        return min(self.height, sum((side - 1).bit_length() for side in shape))

    def _axes(self, level: BoxLevel, depth: int) -> tuple[Ints, Bools]:
        """Return the axis that each box would be cut across, and whether it can be."""
        sides = level.upper - level.lower
        if self.axis == "widest":
            axis = np.argmax(sides, axis=1)
        else:
            turn = (depth + np.arange(sides.shape[1])) % sides.shape[1]
            axis = turn[np.argmax(sides[:, turn] > 1, axis=1)]
        return axis, np.asarray((sides > 1).any(axis=1))

    def _check(self, holds: bool, parameter: str, allowed: str) -> None:  # noqa: FBT001
        if not holds:
            msg = f"strategy median_tree: {parameter} must be {allowed}, got {getattr(self, parameter)!r:.50}"
            raise InputError(msg)


class GrowingTree:
    """What was measured so far: boxes level by level, from the whole cube, their counts and the choices of cuts."""

    def __init__(self, counter: NoisyCounter) -> None:
        self._counter, self._levels = counter, [root_level(counter.shape)]
        self._counted: list[tuple[int, Ints, Ints, Ints]] = []
        self._selections: list[Selection] = []

    @property
    def last(self) -> BoxLevel:
        """The level whose boxes are counted and cut next."""
        return self._levels[-1]

    def count(self, boxes: Ints, units: int) -> Ints:
        """Count some boxes of the last level, given by their numbers in it, with so many units each."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        each = np.full(len(boxes), units)
        noisy = self._counter.boxes(self._bounds(boxes), each)
        self._counted.append((len(self._levels) - 1, boxes, noisy, each))
        return noisy

    def cut(self, boxes: Ints, axes: Ints, units: int) -> None:
        """Cut some boxes of the last level at their private medians; their halves, lower ones first, are the next."""
        asked = self._bounds(boxes)
        cuts = MedianCuts(asked, axes)
        chosen = self._counter.select(cuts, units)
        self._selections.append(Selection.among(cuts, chosen, axes, units))
        lower, upper = np.repeat(asked.lower, 2, axis=0), np.repeat(asked.upper, 2, axis=0)
        low, places = np.arange(0, 2 * len(boxes), 2), cuts.places(chosen)
        upper[low, axes] = lower[low + 1, axes] = places
        self._levels.append(BoxLevel(lower, upper, np.repeat(boxes, 2)))

    def _bounds(self, boxes: Ints) -> Boxes:
        return Boxes(self._counter.shape, self.last.lower[boxes], self.last.upper[boxes])

    def transcript(self) -> Transcript:
        """Return everything that was measured, with the boxes in preorder."""
        grown = tree_of_levels(self._counter.shape, self._levels)
        node = np.concatenate([grown.nodes[depth][boxes] for depth, boxes, _, _ in self._counted])
        noisy, units = (np.concatenate([counted[part] for counted in self._counted]) for part in (2, 3))
        counts = BoxCounts(grown.tree, node, noisy, units)
        return Transcript(self._counter.shape, self._counter.epsilon_per_unit, (*self._selections, counts))
