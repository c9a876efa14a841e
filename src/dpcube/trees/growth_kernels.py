"""Exact slab sums and squared errors of boxes, by scans or summed-area tables (compiled kernels of Algorithm 3).

Sums are exact integers. A float table of squares would lose a small box beside a large count, so every sum of y and
of y^2 is kept modulo 2^64, where adding and subtracting prefix sums is exact however far they wrap. If a box's own sum
of squares may take two 64-bit words, the sum of y^2 in units of 2^32 is kept as well and tells how often the other
wrapped. This is exact for fewer than 2^31 cells and a sum of squares below 2^92: then every |y| is below 2^46 and, by
Cauchy-Schwarz, every sum of y is below 2^62.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.compiled import compiled


class Cube(NamedTuple):
    """Counts and their summed-area tables, which are empty when boxes are summed cell by cell."""

    counts: Ints
    shape: Ints
    strides: Ints
    table: Ints  # (cells, 2): prefix sums of y and of y^2
    high: Ints  # (cells, 1): prefix sums of y^2 in units of 2^32, only if words is 2
    words: int  # how many 64-bit words a box's sum of squares may take: 1 or 2


class Moments(NamedTuple):
    """Sums over a box: of 1, y, y^2 (modulo 2^64) and y^2 / 2^32 (0 if words is 1)."""

    cells: int
    total: int
    squares: int
    high: int


class Work(NamedTuple):
    """The current box and scratch space: its axes with more than one cell, and prefix sums of slabs along them."""

    lower: Ints
    upper: Ints
    axes: Ints
    extents: Ints
    steps: Ints
    starts: Ints
    odometer: Ints
    carry: Ints
    sums: Ints
    squares: Ints
    highs: Ints
    offsets: Ints
    signs: Ints


@compiled
def high_word(value: int) -> int:
    """Square `value` in units of 2^32, rounded: a sum of these only distinguishes multiples of 2^64."""
    return int(float(value) * float(value) * 2.0**-32)


@compiled
def sum_of_squares(counts: Ints) -> float:
    """Sum the squares in floating point, where nothing wraps."""
    squares = 0.0
    for cell in range(len(counts)):
        squares += float(counts[cell]) * float(counts[cell])
    return squares


@compiled
def tabulate(table: Ints, shape: Ints) -> None:
    """Turn the rows of `table`, one for each cell, into prefix sums over all axes, in place."""
    # Each block gets the block before it added as soon as it is complete, while it is still in the cache.
    dimensions, width = len(shape), table.shape[1]
    flat = table.reshape(-1)
    index = np.zeros(dimensions, dtype=np.int64)
    for row in range(0, len(flat), width):
        block = width
        for axis in range(dimensions - 1, -1, -1):
            if index[axis] > 0:
                first = row + width - block
                for entry in range(first, first + block):
                    flat[entry] += flat[entry - block]
            index[axis] += 1
            if index[axis] < shape[axis]:
                break
            index[axis] = 0
            block *= shape[axis]


@compiled
def moment_table(counts: Ints, shape: Ints) -> Ints:
    """Prefix sums of y and y^2."""
    table = np.empty((len(counts), 2), np.int64)
    for cell in range(len(counts)):
        table[cell, 0] = counts[cell]
        table[cell, 1] = counts[cell] * counts[cell]
    tabulate(table, shape)
    return table


@compiled
def high_table(counts: Ints, shape: Ints) -> Ints:
    """Prefix sums of y^2 in units of 2^32."""
    table = np.empty((len(counts), 1), np.int64)
    for cell in range(len(counts)):
        table[cell, 0] = high_word(counts[cell])
    tabulate(table, shape)
    return table


@compiled
def moments_of_cube(cube: Cube) -> Moments:
    """Moments of the whole cube."""
    total, squares, high = 0, 0, 0
    for cell in range(len(cube.counts)):
        total += cube.counts[cell]
        squares += cube.counts[cell] * cube.counts[cell]
        if cube.words == 2:
            high += high_word(cube.counts[cell])
    return Moments(len(cube.counts), total, squares, high)


@compiled
def squared_error(box: Moments, words: int) -> float:
    """Sum of squared deviations from the box's mean, to a few units in the last place and exactly 0 if constant."""
    # With c an integer at most 0.52 from the mean and r = S - nc, the integer T = sum (y - c)^2 = Q - c(S + r) comes
    # out exact, and T - r^2/n does not cancel: integers have (y - c)^2 >= |y - c|, so T >= |r|, r^2/n <= 0.52 T.
    centre = int(np.rint(box.total / box.cells))
    rest = box.total - box.cells * centre
    spread = box.squares - centre * (box.total + rest)
    around = float(spread)
    if words == 2:
        near = 2.0**32 * (box.high + 0.5 * box.cells) - float(centre) * float(box.total + rest)
        around += 2.0**64 * np.rint((near - around) / 2.0**64)
    return around - float(rest) * float(rest) / box.cells


