"""The transcript: everything that was measured, which is all that a release is.

Estimators are functions of it, so a better estimator can be applied to an old release at no privacy cost.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcube.compiled import compiled
from dpcube.counter import BUDGET_UNITS
from dpcube.errors import DomainError
from dpcube.geometry.tree import BoxTree
from dpcube.noise import noise_variances
from dpcube.privacy.epsilon import LARGEST_SHARE, SMALLEST_SHARE

MOST_UNITS = 2**61  # so that the sum of two such is a 64-bit integer


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """A noisy count of every cell, each measured with the same units of budget (phase I)."""

    counts: NDArray[np.int64]
    units: int

    def __post_init__(self) -> None:
        _check_counts(self.counts)
        if not 0 < self.units <= BUDGET_UNITS:
            msg = f"cells must be measured with 1 to {BUDGET_UNITS} units, got {self.units}"
            raise DomainError(msg)


@dataclass(frozen=True, slots=True, eq=False)
class BoxCounts:
    """Noisy counts of nodes of a tree of boxes (phase II): row k says node `node[k]` was measured with `units[k]`."""

    tree: BoxTree
    node: NDArray[np.int64]
    counts: NDArray[np.int64]
    units: NDArray[np.int64]

    def __post_init__(self) -> None:
        for column in (self.node, self.counts, self.units):
            _check_counts(column)
            if column.shape != self.node.shape or column.ndim != 1:
                msg = "the columns of measured boxes must have one length"
                raise DomainError(msg)
        if len(self.node) and not (self.node.min() >= 0 and self.node.max() < len(self.tree.parent)):
            msg = f"measured boxes must be nodes 0 to {len(self.tree.parent) - 1} of the tree"
            raise DomainError(msg)
        if len(self.units) and not (self.units.min() > 0 and self.units.max() <= BUDGET_UNITS):
            msg = f"boxes must be measured with 1 to {BUDGET_UNITS} units"
            raise DomainError(msg)

    def by_node(self, epsilon_per_unit: Fraction) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each node's measured count and its noise variance: repeated measurements pooled, none infinite."""
        precision = np.zeros(len(self.tree.parent))
        weighted = np.zeros(len(self.tree.parent))
        weight = 1 / noise_variances(self.units, epsilon_per_unit)
        np.add.at(precision, self.node, weight)
        np.add.at(weighted, self.node, weight * self.counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(precision > 0, weighted / precision, 0.0), 1 / precision

    def deepest_units(self) -> int:
        """Return the most units that any cell was charged: the largest sum along a path from the root to a leaf.

        A sum is exact up to 2^61, and then stays there.
        """
        return int(_path_sums(self.tree.parent, self.node, self.units).max())


@compiled
def _path_sums(parent: NDArray[np.int64], node: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
    charged = np.zeros(len(parent), np.int64)
    for row in range(len(node)):
        charged[node[row]] = min(charged[node[row]] + units[row], MOST_UNITS)
    for child in range(1, len(parent)):
        charged[child] = min(charged[child] + charged[parent[child]], MOST_UNITS)
    return charged


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """What a strategy measured: cells, boxes, or both. `epsilon_per_unit` is the noise of one unit."""

    shape: tuple[int, ...]
    epsilon_per_unit: Fraction
    cells: CellCounts | None = None
    boxes: BoxCounts | None = None

    def __post_init__(self) -> None:
        if self.cells is None and self.boxes is None:
            msg = "a transcript needs at least one measurement"
            raise DomainError(msg)
        if self.cells is not None and self.cells.counts.shape != self.shape:
            msg = f"cells of shape {self.cells.counts.shape} do not fit a cube of shape {self.shape}"
            raise DomainError(msg)
        if self.boxes is not None and self.boxes.tree.shape != self.shape:
            msg = f"boxes in shape {self.boxes.tree.shape} do not fit a cube of shape {self.shape}"
            raise DomainError(msg)
        if not self.epsilon_per_unit > 0:
            msg = f"the epsilon_per_unit of a transcript must be above 0, got {self.epsilon_per_unit}"
            raise DomainError(msg)
        for units in self._units_at_ends():
            if not SMALLEST_SHARE <= units * self.epsilon_per_unit <= LARGEST_SHARE:
                msg = f"counts measured with {units} units are measured with an epsilon outside 1e-9 to 100"
                raise DomainError(msg)

    def _units_at_ends(self) -> list[int]:
        """Return the least and the most units that anything was measured with."""
        units = [] if self.cells is None else [self.cells.units]
        if self.boxes is not None and len(self.boxes.units):
            units += [int(self.boxes.units.min()), int(self.boxes.units.max())]
        return units

    @property
    def cell_variance(self) -> float:
        """Noise variance of a phase-I cell, infinite when cells were not measured."""
        units = 0 if self.cells is None else self.cells.units
        return float(noise_variances(np.array([units]), self.epsilon_per_unit)[0])


def _check_counts(counts: NDArray[np.int64]) -> None:
    if counts.dtype != np.int64:
        msg = f"measured counts must be 64-bit integers, got {counts.dtype}"
        raise DomainError(msg)
    counts.setflags(write=False)
