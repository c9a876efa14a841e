"""V-optimal kd-tree of noisy counts (Algorithm 3 of the paper). Post-processing: the counts must be noisy.

Each box is split where the sum of the squared errors of its halves is least, until its variance is small. The place of
a split never depends on the threshold, so the trees of two thresholds are nested.
"""

import heapq
import math
from operator import index
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Partitioning, box_sums
from dpcube.core.compiled import compiled
from dpcube.core.errors import DomainError, InputError
from dpcube.trees.growth_kernels import (
    Cube,
    Moments,
    Work,
    enter,
    high_table,
    look_up_slabs,
    moment_table,
    moments_of_cube,
    scan_slabs,
    squared_error,
    sum_of_squares,
    table_cost,
    workspace,
)
from dpcube.trees.tree import BoxTree

Entry = tuple[float, int, int, int, Moments]

NO_LIMIT = 2**62
TIE = 1e-12
# Tolerance of the screening cost, in units of the box's squared error: its error is below 2^-49 sqrt(cells).
SCREEN = 1e-8
LOOKUP_PRICE = 3.0

Weight = Literal["cells", "records"]


class Rule(NamedTuple):
    """Parameters of the splits; `lookup_price` is the cost of a table lookup in units of reading a cell."""

    threshold: float
    noise_variance: float
    slack: float
    longest: bool
    by_records: bool
    min_cells: int
    max_depth: int
    max_boxes: int
    best_first: bool
    lookup_price: float = LOOKUP_PRICE


class Split(NamedTuple):
    """A cut of a box along an axis, its cost, and the moments of the lower half; axis -1 means no cut."""

    cost: float
    axis: int
    cut: int
    below: Moments


def grow(
    counts: Ints,
    *,
    threshold: float,
    rule: Literal["best", "longest"] = "best",
    weight: Weight = "cells",
    noise_variance: float = 0.0,
    slack: float = 0.0,
    min_cells: int = 1,
    max_depth: int | None = None,
    max_boxes: int | None = None,
) -> BoxTree:
    """Split the cube until the variance of every box, less the noise floor, is at most the threshold.

    `rule` searches cuts along every axis (`best`) or along the one with most cells (`longest`); `weight` weights the
    variance of the halves by cells or by noisy records. `noise_variance` is the variance of the noise of one cell;
    `slack` adds that many standard deviations of pure noise to the threshold. With `max_boxes` the box with the largest
    squared error beyond the noise is split first.

    >>> grow(np.array([0, 0, 5, 9]), threshold=4).partitioning().labels
    array([0, 0, 1, 1], dtype=int32)
    """
    _check_choice("rule", rule, ("best", "longest"))
    _check_choice("weight", weight, ("cells", "records"))
    _check_number("threshold", threshold, least=-math.inf)
    _check_number("noise_variance", noise_variance, least=0)
    _check_number("slack", slack, least=0)
    _check_number("min_cells", min_cells, least=1)
    _check_number("max_depth", max_depth, least=0)
    _check_number("max_boxes", max_boxes, least=1)
    decision = Rule(
        threshold=float(threshold),
        noise_variance=float(noise_variance),
        slack=float(slack),
        longest=rule == "longest",
        by_records=weight == "records",
        min_cells=index(min_cells),
        max_depth=NO_LIMIT if max_depth is None else index(max_depth),
        max_boxes=NO_LIMIT if max_boxes is None else index(max_boxes),
        best_first=max_boxes is not None,
    )
    return _grow(counts, decision)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        message = f"{name} {value!r} is not one of {', '.join(allowed)}"
        raise InputError(message)


def _check_number(name: str, value: float | None, *, least: float) -> None:
    if value is not None and not value >= least:
        message = f"{name} must be a number of at least {least}, not {value}"
        raise InputError(message)


def _grow(counts: Ints, rule: Rule) -> BoxTree:
    """Grow the tree by a complete rule; tests set `lookup_price` to force the table or the scan."""
    cube = _cube(counts, rule.lookup_price)
    cuts, parents = _grow_cuts(cube, rule)
    shape = cube.shape
    del cube  # its tables are often larger than the tree
    lower, upper, parent = _in_preorder(cuts, parents, shape)
    del cuts, parents
    for array in (lower, upper, parent):
        array.flags.writeable = False
    return BoxTree(counts.shape, lower, upper, parent)


