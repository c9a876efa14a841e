"""Estimates of every cell from what was measured, and the noise in an answer."""

from dpcube.estimate.estimate import EqualNoises, Errors, Estimate
from dpcube.estimate.estimators import available, estimate

__all__ = ["EqualNoises", "Errors", "Estimate", "available", "estimate"]
