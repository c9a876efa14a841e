"""The uniform baseline: a noisy total spread evenly over all cells."""

from dataclasses import dataclass

from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import Transcript
from dpcube.research.strategies.levels import (
    Grown,
    level_units,
    measured_tree,
    peak_bytes_of_tree,
    root_level,
    tree_of_levels,
)
from dpcube.strategies.strategy import Parameter


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
