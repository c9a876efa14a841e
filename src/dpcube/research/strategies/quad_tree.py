"""The quad-tree of Cormode, Procopiuc, Srivastava, Shen and Yu ("Private spatial decompositions", ICDE 2012).

Every axis is halved at each level, and the budgets of the levels grow geometrically towards the cells.
"""

import math
from dataclasses import dataclass

from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import Transcript
from dpcube.research.strategies.hierarchical import Hierarchical, regular_levels
from dpcube.research.strategies.levels import level_units, measured_tree, tree_of_levels
from dpcube.strategies.strategy import Parameter


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
