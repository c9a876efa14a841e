"""How fast exact noise is, beside OpenDP's exact sampler and NumPy's inexact one, on one thread in one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import median

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from dpcube.core.noise import ExactNoise, two_sided_geometric

EPSILON = Fraction(1, 10)
SIZES = (1_000_000, 10_000_000)
OPENDP_SIZE = 100_000
SIZE_BY_VALUE = 20_000
REPEATS = 7
LEAST_OVER_OPENDP = 30
MOST_OVER_NUMPY = 6


def run() -> list[str]:
    """Measure every sampler and return the lines of a report."""
    exact = {size: _seconds_per_value(lambda n: ExactNoise().draw(EPSILON, n), size) for size in SIZES}
    rng = np.random.default_rng()
    inexact = {
        size: _seconds_per_value(lambda n: rng.laplace(scale=float(1 / EPSILON), size=n), size) for size in SIZES
    }
    opendp = _seconds_per_value(_opendp_sampler(), OPENDP_SIZE)
    lines = [f"two-sided geometric noise at epsilon {EPSILON}, one thread, median of {REPEATS} runs"]
    lines += [_line(f"dpcube exact, {size:,} values", seconds) for size, seconds in exact.items()]
    lines += [_line(f"numpy laplace (inexact), {size:,} values", seconds) for size, seconds in inexact.items()]
    lines.append(_line(f"OpenDP exact vector Laplace, {OPENDP_SIZE:,} values", opendp))
    slowest = max(exact.values())
    over_numpy = max(exact[size] / inexact[size] for size in SIZES)
    lines.append(f"OpenDP takes {opendp / slowest:.0f} times as long (target: at least {LEAST_OVER_OPENDP})")
    lines.append(f"dpcube takes {over_numpy:.2f} times as long as numpy (target: at most {MOST_OVER_NUMPY})")
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
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        sampler(size)
        seconds.append(time.perf_counter() - start)
    return median(seconds) / size


def _line(name: str, seconds: float) -> str:
    return f"{name:45} {seconds * 1e9:10.1f} ns per value {1 / seconds:14,.0f} values/s"


if __name__ == "__main__":
    print("\n".join(run()))
