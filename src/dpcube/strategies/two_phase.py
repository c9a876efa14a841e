"""Algorithms 2 and 3 of the paper: noisy cells, a kd-tree learnt from them, noisy counts of its boxes."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell, share_units
from dpcube.core.errors import InputError
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.measurements.file import NUMBERS_AT_A_TIME
from dpcube.noise.law import DiscreteLaplace
from dpcube.strategies.strategy import STARTING, OfCells, Parameter
from dpcube.trees.growth import grow

MAX_CELL_COUNT = 2**30
"""Cell counts are clipped to this for the partition, so that no sum of squares overflows, whatever the rows hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPhase(OfCells):
    """The paper's DPCube: phase I measures cells with `share` of the budget, phase II the boxes with the rest.

    A box is split while the variance of its noisy cells, less the variance that the noise alone would give them,
    exceeds `threshold` (in squared counts). The default, `slack` standard deviations of that noise variance, follows
    from the noise and needs no tuning. The literal paper is `TwoPhase(noise_corrected=False, slack=0, threshold=xi0)`.
    """

    name: str = "dpcube"
    share: Fraction = Fraction(1, 2)
    rule: Literal["best", "longest"] = "best"  # note P3
    weight: Literal["cells", "records"] = "cells"  # note P4
    threshold: float = 0.0
    noise_corrected: bool = True  # note P5
    slack: float = 1.0
    min_cells: int = 1
    max_depth: int | None = None
    max_boxes: int | None = None
    partition_on: Literal["counts", "records"] = "counts"  # note P10

    def __post_init__(self) -> None:
        self._check(Fraction(1, 1000) <= self.share <= Fraction(999, 1000), "share", "between 0.001 and 0.999")
        self._check(self.rule in ("best", "longest"), "rule", "'best' or 'longest'")
        self._check(self.weight in ("cells", "records"), "weight", "'cells' or 'records'")
        self._check(0 <= self.threshold < np.inf, "threshold", "a number that is not negative")
        self._check(0 <= self.slack < np.inf, "slack", "a number that is not negative")
        self._check(self.min_cells >= 1, "min_cells", "at least 1")
        self._check(self.max_depth is None or self.max_depth >= 0, "max_depth", "None or at least 0")
        self._check(self.max_boxes is None or self.max_boxes >= 1, "max_boxes", "None or at least 1")
        self._check(self.partition_on in ("counts", "records"), "partition_on", "'counts' or 'records'")

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters, for the release's manifest."""
        names = ("rule", "weight", "threshold", "noise_corrected", "slack", "min_cells", "max_depth", "max_boxes")
        others: dict[str, Parameter] = {name: getattr(self, name) for name in names}
        return {"share": str(self.share), **others, "partition_on": self.partition_on}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the counts with a tree of as many boxes as there can be, one for each cell at most.

        Real trees are far smaller; how much smaller depends on the rows, so it may not decide whether a run fails.
        While the tree grows there are tables of sums, and boxes that wait; then its bounds (two nodes a box), and those
        of its boxes once more, for the gate; last the file's bytes, and the part of the tree written at a time.
        """
        cells, axes = math.prod(shape), len(shape)
        boxes = self._most_boxes(cells)
        waiting = 0 if self.max_boxes is None else boxes * (160 + 16 * axes)
        growing = 48 * cells + 64 * boxes + 64 * sum(shape) + waiting
        counting = 20 * cells + (112 + 48 * axes) * boxes
        saving = 28 * cells + (84 + 36 * axes) * boxes + 8 * (2 * axes + 1) * min(2 * boxes, NUMBERS_AT_A_TIME)
        return STARTING + max(growing, counting, saving)

    def _most_boxes(self, cells: int) -> int:
        by_depth = cells if self.max_depth is None or self.max_depth >= cells.bit_length() else 2**self.max_depth
        by_number = cells if self.max_boxes is None else self.max_boxes
        return min(cells, max(cells // self.min_cells, 1), by_depth, by_number)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure cells, grow the tree on them, measure its leaves.

        Privacy: phase I costs `share` of every cell's budget; the tree is a function of phase I's output; the leaves
        are disjoint, so phase II costs what is left of it. The sum is the whole budget (sequential composition).
        """
        cell_units = share_units(self.share)
        noisy_cells = every_cell(counter, cell_units)
        noise_variance = DiscreteLaplace(cell_units * counter.epsilon_per_unit).variance
        tree = grow(
            np.clip(noisy_cells, 0 if self.partition_on == "records" else -MAX_CELL_COUNT, MAX_CELL_COUNT),
            threshold=self.threshold,
            rule=self.rule,
            weight=self.weight,
            noise_variance=noise_variance if self.noise_corrected else 0.0,
            slack=self.slack,
            min_cells=self.min_cells,
            max_depth=self.max_depth,
            max_boxes=self.max_boxes,
        )
        box_units = np.full(len(tree.leaves), BUDGET_UNITS - cell_units, np.int64)
        noisy_boxes = counter.boxes(tree.partitioning(), box_units)
        return Transcript(
            counter.shape,
            counter.epsilon_per_unit,
            (Marginal.from_cells(noisy_cells, cell_units), BoxCounts(tree, tree.leaves, noisy_boxes, box_units)),
        )

    def _check(self, holds: bool, parameter: str, allowed: str) -> None:  # noqa: FBT001
        if not holds:
            msg = f"strategy dpcube: {parameter} must be {allowed}, got {getattr(self, parameter)!r}"
            raise InputError(msg)
