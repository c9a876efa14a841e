"""Distributions of simulated tables on a declared domain, from public facts only.

A data-dependent strategy has different errors on each of them, and the private table is hoped to lie among them. Each
distribution is a mixture of products of marginals: ordered attributes get smooth ones, categories Zipf's weights in an
arbitrary order.
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


def even(axes: Axes, generator: np.random.Generator) -> Mixture:  # noqa: ARG001 (all distributions have one signature)
    """Return the uniform distribution over all cells."""
    return [(1.0, [_marginal(axis, np.ones(axis.bins)) for axis in axes])]


def smooth(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Return one broad peak, as of ages or incomes."""
    return [(1.0, [_hill(axis, generator, narrow=0.15, wide=0.3) for axis in axes])]


def clustered(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Return a few narrow peaks with nothing between them, so that attributes are dependent."""
    weights = generator.dirichlet(np.full(CLUSTERS, 2.0))
    return [(float(w), [_hill(axis, generator, narrow=0.01, wide=0.06) for axis in axes]) for w in weights]


def cornered(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Return one occupied corner, as when bounds are declared generously."""
    return [(1.0, [_decaying(axis, generator) for axis in axes])]


def heavy_tailed(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Return most rows in few cells and the others in a long tail."""
    return [(1.0, [_ranked(axis, generator, power=1.5) for axis in axes])]


def spiky(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Return a peak with half of its rows on a few values of each ordered attribute, such as 40 hours or round sums."""
    return [(1.0, [_heaped(axis, generator) for axis in axes])]


def concentrated(axes: Axes, generator: np.random.Generator) -> Mixture:
    """Return nine rows in ten with one and the same value of each attribute, as most gains are 0."""
    return [(1.0, [_mostly_one(axis, generator) for axis in axes])]


DISTRIBUTIONS: dict[str, Callable[[Axes, np.random.Generator], Mixture]] = {
    "even": even,
    "smooth": smooth,
    "clustered": clustered,
    "cornered": cornered,
    "heavy-tailed": heavy_tailed,
    "spiky": spiky,
    "concentrated": concentrated,
}


def simulated_counts(name: str, axes: Axes, *, rows: float, seed: int) -> NDArray[np.int64]:
    """Return the counts of one simulated table of about `rows` rows; a seed repeats it."""
    generator = np.random.default_rng([seed, list(DISTRIBUTIONS).index(name)])
    expected = np.zeros(shape_of(axes))
    for weight, marginals in DISTRIBUTIONS[name](axes, generator):
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
    """Weights 1/rank^power; the ranks of an unordered attribute's values are a random permutation."""
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
