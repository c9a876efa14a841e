"""The law of a sum of discrete Laplace noises with any number of weights, from one Fourier series.

Weights, parameters alpha and multiplicities enter; tails, expected absolute values and quantiles leave.

Let phi be the characteristic function of the sum X, and let |X| stay below L (but for a probability of 1e-18). A
triangle wave and a square wave of half-period L are |x| and sign(x) there, so with t_n = n pi / L, n odd,

    E|b + X| = L/2 - (4 L / pi^2) sum phi(t_n) cos(b t_n) / n^2,     P(|X| < x) = (4 / pi) sum phi(t_n) sin(x t_n) / n.

As X is discrete phi does not decay, and the series is cut by giving X a normal blur of standard deviation
tau = 5e-6 L, some 10^-4 of the standard deviation of X. What the blur adds to the mean is extrapolated away from three
of them: it is linear in tau for probability sitting at -b, quadratic for probability spread around it.

Accuracy of the mean, measured on 250 random pairs of weights against the exact law of two lattices: relative error 3e-9
in the median, 6e-8 at the 90th percentile, 1.4e-6 at most (no bound is proved). A tail is that of the blurred X. A
quantile is widened by 6 tau, so that P(|X| <= quantile) is at least the confidence less 2e-9, and is less than 13 tau
above the smallest such number: up to 0.004 standard deviations in those pairs.
"""

from dataclasses import dataclass

import numpy as np

from dpcube.theory.arguments import Floats
from dpcube.theory.contour import lattice_scales
from dpcube.theory.lattices import reach, smallest_reach

BLUR = 5e-6
# The normal blur has exp(-37) left of it at the last node, and nodes below exp(-45) are dropped.
_LAST = 8.6
_NEGLIGIBLE = -45.0


@dataclass(frozen=True)
class ManyLattices:
    """Sums over the odd harmonics at which the characteristic function is not negligible."""

    half_period: float
    orders: Floats
    log_phi: Floats

    @classmethod
    def of(cls, weights: Floats, alphas: Floats, multiplicities: Floats, *, shift: float = 0.0) -> "ManyLattices":
        """Return the law of sum of weights * noises; `shift` is the largest to be asked for."""
        half_period = 2 * reach(alphas, multiplicities, weights) + abs(shift)
        orders = np.arange(1.0, _LAST / (BLUR * np.pi), 2.0)
        log = -0.5 * (BLUR * np.pi * orders) ** 2
        order_of_terms = np.argsort(-multiplicities * lattice_scales(alphas) ** 2)
        for i in order_of_terms:
            kept = log > _NEGLIGIBLE
            orders, log = orders[kept], log[kept]
            sines = np.sin(weights[i] * np.pi / (2 * half_period) * orders)
            log = log - multiplicities[i] * np.log1p((2 * lattice_scales(alphas[i]) * sines) ** 2)
        return cls(half_period, orders, log)

    @property
    def blur(self) -> float:
        """The standard deviation of the blur."""
        return BLUR * self.half_period

    def exceeds(self, x: float) -> float:
        """Return P(|X| > x), blurred."""
        waves = np.sin(x * np.pi / self.half_period * self.orders) / self.orders
        return float(1 - 4 / np.pi * np.exp(self.log_phi) @ waves)

    def mean_abs(self, shift: float) -> float:
        """Return E|shift + X|."""
        waves = np.cos(shift * np.pi / self.half_period * self.orders) / self.orders**2
        once = (BLUR * np.pi * self.orders) ** 2 / 2  # log_phi holds one blur: 4 and 16 of them are twice and 4x tau
        sums = [np.exp(self.log_phi - more * once) @ waves for more in (0, 3, 15)]
        extrapolated = float(np.dot([8 / 3, -2, 1 / 3], sums))
        return self.half_period * (0.5 - 4 / np.pi**2 * extrapolated)

    def quantile(self, confidence: float) -> float:
        """Return h, a little above the smallest with P(|X| <= h) at least `confidence`."""
        if confidence > 1 - 1e-12:  # rounding hides such tails; |X| exceeds half of L with probability 2e-18
            return self.half_period / 2
        return smallest_reach(self, confidence, within=0.1 * self.blur) + 6 * self.blur
