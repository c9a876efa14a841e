"""The error within boxes: exact where noise is silent, zero where no box is cut, and honest on structured data."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from dpcube import evaluate
from dpcube.models.boxes import BoxEstimate, BoxPart
from dpcube.models.errors.nonuniformity import (
    REACHED,
    NonUniformity,
    Ratio,
    judge,
    pooled_ratio,
    posterior_mean,
)
from dpcube.models.errors.parts import POOLED_RANGES, evenly_placed_ranges, fixed_normals
from dpcube.queries import Workload
from dpcube.release import Release
from dpcube.strategies import TwoPhase
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.tree import BoxTree


def hills(shape: tuple[int, int], rows: int) -> NDArray[np.int64]:
    """Return counts with two broad hills, from a seed: structure that boxes cannot follow exactly."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    density = np.exp(-((y - 20) ** 2 + (x - 15) ** 2) / 150) + 0.5 * np.exp(-((y - 45) ** 2 + (x - 40) ** 2) / 400)
    counts: NDArray[np.int64] = np.random.default_rng(5).poisson(rows * density / density.sum())
    return counts


def released(counts: NDArray[np.int64], seed: int, *, max_boxes: int | None = None) -> Release:
    return evaluate.experiment(counts, epsilon="1/2", strategy=TwoPhase(max_boxes=max_boxes), noise=SeededNoise(seed))


def test_without_noise_the_guess_is_the_error() -> None:
    counts = np.array([[10, 21, 37, 4], [20, 0, 0, 9], [53, 0, 0, 1]])
    release = evaluate.experiment(counts, epsilon=1, strategy=TwoPhase(max_boxes=3), noise=SilentNoise())
    ends = [(a, b, c, d) for a in range(3) for b in range(4) for c in range(a + 1, 4) for d in range(b + 1, 5)]
    every = Workload((3, 4), *np.hsplit(np.array(ends), 2))
    estimate = release.estimate("uniform")
    assert isinstance(estimate, BoxEstimate)
    assert estimate.within is not None
    wrong = estimate.values(every) - evaluate.exact_answers(counts, every)
    np.testing.assert_allclose(estimate.within.range_guesses(every), -wrong, atol=1e-9)
    assert np.abs(wrong).max() > 5  # three boxes cannot follow these counts


def test_a_question_that_cuts_no_box_has_no_error_within() -> None:
    release = released(hills((64, 64), 50_000), 1)
    whole = release.count()
    assert whole.nonuniformity == pytest.approx(0, abs=1e-6)
    assert whole.stderr > 0
    assert release.count(axis0=(3, 17), axis1=(2, 40)).nonuniformity > 0


def test_one_answer_and_many_say_the_same() -> None:
    release = released(hills((64, 64), 50_000), 2)
    workload = evaluate.random_ranges((64, 64), 40, seed=3)
    many = release.answer(workload)
    for k, (low, high) in enumerate(zip(workload.lower.tolist(), workload.upper.tolist(), strict=True)):
        one = release.count(axis0=(low[0], high[0] - 1), axis1=(low[1], high[1] - 1))
        assert one.value == pytest.approx(many.values[k])
        assert one.stderr == pytest.approx(many.stderrs[k])
        assert one.nonuniformity == pytest.approx(many.nonuniformities[k], abs=1e-6)
        assert (one.low, one.high) == pytest.approx([end[k] for end in many.interval()])


def test_intervals_cover_the_truth_where_noise_alone_would_not() -> None:
    counts = hills((64, 64), 50_000)
    workload = evaluate.random_ranges((64, 64), 400, seed=4)
    truth = evaluate.exact_answers(counts, workload)
    covered, by_noise = [], []
    for seed in range(10):
        answers = released(counts, seed, max_boxes=40).answer(workload)
        low, high = answers.interval(0.95)
        covered.append((low <= truth) & (truth <= high))
        by_noise.append(np.abs(answers.values - truth) <= 2.12 * answers.stderrs)
    assert np.mean(covered) > 0.93
    assert np.mean(by_noise) < 0.8


def test_intervals_are_not_idle_on_even_data() -> None:
    """Where every cell holds the same, boxes miss nothing; the interval must beat the one of the noisy cells alone."""
    release = released(np.full((64, 64), 20), 6)
    workload = evaluate.random_ranges((64, 64), 400, seed=4)
    answers, by_cells = release.answer(workload), release.answer(workload, estimate="cells")
    assert np.median(np.hypot(answers.stderrs, answers.nonuniformities) / by_cells.stderrs) < 0.8


def test_more_error_within_boxes_is_shrunk_less_and_none_is_beyond_the_worst() -> None:
    guess, cut = np.array([6.0]), np.array([1.0])
    for ratio, worst, prior in ((0.0, 1e9, 0.0), (1.0, 1e9, 4.0), (1e12, 1e9, 1e9), (1.0, 3.0, 3.0), (1.0, -1.0, 0.0)):
        within = NonUniformity(np.zeros((2, 2), np.int64), BoxTree.uncut((2, 2)), 4.0)
        within.__dict__["ratio"] = Ratio(ratio)
        shrink = prior / (prior + 4)
        assert within.expected_square(guess, cut, np.array([worst])) == pytest.approx(shrink**2 * 36 + shrink * 4)
        assert within.expected_square(guess, 0 * cut, np.array([worst])) == 0


