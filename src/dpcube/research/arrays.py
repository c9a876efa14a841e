"""Releases of arrays of exact counts with noise from a seed, for experiments.

For public data only: every release made here is stamped "not private".
"""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcube import __version__
from dpcube.core.domain import Domain
from dpcube.core.epsilon import parse_epsilon
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise
from dpcube.core.sources.open import counts_from_array
from dpcube.measurements import Provenance
from dpcube.release import Release
from dpcube.strategies import DEFAULT, Strategy, strategy_of
from dpcube.testing import SeededNoise


def release_array(
    counts: ArrayLike,
    *,
    epsilon: str | float | Fraction,
    strategy: str | Strategy = DEFAULT,
    seed: int,
    estimate: str = "auto",
) -> NDArray[np.float64]:
    """Return the estimated counts of a seeded release of an array of exact counts."""
    return experiment(counts, epsilon=epsilon, strategy=strategy, noise=SeededNoise(seed)).cells(estimate)


def experiment(
    counts: ArrayLike,
    *,
    epsilon: str | float | Fraction,
    strategy: str | Strategy = DEFAULT,
    noise: Noise,
    domain: Domain | None = None,
) -> Release:
    """Return the release of an array of exact counts under a given noise.

    Without a domain its axes are ordered attributes of whole numbers; a strategy may depend on the domain.
    """
    array = np.asarray(counts)
    domain = Domain.of_shape(array.shape) if domain is None else domain
    chosen, amount = strategy_of(strategy, domain), parse_epsilon(epsilon)
    gate = Gate(counts_from_array(array, domain), amount, noise=noise)
    provenance = Provenance(chosen.name, amount, f"dpcube {__version__}", chosen.parameters(), private=False)
    return Release(domain, chosen.run(gate), provenance)
