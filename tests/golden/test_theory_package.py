"""The package `dpcube.theory`: names, doctests, speed, errors, broadcasting, extremes."""

import doctest
import importlib
import inspect
import math
import pkgutil
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import numpy as np
import pytest
from golden_file import A1, A2, N_P, Numbers

from dpcube import noise as noise_package
from dpcube import theory
from dpcube.core.errors import InputError
from dpcube.research import theory as research_theory

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
    assert len(theory.__all__) == len(set(theory.__all__)) == 63


def test_every_function_has_a_doctest_and_all_of_them_hold() -> None:
    attempted = 0
    for module in (
        *pkgutil.iter_modules(research_theory.__path__, "dpcube.research.theory."),
        *pkgutil.iter_modules(noise_package.__path__, "dpcube.noise."),
    ):
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, module.name
        attempted += result.attempted
    functions = [getattr(theory, name) for name in theory.__all__ if inspect.isfunction(getattr(theory, name))]
    assert all(">>>" in (function.__doc__ or "") for function in functions)
    assert attempted >= len(functions) > 50


def work(call: Callable[[], object]) -> tuple[int, int]:
    """How many calls an evaluation makes, of Python and of C, and the most bytes that it has at a time.

    No clock: milliseconds are measured by `benchmarks/noise.py`, on a machine that does nothing else.
    """
    call()  # imports, and what is remembered
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return calls, most


MAX_CALLS, MAX_CACHE_BYTES = 500, 2**18
"""A microsecond a call, and arrays in the processor's cache: half a millisecond."""


def test_one_expected_error_takes_a_few_hundred_calls_on_small_arrays() -> None:
    terms = theory.ls_terms(N_P, 5, a1=A1, a2=A2)
    parts = np.array([3 / 7, 5 / 11, 9 / 20])  # of three boxes
    calls: dict[str, Callable[[], Numbers]] = {
        "laplace": lambda: theory.mean_abs(terms.scales, terms.multiplicities),
        "discrete": lambda: theory.mean_abs(
            terms.scales, terms.multiplicities, noise="discrete", weights=terms.weights
        ),
        "three weights": lambda: theory.mean_abs(parts / A2, [1, 1, 1], noise="discrete", weights=parts),
    }
    done = {name: work(call) for name, call in calls.items()}
    assert all(number <= MAX_CALLS and most <= MAX_CACHE_BYTES for number, most in done.values()), done


def test_an_error_that_is_summed_in_a_loop_or_over_a_long_array_is_seen() -> None:
    points = np.linspace(-30, 30, 2**16)
    assert work(lambda: [math.exp(-abs(point)) for point in points[:1000]])[0] > MAX_CALLS
    assert work(lambda: np.exp(-np.abs(points)).sum())[1] > MAX_CACHE_BYTES


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
        (lambda: theory.mean_abs([-1.0], [1]), r"scales is -1; it must be a number of at least 0"),
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
