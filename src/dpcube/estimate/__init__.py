"""Estimates of every cell from what was measured, and the noise in an answer."""

from dpcube.estimate.estimate import Estimate, Estimated
from dpcube.estimate.estimators import available, estimate

__all__ = ["Estimate", "Estimated", "available", "estimate"]
