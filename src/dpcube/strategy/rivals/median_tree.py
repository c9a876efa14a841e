"""The hierarchical kd-tree of Inan, Kantarcioglu, Ghinita and Bertino (EDBT 2010), cut at private medians.

It is the kd-tree that the paper compares with. Theirs cuts at a noisy mean, which needs noisy sums; medians need the
counter's `choose` alone, and are what Cormode and others (ICDE 2012) found better.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from dpcube.arrays import Bools, Ints
from dpcube.candidates import MedianCuts
from dpcube.compiled import compiled
from dpcube.counter import BUDGET_UNITS, NoisyCounter
from dpcube.errors import InputError
from dpcube.geometry.boxes import Boxes
from dpcube.geometry.tree import BoxTree
from dpcube.noise.law import DiscreteLaplace
from dpcube.strategy.strategy import STARTING, Parameter
from dpcube.transcript import BoxCounts, Choice, Transcript

HIGHEST = 30
"""A transcript holds choices of so many levels beside the tree."""


class Level(NamedTuple):
    """Boxes of one depth: bounds of shape (boxes, axes), and the number of each one's parent among all boxes."""

    lower: Ints
    upper: Ints
    parent: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianTree:
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
        """Return what was chosen, for the release's manifest."""
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
        seen, level = Seen(counter), _whole(counter.shape)
        for depth in range(height + 1):
            boxes = seen.add(level)
            axis, can_be_cut = self._axes(level, depth)
            can_be_cut &= depth < height
            left = BUDGET_UNITS - depth * per_level
            seen.count(boxes[~can_be_cut], left if self.leftovers else to_count)
            noisy = seen.count(boxes[can_be_cut], to_count)
            worth = noisy >= self.stop * math.sqrt(DiscreteLaplace(to_count * counter.epsilon_per_unit).variance)
            if self.leftovers:
                seen.count(boxes[can_be_cut][~worth], left - to_count)
            cut = np.flatnonzero(can_be_cut)[worth]
            if len(cut) == 0:
                break
            level = seen.cut(boxes[cut], axis[cut], to_cut)
        return seen.transcript()

    def _height(self, shape: tuple[int, ...]) -> int:
        """Return the height, or as much of it as halves of this shape can have."""
        return min(self.height, sum((side - 1).bit_length() for side in shape))

    def _axes(self, level: Level, depth: int) -> tuple[Ints, Bools]:
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


def _whole(shape: tuple[int, ...]) -> Level:
    return Level(np.zeros((1, len(shape)), np.int64), np.array([shape]), np.array([-1]))


class Seen:
    """What was measured so far: all boxes, level by level, their counts and the choices of cuts."""

    def __init__(self, counter: NoisyCounter) -> None:
        self._counter, self._shape = counter, counter.shape
        self._levels: list[Level] = []
        self._number = 0
        self._counted: list[tuple[Ints, Ints, Ints]] = []
        self._choices: list[Choice] = []

    def add(self, level: Level) -> Ints:
        """Add the boxes of a level; return the number of each among all boxes."""
        self._levels.append(level)
        first, self._number = self._number, self._number + len(level.parent)
        return np.arange(first, self._number)

    def count(self, boxes: Ints, units: int) -> Ints:
        """Count some boxes of the last level with so many units each."""
        if len(boxes) == 0:
            return np.empty(0, np.int64)
        each = np.full(len(boxes), units)
        noisy = self._counter.count_boxes(self._bounds(boxes), each)
        self._counted.append((boxes, noisy, each))
        return noisy

    def cut(self, boxes: Ints, axes: Ints, units: int) -> Level:
        """Cut some boxes of the last level at their private medians; return the halves, lower ones first."""
        asked = self._bounds(boxes)
        cuts = MedianCuts(asked, axes)
        chosen = self._counter.choose(cuts, units)
        self._choices.append(Choice(cuts, chosen, units))
        lower, upper = np.repeat(asked.lower, 2, axis=0), np.repeat(asked.upper, 2, axis=0)
        low, places = np.arange(0, 2 * len(boxes), 2), cuts.places(chosen)
        upper[low, axes] = lower[low + 1, axes] = places
        return Level(lower, upper, np.repeat(boxes, 2))

    def _bounds(self, boxes: Ints) -> Boxes:
        level = self._levels[-1]
        rows = boxes - (self._number - len(level.parent))
        return Boxes(self._shape, level.lower[rows], level.upper[rows])

    def transcript(self) -> Transcript:
        """Return everything that was measured, with the boxes in preorder."""
        lower, upper, parent = (np.concatenate(part) for part in zip(*self._levels, strict=True))
        place = _preorder(parent)
        order = np.argsort(place)
        tree = BoxTree(self._shape, lower[order], upper[order], np.where(parent < 0, -1, place[parent])[order])
        boxes, noisy, units = (np.concatenate(part) for part in zip(*self._counted, strict=True))
        counts = BoxCounts(tree, place[boxes], noisy, units)
        return Transcript(self._shape, self._counter.epsilon_per_unit, (*self._choices, counts))


@compiled
def _preorder(parent: Ints) -> Ints:
    """Return the place of each box in preorder: boxes come level by level, halves of one box side by side."""
    inside = np.ones(len(parent), np.int64)  # boxes in the subtree of each
    for box in range(len(parent) - 1, 0, -1):
        inside[parent[box]] += inside[box]
    place = np.zeros(len(parent), np.int64)
    for box in range(1, len(parent), 2):
        place[box] = place[parent[box]] + 1
        place[box + 1] = place[box] + inside[box]
    return place
