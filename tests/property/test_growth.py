"""The compiled growth against Algorithm 3 written out in exact fractions, and the properties it must have."""

import heapq
import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.boxes import box_sums
from dpcube.core.errors import DomainError, InputError
from dpcube.trees.growth import NO_LIMIT, Rule, Weight, _grow, grow, weighted_variance
from dpcube.trees.tree import BoxTree

SplitRule = Literal["best", "longest"]
Cell = tuple[int, ...]
Node = tuple[Cell, Cell, int]  # lower bounds, upper bounds, parent


class Choice(TypedDict):
    threshold: float
    rule: SplitRule
    weight: Weight
    noise_variance: float
    slack: float
    min_cells: int
    max_depth: int | None


PLAIN: Choice = {
    "threshold": 0.0,
    "rule": "best",
    "weight": "cells",
    "noise_variance": 0.0,
    "slack": 0.0,
    "min_cells": 1,
    "max_depth": None,
}

TIE = Fraction(1, 10**12)
SCAN, TABLE = math.inf, 0.0  # prices of a lookup that force one of the two ways of summing slabs
quick = settings(deadline=None, max_examples=150, derandomize=True)

ELEMENTS = (
    st.integers(-2, 2),
    st.integers(-60, 60),
    st.sampled_from([0, 1, 10**9, -(10**9), 10**9 + 1]),
    st.sampled_from([0, 1, 5, 2**40 - 1, 2**40 - 2, 1 - 2**40, 2**39, 12345678901, 2**43 - 1]),
)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5).filter(lambda shape: math.prod(shape) <= 60)
CUBES = st.one_of(*(hnp.arrays(np.int64, SHAPES, elements=elements) for elements in ELEMENTS))


def slices(lower: Iterable[int], upper: Iterable[int]) -> tuple[slice, ...]:
    return tuple(map(slice, lower, upper))


def error_of(counts: Ints) -> Fraction:
    """Sum of squared deviations from the mean, exactly."""
    values = [int(value) for value in np.ravel(counts)]
    return sum(value * value for value in values) - Fraction(sum(values) ** 2, len(values))


def cost_of(values: Ints, weight: Weight) -> Fraction:
    if weight == "cells":
        return error_of(values)
    return error_of(values) * max(0, sum(int(value) for value in np.ravel(values))) / values.size


def reference(
    counts: Ints,
    *,
    threshold: float,
    rule: SplitRule,
    weight: Weight,
    noise_variance: float,
    slack: float,
    min_cells: int,
    max_depth: int | None,
) -> list[Node]:
    """Bounds and parents in preorder, by recursion."""
    nodes: list[Node] = []

    def visit(lower: Cell, upper: Cell, parent: int, depth: int) -> None:
        me = len(nodes)
        nodes.append((lower, upper, parent))
        box = counts[slices(lower, upper)]
        n = box.size
        if n == 1 or n < 2 * min_cells or depth == max_depth:
            return
        deviation = noise_variance * math.sqrt(((n - 1) ** 2 * 6 - (n - 1) * (n - 3)) / n**3)
        floor = Fraction(noise_variance) * (n - 1) / n
        if error_of(box) / n - floor <= Fraction(threshold) + Fraction(slack * deviation):
            return
        best = None
        axes = [int(np.argmax(box.shape))] if rule == "longest" else range(box.ndim)
        for axis in axes:
            for cut in range(1, box.shape[axis]):
                below, above = np.split(box, [cut], axis=axis)
                if min(below.size, above.size) < min_cells:
                    continue
                cost = cost_of(below, weight) + cost_of(above, weight)
                if best is None or cost < best[0] * (1 - TIE):
                    best = cost, axis, lower[axis] + cut
        if best is not None:
            _, axis, middle = best
            visit(lower, (*upper[:axis], middle, *upper[axis + 1 :]), me, depth + 1)
            visit((*lower[:axis], middle, *lower[axis + 1 :]), upper, me, depth + 1)

    visit((0,) * counts.ndim, counts.shape, -1, 0)
    return nodes


