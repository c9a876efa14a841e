"""Time of exact noise, beside OpenDP's exact sampler and NumPy's inexact one, and of the exact laws of its sums."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import median

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from benchmarks.timing import seconds
from dpcube import theory
from dpcube.core.noise import ExactNoise, two_sided_geometric
from dpcube.research.theory import NoiseLaw

EPSILON = Fraction(1, 10)
SIZES = (1_000_000, 10_000_000)
OPENDP_SIZE = 100_000
SIZE_BY_VALUE = 20_000
REPEATS = 7
LEAST_OVER_OPENDP = 30
MAX_OVER_NUMPY = 6
TARGET_MS, QUANTILE_MS = 1.0, 10.0
CALLS = 50
A1, A2 = 0.05, 0.15


def run() -> list[str]:
    """Measure samplers and laws."""
    return [*samplers(), *laws()]


def samplers() -> list[str]:
    """Measure every sampler."""
    exact = {size: _seconds_per_value(lambda n: ExactNoise().draw(EPSILON, n), size) for size in SIZES}
    rng = np.random.default_rng()
    inexact = {
        size: _seconds_per_value(lambda n: rng.laplace(scale=float(1 / EPSILON), size=n), size) for size in SIZES
    }
    opendp = _seconds_per_value(_opendp_sampler(), OPENDP_SIZE)
    lines = [f"two-sided geometric noise at epsilon {EPSILON}, one thread, median of {REPEATS} runs"]
    lines += [_line(f"dpcube exact, {size:,} values", taken) for size, taken in exact.items()]
    lines += [_line(f"numpy laplace (inexact), {size:,} values", taken) for size, taken in inexact.items()]
    lines.append(_line(f"OpenDP exact vector Laplace, {OPENDP_SIZE:,} values", opendp))
    slowest = max(exact.values())
    over_numpy = max(exact[size] / inexact[size] for size in SIZES)
    lines.append(f"OpenDP takes {opendp / slowest:.0f} times as long (target: at least {LEAST_OVER_OPENDP})")
    lines.append(f"dpcube takes {over_numpy:.2f} times as long as numpy (target: at most {MAX_OVER_NUMPY})")
    lines.append(
        f"the largest values take {_largest_over_zeros():.3f} times as long as zeros (target: 1, within noise)"
    )
    return lines


@dataclass(frozen=True)
class _Word:
    """A source of one word for the numbers that are added, and of none for those that are taken away."""

    plus: int

    def fill(self, words: NDArray[np.uint32], /) -> None:
        half = -(-len(words) // 2)
        words[:half], words[half:] = self.plus, 2**32 - 1


def _largest_over_zeros() -> float:
    """Return the ratio of the times of draws whose values are the largest and 0, timed in turn."""
    largest, zeros = (partial(_draw, _Word(word)) for word in (1, 2**32 - 1))
    pairs = [(_once(largest), _once(zeros)) for _ in range(20 * REPEATS)]
    return median(one / other for one, other in pairs)


def _draw(source: _Word) -> None:
    two_sided_geometric(source, EPSILON, size=SIZE_BY_VALUE)


def _once(draw: Callable[[], None]) -> float:
    start = time.perf_counter()
    draw()
    return time.perf_counter() - start


def _opendp_sampler() -> Callable[[int], object]:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=float(1 / EPSILON))
    return lambda size: measurement(np.zeros(size, dtype=np.int64))


def _seconds_per_value(sampler: Callable[[int], object], size: int) -> float:
    sampler(1000)  # compiles, and fills caches of thresholds
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        sampler(size)
        times.append(time.perf_counter() - start)
    return median(times) / size


def _line(name: str, taken: float) -> str:
    return f"{name:45} {taken * 1e9:10.1f} ns per value {1 / taken:14,.0f} values/s"


def laws() -> list[str]:
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
