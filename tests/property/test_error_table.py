"""Tables of errors give what visiting every node gives, for trees of any shape."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcube.arrays import Floats
from dpcube.estimate.box_tables import BoxTables, worthwhile
from dpcube.estimate.error_table import ErrorTable, is_halved
from dpcube.estimate.kernels import sums_over_boxes
from dpcube.estimate.spread import range_sums_of_tree
from dpcube.geometry.halving import CutOrder, halve, whole
from dpcube.geometry.tree import BoxTree
from dpcube.query import Workload
from dpcube.query.random_ranges import random_ranges
from random_trees import random_tree

SHAPES = st.lists(st.integers(1, 13), min_size=1, max_size=4).map(tuple)
quick = settings(deadline=None, max_examples=60, derandomize=True)


def halved_tree(shape: tuple[int, ...], generator: np.random.Generator) -> BoxTree:
    """Halve axes in a random order, and go on from some of the leaves only."""
    start = np.cumsum([0, *shape[:-1]])
    order, tree = CutOrder(generator.random(sum(shape)), start), whole(shape)
    for _ in range(4):
        tree = halve(tree, tree.leaves[generator.random(len(tree.leaves)) < 0.8], 2, order).tree
    return tree


def visited(tree: BoxTree, variance: Floats, prefix: Floats, start: NDArray[np.int64], asked: Workload) -> Floats:
    """The variances of splits and of leaves, from a walk down the tree for each range."""
    inner, leaf = np.where(tree.is_leaf, 0.0, variance), np.where(tree.is_leaf, variance, 0.0)
    nothing, bounds = np.zeros(len(tree)), (tree.lower, tree.upper, tree.end)
    return range_sums_of_tree(*bounds, nothing, inner, leaf, prefix, start, asked.lower, asked.upper)[:, 1:]


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_a_table_gives_what_visiting_nodes_gives(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = halved_tree(shape, generator)
    variance = generator.exponential(size=len(tree)) * (generator.random(len(tree)) < 0.8)
    start = np.cumsum([0, *(extent + 1 for extent in shape[:-1])])
    prefix = np.concatenate([[0.0, *generator.uniform(0.01, 1, extent).cumsum()] for extent in shape])
    asked = random_ranges(shape, 50, seed=seed % 1000)
    found = np.stack(ErrorTable.of(tree, variance, prefix, start, of_total=0.0).variances(asked), axis=1)
    np.testing.assert_allclose(found, visited(tree, variance, prefix, start, asked), rtol=1e-9, atol=1e-9)


def test_a_range_has_its_part_of_the_totals_variance() -> None:
    prefix = np.array([0.0, 1.0, 4.0])
    table = ErrorTable.of(whole((2,)), np.zeros(1), prefix, np.zeros(1, np.int64), of_total=16.0)
    asked = Workload((2,), np.array([[0], [1], [0]]), np.array([[1], [2], [2]]))
    np.testing.assert_allclose(table.variances(asked), [[1, 9, 16], [0, 0, 0]])


def test_only_trees_of_halves_have_tables() -> None:
    third = BoxTree((3,), np.array([[0], [0], [2]]), np.array([[3], [2], [3]]), np.array([-1, 0, 0]))
    half = BoxTree((3,), np.array([[0], [0], [1]]), np.array([[3], [1], [3]]), np.array([-1, 0, 0]))
    assert (is_halved(half), is_halved(third)) == (True, False)


def test_a_table_is_made_for_many_ranges_and_never_a_huge_one() -> None:
    for numbers in (ErrorTable.numbers, lambda shape: BoxTables.numbers(shape, 4)):
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
    part, square, whole = np.moveaxis(terms[tree.leaves], 2, 0)
    sizes = tree.sizes[tree.leaves][:, None]
    expected = sums_over_boxes(tree, part / sizes, square / sizes**2, asked, whole=part + square + whole)
    np.testing.assert_allclose(BoxTables.of(tree, terms).sums(asked), expected, rtol=1e-9, atol=1e-9)
