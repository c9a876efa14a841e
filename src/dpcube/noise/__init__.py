"""The law of the noise: variance, tails, and quantiles of sums. No float of this package reaches the sampler.

`law.py` is one value of the discrete law, by its epsilon; `single.py` one value of either law, as functions of arrays;
`sums.py` sums of values of the discrete law. `contour.py` is how tails are computed, `arguments.py` how arguments are
checked.
"""

from dpcube.noise.law import DiscreteLaplace, noise_variances

__all__ = ["DiscreteLaplace", "noise_variances"]
