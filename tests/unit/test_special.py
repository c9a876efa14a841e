"""Special functions and the minimum of a convex function, with SciPy, the standard library and sums as oracles."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize

from dpcube.core.arrays import Floats
from dpcube.models.cuboids.lbfgs import Function, minimum
from dpcube.noise.special import chi_square_tail, inverse_mills_ratio, logistic, normal_cdf, normal_quantile

EVERYWHERE = np.concatenate([np.linspace(-30, 30, 60_001), np.geomspace(1e-300, 1, 500), -np.geomspace(1e-300, 1, 500)])


def worst(found: Floats, expected: Floats) -> float:
    """Return the largest relative error."""
    return float(np.max(np.abs(found - expected) / np.abs(expected)))


def test_the_normal_law_agrees_with_scipy_from_tail_to_tail() -> None:
    assert worst(normal_cdf(EVERYWHERE), special.ndtr(EVERYWHERE)) < 3e-13
    ratio = np.exp(-(EVERYWHERE**2) / 2 - special.log_ndtr(EVERYWHERE)) / math.sqrt(2 * math.pi)
    assert worst(inverse_mills_ratio(EVERYWHERE), ratio) < 3e-13


def test_a_normal_law_that_is_a_little_wrong_is_noticed() -> None:
    assert worst(normal_cdf(EVERYWHERE * (1 + 1e-12)), special.ndtr(EVERYWHERE)) > 3e-13


@pytest.mark.parametrize("x", [-1e3, -1e6])
def test_far_below_the_ratio_is_that_of_its_asymptotic_series(x: float) -> None:
    series = -x * (1 + 1 / x**2 - 2 / x**4)
    assert float(inverse_mills_ratio(np.array(x))) == pytest.approx(series, rel=1e-14)
    assert float(inverse_mills_ratio(np.array(-x))) == 0


def test_quantiles_are_those_of_the_standard_library_and_of_scipy() -> None:
    p = np.concatenate(
        [np.linspace(1e-6, 1 - 1e-6, 20_001), np.geomspace(1e-300, 0.1, 500), 1 - 2.0 ** -np.arange(2.0, 53)]
    )
    p = p[p != 0.5]
    by_library = np.array([statistics.NormalDist().inv_cdf(one) for one in p.tolist()])
    assert worst(normal_quantile(p), by_library) < 2e-15
    assert worst(normal_quantile(p), special.ndtri(p)) < 3e-15
    assert normal_quantile(np.array([0.5])).tolist() == [0.0]
    assert normal_quantile(np.array(0.975)).shape == ()


def test_quantiles_undo_probabilities() -> None:
    x = np.linspace(-37, 5, 1001)
    assert np.max(np.abs(normal_quantile(normal_cdf(x)) - x)) < 1e-9


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 17, 100, 1001, 10**6])
def test_the_chi_square_tail_agrees_with_scipy(degrees: int) -> None:
    for tail in (0.999, 0.5, 0.1, 1e-2, 1e-3, 1e-9):
        x = float(special.chdtri(degrees, tail))
        assert chi_square_tail(x, degrees) == pytest.approx(float(special.chdtrc(degrees, x)), rel=1e-8, abs=1e-12)
    assert chi_square_tail(0.0, degrees) == 1
    assert chi_square_tail(1e9, degrees) == pytest.approx(0, abs=1e-300)


def test_the_tail_of_even_degrees_is_a_finite_sum() -> None:
    y = Fraction(30)  # Q(a, y) = exp(-y) * sum of y^j / j! below a
    exact = float(sum(y**j / math.factorial(j) for j in range(20))) * math.exp(-30)
    assert chi_square_tail(60.0, 40) == pytest.approx(exact, rel=1e-13)


def test_the_logistic_function_agrees_with_scipy() -> None:
    x = np.linspace(-700, 700, 10_001)
    assert worst(logistic(x), special.expit(x)) < 1e-15
    assert logistic(np.array([-1e300, 1e300])).tolist() == [0, 1]


def log_sum(rows: Floats, ridge: float) -> tuple[Function, Floats]:
    """Return a regularised log-sum-exp of linear functions, and a start far from its minimum."""

    def function(x: Floats) -> tuple[float, Floats]:
        along = rows @ x
        shares = np.exp(along - along.max())
        shares /= shares.sum()
        value = float(along.max() + math.log(np.exp(along - along.max()).sum()) + ridge / 2 * x @ x)
        return value, rows.T @ shares + ridge * x

    return function, np.full(rows.shape[1], 3.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_is_that_of_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    function, start = log_sum(generator.normal(size=(60, 25)) * np.geomspace(0.01, 3, 25), 1e-3)
    found = minimum(function, start, steps=2000, kept=20, flat=1e-9, close=0.0)
    options = {"gtol": 1e-10, "ftol": 1e-16, "maxiter": 5000, "maxcor": 20}
    scipys = minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    assert np.max(np.abs(function(found)[1])) < 1e-6  # values of rounding 1e-16 tell no more
    assert function(found)[0] == pytest.approx(scipys.fun, rel=1e-10, abs=1e-10)


def test_a_step_that_betters_nothing_ends_the_search() -> None:
    calls = []

    def function(x: Floats) -> tuple[float, Floats]:
        calls.append(x)
        return float(x @ x), 2 * x

    start = np.array([3.0, 4.0])
    assert minimum(function, start, steps=0, kept=5, flat=0.0, close=0.0).tolist() == [3, 4]
    assert minimum(function, np.zeros(2), steps=9, kept=5, flat=0.0, close=0.0).tolist() == [0, 0]
    assert len(calls) == 2
    minimum(function, start, steps=9, kept=5, flat=0.0, close=1.0)
    assert len(calls) <= 5
