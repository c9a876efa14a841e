"""PrivTree (Zhang, Xiao, Xie, "PrivTree: a differentially private algorithm for hierarchical decompositions", 2016).

A box is cut in halves on every axis (or on some axes at a time, if there are many; or on one alone, in the order of our
own trees) while its count, less a bias for each cut above it, plus noise is above a threshold. With fan-out b the noise
has scale l = (2b - 1)/((b - 1) epsilon) and the bias is l ln b: below the first box that the bias brings to its floor,
what a row can change shrinks geometrically, so the whole tree costs epsilon however deep it is. Half of epsilon pays
for the tree, half for the counts of its leaves.

The decisions are proved as a whole, not level by level, which the gate cannot account for: research code.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.boxes import Boxes, box_sums, filled_boxes
from dpcube.queries.workload_model import WorkloadModel
from dpcube.research.rivals.rival import PURE, checked
from dpcube.research.strategies.levels import BoxLevel, parted, root_level
from dpcube.trees.halving import CutOrder

MAX_AXES = 3
"""Axes cut at a time, in turn, where a cube has more: 2^axes boxes at once are too many."""


@dataclass(frozen=True, slots=True)
class PrivTree:
    """The tree by noisy, biased counts, and noisy counts of its leaves, spread evenly.

    With `one_axis` a box is cut in two, across the axis whose cut matters most to ranges, as `adaptive` would.
    """

    name: str = "privtree"
    one_axis: bool = False
    share_of_tree: float = 0.5
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated counts."""
        exact = checked(counts, epsilon)
        boxes = self._leaves(exact, self.share_of_tree * epsilon, rng)
        scale = 1 / ((1 - self.share_of_tree) * epsilon)
        noisy = box_sums(exact, boxes) + rng.laplace(scale=scale, size=len(boxes))
        return filled_boxes(boxes, noisy / boxes.sizes)

    def _leaves(self, exact: Floats, epsilon: float, rng: np.random.Generator) -> Boxes:
        axes = 1 if self.one_axis else min(exact.ndim, MAX_AXES)
        order = WorkloadModel(exact.shape, ("ranges",) * exact.ndim).cut_order() if self.one_axis else None
        scale, bias = noise_and_bias(2**axes, epsilon)
        level, depth, kept = root_level(exact.shape), 0, []
        while True:
            boxes = Boxes(exact.shape, level.lower, level.upper)
            biased = np.maximum(box_sums(exact, boxes) - depth * bias, -bias)
            is_cut = (boxes.sizes > 1) & (biased + rng.laplace(scale=scale, size=len(boxes)) > 0)
            kept.append((level.lower[~is_cut], level.upper[~is_cut]))
            if not is_cut.any():
                return Boxes(exact.shape, *(np.concatenate(side) for side in zip(*kept, strict=True)))
            parts = halves(level, is_cut, axes) if order is None else halves_in_order(level, is_cut, order)
            level, depth = parted(level, parts), depth + 1


def noise_and_bias(fan_out: int, epsilon: float) -> tuple[float, float]:
    """Return the scale of the noise of a decision, and the bias of each cut above it.

    >>> [round(number, 4) for number in noise_and_bias(4, 1.0)]
    [2.3333, 3.2347]
    """
    scale = (2 * fan_out - 1) / ((fan_out - 1) * epsilon)
    return scale, scale * math.log(fan_out)


def halves(level: BoxLevel, is_cut: Bools, axes: int) -> Ints:
    """Return the parts of each box: two along its longest axes of more than one cell, at most `axes` of them."""
    lengths = level.upper - level.lower
    rank = np.argsort(np.argsort(-lengths, axis=1, kind="stable"), axis=1, kind="stable")
    return np.where(is_cut[:, None] & (lengths > 1) & (rank < axes), 2, 1)


def halves_in_order(level: BoxLevel, is_cut: Bools, order: CutOrder) -> Ints:
    """Return the parts of each box: two on the one axis whose cut is worth most."""
    chosen = order.axes_of(level.lower, level.upper)[:, None] == np.arange(level.lower.shape[1])
    return np.where(is_cut[:, None] & chosen, 2, 1)
