"""The adaptive strategy beside plain noisy cells, over epsilon and the number of rows, on DPBench's 2-D shapes.

A table of N rows is drawn from the shape of the largest trial. Noisy cells err alike on every table, so their error is
measured once for each epsilon, with many draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpcube.core.epsilon import parse_epsilon
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.research.accuracy.dpbench import BENCH_SCALES, BENCH_SHAPES, Bench, chosen_strategy
from dpcube.research.arrays import experiment
from dpcube.research.ratios import CHANCE
from dpcube.testing import SeededNoise

SWEPT_EPSILONS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10")
SWEPT_ROWS = tuple(10**power for power in range(2, 9))
CELL_DRAWS = 400
FLAGGED_ABOVE = 1.05
"""A ratio is flagged that is above this, and not by chance."""


@dataclass(frozen=True, slots=True)
class Point:
    """A strategy's mean absolute error on one set, with its standard error, and that of noisy cells."""

    name: str
    rows: int
    epsilon: str
    mean: float
    stderr: float
    cells: float

    @property
    def ratio(self) -> float:
        """How many times the error of noisy cells it is."""
        return self.mean / self.cells

    @property
    def worse(self) -> bool:
        """Whether it is worse than cells by more than `FLAGGED_ABOVE`, and not by chance."""
        return self.ratio - CHANCE * self.stderr / self.cells > FLAGGED_ABOVE


def sweep(bench: Bench, strategy: str, *, draws: int, seed: int) -> Iterator[Point]:
    """Yield the errors at every epsilon and number of rows, set by set."""
    random = np.random.default_rng(seed)
    asked = bench.workload(2, "randomrange")
    of_cells = {epsilon: _cells_error(asked, epsilon, random) for epsilon in SWEPT_EPSILONS}
    for name in bench.sets(2):
        shape = bench.counts(2, name, BENCH_SCALES[-1], 0)
        for rows, epsilon in product(SWEPT_ROWS, SWEPT_EPSILONS):
            errors = [_error(_resampled(shape, rows, random), strategy, epsilon, asked, random) for _ in range(draws)]
            stderr = float(np.std(errors, ddof=1) / draws**0.5)
            yield Point(name, rows, epsilon, float(np.mean(errors)), stderr, of_cells[epsilon])


def _cells_error(asked: Workload, epsilon: str, random: np.random.Generator) -> float:
    noise, size = SeededNoise(int(random.integers(2**63))), int(np.prod(BENCH_SHAPES[2]))
    draws = (noise.draw(parse_epsilon(epsilon), size).reshape(BENCH_SHAPES[2]) for _ in range(CELL_DRAWS))
    nothing = np.zeros(BENCH_SHAPES[2])
    return float(np.mean([absolute_errors(nothing, drawn, asked).mean() for drawn in draws]))


def _resampled(shape: NDArray[np.int64], rows: int, random: np.random.Generator) -> NDArray[np.int64]:
    return random.multinomial(rows, shape.reshape(-1) / shape.sum()).reshape(shape.shape)


def _error(
    table: NDArray[np.int64], strategy: str, epsilon: str, asked: Workload, random: np.random.Generator
) -> float:
    noise = SeededNoise(int(random.integers(2**63)))
    cells = experiment(table, epsilon=epsilon, strategy=chosen_strategy(strategy), noise=noise).cells()
    return float(absolute_errors(table, cells, asked).mean())


def sweeps_report(points: list[Point], strategy: str) -> list[str]:
    """Return ratios to noisy cells: geometric means over the sets, then every set above `FLAGGED_ABOVE`."""
    lines = [f"2-D random ranges, error of {strategy} / error of cells, geometric mean over sets (worst set)", ""]
    lines += [f"| N | {' | '.join(f'epsilon {e}' for e in SWEPT_EPSILONS)} |", f"|{'---|' * (1 + len(SWEPT_EPSILONS))}"]
    for rows in SWEPT_ROWS:
        shown = []
        for epsilon in SWEPT_EPSILONS:
            ratios = [p.ratio for p in points if (p.rows, p.epsilon) == (rows, epsilon)]
            shown.append(f"{np.exp(np.mean(np.log(ratios))):.2f} ({max(ratios):.2f})")
        lines.append(f"| {rows:.0e} | {' | '.join(shown)} |")
    above = sorted((p for p in points if p.worse), key=lambda p: -p.ratio)
    lines += ["", f"{len(above)} of {len(points)} above {FLAGGED_ABOVE} by more than {CHANCE} standard errors"]
    return lines + [
        f"{p.name}, N = {p.rows:.0e}, epsilon {p.epsilon}: {p.ratio:.2f} +- {p.stderr / p.cells:.2f}" for p in above
    ]
