"""Discrete Laplace noise (spec 4.10): one noise, sums of one weight, sums of any weights."""

import numpy as np
import pytest
from golden_file import A1, A2, GOLDEN, N_P, Numbers, agrees, settings, table
from scipy import special

from dpcube import theory
from dpcube.research.theory.lattice_points import Lattice, LatticePoints
from dpcube.research.theory.many_lattices import BLUR, ManyLattices

DISCRETE = GOLDEN["discrete_laplace"]
EXTENSIONS = GOLDEN["extensions"]


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
    assert mean == pytest.approx(sizes @ mass, rel=1e-11)
    sizes, mass = enumerated(w, alphas, 0.0)
    quantile = float(theory.error_quantile(w / alphas, [1, 1, 1], 0.95, noise="discrete", weights=w))
    assert mass[sizes <= quantile + 1e-9].sum() >= 0.95
    assert mass[sizes <= quantile - 1e-8].sum() < 0.95
    for x in (0.777, 2.05, 3.03):
        tail = theory.error_sf(x, w / alphas, [1, 1, 1], noise="discrete", weights=w)
        assert tail == pytest.approx(mass[sizes > x + 1e-9].sum(), abs=1e-12)


def two_laws(weights: list[float], alphas: list[float], counts: list[float]) -> tuple[LatticePoints, ManyLattices]:
    """The same law from its points and from its series."""
    w, a, k = (np.array(part, np.float64) for part in (weights, alphas, counts))
    lattices = [Lattice.of_noises(step, a[i : i + 1], k[i : i + 1], most=1 << 15) for i, step in enumerate(weights)]
    few = [lattice for lattice in lattices if lattice is not None]
    points = LatticePoints.of_sum(few)
    assert points is not None
    assert len(few) == len(weights)
    return points, ManyLattices.of_noises(w, a, k, atom=float(np.prod([lattice.mass[0] for lattice in few])), shift=9.0)


@pytest.mark.parametrize(
    ("weights", "alphas", "counts", "within"),
    [
        pytest.param([0.831, 0.257], [0.003, 0.004], [1, 1], 1e-8, marks=pytest.mark.slow),
        ([0.831, 0.257, 0.513], [0.06, 0.05, 0.07], [1, 1, 1], 1e-8),
        ([0.95, 0.66, 0.43], [0.06, 0.08, 0.05], [2, 5, 1], 1e-8),
        ([0.9, 0.61, 0.37, 0.71], [0.5, 0.45, 0.6, 0.55], [1, 1, 1, 1], 1e-8),
        ([1, 0.5, 0.25], [0.07, 0.06, 0.08], [1, 1, 1], 1e-8),  # a common measure: 0 is more likely than for others
        ([3 / 7, 5 / 11, 9 / 20], [0.15, 0.15, 0.15], [1, 1, 1], 1e-8),
        ([1, 0.3334, 0.5001], [0.1, 0.1, 0.1], [1, 1, 1], 1e-7),  # nearly: points that are almost 0
    ],
)
def test_points_and_series_agree(weights: list[float], alphas: list[float], counts: list[float], within: float) -> None:
    points, series = two_laws(weights, alphas, counts)
    for shift in (0.0, 2.345, 9.0):
        assert series.mean_abs(shift) == pytest.approx(points.mean_abs(shift), rel=within)
    for sure in (0.5, 0.95, 1 - 1e-6):
        exact, wide = points.quantile(sure), series.quantile(sure)
        assert exact <= wide <= exact + 13 * BLUR * series.sigma
        assert points.exceeds(wide) <= 1 - sure + 2e-9


def test_a_series_without_its_mean_is_wrong() -> None:
    """A sabotage twin: the cut without the probability of 0 is noticed by the test above."""
    points, series = two_laws([0.831, 0.257, 0.513], [0.3, 0.25, 0.35], [1, 1, 1])
    phi = series._phi(1 << 14, half_period=series.half_period)
    orders = 2.0 * np.arange(phi.size) + 1
    cut = series.half_period * (0.5 - 4 / np.pi**2 * (phi / orders**2).sum())
    assert cut / points.mean_abs(0.0) - 1 > 1e-7


def test_quantiles_of_one_discrete_noise_are_those_of_its_law() -> None:
    sure = np.array([0.0, 0.5, 0.9, 0.95, 0.99])
    for alpha in (1e-6, 0.1, 1.0, 20.0, 100.0):
        exceeds = 2 / (1 + np.exp(alpha))  # P(|Z| > 0); then a factor exp(-alpha) per step
        steps = np.ceil(np.log(exceeds / (1 - sure)) / alpha - 1e-12)
        expected = np.maximum(steps, 0)
        assert theory.error_quantile([1 / alpha], [1], sure, noise="discrete") == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.003, 1.0, 8.0])
@pytest.mark.parametrize("sure", [0.5, 0.95, 1 - 1e-7])
def test_quantiles_of_many_sums_are_those_of_each(alpha: float, sure: float) -> None:
    """Along a curve or one by one: the same whole numbers, and the smallest that hold."""
    n = np.unique(np.rint(np.exp(np.linspace(0, np.log(3e6), 70))))
    many = theory.dl_sum_quantile(sure, n, alpha=alpha)
    np.testing.assert_array_equal(many, [theory.dl_sum_quantile(sure, each, alpha=alpha) for each in n])
    assert (2 * theory.dl_sum_sf(many, n, alpha=alpha) <= (1 - sure) * (1 + 1e-6)).all()
    more_than_zero = many > 0
    shorter = 2 * theory.dl_sum_sf(many - 1, n, alpha=alpha)
    assert (shorter[more_than_zero] > (1 - sure) * (1 - 1e-6)).all()