def nodes_of(tree: BoxTree) -> list[Node]:
    bounds = zip(tree.lower.tolist(), tree.upper.tolist(), tree.parent.tolist(), strict=True)
    return [(tuple(lower), tuple(upper), parent) for lower, upper, parent in bounds]


def boxes_of(tree: BoxTree) -> set[tuple[Cell, Cell]]:
    return {(lower, upper) for lower, upper, _ in nodes_of(tree)}


def grow_by(
    price: float,
    counts: Ints,
    *,
    threshold: float = 0.0,
    rule: SplitRule = "best",
    weight: Weight = "cells",
    noise_variance: float = 0.0,
    slack: float = 0.0,
    min_cells: int = 1,
    max_depth: int | None = None,
) -> BoxTree:
    chosen = Rule(
        threshold=threshold,
        noise_variance=noise_variance,
        slack=slack,
        longest=rule == "longest",
        by_records=weight == "records",
        min_cells=min_cells,
        max_depth=NO_LIMIT if max_depth is None else max_depth,
        max_boxes=NO_LIMIT,
        best_first=False,
        lookup_price=price,
    )
    return _grow(counts, chosen)


@quick
@given(
    counts=CUBES,
    threshold=st.sampled_from([-1.0, 0.0, 0.25, 2.0, 300.0]),
    rule=st.sampled_from(["best", "longest"]),
    weight=st.sampled_from(["cells", "records"]),
    noise_variance=st.sampled_from([0.0, 0.0, 3.0, 40.0]),
    slack=st.sampled_from([0.0, 1.0]),
    min_cells=st.sampled_from([1, 1, 2, 5]),
    max_depth=st.sampled_from([None, None, 0, 2]),
)
def test_growth_is_the_algorithm_in_fractions(counts: Ints, **choice: Unpack[Choice]) -> None:
    expected = reference(counts, **choice)
    assert nodes_of(grow(counts, **choice)) == expected
    assert nodes_of(grow_by(SCAN, counts, **choice)) == expected
    assert nodes_of(grow_by(TABLE, counts, **choice)) == expected


@quick
@given(counts=CUBES, thresholds=st.tuples(st.floats(0, 500), st.floats(0, 500)))
def test_trees_are_nested_in_the_threshold(counts: Ints, thresholds: tuple[float, float]) -> None:
    fine, coarse = (grow(counts, threshold=threshold) for threshold in sorted(thresholds))
    assert boxes_of(coarse) <= boxes_of(fine)
    assert weighted_variance(counts, fine.partitioning()) <= weighted_variance(counts, coarse.partitioning())


@quick
@given(counts=CUBES, weight=st.sampled_from(["cells", "records"]))
def test_a_split_never_adds_squared_error_and_no_cell_is_lost(counts: Ints, weight: Weight) -> None:
    tree = grow(counts, threshold=0, weight=weight)
    errors = [error_of(counts[slices(lower, upper)]) for lower, upper, _ in nodes_of(tree)]
    for node in range(len(tree)):
        children = np.flatnonzero(tree.parent == node)
        assert len(children) in (0, 2)
        assert sum(errors[child] for child in children) <= errors[node]
        assert len(children) == 2 or errors[node] == 0
    assert box_sums(counts, tree.partitioning()).sum() == counts.sum()


@quick
@given(seed=st.integers(0, 2**32), order=st.permutations(range(3)), threshold=st.sampled_from([0.0, 1e16, 1e17]))
def test_permuting_the_axes_permutes_the_boxes(seed: int, order: list[int], threshold: float) -> None:
    counts = np.random.default_rng(seed).integers(-(10**9), 10**9, (3, 4, 5))  # so wide that axes do not tie
    plain = grow(counts, threshold=threshold)
    turned = grow(counts.transpose(order), threshold=threshold)
    assert {(tuple(lower[list(order)]), tuple(upper[list(order)])) for lower, upper in bounds(plain)} == {
        (tuple(lower), tuple(upper)) for lower, upper in bounds(turned)
    }


