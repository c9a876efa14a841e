"""Distributions of Laplace noise and of its sums, in floating point. No float of this package reaches the sampler.

law      one value and sums of values: variance, probabilities, quantiles
contour  numerical integration behind sums
special  the normal law, the chi-square tail, the logistic function
"""

from dpcube.noise.law import DiscreteLaplace, noise_variances

__all__ = ["DiscreteLaplace", "noise_variances"]
