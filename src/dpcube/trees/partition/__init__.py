"""V-optimal kd-trees grown from noisy counts."""

from dpcube.trees.partition.growth import grow
from dpcube.trees.partition.variance import weighted_variance

__all__ = ["grow", "weighted_variance"]
