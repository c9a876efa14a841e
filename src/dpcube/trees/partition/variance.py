"""The v-optimal objective: weighted variance of counts inside the boxes of a partitioning."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.boxes import Partitioning, box_sums
from dpcube.core.compiled import compiled
from dpcube.core.errors import DomainError

Weight = Literal["cells", "records"]


def weighted_variance(counts: NDArray[Any], partitioning: Partitioning, *, weight: Weight = "cells") -> float:
    """Sum over boxes of weight times population variance, the weight being the box's cells or its records.

    Weighted by cells it is the squared error of the uniform approximation of every box. On exact counts it is an exact
    statistic, for the curator alone.

    >>> halves = Partitioning((4,), np.array([[0], [2]]), np.array([[2], [4]]))
    >>> counts = np.array([0, 0, 5, 9])
    >>> weighted_variance(counts, halves), weighted_variance(counts, halves, weight="records")
    (8.0, 56.0)
    """
    if weight not in ("cells", "records"):
        message = f"weight {weight!r} is not 'cells' or 'records'"
        raise DomainError(message)
    kept = counts if counts.dtype in (np.int64, np.float64) else counts.astype(np.float64)
    sums = box_sums(kept, partitioning).astype(np.float64)
    sizes = partitioning.sizes
    flat = np.ascontiguousarray(kept).reshape(-1).view()
    flat.flags.writeable = False
    errors = _squared_errors(flat, partitioning.labels.reshape(-1), sums / sizes, sizes)
    return float(errors.sum() if weight == "cells" else (np.maximum(sums, 0) * errors / sizes).sum())


@compiled
def _squared_errors(flat: NDArray[Any], labels: NDArray[np.int32], means: Floats, sizes: NDArray[np.int64]) -> Floats:
    """Squared deviations from the box's mean, summed for each box."""
    # Corrected two-pass formula: the deviations from a rounded mean do not sum to 0, and their sum is the correction.
    squares, shifts = np.zeros(len(means)), np.zeros(len(means))
    for cell in range(len(flat)):
        deviation = flat[cell] - means[labels[cell]]
        squares[labels[cell]] += deviation * deviation
        shifts[labels[cell]] += deviation
    return np.maximum(0.0, squares - shifts * shifts / sizes)
