import numpy as np
import pytest
from numpy.typing import NDArray

from dpcube.errors import DomainError
from dpcube.geometry.boxes import Box, Boxes, Element, Partitioning, box_sums, paint


def random_boxes(shape: tuple[int, ...], count: int, seed: int) -> Boxes:
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, shape, (count, len(shape)))
    return Boxes(shape, lower, rng.integers(lower + 1, np.array(shape) + 1))


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
    assert box.contains(Box((2, 1), (3, 4)))
    assert not box.contains(Box((0, 1), (3, 4)))
    assert box.intersect(Box((2, 3), (9, 9))) == Box((2, 3), (3, 4))
    assert box.intersect(Box((3, 0), (4, 4))) is None


@pytest.mark.parametrize(
    ("lower", "upper"), [((), ()), ((1,), (1,)), ((2, 0), (1, 1)), ((-1,), (1,)), ((0,), (1, 2)), ((0, 1), (2,))]
)
def test_box_that_cannot_be(lower: tuple[int, ...], upper: tuple[int, ...]) -> None:
    with pytest.raises(DomainError, match="box"):
        Box(lower, upper)


def test_boxes_of_different_cubes_do_not_meet() -> None:
    with pytest.raises(DomainError, match="2 attributes cannot meet one of 1"):
        Box((0, 0), (1, 1)).intersect(Box((0,), (1,)))
    with pytest.raises(DomainError, match="1 attributes cannot meet one of 2"):
        Box((0,), (1,)).contains(Box((0, 0), (1, 1)))


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
    np.testing.assert_array_equal(paint(shape, lower, upper), expected)
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


def test_equal_volume_does_not_hide_an_overlap() -> None:
    with pytest.raises(DomainError, match=r"box 1 .* overlaps"):
        paint((4,), np.array([[0], [1]]), np.array([[2], [3]]))


def test_too_many_cells_to_label() -> None:
    with pytest.raises(DomainError, match="2147483648 cells"):
        paint((2**16, 2**15), np.array([[0, 0]]), np.array([[2**16, 2**15]]))


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
