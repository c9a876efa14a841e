"""Every number of `golden.json` that is a formula of `dpcube.theory`, and the names and speed promised for them.

Golden numbers are printed to nine significant digits. A computed number agrees when it is within half a unit of the
ninth digit, that is within 0.5e-9 to 5e-9 relative: as much as the print allows and no more.
"""

import doctest
import importlib
import inspect
import json
import pkgutil
import re
import time
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.polynomial.laguerre import laggauss
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, special

from dpcube import theory
from dpcube.errors import InputError
from dpcube.theory import error_law

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
SUMS, CELLS, UNIFORM = GOLDEN["f_n_bilateral_gamma"], GOLDEN["cell_histogram"], GOLDEN["uniform_estimation"]
LEAST, DISCRETE, FIGURES = GOLDEN["least_squares"], GOLDEN["discrete_laplace"], GOLDEN["figures"]
EXTENSIONS = GOLDEN["extensions"]
A1, A2, TOTAL, N_P = 0.05, 0.15, 0.2, 11
V1, V2 = 800.0, 800 / 9

Table = dict[str, Any]
Numbers = NDArray[np.float64]


def agrees(computed: ArrayLike, golden: ArrayLike) -> bool:
    """Whether every number is the golden one, to the nine digits printed."""
    value, printed = np.broadcast_arrays(np.asarray(computed, np.float64), np.asarray(golden, np.float64))
    size = np.where(printed == 0, 1.0, np.abs(printed))
    half_unit = 0.5 * 10.0 ** (np.floor(np.log10(size)) - 8)
    return bool(np.all(np.abs(value - printed) <= 1.0001 * half_unit))


def settings(key: str) -> dict[str, Any]:
    """Read a key such as n_p=11,s=5,alpha2=0.15."""
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.e-]+)", key)}


def table(rows: Table) -> tuple[Numbers, dict[str, Numbers]]:
    """Return the keys of a table of rows as numbers, and its columns."""
    keys = np.array([float(key) for key in rows])
    return keys, {name: np.array([row[name] for row in rows.values()]) for name in next(iter(rows.values()))}


def leaves(tree: object, path: str = "") -> Iterator[str]:
    """Name every number of a tree."""
    if isinstance(tree, dict):
        for name, branch in tree.items():
            yield from leaves(branch, f"{path}/{name}")
    else:
        yield path


def test_agreement_can_fail() -> None:
    assert agrees(37.04792705, 37.0479271)
    assert not agrees(37.0479271 * (1 + 3e-9), 37.0479271)
    assert not agrees([1.0, 2.0], [1.0, 2.00000002])


# What is checked elsewhere, or cannot be: everything else in the file is asserted below.
ELSEWHERE = {
    "conventions": "words",
    "example_3x3": "tests/golden/test_running_example.py and test_partition.py",
    "adult": "the bundled table, not a formula",
    "v_optimal": "tests/golden/test_partition.py; its noise floor is here",
}
OURS = {
    "f_n_bilateral_gamma": {
        "integral_of_paper_formula_alpha0.05",
        "f_n",
        "log_f_n_large",
        "log_f_n_large_maxdiff_two_methods",
        "f_10000_at_0_alpha1_vs_normal",
        "naive_paper_formula_double_precision",
        "naive_scipy_kv_n1000_z1",
        "E_abs_S_n_alpha1",
        "tail_P_S_n_gt_t_alpha1",
    },
    "cell_histogram": {"lemma_SumLap", "cell_usefulness_alpha_times_eps"},
    "uniform_estimation": {
        "max_EH_gamma5_n11",
        "usefulness_uniform",
        "E_H_eta_alpha1_0.05_by_s",
        "eq_random_validity_s5_bias0",
    },
    "least_squares": {
        "E_LS_n11_a1.05_a2.15",
        "paper_triple_integral_vs_1d",
        "midpoint_convergence_rel_err_s5",
        "max_nodes_needed_1e-13",
        "log_trapezoid",
        "E_LS_other",
        "GLS_gain_n11_a1.05_a2.15",
        "kappa",
        "GLS_gain_n11_a1.15_a2.05",
        "paper_LS_worse_than_y_p_alone_at_s_eq_n",
    },
    "discrete_laplace": {
        "single",
        "E_abs_S_n",
        "LS_GLS_n11_a1.05_a2.15",
        "kappa_GLS",
        "uniform_max_EH_tight_gamma5",
        "uniform_bias0",
        "V_ratio_discrete_over_continuous",
    },
    "figures": {
        "fig_s_(n_p=11,a1=.05,a2=.15,gamma=5,eta=5)",
        "fig_alpha1_(total=.2,n_p=11,s=5,gamma=5,eta=5)",
        "fig_np_(a1=.05,a2=.15,gamma=5,s=floor(n_p/2))",
        "fig_np_fixed_s5",
        "fig_gamma_(n_p=11,s=5,a2=.15)",
        "fig_eta_(s=5,a1=.05)",
        "optimal_alpha1_total_.2_n_p_11",
        "alpha1_opt_mean_sd_over_s",
        "gamma_crossover_uniform_vs_LS_s5",
        "gamma_crossover_uniform_vs_full_budget_cell_hist_s5",
        "argmax_s",
    },
    "extensions": {
        "Q2_running_example_a1.05_a2.15",
        "uniform_plus_bias0_n11",
        "risk_estimate",  # one Monte Carlo example of data not stated; unbiasedness is tested in tests/statistical
        *(f"post_selection_4x4_constant_xi0={xi}" for xi in (400, 800, 1600)),  # simulations; one formula each
        *(f"dl_sum_pmf_n={n},alpha={a},k={k}" for n, a in ((3, 0.5), (5, 0.15)) for k in (0, 1, 7, 40)),
        "matrix_mechanism_V_n11_s5_alpha.2",
    },
}
# Recorded simulations: the exact value beside each is asserted, these are not reproducible.
MONTE_CARLO = {
    "true_EH_MC",
    "mean_abs_eta_MC",
    "P_abs_eta_le_5",
    "P_abs_eta_le_10",
    "corr_eta_S",
    "true_EH_given_eta_near_5",
}


