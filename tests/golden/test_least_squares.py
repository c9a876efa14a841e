"""Least squares (spec 4.6, 4.7 and 4.9), queries over several boxes, and the extensions."""

import numpy as np
import pytest
from golden_file import A1, A2, GOLDEN, N_P, TOTAL, V1, V2, Numbers, agrees, settings, table

from dpcube import theory

LEAST = GOLDEN["least_squares"]
EXTENSIONS = GOLDEN["extensions"]


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


@pytest.mark.slow
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


def test_risk_estimate() -> None:
    golden = EXTENSIONS["risk_estimate"]
    # The example: n_p = 11, s = 5, cells outside the query greater by 6 than those inside.
    b = 5 * 6 / 11 * 6
    assert agrees(b**2, golden["example_b2"])
    # b_hat^2 with noise of variance v1 s(n-s)/n and its fourth cumulant; the file's figures are simulated.
    variance, fourth = V1 * 30 / 11, (5 * (6 / 11) ** 4 + 6 * (5 / 11) ** 4) * 12 / A1**4
    deviation = np.sqrt(fourth + 2 * variance**2 + 4 * b**2 * variance)
    assert golden["example_estimate_sd"] == pytest.approx(deviation, rel=2e-3)
    assert abs(golden["example_estimate_mean"] - b**2) < 2e-3 * deviation
    assert golden["formula"] == "b_hat^2 - v1 s(n-s)/n + (s/n)^2 v2"
    y, q = np.array([3.0, 9.0, 4.0, 20.0]), np.array([1, 1, 0, 0])
    b_hat = y.sum() / 2 - 12
    assert theory.uniform_risk_estimate(y, q, v1=7, v2=5) == pytest.approx(b_hat**2 - 7 * 1 + 5 / 4)
