"""The formulas of `dpcube.theory` against simulated noise and dense algebra, and false formulas that must be rejected.

Nothing of the theory is used in the simulation: noises come from NumPy, weights of an estimate from its normal
equations. Probabilities are tested by the exact binomial law at the rate ALARM. Means of n = 400,000 sizes are tested
by the normal law with their *known* variance: by Cramer's expansion its false-alarm rate at 4.9 standard deviations is
ALARM times at most exp(g 4.9^3 / (6 sqrt(n))), which is 1.1 for the skewness g < 3 of the sizes and 1.4 for
the g < 11 of the squares below. The false formulas are 10 standard deviations off or more. No seed is fixed: the tests
hold for any.
"""

import numpy as np
import pytest
from checks import ALARM, two_sided
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from dpcube import theory
from dpcube.core.arrays import Floats
from dpcube.research.theory import NoiseLaw

DRAWS = 400_000
NOISES: tuple[NoiseLaw, ...] = ("laplace", "discrete")
BOXES = [(11, 5, 0.05, 0.15), (11, 1, 0.15, 0.05), (4, 4, 1.0, 0.5), (3, 2, 0.7, 2.0)]


def draw(alpha: float, cells: int, noise: NoiseLaw, draws: int = DRAWS) -> Floats:
    """Independent noises, a column per cell."""
    generator = np.random.default_rng()
    if noise == "laplace":
        return generator.laplace(0, 1 / alpha, (draws, cells))
    pair = generator.geometric(-np.expm1(-alpha), (2, draws, cells))
    return np.asarray(pair[0] - pair[1], dtype=np.float64)


def variance(alpha: float, noise: NoiseLaw) -> float:
    """From the law itself: 2/alpha^2, or the sum of z^2 P(z)."""
    if noise == "laplace":
        return 2 / alpha**2
    z = np.arange(1, int(60 / alpha) + 2)
    return float(2 * np.tanh(alpha / 2) * (z**2 @ np.exp(-alpha * z)))


def mean(sizes: Floats, expected: ArrayLike, square: float) -> float:
    """p-value of the mean of sizes whose expected square is known."""
    claimed = float(np.asarray(expected))
    if claimed**2 >= square:  # no law has such a mean
        return 0.0
    return float(2 * stats.norm.sf(abs(sizes.mean() - claimed) / np.sqrt((square - claimed**2) / sizes.size)))


def share(happened: NDArray[np.bool_], probability: ArrayLike) -> float:
    """p-value of how often something happened."""
    law = stats.binom(happened.size, float(np.asarray(probability)))
    return float(two_sided(law, np.count_nonzero(happened)))


def query_weights(n_p: int, s: int, v1: float, v2: float) -> Floats:
    """The weights of the box's noise and the cells' in the answer of weighted least squares, by normal equations."""
    h = np.vstack([np.ones((1, n_p)), np.eye(n_p)])
    precision = np.diag(1 / np.append(v2, np.full(n_p, v1)))
    return np.asarray(np.linalg.solve(h.T @ precision @ h, h.T @ precision)[:s].sum(axis=0))


def least_squares_errors(
    n_p: int, s: int, a1: float, a2: float, noise: NoiseLaw, *, weighted: bool
) -> tuple[Floats, float]:
    """Simulated errors of an answer, and their known variance."""
    v1, v2 = variance(a1, noise), variance(a2, noise)
    weights = query_weights(n_p, s, v1, v2) if weighted else query_weights(n_p, s, 1.0, 1.0)
    noises = np.hstack([draw(a2, 1, noise), draw(a1, n_p, noise)])
    return noises @ weights, float(weights**2 @ np.append(v2, np.full(n_p, v1)))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n_p", "s", "a1", "a2"), BOXES)
def test_errors_of_least_squares(n_p: int, s: int, a1: float, a2: float, noise: NoiseLaw) -> None:
    for weighted, formula, terms in (
        (False, theory.ls_error, theory.ls_terms(n_p, s, a1=a1, a2=a2)),
        (True, theory.gls_error, theory.gls_terms(n_p, s, a1=a1, a2=a2, noise=noise)),
    ):
        errors, v = least_squares_errors(n_p, s, a1, a2, noise, weighted=weighted)
        sizes, expected = np.abs(errors), formula(n_p, s, a1=a1, a2=a2, noise=noise)
        assert mean(sizes, expected, v) > ALARM
        variances = {"v1": variance(a1, noise), "v2": variance(a2, noise)}
        stated = (theory.V_GLS if weighted else theory.V_LS)(n_p, s, **variances)
        assert stated == pytest.approx(v, rel=1e-9)
        for confidence in (0.5, 0.95):
            assert quantile(sizes, terms, confidence, noise) > ALARM


