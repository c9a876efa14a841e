import numpy as np
import pytest
from numpy.typing import NDArray

from dpcube.core import boxes as boxes_module
from dpcube.core.boxes import (
    Box,
    Boxes,
    Element,
    Partitioning,
    add_to_boxes,
    box_sums,
    filled_boxes,
    paint_selected,
)
from dpcube.core.errors import DomainError


def random_boxes(shape: tuple[int, ...], count: int, seed: int) -> Boxes:
    """Boxes at random, the first of which is the whole cube."""
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, shape, (count, len(shape)))
    lower[0] = 0
    upper = rng.integers(lower + 1, np.array(shape) + 1)
    upper[0] = shape
    return Boxes(shape, lower, upper)


def cut_up(shape: tuple[int, ...], cuts: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Disjoint boxes that cover the shape: one of them is cut in two, again and again."""
    rng = np.random.default_rng(seed)
    boxes = [((0,) * len(shape), tuple(shape))]
    for _ in range(cuts):
        lower, upper = boxes.pop(rng.integers(len(boxes)))
        axis = int(rng.integers(len(shape)))
        middle = int(rng.integers(lower[axis], upper[axis]))
        if middle == lower[axis]:
            boxes.append((lower, upper))
            continue
        boxes.append((lower, (*upper[:axis], middle, *upper[axis + 1 :])))
        boxes.append(((*lower[:axis], middle, *lower[axis + 1 :]), upper))
    return np.array([lower for lower, _ in boxes]), np.array([upper for _, upper in boxes])


SHAPES = [(7,), (5, 8), (8, 5, 1), (3, 4, 2, 5), (2, 3, 2, 3, 2, 2)]


def test_box_of_cells() -> None:
    box = Box((1, 0), (3, 4))
    assert box.size == 8


@pytest.mark.parametrize(
    ("lower", "upper"), [((), ()), ((1,), (1,)), ((2, 0), (1, 1)), ((-1,), (1,)), ((0,), (1, 2)), ((0, 1), (2,))]
)
def test_box_that_cannot_be(lower: tuple[int, ...], upper: tuple[int, ...]) -> None:
    with pytest.raises(DomainError, match="box"):
        Box(lower, upper)


def test_boxes_are_read_only_copies() -> None:
    lower, upper = np.array([[0, 1], [2, 0]]), np.array([[1, 3], [4, 2]])
    boxes = Boxes((4, 3), lower, upper)
    lower[:], upper[:] = 9, 9
    assert boxes.lower.tolist() == [[0, 1], [2, 0]]
    assert boxes.upper.tolist() == [[1, 3], [4, 2]]
    assert len(boxes) == 2
    assert boxes[1] == Box((2, 0), (4, 2))
    assert boxes.sizes.tolist() == [2, 4]
    assert repr(boxes) == "<Boxes: 2 boxes in (4, 3)>"
    for bounds in (boxes.lower, boxes.upper):
        with pytest.raises(ValueError, match="read-only"):
            bounds[0, 0] = 1


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("writeable", [True, False])
def test_bounds_are_kept_in_one_form(dtype: type[np.integer], writeable: bool) -> None:  # noqa: FBT001
    """In rows of 64-bit numbers, as the kernels read them; what has that form and cannot be written is not copied."""
    bounds = np.asfortranarray(np.array([[0, 1, 2], [2, 0, 1]]), dtype=dtype)
    bounds.flags.writeable = writeable
    boxes = Boxes((4, 4, 4), bounds, bounds + np.ones(1, dtype))
    for kept in (boxes.lower, boxes.upper):
        assert kept.dtype == np.int64
        assert kept.flags.c_contiguous
        assert not kept.flags.writeable
    assert boxes.lower.tolist() == [[0, 1, 2], [2, 0, 1]]
    assert Boxes((4, 4, 4), boxes.lower, boxes.upper).lower is boxes.lower


def test_the_shape_of_boxes_is_theirs_whatever_it_was_given_as() -> None:
    shape = [np.int64(4), np.int32(3)]
    boxes = Boxes(shape, np.array([[0, 1]]), np.array([[1, 3]]))  # type: ignore[arg-type]
    shape.append(np.int64(2))
    assert boxes.shape == (4, 3)
    assert [type(extent) for extent in boxes.shape] == [int, int]


@pytest.mark.parametrize(
    ("shape", "lower", "upper", "message"),
    [
        ((4,), [[0], [3]], [[1], [3]], "box 1 from .3. to .3. is empty or not inside"),
        ((4,), [[-1]], [[1]], "not inside a cube of shape"),
        ((4,), [[0]], [[5]], "not inside a cube of shape"),
        ((4, 2), [[0]], [[1]], "needs one row of 2 bounds"),
        ((4,), [[0], [1]], [[1]], "upper bounds have shape"),
        ((4, 2), [[0]], [[1, 2]], "lower bounds have shape"),
        ((4, 0), [[0, 0]], [[1, 1]], "no empty axis"),
        ((), [[0]], [[1]], "at least one axis"),
        ((4,), [[0.5]], [[1.0]], "whole numbers"),
    ],
)
def test_boxes_that_cannot_be(
    shape: tuple[int, ...], lower: list[list[float]], upper: list[list[float]], message: str
) -> None:
    with pytest.raises(DomainError, match=message):
        Boxes(shape, np.array(lower), np.array(upper))


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_name_the_box_of_each_cell(shape: tuple[int, ...]) -> None:
    lower, upper = cut_up(shape, cuts=40, seed=len(shape))
    partitioning = Partitioning(shape, lower, upper)
    expected = np.full(shape, -1)
    for number, (low, high) in enumerate(zip(lower, upper, strict=True)):
        expected[tuple(map(slice, low, high))] = number
    assert partitioning.labels.dtype == np.int32
    np.testing.assert_array_equal(partitioning.labels, expected)
    with pytest.raises(ValueError, match="read-only"):
        partitioning.labels[...] = 0


@pytest.mark.parametrize("shape", SHAPES)
def test_overlap_and_gap_are_refused(shape: tuple[int, ...]) -> None:
    lower, upper = cut_up(shape, cuts=40, seed=1)
    assert len(lower) > 2
    with pytest.raises(DomainError, match=f"box {len(lower)} .* overlaps"):
        Partitioning(shape, np.vstack([lower, lower[:1]]), np.vstack([upper, upper[:1]]))
    with pytest.raises(DomainError, match=r"cover .* of the .* cells"):
        Partitioning(shape, lower[1:], upper[1:])


@pytest.mark.parametrize("upper", [[[5]], [[0]]])
def test_boxes_outside_the_cube_label_nothing(upper: list[list[int]]) -> None:
    with pytest.raises(DomainError, match=r"box 0 from .* is empty or not inside"):
        Partitioning((4,), np.array([[0]]), np.array(upper))


def test_boxes_are_told_by_their_own_numbers_where_some_are_chosen() -> None:
    boxes = Boxes((4,), np.array([[0], [1], [2]]), np.array([[2], [4], [4]]))
    assert paint_selected(boxes, np.array([2, 0])).tolist() == [1, 1, 0, 0]
    with pytest.raises(DomainError, match=r"box 0 .* overlaps a box before it"):
        paint_selected(boxes, np.array([1, 0]))


def test_equal_volume_does_not_hide_an_overlap() -> None:
    with pytest.raises(DomainError, match=r"box 1 .* overlaps"):
        Partitioning((4,), np.array([[0], [1]]), np.array([[2], [3]]))


def test_as_many_cells_are_labelled_as_there_are_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.iinfo(np.int32).max == boxes_module.MAX_LABELLED_CELLS
    monkeypatch.setattr(boxes_module, "MAX_LABELLED_CELLS", 4)
    assert Partitioning((2, 2), np.array([[0, 0]]), np.array([[2, 2]])).labels.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(DomainError, match="at most 4 can be labelled"):
        Partitioning((5,), np.array([[0]]), np.array([[5]]))


def test_too_many_cells_to_label() -> None:
    with pytest.raises(DomainError, match="2147483648 cells"):
        Partitioning((2**16, 2**15), np.array([[0, 0]]), np.array([[2**16, 2**15]]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_sums_are_those_of_slices(shape: tuple[int, ...], dtype: type[Element]) -> None:
    boxes = random_boxes(shape, count=50, seed=2)
    array = np.random.default_rng(3).integers(-9, 10, shape).astype(dtype)
    sums = box_sums(array, boxes)
    assert sums.dtype == dtype
    slices = [tuple(map(slice, low, high)) for low, high in zip(boxes.lower, boxes.upper, strict=True)]
    assert sums.tolist() == [array[cells].sum() for cells in slices]
    np.testing.assert_array_equal(box_sums(np.asfortranarray(array), boxes), sums)


def test_sums_beyond_the_integers_of_a_float_are_exact() -> None:
    array = np.array([2**60, 1, -(2**60)])
    assert box_sums(array, Boxes((3,), np.array([[0], [0]]), np.array([[2], [3]]))).tolist() == [2**60 + 1, 1]


def test_sums_of_another_shape_or_type_are_refused() -> None:
    boxes = Boxes((3,), np.array([[0]]), np.array([[2]]))
    with pytest.raises(DomainError, match=r"shape \(3,\), not int64 \(4,\)"):
        box_sums(np.zeros(4, np.int64), boxes)
    with pytest.raises(DomainError, match="not int32"):
        box_sums(np.zeros(3, np.int32), boxes)  # type: ignore[type-var]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_what_is_added_to_boxes_adds_up_where_they_overlap(shape: tuple[int, ...], dtype: type[Element]) -> None:
    boxes = random_boxes(shape, count=20, seed=5)
    values = np.arange(1, 21).astype(dtype)
    expected = np.zeros(shape, dtype)
    for low, high, value in zip(boxes.lower, boxes.upper, values, strict=True):
        expected[tuple(map(slice, low, high))] += value
    array = np.full(shape, 7, dtype)
    add_to_boxes(array, boxes, values)
    np.testing.assert_array_equal(array, expected + 7)
    np.testing.assert_array_equal(filled_boxes(boxes, values.astype(np.float64)), expected)


@pytest.mark.parametrize(
    "array", [np.zeros((3, 2)), np.zeros((2, 3)), np.zeros((2, 2)).T[::1, ::-1], np.zeros((2, 4))[:, ::2]]
)
def test_nothing_is_added_to_an_array_of_which_only_a_copy_would_change(array: NDArray[np.float64]) -> None:
    boxes = Boxes((2, 2), np.array([[0, 0]]), np.array([[2, 2]]))
    with pytest.raises(DomainError, match="cannot be added"):
        add_to_boxes(array, boxes, np.ones(1))
    assert not array.any()
