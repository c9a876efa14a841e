"""Workloads of ranges of one size, and of all ranges from the origin."""

import numpy as np

from dpcube.core.errors import QueryError
from dpcube.queries import Workload


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