def test_no_table_of_the_file_is_forgotten() -> None:
    assert set(GOLDEN) == set(ELSEWHERE) | set(OURS)
    for part, names in OURS.items():
        assert set(GOLDEN[part]) == names, part
    assert sum(1 for _ in leaves({part: GOLDEN[part] for part in OURS})) > 900


# 4.1 and 4.2: sums of Laplace noises


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
    """The paper's integral for alpha = 1, as printed."""
    value, _ = integrate.quad(
        lambda v: v ** (n - 1) * (abs(z) + v / 2) ** (n - 1) * np.exp(-v), 0, np.inf, epsabs=0, epsrel=1e-12, limit=200
    )
    return float(np.exp(-abs(z)) * value / (2**n * special.gamma(n) ** 2))


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
        if not isinstance(golden, str):
            assert agrees(computed, golden["exact"])
        if n <= 30:
            assert literal_f_n(1.0, n) == pytest.approx(computed, rel=1e-9)
        assert 0 < computed < 0.5
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


# 4.3: cells


def test_lemma_sumlap() -> None:
    for key, golden in CELLS["lemma_SumLap"].items():
        at = settings(key)
        assert agrees(theory.sumlap_bound(at["m"], at["b"], eps=at["eps"]), golden["bound"]), key
        assert agrees(theory.sumlap_exact(at["m"], at["b"], eps=at["eps"]), golden["exact_gamma_cdf"]), key


def test_cell_usefulness() -> None:
    for key, golden in CELLS["cell_usefulness_alpha_times_eps"].items():
        m, delta = settings(key)["m"], settings(key)["delta"]
        for eps in (1.0, 37.0):  # the table holds alpha * eps
            paper = eps * theory.cell_usefulness_alpha(m, eps, delta=delta)
            every = eps * theory.cell_usefulness_alpha_boolean(m, eps, delta=delta)
            one = eps * theory.cell_usefulness_alpha_one_query(m, eps, delta=delta)
            total = eps * theory.cell_usefulness_alpha_sum_abs(m, eps, delta=delta)
            elementary = eps * theory.cell_usefulness_alpha_elementary(m, eps, delta=delta)
            assert agrees(paper, golden["paper_alpha_eps"]), key
            assert agrees(total, golden["exact_sum_abs"]), key
            assert agrees(every, golden["exact_sup_boolean"]), key
            assert agrees(one, golden["exact_one_query_size_m"]), key
            assert agrees(elementary, golden["chernoff_sum_abs"]), key
            assert agrees(paper / every, golden["paper_over_sup"]), key
            assert agrees(paper / one, golden["paper_over_one"]), key


# 4.4 and 4.5: uniform estimation


def test_bounds_of_the_uniform_error() -> None:
    s, golden = table(UNIFORM["max_EH_gamma5_n11"])
    assert agrees(theory.uniform_error_bound_paper(5, s, n_p=N_P, a2=A2), golden["paper_bound"])
    assert agrees(theory.uniform_error_bound_tight(5, s, n_p=N_P, a2=A2), golden["tight_sup"])
    assert agrees(theory.uniform_bias_bound(5, s, n_p=N_P), golden["tight_bias"])


def test_usefulness_of_the_uniform_estimate() -> None:
    for key, golden in UNIFORM["usefulness_uniform"].items():
        at = settings(key)
        box: dict[str, Any] = {"s": at["s"], "n_p": at["n_p"], "a2": at["alpha2"]}
        sufficient = theory.uniform_eps_paper(at["gamma"], at["delta"], **box)
        exact = theory.uniform_eps_exact(at["gamma"], at["delta"], **box)
        assert agrees(sufficient, golden["eps_paper_sufficient"]), key
        assert agrees(exact, golden["eps_exact_worst_gamma_smooth"]), key
        largest = theory.uniform_gamma_max(sufficient * (1 + 1e-15), at["delta"], **box)
        if golden["gamma_max_paper_at_eps_paper"] is None:  # E8: a query of the whole box has no bias
            assert largest == np.inf
            assert theory.uniform_gamma_max(sufficient * 0.999, at["delta"], **box) == -np.inf
        else:
            assert largest == pytest.approx(golden["gamma_max_paper_at_eps_paper"], rel=1e-9, abs=1e-12)
            assert theory.uniform_gamma_max_exact(exact * (1 + 1e-15), at["delta"], **box) == pytest.approx(
                at["gamma"], rel=1e-9, abs=1e-6
            )
        assert theory.uniform_usefulness_worst(exact, at["gamma"], **box) == pytest.approx(1 - at["delta"], rel=1e-12)


def test_the_eta_curve() -> None:
    s, golden = table(UNIFORM["E_H_eta_alpha1_0.05_by_s"])
    for eta in (0, 5, 10):
        assert agrees(theory.uniform_error_eta(eta, s, a1=A1), golden[f"eta={eta}"])


