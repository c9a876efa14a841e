"""Section 6.1 of the paper: its four simulation figures, from the exact formulas of `dpcube.theory` (spec 4.8).

The paper draws samples; nothing is sampled here. Its parameters: a box of n_p = 11 cells, a query of s of them (s = 5,
"nearly half", where s does not vary), alpha1 = .05 for cells and alpha2 = .15 for boxes, smoothness gamma = 5 and
inconsistency eta = 5. Beside the paper's curves stand the exact worst case of its bound and Algorithm 1 with the whole
budget, which the paper leaves out (erratum E33). Every number in a verdict is computed from the same formulas.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.research import theory
from dpcube.research.reproduce.figure import Curve, CurvePanel, Figure, Verdict, curve

N_P, S, A1, A2, TOTAL, GAMMA, ETA = 11, 5, 0.05, 0.15, 0.2, 5.0, 5.0
DEFAULTS = "n_p = 11, s = 5, alpha1 = .05, alpha2 = .15, gamma = 5 and eta = 5 unless they vary"
SMOOTH, ANY = "gamma-smooth data", "any data"
ETA_FORMULA = "uniform, eta formula (E5)"


def query_size() -> Figure:
    """Return the error against the query size (paper: Figure E-error-LS-s)."""
    s = np.arange(1.0, N_P + 1)
    ls = least_squares_curve(s, theory.ls_error(N_P, s, a1=A1, a2=A2))
    cells = whole_budget(s, s)
    a = CurvePanel("a", SMOOTH, "s", "query size s", s, (ls, *bounds(s, GAMMA, s, N_P, A2), cells))
    even = curve("EH_even", "uniform, even data", "even", theory.uniform_error_exact(0, s, n_p=N_P, a2=A2), s)
    b = CurvePanel("b", ANY, "s", "query size s", s, (formula(s, ETA, s, A1), ls, cells, even))
    return Figure(
        "query-size",
        "Error against query size",
        "Figure-E-error-LS-s",
        DEFAULTS,
        (a, b),
        _query_size_verdicts(a, b),
        f"Cells with the whole budget of .2 have error {cells.values[0]:.2f} at s = 1 and {cells.values[4]:.2f} at "
        f"s = 5, less than least squares ({ls.values[0]:.2f} and {ls.values[4]:.2f}) for every s up to "
        f"{_last_below(s, cells.values, ls.values)}, and less than the paper's bound of the uniform estimate for "
        f"s = {_first_below(s, cells.values, a['maxEH_paper'])} to {_last_below(s, cells.values, a['maxEH_paper'])}.",
    )


def _query_size_verdicts(a: CurvePanel, b: CurvePanel) -> tuple[Verdict, ...]:
    s, ls, eta = a.at, a["E_LS"], b["EH_eta5"]
    top = int(s[np.argmax(ls)])
    bound, worst = a["maxEH_paper"], a["maxEH_tight"]
    best = theory.ls_best_split(N_P, S, alpha=TOTAL)
    return (
        Verdict(
            "The highest error appears when the query is half of the box.",
            f"For least squares (at most {ls.max():.3f}, at s = {top}), for the paper's bound ({bound.max():.3f}) and "
            f"for its exact worst case ({worst.max():.3f}), all at s = {top} of {N_P}.",
            f"Not for E(eps_H): it grows with every cell, from {eta[0]:.2f} to {eta[-1]:.2f} at s = {N_P} (E23).",
        ),
        Verdict(
            "When gamma is small, the uniform estimate is better than least squares.",
            f"At gamma = 5 for every s, even by the paper's loose bound ({a.value('maxEH_paper', S):.2f} against "
            f"{a.value('E_LS', S):.2f} at s = 5). At s = 5 up to gamma = "
            f"{theory.uniform_gamma_crossover_paper(a.value('E_LS', S), S, n_p=N_P, a2=A2):.2f} by that bound, "
            f"{theory.uniform_gamma_crossover(a.value('E_LS', S), S, n_p=N_P, a2=A2):.2f} in truth.",
            f"The default split of the budget favours the uniform estimate: least squares at its own best split has "
            f"{best.error:.2f}, below the paper's bound though not below the worst case "
            f"{a.value('maxEH_tight', S):.2f}.",
        ),
        Verdict(
            "For any data it is better to use both histograms.",
            f"In the formulas, at every s: {b.value('E_LS', S):.2f} against {b.value('EH_eta5', S):.2f} at s = 5.",
            f"The latter is the error of nothing (E5): it treats eta as independent of the noise that eta is made of. "
            f"On even data the uniform estimate has {b.value('EH_even', S):.2f} at s = 5, not "
            f"{b.value('EH_eta5', S):.2f}.",
        ),
    )


def budget_split() -> Figure:
    """Return the error against the cells' part of the budget (paper: Figure E-error-LS-alpha1)."""
    a1 = np.arange(2.0, 39) / 200
    a2 = TOTAL - a1
    ls = least_squares_curve(a1, theory.ls_error(N_P, S, a1=a1, a2=a2))
    gls = curve("E_GLS", "least squares, weighted", "weighted", theory.gls_error(N_P, S, a1=a1, a2=a2), a1)
    cells = whole_budget(a1, S)
    words = "alpha1 (alpha2 = .2 - alpha1)"
    a = CurvePanel("a", SMOOTH, "alpha1", words, a1, (ls, gls, *bounds(a1, GAMMA, S, N_P, a2), cells), log=True)
    b = CurvePanel("b", ANY, "alpha1", words, a1, (formula(a1, ETA, S, a1), ls, gls, cells), log=True)
    best = theory.ls_best_split(N_P, S, alpha=TOTAL)
    return Figure(
        "budget-split",
        "Error against the split of the budget",
        "Figure-E-error-LS-alpha1",
        f"{DEFAULTS}; alpha1 + alpha2 = .2",
        (a, b),
        _budget_split_verdicts(a, b),
        f"Cells with the whole budget have {cells.values[0]:.2f} at s = 5: less than least squares at its best split "
        f"({best.error:.2f}), and least squares weighted by variance only comes down to it as alpha1 goes to .2 "
        f"({gls.values[-1]:.2f} at .19). No split beats it for s up to {_no_split_pays()}.",
    )


