"""The law of a sum of discrete Laplace noises of any weights, from one Fourier series.

Weights, parameters alpha and multiplicities enter; tails, expected absolute values and quantiles leave.

Let phi be the characteristic function of the sum X, and let |X| stay below L (but for a probability of 1e-13). A
triangle wave of half-period L is |x| there, and a square wave of half-period 2 L is sign(x) of all x - X with x < L. So
with t_n = n pi over the half-period, n odd,

    E|b + X| = L/2 - (4 L / pi^2) sum phi(t_n) cos(b t_n) / n^2,     P(|X| < x) = (4 / pi) sum phi(t_n) sin(x t_n) / n.

As X is discrete phi does not decay: with the cosine it wanders around its mean, the probability m that b + X is 0.

*Mean.* The series is cut at T with a smooth edge from T/2 on, and beyond it phi is replaced by m; as the sum over odd n
of 1/n^2 is pi^2/8, that is the same series for phi - m, plus m. For weights without a common measure m is the product
of the lattices' probabilities of 0 if b is 0, else 0; where phi averages to something else near T, beyond doubt, its
average is taken. What is left is the wandering of phi divided by t^2. Its mean square is the probability that two such
X are equal, about the product of (1 + 4 pi v)^(-1/2) over lattices of variance v, and it forgets itself within
sqrt(pi)/sigma, so what is left beyond T is about (2/pi) (product sqrt(pi) / (3 sigma T^3))^(1/2). T makes that 3e-10 of
the mean, and is doubled while half of it gives something else (weights of a common measure, or nearly: 1/3 and 0.3334),
up to two million nodes.

*Tail.* Here the cut is a normal blur of X of standard deviation tau = 3e-4 of its own; a quantile is widened by 6 tau,
so that P(|X| <= quantile) is at least the confidence less 2e-9, and less than 13 tau above the smallest such number.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.compiled import compiled
from dpcube.noise.contour import lattice_scales
from dpcube.research.theory.lattice_points import bracket, reach

ACCURACY, AGREEMENT = 3e-10, 3e-9
FEWEST_NODES, MAX_NODES = 1 << 11, 1 << 21
BLUR = 3e-4
_LAST = 8.6  # the normal blur has exp(-37) left of it at the last node
_NEGLIGIBLE = 1e-16
_LEFT_OUT = 30.0
_BLOCK = 64


@dataclass(frozen=True)
class ManyLattices:
    """The sum of weights times sums of discrete Laplace variables; `half_period` is L."""

    weights: Floats
    scales: Floats
    multiplicities: Floats
    half_period: float
    atom: float

    @classmethod
    def of_noises(
        cls, weights: Floats, alphas: Floats, multiplicities: Floats, *, atom: float, shift: float = 0.0
    ) -> "ManyLattices":
        """Return the law of sum of weights * noises.

        `atom` is the product of the lattices' probabilities of 0, and `shift` the largest to be asked for.
        """
        farthest = reach(alphas, multiplicities, weights, left_out=_LEFT_OUT) + abs(shift)
        return cls(weights, lattice_scales(alphas), multiplicities, farthest, atom)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of X."""
        return float(np.sqrt(2 * self.multiplicities @ (self.weights * self.scales) ** 2))

    def _phi(self, nodes: int, *, half_period: float) -> Floats:
        """Return the characteristic function at the first odd multiples of pi over a half-period."""
        angles = self._angles(half_period)
        return _characteristic(nodes, angles, 2 * self.scales, self.multiplicities.astype(np.int64))

    def _angles(self, half_period: float) -> Floats:
        return self.weights * (np.pi / (2 * half_period))

    def mean_abs(self, shift: float) -> float:
        """Return E|shift + X|."""
        nodes, atom = self._nodes(), 0.0 if shift else self.atom
        while True:
            phi = self._phi(nodes, half_period=self.half_period)
            if shift:
                phi *= np.cos(shift * np.pi / self.half_period * (2 * np.arange(nodes) + 1))
            coarse, fine = self._mean_of(phi[: nodes // 2], atom), self._mean_of(phi, atom)
            if abs(fine - coarse) <= AGREEMENT * fine or nodes >= MAX_NODES:
                return fine
            nodes *= 2

    @cached_property
    def _wandering(self) -> float:
        """The integral of the square of phi's wandering over a time, per time: see this module's head."""
        steps = self.weights[:, None] == self.weights
        variances = steps @ (2 * self.multiplicities * self.scales**2)  # of the lattice that each term lies on
        first = np.argmax(steps, axis=1) == np.arange(len(steps))
        return float(np.sqrt(np.pi) / self.sigma / np.sqrt(np.prod(1 + 4 * np.pi * variances[first])))

    def _nodes(self) -> int:
        """Return how many odd multiples of pi / L reach the T of this module's head."""
        wanted = ACCURACY * self.sigma * np.sqrt(np.pi / 2)  # the mean of a normal law is less, by 2/pi
        last = np.cbrt(self._wandering / (3 * wanted**2))
        return int(np.clip(last * self.half_period / (2 * np.pi), FEWEST_NODES, MAX_NODES))

    def _mean_of(self, phi: Floats, atom: float) -> float:
        average, series, ones = _cut(phi)
        last = 2 * phi.size * np.pi / self.half_period
        # The average is one over T/2, as certain as a plain one over T/3 for its bell.
        sure = abs(average - atom) < 5 * np.sqrt(self._wandering / (last / 3))
        m = atom if sure else average
        return float(self.half_period * (0.5 - m / 2 - 4 / np.pi**2 * (series - m * ones)))

    @cached_property
    def _blurred(self) -> tuple[NDArray[np.int64], Floats]:
        """phi(t_n)/n, blurred, in blocks of n, and the first n of each block; those where it is next to 0 are left out.

        The square wave sees x + |X|, so its half-period is 2 L.
        """
        nodes = int(_LAST * 2 * self.half_period / (2 * np.pi * self._tau))
        order = np.argsort(-self.weights * self.scales)  # so that a product is soon large
        angles, counts = self._angles(2 * self.half_period)[order], self.multiplicities[order].astype(np.int64)
        blur = self._tau * np.pi / (2 * self.half_period)
        return _blurred(nodes, angles, 2 * self.scales[order], counts, blur)

    @property
    def _tau(self) -> float:
        return BLUR * self.sigma

    def exceeds(self, x: float) -> float:
        """Return P(|X| > x), blurred."""
        starts, waves = self._blurred
        return 1 - 4 / np.pi * _square_wave(x * np.pi / (2 * self.half_period), starts, waves)

    def quantile(self, confidence: float) -> float:
        """Return h, a little above the smallest with P(|X| <= h) at least `confidence`."""
        if confidence > 1 - 1e-12:  # rounding hides such tails; |X| exceeds L with probability 2e-13
            return self.half_period
        return bracket(self, confidence, start=2 * self.sigma, within=0.1 * self._tau)[1] + 6 * self._tau


@compiled
def _fill(
    block: Floats, start: int, angles: Floats, scales: Floats, multiplicities: NDArray[np.int64], enough: float
) -> bool:
    """Write prod (1 + (scale sin(n angle))^2)^multiplicity for the odd n from 2 start + 1 on into a block.

    Return false, and stop, once all are above `enough`. Sines come by rotation, afresh for every block: a tenth of the
    time of computing each.
    """
    block[:] = 1.0
    for j in range(angles.size):
        sine, cosine = np.sin((2 * start + 1) * angles[j]), np.cos((2 * start + 1) * angles[j])
        turn_sine, turn_cosine = np.sin(2 * angles[j]), np.cos(2 * angles[j])
        for i in range(block.size):
            base = 1 + (scales[j] * sine) ** 2
            block[i] *= base if multiplicities[j] == 1 else base ** multiplicities[j]
            sine, cosine = sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine
        if enough < np.inf and block.min() > enough:
            return False
    return True


@compiled
def _characteristic(nodes: int, angles: Floats, scales: Floats, multiplicities: NDArray[np.int64]) -> Floats:
    """Return prod (1 + (scale sin(n angle))^2)^(-multiplicity) for the first odd n."""
    result = np.empty(nodes)
    for start in range(0, nodes, _BLOCK):
        _fill(result[start : start + _BLOCK], start, angles, scales, multiplicities, np.inf)
    return 1 / result  # 0 where the product is infinite


@compiled
def _blurred(
    nodes: int, angles: Floats, scales: Floats, multiplicities: NDArray[np.int64], blur: float
) -> tuple[NDArray[np.int64], Floats]:
    """Return blocks of exp(-(blur n)^2/2) / (n product) for the first odd n, and where they start."""
    blocks = -(-nodes // _BLOCK)
    starts, waves = np.empty(blocks, np.int64), np.empty((blocks, _BLOCK))
    kept = 0
    for start in range(0, blocks * _BLOCK, _BLOCK):
        first = 2 * start + 1
        envelope = np.exp(-0.5 * (blur * first) ** 2) / first
        if _fill(waves[kept], start, angles, scales, multiplicities, envelope / _NEGLIGIBLE):
            for i in range(_BLOCK):
                n = first + 2 * i
                waves[kept, i] = np.exp(-0.5 * (blur * n) ** 2) / (n * waves[kept, i])
            starts[kept] = start
            kept += 1
    return starts[:kept], waves[:kept]


@compiled
def _square_wave(angle: float, starts: NDArray[np.int64], waves: Floats) -> float:
    """Return the sum of waves times sin(n angle)."""
    total, turn_sine, turn_cosine = 0.0, np.sin(2 * angle), np.cos(2 * angle)
    for block in range(starts.size - 1, -1, -1):  # the small ones first, for the sake of rounding
        first = (2 * starts[block] + 1) * angle
        sine, cosine, part = np.sin(first), np.cos(first), 0.0
        for i in range(waves.shape[1]):
            part += waves[block, i] * sine
            sine, cosine = sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine
        total += part
    return total


@compiled
def _cut(phi: Floats) -> tuple[float, float, float]:
    """Return the average of phi over the last half, and the sums of phi/n^2 and 1/n^2 cut with a smooth edge there."""
    half = phi.size // 2
    start = phi.size - half
    average, bells, series, ones = 0.0, 0.0, 0.0, 0.0
    for i in range(phi.size - 1, -1, -1):  # the small ones first, for the sake of rounding
        share = 1 / (2.0 * i + 1) ** 2
        if i >= start:
            at = (i - start + 0.5) / half
            bell = (at * (1 - at)) ** 2
            average += bell * phi[i]
            bells += bell
            share *= 1 - at**3 * (10 - 15 * at + 6 * at**2)  # from 1 to 0, with two derivatives 0 at either end
        series += share * phi[i]
        ones += share
    return average / bells, series, ones