@compiled
def workspace(cube: Cube) -> Work:
    """Scratch space for any box of the cube."""
    d, length = len(cube.shape), cube.shape.sum()
    corners = 2 ** (d - 1) if len(cube.table) > 0 else 1
    return Work(
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty((d, 2), np.int64),
        np.empty(length, np.int64),
        np.empty(length, np.int64),
        np.empty(length, np.int64),
        np.empty(corners, np.int64),
        np.empty(corners, np.int64),
    )


@compiled
def enter(cube: Cube, work: Work, slots: NDArray[np.int32], slot: int) -> int:
    """Make the box of a slot the current one; return how many of its axes have more than one cell."""
    active, start = 0, 0
    for axis in range(len(cube.shape)):
        work.lower[axis] = slots[slot, 0, axis]
        work.upper[axis] = slots[slot, 1, axis]
        extent = work.upper[axis] - work.lower[axis]
        if extent > 1:
            work.axes[active] = axis
            work.extents[active] = extent
            work.steps[active] = cube.strides[axis]
            work.starts[active] = start
            start += extent
            active += 1
    return active


@compiled
def table_cost(cube: Cube, work: Work, first: int, stop: int) -> float:
    """Count the table lookups for the slab sums along the active axes first..stop-1."""
    if len(cube.table) == 0:
        return np.inf
    inner = 0  # axes along which a corner lies inside the cube, where it has to be subtracted
    for axis in range(len(cube.shape)):
        inner += work.lower[axis] > 0
    cost = 0.0
    for i in range(first, stop):
        cost += work.extents[i] * 2.0 ** (inner - (work.lower[work.axes[i]] > 0))
    return cost


@compiled
def list_corners(cube: Cube, work: Work, along: int) -> int:
    """List offset and sign of the corners of the box in all axes except `along`; return their number."""
    count, work.offsets[0], work.signs[0] = 1, 0, 1
    for axis in range(len(cube.shape)):
        if axis == along:
            continue
        last = (work.upper[axis] - 1) * cube.strides[axis]
        before = (work.lower[axis] - 1) * cube.strides[axis]
        if work.lower[axis] > 0:  # else the corner is outside the cube, where prefix sums are 0
            for i in range(count):
                work.offsets[count + i] = work.offsets[i] + before
                work.signs[count + i] = -work.signs[i]
        for i in range(count):
            work.offsets[i] += last
        count *= 1 + (work.lower[axis] > 0)
    return count


@compiled
def look_up(work: Work, active: int, corners: int, table: Ints, column: int, out: Ints) -> None:
    """Write to `out` the sums of the box below each cut along an active axis, from one column of a table."""
    start, extent, step = work.starts[active], work.extents[active], work.steps[active]
    lower = work.lower[work.axes[active]]
    for cut in range(extent):
        out[start + cut] = 0
    for i in range(corners):
        offset, sign = work.offsets[i] + (lower - 1) * step, work.signs[i]
        for cut in range(0 if lower > 0 else 1, extent):
            out[start + cut] += sign * table[offset + cut * step, column]
    base = out[start]
    for cut in range(extent):
        out[start + cut] -= base