def _budget_split_verdicts(a: CurvePanel, b: CurvePanel) -> tuple[Verdict, ...]:
    best, sizes = theory.ls_best_split(N_P, S, alpha=TOTAL), np.array([1, N_P])
    ends = theory.ls_best_split(N_P, sizes, alpha=TOTAL).a1 / TOTAL
    equal, bound = a.value("E_LS", 0.1), a["maxEH_paper"]
    return (
        Verdict(
            "For least squares, equal shares or slightly more for cells works best.",
            f"The direction: the best alpha1 is above one half for s up to {_more_for_cells()}.",
            f"The size (E24): at s = 5 the best is alpha1 = {best.a1:.3f} ({best.a1 / TOTAL:.0%}), error "
            f"{best.error:.2f}; equal shares have {equal:.2f}, {equal / best.error - 1:.0%} more, and the paper's "
            f"default {a.value('E_LS', A1):.2f}. The best share of cells runs from {ends[0]:.0%} at s = 1 to "
            f"{ends[1]:.0%} at s = {N_P}.",
        ),
        Verdict(
            "For smooth data, a smaller budget for cells is better.",
            f"The bound has only alpha2 in it: {a.value('maxEH_paper', 0.01):.2f} at alpha1 = .01, "
            f"{a.value('maxEH_paper', A1):.2f} at .05, {a.value('maxEH_paper', 0.19):.2f} at .19.",
            f"It says nothing of how well the boxes are chosen, which alpha1 pays for, and below alpha1 = .1 there is "
            f"little to gain: {a.value('maxEH_paper', 0.1) / bound[0] - 1:.1%} by the bound, "
            f"{a.value('maxEH_tight', 0.1) / a.value('maxEH_tight', 0.01) - 1:.1%} in the exact worst case.",
        ),
        Verdict(
            "For any data, the budget is better spent on cells.",
            f"For the formula: {b.value('EH_eta5', 0.01):.1f} at alpha1 = .01, {b.value('EH_eta5', 0.19):.2f} at .19.",
            "The formula contains alpha1 alone, and is the error of nothing (E5, E25). The error of the uniform "
            "estimate, given the boxes, does not depend on alpha1.",
        ),
    )