def test_the_eta_curve_is_not_the_error() -> None:
    golden = UNIFORM["eq_random_validity_s5_bias0"]
    c = 5 / N_P / A2
    assert agrees(theory.uniform_error_exact(0, 5, n_p=N_P, a2=A2), golden["true_EH"])
    assert agrees(theory.uniform_error_eta(0, 5, a1=A1), golden["formula_at_eta0"])
    assert agrees(theory.uniform_error_eta(5, 5, a1=A1), golden["formula_at_eta5"])
    # eta = (s/n_p) N2 - (sum of 5 N1), and the formula adds 5 more N1 as if they were others.
    assert agrees(theory.mean_abs([c, 1 / A1], [1, 5]), golden["mean_abs_eta"])
    assert agrees(theory.mean_abs([c, 1 / A1], [1, 10]), golden["formula_averaged_over_eta"])
    exact = {"true_EH", "formula_at_eta0", "formula_at_eta5", "formula_averaged_over_eta", "mean_abs_eta"}
    assert set(golden) == exact | MONTE_CARLO


# 4.6, 4.7 and 4.9: least squares


def test_main_table_of_least_squares() -> None:
    s, golden = table(LEAST["E_LS_n11_a1.05_a2.15"])
    errors = theory.ls_error(n_p=N_P, s=s, a1=A1, a2=A2)
    assert agrees(errors, golden["E_LS"])
    assert agrees(theory.gls_error(N_P, s, a1=A1, a2=A2), golden["E_GLS"])
    assert agrees(np.sqrt(theory.V_LS(N_P, s, v1=V1, v2=V2)), golden["sd_LS"])
    assert agrees(np.sqrt(theory.V_GLS(N_P, s, v1=V1, v2=V2)), golden["sd_GLS"])
    assert np.all(np.abs(errors - golden["MC"]) < 4.9 * golden["MC_se"])  # the file's own simulation


def test_the_number_everyone_quotes() -> None:
    assert float(theory.ls_error(n_p=11, s=5, a1=0.05, a2=0.15)) == pytest.approx(37.047927054, rel=1e-10)
    assert isinstance(theory.ls_error(n_p=11, s=5, a1=0.05, a2=0.15), float)


def literal_triple_integral(n_p: int, s: int, *, step: float, half: int) -> tuple[float, float]:
    """Total mass and E(eps_LS) of the paper's equation, prefactor included, by convolution on a grid around 0."""
    distance = step * np.arange(half + 1)

    def transformed(n: int, alpha: float, weight: float) -> Numbers:
        density = np.exp(theory.lap_sum_logpdf(distance / weight, n, alpha=alpha))
        return np.fft.rfft(np.append(density, density[-2:0:-1])).real

    inside, outside = (n_p + 1 - s) / (n_p + 1), s / (n_p + 1)
    product = transformed(1, A2, outside) * transformed(s, A1, inside) * transformed(n_p - s, A1, outside)
    prefactor = (n_p + 1) ** 3 / (s**2 * (n_p + 1 - s))
    law = prefactor * step**3 * np.fft.irfft(product)[: half + 1]
    return float(2 * law[1:].sum() + law[0]), float(2 * law @ distance)


@pytest.mark.parametrize(("n_p", "s"), [(11, 5), (3, 2), (3, 1)])
def test_the_papers_three_integrals_are_the_same_number(n_p: int, s: int) -> None:
    (mass, mean), (fine_mass, fine_mean) = (
        literal_triple_integral(n_p, s, step=step, half=round(800 / step)) for step in (0.5, 0.25)
    )
    # The grid errs by a multiple of step^2, which Richardson's extrapolation removes.
    assert (4 * fine_mass - mass) / 3 == pytest.approx(1, rel=1e-5)
    assert (4 * fine_mean - mean) / 3 == pytest.approx(float(theory.ls_error(n_p, s, a1=A1, a2=A2)), rel=1e-5)


def test_recorded_triple_integrals() -> None:
    for key, golden in LEAST["paper_triple_integral_vs_1d"].items():
        at = settings(key)
        error = theory.ls_error(at["n_p"], at["s"], a1=A1, a2=A2)
        assert agrees(error, golden["cf_1d"]["value"]), key
        for method in ("4097", "16385", "65537", "richardson"):
            wrong = golden[method]["rel_err"]
            assert golden[method]["value"] / error - 1 == pytest.approx(wrong, rel=1e-3, abs=6e-9), (key, method)


def test_other_cases_of_least_squares() -> None:
    for key, golden in LEAST["E_LS_other"].items():
        at = settings(key)
        assert agrees(theory.ls_error(**at), golden["E_LS"]), key
        assert agrees(theory.gls_error(**at), golden["E_GLS"]), key


@pytest.mark.parametrize(("a1", "a2"), [(0.05, 0.15), (0.15, 0.05)])
def test_gain_of_weighting(a1: float, a2: float) -> None:
    s, golden = table(LEAST[f"GLS_gain_n11_a1.{a1 * 100:02.0f}_a2.{a2 * 100:02.0f}"])
    v1, v2 = theory.noise_variance(a1), theory.noise_variance(a2)
    v_ls, v_gls = theory.V_LS(N_P, s, v1=v1, v2=v2), theory.V_GLS(N_P, s, v1=v1, v2=v2)
    e_ls, e_gls = theory.ls_error(N_P, s, a1=a1, a2=a2), theory.gls_error(N_P, s, a1=a1, a2=a2)
    columns = {
        "V_LS": v_ls,
        "V_GLS": v_gls,
        "variance_gain_pct": 100 * (1 - v_gls / v_ls),
        "E_LS": e_ls,
        "E_GLS": e_gls,
        "E_gain_pct": 100 * (1 - e_gls / e_ls),
        "E_cells_only_a1": theory.cells_error(s, a1),
        "E_uniform_bias0": theory.uniform_error_exact(0, s, n_p=N_P, a2=a2),
        "E_cells_only_full_budget": theory.cells_error(s, a1 + a2),
    }
    assert set(golden) <= set(columns)
    for name, column in golden.items():
        assert agrees(columns[name], column), name
    assert agrees(theory.V_kappa(N_P, s, kappa=theory.kappa(N_P, v1=v1, v2=v2), v1=v1, v2=v2), v_gls)