def bounds(tree: BoxTree) -> Iterable[tuple[Ints, Ints]]:
    return zip(tree.lower, tree.upper, strict=True)


@quick
@given(seed=st.integers(0, 2**32), max_boxes=st.integers(1, 25), noise_variance=st.sampled_from([0.0, 2e16]))
def test_max_boxes_splits_the_greatest_squared_error_first(seed: int, max_boxes: int, noise_variance: float) -> None:
    counts = np.random.default_rng(seed).integers(-(10**9), 10**9, (4, 5))  # so wide that errors do not tie
    whole = grow(counts, threshold=2e16, noise_variance=noise_variance)
    boxes = list(bounds(whole))
    excess = [
        error_of(counts[slices(*box)]) - (size - 1) * noise_variance
        for box, size in zip(boxes, whole.sizes, strict=True)
    ]
    frontier, kept = [(-excess[0], 0)], {0}
    while len(kept) < 2 * max_boxes - 1 and frontier:
        _, node = heapq.heappop(frontier)
        children = np.flatnonzero(whole.parent == node).tolist()
        kept.update(children)
        for child in children:
            heapq.heappush(frontier, (-excess[child], child))
    expected = [(tuple(boxes[node][0]), tuple(boxes[node][1])) for node in sorted(kept)]
    capped = grow(counts, threshold=2e16, noise_variance=noise_variance, max_boxes=max_boxes)
    assert [(lower, upper) for lower, upper, _ in nodes_of(capped)] == expected


@pytest.mark.parametrize("huge", [10**7, 10**9, 2**40 - 1])
@pytest.mark.parametrize("price", [SCAN, TABLE])
def test_a_faint_box_beside_a_huge_count_is_found(huge: int, price: float) -> None:
    counts = np.zeros((40, 30), dtype=np.int64)
    counts[0, 0] = huge
    counts[1, 2:9] = huge
    counts[30:33, 20:24] = 1
    labels = grow_by(price, counts).partitioning().labels
    assert all(len(np.unique(counts[labels == box])) == 1 for box in range(labels.max() + 1))
    assert len(np.unique(labels[30:33, 20:24])) == 1
    assert (labels == labels[30, 20]).sum() == 12


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2,) * 10, (3, 2) * 5, (1, 2) * 10, (4, 1, 3, 1, 5, 2), (70, 90), (9, 1, 30, 11)])
@pytest.mark.parametrize("rule", ["best", "longest"])
@pytest.mark.parametrize("scale", [5, 10**11])
def test_table_and_scan_agree_in_many_dimensions(shape: tuple[int, ...], rule: SplitRule, scale: int) -> None:
    counts = np.random.default_rng(5).integers(-scale, scale, shape)
    choice: Choice = {**PLAIN, "threshold": scale**2 / 9, "rule": rule, "noise_variance": 0.5 * scale}
    scanned = nodes_of(grow_by(SCAN, counts, **choice))
    assert len(scanned) > 9
    assert nodes_of(grow_by(TABLE, counts, **choice)) == scanned
    assert nodes_of(grow(counts, **choice)) == scanned


@pytest.mark.parametrize(
    "counts",
    [
        [[1, 1, 0, 1], [1, 2, 0, 1], [0, 0, 2, 1]],
        [[0, 2, 3], [0, 1, 0], [3, 1, 1]],
        [[2, 2, 3], [2, 0, 1], [2, 1, 3]],
        [[1, 2, 1], [2, 2, 3], [0, 3, 0]],
    ],
)
def test_a_tie_goes_to_the_first_cut_though_floats_differ_in_the_last_place(counts: list[list[int]]) -> None:
    choice: Choice = {**PLAIN, "max_depth": 1}
    expected = reference(np.array(counts), **choice)
    assert nodes_of(grow(np.array(counts), threshold=0.0, max_depth=1)) == expected


