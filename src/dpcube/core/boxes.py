"""Boxes of cells (axis-aligned index ranges of a cube): validation, partitions with cell labels, and box sums.

Bounds are half-open, `lower <= cell < upper` on every axis. Every loop over cells walks a box run by run, a run being
the longest stretch of cells that is contiguous in row-major order.
"""

import math
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Bools, Ints
from dpcube.core.compiled import compiled
from dpcube.core.errors import DomainError

Element = TypeVar("Element", np.int64, np.float64)

MAX_LABELLED_CELLS = 2**31 - 1  # a label is an int32


@dataclass(frozen=True, slots=True)
class Box:
    """A non-empty axis-aligned box of cells.

    >>> Box((0, 1), (2, 3)).size
    4
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lower or len(self.lower) != len(self.upper):
            message = f"box {self.lower} to {self.upper} needs one lower and one upper bound for each attribute"
            raise DomainError(message)
        if any(not 0 <= low < high for low, high in zip(self.lower, self.upper, strict=True)):
            message = f"box {self.lower} to {self.upper} has no cells; each lower bound must be in 0..upper - 1"
            raise DomainError(message)

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(high - low for low, high in zip(self.lower, self.upper, strict=True))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Boxes:
    """Any number of non-empty boxes inside one shape, as arrays with a row for each box.

    >>> Boxes((4, 4), np.array([[0, 0], [1, 2]]), np.array([[4, 1], [3, 4]])).sizes
    array([4, 4])
    """

    shape: tuple[int, ...]
    lower: Ints
    upper: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))
        object.__setattr__(self, "lower", _read_only(self.lower))
        object.__setattr__(self, "upper", _read_only(self.upper))
        self._check_shapes()
        wrong = _first_outside(np.array(self.shape), self.lower, self.upper)
        if wrong >= 0:
            low, high = self.lower[wrong].tolist(), self.upper[wrong].tolist()
            message = f"box {wrong} from {low} to {high} is empty or not inside a cube of shape {self.shape}"
            raise DomainError(message)

    def _check_shapes(self) -> None:
        if not self.shape or min(self.shape) < 1:
            message = f"shape {self.shape} must have at least one axis and no empty axis"
            raise DomainError(message)
        for name, bounds in (("lower", self.lower), ("upper", self.upper)):
            if bounds.shape != (len(self.lower), len(self.shape)):
                message = f"{name} bounds have shape {bounds.shape}; a cube of shape {self.shape} needs one row of "
                message += f"{len(self.shape)} bounds for each of the {len(self.lower)} boxes"
                raise DomainError(message)

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, index: int) -> Box:
        return Box(tuple(self.lower[index].tolist()), tuple(self.upper[index].tolist()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} boxes in {self.shape}>"

    @property
    def sizes(self) -> Ints:
        """Number of cells of each box."""
        return _sizes(self.lower, self.upper)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Partitioning(Boxes):
    """Disjoint boxes that cover the shape; `labels` holds the number of the box that each cell is in.

    >>> Partitioning((2, 2), np.array([[0, 0], [1, 0]]), np.array([[1, 2], [2, 2]])).labels
    array([[0, 0],
           [1, 1]], dtype=int32)
    """

    labels: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is a second class, which zero-argument super() does not find.
        Boxes.__post_init__(self)
        object.__setattr__(self, "labels", paint_selected(self, np.arange(len(self))))


def paint_selected(boxes: Boxes, selected: Ints) -> NDArray[np.int32]:
    """Return for each cell the number of its box among those selected; refuse them if they overlap or miss a cell."""
    cells = math.prod(boxes.shape)
    if cells > MAX_LABELLED_CELLS:
        message = f"a cube of shape {boxes.shape} has {cells} cells; at most {MAX_LABELLED_CELLS} can be labelled"
        raise DomainError(message)
    labels = np.full(cells, -1, dtype=np.int32)
    overlapping, covered = _paint_boxes(labels, np.array(boxes.shape), boxes.lower, boxes.upper, selected)
    if overlapping >= 0:
        message = f"box {overlapping} ({boxes[overlapping]}) overlaps a box before it; the boxes must be disjoint"
        raise DomainError(message)
    if covered < cells:
        message = f"the boxes cover {covered} of the {cells} cells of a cube of shape {boxes.shape}; add the others"
        raise DomainError(message)
    labels.flags.writeable = False
    return labels.reshape(boxes.shape)


def first_meeting(boxes: Boxes) -> int:
    """Return the first box that has a cell in common with one before it, or -1 if none has.

    >>> first_meeting(Boxes((3,), np.array([[0], [1], [2]]), np.array([[2], [2], [3]])))
    1
    """
    held = np.zeros(math.prod(boxes.shape), np.bool_)
    return _meeting(held, np.array(boxes.shape), boxes.lower, boxes.upper)


def box_sums(array: NDArray[Element], boxes: Boxes) -> NDArray[Element]:
    """Sum `array` over each box: exactly for int64, by straight summation for float64.

    >>> box_sums(np.arange(4), Boxes((4,), np.array([[0], [1]]), np.array([[4], [3]])))
    array([6, 3])
    """
    if array.shape != boxes.shape or array.dtype not in (np.int64, np.float64):
        message = f"box sums need an int64 or float64 array of shape {boxes.shape}, not {array.dtype} {array.shape}"
        raise DomainError(message)
    flat = np.ascontiguousarray(array).reshape(-1).view()
    flat.flags.writeable = False  # one compiled version per type, whatever the caller's flags
    sums = np.zeros(len(boxes), dtype=array.dtype)
    _sum_boxes(flat, sums, np.array(boxes.shape), boxes.lower, boxes.upper)
    return sums


def _read_only(bounds: Ints) -> Ints:
    given = np.asarray(bounds)
    if given.dtype.kind not in "iu":
        message = f"bounds of boxes are whole numbers, not {given.dtype}"
        raise DomainError(message)
    if given.dtype == np.int64 and given.flags.c_contiguous and not given.flags.writeable:
        return given
    copy = np.array(given, dtype=np.int64, order="C")
    copy.flags.writeable = False
    return copy


@compiled
def _first_outside(shape: Ints, lower: Ints, upper: Ints) -> int:
    for box in range(len(lower)):
        for axis in range(len(shape)):
            if not 0 <= lower[box, axis] < upper[box, axis] <= shape[axis]:
                return box
    return -1


@compiled
def _sizes(lower: Ints, upper: Ints) -> Ints:
    sizes = np.ones(len(lower), dtype=np.int64)
    for box in range(len(lower)):
        for axis in range(lower.shape[1]):
            sizes[box] *= upper[box, axis] - lower[box, axis]
    return sizes


@compiled
def _strides(shape: Ints) -> Ints:
    strides = np.ones(len(shape), dtype=np.int64)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


@compiled
def _first_run(index: Ints, shape: Ints, strides: Ints, lower: Ints, upper: Ints, box: int) -> tuple[int, int, int]:
    """Set `index` to the lowest cell of a box; return its offset, the axis of the box's runs and their length."""
    offset = 0
    for axis in range(len(shape)):
        index[axis] = lower[box, axis]
        offset += index[axis] * strides[axis]
    axis = len(shape) - 1
    while axis > 0 and upper[box, axis] - lower[box, axis] == shape[axis]:
        axis -= 1
    return offset, axis, (upper[box, axis] - lower[box, axis]) * strides[axis]


