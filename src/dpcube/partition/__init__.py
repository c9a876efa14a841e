"""Trees of boxes learnt from noisy counts."""

from dpcube.partition.growth import grow
from dpcube.partition.tree import BoxTree
from dpcube.partition.variance import weighted_variance

__all__ = ["BoxTree", "grow", "weighted_variance"]
