"""The law of a sum of discrete Laplace noises of a few different weights, from its points one by one: exact to 1e-10.

Noises of one weight lie on one lattice and enter as a `Lattice`; tails, expected absolute values and quantiles leave.

The sum is C + B + A: C on the lattice with most points, B on the next, A on all others together. What is wanted of C at
every place is a table, so the work is a sum over the points of A and B, 3 ns each. Of these only the likely ones are
visited, those within exp(-35) of the likeliest: in d lattices of Laplace noises that is 1/(d-1)! of all, and leaves out
a probability of about exp(-35) 35^(d-1)/(d-1)!, 4e-13 for three lattices and 4e-11 for five.

Of noises of one weight the law is exact up to rounding. A query answered from noisy integers has an error of this kind:
`weight * noise` lies on the multiples of its weight.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Protocol

import numpy as np
from scipy import fft

from dpcube.core.arrays import Floats
from dpcube.core.compiled import compiled
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


# Beyond these, `many_lattices` is faster: points of one of two lattices, of one of more, of all of them.
LARGEST_OF_TWO, LARGEST_OF_MORE = 1 << 15, 1 << 12
MAX_POINTS = 1 << 21
_UNLIKELY = np.exp(-35.0)
_SORTED = 1 << 16


@dataclass(frozen=True, slots=True)
class Lattice:
    """The multiples of `step`, with P(step * k) = mass[|k|]."""

    step: float
    mass: Floats

    @classmethod
    def of_noises(cls, step: float, alphas: Floats, multiplicities: Floats, *, most: int) -> "Lattice | None":
        """Return `step` times a sum of discrete Laplace variables, or None if it has more than `most` points."""
        largest = reach(alphas, multiplicities)
        return None if largest > most else cls(step, _mass(alphas, multiplicities, int(largest) + 1))


@dataclass(frozen=True)
class LatticePoints:
    """The points of A with their probabilities, the lattice of B and that of C."""

    points: Floats
    masses: Floats
    second: Lattice
    first: Lattice
    unlikely: float

    @classmethod
    def of_sum(cls, lattices: Sequence[Lattice]) -> "LatticePoints | None":
        """Return the law of the sum of two lattices or more, or None if it has too many likely points."""
        first, second, *others = sorted(lattices, key=lambda lattice: -lattice.mass.size)
        sizes = [2.0 * lattice.mass.size for lattice in (second, *others)]
        if np.prod(sizes) * (35 / 42) ** len(sizes) / factorial(len(sizes)) > MAX_POINTS:
            return None  # a low estimate: these are the points of an octahedron, and laws are rounder
        points, masses, likeliest = np.zeros(1), np.ones(1), 1.0
        for lattice in others:
            likeliest *= lattice.mass[0]
            k = np.arange(1 - lattice.mass.size, lattice.mass.size)
            masses = np.multiply.outer(masses, lattice.mass[np.abs(k)])
            kept = masses > _UNLIKELY * likeliest
            points, masses = np.add.outer(points, lattice.step * k)[kept], masses[kept]
        unlikely = _UNLIKELY * likeliest * second.mass[0]
        visited = 2 * np.searchsorted(-second.mass, -unlikely / masses).sum()
        return None if visited > MAX_POINTS else cls(points, masses, second, first, unlikely)

    @cached_property
    def _tails(self) -> Floats:
        """P(C/step > j) for j = 0, 1, ..."""
        return np.append(np.cumsum(self.first.mass[:0:-1])[::-1], 0.0)

    @cached_property
    def _mean_abs_of_first(self) -> Floats:
        """E|j + C/step| for j = 0, 1, ..."""
        excess = np.cumsum(self._tails[::-1])[::-1]
        return np.arange(excess.size) + 2 * excess

    def exceeds(self, x: float) -> float:
        """Return P(|X| > x)."""
        at, steps = (x - self.points) / self.first.step + SAME, self.second.step / self.first.step
        return 2 * _exceeds(at, self.masses, steps, self.second.mass, self._tails, self.unlikely)

    def mean_abs(self, shift: float) -> float:
        """Return E|shift + X|."""
        at, steps = (shift + self.points) / self.first.step, self.second.step / self.first.step
        table, even = self._mean_abs_of_first, int(shift == 0)
        return self.first.step * _mean_abs(at, self.masses, steps, self.second.mass, table, self.unlikely, even)

    def quantile(self, confidence: float) -> float:
        """Return the smallest h with P(|X| <= h) at least `confidence`."""
        # Points that lie closer than this are few enough to be put in order.
        width = min(4.0, _SORTED / (2 * self.points.size * self.second.mass.size)) * self.first.step
        low, high = bracket(self, confidence, start=2.5 * self.mean_abs(0.0), within=width)
        if high == 0:
            return 0.0
        at, steps = self.points / self.first.step, self.second.step / self.first.step
        ends = low / self.first.step + SAME, high / self.first.step + SAME
        found, masses = _between(*ends, at, self.masses, steps, self.second.mass, self.first.mass, self.unlikely)
        order = np.argsort(found)
        tails = self.exceeds(low) - 2 * np.cumsum(masses[order])
        reached = found[order[min(int(np.argmax(tails <= 1 - confidence)), len(order) - 1)]]
        return float(self.first.step * found[found <= reached + SAME].max())


@compiled
def _likely(mass: Floats, least: float) -> int:
    """Return how many of some decreasing masses are at least `least`."""
    low, high = 0, mass.size
    while low < high:
        middle = (low + high) // 2
        if mass[middle] >= least:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _mean_abs(
    at: Floats, masses: Floats, step: float, second: Floats, table: Floats, unlikely: float, even: int
) -> float:
    """Return the mean of E|y + C| over y = at + step * k, all in steps of C.

    If `even` is not 0, k and -k count the same, because A is symmetric and there is no shift.
    """
    total, last = 0.0, table.size - 1
    for i in range(at.size):
        end = _likely(second, unlikely / masses[i])
        part = 0.0
        for k in range(0 if even else 1 - end, end):
            y = abs(at[i] + step * k)
            j = int(y)
            mean = y
            if j < last:
                mean = table[j] + (y - j) * (table[j + 1] - table[j])
            part += second[abs(k)] * mean * (2.0 if even and k else 1.0)
        total += masses[i] * part
    return total


@compiled
def _exceeds(at: Floats, masses: Floats, step: float, second: Floats, tails: Floats, unlikely: float) -> float:
    """Return the mean of P(C > y) over y = at - step * k, all in steps of C."""
    total, last = 0.0, tails.size - 1
    for i in range(at.size):
        end = _likely(second, unlikely / masses[i])
        part = 0.0
        for k in range(1 - end, end):
            j = int(np.floor(at[i] - step * k))
            # By symmetry P(C > j) = 1 - P(C > -1 - j).
            part += second[abs(k)] * (tails[min(j, last)] if j >= 0 else 1 - tails[min(-1 - j, last)])
        total += masses[i] * part
    return total


@compiled
def _between(
    low: float,
    high: float,
    at: Floats,
    masses: Floats,
    step: float,
    second: Floats,
    first: Floats,
    unlikely: float,
) -> tuple[Floats, Floats]:
    """Return the points above `low` and not above `high`, and their probabilities, all in steps of C."""
    points, probabilities = np.empty(0), np.empty(0)
    for fill in (False, True):  # counted, then written
        number = 0
        for i in range(at.size):
            end = _likely(second, unlikely / masses[i])
            for k in range(1 - end, end):
                y = at[i] + step * k
                for j in range(
                    max(int(np.floor(low - y)) + 1, 1 - first.size), min(int(np.floor(high - y)) + 1, first.size)
                ):
                    if fill:
                        points[number] = y + j
                        probabilities[number] = masses[i] * second[abs(k)] * first[abs(j)]
                    number += 1
        if not fill:
            points, probabilities = np.empty(number), np.empty(number)
    return points, probabilities


def _mass(alphas: Floats, multiplicities: Floats, largest: int) -> Floats:
    """Return P(S = k), k = 0 to `largest`, for a sum of discrete Laplace variables, to about 1e-17 absolute.

    The transform of prod (1 + sin^2(t/2)/sinh^2(alpha_i/2))^(-k_i), which is the characteristic function.
    """
    if alphas.size == 1 and multiplicities[0] == 1:
        return np.asarray(np.tanh(alphas / 2) * np.exp(-alphas * np.arange(largest + 1)))
    size = fft.next_fast_len(2 * largest + 1, real=True)
    sines = np.sin(np.pi * np.arange(size // 2 + 1) / size) ** 2
    log = np.zeros_like(sines)
    for scale, count in zip(lattice_scales(alphas), multiplicities, strict=True):
        log -= count * np.log1p(4 * scale**2 * sines)
    mass: Floats = fft.irfft(np.exp(log), size)
    return np.maximum.accumulate(np.maximum(mass[largest::-1], 0.0))[::-1]  # decreasing, but for rounding