@compiled
def _next_run(index: Ints, strides: Ints, lower: Ints, upper: Ints, box: int, axis: int, offset: int) -> int:
    """Turn the odometer of the axes before `axis`; return the offset of the next run, or -1 after the last."""
    for j in range(axis - 1, -1, -1):
        index[j] += 1
        offset += strides[j]
        if index[j] < upper[box, j]:
            return offset
        offset -= strides[j] * (upper[box, j] - lower[box, j])
        index[j] = lower[box, j]
    return -1


@compiled
def _paint_boxes(labels: NDArray[np.int32], shape: Ints, lower: Ints, upper: Ints, selected: Ints) -> tuple[int, int]:
    """Write into the cells which selected box they are in; return the first box to meet another or -1, and the area."""
    strides = _strides(shape)
    index = np.empty(len(shape), dtype=np.int64)
    painted = 0
    for label in range(len(selected)):
        box, painted_by = selected[label], np.int32(-1)
        offset, axis, length = _first_run(index, shape, strides, lower, upper, box)
        while offset >= 0:
            for cell in range(offset, offset + length):
                painted_by = max(painted_by, labels[cell])
                labels[cell] = label
            painted += length
            offset = _next_run(index, strides, lower, upper, box, axis, offset)
        if painted_by >= 0:
            return box, painted
    return -1, painted


@compiled
def _meeting(held: Bools, shape: Ints, lower: Ints, upper: Ints) -> int:
    """Mark the cells of each box; return the first box that meets a marked one, or -1."""
    strides = _strides(shape)
    index = np.empty(len(shape), dtype=np.int64)
    for box in range(len(lower)):
        offset, axis, length = _first_run(index, shape, strides, lower, upper, box)
        while offset >= 0:
            for cell in range(offset, offset + length):
                if held[cell]:
                    return box
                held[cell] = True
            offset = _next_run(index, strides, lower, upper, box, axis, offset)
    return -1


@compiled
def _sum_boxes(flat: NDArray[Element], sums: NDArray[Element], shape: Ints, lower: Ints, upper: Ints) -> None:
    strides = _strides(shape)
    index = np.empty(len(shape), dtype=np.int64)
    for box in range(len(lower)):
        offset, axis, length = _first_run(index, shape, strides, lower, upper, box)
        while offset >= 0:
            total = sums[box]
            for cell in range(offset, offset + length):
                total += flat[cell]
            sums[box] = total
            offset = _next_run(index, strides, lower, upper, box, axis, offset)


def add_to_boxes(array: NDArray[Element], boxes: Boxes, values: NDArray[Element]) -> None:
    """Add each box's value to every one of its cells, in place; where boxes overlap, values add up.

    >>> cells = np.zeros(3)
    >>> add_to_boxes(cells, Boxes((3,), np.array([[0], [1]]), np.array([[2], [3]])), np.array([1.0, 5.0]))
    >>> cells
    array([1., 6., 5.])
    """
    if array.shape != boxes.shape or not array.flags.c_contiguous:
        message = f"boxes in a cube of shape {boxes.shape} cannot be added to an array of shape {array.shape}"
        raise DomainError(message)
    _add_boxes(array.reshape(-1), values.astype(array.dtype), np.array(boxes.shape), boxes.lower, boxes.upper)


def filled_boxes(boxes: Boxes, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an array of the shape of the cube that holds each box's value in every one of its cells."""
    cells = np.zeros(boxes.shape)
    add_to_boxes(cells, boxes, values)
    return cells


@compiled
def _add_boxes(flat: NDArray[Element], values: NDArray[Element], shape: Ints, lower: Ints, upper: Ints) -> None:
    strides = _strides(shape)
    index = np.empty(len(shape), dtype=np.int64)
    for box in range(len(lower)):
        offset, axis, length = _first_run(index, shape, strides, lower, upper, box)
        while offset >= 0:
            for cell in range(offset, offset + length):
                flat[cell] += values[box]
            offset = _next_run(index, strides, lower, upper, box, axis, offset)
