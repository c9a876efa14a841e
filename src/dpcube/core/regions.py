"""A tree of regions of a cube too large to materialise: the partition that any boxes induce, for counts and charges.

The cube is cut in two where a box begins or ends inside it, then the halves are, until every box is made of leaves.
Time and memory go by boxes and cuts, never by cells. Boxes may overlap, and need not fill the cube.

Nodes come after the one that they are halves of, so a walk up or down the whole tree is a loop without a stack.
"""

import math
from collections.abc import Iterable

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.compiled import compiled
from dpcube.core.errors import DomainError

MOST_REGIONS = 2**23
"""Nodes of one tree, about a hundred bytes each."""
MOST_SIZE = 2**61
"""Cells of a cube whose boxes are counted so: twice the number of cells of any box is a 64-bit integer."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class RegionTree:
    """A partition of a cube by cuts across one axis each, made finer as boxes come.

    Arrays have a row for each node, of which `used` are in use: bounds, and the first of its two halves, 0 for a leaf.

    >>> tree = RegionTree((10**6, 10**6))
    >>> tree.part(Boxes(tree.shape, np.array([[0, 5]]), np.array([[3, 10**6]])))
    >>> tree.used
    5
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        if math.prod(shape) > MOST_SIZE:
            msg = f"a cube of shape {shape} has more than 2^61 cells, too many to tell its boxes apart"
            raise DomainError(msg)
        self.shape = tuple(shape)
        self.lower, self.upper = (np.zeros((2**6, len(shape)), np.int64) for _ in range(2))
        self.upper[0] = shape
        self.half, self.axis, self.place = (np.zeros(2**6, np.int64) for _ in range(3))
        self.used = 1

    def part(self, boxes: Boxes) -> None:
        """Cut until each box is made of whole leaves; the boxes lie in a cube of this shape."""
        # Taken from all over, not from one end to the other: the tree of boxes in a row would be as deep as they are
        # many. Multiples of the golden ratio, modulo one, are spread evenly at every length.
        order = np.argsort(np.arange(len(boxes), dtype=np.uint64) * _GOLDEN, kind="stable")
        done = 0
        while done < len(boxes):
            done, self.used = _part(*self._nodes(), self.used, boxes.lower, boxes.upper, order, done)
            if done < len(boxes):
                self._grow()

    def add(self, boxes: Boxes, values: Ints, to: Ints) -> None:
        """Add the value of each box to the largest nodes that it is made of; the boxes have been parted."""
        _add(self.lower, self.upper, self.half, boxes.lower, boxes.upper, values, to)

    def sums(self, boxes: Boxes, of_nodes: Ints) -> Ints:
        """Return the sum of each box over the largest nodes that it is made of; the boxes have been parted."""
        found = np.zeros(len(boxes), np.int64)
        _add_up(self.lower, self.upper, self.half, boxes.lower, boxes.upper, of_nodes, found)
        return found

    def counted(self, blocks: Iterable[tuple[Ints, Ints]]) -> Ints:
        """Return how many rows lie in each node: cells, shape (cells, axes), and the rows in each come by blocks."""
        counts = np.zeros(self.used, np.int64)
        for cells, rows in blocks:
            _drop(self.half, self.axis, self.place, cells, rows, counts)
        _summed_up(self.half, counts)
        return counts

    def most_on_a_path(self, of_nodes: Ints) -> int:
        """Return the largest sum of what the nodes around a cell have, over all cells."""
        return int(_summed_down(self.half, of_nodes.copy()).max())

    def _nodes(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        return self.lower, self.upper, self.half, self.axis, self.place

    def _grow(self) -> None:
        if len(self.half) >= MOST_REGIONS:
            msg = f"boxes cut the cube into more than {MOST_REGIONS // 2:,} regions; ask for fewer, or for boxes that "
            msg += "nest or lie apart"
            raise DomainError(msg)
        grown = [np.concatenate([array, np.zeros_like(array)]) for array in self._nodes()]
        self.lower, self.upper, self.half, self.axis, self.place = grown


@compiled
def _relation(lower: Ints, upper: Ints, node: int, low: Ints, high: Ints) -> int:
    """Return 0 if a node and a box have no cell in common, 2 if the node lies in the box, and 1 otherwise."""
    inside = 2
    for axis in range(len(low)):
        if high[axis] <= lower[node, axis] or upper[node, axis] <= low[axis]:
            return 0
        if lower[node, axis] < low[axis] or high[axis] < upper[node, axis]:
            inside = 1
    return inside


@compiled
def _cut(lower: Ints, upper: Ints, node: int, low: Ints, high: Ints) -> tuple[int, int]:
    """Return the first axis on which a box begins or ends inside a node, and the first cell behind that place."""
    for axis in range(len(low)):
        if lower[node, axis] < low[axis]:
            return axis, low[axis]
        if high[axis] < upper[node, axis]:
            return axis, high[axis]
    return -1, 0


@compiled
def _part(
    lower: Ints,
    upper: Ints,
    half: Ints,
    axes: Ints,
    places: Ints,
    used: int,
    box_lower: Ints,
    box_upper: Ints,
    order: Ints,
    done: int,
) -> tuple[int, int]:
    """Part boxes in an order, from one on; return how many are done and the nodes in use: all, or there is no room."""
    stack = np.empty(len(half) + 2, np.int64)
    while done < len(order):
        low, high = box_lower[order[done]], box_upper[order[done]]
        stack[0], top = 0, 1
        while top > 0:
            top -= 1
            node = stack[top]
            if _relation(lower, upper, node, low, high) != 1:
                continue
            if half[node] == 0:
                if used + 2 > len(half):
                    return done, used
                axis, place = _cut(lower, upper, node, low, high)
                lower[used], upper[used] = lower[node], upper[node]
                lower[used + 1], upper[used + 1] = lower[node], upper[node]
                upper[used, axis] = lower[used + 1, axis] = place
                half[node], axes[node], places[node] = used, axis, place
                used += 2
            stack[top], stack[top + 1] = half[node], half[node] + 1
            top += 2
        done += 1
    return done, used


@compiled
def _add(lower: Ints, upper: Ints, half: Ints, box_lower: Ints, box_upper: Ints, values: Ints, to: Ints) -> None:
    stack = np.empty(len(half) + 2, np.int64)
    for box in range(len(box_lower)):
        stack[0], top = 0, 1
        while top > 0:
            top -= 1
            node = stack[top]
            relation = _relation(lower, upper, node, box_lower[box], box_upper[box])
            if relation == 2:
                to[node] += values[box]
            elif relation == 1:
                stack[top], stack[top + 1] = half[node], half[node] + 1
                top += 2


@compiled
def _add_up(
    lower: Ints, upper: Ints, half: Ints, box_lower: Ints, box_upper: Ints, of_nodes: Ints, found: Ints
) -> None:
    stack = np.empty(len(half) + 2, np.int64)
    for box in range(len(box_lower)):
        stack[0], top = 0, 1
        while top > 0:
            top -= 1
            node = stack[top]
            relation = _relation(lower, upper, node, box_lower[box], box_upper[box])
            if relation == 2:
                found[box] += of_nodes[node]
            elif relation == 1:
                stack[top], stack[top + 1] = half[node], half[node] + 1
                top += 2


@compiled
def _drop(half: Ints, axes: Ints, places: Ints, cells: Ints, rows: Ints, counts: Ints) -> None:
    """Drop each cell's rows down to its leaf."""
    for cell in range(len(rows)):
        node = 0
        while half[node] > 0:
            node = half[node] + (1 if cells[cell, axes[node]] >= places[node] else 0)
        counts[node] += rows[cell]


@compiled
def _summed_up(half: Ints, counts: Ints) -> None:
    """Add up from the leaves: going backwards meets halves before what they are of."""
    for node in range(len(counts) - 1, -1, -1):
        if half[node] > 0:
            counts[node] = counts[half[node]] + counts[half[node] + 1]


@compiled
def _summed_down(half: Ints, of_nodes: Ints) -> Ints:
    for node in range(len(of_nodes)):
        if half[node] > 0:
            of_nodes[half[node]] += of_nodes[node]
            of_nodes[half[node] + 1] += of_nodes[node]
    return of_nodes
