"""Errors of `tree_least_squares` where a question cuts a leaf: told by the posterior of the same counts."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcube.core.arrays import Floats
from dpcube.core.gate import Gate
from dpcube.measurements import Transcript
from dpcube.models import estimate
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.least_squares_tree import LeastSquaresTree
from dpcube.queries import CountingQueries
from dpcube.queries.random_ranges import random_ranges
from dpcube.release.answer import Answers
from dpcube.strategies import Adaptive
from dpcube.testing import SeededNoise

SHAPE = (40, 30)


def table() -> Floats:
    """A hill of so few rows that its boxes are large."""
    place = (np.indices(SHAPE).T / SHAPE).T
    shares = np.exp(-((place[0] - 0.4) ** 2 + (place[1] - 0.6) ** 2) / 0.06)
    return np.asarray(np.random.default_rng(9).poisson(3000 * shares / shares.sum()), np.float64)


def measured(seed: int) -> Transcript:
    return Adaptive().run(Gate(table().astype(np.int64), Fraction(1, 10), noise=SeededNoise(seed)))


def test_a_cut_leaf_errs_by_the_departure_from_the_posterior_and_its_error() -> None:
    transcript, asked = measured(1), random_ranges(SHAPE, 200, seed=2)
    plain, posterior = estimate(transcript, "tree_least_squares"), estimate(transcript, "balanced")
    assert isinstance(plain, LeastSquaresTree)
    found, told = plain.errors(asked), posterior.errors(asked)
    cut = plain.boxes.range_sums(asked).cut > 0
    assert cut.sum() > 100
    wanted = (plain.values(asked) - posterior.values(asked)) ** 2
    wanted += told.noise_variances + told.nonuniformity_squares
    squares = found.noise_variances + found.nonuniformity_squares
    np.testing.assert_allclose(squares[cut], np.maximum(wanted, found.noise_variances)[cut])
    np.testing.assert_array_equal(found.nonuniformity_squares[~cut], 0)
    weights = tuple(
        ((np.arange(side) >= low[:, None]) & (np.arange(side) < high[:, None])).astype(np.float64)
        for side, low, high in zip(SHAPE, asked.lower.T, asked.upper.T, strict=True)
    )
    queries = CountingQueries(weights, np.repeat(np.arange(200)[:, None], 2, axis=1))
    np.testing.assert_allclose(
        plain.answers(queries)[1].nonuniformity_squares, found.nonuniformity_squares, rtol=1e-6, atol=1e-6
    )


def test_without_a_posterior_it_is_not_known() -> None:
    plain = estimate(measured(1), "tree_least_squares")
    assert isinstance(plain, LeastSquaresTree)
    asked = random_ranges(SHAPE, 200, seed=2)
    within = replace(plain, posterior=None).errors(asked).nonuniformity_squares
    np.testing.assert_array_equal(np.isnan(within), plain.boxes.range_sums(asked).cut > 0)


@pytest.mark.slow
def test_intervals_are_stated_and_hold() -> None:
    truth, asked = table(), random_ranges(SHAPE, 500, seed=3)
    exact = range_sums(summed_area_table(truth), asked.lower, asked.upper)
    held = []
    for seed in range(10):
        found = estimate(measured(seed), "tree_least_squares")
        low, high = Answers.from_parts(found.values(asked), found.errors(asked)).interval()
        held.append(np.mean((low <= exact) & (exact <= high)))
    assert np.mean(held) >= 0.93