def test_kappa_and_the_query_of_a_whole_box() -> None:
    assert agrees(theory.kappa(N_P, v1=V1, v2=V2), LEAST["kappa"]["GLS"])
    assert agrees(theory.kappa(N_P, v1=V1, v2=V1), LEAST["kappa"]["LS"])
    golden = LEAST["paper_LS_worse_than_y_p_alone_at_s_eq_n"]
    assert agrees(np.sqrt(theory.V_LS(N_P, N_P, v1=V1, v2=V2)), golden["sd_LS"])
    assert agrees(np.sqrt(theory.V_GLS(N_P, N_P, v1=V1, v2=V2)), golden["sd_GLS"])
    assert agrees(np.sqrt(V2), golden["sd_yp"])


@pytest.mark.parametrize("n_p", [1, 2, 5, 11])
def test_estimates_against_dense_algebra(n_p: int) -> None:
    h = np.vstack([np.ones((1, n_p)), np.eye(n_p)])
    assert theory.H_plus(n_p) == pytest.approx(np.linalg.pinv(h), rel=1e-12, abs=1e-14)
    y, y_p = np.arange(n_p) ** 2 + 3.0, 41.0
    measured = np.append(y_p, y)
    assert theory.ls_estimate(y, y_p) == pytest.approx(np.linalg.pinv(h) @ measured, rel=1e-12)
    for v1, v2 in ((800.0, 89.0), (3.0, 50.0)):
        roots = 1 / np.sqrt(np.append(v2, np.full(n_p, v1)))
        weighted = np.linalg.lstsq(roots[:, None] * h, roots * measured)[0]
        assert theory.gls_estimate(y, y_p, v1=v1, v2=v2) == pytest.approx(weighted, rel=1e-10)
        total = theory.box_total(y, y_p, v1=v1, v2=v2)
        assert total == pytest.approx(weighted.sum(), rel=1e-10)
        assert theory.uniform_plus(y, y_p, v1=v1, v2=v2) == pytest.approx(np.full(n_p, total / n_p), rel=1e-12)
        assert theory.shrunk_estimate(y, y_p, v1=v1, v2=v2, shrink=1.0) == pytest.approx(weighted, rel=1e-10)


# 4.8: figures


def test_figure_of_query_sizes() -> None:
    s, golden = table(FIGURES["fig_s_(n_p=11,a1=.05,a2=.15,gamma=5,eta=5)"])
    columns = {
        "E_LS": theory.ls_error(N_P, s, a1=A1, a2=A2),
        "maxEH_paper": theory.uniform_error_bound_paper(5, s, n_p=N_P, a2=A2),
        "maxEH_tight": theory.uniform_error_bound_tight(5, s, n_p=N_P, a2=A2),
        "EH_eta5": theory.uniform_error_eta(5, s, a1=A1),
        "E_GLS": theory.gls_error(N_P, s, a1=A1, a2=A2),
        "E_cell_full_budget": theory.cells_error(s, TOTAL),
    }
    assert set(columns) == set(golden) == set(FIGURES["argmax_s"])
    for name, column in columns.items():
        assert agrees(column, golden[name]), name
        assert s[np.argmax(column)] == FIGURES["argmax_s"][name], name


def test_figure_of_budget_splits() -> None:
    a1, golden = table(FIGURES["fig_alpha1_(total=.2,n_p=11,s=5,gamma=5,eta=5)"])
    a2 = TOTAL - a1
    columns = {
        "E_LS": theory.ls_error(N_P, 5, a1=a1, a2=a2),
        "E_GLS": theory.gls_error(N_P, 5, a1=a1, a2=a2),
        "maxEH_paper": theory.uniform_error_bound_paper(5, 5, n_p=N_P, a2=a2),
        "maxEH_tight": theory.uniform_error_bound_tight(5, 5, n_p=N_P, a2=a2),
        "EH_eta5": theory.uniform_error_eta(5, 5, a1=a1),
    }
    assert set(columns) == set(golden)
    assert all(agrees(column, golden[name]) for name, column in columns.items())


def test_figures_of_box_sizes() -> None:
    n_p, golden = table(FIGURES["fig_np_(a1=.05,a2=.15,gamma=5,s=floor(n_p/2))"])
    s = n_p // 2
    assert (s == golden["s"]).all()
    assert agrees(theory.ls_error(n_p, s, a1=A1, a2=A2), golden["E_LS"])
    assert agrees(theory.gls_error(n_p, s, a1=A1, a2=A2), golden["E_GLS"])
    assert agrees(theory.uniform_error_bound_paper(5, s, n_p=n_p, a2=A2), golden["maxEH_paper"])
    assert agrees(theory.uniform_error_bound_tight(5, s, n_p=n_p, a2=A2), golden["maxEH_tight"])
    n_p, golden = table(FIGURES["fig_np_fixed_s5"])
    assert agrees(theory.ls_error(n_p, 5, a1=A1, a2=A2), golden["E_LS"])
    assert agrees(theory.uniform_error_bound_paper(5, 5, n_p=n_p, a2=A2), golden["maxEH_paper"])
    assert agrees(theory.uniform_error_bound_tight(5, 5, n_p=n_p, a2=A2), golden["maxEH_tight"])


