"""The law of a sum of discrete Laplace noises of one weight: exact up to rounding. And what the other laws share.

A weight, parameters alpha and multiplicities enter; tails, expected absolute values and quantiles leave.
A query answered from noisy integers has an error of this kind: `weight * noise` lies on the multiples of its weight.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.noise.contour import SAME, lattice_quantile, lattice_scales, log_tail

_LEFT_OUT = 42.0  # exp(-42) < 1e-18
_TILTS = np.linspace(0.05, 0.95, 19)[:, None]  # at which Chernoff's bound is tried, of the largest


class Law(Protocol):
    """The law of a symmetric sum X of noises."""

    def exceeds(self, x: float) -> float:
        """Return P(|X| > x)."""

    def mean_abs(self, shift: float) -> float:
        """Return E|shift + X|."""

    def quantile(self, confidence: float) -> float:
        """Return the smallest h with P(|X| <= h) at least `confidence`."""


@dataclass(frozen=True, slots=True)
class OneLattice:
    """`weight` times a sum of discrete Laplace variables, by the integrals of `dpcube.noise.contour`."""

    weight: float
    alphas: Floats
    multiplicities: Floats

    def exceeds(self, x: float) -> float:
        """Return P(|X| > x)."""
        above = np.floor(np.asarray(x / self.weight + SAME)) + 0.5
        log, _ = log_tail(above, lattice_scales(self.alphas), self.multiplicities, order=1, lattice=True)
        return float(2 * np.exp(log))

    def mean_abs(self, shift: float) -> float:
        """Return E|shift + X|, which is linear in the shift between two points of the lattice."""
        at = abs(shift) / self.weight
        ends = np.floor(at) + np.array([0.0, 1.0])
        log, _ = log_tail(ends, lattice_scales(self.alphas), self.multiplicities, order=2, lattice=True)
        return float(self.weight * np.interp(at, ends, ends + 2 * np.exp(log)))

    def quantile(self, confidence: float) -> float:
        """Return the smallest h with P(|X| <= h) at least `confidence`."""
        whole = lattice_quantile(np.asarray(confidence), lattice_scales(self.alphas), self.multiplicities)
        return self.weight * float(whole)


def bracket(law: Law, confidence: float, *, start: float, within: float) -> tuple[float, float]:
    """Return l < h, at most `within` apart, with P(|X| > l) above 1 - confidence and P(|X| > h) not, or two zeros.

    `start` is where h is first looked for.
    The method of interpolation, truncation and projection (Oliveira and Takahashi 2020) on the logarithm of the tail:
    a few evaluations where the tail is smooth, and never more than one above those of halving, which staircases need.
    """

    def excess(x: float) -> float:
        return math.log(max(law.exceeds(x), 1e-300) / (1 - confidence))

    low, above = 0.0, excess(0.0)
    if above <= 0:
        return 0.0, 0.0
    high = start
    while (below := excess(high)) > 0:
        low, above, high = high, below, 1.5 * high
    halvings = max(math.ceil(math.log2((high - low) / within)), 0)
    while high - low > within:
        middle, secant = (low + high) / 2, low + (high - low) * above / (above - below)
        slack = within / 2 * 2.0 ** (halvings + 1) - (high - low) / 2
        nudge = min(0.2 * (high - low) ** 2 / start, abs(middle - secant))
        nearer = secant + math.copysign(nudge, middle - secant)
        x = min(max(nearer, middle - slack), middle + slack)
        if (tail := excess(x)) > 0:
            low, above = x, tail
        else:
            high, below = x, tail
        halvings -= 1
    return low, high


def reach(
    alphas: Floats, multiplicities: Floats, weights: Floats | float = 1.0, *, left_out: float = _LEFT_OUT
) -> float:
    """Return R with P(X >= R) at most exp(-left_out), 1e-18, for the weighted sum X, by Chernoff's bound."""
    tilt = _TILTS * (alphas / weights).min()
    gone = np.log1p(-((lattice_scales(alphas) / lattice_scales(tilt * weights)) ** 2)) @ multiplicities
    return float(((left_out - gone) / tilt[:, 0]).min())
