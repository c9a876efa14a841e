"""Tables of errors give what visiting every node gives, for trees of any shape."""

import functools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.models.errors.axis_weights import axis_weights, even_measure, everything
from dpcube.models.errors.box_tables import BoxTables, worthwhile
from dpcube.models.errors.halving_table import HalvingTable
from dpcube.models.errors.walks import leaf_sums, split_sums
from dpcube.queries import CountingQueries, Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.trees.halving import CutOrder, halve
from dpcube.trees.tree import BoxTree
from random_trees import random_tree

SHAPES = st.lists(st.integers(1, 13), min_size=1, max_size=4).map(tuple)
quick = settings(deadline=None, max_examples=60, derandomize=True)


def halved_tree(shape: tuple[int, ...], generator: np.random.Generator) -> BoxTree:
    """Halve axes in a random order, and go on from some of the leaves only."""
    start = np.cumsum([0, *shape[:-1]])
    order, tree = CutOrder(generator.random(sum(shape)), start), BoxTree.uncut(shape)
    for _ in range(4):
        tree = halve(tree, tree.leaves[generator.random(len(tree.leaves)) < 0.8], 2, order).tree
    return tree


def visited(tree: BoxTree, variance: Floats, prefix: Floats, start: NDArray[np.int64], asked: Workload) -> Floats:
    """The variances of splits and of leaves, from a walk down the tree for each range."""
    inner, leaf = np.where(tree.is_leaf, 0.0, variance), np.where(tree.is_leaf, variance, 0.0)
    ranges = everything(tree.shape, prefix, start).inside(asked)
    return split_sums(tree, np.zeros(len(tree)), inner, leaf, ranges, of_total=0.0)[:, 1:]


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_a_table_gives_what_visiting_nodes_gives(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = halved_tree(shape, generator)
    variance = generator.exponential(size=len(tree)) * (generator.random(len(tree)) < 0.8)
    start = np.cumsum([0, *(extent + 1 for extent in shape[:-1])])
    prefix = np.concatenate([[0.0, *generator.uniform(0.01, 1, extent).cumsum()] for extent in shape])
    asked = random_ranges(shape, 50, seed=seed % 1000)
    found = np.stack(HalvingTable.from_tree(tree, variance, prefix, start, of_total=0.0).variances(asked), axis=1)
    np.testing.assert_allclose(found, visited(tree, variance, prefix, start, asked), rtol=1e-9, atol=1e-9)


def test_a_range_has_its_part_of_the_totals_variance() -> None:
    prefix = np.array([0.0, 1.0, 4.0])
    table = HalvingTable.from_tree(BoxTree.uncut((2,)), np.zeros(1), prefix, np.zeros(1, np.int64), of_total=16.0)
    asked = Workload((2,), np.array([[0], [1], [0]]), np.array([[1], [2], [2]]))
    np.testing.assert_allclose(table.variances(asked), [[1, 9, 16], [0, 0, 0]])


def test_only_trees_of_halves_have_tables() -> None:
    third = BoxTree((3,), np.array([[0], [0], [2]]), np.array([[3], [2], [3]]), np.array([-1, 0, 0]))
    half = BoxTree((3,), np.array([[0], [0], [1]]), np.array([[3], [1], [3]]), np.array([-1, 0, 0]))
    assert (half.is_halved, third.is_halved) == (True, False)


def test_a_table_is_made_for_many_ranges_and_never_a_huge_one() -> None:
    for numbers in (HalvingTable.numbers, lambda shape: BoxTables.numbers(shape, 4)):
        assert worthwhile(numbers((1024, 1024)), 100_000)
        assert not worthwhile(numbers((1024, 1024)), 100)
        assert not worthwhile(numbers((10_000, 10_000)), 10**9)


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_tables_of_boxes_give_what_visiting_boxes_gives(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = random_tree(shape, generator, stop=0.2)
    terms = generator.normal(size=(len(tree), 2, 3))
    asked = random_ranges(shape, 50, seed=seed % 1000)
    taken = parts_of_leaves(tree, asked)
    part, square, whole = np.moveaxis(terms[tree.leaves], 2, 0)
    expected = taken @ part + taken**2 @ square + (taken == 1) @ whole
    np.testing.assert_allclose(BoxTables.from_terms(tree, terms).sums(asked), expected, rtol=1e-9, atol=1e-9)


def parts_of_leaves(tree: BoxTree, asked: Workload) -> Floats:
    """The part of every leaf that lies in every range, shape (ranges, leaves), from their bounds alone."""
    leaves = tree.leaf_boxes
    low, high = np.maximum(leaves.lower, asked.lower[:, None]), np.minimum(leaves.upper, asked.upper[:, None])
    return np.asarray(np.maximum(high - low, 0).prod(axis=2) / leaves.sizes)


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_a_walk_down_boxes_gives_plain_sums_over_leaves(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = random_tree(shape, generator, stop=0.2)
    totals, variances = generator.normal(size=(2, len(tree.leaves))) ** 2
    below = np.zeros((len(tree), 3))
    for leaf, total, variance in zip(tree.leaves.tolist(), totals, variances, strict=True):
        node = leaf
        while node >= 0:
            below[node] += total, variance, 1
            node = int(tree.parent[node])
    asked = random_ranges(shape, 50, seed=seed % 1000)
    found = leaf_sums(tree, below, everything(shape, *even_measure(shape)).inside(asked))
    taken, sizes = parts_of_leaves(tree, asked), tree.leaf_boxes.sizes
    cut = (taken > 0) & (taken < 1)
    number = np.where(cut.any(axis=1), 0, (taken == 1).sum(axis=1))
    columns = [taken @ totals, taken**2 @ variances, (taken - taken**2) @ sizes]
    columns += [(taken * cut) @ totals**2, (taken * cut) ** 2 @ totals**2, number]
    np.testing.assert_allclose(found, np.stack(columns, axis=1), rtol=1e-9, atol=1e-9)
    assert (found[~cut.any(axis=1), 2:5] == 0).all()


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_a_range_is_the_counting_query_of_weights_one_inside_it(shape: tuple[int, ...], seed: int) -> None:
    """One walk serves both: the same sums come from bounds and from rows of 0 and 1."""
    generator = np.random.default_rng(seed)
    tree, asked = halved_tree(shape, generator), random_ranges(shape, 20, seed=seed % 1000)
    cells = [np.arange(extent) for extent in shape]
    rows = [
        ((at >= asked.lower[:, [axis]]) & (at < asked.upper[:, [axis]])).astype(np.float64)
        for axis, at in enumerate(cells)
    ]
    queries = CountingQueries(tuple(rows), np.repeat(np.arange(20)[:, None], len(shape), axis=1))
    start = np.cumsum([0, *(extent + 1 for extent in shape[:-1])])
    prefix = np.concatenate([[0.0, *generator.uniform(0.01, 1, extent).cumsum()] for extent in shape])
    ranges, weights = everything(shape, prefix, start).inside(asked), axis_weights(queries, prefix, start)
    totals, splits, uneven = generator.exponential(size=(3, len(tree)))
    by_bounds, by_rows = (split_sums(tree, totals, splits, uneven, one, of_total=2.0) for one in (ranges, weights))
    np.testing.assert_allclose(by_bounds, by_rows, rtol=1e-9, atol=1e-9)
    below = generator.exponential(size=(len(tree), 3))
    by_bounds, by_rows = (leaf_sums(tree, below, one) for one in (ranges, weights))
    np.testing.assert_allclose(by_bounds, by_rows, rtol=1e-9, atol=1e-9)


@quick
@given(st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple), st.integers(0, 2**32 - 1))
def test_a_walk_down_splits_gives_plain_sums_over_cells(shape: tuple[int, ...], seed: int) -> None:
    """Every term of a posterior's variance, from the weight and the measure of each cell: none may be left out."""
    generator = np.random.default_rng(seed)
    tree, queries = halved_tree(shape, generator), 8
    rows = [generator.integers(-1, 3, (queries, extent)).astype(np.float64) for extent in shape]
    along = [generator.uniform(0.1, 1, extent) for extent in shape]
    totals, splits, uneven = generator.exponential(size=(3, len(tree)))
    start = np.cumsum([0, *(extent + 1 for extent in shape[:-1])])
    measure = np.concatenate([[0.0, *one.cumsum()] for one in along])
    chosen = np.repeat(np.arange(queries)[:, None], len(shape), axis=1)
    asked = axis_weights(CountingQueries(tuple(rows), chosen), measure, start)
    found = split_sums(tree, totals, splits, uneven, asked, of_total=3.0)

    cells = math.prod(shape)
    weights = np.array([outer([row[query] for row in rows]) for query in range(queries)]).reshape(queries, cells)
    shares = outer(along).reshape(cells)
    inside = np.zeros((len(tree), *shape))
    for node in range(len(tree)):
        inside[node][tuple(map(slice, tree.lower[node], tree.upper[node]))] = 1.0
    shares = inside.reshape(len(tree), cells) * shares
    shares /= shares.sum(axis=1, keepdims=True)
    mean, squares = weights @ shares.T, weights**2 @ shares.T
    leaf = tree.is_leaf
    inner = np.flatnonzero(~leaf)
    apart = mean[:, inner + 1] - mean[:, tree.end[inner + 1]]
    noise = 3.0 * mean[:, 0] ** 2 + apart**2 @ splits[inner]
    within = (squares - mean**2)[:, leaf] @ uneven[leaf]
    np.testing.assert_allclose(found[:, 1:], np.stack([noise, within], axis=1), rtol=1e-9, atol=1e-9)


def outer(rows: list[Floats]) -> Floats:
    return np.asarray(functools.reduce(np.multiply.outer, rows))
