"""Section 6.2 of the paper: the original histogram of the census table, and the three that are released (spec 5).

The table and the three grids are those of `measured`. alpha1 = .05 for cells and alpha2 = .15 for boxes as in section
6.1; boxes are split by the default threshold, which follows from the noise. Noise is drawn from a seed: the table is
public.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np

from dpcube.core.gate import Gate
from dpcube.measurements import Provenance
from dpcube.models.metrics import absolute_errors
from dpcube.queries.random_ranges import random_ranges
from dpcube.release import Release
from dpcube.release.plots import HeatMap, Picture
from dpcube.release.plots.picture import heat_map
from dpcube.research.reproduce.figure import Maps, Verdict
from dpcube.research.reproduce.measured import WIDTHS, domain_of, exact_counts, size_words, table_words
from dpcube.strategies import FittedStrategy, TwoPhase
from dpcube.strategies.cells import Cells
from dpcube.testing import SeededNoise

EPSILON, SHARE = Fraction(1, 5), Fraction(1, 4)
RUNS, QUERIES = 20, 10_000
STAGES = {"b": "cells", "c": "uniform", "d": "least_squares"}


def release(grid: str, strategy: FittedStrategy, *, seed: int) -> Release:
    """Return a release of the first rows with noise from a seed, stamped as not private."""
    gate = Gate(exact_counts(grid), EPSILON, noise=SeededNoise(seed))
    made = Provenance(strategy.name, EPSILON, "dpcube reproduce", strategy.parameters(), private=False)
    return Release(domain_of(grid), strategy.run(gate), made)


def histograms(grid: str) -> Maps:
    """Return the four histograms on one grid, with verdicts."""
    made, exact = release(grid, TwoPhase(share=SHARE), seed=1), exact_counts(grid)
    titles = {
        "b": "cell histogram, alpha1 = .05",
        "c": "subcube histogram, alpha2 = .15",
        "d": "estimated, least squares of both",
    }
    panels = {
        letter: heat_map(made, made.domain.names, estimate=STAGES[letter], title=f"({letter}) {title}")
        for letter, title in titles.items()
    }
    panels["d"] = replace(panels["d"], outlines=None)
    original = HeatMap("(a) original histogram", panels["b"].x, panels["b"].y, exact.astype(np.float64))
    size = size_words(grid)
    return Maps(
        f"histograms-{grid}",
        f"Original and released histograms, {size}",
        "Figure-histograms",
        f"{table_words(grid)}; alpha1 = .05, alpha2 = .15; errors are means over {RUNS} runs",
        Picture(f"Rows by age and hours-per-week, {size}", "", (original, *panels.values())),
        _verdicts(grid, made),
        _left_out(grid),
    )


@cache
def mean_errors(grid: str, strategy: FittedStrategy) -> dict[str, tuple[float, float]]:
    """Return, by estimate, the root mean square error of a cell and the mean absolute error of a random range."""
    exact = exact_counts(grid)
    workload = random_ranges(exact.shape, QUERIES, seed=0)
    squares: dict[str, list[float]] = {}
    ranges: dict[str, list[float]] = {}
    for seed in range(RUNS):
        made = release(grid, strategy, seed=seed)
        for estimate in set(made.estimates) & set(STAGES.values()):
            cells = made.cells(estimate)
            squares.setdefault(estimate, []).append(float(np.mean((cells - exact) ** 2)))
            ranges.setdefault(estimate, []).append(float(absolute_errors(exact, cells, workload).mean()))
    return {name: (float(np.sqrt(np.mean(squares[name]))), float(np.mean(ranges[name]))) for name in squares}


def _verdicts(grid: str, made: Release) -> tuple[Verdict, ...]:
    exact = exact_counts(grid)
    spread = float(exact.std())
    errors = mean_errors(grid, TwoPhase(share=SHARE))
    noisy, boxes, both = (errors[estimate] for estimate in STAGES.values())
    counted = made.transcript.boxes
    assert counted is not None
    leaves = len(counted.tree.leaves)
    seen = noisy[0] < spread
    ratio = f"a noisy cell is off by {noisy[0]:.1f}, and cells differ by {spread:.1f} (both root mean square)"
    keeps = f"off by {both[0]:.1f}, the uniform estimate by {boxes[0]:.1f}, for it keeps their noise"
    ranges = f"{both[1]:.0f} rows against {boxes[1]:.0f} of the uniform estimate"
    helps = both[1] < boxes[1]
    return (
        Verdict(
            "The cell histogram of the first phase approximates the original distribution.",
            f"On this grid it does: {ratio}." if seen else "Only for the few largest cells.",
            "Nothing here; on a finer grid the same noise hides the data." if seen else f"On this grid: {ratio}.",
        ),
        Verdict(
            "In the subcube histogram each plane represents one partition of nearly equal cells.",
            f"{leaves:,} boxes for {exact.size:,} cells; a cell is off by {boxes[0]:.1f}, a random range by "
            f"{boxes[1]:.0f} rows (cell histogram: {noisy[0]:.1f} and {noisy[1]:.0f}).",
            "The grid and the threshold that the boxes depend on are not given (E32, E34).",
        ),
        Verdict(
            "Least squares uses both histograms to resolve their inconsistencies.",
            f"In random ranges it errs less: by {ranges}." if helps else "Not on this grid.",
            f"In cells: {keeps}." + ("" if helps else f" In random ranges too: {ranges}."),
        ),
    )


def _left_out(grid: str) -> str:
    cells = mean_errors(grid, Cells())["cells"]
    both = mean_errors(grid, TwoPhase(share=SHARE))["least_squares"]
    return (
        f"Cells with the whole budget of .2 (E33): off by {cells[0]:.1f} in a cell and {cells[1]:.0f} rows in a random "
        f"range, {'less' if cells[1] < both[1] else 'not less'} than least squares ({both[0]:.1f} and {both[1]:.0f})."
    )


HISTOGRAMS: dict[str, Callable[[], Maps]] = {f"histograms-{grid}": partial(histograms, grid) for grid in WIDTHS}
