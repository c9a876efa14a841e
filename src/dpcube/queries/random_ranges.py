"""Random range queries from a seed, for experiments and planning; the curator's path may not import this module."""

import numpy as np

from dpcube.queries.workload import Workload


def random_ranges(shape: tuple[int, ...], count: int, *, seed: int) -> Workload:
    """Return ranges whose two ends are uniform on each axis and put in order (the law of the paper's experiments)."""
    ends = np.random.default_rng(seed).integers(0, np.array(shape), size=(2, count, len(shape)))
    return Workload(shape, ends.min(axis=0), ends.max(axis=0) + 1)
