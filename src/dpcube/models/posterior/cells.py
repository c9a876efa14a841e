"""Every cell of a posterior: totals of boxes and marginals of the attributes enter, an array of cells is filled."""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled


@compiled
def fill_cells(
    cells: Floats, strides: Ints, lower: Ints, upper: Ints, total: Floats, prefix: Floats, start: Ints
) -> None:
    """Write into every cell of every box its part of the box's total, in proportion to the product of the marginals.

    `cells` is the flat cube and `strides` how far apart neighbours on each axis are in it; `lower` and `upper` have
    shape (boxes, axes), `total` (boxes,). Axis j's prefix sums of its marginal begin at `start[j]` of `prefix`.
    """
    dims = lower.shape[1]
    index = np.empty(dims, np.int64)
    for box in range(len(lower)):
        density = total[box]
        for axis in range(dims):
            index[axis] = lower[box, axis]
            density /= prefix[start[axis] + upper[box, axis]] - prefix[start[axis] + lower[box, axis]]
        while index[0] < upper[box, 0]:
            part, at = density, 0
            for axis in range(dims - 1):
                part *= prefix[start[axis] + index[axis] + 1] - prefix[start[axis] + index[axis]]
                at += index[axis] * strides[axis]
            last = start[dims - 1]
            for cell in range(lower[box, dims - 1], upper[box, dims - 1]):
                cells[at + cell] = part * (prefix[last + cell + 1] - prefix[last + cell])
            index[dims - 1] = upper[box, dims - 1]
            for axis in range(dims - 1, 0, -1):
                if index[axis] == upper[box, axis]:
                    index[axis] = lower[box, axis]
                    index[axis - 1] += 1