def box_size_and_smoothness() -> Figure:
    """Return the error against box size and smoothness (paper: Figure E-error-LS-n)."""
    n_p, gamma, fixed = np.arange(3.0, 42, 2), np.arange(0.0, 21), np.arange(5.0, 52, 2)
    s = n_p // 2
    half = theory.ls_error(n_p, s, a1=A1, a2=A2)
    a = CurvePanel(
        "a",
        "half of the box, s = floor(n_p/2)",
        "n_p",
        "box size n_p",
        n_p,
        (least_squares_curve(n_p, half), *bounds(n_p, GAMMA, s, n_p, A2), whole_budget(n_p, s)),
    )
    ls = least_squares_curve(gamma, theory.ls_error(N_P, S, a1=A1, a2=A2))
    b = CurvePanel(
        "b",
        "smoothness",
        "gamma",
        "smoothness gamma",
        gamma,
        (ls, *bounds(gamma, gamma, S, N_P, A2), whole_budget(gamma, S)),
    )
    same = least_squares_curve(fixed, theory.ls_error(fixed, S, a1=A1, a2=A2))
    c = CurvePanel(
        "c",
        "a fixed query, s = 5 (not in the paper)",
        "n_p",
        "box size n_p",
        fixed,
        (same, *bounds(fixed, GAMMA, S, fixed, A2), whole_budget(fixed, S)),
    )
    full = b.value("E_cell_full_budget", 0)
    return Figure(
        "box-size-and-smoothness",
        "Error against box size and smoothness",
        "Figure-E-error-LS-n",
        DEFAULTS,
        (a, b, c),
        _box_size_verdicts(a, b, c),
        f"Cells with the whole budget: {full:.2f} at n_p = 11 and s = 5, whatever the box and its smoothness. In the "
        f"worst case the uniform estimate is better only for gamma below "
        f"{theory.uniform_gamma_crossover(full, S, n_p=N_P, a2=A2):.2f} there (by the paper's bound below "
        f"{theory.uniform_gamma_crossover_paper(full, S, n_p=N_P, a2=A2):.2f}); least squares is better for no gamma.",
    )


def _box_size_verdicts(a: CurvePanel, b: CurvePanel, c: CurvePanel) -> tuple[Verdict, ...]:
    crossed = int(a.at[np.argmax(a["maxEH_paper"] > a["E_LS"])])
    small = theory.uniform_error_bound_paper(GAMMA, 1, n_p=np.array([2, 3]), a2=A2)
    fall, rise = c["maxEH_paper"], c["maxEH_tight"]
    return (
        Verdict(
            "The error increases with the box, because of the approximation error in it; avoid large boxes.",
            f"With s = floor(n_p/2), that is if queries grow with the box: from n_p = 3 to 41 least squares goes from "
            f"{a['E_LS'][0]:.2f} to {a['E_LS'][-1]:.2f}, the bound from {a['maxEH_paper'][0]:.2f} to "
            f"{a['maxEH_paper'][-1]:.2f}; least squares is below the bound from n_p = {crossed} on.",
            f"The reason (E28): least squares has no approximation error and increases too. For a fixed s = 5 the "
            f"bound falls again once the box is twice the query, {c.value('maxEH_paper', 11):.2f} at n_p = 11 and "
            f"{fall[-1]:.2f} at 51, while its exact worst case rises from {c.value('maxEH_tight', 11):.2f} to "
            f"{rise[-1]:.2f}. The bound is not monotone between n_p = 2 and 3 either ({small[0]:.2f}, {small[1]:.2f}).",
        ),
        Verdict(
            "The smoother the data, the less the error.",
            f"The bound is linear in gamma, {b.value('maxEH_paper', 0):.2f} at 0 and {b.value('maxEH_paper', 10):.2f} "
            f"at 10; the exact worst case goes from {b.value('maxEH_tight', 0):.2f} to "
            f"{b.value('maxEH_tight', 10):.2f}.",
            "The bound is nearly twice the worst case (E9): "
            f"{b.value('maxEH_paper', 10) / b.value('maxEH_tight', 10):.2f} times at gamma = 10.",
        ),
    )


def inconsistency() -> Figure:
    """Return E(eps_H) against eta (paper: Figure E-error-H-Y-eta)."""
    near, far = np.arange(0.0, 11), np.arange(0.0, 101, 5)
    law = (5 / N_P / A2, 1 / A1), (1, S)  # eta = (s/n_p) N2 - (sum of s N1) on even data
    median = float(theory.error_quantile(*law, 0.5))
    a = CurvePanel("a", "eta as in the paper", "eta", "inconsistency eta", near, _eta_curves(near))
    b = CurvePanel(
        "b",
        "eta as it comes out (not in the paper)",
        "eta",
        "inconsistency eta",
        far,
        _eta_curves(far),
        mark=(median, f"half of all |eta|\nare above {median:.0f}"),
    )
    return Figure(
        "inconsistency",
        "Error against inconsistency",
        "Figure-E-error-H-Y-eta",
        DEFAULTS,
        (a, b),
        _inconsistency_verdicts(a, b, 1 - float(theory.error_sf(10, *law)), float(theory.mean_abs(*law))),
        f"Cells with the whole budget have {a.value('E_cell_full_budget', 0):.2f}, a quarter of the formula at every "
        "eta of the paper. Nor is the error of the uniform estimate itself drawn, "
        f"{a.value('EH_given_eta', ETA):.2f} on even data at eta = 5.",
    )


