"""What counts contradict: whether a table may be even, what that makes of its errors, and marginals that are moved."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtri

from dpcube.core.arrays import Floats, Ints
from dpcube.core.gate import Gate
from dpcube.models import estimate
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.posterior import Posterior, PosteriorEstimate, infer, with_unseen_departures
from dpcube.models.posterior.inference import RARE, EvenTable, moved_marginals, noise_along
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.queries.workload_model import WorkloadModel
from dpcube.strategies import Adaptive
from dpcube.strategies.partial_tree import PartialTree
from dpcube.testing import SeededNoise
from dpcube.trees.halving import halve
from dpcube.trees.tree import BoxTree

SHAPE, DEVIATION = (16, 16), 5.0


def tree_of(shape: tuple[int, ...], cuts: int) -> BoxTree:
    order = WorkloadModel(shape, ("ranges",) * len(shape)).cut_order()
    return halve(BoxTree.uncut(shape), np.zeros(1, np.int64), cuts, order).tree


def measured(cells: Ints, tree: BoxTree, *, deviation: float = DEVIATION, seed: int = 0) -> tuple[Floats, Floats]:
    """Counts of the leaves of a tree with normal noise, and its variance: infinite for all other nodes."""
    sums, leaves = summed_area_table(cells.astype(np.float64)), tree.leaves
    told, variance = np.zeros(len(tree)), np.full(len(tree), np.inf)
    told[leaves] = range_sums(sums, tree.lower[leaves], tree.upper[leaves])
    told[leaves] += deviation * np.random.default_rng(seed).standard_normal(len(leaves))
    variance[leaves] = deviation**2
    return told, variance


def evenly(rows: int, seed: int = 1) -> Ints:
    cells = np.prod(SHAPE)
    return np.random.default_rng(seed).multinomial(rows, np.full(cells, 1 / cells)).reshape(SHAPE)


def is_likely(cells: Ints, *, cuts: int = 8, deviation: float = DEVIATION, seed: int = 0) -> bool:
    tree = tree_of(SHAPE, cuts)
    return EvenTable.from_measured(tree, *measured(cells, tree, deviation=deviation, seed=seed)).is_likely


def test_an_even_table_is_held_to_be_even_nine_times_in_ten() -> None:
    found = [is_likely(evenly(20_000, seed), seed=seed) for seed in range(60)]
    assert np.mean(found) > 0.9


@pytest.mark.parametrize("at", [(0, 0), (7, 9), (15, 15)])
def test_one_cell_that_stands_out_contradicts_it(at: tuple[int, int]) -> None:
    cells = evenly(20_000)
    cells[at] += 120  # ten deviations of noise and chance
    assert not is_likely(cells)


def test_many_small_departures_contradict_it_though_none_stands_out() -> None:
    checkered = np.where(np.indices(SHAPE).sum(axis=0) % 2, 98, 58)
    tree = tree_of(SHAPE, 8)
    held = EvenTable.from_measured(tree, *measured(checkered, tree, deviation=20.0))
    assert held.squares.max() < 16
    assert not held.is_likely


def test_a_trend_contradicts_it_by_the_largest_boxes_alone() -> None:
    cells = evenly(20_000) + np.arange(16)[:, None] // 2
    tree = tree_of(SHAPE, 8)
    held = EvenTable.from_measured(tree, *measured(cells, tree))
    assert held.squares.sum() < chdtri(len(held.squares), RARE)  # all together do not
    assert not held.is_likely


@pytest.mark.parametrize("rows", [0, 200])
def test_what_noise_would_hide_is_not_taken_for_even(rows: int) -> None:
    assert not any(is_likely(evenly(rows), deviation=200.0, seed=seed) for seed in range(20))


def test_a_box_that_was_never_cut_tells_nothing() -> None:
    tree = BoxTree.uncut(SHAPE)
    assert not EvenTable.from_measured(tree, np.array([5000.0]), np.array([1.0])).is_likely
    assert not infer(tree, np.array([5000.0]), np.array([1.0]), even=None).even


def test_a_split_of_an_even_table_is_the_mean_of_chance_and_measurement_by_precision() -> None:
    """Two cells, 530 and 470 measured with variances 100 and 400; the total follows, and rows fall with a half each."""
    tree = tree_of((2,), 1)
    found = infer(tree, np.array([0.0, 530.0, 470.0]), np.array([np.inf, 100.0, 400.0]), even=True)
    near, narrow = 1000 / 4, 100 * 400 / 500
    assert found.totals[0] == pytest.approx(1000, rel=1e-6)
    assert found.totals[1] == pytest.approx((530 * near + 500 * narrow) / (near + narrow), rel=1e-3)
    assert found.splits[0] == pytest.approx(near * narrow / (near + narrow), rel=1e-2)
    assert found.even
    assert found.uneven.max() == 0


def test_nothing_is_taken_for_known_of_the_inside_of_boxes_that_were_never_cut() -> None:
    """Stripes within every box: what was cut is even to the last row, and half of the values have no rows at all."""
    striped = np.where(np.arange(16) % 2, 0, 200) * np.ones(SHAPE, np.int64)
    tree = tree_of(SHAPE, 2)
    told = measured(striped, tree)
    found = infer(tree, *told, even=None)
    assert found.even
    totals, unknown = found.totals[tree.leaves], 4 * (0.4 / 4 + 0.3 / 12 + 0.3 * 0.3**2)
    expected = unknown * (totals**2 + found.variances[tree.leaves]) + (1 - unknown) * totals
    np.testing.assert_allclose(found.uneven[tree.leaves], expected)
    stated = PosteriorEstimate("balanced", with_unseen_departures(found, *told), *told)
    column = Workload(SHAPE, np.array([[0, 4]]), np.array([[16, 5]]))
    off = abs(float(stated.values(column)[0]) - 3200)
    parts = stated.errors(column)
    assert off > 1500
    assert off < 1.96 * float(np.sqrt(parts.noise_variances + parts.nonuniformity_squares)[0])


def test_the_errors_stated_of_an_even_table_have_room_for_what_noise_hides() -> None:
    """A level of one split, 1.5 deviations off: 1.5^2 - 1 + sqrt(2) of its variance; one of two that are not off.

    Measured with a variance of 50 and by chance of 250, it is drawn to an even one by a sixth.
    """
    tree = tree_of((4,), 2)
    variance = np.where(tree.is_leaf, 50.0, np.inf)
    counts, expected = np.zeros(len(tree)), (2 * 100 + 1000) / 4  # a quarter of the noise of both halves, and chance
    off = 1.5 * np.sqrt(expected)
    counts[tree.leaves] = 250 + np.array([off, off, -off, -off]) / 2
    found = infer(tree, counts, variance, even=True)
    more = with_unseen_departures(found, counts, variance).splits - found.splits
    inner = np.flatnonzero(~tree.is_leaf)
    assert more[inner[0]] == pytest.approx((1.25 + np.sqrt(2)) * expected / 36, rel=1e-3)
    np.testing.assert_allclose(more[inner[1:]], 0.0)  # -1 + sqrt(2/2)
    assert more[tree.leaves].max() == 0


def test_one_box_far_off_contradicts_it_though_all_together_do_not() -> None:
    squares = np.full(1000, 0.8)
    held = EvenTable(np.arange(1000), np.full(1000, 9), squares, np.ones(1000), np.ones(1000), np.full(1000, 100.0))
    assert held.is_likely
    squares[500] = 7.5**2
    assert squares.sum() < 1000
    assert not held.is_likely


@pytest.fixture(scope="module")
def nothing_in_it() -> Ints:
    return np.random.default_rng(8).multinomial(100_000, np.full(4096, 1 / 4096)).reshape(64, 64)


def mean_error(table: Ints, found: Floats) -> float:
    asked = random_ranges(table.shape, 500, seed=3)
    return float(np.abs(range_sums(summed_area_table(found - table), asked.lower, asked.upper)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.01", "0.1"])
def test_a_release_of_an_even_table_errs_by_little_more_than_chance(nothing_in_it: Ints, epsilon: str) -> None:
    """Chance alone is 70 rows. The posterior, as it was for old files, sees structure in the noise."""
    now, before, cells = [], [], mean_error(nothing_in_it, np.full((64, 64), 100_000 / 4096))
    for seed in range(4):
        made = Adaptive().run(Gate(nothing_in_it, Fraction(epsilon), noise=SeededNoise(seed)))
        best, old = estimate(made, "balanced"), estimate(made, "posterior")
        assert isinstance(best, PosteriorEstimate)
        assert isinstance(old, PosteriorEstimate)
        assert not old.posterior.even
        if best.posterior.even:
            bare = infer(best.posterior.tree, best.measured, best.variance, whole=best.whole, even=True)
            assert best.posterior.splits.sum() > bare.splits.sum()
        now.append(mean_error(nothing_in_it, best.cells()))
        before.append(mean_error(nothing_in_it, old.cells()))
    assert np.mean(now) < 2 * cells
    assert np.mean(before) > 1.5 * np.mean(now)


def test_looking_stops_where_nothing_departs_from_an_even_table(nothing_in_it: Ints) -> None:
    """At epsilon 0.01 a box of 1,562 rows would be cut into cells of 24 each, that noise of 280 swamps."""
    made = Adaptive().run(Gate(nothing_in_it, Fraction(1, 100), noise=SeededNoise(1)))
    assert made.boxes is not None
    assert len(made.boxes.tree) < 200


def test_what_is_learnt_of_a_table_held_to_be_even_is_not_kept_for_the_next_look(nothing_in_it: Ints) -> None:
    partial = PartialTree(
        Gate(nothing_in_it, Fraction(1), noise=SeededNoise(2)), WorkloadModel((64, 64), ("ranges",) * 2).cut_order()
    )
    nodes, _ = partial.below(np.zeros(1, np.int64), 4)
    partial.count(nodes, np.full(len(nodes), partial.share_units(Fraction(1, 2))))
    found: Posterior = partial.posterior()
    assert found.even
    assert partial.learnt is None


def test_a_marginal_is_moved_where_counts_contradict_it_by_the_part_of_bias_in_what_sets_them_apart() -> None:
    """Leaves of two columns each: the count of one is spread over both, so each value has a quarter of its variance."""
    tree = tree_of((4, 2), 3)
    start, prefix = np.array([0, 5]), np.array([0.0, 1, 2, 3, 4, 0, 1, 2])
    variance = np.where(tree.is_leaf, 4.0, np.inf)
    posterior = np.array([100.0, 100, 100, 100, 0, 206, 194, 0])
    linear = np.zeros(len(tree))
    for value, rows in enumerate((130.0, 70.0, 130.0, 70.0)):
        linear[tree.leaves[tree.lower[tree.leaves, 0] == value]] = rows / 2
    moved = moved_marginals(tree, posterior, linear, variance, prefix, start)
    bias = 900 - 8
    np.testing.assert_allclose(moved[:4], 100 + bias / (bias + 8) * np.array([30, -30, 30, -30]))
    np.testing.assert_array_equal(moved[4:], posterior[4:])  # 6 rows off under noise of deviation 4
    near = moved_marginals(tree, moved, linear, variance, prefix, start)
    np.testing.assert_array_equal(near, moved)


def test_the_noise_of_a_marginal_is_that_of_its_leaves_each_spread_over_its_values() -> None:
    found = noise_along(np.array([0, 0, 2]), np.array([2, 1, 5]), np.array([8.0, 3.0, 18.0]), 5)
    np.testing.assert_allclose(found, [8 / 4 + 3, 8 / 4, 2, 2, 2])
