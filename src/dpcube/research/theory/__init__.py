"""The paper's formal results as functions, each in the paper's form and in the exact one.

Names are the paper's: a box of n_p cells, a query of s of them, parameters a1 of the cells' noise and a2 of the boxes'.
`noise="laplace"` (the paper's) or `"discrete"` (what this package adds) chooses the law. Arguments broadcast.

    error_law      the error of any linear estimate: mean, tail, quantile
    laplace_sums   sums of n Laplace noises; discrete_sums: of n discrete ones; noise: one of either
    cells          Algorithm 1 and its usefulness
    uniform        boxes spread evenly over their cells; usefulness: how surely
    least_squares  cells and boxes reconciled
    budget_split   how much budget for cells, how much for boxes

Where the paper is wrong the docstring names the erratum (E1 to E34, see `docs/research/paper-notes.md`). The
corrected function is the one to call; the paper's own curves are `uniform_error_eta` (not an error of anything, E5)
and the names that end in `_paper`. Its condition `cell_usefulness_alpha` and limit `uniform_gamma_max` are valid but
loose: the exact ones stand beside them.
"""

from dpcube.noise.law import NoiseLaw, dl_sum_mean_abs, dl_sum_mean_abs_shift, dl_sum_quantile
from dpcube.research.theory.budget_split import BudgetSplit, gls_best_split, ls_best_split, ls_variance_split
from dpcube.research.theory.cells import (
    boolean_sup_cdf,
    cell_usefulness_alpha,
    cell_usefulness_alpha_boolean,
    cell_usefulness_alpha_elementary,
    cell_usefulness_alpha_one_query,
    cell_usefulness_alpha_sum_abs,
    cells_error,
    sumlap_bound,
    sumlap_exact,
)
from dpcube.research.theory.error_law import error_quantile, error_sf, mean_abs, mean_abs_shift
from dpcube.research.theory.least_squares import (
    V_GLS,
    V_LS,
    H_plus,
    Terms,
    V_kappa,
    box_total,
    gls_error,
    gls_estimate,
    gls_terms,
    kappa,
    ls_error,
    ls_estimate,
    ls_terms,
    shrinkage,
    shrunk_estimate,
    uniform_plus,
    uniform_plus_error,
)
from dpcube.research.theory.single import (
    dl_sum_logpmf,
    dl_sum_sf,
    lap_sum_logpdf,
    lap_sum_mean_abs,
    lap_sum_mean_abs_shift,
    lap_sum_sf,
    noise_mean_abs,
    noise_mean_abs_shift,
    noise_variance,
)
from dpcube.research.theory.uniform import (
    smoothness,
    uniform_bias_bound,
    uniform_bias_bound_paper,
    uniform_error_bound_paper,
    uniform_error_bound_tight,
    uniform_error_eta,
    uniform_error_exact,
    uniform_gamma_crossover,
    uniform_gamma_crossover_paper,
    uniform_gamma_max,
    uniform_risk_estimate,
)
from dpcube.research.theory.usefulness import (
    uniform_eps_exact,
    uniform_eps_paper,
    uniform_gamma_max_exact,
    uniform_usefulness,
    uniform_usefulness_worst,
)

__all__ = [
    "V_GLS",
    "V_LS",
    "BudgetSplit",
    "H_plus",
    "NoiseLaw",
    "Terms",
    "V_kappa",
    "boolean_sup_cdf",
    "box_total",
    "cell_usefulness_alpha",
    "cell_usefulness_alpha_boolean",
    "cell_usefulness_alpha_elementary",
    "cell_usefulness_alpha_one_query",
    "cell_usefulness_alpha_sum_abs",
    "cells_error",
    "dl_sum_logpmf",
    "dl_sum_mean_abs",
    "dl_sum_mean_abs_shift",
    "dl_sum_quantile",
    "dl_sum_sf",
    "error_quantile",
    "error_sf",
    "gls_best_split",
    "gls_error",
    "gls_estimate",
    "gls_terms",
    "kappa",
    "lap_sum_logpdf",
    "lap_sum_mean_abs",
    "lap_sum_mean_abs_shift",
    "lap_sum_sf",
    "ls_best_split",
    "ls_error",
    "ls_estimate",
    "ls_terms",
    "ls_variance_split",
    "mean_abs",
    "mean_abs_shift",
    "noise_mean_abs",
    "noise_mean_abs_shift",
    "noise_variance",
    "shrinkage",
    "shrunk_estimate",
    "smoothness",
    "sumlap_bound",
    "sumlap_exact",
    "uniform_bias_bound",
    "uniform_bias_bound_paper",
    "uniform_eps_exact",
    "uniform_eps_paper",
    "uniform_error_bound_paper",
    "uniform_error_bound_tight",
    "uniform_error_eta",
    "uniform_error_exact",
    "uniform_gamma_crossover",
    "uniform_gamma_crossover_paper",
    "uniform_gamma_max",
    "uniform_gamma_max_exact",
    "uniform_plus",
    "uniform_plus_error",
    "uniform_risk_estimate",
    "uniform_usefulness",
    "uniform_usefulness_worst",
]
