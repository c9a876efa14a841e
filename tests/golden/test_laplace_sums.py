"""Sums of Laplace noises (spec 4.1 and 4.2): densities, tails and mean sizes, by several ways."""

import math
import re
import warnings

import numpy as np
import pytest
from golden_file import A1, A2, GOLDEN, N_P, agrees, settings
from numpy.polynomial.laguerre import laggauss
from numpy.typing import ArrayLike
from scipy import integrate, special

from dpcube import theory
from dpcube.research.theory import error_law

SUMS = GOLDEN["f_n_bilateral_gamma"]
LEAST = GOLDEN["least_squares"]


def mixture(h: float, n: int) -> tuple[float, float, float]:
    """Density, tail and mean excess at h of the sum of n Lap(1), as a mixture of Gamma laws (spec 4.1)."""
    j = np.arange(1, n)
    log = np.append(0.0, np.cumsum(np.log(2 * (n - j) / (2 * n - 1 - j))))
    w = np.exp(log - log.max())
    w /= w.sum()
    poisson = np.exp(special.xlogy(np.arange(n), h) - h - special.gammaln(np.arange(1, n + 1)))
    tails = np.cumsum(w[::-1])[::-1]
    excess = np.cumsum(tails[::-1])[::-1]
    return 0.5 * poisson @ w, 0.5 * poisson @ tails, 0.5 * poisson @ excess


