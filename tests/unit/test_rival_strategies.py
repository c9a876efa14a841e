"""Rivals as strategies: what they count, what it costs, and that their estimate is least squares with right errors."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube import Domain, Release, evaluate
from dpcube.core.arrays import Floats, Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import InputError
from dpcube.measurements import BoxCounts, Provenance, Transcript
from dpcube.models.least_squares_tree import least_squares_totals
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.research.strategies.grids import AGrid, UGrid, Uniform, parts_for
from dpcube.research.strategies.hierarchical import (
    HB,
    Hierarchical,
    QuadTree,
    best_branching,
    geometric_budgets,
    regular_levels,
)
from dpcube.research.strategies.hilbert import hilbert_cells, hilbert_places
from dpcube.research.strategies.levels import tree_of_levels
from dpcube.strategies import RIVALS, Strategy, strategy_names, strategy_of
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.tree import BoxTree
from random_trees import random_tree

LEAST_SQUARES = "tree_least_squares"
TO_CELLS: tuple[Strategy, ...] = (
    Hierarchical(),
    Hierarchical(branching=3, root=False),
    Hierarchical(order="row-major", branching=3),
    Hierarchical(order="hilbert"),
    Hierarchical(order="hilbert", branching=8, root=False),
    HB(),
    QuadTree(),
)
EVERY = (*TO_CELLS, Uniform(), UGrid(), AGrid(), UGrid(rows=1000), AGrid(rows=0, least_parts=2))
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


def made(shape: tuple[int, ...], strategy: Strategy, *, seed: int | None = None, epsilon: str = "1") -> Release:
    counts = np.random.default_rng(3).integers(0, 30, shape)
    noise = SilentNoise() if seed is None else SeededNoise(seed)
    return evaluate.experiment(counts, epsilon=epsilon, strategy=strategy, noise=noise)


@settings(max_examples=12, deadline=None)
@given(SHAPES)
def test_without_noise_the_counts_come_back(shape: tuple[int, ...]) -> None:
    exact = np.random.default_rng(3).integers(0, 30, shape)
    for strategy in TO_CELLS:
        np.testing.assert_allclose(made(shape, strategy).cells(LEAST_SQUARES), exact, atol=1e-9)
    for strategy in EVERY:
        assert made(shape, strategy).cells(LEAST_SQUARES).sum() == pytest.approx(exact.sum())


@settings(max_examples=12, deadline=None)
@given(SHAPES, st.integers(0, 2**32))
def test_every_cell_is_charged_the_whole_budget_and_no_more(shape: tuple[int, ...], seed: int) -> None:
    for strategy in EVERY:
        charges = np.zeros(shape, np.int64)
        for measurement in made(shape, strategy, seed=seed).transcript.measurements:
            measurement.add_charges(charges)
        assert (charges == BUDGET_UNITS).all(), strategy


def test_names_are_listed_and_lead_to_the_classes(tmp_path: Path) -> None:
    assert set(RIVALS) <= set(strategy_names())
    for name in RIVALS:
        fitted = strategy_of(name)
        assert fitted.name == name
        release = made((6, 5), fitted, seed=1)
        release.save(tmp_path / f"{name}.dpcube")
        opened = Release.open(tmp_path / f"{name}.dpcube")
        assert opened.provenance.strategy == name
        assert not opened.provenance.private
        assert opened.provenance.parameters == fitted.parameters()
        np.testing.assert_array_equal(opened.cells(), release.cells())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hierarchical(branching=1),
        lambda: Hierarchical(branching=3, order="hilbert"),
        lambda: Hierarchical(order="zigzag"),  # type: ignore[arg-type]
        lambda: UGrid(constant=0),
        lambda: UGrid(constant=math.nan),
        lambda: UGrid(rows=-1),
        lambda: AGrid(coarse_share=Fraction(1)),
        lambda: AGrid(inner_constant=-1),
        lambda: AGrid(least_parts=0),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make: object) -> None:
    with pytest.raises(InputError, match=r"^strategy [a-z]+: [^\n]*$"):
        make()  # type: ignore[operator]


# Which boxes.


@pytest.mark.parametrize(("axes", "bits"), [(1, 4), (2, 1), (2, 4), (3, 3), (4, 2), (5, 2), (6, 1)])
def test_places_along_a_hilbert_curve_are_those_of_its_cells(axes: int, bits: int) -> None:
    cells = hilbert_cells(axes, bits)
    assert (hilbert_places((2**bits,) * axes)[tuple(cells.T)] == np.arange(len(cells))).all()


def test_a_hilbert_curve_goes_from_neighbour_to_neighbour() -> None:
    for axes, bits in ((2, 1), (2, 4), (3, 2), (3, 3), (4, 2), (1, 5)):
        cells = hilbert_cells(axes, bits)
        assert len(np.unique(cells, axis=0)) == len(cells) == 2 ** (axes * bits)
        assert (np.abs(np.diff(cells, axis=0)).sum(axis=1) == 1).all()


@pytest.mark.parametrize("branching", [2, 4, 16])
@pytest.mark.parametrize("shape", [(8, 8), (4, 4, 4), (16,)])
def test_boxes_along_a_hilbert_curve_are_its_runs(shape: tuple[int, ...], branching: int) -> None:
    curve = hilbert_cells(len(shape), (shape[0] - 1).bit_length())
    place = np.empty(shape, np.int64)
    place[tuple(curve.T)] = np.arange(len(curve))
    for level in regular_levels(shape, branching, "hilbert"):
        for number, (low, high) in enumerate(zip(level.lower, level.upper, strict=True)):
            inside = np.sort(place[tuple(map(slice, low, high))], axis=None)
            np.testing.assert_array_equal(inside, number * inside.size + np.arange(inside.size))


@settings(max_examples=12, deadline=None)
@given(SHAPES, st.integers(2, 5))
def test_boxes_of_row_major_order_are_runs(shape: tuple[int, ...], branching: int) -> None:
    place = np.arange(math.prod(shape)).reshape(shape)
    levels = regular_levels(shape, branching, "row-major")
    for level in levels:
        for low, high in zip(level.lower, level.upper, strict=True):
            inside = place[tuple(map(slice, low, high))].reshape(-1)
            assert inside[-1] - inside[0] + 1 == inside.size
    tree = tree_of_levels(shape, levels).tree
    np.testing.assert_array_equal([place[tuple(low)] for low in tree.lower[tree.leaves]], np.arange(place.size))


def test_a_quad_tree_of_a_square_is_a_tree_of_squares() -> None:
    tree = tree_of_levels((8, 8), regular_levels((8, 8), 2)).tree
    assert len(tree) == 1 + 4 + 16 + 64
    assert (tree.upper - tree.lower)[:, 0].tolist() == (tree.upper - tree.lower)[:, 1].tolist()


def test_the_branching_of_hb_is_the_paper_s() -> None:
    assert [best_branching((n,)) for n in (256, 1024, 4096, 65536, 2**20)] == [16, 32, 16, 16, 16]
    for side in range(2, 130):  # the choice among all branchings, one by one
        levels = [math.ceil(math.log(side, b) - 1e-12) for b in range(2, side + 1)]
        costs = [b * h**2 for b, h in zip(range(2, side + 1), levels, strict=True)]
        assert best_branching((side, side)) == 2 + int(np.argmin(costs))
        rows = [(b - 1) * h**3 - 2 * (b + 1) * h**2 / 3 for b, h in zip(range(2, side + 1), levels, strict=True)]
        chosen = best_branching((side,))
        assert rows[chosen - 2] == pytest.approx(min(rows))
    assert best_branching((10, 10, 10)) == 10  # flat
    assert len(made((4, 5, 3), HB()).transcript.boxes.counts) == 60  # type: ignore[union-attr]


def test_the_budgets_of_a_quad_tree_grow_geometrically() -> None:
    shares = np.array(geometric_budgets(5, 2)) / BUDGET_UNITS
    np.testing.assert_allclose(shares[::-1], [0.3012, 0.2390, 0.1897, 0.1506, 0.1195], atol=5e-5)
    assert sum(geometric_budgets(9, 3)) == BUDGET_UNITS
    assert len(set(geometric_budgets(8, 1))) == 1


def test_grids_are_as_fine_as_the_paper_says() -> None:
    """N = 10^6 at epsilon 0.1: 100 x 100 boxes in one grid, 25 x 25 in the coarse one."""
    exact = np.full((1000, 1000), 1)
    grid = evaluate.experiment(exact, epsilon="0.1", strategy=UGrid(rows=10**6), noise=SilentNoise()).transcript.boxes
    assert grid is not None
    assert len(grid.tree.leaves) == 100**2
    found = evaluate.experiment(exact, epsilon="0.1", strategy=AGrid(rows=10**6), noise=SilentNoise()).transcript.boxes
    assert found is not None
    coarse = np.flatnonzero(found.tree.levels == 1)
    assert len(coarse) == 25**2
    # a coarse box of 1600 rows deserves 1600 * 0.05/5 = 16 boxes
    assert len(found.tree.leaves) == 25**2 * 16


def test_grids_follow_rows_that_are_counted_with_noise_unless_they_are_public() -> None:
    paid, given_ = made((30, 30), UGrid(), seed=5).transcript.boxes, made((30, 30), UGrid(rows=10**4), seed=5)
    assert paid is not None
    assert 0 in paid.node
    assert paid.units[list(paid.node).index(0)] == BUDGET_UNITS // 50
    assert 0 not in given_.transcript.boxes.node  # type: ignore[union-attr]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=4), st.floats(1, 1e6))
def test_parts_are_about_as_many_as_wanted(lengths: list[int], number: float) -> None:
    (parts,) = parts_for(np.array([lengths]), np.array([number]))
    assert ((parts >= 1) & (parts <= lengths)).all()
    assert math.prod(parts.tolist()) >= min(number, math.prod(lengths)) * (1 - 1e-6)
    assert math.prod(parts.tolist()) <= number * 2 ** len(lengths)


# Least squares.


def design(tree: BoxTree, node: Ints) -> Floats:
    """Which leaves each measured node is the sum of, as a dense matrix."""
    first, stop = node[:, None], tree.end[node][:, None]
    return np.asarray((tree.leaves >= first) & (tree.leaves < stop), np.float64)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 2**32))
def test_totals_and_variances_are_those_of_dense_least_squares(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = random_tree(shape, generator, stop=0.2)
    inner = np.setdiff1d(np.arange(len(tree)), tree.leaves)
    some = generator.choice(inner, size=(len(inner) + 1) // 2, replace=False) if len(inner) else inner
    node = np.concatenate([tree.leaves, some, tree.leaves[:1], [0]])
    units = generator.integers(BUDGET_UNITS // 40, BUDGET_UNITS // 20, len(node))
    boxes = BoxCounts(tree, node, generator.integers(-20, 50, len(node)), units)
    transcript = Transcript(shape, Fraction(1, BUDGET_UNITS), (boxes,))
    variance = 1 / (2 * np.sinh(units / BUDGET_UNITS / 2) ** 2)
    matrix = design(tree, node)
    covariance = np.linalg.inv(matrix.T @ (matrix / variance[:, None]))
    totals = covariance @ matrix.T @ (boxes.counts / variance)
    found = Release(Domain.of_shape(shape), transcript, Provenance("test", Fraction(1), "test", private=False))
    spread = totals / tree.sizes[tree.leaves]
    expected = np.zeros(shape)
    for leaf, value in zip(tree.leaves, spread, strict=True):
        expected[tuple(map(slice, tree.lower[leaf], tree.upper[leaf]))] = value
    np.testing.assert_allclose(found.cells(LEAST_SQUARES), expected, atol=1e-8)
    workload = random_ranges(shape, 20, seed=seed)
    weights = np.array([[_overlap(tree, leaf, workload, query) for leaf in tree.leaves] for query in range(20)])
    stated = found.estimate(LEAST_SQUARES).errors(workload)
    np.testing.assert_allclose(stated.noise_variances, np.einsum("ij,jk,ik->i", weights, covariance, weights))
    whole = np.isin(weights, (0, 1)).all(axis=1)
    assert np.all(stated.nonuniformity_squares[~whole] >= 0)
    np.testing.assert_array_equal(stated.nonuniformity_squares[whole], 0)


def _overlap(tree: BoxTree, leaf: int, workload: Workload, query: int) -> float:
    low = np.maximum(tree.lower[leaf], workload.lower[query])
    high = np.minimum(tree.upper[leaf], workload.upper[query])
    return float(np.maximum(high - low, 0).prod() / tree.sizes[leaf])


@pytest.mark.parametrize(
    ("counts", "leaves"), [((0, 0.5, 0.5), (1 / 6, 1 / 6)), ((0, 1, 0), (2 / 3, -1 / 3)), ((3, 1, 2), (1, 2))]
)
def test_two_leaves_by_hand(counts: tuple[float, ...], leaves: tuple[float, ...]) -> None:
    tree = tree_of_levels((2,), regular_levels((2,), 2)).tree
    totals, _ = least_squares_totals(tree, np.array(counts), np.ones(3))
    np.testing.assert_allclose(totals[1:], leaves)


@pytest.mark.parametrize(("branching", "levels"), [(2, 4), (3, 3), (4, 3)])
def test_totals_are_hay_s_closed_form(branching: int, levels: int) -> None:
    cells = branching ** (levels - 1)
    tree = tree_of_levels((cells,), regular_levels((cells,), branching)).tree
    counts = np.random.default_rng(levels).normal(size=len(tree))
    k = branching
    height = np.array([levels - level for level in tree.levels])
    pooled, below = counts.copy(), np.zeros(len(tree))
    for node in range(len(tree) - 1, -1, -1):
        if height[node] > 1:
            h = height[node]
            pooled[node] = ((k**h - k ** (h - 1)) * counts[node] + (k ** (h - 1) - 1) * below[node]) / (k**h - 1)
        if node:
            below[tree.parent[node]] += pooled[node]
    for node in range(1, len(tree)):  # `pooled` of a parent is final by then
        above = tree.parent[node]
        pooled[node] += (pooled[above] - below[above]) / k
    np.testing.assert_allclose(least_squares_totals(tree, counts, np.ones(len(tree)))[0], pooled, atol=1e-12)


@pytest.mark.parametrize("levels", [5, 8])
def test_least_squares_gains_what_the_paper_promises(levels: int) -> None:
    """For all cells but the first and last, Hay and others prove a gain of (2(l-1)(k-1) - k)/3 over summed nodes."""
    cells = 2 ** (levels - 1)
    release = made((cells,), Hierarchical(), seed=1)
    inner = Workload((cells,), np.array([[1]]), np.array([[cells - 1]]))
    (variance,) = release.estimate(LEAST_SQUARES).errors(inner).noise_variances
    one = 1 / (2 * np.sinh(1 / levels / 2) ** 2)
    plain = 2 * (levels - 2) * one  # so many nodes make up the range
    assert plain / variance == pytest.approx({5: 3.756, 8: 7.060}[levels], abs=5e-3)
    assert plain / variance >= (2 * (levels - 1) - 2) / 3


@pytest.mark.slow
@pytest.mark.parametrize("strategy", TO_CELLS, ids=lambda one: f"{one.name}-{one.parameters()}")
def test_measured_errors_are_those_that_are_stated(strategy: Strategy) -> None:
    """Unbiased and of the stated variance: over 400 releases, within five standard errors of each."""
    shape, releases = (9, 8), 400
    exact = np.random.default_rng(3).integers(0, 30, shape)
    workload = random_ranges(shape, 30, seed=2)
    truth = evaluate.exact_answers(exact, workload)
    stated = made(shape, strategy, seed=0).estimate(LEAST_SQUARES).errors(workload)
    wrong = np.array(
        [made(shape, strategy, seed=seed).estimate(LEAST_SQUARES).values(workload) for seed in range(releases)]
    )
    wrong -= truth
    sigma = np.sqrt(stated.noise_variances)
    assert np.abs(wrong.mean(axis=0) / sigma).max() < 5 / math.sqrt(releases)
    ratio = (wrong / sigma) ** 2
    assert abs(ratio.mean() - 1) < 5 * ratio.mean(axis=1).std() / math.sqrt(releases)
    assert (stated.nonuniformity_squares == 0).all()


def test_a_release_by_a_rival_has_least_squares_beside_its_default() -> None:
    release = made((16,), Hierarchical(), seed=4)
    assert release.estimates == ("balanced", "posterior", "consistent", "uniform", LEAST_SQUARES)
    answer = release.count(axis0=(3, 9), estimate=LEAST_SQUARES)
    assert answer.low < answer.value < answer.high
    assert LEAST_SQUARES not in made((16,), Uniform(), seed=4).estimates  # it is `uniform` there
    grid = made((16, 16), UGrid(rows=100), seed=4)
    assert np.isnan(grid.count(axis0=(3, 4), estimate="uniform").low)


def test_stated_errors_of_weighted_questions_are_those_of_ranges() -> None:
    release = made((6, 5), Hierarchical(), seed=4)
    for low, high in itertools.combinations(range(6), 2):
        ranged = release.count(axis0=(low, high - 1), axis1=(1, 3), estimate=LEAST_SQUARES)
        workload = Workload((6, 5), np.array([[low, 1]]), np.array([[high, 4]]))
        (stderr,) = release.answer(workload, estimate=LEAST_SQUARES).stderrs
        assert ranged.stderr == pytest.approx(stderr)
