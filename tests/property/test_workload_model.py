"""The query kernel: its closed forms against the dense matrix, and the matrix against the queries it stands for."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.queries.workload_model import (
    ANY,
    AXIS_KERNELS,
    KINDS,
    AxisKernel,
    WorkloadModel,
    groups,
    prefix_ranges,
    ranges,
    short_ranges,
)
from dpcube.trees.halving import CutOrder, depth, halve
from dpcube.trees.tree import BoxTree

quick = settings(deadline=None, max_examples=60, derandomize=True)


def order_of(shape: tuple[int, ...]) -> CutOrder:
    return WorkloadModel(shape, ("ranges",) * len(shape)).cut_order()


def dense(kernel: AxisKernel) -> Floats:
    """The chance of covering cells a and b together, as a matrix."""
    upper = np.triu(np.multiply.outer(kernel.before, kernel.after))
    return upper + np.triu(upper, 1).T + np.diag(kernel.alone)


def enumerated(cells: int, queries: list[tuple[int, int, float]]) -> Floats:
    """The same from queries: first cell, last cell, chance."""
    covered = np.zeros((cells, cells))
    for first, last, chance in queries:
        covered[first : last + 1, first : last + 1] += chance
    return covered


def all_ranges(n: int) -> list[tuple[int, int, float]]:
    return [(min(a, b), max(a, b), 1 / n**2) for a in range(n) for b in range(n)]


def all_prefixes(n: int) -> list[tuple[int, int, float]]:
    return [(0, last, 1 / n) for last in range(n)]


def all_groups(n: int) -> list[tuple[int, int, float]]:
    return [(0, n - 1, 0.5), *((value, value, 0.5 / n) for value in range(n))]


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 16])
@pytest.mark.parametrize(
    ("kernel", "queries"), [(ranges, all_ranges), (prefix_ranges, all_prefixes), (groups, all_groups)]
)
def test_a_kernel_is_the_chance_of_its_queries(
    kernel: Callable[[int], AxisKernel], queries: Callable[[int], list[tuple[int, int, float]]], cells: int
) -> None:
    np.testing.assert_allclose(dense(kernel(cells)), enumerated(cells, queries(cells)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("cells", [1, 2, 5, 64, 4096])
def test_short_ranges_cover_a_pair_by_its_distance_alone(cells: int) -> None:
    kernel = short_ranges(cells)
    first, last = kernel.before[0] * kernel.after, kernel.before[-1] * kernel.after[-1]
    np.testing.assert_allclose(first, last * np.exp(-np.arange(cells) / max(cells**0.5, 1.0)), rtol=1e-9)
    assert np.isfinite(kernel.before).all()
    assert 0 < last <= 1


def matrix_of(kind: str, cells: int) -> Floats:
    """The dense matrix of a kind of queries, of all kinds on average if they are mixed."""
    chosen = [AXIS_KERNELS[kind]] if kind in AXIS_KERNELS else list(AXIS_KERNELS.values())
    return np.asarray(np.mean([dense(kernel(cells)) for kernel in chosen], axis=0), np.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_is_positive_semidefinite(kind: str) -> None:
    """As the second moment of the cells that a random query covers must be; then no F and no K is below zero."""
    eigenvalues = np.linalg.eigvalsh(matrix_of(kind, 23))
    assert eigenvalues.min() > -1e-12


def brute(matrices: list[Floats], inside: NDArray[np.bool_], left: NDArray[np.bool_]) -> Floats:
    """F of the cells `inside`, and K between `left` and the others of them, by the matrix of all pairs of cells."""
    matrix: Floats = np.ones((1, 1))
    for of_axis in matrices:
        matrix = np.asarray(np.kron(matrix, of_axis), np.float64)
    share = inside.reshape(-1) / inside.sum()
    one, other = (half.reshape(-1) / max(half.sum(), 1) for half in (inside & left, inside & ~left))
    apart = one - other
    return np.array([share @ matrix @ share, apart @ matrix @ apart])


@pytest.mark.slow
@quick
@given(st.data())
def test_values_are_those_of_the_dense_matrix(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    kinds = tuple(data.draw(st.sampled_from(KINDS)) for _ in shape)
    matrices = [matrix_of(kind, cells) for kind, cells in zip(kinds, shape, strict=True)]
    given = None
    if data.draw(st.booleans()):
        generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        given = tuple(generator.random((3, cells)) for cells in shape)
        parts = zip(matrices, given, strict=True)
        matrices = [ANY * a / a.trace() + (1 - ANY) * w.T @ w / (w.T @ w).trace() for a, w in parts]
    tree = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), depth(shape), order_of(shape)).tree
    axis, middle = order_of(shape).cuts_of(tree)
    covered, differ = WorkloadModel(shape, kinds, given).values(tree.lower, tree.upper, axis, middle)
    grid = np.indices(shape)
    for node in range(len(tree)):
        low, high = (bounds[node].reshape((-1,) + (1,) * len(shape)) for bounds in (tree.lower, tree.upper))
        inside = ((grid >= low) & (grid < high)).all(axis=0)
        left = grid[axis[node]] < middle[node]
        expected = brute(matrices, inside, left)
        assert covered[node] == pytest.approx(expected[0], rel=1e-9)
        assert differ[node] == pytest.approx(expected[1] if axis[node] >= 0 else 0, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("kind", ["ranges", "prefixes", "groups"])
def test_values_are_mean_squares_over_queries(kind: str) -> None:
    """What F and K mean: the mean square of the share of a box that a query covers, and of the halves' difference."""
    queries = {"ranges": all_ranges, "prefixes": all_prefixes, "groups": all_groups}[kind](12)
    low, middle, high = 6, 9, 12  # the right half
    kernel = WorkloadModel((12,), (kind,))
    covered, differ = kernel.values(np.array([[low]]), np.array([[high]]), np.array([0]), np.array([middle]))

    def share(first: int, last: int, start: int, end: int) -> float:
        return max(min(last + 1, end) - max(first, start), 0) / (end - start)

    squares = [(share(a, b, low, high) ** 2, chance) for a, b, chance in queries]
    apart = [((share(a, b, low, middle) - share(a, b, middle, high)) ** 2, chance) for a, b, chance in queries]
    assert covered[0] == pytest.approx(sum(square * chance for square, chance in squares), rel=1e-12)
    assert differ[0] == pytest.approx(sum(square * chance for square, chance in apart), rel=1e-12)


