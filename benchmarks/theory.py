"""How long one expected absolute error takes: one integral for Laplace noise, points or a series for discrete noise."""

import numpy as np

from benchmarks.timing import seconds
from dpcube import theory
from dpcube.theory import Noise

TARGET_MS = 1.0
CALLS = 50
A1, A2 = 0.05, 0.15


def run() -> list[str]:
    """Measure the error of least squares over one, two and three boxes, and of the uniform estimate over three."""
    one, two = theory.ls_terms(11, 5, a1=A1, a2=A2), theory.ls_terms([7, 11], [3, 5], a1=A1, a2=A2)
    three = theory.gls_terms([7, 11, 20], [3, 5, 9], a1=A1, a2=A2, noise="discrete")
    parts = np.array([3 / 7, 5 / 11, 9 / 20])
    uniform = theory.Terms(parts / A2, np.ones(3), parts)
    cases: tuple[tuple[str, theory.Terms, Noise], ...] = (
        ("Laplace, least squares, one box", one, "laplace"),
        ("discrete, least squares, one box", one, "discrete"),
        ("discrete, uniform, three boxes", uniform, "discrete"),
        ("discrete, least squares, two boxes", two, "discrete"),
        ("discrete, weighted, three boxes", three, "discrete"),
    )
    return [f"expected absolute error of one query (target: under {TARGET_MS:g} ms)"] + [
        f"{name:36s} {np.unique(terms.weights).size} weights {1e3 * _seconds(terms, noise):6.2f} ms"
        for name, terms, noise in cases
    ]


def _seconds(terms: theory.Terms, noise: Noise) -> float:
    scales, counts, weights = (part.ravel() for part in terms)

    def ask() -> None:
        for _ in range(CALLS):
            theory.mean_abs(scales, counts, noise=noise, weights=weights)

    return seconds(ask) / CALLS


if __name__ == "__main__":
    print("\n".join(run()))
