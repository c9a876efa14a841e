"""What an answer is expected to be off for good: Bayes' rule for normal laws, by hand and by drawing."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpcube.models.errors.biases import BIAS, OUTLIER_BIAS, OUTLIERS, bias_squares
from dpcube.models.posterior import PosteriorEstimate, infer
from dpcube.queries import CountingQueries, Workload
from dpcube.queries.workload_model import MIXED, WorkloadModel
from dpcube.trees.halving import halve
from dpcube.trees.tree import BoxTree


def by_hand(apart: float, noise: float, stated: float) -> float:
    """The mean of two normal laws' answers, by how likely each is."""
    told, likely = [], []
    for part, prior in ((1 - OUTLIERS, BIAS * stated), (OUTLIERS, OUTLIER_BIAS * stated)):
        believed = prior / (prior + noise)
        told.append(believed * noise + (believed * apart) ** 2)
        likely.append(part * float(norm.pdf(apart, scale=math.sqrt(prior + noise))))
    return sum(a * b for a, b in zip(told, likely, strict=True)) / sum(likely)


@pytest.mark.parametrize(("apart", "noise", "stated"), [(6.0, 4.0, 8 / 3), (0.0, 4.0, 8 / 3), (-70.0, 1024.0, 225.0)])
def test_a_bias_is_what_bayes_rule_leaves_of_it(apart: float, noise: float, stated: float) -> None:
    seen = np.array([[apart, math.sqrt(noise), -math.sqrt(noise)]])
    told = bias_squares(seen, np.array([stated]), least=0.0)
    np.testing.assert_allclose(told, by_hand(apart, noise, stated))


def test_an_ordinary_question_is_told_by_one_law() -> None:
    """Stated 3.2, so a prior variance of 4; noise of 4 hides it: half is believed, and oddness adds the rest."""
    told = float(bias_squares(np.array([[0.0, 2.0, -2.0]]), np.array([3.2]), least=0.0)[0])
    assert 2.0 < told < 2.0 + 0.1 * 4.0


def test_counts_that_say_nothing_leave_the_prior_however_far_they_are_apart() -> None:
    apart = np.array([[1e4, 1e6, -1e6]])
    prior = ((1 - OUTLIERS) * BIAS + OUTLIERS * OUTLIER_BIAS) * 3.0
    assert bias_squares(apart, np.array([3.0]), least=0.0) == pytest.approx(prior, rel=1e-3)


def test_clear_counts_show_the_bias_itself() -> None:
    apart = np.array([[5.0, 1e-6, -1e-6], [500.0, 1e-6, -1e-6]])
    np.testing.assert_allclose(bias_squares(apart, np.full(2, 3.0), least=0.0), [25.0, 250_000.0])


def test_an_answer_without_error_has_no_bias_and_one_without_probes_has_its_prior() -> None:
    np.testing.assert_array_equal(bias_squares(np.array([[7.0, 1.0], [0.0, 0.0]]), np.zeros(2), least=9.0), [0.0, 0.0])
    np.testing.assert_array_equal(bias_squares(np.zeros((2, 0)), np.array([1.0, 4.0]), least=0.0), [1.25, 5.0])


def test_what_is_taken_for_surely_nothing_may_be_off_by_the_noise_of_a_count() -> None:
    """Stated 0.01 where the surest count has 8: a prior variance of 10, all of it without probes."""
    np.testing.assert_array_equal(bias_squares(np.zeros((1, 0)), np.array([0.01]), least=8.0), [10.0])
    clear = np.array([[3.0, 12.0**0.5, -(12.0**0.5)]])
    np.testing.assert_allclose(bias_squares(clear, np.array([0.01]), least=8.0), by_hand(3.0, 12.0, 8.0))


def test_it_is_the_mean_square_of_biases_that_look_alike() -> None:
    """Drawn: biases by the prior, seen through noise; those near 3 and near 15 apart have the mean square told."""
    generator = np.random.default_rng(12)
    own, noise, drawn = 1.5, 4.0, 2_000_000
    scale = np.where(generator.random(drawn) < OUTLIERS, OUTLIER_BIAS, BIAS)
    bias = generator.normal(0, np.sqrt(scale * own))
    apart = bias + generator.normal(0, np.sqrt(noise), drawn)
    for seen in (3.0, 15.0):
        alike = np.abs(apart - seen) < 0.05
        squares = bias[alike] ** 2
        told = float(bias_squares(np.array([[seen, 2.0, -2.0]]), np.array([own]), least=1.0)[0])
        assert abs(squares.mean() - told) < 5 * squares.std() / np.sqrt(alike.sum())


def test_huge_noise_of_a_first_look_does_not_widen_what_is_known_to_be_small() -> None:
    """A box of which nothing but a look with an error of 6,500 rows is known, beside millions that are clear.

    It holds few rows or none, as the total says; its interval must not be that of the look.
    """
    order = WorkloadModel((64,), (MIXED,)).cut_order()
    tree = halve(BoxTree.uncut((64,)), np.zeros(1, np.int64), 6, order).tree
    counts = np.where(np.arange(64) < 32, 100_000.0, 0.0)
    measured = np.array([counts[low:high].sum() for (low,), (high,) in zip(tree.lower, tree.upper, strict=True)])
    vague = tree.is_leaf & (tree.lower[:, 0] >= 32)
    variance = np.where(vague, 6500.0**2, np.where(tree.is_leaf | (tree.levels == 1), 200.0, np.inf))
    look = np.random.default_rng(3).normal(0, 6500.0, len(tree))
    posterior = infer(tree, measured + np.where(vague, look, 0.0), variance)
    estimate = PosteriorEstimate("balanced", posterior, measured, variance, doubting=True)
    cells = np.arange(32, 64)
    errors = estimate.errors(Workload((64,), cells[:, None], cells[:, None] + 1))
    assert np.sqrt(errors.noise_variances + errors.nonuniformity_squares).max() < 60


def test_an_average_is_as_sure_as_the_sum_it_is_made_of() -> None:
    """The same question with weights a thousandth as large has a thousandth of the error, its bias included."""
    order = WorkloadModel((16,), (MIXED,)).cut_order()
    tree = halve(BoxTree.uncut((16,)), np.zeros(1, np.int64), 3, order).tree
    measured = np.where(tree.is_leaf, 5.0, 0.0) + np.arange(len(tree), dtype=np.float64)
    variance = np.where(tree.is_leaf, 30.0, np.inf)
    estimate = PosteriorEstimate("balanced", infer(tree, measured, variance), measured, variance, doubting=True)
    weights = np.zeros((2, 16))
    weights[0, 3:12], weights[1] = 1.0, weights[0]
    weights[1, 3:12] = 1e-3
    queries = CountingQueries((weights,), np.array([[0], [1]]))
    _, errors = estimate.answers(queries)
    one, thousandth = errors.noise_variances + errors.nonuniformity_squares
    assert thousandth == pytest.approx(one * 1e-6, rel=1e-9)
