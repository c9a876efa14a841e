"""Ranges over which errors are pooled, always the same ones: one range tells too little of how an estimate errs."""

import numpy as np

from dpcube.queries import Workload

POOLED_RANGES = 1000


def evenly_placed_ranges(shape: tuple[int, ...]) -> Workload:
    """Return ranges of every size and place, always the same ones: their ends follow a low-discrepancy sequence."""
    ends = 2 * len(shape)
    golden = 2.0
    for _ in range(32):  # the positive root of g^(ends + 1) = g + 1, which generalises the golden ratio
        golden = (1 + golden) ** (1 / (ends + 1))
    steps = np.arange(1, POOLED_RANGES + 1)[:, None] * golden ** -np.arange(1.0, ends + 1)
    places = (steps % 1.0).reshape(POOLED_RANGES, 2, len(shape))
    cells = np.minimum((places * np.array(shape)).astype(np.int64), np.array(shape) - 1)
    return Workload(shape, cells.min(axis=1), cells.max(axis=1) + 1)
