"""One model behind the tables of a wide release: the most even cube that agrees with them as far as noise allows.

Enters: noisy tables over few attributes each. Leaves: a junction tree of small tables that answers for all attributes.
"""

from dpcube.models.cuboids.estimate import CuboidsEstimate

__all__ = ["CuboidsEstimate"]
