"""Trees of boxes learnt from noisy counts."""

from dpcube.partition.growth import grow
from dpcube.partition.variance import weighted_variance

__all__ = ["grow", "weighted_variance"]
