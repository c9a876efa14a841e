"""An estimate of a cube from a tree of boxes and from tables over a few attributes, both noisy.

`components.py` pools the tables by least squares; `fitting.py` learns how much of a noisy departure is
real, and fits a cube to given tables; `one_way.py` moves single marginals; `balanced.py` is the estimate.
"""

from dpcube.models.marginals.balanced import MAX_FITTED_CELLS, BalancedEstimate
from dpcube.models.marginals.components import LEAST_AXES, Components, NoisyTable, noisy_cells, noisy_tables

__all__ = [
    "LEAST_AXES",
    "MAX_FITTED_CELLS",
    "BalancedEstimate",
    "Components",
    "NoisyTable",
    "noisy_cells",
    "noisy_tables",
]