def test_figures_of_smoothness_and_inconsistency() -> None:
    gamma, golden = table(FIGURES["fig_gamma_(n_p=11,s=5,a2=.15)"])
    ls = theory.ls_error(N_P, 5, a1=A1, a2=A2)
    assert agrees(theory.uniform_error_bound_paper(gamma, 5, n_p=N_P, a2=A2), golden["maxEH_paper"])
    assert agrees(theory.uniform_error_bound_tight(gamma, 5, n_p=N_P, a2=A2), golden["maxEH_tight"])
    assert agrees(ls, golden["E_LS"])
    eta, golden = table(FIGURES["fig_eta_(s=5,a1=.05)"])
    assert agrees(theory.uniform_error_eta(eta, 5, a1=A1), golden["EH"])
    assert agrees(ls, golden["E_LS"])


def test_best_splits_of_least_squares() -> None:
    s, golden = table(FIGURES["optimal_alpha1_total_.2_n_p_11"])
    best = theory.ls_best_split(N_P, s, alpha=TOTAL)
    assert agrees(best.error, golden["E_LS_at_opt"])
    # The file's a1 comes from comparing errors, which are flat at the best: it is right to 1e-7 only. So: no a1 of the
    # file does better, and none does worse by more than rounding.
    there = theory.ls_error(N_P, s, a1=golden["alpha1_opt_E_LS"], a2=TOTAL - golden["alpha1_opt_E_LS"])
    assert np.all(np.abs(there / best.error - 1) < 1e-13)
    beside = [theory.ls_error(N_P, s, a1=best.a1 * f, a2=TOTAL - best.a1 * f) for f in (1 - 1e-4, 1 + 1e-4)]
    assert np.all(np.minimum(*beside) > best.error * (1 + 1e-10))
    assert agrees(theory.ls_variance_split(N_P, s, alpha=TOTAL), golden["alpha1_opt_variance_closed_form"])
    assert agrees(theory.ls_error(N_P, s, a1=0.1, a2=0.1), golden["E_LS_at_equal"])
    assert agrees(theory.ls_error(N_P, s, a1=A1, a2=A2), golden["E_LS_at_default"])
    assert agrees(theory.cells_error(s, TOTAL), golden["E_cell_full_budget"])
    assert agrees(theory.uniform_error_exact(0, s, n_p=N_P, a2=A2), golden["E_uniform_bias0_at_default"])


def test_best_splits_of_weighted_least_squares() -> None:
    s, golden = table(FIGURES["optimal_alpha1_total_.2_n_p_11"])
    best, a1 = theory.gls_best_split(N_P, s, alpha=TOTAL), golden["alpha1_opt_E_GLS"]
    inside = (s == 9) | (s == 10)
    assert agrees(best.a1[~inside], a1[~inside])
    assert agrees(best.error[~inside], golden["E_GLS_at_opt"][~inside])
    # For s = 9 and 10 the file holds the best of 400 points from .0005 to .1995, which is not the best there is.
    grid = np.linspace(0.0005, 0.1995, 400)
    for size, recorded, error, ours in zip(
        s[inside], a1[inside], golden["E_GLS_at_opt"][inside], best.error[inside], strict=True
    ):
        on_grid = theory.gls_error(N_P, size, a1=grid, a2=TOTAL - grid)
        assert agrees(grid[np.argmin(on_grid)], recorded)
        assert agrees(on_grid.min(), error)
        assert 0 < on_grid.min() / ours - 1 < 1e-5


def test_best_split_for_all_query_sizes_together() -> None:
    grid = np.arange(1, 400) * 0.0005
    variance = theory.V_LS(N_P, np.arange(1, 12)[:, None], v1=2 / grid**2, v2=2 / (TOTAL - grid) ** 2)
    assert grid[np.argmin(np.sqrt(variance).mean(axis=0))] == pytest.approx(FIGURES["alpha1_opt_mean_sd_over_s"])


def test_crossovers() -> None:
    golden = FIGURES["gamma_crossover_uniform_vs_LS_s5"]
    ls, cells = theory.ls_error(N_P, 5, a1=A1, a2=A2), theory.cells_error(5, TOTAL)
    assert agrees(theory.uniform_gamma_crossover(ls, 5, n_p=N_P, a2=A2), golden["tight"])
    assert agrees(theory.uniform_gamma_crossover_paper(ls, 5, n_p=N_P, a2=A2), golden["paper_bound"])
    golden = FIGURES["gamma_crossover_uniform_vs_full_budget_cell_hist_s5"]
    assert agrees(theory.uniform_gamma_crossover(cells, 5, n_p=N_P, a2=A2), golden["tight"])
    assert agrees(theory.uniform_gamma_crossover_paper(cells, 5, n_p=N_P, a2=A2), golden["paper_bound"])
    for noise in ("laplace", "discrete"):
        gamma = theory.uniform_gamma_crossover(20.0, 5, n_p=N_P, a2=A2, noise=noise)
        assert theory.uniform_error_bound_tight(gamma, 5, n_p=N_P, a2=A2, noise=noise) == pytest.approx(20, rel=1e-12)
    assert theory.uniform_gamma_crossover(3.0, 5, n_p=N_P, a2=A2) == -np.inf
    assert theory.uniform_gamma_crossover(7.0, 11, n_p=N_P, a2=A2) == np.inf


# 4.10: discrete Laplace