def test_six_dimensions_are_those_of_the_reference() -> None:
    counts = np.random.default_rng(6).integers(-20, 20, (2, 3, 2, 2, 3, 2))
    choice: Choice = {**PLAIN, "threshold": 100.0, "noise_variance": 10.0}
    expected = reference(counts, **choice)
    assert nodes_of(grow(counts, threshold=100.0, noise_variance=10.0)) == expected


@pytest.mark.parametrize("shape", [(101,), (30, 31), (4, 5, 6, 3)])
def test_a_checkerboard_ends_in_single_cells(shape: tuple[int, ...]) -> None:
    counts = 7 * (np.indices(shape).sum(axis=0) % 2)
    tree = grow(counts, threshold=0)
    assert len(tree) == 2 * counts.size - 1
    assert (tree.sizes[tree.leaves] == 1).all()


def test_pure_noise_is_not_split_with_slack_and_is_without() -> None:
    noise = np.random.default_rng(7).laplace(0, 20, (64, 64)).round().astype(np.int64)
    assert len(grow(noise, threshold=0)) > 8000
    assert len(grow(noise, threshold=0, noise_variance=800, slack=5)) == 1


def test_order_and_flags_of_the_array_do_not_matter() -> None:
    counts = np.random.default_rng(8).integers(0, 50, (13, 17))
    expected = nodes_of(grow(counts, threshold=100))
    frozen = counts.copy()
    frozen.flags.writeable = False
    assert nodes_of(grow(np.asfortranarray(counts), threshold=100)) == expected
    assert nodes_of(grow(frozen, threshold=100)) == expected
    assert counts.flags.writeable


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"threshold": math.nan}, "threshold must be a number of at least -inf, not nan"),
        ({"noise_variance": -1.0}, "noise_variance must be a number of at least 0"),
        ({"slack": -1.0}, "slack"),
        ({"min_cells": 0}, "min_cells must be a number of at least 1, not 0"),
        ({"max_depth": -1}, "max_depth"),
        ({"max_boxes": 0}, "max_boxes"),
        ({"rule": "widest"}, "rule 'widest' is not one of best, longest"),
        ({"weight": "rows"}, "weight 'rows' is not one of cells, records"),
    ],
)
def test_settings_that_cannot_be(choice: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        grow(np.arange(4), **{"threshold": 0.0, **choice})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "counts", [np.zeros(3), np.zeros((3, 0), np.int64), np.array(3), np.array([2**46, 0]), np.full(9000, 2**40)]
)
def test_counts_that_cannot_be(counts: NDArray[Any]) -> None:
    with pytest.raises(DomainError, match="counts"):
        grow(counts, threshold=0.0)


@quick
@given(counts=CUBES, offset=st.sampled_from([0, 10**9, 10**12]))
def test_weighted_variance_does_not_cancel(counts: Ints, offset: int) -> None:
    counts = np.clip(counts, -1000, 1000) + offset
    partitioning = grow(counts, threshold=10).partitioning()
    groups = [counts[partitioning.labels == box] for box in range(len(partitioning))]
    weights: tuple[Weight, ...] = ("cells", "records")
    kinds: tuple[type[np.number[Any]], ...] = (np.int64, np.float64, np.int32)
    for weight, kind in itertools.product(weights, kinds):
        if kind == np.int32 and offset > 10**9:
            continue
        exact = float(sum(cost_of(group, weight) for group in groups))
        assert weighted_variance(counts.astype(kind), partitioning, weight=weight) == pytest.approx(exact, rel=1e-9)


def test_weighted_variance_of_another_weight_is_refused() -> None:
    with pytest.raises(DomainError, match="weight 'rows'"):
        weighted_variance(np.arange(3), grow(np.arange(3), threshold=0).partitioning(), weight="rows")  # type: ignore[arg-type]