def literal_f_n(z: float, n: int) -> float:
    """The paper's integral for alpha = 1, typed in as printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        value, _ = integrate.quad(lambda v: v ** (n - 1) * (abs(z) + v / 2) ** (n - 1) * math.exp(-v), 0, np.inf)
    return float(math.exp(-abs(z)) / (2**n * math.factorial(n - 1) ** 2) * value)


def test_density_of_a_sum() -> None:
    for key, golden in SUMS["f_n"].items():
        at = settings(key)
        assert agrees(np.exp(theory.lap_sum_logpdf(at["z"], at["n"], alpha=at["alpha"])), golden), key


def test_density_of_a_large_sum() -> None:
    for key, golden in SUMS["log_f_n_large"].items():
        n, times = settings(key)["n"], float(re.findall(r"z=([\d.e-]+)\*", key)[0])
        z = times * np.sqrt(2 * n)
        assert agrees(z, golden["z"]), key
        assert agrees(theory.lap_sum_logpdf(z, n, alpha=1.0), golden["logf"]), key


def test_density_agrees_with_the_mixture_of_gammas_better_than_the_two_forms_of_the_specification() -> None:
    worst = 0.0
    for n in (2, 25, 100, 1000, 10_000):
        for z in np.array([0.0, 1e-6, 0.3, 3.0, 8.0]) * np.sqrt(2 * n):
            worst = max(worst, abs(float(theory.lap_sum_logpdf(z, n, alpha=1.0)) - np.log(mixture(z, n)[0])))
    assert worst < SUMS["log_f_n_large_maxdiff_two_methods"]


def test_density_is_one_in_total() -> None:
    # exp(z) f_n(z) is a polynomial of degree n - 1 on each side of 0, so 60 Laguerre nodes are exact up to n = 120.
    nodes, weights = laggauss(60)
    for n, golden in SUMS["integral_of_paper_formula_alpha0.05"].items():
        density = np.exp(theory.lap_sum_logpdf(nodes / 0.05, int(n), alpha=0.05) + nodes) / 0.05
        assert agrees(2 * weights @ density, golden)


def test_density_as_the_paper_prints_it() -> None:
    for key, golden in SUMS["naive_paper_formula_double_precision"].items():
        n, computed = int(key), float(np.exp(theory.lap_sum_logpdf(1.0, int(key), alpha=1.0)))
        assert 0 < computed < 0.5
        if isinstance(golden, str):
            assert golden == "OverflowError"
            with pytest.raises(OverflowError):
                literal_f_n(1.0, n)
            continue
        assert agrees(computed, golden["exact"])
        np.testing.assert_allclose(literal_f_n(1.0, n), golden["naive"], rtol=5e-9)  # not a number where it is none
    f, normal = SUMS["f_10000_at_0_alpha1_vs_normal"]
    assert agrees(np.exp(theory.lap_sum_logpdf(0.0, 10_000, alpha=1.0)), f)
    assert agrees(1 / np.sqrt(4 * np.pi * 10_000), normal)
    assert str(special.kv(999.5, 1.0)) == SUMS["naive_scipy_kv_n1000_z1"]
    assert np.isfinite(theory.lap_sum_logpdf(1.0, 1000, alpha=1.0))


def test_mean_size_of_a_sum() -> None:
    n = np.array([float(key) for key in SUMS["E_abs_S_n_alpha1"]])
    golden = np.array(list(SUMS["E_abs_S_n_alpha1"].values()))
    assert agrees(theory.lap_sum_mean_abs(n, 1.0), golden)
    assert agrees(theory.mean_abs(np.ones((n.size, 1)), n[:, None]), golden)
    assert agrees(theory.lap_sum_mean_abs_shift(0.0, n, alpha=1.0), golden)


def test_tail_of_a_sum() -> None:
    for key, golden in SUMS["tail_P_S_n_gt_t_alpha1"].items():
        at = settings(key)
        assert agrees(theory.lap_sum_sf(at["t"], at["n"], alpha=1.0), golden), key
        assert agrees(theory.error_sf(at["t"], [1.0], [at["n"]]) / 2, golden), key
        assert agrees(1 - theory.lap_sum_sf(-at["t"], at["n"], alpha=1.0), golden) or golden < 1e-7, key


@pytest.mark.parametrize("n", [1, 2, 5, 11, 100, 1000, 10_000])
def test_tails_keep_their_relative_accuracy_wherever_they_lie(n: int) -> None:
    for t in np.array([0.0, 1e-6, 0.01, 0.3, 1.0, 3.0, 8.0, 20.0]) * np.sqrt(2 * n):
        _, tail, excess = mixture(t, n)
        assert theory.lap_sum_sf(t, n, alpha=1.0) == pytest.approx(tail, rel=2e-11)
        assert theory.lap_sum_mean_abs_shift(-t, n, alpha=1.0) == pytest.approx(t + 2 * excess, rel=2e-11)


@pytest.mark.parametrize("ratio", [1.001, 2.0, 1e3, 1e6])
def test_tails_of_two_scales_against_their_closed_form(ratio: float) -> None:
    a, b = 1.0, 1 / ratio
    for x in (0.0, 0.01, 0.5, 3.0, 20.0):
        closed = (a**2 * np.exp(-x / a) - b**2 * np.exp(-x / b)) / (a**2 - b**2)
        assert theory.error_sf(x, [a, b], [1, 1]) == pytest.approx(closed, rel=1e-12 * max(1.0, 1 / (ratio - 1)))
    mean = (a**3 - b**3) / (a**2 - b**2)
    assert theory.mean_abs([a, b], [1, 1]) == pytest.approx(mean, rel=1e-12 * max(1.0, 1 / (ratio - 1)))
    sure = 1 - theory.error_sf(2.5, [a, b], [1, 1])
    assert theory.error_quantile([a, b], [1, 1], sure) == pytest.approx(2.5, rel=1e-12)


def test_two_engines_agree_for_any_scales() -> None:
    generator = np.random.default_rng()
    for terms in (1, 2, 4):
        b, k = 10 ** generator.uniform(-6, 0, (40, terms)), np.rint(10 ** generator.uniform(0, 4, (40, terms)))
        assert theory.mean_abs(b, k) == pytest.approx(theory.mean_abs_shift(0.0, b, k), rel=5e-12)
        sure = np.array([0.01, 0.5, 0.95, 1 - 2.0**-30])
        quantiles = theory.error_quantile(b[:, None], k[:, None], sure)
        tails = theory.error_sf(quantiles, b[:, None], k[:, None])
        assert tails == pytest.approx(np.broadcast_to(1 - sure, tails.shape), rel=1e-11)
        assert (np.diff(quantiles) > 0).all()


def by_midpoints(scales: ArrayLike, multiplicities: ArrayLike, nodes: int) -> float:
    """The other quadrature of spec 4.2: t = tan(angle)/sigma."""
    b, k = np.asarray(scales, np.float64), np.asarray(multiplicities, np.float64)
    sigma = np.sqrt(2 * k @ b**2)
    angle = (np.arange(nodes) + 0.5) * np.pi / (2 * nodes)
    t = np.tan(angle) / sigma
    one_less_phi = -np.expm1(-np.log1p((b[:, None] * t) ** 2).T @ k)
    return float((2 / np.pi) * (np.pi / (2 * nodes)) * (one_less_phi / np.sin(angle) ** 2).sum() * sigma)


def test_mean_size_by_another_quadrature() -> None:
    terms = theory.ls_terms(N_P, 5, a1=A1, a2=A2)
    exact = float(theory.ls_error(N_P, 5, a1=A1, a2=A2))
    for nodes, golden in LEAST["midpoint_convergence_rel_err_s5"].items():
        error = by_midpoints(terms.scales, terms.multiplicities, int(nodes)) / exact - 1
        assert error == pytest.approx(golden, rel=1e-8, abs=2e-15)
    assert error_law._NODES.size == LEAST["log_trapezoid"]["nodes"]
    cases = [([1.0, r], [1, k]) for r in (1.0, 1e-2, 1e-3) for k in (1, 50, 10_000)]
    assert len(cases) > 8
    for scales, counts in cases:
        reference = by_midpoints(scales, counts, LEAST["max_nodes_needed_1e-13"])
        allowed = LEAST["log_trapezoid"]["max_rel_diff_to_converged_midpoint"]
        assert theory.mean_abs(scales, counts) == pytest.approx(reference, rel=allowed)