def test_one_discrete_noise() -> None:
    alpha, golden = table(DISCRETE["single"])
    assert agrees(theory.noise_variance(alpha, noise="discrete"), golden["var"])
    assert agrees(theory.noise_mean_abs(alpha, noise="discrete"), golden["E_abs"])
    assert agrees(theory.noise_variance(alpha), golden["cont_var"])
    assert agrees(theory.noise_mean_abs(alpha), golden["cont_E_abs"])
    assert agrees(np.exp(theory.dl_sum_logpmf(0, 1, alpha=alpha)), golden["p0"])
    for key, ratio in DISCRETE["V_ratio_discrete_over_continuous"].items():
        assert agrees(theory.noise_variance(float(key), noise="discrete") / theory.noise_variance(float(key)), ratio)


def test_noise_floor_of_a_cell() -> None:
    for key, golden in GOLDEN["v_optimal"]["noise_floor_variance_of_y_I_cells"].items():
        assert agrees(theory.noise_variance(float(key)), golden["laplace"])
        assert agrees(theory.noise_variance(float(key), noise="discrete"), golden["discrete"])


def test_sums_of_discrete_noises() -> None:
    for key, golden in DISCRETE["E_abs_S_n"].items():
        at = settings(key)
        assert agrees(theory.dl_sum_mean_abs(at["n"], at["alpha"]), golden), key
        assert agrees(theory.mean_abs([1 / at["alpha"]], [at["n"]], noise="discrete"), golden), key
    masses = {key: value for key, value in EXTENSIONS.items() if key.startswith("dl_sum_pmf")}
    assert len(masses) == 8
    for key, golden in masses.items():
        at = settings(key.removeprefix("dl_sum_pmf_"))
        assert agrees(np.exp(theory.dl_sum_logpmf(at["k"], at["n"], alpha=at["alpha"])), golden), key


def test_discrete_sums_against_the_series_of_the_specification() -> None:
    j = np.arange(4000)
    for n, alpha in ((2, 0.05), (5, 0.3), (11, 1.0)):
        for k in (0, 1, 9, 200):
            terms = special.gammaln(n + j) - special.gammaln(j + 1) - special.gammaln(n) - 2 * alpha * j
            terms += special.gammaln(n + k + j) - special.gammaln(n) - special.gammaln(k + j + 1)
            log = special.logsumexp(terms) + 2 * n * np.log(-np.expm1(-alpha)) - alpha * k
            assert theory.dl_sum_logpmf(k, n, alpha=alpha) == pytest.approx(log, rel=1e-11, abs=1e-11)
    assert theory.dl_sum_logpmf(0.5, 3, alpha=1.0) == -np.inf
    at = np.arange(-30, 31)
    for n in (1, 3):
        mass = np.exp(theory.dl_sum_logpmf(np.arange(-200, 201), n, alpha=0.5))
        tails = np.array([mass[np.arange(-200, 201) > t].sum() for t in at])
        assert theory.dl_sum_sf(at + 0.25, n, alpha=0.5) == pytest.approx(tails, rel=1e-12)


def test_discrete_least_squares() -> None:
    s, golden = table(DISCRETE["LS_GLS_n11_a1.05_a2.15"])
    v1, v2 = (theory.noise_variance(a, noise="discrete") for a in (A1, A2))
    assert agrees(theory.V_LS(N_P, s, v1=v1, v2=v2), golden["V_LS"])
    assert agrees(theory.V_GLS(N_P, s, v1=v1, v2=v2), golden["V_GLS"])
    assert agrees(theory.ls_error(N_P, s, a1=A1, a2=A2, noise="discrete"), golden["E_LS"])
    assert agrees(theory.gls_error(N_P, s, a1=A1, a2=A2, noise="discrete"), golden["E_GLS"])
    assert agrees(theory.kappa(N_P, v1=v1, v2=v2), DISCRETE["kappa_GLS"])


def test_discrete_least_squares_by_the_integral_of_the_specification() -> None:
    def log_phi(t: Numbers, alpha: float) -> Numbers:
        return np.asarray(-np.log1p((np.sin(t / 2) / np.sinh(alpha / 2)) ** 2))

    t = (np.arange(40_000) + 0.5) * np.pi / 40_000
    for n, s in ((11, 5), (4, 1), (7, 7)):
        law = log_phi(s * t, A2) + s * log_phi((n + 1 - s) * t, A1) + (n - s) * log_phi(s * t, A1)
        mean = np.mean(-np.expm1(law) / (2 * np.sin(t / 2) ** 2)) / (n + 1)
        assert theory.ls_error(n, s, a1=A1, a2=A2, noise="discrete") == pytest.approx(mean, rel=1e-12)


def test_discrete_uniform_errors() -> None:
    s = np.arange(1.0, 12)
    tight = theory.uniform_error_bound_tight(5, s, n_p=N_P, a2=A2, noise="discrete")
    assert agrees(tight, list(DISCRETE["uniform_max_EH_tight_gamma5"].values()))
    even = theory.uniform_error_exact(0, s, n_p=N_P, a2=A2, noise="discrete")
    assert agrees(even, list(DISCRETE["uniform_bias0"].values()))


@pytest.mark.parametrize("gamma", [0.0, 1.3, 5.0])
def test_the_worst_bias_of_discrete_noise_is_found(gamma: float) -> None:
    for s, n, a2, eps in ((5, 11, 0.4, 7.0), (2, 7, 1.0, 1.1), (1, 3, 2.0, 2.0)):
        biases = np.linspace(0, float(theory.uniform_bias_bound(gamma, s, n_p=n)), 20_001)
        every = theory.uniform_usefulness(eps, biases, s=s, n_p=n, a2=a2, noise="discrete")
        worst = theory.uniform_usefulness_worst(eps, gamma, s=s, n_p=n, a2=a2, noise="discrete")
        assert worst == pytest.approx(every.min(), rel=1e-12)
        least = theory.uniform_eps_exact(gamma, 0.1, s=s, n_p=n, a2=a2, noise="discrete")
        assert theory.uniform_usefulness_worst(least * (1 + 1e-9), gamma, s=s, n_p=n, a2=a2, noise="discrete") >= 0.9
        assert theory.uniform_usefulness_worst(least * (1 - 1e-6), gamma, s=s, n_p=n, a2=a2, noise="discrete") < 0.9


