"""The law of a sum of discrete Laplace noises on one lattice, or with two different weights: exact up to rounding.

Weights, parameters alpha and multiplicities enter; tails, expected absolute values and quantiles leave.
A query answered from noisy integers has an error of this kind: `weight * noise` lies on the multiples of its weight.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import fft

from dpcube.theory.arguments import Floats
from dpcube.theory.contour import lattice_scales, log_tail, tail_point

LARGEST_LATTICE = 1 << 21
# Points of a lattice that differ by less than this part of its step are the same point, computed twice.
SAME = 1e-9
_LEFT_OUT = 42.0  # exp(-42) < 1e-18 is the probability left out of a lattice's ends


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
    """`weight` times a sum of discrete Laplace variables, by the integrals of `dpcube.theory.contour`."""

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
        b, tail = lattice_scales(self.alphas), np.asarray((1 - confidence) / 2)
        point = tail_point(np.minimum(tail, 0.5), b, self.multiplicities, lattice=True)
        return self.weight * max(0.0, float(np.ceil(point - 0.5 - SAME * np.maximum(point, 1.0))))


@dataclass(frozen=True)
class TwoLattices:
    """A + B on lattices of different steps: sums over the points of A of what is tabulated for B."""

    steps: tuple[float, float]
    masses: tuple[Floats, Floats]

    @cached_property
    def _tails(self) -> Floats:
        """P(B/step > j) for j = 0, 1, ..."""
        _, mass = self.masses
        return np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)

    @cached_property
    def _points(self) -> tuple[Floats, Floats]:
        mass = self.masses[0]
        points = np.arange(1 - mass.size, mass.size)
        return self.steps[0] * points.astype(np.float64), mass[np.abs(points)]

    @cached_property
    def _mean_abs_of_b(self) -> Floats:
        """E|j + B/step| for j = 0, 1, ..."""
        excess = np.cumsum(self._tails[::-1])[::-1]
        return np.arange(excess.size) + 2 * excess

    def exceeds(self, x: float) -> float:
        """Return P(|X| > x)."""
        points, mass = self._points
        least = np.floor((x - points) / self.steps[1] + SAME).astype(np.int64) + 1
        last = self._tails.size - 1
        up = self._tails[np.clip(least - 1, 0, last)]
        down = 1 - self._tails[np.clip(-least, 0, last)]
        return float(2 * mass @ np.where(least > 0, up, down))

    def mean_abs(self, shift: float) -> float:
        """Return E|shift + X|."""
        points, mass = self._points
        at = np.abs(shift + points) / self.steps[1]
        table = self._mean_abs_of_b  # and j itself beyond its end
        means = np.where(at < table.size - 1, np.interp(at, np.arange(table.size), table), at)
        return float(self.steps[1] * (mass @ means))

    def quantile(self, confidence: float) -> float:
        """Return the smallest h with P(|X| <= h) at least `confidence`."""
        below = smallest_reach(self, confidence)
        # `exceeds` counts a point as reached from SAME below it.
        return below + SAME * self.steps[1] if below else 0.0


def smallest_reach(law: Law, confidence: float, *, within: float = 0.0) -> float:
    """Return the smallest h with P(|X| > h) at most 1 - confidence, by halving; at most `within` or rounding above."""
    left = 1 - confidence
    if law.exceeds(0.0) <= left:
        return 0.0
    low, high = 0.0, law.mean_abs(0.0)
    while law.exceeds(high) > left:
        low, high = high, 2 * high
    while high - low > max(within, 1e-13 * high):
        middle = (low + high) / 2
        low, high = (low, middle) if law.exceeds(middle) <= left else (middle, high)
    return high


def reach(alphas: Floats, multiplicities: Floats, weights: Floats | float = 1.0) -> float:
    """Return R with P(X >= R) below 1e-18 for the weighted sum X, by Chernoff's bound."""
    shares = np.linspace(0.05, 0.95, 19)[:, None]
    tilt = shares * np.min(alphas / weights)
    gone = np.log1p(-((lattice_scales(alphas) / lattice_scales(tilt * weights)) ** 2)) @ multiplicities
    return float(np.min((_LEFT_OUT - gone) / tilt[:, 0]))


def lattice_mass(alphas: Floats, multiplicities: Floats) -> Floats:
    """Return P(S = k), k = 0, 1, ..., for a sum of discrete Laplace variables, to about 1e-17 absolute.

    The transform of prod (1 + sin^2(t/2)/sinh^2(alpha_i/2))^(-k_i), which is the characteristic function.
    """
    largest = int(reach(alphas, multiplicities)) + 1
    size = fft.next_fast_len(2 * largest + 1, real=True)
    sines = np.sin(np.pi * np.arange(size // 2 + 1) / size) ** 2
    log = np.zeros_like(sines)
    for scale, count in zip(lattice_scales(alphas), multiplicities, strict=True):
        log -= count * np.log1p(4 * scale**2 * sines)
    mass: Floats = fft.irfft(np.exp(log), size)
    return np.maximum(mass[: largest + 1], 0.0)
