"""The posterior of a tree of noisy counts: against numerical integrals where possible, else by what must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcube.core.arrays import Floats
from dpcube.models.least_squares_tree import pooled_counts
from dpcube.models.posterior import Posterior, PosteriorEstimate, infer
from dpcube.models.posterior.splits import CONTRADICTED, NEARNESS, between, divide, gather, log_normal
from dpcube.queries import Workload
from dpcube.queries.counting import CountingQueries, CountingQuery
from dpcube.queries.random_ranges import random_ranges
from dpcube.queries.workload_model import WorkloadModel
from dpcube.trees.halving import CutOrder, depth, halve
from dpcube.trees.tree import BoxTree

quick = settings(deadline=None, max_examples=60, derandomize=True)
SHAPES = st.sampled_from([(1,), (2,), (5,), (16,), (1, 9), (4, 4), (3, 5), (2, 3, 2), (7, 1, 3)])


def order_of(shape: tuple[int, ...]) -> CutOrder:
    return WorkloadModel(shape, ("ranges",) * len(shape)).cut_order()


def full_tree(shape: tuple[int, ...]) -> BoxTree:
    return halve(BoxTree.uncut(shape), np.zeros(1, np.int64), depth(shape), order_of(shape)).tree


def some_tree(shape: tuple[int, ...], generator: np.random.Generator) -> BoxTree:
    """Halve twice, then some of the leaves three times more."""
    tree = halve(BoxTree.uncut(shape), np.zeros(1, np.int64), 2, order_of(shape)).tree
    return halve(tree, tree.leaves[generator.random(len(tree.leaves)) < 0.6], 3, order_of(shape)).tree


def counted(tree: BoxTree, generator: np.random.Generator, *, rows: float = 20.0) -> Floats:
    """Exact counts of every node of random cells, many of them empty."""
    cells = generator.poisson(rows, tree.shape) * (generator.random(tree.shape) < 0.5)
    bounds = zip(tree.lower.tolist(), tree.upper.tolist(), strict=True)
    boxes = [tuple(slice(low, high) for low, high in zip(*box, strict=True)) for box in bounds]
    return np.array([cells[box].sum() for box in boxes], np.float64)


def noisy(
    tree: BoxTree, generator: np.random.Generator, *, deviation: float = 5.0, rows: float = 20.0
) -> tuple[Floats, Floats]:
    """Measure the root, the leaves and some of the other nodes."""
    variance = np.where(generator.random(len(tree)) < 0.5, np.inf, deviation**2)
    variance[tree.leaves], variance[0] = deviation**2, deviation**2 / 4
    told = counted(tree, generator, rows=rows) + generator.normal(0, np.where(np.isinf(variance), 0, variance**0.5))
    return np.where(np.isinf(variance), 0.0, told), variance


def check_sums(found: Posterior) -> None:
    """Totals are finite and not negative, and halves add up to their parent."""
    tree, totals = found.tree, found.totals
    assert np.isfinite(totals).all()
    assert (totals >= 0).all()
    left = np.flatnonzero(~tree.is_leaf) + 1
    together = totals[left] + totals[tree.end[left]]
    np.testing.assert_allclose(together, totals[left - 1], rtol=1e-9, atol=1e-6)
    for spread in (found.variances, found.splits, found.uneven):
        assert np.isfinite(spread).all()
        assert (spread >= 0).all()
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)


@quick
@given(SHAPES, st.integers(0, 2**32 - 1), st.sampled_from([0.01, 5.0, 1000.0]))
def test_totals_add_up_and_none_is_negative(shape: tuple[int, ...], seed: int, deviation: float) -> None:
    generator = np.random.default_rng(seed)
    tree = some_tree(shape, generator)
    check_sums(infer(tree, *noisy(tree, generator, deviation=deviation)))


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_without_noise_the_counts_come_back(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = full_tree(shape)
    exact = counted(tree, generator)
    found = infer(tree, exact, np.full(len(tree), 1e-6))
    np.testing.assert_allclose(found.totals, exact, atol=0.02)
    np.testing.assert_allclose(found.splits, 0, atol=0.05)
    estimate = PosteriorEstimate("posterior", found, exact, np.full(len(tree), 1e-6))
    cells = np.zeros(shape)
    cells[tuple(tree.lower[tree.leaves].T)] = exact[tree.leaves]
    np.testing.assert_allclose(estimate.cells(), cells, atol=0.02)


HOSTILE = (-(2.0**62), 2.0**62, -1.0, 0.0, 1e-9, 1e6)


@quick
@given(SHAPES, st.data())
def test_hostile_counts_give_finite_answers(shape: tuple[int, ...], data: st.DataObject) -> None:
    tree = full_tree(shape)
    size = len(tree)
    counts = data.draw(st.lists(st.sampled_from(HOSTILE), min_size=size, max_size=size))
    variances = data.draw(st.lists(st.sampled_from([1e-4, 1.0, 1e18]), min_size=size, max_size=size))
    measured, variance = np.array(counts), np.array(variances)
    found = infer(tree, measured, variance)
    assert np.isfinite(found.totals).all()
    assert (found.totals >= 0).all()
    asked = random_ranges(shape, 5, seed=1)
    estimate = PosteriorEstimate("posterior", found, measured, variance)
    for numbers in (estimate.cells(), estimate.values(asked), *estimate.errors(asked)[:2]):
        assert np.isfinite(numbers).all()


def mirrored(tree: BoxTree, values: Floats) -> tuple[BoxTree, Floats]:
    """The tree of the cube read backwards along every axis (of powers of two, so that middles stay middles)."""
    other = full_tree(tree.shape)
    sides = np.array(tree.shape)
    of_box = {
        (*low, *high): value for low, high, value in zip(tree.lower.tolist(), tree.upper.tolist(), values, strict=True)
    }
    keys = zip((sides - other.upper).tolist(), (sides - other.lower).tolist(), strict=True)
    return other, np.array([of_box[(*low, *high)] for low, high in keys])


@pytest.mark.parametrize("shape", [(8,), (4, 4), (2, 4, 2)])
def test_left_and_right_are_alike(shape: tuple[int, ...]) -> None:
    tree = full_tree(shape)
    measured, variance = noisy(tree, np.random.default_rng(4))
    found = infer(tree, measured, variance)
    back = infer(mirrored(tree, measured)[0], mirrored(tree, measured)[1], mirrored(tree, variance)[1])
    for name in ("totals", "splits", "variances"):
        np.testing.assert_allclose(mirrored(tree, getattr(found, name))[1], getattr(back, name), rtol=1e-6, atol=1e-6)


def test_counts_in_other_units_give_totals_in_other_units() -> None:
    """The prior is of shares: ten times the counts and the noise are ten times the totals."""
    tree = full_tree((8, 4))
    measured, variance = noisy(tree, np.random.default_rng(2))
    found, larger = infer(tree, measured, variance), infer(tree, 10 * measured, 100 * variance)
    np.testing.assert_allclose(larger.totals, 10 * found.totals, rtol=0.02, atol=0.5)


# One split of a total, against numerical integrals.


@pytest.mark.parametrize(
    ("mean", "deviation", "top"), [(3, 2, 10), (-4, 3, 10), (14, 2, 10), (5, 400, 10), (0, 1, 0.01)]
)
def test_a_normal_between_two_ends(mean: float, deviation: float, top: float) -> None:
    low, high = -mean / deviation, (top - mean) / deviation
    law = stats.truncnorm(low, high, loc=mean, scale=deviation)
    log_mass, inside, variance = between(float(mean), float(deviation), float(top))
    assert log_mass == pytest.approx(np.log(stats.norm.cdf(high) - stats.norm.cdf(low)), rel=1e-6)
    assert inside == pytest.approx(law.mean(), rel=1e-4)
    assert variance == pytest.approx(law.var(), rel=1e-3)


def test_a_normal_far_from_its_ends_stays_at_the_nearest() -> None:
    log_mass, inside, variance = between(1e6, 1.0, 5.0)
    assert (inside, variance) == (5.0, 0.0)
    assert -1e13 < log_mass < -1e11
    assert between(-1e6, 1.0, 5.0)[1] == 0.0


def one_split(
    left: tuple[float, float], right: tuple[float, float], root: tuple[float, float], weights: Floats
) -> tuple[Floats, Floats, Floats]:
    """Totals, variances of splits, and chances of the four guesses, of two cells and their sum."""
    tree = full_tree((2,))
    measured = np.array([root[0], left[0], right[0]])
    variance = np.array([root[1], left[1], right[1]])
    share = np.array([0.5, 0.0, 0.0])
    rows = np.tile(weights, (2, 1))
    level = tree.levels
    likelihood, told = np.zeros((1, 5)), np.zeros(1, np.int64)
    message = gather(tree.end, level, measured, variance, *pooled_counts(tree, measured, variance), share, rows, np.inf)
    totals, splits, _ = divide(tree.end, level, *message, share, rows, NEARNESS, np.ones(2, np.int64), likelihood, told)
    return totals, splits, likelihood[0, :4] * weights / (likelihood[0, :4] @ weights)


@pytest.mark.parametrize(
    ("left", "right"), [((30.0, 100.0), (5.0, 100.0)), ((2.0, 9.0), (50.0, 9.0)), ((10.0, 25.0), (12.0, 400.0))]
)
def test_a_split_of_a_known_total_is_the_numerical_posterior(
    left: tuple[float, float], right: tuple[float, float]
) -> None:
    """The root is known almost exactly, so the only unknown is the left half: a sum of point masses and an integral."""
    total, weights = 40.0, np.array([0.2, 0.2, 0.6, 1e-9])
    totals, splits, chances = one_split(left, right, (total, 1e-6), weights)
    grid = np.linspace(0, total, 200_001)

    def fits(part: Floats) -> Floats:
        from_left = stats.norm.pdf(left[0], part, left[1] ** 0.5)
        return np.asarray(from_left * stats.norm.pdf(right[0], total - part, right[1] ** 0.5))

    inside = np.trapezoid(fits(grid), grid) / total
    masses = weights[:3] * np.array([fits(np.array(0.0)), fits(np.array(total)), inside])
    masses /= masses.sum()
    np.testing.assert_allclose(chances[:3], masses, rtol=1e-3, atol=1e-6)
    middle = np.trapezoid(grid * fits(grid), grid) / np.trapezoid(fits(grid), grid)
    values = np.array([0.0, total, middle])
    sharp = masses**2 / (masses**2).sum()  # chances are squared before they are averaged
    assert totals[1] == pytest.approx(float(sharp @ values), rel=1e-3, abs=1e-3)
    assert totals[2] == pytest.approx(total - totals[1], rel=1e-6)
    second = np.trapezoid((grid - totals[1]) ** 2 * fits(grid), grid) / np.trapezoid(fits(grid), grid)
    spread = masses @ np.array([totals[1] ** 2, (total - totals[1]) ** 2, second])
    assert splits[0] == pytest.approx(float(spread), rel=1e-2)


def test_what_halves_say_of_their_sum_is_pooled_with_its_own_count() -> None:
    """Far from zero nothing is empty or cut off, and the sum is the classical weighted mean."""
    totals, _, chances = one_split((500.0, 16.0), (700.0, 9.0), (1230.0, 50.0), np.array([0.2, 0.2, 0.3, 0.3]))
    assert totals[0] == pytest.approx((1200 / 25 + 1230 / 50) / (1 / 25 + 1 / 50), rel=1e-6)
    assert chances[0] < 1e-12
    assert chances[1] < 1e-12


def test_a_half_without_rows_is_found_empty() -> None:
    totals, _, chances = one_split((0.3, 4.0), (300.0, 4.0), (301.0, 4.0), np.array([0.2, 0.2, 0.3, 0.3]))
    assert chances[0] > 0.9
    assert totals[1] < 0.3


def test_log_normal_is_scipy_s() -> None:
    assert log_normal(3.0, 7.0) == pytest.approx(stats.norm.logpdf(3, scale=7**0.5))


# An estimate speaks with one voice.


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_cells_ranges_and_answers_agree(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = some_tree(shape, generator)
    measured, variance = noisy(tree, generator)
    estimate = PosteriorEstimate("posterior", infer(tree, measured, variance), measured, variance)
    asked = random_ranges(shape, 8, seed=seed)
    cells = estimate.cells()
    assert cells.sum() == pytest.approx(estimate.posterior.totals[0], rel=1e-9, abs=1e-9)
    expected = asked.matrix() @ cells.reshape(-1)
    np.testing.assert_allclose(estimate.values(asked), expected, rtol=1e-9, atol=1e-6)
    from_tree = estimate._walked(estimate._everything.inside(asked), estimate.posterior.splits)
    np.testing.assert_allclose(from_tree[:, 0], expected, rtol=1e-9, atol=1e-6)
    variances, nonuniformities, *_ = estimate.errors(asked)
    for number in range(len(asked)):
        inside = [
            ((np.arange(n) >= low) & (np.arange(n) < high)).astype(np.float64)
            for n, low, high in zip(shape, asked.lower[number], asked.upper[number], strict=True)
        ]
        value, errors = estimate.answers(CountingQueries.of(CountingQuery(tuple(inside))))
        assert value == pytest.approx(expected[number], rel=1e-9, abs=1e-6)
        assert errors.noise_variances == pytest.approx(variances[number], rel=1e-6, abs=1e-6)
        assert errors.nonuniformity_squares == pytest.approx(nonuniformities[number], rel=1e-6, abs=1e-6)


@quick
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_weighted_questions_are_sums_of_cells(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = some_tree(shape, generator)
    measured, variance = noisy(tree, generator)
    estimate = PosteriorEstimate("posterior", infer(tree, measured, variance), measured, variance)
    question = CountingQuery(tuple(generator.random(n) for n in shape))
    value, _ = estimate.answers(CountingQueries.of(question))
    assert value == pytest.approx(float((question.dense() * estimate.cells()).sum()), rel=1e-9)


def test_the_whole_cube_has_the_variance_of_its_total() -> None:
    tree = full_tree((4, 4))
    measured, variances = noisy(tree, np.random.default_rng(1))
    found = infer(tree, measured, variances)
    whole_cube = Workload((4, 4), np.array([[0, 0]]), np.array([[4, 4]]))
    variance, within, *_ = PosteriorEstimate("posterior", found, measured, variances).errors(whole_cube)
    assert variance[0] == pytest.approx(found.variances[0])
    assert within[0] == 0


@pytest.mark.parametrize("of_root", [np.inf, 300.0])
def test_a_message_gives_way_to_counts_more_than_two_deviations_off(of_root: float) -> None:
    """The right half passes for empty, so the sum is said to be that of the left, which the counts contradict."""
    tree, weights, share = full_tree((2,)), np.tile([0.3, 0.3, 0.2, 0.2], (2, 1)), np.array([0.5, 0.0, 0.0])
    variance = np.array([of_root, 100.0, 100.0])
    for right, is_contradicted in ((-60.0, True), (-5.0, False)):
        measured = np.array([50.0, 100.0, right])
        counts = (measured, variance, *pooled_counts(tree, measured, variance))
        mean, spread, _ = gather(tree.end, tree.levels, *counts, share, weights, np.inf)
        found, wide, _ = gather(tree.end, tree.levels, *counts, share, weights, CONTRADICTED)
        precision = 1 / 200 + 1 / of_root
        plain, noise = ((100 + right) / 200 + 50 / of_root) / precision, 1 / precision
        bias = (plain - mean[0]) ** 2 - 4 * noise
        assert (bias > 0) == is_contradicted
        own = spread[0] + max(bias, 0.0)
        part = noise / (noise + own) if is_contradicted else 1.0
        assert found[0] == pytest.approx(part * mean[0] + (1 - part) * plain)
        assert wide[0] == pytest.approx(part**2 * own + (1 - part) ** 2 * noise)