def enumerated(w: Numbers, alphas: Numbers, shift: float) -> tuple[Numbers, Numbers]:
    """Every value of |shift + X| for three discrete noises, and its probability."""
    at = np.arange(-60, 61)
    mass = [np.tanh(a / 2) * np.exp(-a * np.abs(at)) for a in alphas]
    values = w[0] * at[:, None, None] + w[1] * at[:, None] + w[2] * at
    return np.abs(shift + values).ravel(), (mass[0][:, None, None] * mass[1][:, None] * mass[2]).ravel()


@pytest.mark.parametrize("shift", [0.0, 0.31, 1.7])
@pytest.mark.parametrize("weights", [(0.31, 0.57, 1.0), (0.5, 0.25, 1.0), (0.4, 1.0, 0.4), (1.0, 1.0, 1.0)])
def test_any_weights_of_discrete_noise_against_enumeration(weights: tuple[float, ...], shift: float) -> None:
    w, alphas = np.array(weights), np.array([1.0, 0.9, 1.3])
    sizes, mass = enumerated(w, alphas, shift)
    mean = theory.mean_abs_shift(shift, w / alphas, [1, 1, 1], noise="discrete", weights=w)
    assert mean == pytest.approx(sizes @ mass, rel=1e-9)
    sizes, mass = enumerated(w, alphas, 0.0)
    quantile = float(theory.error_quantile(w / alphas, [1, 1, 1], 0.95, noise="discrete", weights=w))
    assert mass[sizes <= quantile + 1e-9].sum() >= 0.95
    assert mass[sizes <= quantile - 0.01].sum() < 0.95  # 12 blurs of the series are below 0.01 here
    for x in (0.777, 2.05, 3.03):
        tail = theory.error_sf(x, w / alphas, [1, 1, 1], noise="discrete", weights=w)
        blurred = mass[sizes > x + 0.005].sum(), mass[sizes > x - 0.005].sum()
        assert blurred[0] - 1e-8 <= tail <= blurred[1] + 1e-8


def test_quantiles_of_one_discrete_noise_are_those_of_its_law() -> None:
    sure = np.array([0.0, 0.5, 0.9, 0.95, 0.99])
    for alpha in (1e-6, 0.1, 1.0, 20.0, 100.0):
        exceeds = 2 / (1 + np.exp(alpha))  # P(|Z| > 0); then a factor exp(-alpha) per step
        steps = np.ceil(np.log(exceeds / (1 - sure)) / alpha - 1e-12)
        expected = np.maximum(steps, 0)
        assert theory.error_quantile([1 / alpha], [1], sure, noise="discrete") == pytest.approx(expected, rel=1e-12)


# Extensions


def test_query_over_two_boxes_of_the_running_example() -> None:
    golden = EXTENSIONS["Q2_running_example_a1.05_a2.15"]
    terms = theory.ls_terms([2, 4], [1, 2], a1=A1, a2=A2)
    assert agrees(theory.mean_abs(terms.scales.ravel(), terms.multiplicities.ravel()), golden["E_LS"])
    uniform = theory.mean_abs_shift(-5.5, [0.5 / A2, 0.5 / A2], [1, 1])
    assert agrees(uniform, golden["E_uniform_(bias -5.5)"])
    assert agrees(theory.cells_error(3, A1), golden["E_cells_alpha1_only"])
    assert agrees(theory.cells_error(3, TOTAL), golden["E_cells_full_budget_.2"])


def test_uniform_plus_and_the_other_extensions() -> None:
    for key, rows in EXTENSIONS["uniform_plus_bias0_n11"].items():
        s, golden = table(rows)
        budget = settings(key)
        assert agrees(theory.uniform_error_exact(0, s, n_p=N_P, a2=budget["a2"]), golden["uniform_y_p"])
        assert agrees(theory.uniform_plus_error(N_P, s, **budget), golden["uniform_plus"])
    assert agrees(theory.V_LS(N_P, 5, v1=200, v2=200), EXTENSIONS["matrix_mechanism_V_n11_s5_alpha.2"])
    for xi in (400, 800, 1600):
        golden = EXTENSIONS[f"post_selection_4x4_constant_xi0={xi}"]
        assert agrees(theory.cells_error(6, TOTAL), golden["E_cell_full_budget"])
    assert EXTENSIONS["risk_estimate"]["formula"] == "b_hat^2 - v1 s(n-s)/n + (s/n)^2 v2"
    y, q = np.array([3.0, 9.0, 4.0, 20.0]), np.array([1, 1, 0, 0])
    b_hat = y.sum() / 2 - 12
    assert theory.uniform_risk_estimate(y, q, v1=7, v2=5) == pytest.approx(b_hat**2 - 7 * 1 + 5 / 4)


# The package

SPEC_NAMES = {
    "4.1": {"lap_sum_logpdf", "lap_sum_sf"},
    "4.2": {"lap_sum_mean_abs", "lap_sum_mean_abs_shift", "mean_abs"},
    "4.3": {"sumlap_bound", "cell_usefulness_alpha"},
    "4.4": {"uniform_error_exact", "uniform_error_bound_paper", "uniform_error_bound_tight", "uniform_gamma_max"},
    "4.5": {"uniform_error_eta"},
    "4.6": {"V_LS"},
    "4.7": {"ls_error"},
    "4.9": {"gls_estimate", "V_GLS", "kappa", "gls_error", "uniform_plus"},
}