def quantile(sizes: Floats, terms: theory.Terms, confidence: float, noise: NoiseLaw) -> float:
    """p-value of a quantile: how many sizes are above it, and that it is the smallest such point."""
    scales, counts, weights = terms
    h = float(theory.error_quantile(scales, counts, confidence, noise=noise, weights=weights))
    above = theory.error_sf(h, scales, counts, noise=noise, weights=weights)
    assert above <= (1 - confidence) * (1 + 1e-9)
    just_below = theory.error_sf(h * (1 - 1e-6), scales, counts, noise=noise, weights=weights)
    assert just_below > (1 - confidence) * (1 - 1e-9)
    return share(sizes > h * (1 + 1e-9), above)


@pytest.mark.parametrize("noise", NOISES)
def test_false_errors_of_least_squares_are_rejected(noise: NoiseLaw) -> None:
    n_p, s, a1, a2 = 11, 5, 0.05, 0.15
    errors, v = least_squares_errors(n_p, s, a1, a2, noise, weighted=False)
    sizes, right = np.abs(errors), theory.ls_error(n_p, s, a1=a1, a2=a2, noise=noise)
    assert mean(sizes, right, v) > ALARM
    false = {
        "prefactor one power short": right * (n_p + 1) / n_p,
        "alphas swapped": theory.ls_error(n_p, s, a1=a2, a2=a1, noise=noise),
        "query of one cell less": theory.ls_error(n_p, s - 1, a1=a1, a2=a2, noise=noise),
        "box of one cell more": theory.ls_error(n_p + 1, s, a1=a1, a2=a2, noise=noise),
        "noise of the box forgotten, inside only": theory.cells_error(s, a1, noise=noise),
        "the eta formula": theory.uniform_error_eta(5, s, a1=a1),
    }
    for name, wrong in false.items():
        assert mean(sizes, wrong, v) < ALARM, name
    terms = theory.ls_terms(n_p, s, a1=a1, a2=a2)
    h = theory.error_quantile(terms.scales, terms.multiplicities, 0.94, noise=noise, weights=terms.weights)
    assert share(sizes > h, 0.05) < ALARM


def test_discrete_noise_is_not_taken_for_laplace_noise() -> None:
    errors, v = least_squares_errors(3, 2, 1.0, 2.0, "discrete", weighted=False)
    assert mean(np.abs(errors), theory.ls_error(3, 2, a1=1.0, a2=2.0, noise="discrete"), v) > ALARM
    assert mean(np.abs(errors), theory.ls_error(3, 2, a1=1.0, a2=2.0), v) < ALARM


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n", "alpha"), [(1, 0.3), (5, 0.05), (12, 1.5)])
def test_sums_of_noises(n: int, alpha: float, noise: NoiseLaw) -> None:
    sums, v = draw(alpha, n, noise).sum(axis=1), n * variance(alpha, noise)
    assert mean(np.abs(sums), theory.cells_error(n, alpha, noise=noise), v) > ALARM
    assert mean(np.abs(sums), theory.cells_error(n, alpha * 1.03, noise=noise), v) < ALARM
    shift = 0.7 / alpha
    shifted = theory.lap_sum_mean_abs_shift if noise == "laplace" else theory.dl_sum_mean_abs_shift
    assert mean(np.abs(shift + sums), shifted(shift, n, alpha=alpha), v + shift**2) > ALARM
    sf = theory.lap_sum_sf if noise == "laplace" else theory.dl_sum_sf
    for t in np.array([-0.4, 0.0, 0.5, 2.0]) * np.sqrt(v):
        assert share(sums > t, sf(t, n, alpha=alpha)) > ALARM
        beside = t + 0.1 * np.sqrt(v) + (noise == "discrete")
        assert share(sums > t, sf(beside, n, alpha=alpha)) < ALARM
    if noise == "discrete":
        for k in (0, 3):
            assert share(sums == k, np.exp(theory.dl_sum_logpmf(k, n, alpha=alpha))) > ALARM


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n_p", "s", "a2", "gamma"), [(11, 5, 0.15, 5.0), (6, 1, 1.2, 2.0), (5, 5, 0.4, 3.0)])
def test_uniform_errors_of_the_worst_smooth_data(n_p: int, s: int, a2: float, gamma: float, noise: NoiseLaw) -> None:
    x = np.append(np.zeros(s), np.full(n_p - s, gamma))  # gamma-smooth, and no query of s cells has a larger bias
    errors = s / n_p * (x.sum() + draw(a2, 1, noise)[:, 0]) - x[:s].sum()
    bias, v = s / n_p * x.sum(), (s / n_p) ** 2 * variance(a2, noise)
    assert theory.smoothness(x) == (gamma if s < n_p else 0)
    exact = theory.uniform_error_exact(bias, s, n_p=n_p, a2=a2, noise=noise)
    tight = theory.uniform_error_bound_tight(gamma, s, n_p=n_p, a2=a2, noise=noise)
    assert tight == pytest.approx(float(exact), rel=1e-12)
    assert mean(np.abs(errors), tight, v + bias**2) > ALARM
    assert theory.uniform_error_bound_paper(gamma, s, n_p=n_p, a2=a2, noise=noise) >= tight * (1 - 1e-12)
    for eps in (0.5 * bias + 0.4, bias + 2 * np.sqrt(v)):
        useful = theory.uniform_usefulness(eps, bias, s=s, n_p=n_p, a2=a2, noise=noise)
        assert share(np.abs(errors) <= eps, useful) > ALARM
        assert share(np.abs(errors) <= eps, useful + (0.02 if useful < 0.5 else -0.02)) < ALARM


