"""Made-up tables on the declared domain, in place of the one that nobody may look at.

Enters: public facts (axes, roughly how many rows). Leaves: counts of every cell of a few tables of different character.
A data-dependent strategy errs differently on each; the private table is hoped to lie among them. Each is a mixture of
products of marginals: ordered attributes get smooth ones, categories Zipf's weights in an arbitrary order.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.plan.axes import Axes, PlannedAxis, shape_of

Mixture = list[tuple[float, list[Floats]]]

OWN_SHARE = 0.01
"""Share of the rows that each cell for irregular values gets."""
CLUSTERS = 6


def even(axes: Axes, generator: np.random.Generator) -> Mixture:  # noqa: ARG001 (every stand-in is called alike)
    """Spread the rows evenly over all cells."""
    return [(1.0, [_marginal(axis, np.ones(axis.bins)) for axis in axes])]


def smooth(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Raise one broad hill, as of ages or incomes."""
    return [(1.0, [_hill(axis, generator, narrow=0.15, wide=0.3) for axis in axes])]


def clustered(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Raise a few narrow hills with nothing between them: attributes depend on each other."""
    weights = generator.dirichlet(np.full(CLUSTERS, 2.0))
    return [(float(w), [_hill(axis, generator, narrow=0.01, wide=0.06) for axis in axes]) for w in weights]


def cornered(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Fill one corner and leave the rest empty, as when bounds are declared generously."""
    return [(1.0, [_decaying(axis, generator) for axis in axes])]


def heavy_tailed(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Put most rows in few cells and the others in a long tail."""
    return [(1.0, [_ranked(axis, generator, power=1.5) for axis in axes])]


def spiky(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Heap half of the rows of a hill on a few values of each ordered attribute, as on 40 hours or on round sums."""
    return [(1.0, [_heaped(axis, generator) for axis in axes])]


def concentrated(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Give nine rows in ten one and the same value of each attribute, as of most gains (none) or countries (here)."""
    return [(1.0, [_mostly_one(axis, generator) for axis in axes])]


STAND_INS: dict[str, Callable[[Axes, np.random.Generator], Mixture]] = {
    "even": even,
    "smooth": smooth,
    "clustered": clustered,
    "cornered": cornered,
    "heavy-tailed": heavy_tailed,
    "spiky": spiky,
    "concentrated": concentrated,
}


def made_up_counts(name: str, axes: Axes, *, rows: float, seed: int) -> NDArray[np.int64]:
    """Return the counts of one made-up table of about `rows` rows; a seed repeats it."""
    generator = np.random.default_rng([seed, list(STAND_INS).index(name)])
    expected = np.zeros(shape_of(axes))
    for weight, marginals in STAND_INS[name](axes, generator):
        expected += rows * weight * reduce(np.multiply.outer, marginals)
    return generator.poisson(expected)


def _marginal(axis: PlannedAxis, bins: Floats) -> Floats:
    """Return the shares of all cells of an axis, from the weights of its bins."""
    own = np.full(axis.own, OWN_SHARE)
    return np.concatenate([bins / bins.sum() * (1 - own.sum()), own])


def _hill(axis: PlannedAxis, generator: np.random.Generator, *, narrow: float, wide: float) -> Floats:
    if not axis.ordered:
        return _ranked(axis, generator, power=1.0)
    centre, width = generator.uniform(0.15, 0.85), generator.uniform(narrow, wide)
    return _marginal(axis, np.exp(-0.5 * ((_places(axis) - centre) / width) ** 2))


def _ranked(axis: PlannedAxis, generator: np.random.Generator, *, power: float) -> Floats:
    """Weights 1/rank^power; the order of an unordered attribute's values says nothing about their ranks."""
    weights: Floats = np.arange(1.0, axis.bins + 1) ** -power
    return _marginal(axis, weights if axis.ordered else generator.permutation(weights))


def _decaying(axis: PlannedAxis, generator: np.random.Generator) -> Floats:
    if not axis.ordered:
        return _ranked(axis, generator, power=2.0)
    return _marginal(axis, np.exp(-20 * _places(axis)))


def _heaped(axis: PlannedAxis, generator: np.random.Generator) -> Floats:
    hill = _hill(axis, generator, narrow=0.15, wide=0.3)
    if not axis.ordered:
        return hill
    heaps = generator.choice(axis.bins, -(-axis.bins // 10), replace=False)
    spikes = np.zeros(axis.size)
    spikes[heaps] = hill[heaps]
    mixed: Floats = hill / 2 + spikes / spikes.sum() / 2
    return mixed


def _mostly_one(axis: PlannedAxis, generator: np.random.Generator) -> Floats:
    tail = _ranked(axis, generator, power=1.0)
    one = np.arange(axis.size) == tail.argmax()
    return np.where(one, 0.9, 0.0) + 0.1 * tail


def _places(axis: PlannedAxis) -> Floats:
    return (np.arange(axis.bins) + 0.5) / axis.bins
