"""Maximum-entropy model of the noisy marginals of a wide release, on a junction tree.

The marginals are over few attributes each; the cliques of the tree are small tables that answer for all attributes.
"""

from dpcube.models.cuboids.estimate import CuboidsEstimate

__all__ = ["CuboidsEstimate"]