def test_false_uniform_errors_are_rejected() -> None:
    n_p, s, a2, gamma = 6, 3, 0.5, 2.0
    x = np.append(np.zeros(s), np.full(n_p - s, gamma))
    errors = np.abs(s / n_p * (x.sum() + draw(a2, 1, "laplace")[:, 0]) - x[:s].sum())
    square = (s / n_p) ** 2 * variance(a2, "laplace") + (s / n_p * x.sum()) ** 2
    assert mean(errors, theory.uniform_error_bound_tight(gamma, s, n_p=n_p, a2=a2), square) > ALARM
    assert mean(errors, theory.uniform_error_exact(0, s, n_p=n_p, a2=a2), square) < ALARM
    assert mean(errors, theory.uniform_error_bound_tight(gamma, s, n_p=n_p, a2=a2 * 1.5), square) < ALARM


@pytest.mark.parametrize("noise", NOISES)
def test_worst_boolean_query(noise: NoiseLaw) -> None:
    m, eps, delta = 9, 12.0, 0.05
    alpha = float(theory.cell_usefulness_alpha_boolean(m, eps, delta=delta, noise=noise))
    noises = draw(alpha, m, noise)
    positive, negative = np.maximum(noises, 0).sum(axis=1), np.maximum(-noises, 0).sum(axis=1)
    worst = np.maximum(positive, negative)
    assert share(worst > eps, delta) > ALARM
    assert share(worst > 9.0, 1 - theory.boolean_sup_cdf(9.0, m, alpha=alpha, noise=noise)) > ALARM
    # The checker sees one-sided sums, and the alpha of a single query.
    assert share(positive > eps, delta) < ALARM
    one = float(theory.cell_usefulness_alpha_one_query(m, eps, delta=delta, noise=noise))
    assert share(np.abs(draw(one, m, noise).sum(axis=1)) > eps, delta) > ALARM
    again = draw(one, m, noise)
    assert share(np.maximum(np.maximum(again, 0).sum(axis=1), np.maximum(-again, 0).sum(axis=1)) > eps, delta) < ALARM
    total = float(theory.cell_usefulness_alpha_sum_abs(m, eps, delta=delta, noise=noise))
    assert share(np.abs(draw(total, m, noise)).sum(axis=1) > eps, delta) > ALARM
    sizes = np.abs(noises).sum(axis=1)
    assert share(sizes <= 15.0, theory.sumlap_exact(m, 1 / alpha, eps=15.0, noise=noise)) > ALARM
    assert theory.sumlap_bound(m, 1 / alpha, eps=15.0, noise=noise) < np.mean(sizes <= 15.0)


