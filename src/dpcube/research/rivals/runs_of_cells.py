"""A box of a flat array, run by run: loops over its cells enter a run where it starts and go on to the next.

A run is the cells of a box that lie side by side in the array, along the last axis.
"""

from dpcube.core.arrays import Ints
from dpcube.core.compiled import compiled


@compiled
def place_of(index: Ints, shape: Ints) -> int:
    """Return the place in the flat array of the cell with this index."""
    place = 0
    for axis in range(len(shape)):
        place = place * shape[axis] + index[axis]
    return place


@compiled
def goes_on(index: Ints, low: Ints, high: Ints) -> bool:
    """Move an index, in place, from the start of a run to that of the next run of the box; False after the last."""
    for axis in range(len(low) - 2, -1, -1):
        index[axis] += 1
        if index[axis] < high[axis]:
            return True
        index[axis] = low[axis]
    return False