@pytest.mark.parametrize("cells", [1024, 2**20])
@pytest.mark.parametrize("kind", AXIS_KERNELS)
def test_small_boxes_of_long_axes_do_not_cancel(kind: str, cells: int) -> None:
    """Prefix sums over a long axis would lose them: those of short ranges from 1,000 cells on, others from 10^5."""
    axis_kernel = AXIS_KERNELS[kind](cells)
    at = np.array([0, 2, 2 * (cells // 6), cells - 2])
    one = np.zeros(len(at), np.int64)
    covered, differ = WorkloadModel((cells,), (kind,)).values(at[:, None], at[:, None] + 2, one, at + 1)
    first = axis_kernel.before[at] * axis_kernel.after[at] + axis_kernel.alone[at]
    last = axis_kernel.before[at + 1] * axis_kernel.after[at + 1] + axis_kernel.alone[at + 1]
    both = axis_kernel.before[at] * axis_kernel.after[at + 1]
    np.testing.assert_allclose(covered, (first + last + 2 * both) / 4, rtol=1e-9)
    np.testing.assert_allclose(differ, first + last - 2 * both, rtol=1e-6)
    assert (differ > 0).all()


@pytest.mark.parametrize("kinds", [("ranges",), ("ranges", "cells"), ("ranges",) * 3])
def test_wrong_kinds_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="queries must be one of mixed, ranges, prefixes, short, groups for each of 2"):
        WorkloadModel((4, 4), kinds)