@compiled
def look_up_slabs(cube: Cube, work: Work, first: int, stop: int) -> None:
    """Slab prefix sums along the active axes first..stop-1, by corners of the tables."""
    for i in range(first, stop):
        corners = list_corners(cube, work, work.axes[i])
        look_up(work, i, corners, cube.table, 0, work.sums)
        look_up(work, i, corners, cube.table, 1, work.squares)
        if cube.words == 2:
            look_up(work, i, corners, cube.high, 0, work.highs)


@compiled
def first_offset(cube: Cube, work: Work) -> int:
    """Offset of the lowest cell of the box in the flat counts."""
    offset = 0
    for axis in range(len(cube.shape)):
        offset += work.lower[axis] * cube.strides[axis]
    return offset


@compiled
def add_row(counts: Ints, work: Work, offset: int, last: int) -> tuple[int, int]:
    """Add a row of cells to the slabs of the last active axis; return the row's sums of y and y^2."""
    start, step = work.starts[last], work.steps[last]
    total, squares = 0, 0
    for i in range(work.extents[last]):
        value = counts[offset + i * step]
        work.sums[start + i] += value
        work.squares[start + i] += value * value
        total += value
        squares += value * value
    return total, squares


@compiled
def add_high_row(counts: Ints, work: Work, offset: int, last: int) -> tuple[int, int]:
    """Add a row of cells to the high words of the last active axis; return the row's sum of high words."""
    total = 0
    for i in range(work.extents[last]):
        high = high_word(counts[offset + i * work.steps[last]])
        work.highs[work.starts[last] + i] += high
        total += high
    return total, 0


@compiled
def scan(cube: Cube, work: Work, active: int, word: int) -> None:
    """Add every cell of the box to the slabs of its active axes: y and y^2 (word 0), or the high word of y^2 (1)."""
    # A row's sums are added to its slab of the next outer axis, and carried further only at the end of that axis, so a
    # cell costs little more than one addition whatever the number of axes.
    sums = work.highs if word == 1 else work.sums
    offset, axis = first_offset(cube, work), 0
    while axis >= 0:
        if word == 1:
            total, squares = add_high_row(cube.counts, work, offset, active - 1)
        else:
            total, squares = add_row(cube.counts, work, offset, active - 1)
        axis = active - 2
        while axis >= 0:
            slab = work.starts[axis] + work.odometer[axis]
            sums[slab] += total
            work.squares[slab] += squares
            work.carry[axis, 0] += total
            work.carry[axis, 1] += squares
            work.odometer[axis] += 1
            offset += work.steps[axis]
            if work.odometer[axis] < work.extents[axis]:
                break
            offset -= work.steps[axis] * work.extents[axis]
            total, squares = work.carry[axis, 0], work.carry[axis, 1]
            work.odometer[axis], work.carry[axis, 0], work.carry[axis, 1] = 0, 0, 0
            axis -= 1


@compiled
def add_up(work: Work, active: int, out: Ints) -> None:
    """Turn the slab sums of each active axis into sums of the slabs before."""
    for i in range(active):
        below = 0
        for slab in range(work.starts[i], work.starts[i] + work.extents[i]):
            below, out[slab] = below + out[slab], below


@compiled
def scan_slabs(cube: Cube, work: Work, active: int) -> None:
    """Slab prefix sums along all active axes, by reading every cell of the box."""
    length = work.starts[active - 1] + work.extents[active - 1]
    for i in range(length):
        work.sums[i], work.squares[i] = 0, 0
    for i in range(active):
        work.odometer[i], work.carry[i, 0], work.carry[i, 1] = 0, 0, 0
    scan(cube, work, active, 0)
    add_up(work, active, work.sums)
    if cube.words == 2:
        work.highs[:length] = 0
        scan(cube, work, active, 1)
        add_up(work, active, work.highs)
    add_up(work, active, work.squares)
