"""The numbers of the simulation figures and of the best splits (spec 4.8)."""

import numpy as np
import pytest
from golden_file import A1, A2, GOLDEN, N_P, TOTAL, agrees, table

from dpcube import theory

FIGURES = GOLDEN["figures"]


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
    assert grid[np.argmin(np.sqrt(variance).mean(axis=0))] == pytest.approx(
        FIGURES["alpha1_opt_mean_sd_over_s"], rel=1e-12
    )


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