def test_worst_boolean_query_is_the_worst_of_all_of_them() -> None:
    noises = draw(1.0, 4, "laplace", draws=50)
    queries = (np.arange(16)[:, None] >> np.arange(4)) % 2
    worst = np.abs(noises @ queries.T).max(axis=1)
    assert worst == pytest.approx(np.maximum(np.maximum(noises, 0).sum(axis=1), np.maximum(-noises, 0).sum(axis=1)))


@pytest.mark.parametrize("noise", NOISES)
def test_any_linear_estimate(noise: NoiseLaw) -> None:
    """Three weights and two alphas: for discrete noise, the Fourier series of many lattices."""
    weights, alphas, counts = np.array([0.25, 0.6, 1.0]), np.array([0.3, 0.2, 0.3]), np.array([3, 2, 1])
    parts = [draw(a, k, noise).sum(axis=1) for a, k in zip(alphas, counts, strict=True)]
    errors = np.stack(parts, axis=1) @ weights
    v = float(weights**2 * counts @ np.array([variance(a, noise) for a in alphas]))
    terms = theory.Terms(weights / alphas, counts.astype(np.float64), weights)
    expected = theory.mean_abs(terms.scales, terms.multiplicities, noise=noise, weights=weights)
    assert mean(np.abs(errors), expected, v) > ALARM
    assert mean(np.abs(errors), expected * 1.02, v) < ALARM
    bias = theory.mean_abs_shift(4.0, terms.scales, terms.multiplicities, noise=noise, weights=weights)
    assert mean(np.abs(errors + 4.0), bias, v + 16) > ALARM
    h = theory.error_quantile(terms.scales, terms.multiplicities, 0.95, noise=noise, weights=weights)
    above = theory.error_sf(h, terms.scales, terms.multiplicities, noise=noise, weights=weights)
    assert above == pytest.approx(0.05, rel=2e-2)
    assert above <= 0.05 * (1 + 1e-9)
    assert share(np.abs(errors) > h, above) > ALARM
    assert share(np.abs(errors) > h, 0.046) < ALARM


@pytest.mark.parametrize("noise", NOISES)
def test_uniform_plus(noise: NoiseLaw) -> None:
    n_p, s, a1, a2 = 7, 3, 0.4, 0.2
    x = np.array([4.0, 9.0, 2.0, 7.0, 7.0, 1.0, 5.0])
    y, y_p = x + draw(a1, n_p, noise), x.sum() + draw(a2, 1, noise)[:, 0]
    v1, v2 = variance(a1, noise), variance(a2, noise)
    errors = theory.uniform_plus(y, y_p, v1=v1, v2=v2)[:, :s].sum(axis=1) - x[:s].sum()
    bias = s / n_p * x.sum() - x[:s].sum()
    v = (s / n_p) ** 2 / (1 / v2 + 1 / (n_p * v1))  # two independent totals, weighted by their precision
    expected = theory.uniform_plus_error(n_p, s, a1=a1, a2=a2, b=bias, noise=noise)
    assert mean(np.abs(errors), expected, v + bias**2) > ALARM
    assert mean(np.abs(errors), theory.uniform_error_exact(bias, s, n_p=n_p, a2=a2, noise=noise), v + bias**2) < ALARM


def fourth_cumulant(alpha: float) -> float:
    """Of a Laplace noise: E N^4 - 3 v^2 = 24/alpha^4 - 12/alpha^4."""
    return 12 / alpha**4


def test_risk_estimate_is_unbiased() -> None:
    n_p, s, a1, a2 = 7, 3, 0.4, 0.2
    x, q = np.array([4.0, 9.0, 2.0, 7.0, 7.0, 1.0, 5.0]), np.array([1.0, 1, 1, 0, 0, 0, 0])
    v1, v2 = variance(a1, "laplace"), variance(a2, "laplace")
    risks = theory.uniform_risk_estimate(x + draw(a1, n_p, "laplace"), q, v1=v1, v2=v2)
    bias, weights = s / n_p * x.sum() - q @ x, s / n_p - q
    truth, v = bias**2 + (s / n_p) ** 2 * v2, v1 * weights @ weights
    spread = 4 * bias**2 * v + 2 * v**2 + fourth_cumulant(a1) * (weights**4).sum()
    assert mean(risks, truth, spread + truth**2) > ALARM
    # Forgetting that the noisy cells differ by noise too, or that the box has noise, is seen.
    assert mean(risks, truth + v, spread + (truth + v) ** 2) < ALARM
    assert mean(risks, bias**2, spread + bias**4) < ALARM
