"""Quality of synthetic rows: their distances from the release and from the exact counts of public data.

And workloads of ranges of one size, and of all ranges from the origin.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.curator.publishing import count
from dpcube.models.metrics import Errors, errors
from dpcube.queries import Workload
from dpcube.release import Release


def ranges_of_size(shape: tuple[int, ...], count: int, *, cells: int, seed: int) -> Workload:
    """Return random ranges of about `cells` cells: sides as equal as the shape allows, places uniform.

    Each side is drawn between half and double the equal side, and the last axis makes up the rest of the size.
    """
    if not 1 <= cells <= np.prod(shape, dtype=float):
        msg = f"a range must have 1 to {int(np.prod(shape, dtype=float))} cells, got {cells}"
        raise QueryError(msg)
    generator = np.random.default_rng(seed)
    limits = np.array(shape)
    sides = np.ones((count, len(shape)), np.int64)
    left = np.full(count, float(cells))
    for axis in range(len(shape)):
        remaining = len(shape) - axis
        wanted = left ** (1 / remaining) * (2 ** generator.uniform(-1, 1, count) if remaining > 1 else 1)
        least = left / np.prod(limits[axis + 1 :], dtype=float)
        sides[:, axis] = np.clip(np.rint(np.maximum(wanted, least)), 1, limits[axis])
        left = np.maximum(left / sides[:, axis], 1.0)
    lower = generator.integers(0, limits - sides + 1)
    return Workload(shape, lower, lower + sides)


def prefixes(shape: tuple[int, ...]) -> Workload:
    """Return every range that starts at the origin, in row-major order of its last cell."""
    last = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    return Workload(shape, np.zeros_like(last), last + 1)


@dataclass(frozen=True, slots=True)
class Distances:
    """How far one cube is from another: total variation of one- and two-way marginals, and errors of ranges.

    The total variation of two marginals is half the sum of the differences of their shares: 0 for equal shares, 1 for
    shares that have nothing in common.
    """

    marginals: dict[str, float]
    pairs: dict[tuple[str, str], float]
    ranges: Errors


@dataclass(frozen=True, slots=True)
class SyntheticQuality:
    """Distances of synthetic rows to their release and to the truth, and of the release itself to the truth."""

    to_release: Distances
    to_truth: Distances
    release_to_truth: Distances


def synthetic_quality(
    rows: pa.Table, release: Release, exact_counts: ArrayLike, workload: Workload, *, estimate: str = "auto"
) -> SyntheticQuality:
    """Return how far synthetic rows are from their release and from the truth."""
    drawn, estimated = count(rows, release.domain), release.cells(estimate)
    truth = np.asarray(exact_counts, np.float64)
    return SyntheticQuality(
        to_release=distances(drawn, estimated, release.domain, workload),
        to_truth=distances(drawn, truth, release.domain, workload),
        release_to_truth=distances(estimated, truth, release.domain, workload),
    )


def distances(counts: ArrayLike, reference: ArrayLike, domain: Domain, workload: Workload) -> Distances:
    """Return how far one cube of counts is from another."""
    one, other = np.asarray(counts, np.float64), np.asarray(reference, np.float64)
    axes = range(len(domain.shape))
    return Distances(
        marginals={domain.names[a]: _variation(one, other, (a,)) for a in axes},
        pairs={
            (domain.names[a], domain.names[b]): _variation(one, other, (a, b))
            for a, b in itertools.combinations(axes, 2)
        },
        ranges=errors(other, one, workload),
    )


def _variation(one: Floats, other: Floats, kept: tuple[int, ...]) -> float:
    return float(np.abs(_shares(one, kept) - _shares(other, kept)).sum() / 2)


def _shares(counts: Floats, kept: tuple[int, ...]) -> Floats:
    marginal = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in kept))
    total = marginal.sum()
    return np.asarray(marginal / total if total > 0 else np.zeros_like(marginal))
