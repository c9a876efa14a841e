"""Projection of estimated counts onto counts that are not below zero and keep the total."""

import numpy as np

from dpcube.core.arrays import Floats


def non_negative(cells: Floats) -> Floats:
    """Return the nearest cells that are not below zero and keep the total, in one dimension.

    Clipping alone would add the noise of every empty cell to the total, and scaling the total back would take it from
    cells that are not empty. The nearest cells (least squares) take the same amount from all, and clip what is left.
    """
    flat = cells.reshape(-1)
    total = max(float(flat.sum()), 0.0)
    if not (flat < 0).any():
        return flat
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    kept = np.flatnonzero(falling > excess)
    return np.maximum(flat - excess[kept[-1]], 0.0) if total > 0 else np.zeros_like(flat)
