"""How long one expected absolute error takes, and one quantile of an error: integrals, points or a series."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.timing import seconds
from dpcube import theory
from dpcube.research.theory import NoiseLaw

TARGET_MS, QUANTILE_MS = 1.0, 10.0
CALLS = 50
A1, A2 = 0.05, 0.15


def run() -> list[str]:
    """Measure the error of least squares over one, two and three boxes, and of the uniform estimate over three."""
    one, two = theory.ls_terms(11, 5, a1=A1, a2=A2), theory.ls_terms([7, 11], [3, 5], a1=A1, a2=A2)
    three = theory.gls_terms([7, 11, 20], [3, 5, 9], a1=A1, a2=A2, noise="discrete")
    parts = np.array([3 / 7, 5 / 11, 9 / 20])
    uniform = theory.Terms(parts / A2, np.ones(3), parts)
    cases: tuple[tuple[str, theory.Terms, NoiseLaw], ...] = (
        ("Laplace, least squares, one box", one, "laplace"),
        ("discrete, least squares, one box", one, "discrete"),
        ("discrete, uniform, three boxes", uniform, "discrete"),
        ("discrete, least squares, two boxes", two, "discrete"),
        ("discrete, weighted, three boxes", three, "discrete"),
    )
    return [
        f"expected absolute error of one query (target: under {TARGET_MS:g} ms)",
        *(
            f"{name:36s} {np.unique(terms.weights).size} weights {1e3 * _seconds(terms, noise):6.2f} ms"
            for name, terms, noise in cases
        ),
        f"95% quantile of an error, discrete noise (target: under {QUANTILE_MS:g} ms)",
        *(f"{name:46s} {1e3 * seconds(ask) / CALLS:6.2f} ms" for name, ask in _quantiles().items()),
    ]


def _quantiles() -> dict[str, Callable[[], None]]:
    """Return what asks for `CALLS` quantiles of each kind."""
    sizes = np.unique(np.random.default_rng(1).integers(1, 10**6, 3000))
    asked: dict[str, Callable[[], object]] = {
        f"{count:,} equal noises": partial(theory.dl_sum_quantile, 0.95, count, alpha=A1) for count in (1, 10_000)
    }
    asked[f"{sizes.size:,} numbers of equal noises at once"] = partial(theory.dl_sum_quantile, 0.95, sizes, alpha=A1)
    for number in (2, 3, 6, 30):
        weights = np.linspace(0.1, 1, number) ** 1.1
        terms = weights / A2, np.ones(number), 0.95
        asked[f"{number} weights"] = partial(theory.error_quantile, *terms, noise="discrete", weights=weights)
    return {name: partial(_repeat, ask) for name, ask in asked.items()}


def _seconds(terms: theory.Terms, noise: NoiseLaw) -> float:
    scales, counts, weights = (part.ravel() for part in terms)
    ask = partial(theory.mean_abs, scales, counts, noise=noise, weights=weights)
    return seconds(partial(_repeat, ask)) / CALLS


def _repeat(ask: Callable[[], object]) -> None:
    for _ in range(CALLS):
        ask()


if __name__ == "__main__":
    print("\n".join(run()))