def test_two_deviations_of_the_worst_reach_a_part_that_holds_nothing_and_no_smaller_square_does() -> None:
    part = np.linspace(0.001, 1, 1000)
    assert (4 * (part - REACHED * part**2) >= part**2 - 1e-12).all()
    assert not (4 * (part - 1.001 * REACHED * part**2) >= part**2).all()


def test_rows_at_one_place_are_covered_however_little_is_known() -> None:
    """A hundred rows in one of 64 cells, and nothing else known: intervals of a fifth of the box or more hold."""
    estimate = BoxEstimate(
        "uniform", (64,), BoxPart(BoxTree.uncut((64,)), np.array([100.0]), np.zeros(1)), within=unknown((64,), 1e6)
    )
    for start, stop in ((0, 13), (0, 32), (0, 63), (1, 64), (20, 52)):
        ranges = Workload((64,), np.array([[start]]), np.array([[stop]]))
        reach = 2 * np.sqrt(estimate.errors(ranges)[1])
        value = estimate.values(ranges)
        assert value - reach <= 0  # the place is outside
        assert value + reach >= 100  # it is inside


def unknown(shape: tuple[int, ...], variance: float) -> NonUniformity:
    """Return what is known of one box by cells that are all noise, and say nothing of a guess."""
    within = NonUniformity(np.zeros(shape, np.int64), BoxTree.uncut(shape), variance)
    within.__dict__["ratio"] = Ratio(1e6)
    return within


def test_a_ratio_is_its_posterior_mean_given_that_it_is_not_negative() -> None:
    """Against the integral itself; far below zero it goes like stderr / z, and it never reaches zero."""
    for measured in (8.0, 1.0, 0.0, -1.0, -3.0):
        law = norm(measured, 2.0)
        expected = quad(lambda x, law=law: x * law.pdf(x), 0, np.inf)[0] / law.sf(0)
        assert posterior_mean(np.array([measured]), np.array([2.0])) == pytest.approx(expected, rel=1e-6)
    far = posterior_mean(np.array([-200.0, -2e9]), np.array([2.0, 2.0]))
    assert far[0] == pytest.approx(2 / 100, rel=1e-3)
    assert far[1] > 0


def test_a_ratio_grows_with_a_power_of_the_cut() -> None:
    np.testing.assert_allclose(Ratio(2.0, 10.0, 0.5).at(np.array([0.0, 10.0, 40.0])), [0, 2, 4])
    np.testing.assert_allclose(Ratio(2.0).at(np.array([0.5, 40.0])), 2)


@pytest.mark.parametrize(("slope", "least", "most"), [(0.0, -0.1, 1.0), (3.0, -0.1, 0.4)])
def test_cells_tell_how_uneven_a_box_is(slope: float, least: float, most: float) -> None:
    """One box over cells that rise by `slope` deviations each; noisy cells judge it. The oracle knows the cells."""
    cells = np.rint(100 * slope * np.arange(64)).astype(np.int64)
    noisy = cells + np.rint(100 * fixed_normals(64, 77)).astype(np.int64)
    judged = judge(BoxTree.uncut((64,)), noisy, 100.0**2)
    assert judged is not None
    found = pooled_ratio([judged], unit=100.0**2)
    ranges = evenly_placed_ranges((64,))
    cut = ranges.sizes - ranges.sizes**2 / 64
    there = cut > 0
    missed = evaluate.exact_answers(cells - cells.mean(), ranges)[there]
    oracle = float(np.mean(missed**2 / cut[there])) / 100.0**2
    assert (oracle > 100) == (slope > 0)
    assert least <= (float(np.mean(found.at(cut[there]))) - oracle) / max(oracle, 1) <= most


def test_boxes_are_judged_by_cells_that_did_not_choose_them() -> None:
    """On even cells there is nothing within boxes; the cells that chose the boxes would say there is less noise yet."""
    release = released(np.full((64, 64), 20), 6)
    estimate = release.estimate()
    assert isinstance(estimate, BoxEstimate)
    assert estimate.within is not None
    ranges = evenly_placed_ranges((64, 64))
    assert float(np.median(estimate.within.ratio.at(ranges.sizes.astype(np.float64)))) < 0.5


def test_boxes_are_judged_both_ways() -> None:
    """Cells plus noise turn into cells minus noise when cells change sign: the same ratio, if both judge in turn."""
    estimate = released(hills((64, 64), 50_000), 3).estimate()
    assert isinstance(estimate, BoxEstimate)
    assert estimate.within is not None
    one, other = estimate.within.ratio, replace(estimate.within, noisy=-estimate.within.noisy).ratio
    assert (one.least, one.low, one.power) == pytest.approx((other.least, other.low, other.power))
    assert one.least > 0


@pytest.mark.parametrize("shape", [(4096,), (128, 128), (16, 20, 7, 2, 2), (1, 1)])
def test_pooled_ranges_have_every_size(shape: tuple[int, ...]) -> None:
    ranges = evenly_placed_ranges(shape)
    assert len(ranges) == POOLED_RANGES
    share = ranges.sizes / np.prod(shape)
    if np.prod(shape) > 1000:
        assert share.min() < 0.02
        assert share.max() > 0.4
    again = evenly_placed_ranges(shape)
    np.testing.assert_array_equal(ranges.lower, again.lower)
