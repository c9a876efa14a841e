"""The interface of a rival: exact counts of public data and an epsilon to estimated counts.

Research code: the noise is of floats from a seeded generator, so the results are **not private**, whatever definition a
system satisfies in its proof. For public data only. Boxes of a flat array are visited by runs: the cells of a box that
lie side by side in the array, along the last axis.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.core.errors import InputError
from dpcube.research.tables import experiment
from dpcube.strategies import FittedStrategy
from dpcube.testing import SeededNoise

NOT_PRIVATE = "not private: made for research with seeded noise"
"""What must stand beside everything that a rival makes here."""
PURE = "epsilon-DP, add or remove one row"
"""The privacy definition of every system here, as published or as proved in docs/research/rivals.md."""


class Rival(Protocol):
    """A system to compare with. `privacy` is the definition that it meets when its noise is real."""

    @property
    def name(self) -> str:
        """Name of the system."""
        ...

    @property
    def privacy(self) -> str:
        """The privacy definition, in words."""
        ...

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated count of every cell, in the shape of the exact counts."""
        ...


@dataclass(frozen=True, slots=True)
class OfStrategy:
    """A strategy as a rival: released behind the gate with seeded noise, and one of its estimates taken."""

    strategy: FittedStrategy
    estimate: str = "auto"
    privacy: str = PURE

    @property
    def name(self) -> str:
        """Name of the strategy."""
        return self.strategy.name

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated counts of a release with noise from the generator."""
        noise = SeededNoise(int(rng.integers(2**63)))
        return experiment(counts, epsilon=epsilon, strategy=self.strategy, noise=noise).cells(self.estimate)


def checked(counts: Ints, epsilon: float) -> Floats:
    """Return the counts as floats; refuse anything but counts, and an epsilon that is not above 0."""
    array = np.asarray(counts)
    if array.ndim == 0 or array.size == 0 or array.dtype.kind not in "iu" or (array < 0).any():
        msg = f"a rival needs an array of whole numbers from 0 with at least one cell, got {array.dtype} {array.shape}"
        raise InputError(msg)
    if not 0 < epsilon < np.inf:
        msg = f"a rival needs an epsilon above 0, got {epsilon!r}"
        raise InputError(msg)
    return array.astype(np.float64)


@compiled
def place_of(index: Ints, shape: Ints) -> int:
    """Return the place in the flat array of the cell with this index."""
    place = 0
    for axis in range(len(shape)):
        place = place * shape[axis] + index[axis]
    return place


@compiled
def goes_on(index: Ints, low: Ints, high: Ints) -> bool:
    """Move an index, in place, from the start of a run to that of the next run of the box; False after the last."""
    for axis in range(len(low) - 2, -1, -1):
        index[axis] += 1
        if index[axis] < high[axis]:
            return True
        index[axis] = low[axis]
    return False