def _cube(counts: Ints, lookup_price: float) -> Cube:
    if counts.dtype != np.int64 or counts.ndim < 1 or not 0 < counts.size < 2**31:
        message = f"counts must be an int64 array of 1 to 2^31 - 1 cells, not {counts.dtype} of shape {counts.shape}"
        raise DomainError(message)
    flat = np.ascontiguousarray(counts).reshape(-1).view()
    flat.flags.writeable = False
    squares = sum_of_squares(flat)
    if squares >= 2.0**92:
        message = "noisy counts are too large to be summed exactly: the sum of their squares must be below 2^92"
        raise DomainError(message)
    shape = np.array(counts.shape, dtype=np.int64)
    strides = np.array([math.prod(counts.shape[axis + 1 :]) for axis in range(counts.ndim)], dtype=np.int64)
    words = 1 if squares < 2.0**62 else 2
    # Worth its memory only if a box as large as the cube, with all its corners inside, is cheaper to look up.
    tabled = lookup_price * sum(counts.shape) * 2.0 ** (counts.ndim - 1) < counts.size
    table = moment_table(flat, shape) if tabled else np.empty((0, 2), dtype=np.int64)
    high = high_table(flat, shape) if tabled and words == 2 else np.empty((0, 1), dtype=np.int64)
    return Cube(flat, shape, strides, table, high, words)


@compiled
def _grow_cuts(cube: Cube, rule: Rule) -> tuple[NDArray[np.int32], Ints]:
    """Return the cut of every node, as axis and index (axis -1 for a leaf), and its parent; two halves are adjacent."""
    # Only pending boxes have their bounds stored, in a slot: a node itself takes 16 bytes.
    work = workspace(cube)
    slots, free = np.zeros((64, 2, len(cube.shape)), np.int32), list(range(1, 64))
    slots[0, 1] = cube.shape
    cuts, parents, nodes = np.full((64, 2), -1, np.int32), np.full(64, -1), 1
    frontier = [(0.0, 0, 0, 0, moments_of_cube(cube))]
    if not _may_split(rule, 0, frontier[0][4], cube.words):
        frontier.pop()
    while len(frontier) > 0 and nodes // 2 + 1 < rule.max_boxes:
        _, node, slot, depth, box = heapq.heappop(frontier) if rule.best_first else frontier.pop()
        active = enter(cube, work, slots, slot)
        free.append(slot)
        split = _best_split(cube, rule, work, active, box)
        if split.axis < 0:
            continue
        if nodes + 2 > len(parents):
            cuts, parents = _twice_as_long(cuts), _twice_as_long(parents)
        if len(free) < 2:
            free.extend(range(len(slots), 2 * len(slots)))
            slots = _twice_as_long(slots)
        cuts[node, 0], cuts[node, 1] = split.axis, work.lower[split.axis] + split.cut
        cuts[nodes, 0], cuts[nodes + 1, 0] = -1, -1
        parents[nodes], parents[nodes + 1] = node, node
        for half, part in ((1, _rest(box, split.below)), (0, split.below)):
            if _may_split(rule, depth + 1, part, cube.words):
                slot = free.pop()
                _store_half(slots, slot, work, half, split)
                _push(frontier, rule, (nodes + half, slot, depth + 1), part, cube.words)
        nodes += 2
    return cuts[:nodes], parents[:nodes]


@compiled
def _rest(box: Moments, below: Moments) -> Moments:
    return Moments(box.cells - below.cells, box.total - below.total, box.squares - below.squares, box.high - below.high)


@compiled
def _may_split(rule: Rule, depth: int, box: Moments, words: int) -> bool:
    """Whether a box is large enough, and its variance above the threshold and the noise floor."""
    if box.cells < 2 or box.cells < 2 * rule.min_cells or depth >= rule.max_depth:
        return False
    n = float(box.cells)
    # Mean and standard deviation of the population variance of n cells of pure Laplace noise, times n: so that a
    # variance equal to the threshold is found equal.
    floor = rule.noise_variance * (n - 1)
    deviation = rule.noise_variance * math.sqrt((6 * (n - 1) * (n - 1) - (n - 1) * (n - 3)) / n)
    return squared_error(box, words) - floor > n * rule.threshold + rule.slack * deviation