def _eta_curves(eta: Floats) -> tuple[Curve, ...]:
    return (
        curve("EH_eta", ETA_FORMULA, "formula", theory.uniform_error_eta(eta, S, a1=A1), eta),
        least_squares_curve(eta, theory.ls_error(N_P, S, a1=A1, a2=A2)),
        whole_budget(eta, S),
        curve("EH_given_eta", "uniform, even data", "even", even_error_given_eta(eta), eta),
    )


def even_error_given_eta(eta: Floats) -> Floats:
    """Return the expected absolute error of the uniform estimate of even data when eta is seen.

    The error is c N2 and eta = c N2 - S with c = s/n_p and S the sum of s cell noises, so that given eta the error has
    density f(z) f_s(eta - z) but for a constant. One Gauss-Laguerre rule for each sign of z.

    >>> print(even_error_given_eta(np.array([5.0])).round(2))
    [3.01]
    """
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    size = S / N_P / A2 * nodes
    shifted = eta[:, None, None] - np.stack([size, -size])
    density = np.exp(theory.lap_sum_logpdf(shifted, S, alpha=A1)).sum(axis=1) * weights
    return np.asarray((density @ size) / density.sum(axis=1))


def _inconsistency_verdicts(a: CurvePanel, b: CurvePanel, within_10: float, mean_abs_eta: float) -> tuple[Verdict, ...]:
    zero, ten = a.value("EH_eta", 0), a.value("EH_eta", 10)
    return (
        Verdict(
            "The error increases with eta.",
            f"The formula does, from {zero:.2f} at eta = 0 to {ten:.2f} at 10 ({ten / zero - 1:.1%}) and "
            f"{b.value('EH_eta', 100):.2f} at 100.",
            f"It is not the error (E5): eta is made of the noise that the formula adds once more. Given eta, the "
            f"uniform estimate of even data errs by {a.value('EH_given_eta', 0):.3f} at eta = 0, "
            f"{a.value('EH_given_eta', 10):.3f} at 10 and {b.value('EH_given_eta', 100):.3f} at 100. The values 0 to "
            f"10 are rare: |eta| is {mean_abs_eta:.2f} on average, and at most 10 with probability {within_10:.3f}.",
        ),
        Verdict(
            "Even when eta = 10, the error is larger than that of least squares.",
            f"{ten:.2f} against {a.value('E_LS', 10):.2f}.",
            f'It says nothing (E26): the formula is larger at eta = 0 already, {zero:.2f}. If "smaller" was meant, it '
            "is false for every eta.",
        ),
    )


def least_squares_curve(at: Floats, error: ArrayLike) -> Curve:
    """Return the curve of the paper's least squares."""
    return curve("E_LS", "least squares", "least squares", error, at)


def whole_budget(at: Floats, s: ArrayLike) -> Curve:
    """Return the curve the paper leaves out: Algorithm 1 with the whole budget."""
    return curve("E_cell_full_budget", "cells, whole budget", "cells", theory.cells_error(s, TOTAL), at)


def bounds(at: Floats, gamma: ArrayLike, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike) -> tuple[Curve, Curve]:
    """Return the paper's bound of the uniform estimate on gamma-smooth data, and the exact worst case."""
    paper = theory.uniform_error_bound_paper(gamma, s, n_p=n_p, a2=a2)
    worst = theory.uniform_error_bound_tight(gamma, s, n_p=n_p, a2=a2)
    return (
        curve("maxEH_paper", "uniform, paper's bound", "bound", paper, at),
        curve("maxEH_tight", "uniform, worst case", "worst", worst, at),
    )


def formula(at: Floats, eta: ArrayLike, s: ArrayLike, a1: ArrayLike) -> Curve:
    """Return the paper's E(eps_H) for any data, which is not an error (E5)."""
    values = theory.uniform_error_eta(eta, s, a1=a1)
    return curve("EH_eta5", ETA_FORMULA, "formula", values, at)


def _first_below(at: Floats, ours: Floats, theirs: Floats) -> int:
    return int(at[ours < theirs].min())


def _last_below(at: Floats, ours: Floats, theirs: Floats) -> int:
    return int(at[ours < theirs].max())


def _more_for_cells() -> int:
    s = np.arange(1, N_P + 1)
    return int(s[theory.ls_best_split(N_P, s, alpha=TOTAL).a1 > TOTAL / 2].max())


def _no_split_pays() -> int:
    """Return the largest s at which even weighted least squares at its best split is cells alone."""
    s = np.arange(1, N_P + 1)
    return int(s[theory.gls_best_split(N_P, s, alpha=TOTAL).a1 == TOTAL].max())


SIMULATIONS: dict[str, Callable[[], Figure]] = {
    "query-size": query_size,
    "budget-split": budget_split,
    "box-size-and-smoothness": box_size_and_smoothness,
    "inconsistency": inconsistency,
}
