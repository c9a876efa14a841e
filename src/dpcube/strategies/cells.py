"""Algorithm 1 of the paper: a noisy count of every cell, with the whole budget."""

import math
from dataclasses import dataclass

from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.measurements import Marginal, Transcript
from dpcube.strategies.strategy import STARTING, OfCells, Parameter


@dataclass(frozen=True, slots=True)
class Cells(OfCells):
    """Count every cell; no structure is learnt. Cells are disjoint, so the cost is the whole budget once."""

    name: str = "cells"

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there are no parameters."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of exact counts, noisy counts, and the file's bytes."""
        return STARTING + 26 * math.prod(shape)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure every cell with all units."""
        noisy = every_cell(counter, BUDGET_UNITS)
        return Transcript(counter.shape, counter.epsilon_per_unit, (Marginal.from_cells(noisy, BUDGET_UNITS),))