@compiled
def _push(frontier: list[Entry], rule: Rule, where: tuple[int, int, int], box: Moments, words: int) -> None:
    node, slot, depth = where
    if rule.best_first:
        excess = squared_error(box, words) - rule.noise_variance * (box.cells - 1)
        heapq.heappush(frontier, (-excess, node, slot, depth, box))
    else:
        frontier.append((0.0, node, slot, depth, box))


@compiled
def _twice_as_long(array: NDArray[Any]) -> NDArray[Any]:
    longer = np.empty((2 * len(array), *array.shape[1:]), array.dtype)  # pages not yet written take no memory
    longer[: len(array)] = array
    return longer


@compiled
def _store_half(slots: NDArray[np.int32], slot: int, work: Work, half: int, split: Split) -> None:
    for axis in range(len(work.lower)):
        slots[slot, 0, axis] = work.lower[axis]
        slots[slot, 1, axis] = work.upper[axis]
    slots[slot, 1 - half, split.axis] = work.lower[split.axis] + split.cut


@compiled
def _best_split(cube: Cube, rule: Rule, work: Work, active: int, box: Moments) -> Split:
    """Return the cheapest cut of the current box: of equals the lowest axis, then the lowest cut."""
    first, stop = 0, active
    if rule.longest:
        for i in range(active):
            if work.extents[i] > work.extents[first]:
                first = i
        stop = first + 1
    rows = box.cells / work.extents[active - 1]
    if rule.lookup_price * table_cost(cube, work, first, stop) < box.cells + 4 * rows:
        look_up_slabs(cube, work, first, stop)
    else:
        scan_slabs(cube, work, active)
    split = Split(np.inf, -1, 0, box)
    for i in range(first, stop):
        split = _best_cut(rule, work, i, box, cube.words, split)
    return split


@compiled
def _best_cut(rule: Rule, work: Work, i: int, box: Moments, words: int, split: Split) -> Split:
    """Return the cheapest of `split` and the cuts along active axis `i`."""
    error, slab = squared_error(box, words), box.cells // work.extents[i]
    centre = int(np.rint(box.total / box.cells))
    drift = (box.total - box.cells * centre) / box.cells
    for cut in range(1, work.extents[i]):
        cells, at = cut * slab, work.starts[i] + cut
        if cells < rule.min_cells or box.cells - cells < rule.min_cells:
            continue
        if not rule.by_records:
            # The halves' errors sum to the box's less n/(n1 n2) times the square of this shift. If that is too little,
            # the exact cost is not needed.
            shift = float(work.sums[at] - cells * centre) - cells * drift
            needed = error * (1 - SCREEN) - split.cost
            if shift * shift * box.cells < needed * float(cells) * float(box.cells - cells):
                continue
        below = Moments(cells, work.sums[at], work.squares[at], work.highs[at] if words == 2 else 0)
        cost = _cost(rule, below, words) + _cost(rule, _rest(box, below), words)
        if cost < split.cost * (1 - TIE):
            split = Split(cost, work.axes[i], cut, below)
    return split


@compiled
def _cost(rule: Rule, box: Moments, words: int) -> float:
    error = squared_error(box, words)
    return error * max(0, box.total) / box.cells if rule.by_records else error


@compiled
def _in_preorder(cuts: NDArray[np.int32], parents: Ints, shape: Ints) -> tuple[Ints, Ints, Ints]:
    """Return bounds and parents of the nodes in preorder: each node, its lower half's subtree, its upper half's."""
    nodes, dimensions = len(parents), len(shape)
    place = np.ones(nodes, np.int64)  # first the size of each node's subtree, then the node's new number
    for node in range(nodes - 1, 0, -1):
        place[parents[node]] += place[node]
    place[0] = 0
    parent, lower = np.full(nodes, -1), np.zeros((nodes, dimensions), np.int64)
    upper = np.empty((nodes, dimensions), np.int64)
    upper[0] = shape
    for node in range(1, nodes, 2):
        above, axis, middle = place[parents[node]], cuts[parents[node], 0], cuts[parents[node], 1]
        place[node], place[node + 1] = above + 1, above + 1 + place[node]
        for half in range(node, node + 2):
            parent[place[half]] = above
            for j in range(dimensions):
                lower[place[half], j] = lower[above, j]
                upper[place[half], j] = upper[above, j]
        upper[place[node], axis] = middle
        lower[place[node + 1], axis] = middle
    return lower, upper, parent


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
