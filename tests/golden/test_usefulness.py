"""Cells and the uniform estimate (spec 4.3 to 4.5): errors, bounds, and how surely they hold."""

from typing import Any

import numpy as np
import pytest
from golden_file import A1, A2, GOLDEN, N_P, V1, V2, agrees, settings, table

from dpcube import theory

CELLS = GOLDEN["cell_histogram"]
UNIFORM = GOLDEN["uniform_estimation"]


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


def test_recorded_simulations_of_eta() -> None:
    golden, draws = UNIFORM["eq_random_validity_s5_bias0"], 2_000_000  # what its probabilities are multiples of
    c = 5 / N_P / A2
    assert abs(golden["true_EH_MC"] - c) < 4.9 * c / np.sqrt(draws)  # the size of a Laplace noise has deviation c
    deviation = np.sqrt(5 * V1 + (5 / N_P) ** 2 * V2)
    assert abs(golden["mean_abs_eta_MC"] - theory.mean_abs([c, 1 / A1], [1, 5])) < 4.9 * deviation / np.sqrt(draws)
    for most in (5, 10):
        p = 1 - theory.error_sf(most, [c, 1 / A1], [1, 5])
        assert abs(golden[f"P_abs_eta_le_{most}"] - p) < 4.9 * np.sqrt(p * (1 - p) / draws)
    # A correlation r of n pairs has deviation (1 - r^2)/sqrt(n), within a factor for the kurtosis of the noises.
    r = -np.sqrt(5 * V1) / deviation
    assert abs(golden["corr_eta_S"] - r) < 3 * 4.9 * (1 - r**2) / np.sqrt(draws)
    # Its exact value is in tests/golden/test_reproduction.py.
    assert golden["true_EH_given_eta_near_5"] == pytest.approx(c, rel=0.02)