def test_every_name_of_section_4_of_the_specification_is_exported() -> None:
    names = set().union(*SPEC_NAMES.values())
    assert len(names) == sum(map(len, SPEC_NAMES.values())) == 19
    assert names <= set(theory.__all__)
    exact_beside = {name for name in theory.__all__ if name.endswith(("_paper", "_exact", "_tight"))}
    assert len(exact_beside) >= 9
    assert len(theory.__all__) == len(set(theory.__all__)) == 62


def test_every_function_has_a_doctest_and_all_of_them_hold() -> None:
    attempted = 0
    for module in pkgutil.iter_modules(theory.__path__, "dpcube.theory."):
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, module.name
        attempted += result.attempted
    functions = [getattr(theory, name) for name in theory.__all__ if inspect.isfunction(getattr(theory, name))]
    assert all(">>>" in (function.__doc__ or "") for function in functions)
    assert attempted >= len(functions) > 50


def test_one_expected_error_takes_less_than_a_millisecond() -> None:
    terms = theory.ls_terms(N_P, 5, a1=A1, a2=A2)
    calls: dict[str, Callable[[], Numbers]] = {
        "laplace": lambda: theory.mean_abs(terms.scales, terms.multiplicities),
        "discrete": lambda: theory.mean_abs(
            terms.scales, terms.multiplicities, noise="discrete", weights=terms.weights
        ),
    }
    for name, call in calls.items():
        call()
        # The processor's time, and the least of many: what else runs on the machine is not the function's.
        seconds = min(timeit.repeat(call, timer=time.process_time, number=5, repeat=41)) / 5
        assert seconds < 1e-3, name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.ls_error(11, 12, a1=0.1, a2=0.1), r"s is 12 but the box has n_p = 11 cells; give s from 1 to"),
        (lambda: theory.ls_error(11, 0, a1=0.1, a2=0.1), r"s is 0; it must be a whole number, 1 or more"),
        (lambda: theory.ls_error(11, 2.5, a1=0.1, a2=0.1), r"s is 2.5; it must be a whole number"),
        (lambda: theory.ls_error(11, 5, a1=0.0, a2=0.1), r"a1 is 0; it must be a number above 0"),
        (lambda: theory.ls_error(11, 5, a1=0.1, a2=[0.1, np.nan]), r"a2 is nan; it must be a number above 0"),
        (lambda: theory.ls_error(11, 5, a1="x", a2=0.1), r"a1 is 'x'; it must be a number above 0"),
        (lambda: theory.cells_error(5, 1.0, noise=cast(Any, "gauss")), r"noise is 'gauss'; it must be 'laplace' or"),
        (lambda: theory.cell_usefulness_alpha(9, 1.0, delta=1.0), r"delta is 1; it must be a number between 0 and 1"),
        (lambda: theory.mean_abs([-1.0], [1]), r"scales is -1; it must be 0 or a number above it"),
        (lambda: theory.mean_abs([1.0, 2.0], [1, 1, 1]), r"scales \(2,\), multiplicities \(3,\) .* do not broadcast"),
        (lambda: theory.error_quantile([1.0], [1], 1.0), r"confidence is 1; it must be in \[0, 1\)"),
        (lambda: theory.gls_estimate(3.0, 4.0, v1=1, v2=1), r"y has no cells"),
        (lambda: theory.uniform_usefulness(np.inf, 0, s=1, n_p=2, a2=1), r"eps is inf; it must be a number above 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_everything_broadcasts() -> None:
    s, a1 = np.arange(1, 4)[:, None], np.array([0.05, 0.1])
    for noise in ("laplace", "discrete"):
        assert theory.ls_error(11, s, a1=a1, a2=0.1, noise=noise).shape == (3, 2)
        assert theory.uniform_error_bound_tight(a1, s, n_p=11, a2=0.1, noise=noise).shape == (3, 2)
        many = theory.error_quantile(np.ones((4, 1, 2)), [1, 2], [0.5, 0.9, 0.95], noise=noise)
        assert many.shape == (4, 3)
    assert theory.lap_sum_logpdf(np.zeros(5000), 3, alpha=1.0).shape == (5000,)
    assert theory.mean_abs(np.ones((3000, 1)), [2]) == pytest.approx(np.full(3000, 1.5), rel=1e-12)
    assert theory.mean_abs([0.0, 3.0], [4, 0]) == theory.error_sf(0.0, [0.0], [1]) == 0.0
    assert theory.mean_abs_shift(2.0, [0.0], [1], noise="discrete") == 2.0
    assert theory.error_quantile([[0.0], [1.0]], [1], 0.5)[0] == 0.0


def test_extremes_stay_finite() -> None:
    scales = np.array([1.0, 1e-6])
    assert theory.mean_abs(scales, [1, 10_000]) == pytest.approx(1.0, rel=1e-6)
    assert theory.ls_error(10_000, 5000, a1=1e-3, a2=1e3) == pytest.approx(56418, rel=1e-3)
    for alpha in (1e-9, 1e-5, 1.0, 100.0):
        for noise in ("laplace", "discrete"):
            error = theory.ls_error(10_000, 7, a1=alpha, a2=alpha, noise=noise)
            assert 0 <= error < np.inf
        assert theory.dl_sum_mean_abs(10_000, alpha) < theory.lap_sum_mean_abs(10_000, alpha) * (1 + 1e-12)
