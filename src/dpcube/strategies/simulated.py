"""Simulated tables, seeded noise on them and random queries: all randomness of the selection of a plan.

All of it comes from fixed seeds, so the same counts lead to the same plan. It protects nobody and nobody is in it:
simulated tables are made from noisy counts or public facts. They are measured by the very gate of a release, which this
module of strategies alone may make, over such tables; no module of the curator's path may import it directly.
"""

import math
from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.exact import ExactData
from dpcube.core.gate import Gate
from dpcube.queries import Workload
from dpcube.trees.tree import BoxTree

ASKED = 150
"""Ranges of each kind that are asked of a simulated table."""

CLUMPING = 0.3
"""Shape of the gamma law, of mean 1, by which the cells of a clumped cube are multiplied."""


class ScaledNoise:
    """Two-sided geometric noise from a seed; the same seed at another epsilon gives the same noise, scaled.

    It is the difference of the whole parts of two exponential variables divided by epsilon, which has the law of the
    gate's noise, P(z) ~ exp(-epsilon |z|), but for the rounding of floats. It protects nobody.
    """

    private = False

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        self._generator = np.random.default_rng(seed)

    def draw(self, epsilon: Fraction, size: int) -> Ints:
        """Return `size` values."""
        return discrete_noise(np.full(size, float(epsilon)), self._generator)


def simulated_gate(exact: ExactData | Ints, epsilon: Fraction, *, seed: int | tuple[int, ...]) -> Gate:
    """Return a gate over a simulated table, so that plans run real strategies on the real mechanism."""
    return Gate(exact, epsilon, noise=ScaledNoise(seed))


def discrete_noise(epsilon: Floats, generator: np.random.Generator) -> Ints:
    """Return noise of the law of the gate, P(z) proportional to exp(-epsilon |z|), up to rounding of floats.

    Two exponential draws for each, divided by its epsilon and rounded down, are geometric; their difference is such
    noise. So the same seed makes the same noise at every epsilon, but for its size.
    """
    above, below = generator.exponential(size=(2, *epsilon.shape))
    noise: Ints = np.floor(above / epsilon).astype(np.int64) - np.floor(below / epsilon).astype(np.int64)
    return noise


def noise_of_cells(shape: tuple[int, ...], places: Ints, epsilon: float, *, seed: int) -> Floats:
    """Return the noise of plain cells on the simulated table of this seed, drawn in the order of their `places`."""
    noise = np.zeros(shape)
    noise[tuple(places.T)] = discrete_noise(np.full(len(places), epsilon), np.random.default_rng(seed))
    return noise


def poisson_table(cube: Floats, *, seed: int) -> Ints:
    """Return a table of Poisson counts whose means are the cells of a cube."""
    return np.random.default_rng(seed).poisson(cube).astype(np.int64)


def clumped(cube: Floats, *, seed: int) -> Floats:
    """Return a cube whose rows are concentrated in fewer of its cells."""
    return cube * np.random.default_rng(seed).gamma(CLUMPING, 1 / CLUMPING, cube.shape)


def draw_below(
    tree: BoxTree, totals: Ints, known: Ints, share: Floats, weights: Floats, deviation: float, *, seed: int
) -> None:
    """Divide the totals of `known` nodes, which are the leaves of a smaller tree, down to the leaves of this tree.

    As in the mixture of the posterior (`models/posterior/splits.py`): by a node's level, `weights` of nothing on the
    left, nothing on the right, anything, and near the predicted `share`, from which it is off by about `deviation`.
    """
    generator, drawn = np.random.default_rng(seed), np.zeros(len(tree), np.bool_)
    drawn[known] = True
    for level in range(int(tree.levels.max())):
        nodes = np.flatnonzero(drawn & ~tree.is_leaf & (tree.levels == level))
        if len(nodes) == 0:
            continue
        of_left = _shares(share[nodes], weights[level], deviation, generator)
        left, right = nodes + 1, tree.end[nodes + 1]
        totals[left] = generator.binomial(totals[nodes], of_left)
        totals[right] = totals[nodes] - totals[left]
        drawn[left] = drawn[right] = True


def _shares(predicted: Floats, weights: Floats, deviation: float, generator: np.random.Generator) -> Floats:
    guess = generator.choice(4, len(predicted), p=weights / weights.sum())
    near = predicted + 2 * deviation * np.sqrt(predicted * (1 - predicted)) * generator.standard_normal(len(predicted))
    anything = generator.random(len(predicted))
    found: Floats = np.clip(np.choose(guess, [np.zeros_like(near), np.ones_like(near), anything, near]), 0.0, 1.0)
    return found


def ranges_of(shape: tuple[int, ...], kinds: tuple[str, ...]) -> Workload:
    """Return ranges of a kind for each axis: "ranges", "prefixes", "short" ones, or "groups" (one value or all)."""
    generator = np.random.default_rng(0)
    lower, upper = np.empty((ASKED, len(shape)), np.int64), np.empty((ASKED, len(shape)), np.int64)
    for axis, (cells, kind) in enumerate(zip(shape, kinds, strict=True)):
        low, last = np.sort(generator.integers(0, cells, (ASKED, 2)), axis=1).T
        high, every = last + 1, generator.random(ASKED) < 0.5
        short = np.minimum(low + generator.geometric(1 / math.sqrt(cells), ASKED), cells)
        ends = {
            "ranges": (low, high),
            "prefixes": (np.zeros_like(low), high),
            "short": (low, short),
            "groups": (np.where(every, 0, low), np.where(every, cells, low + 1)),
        }
        lower[:, axis], upper[:, axis] = ends[kind]
    return Workload(shape, lower, upper)
