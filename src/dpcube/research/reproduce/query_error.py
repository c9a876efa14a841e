"""Section 6.3 of the paper: the error of random queries against the threshold and against alpha1.

10^5 random queries of two range predicates, the mean absolute error of each release, alpha = .2. The paper evaluates
the uniform estimate. The other estimates of the same release stand beside it, and two that spend the whole budget in
another way: plain cells (E33) and the default of this project.
"""

from collections.abc import Iterable
from fractions import Fraction
from functools import cache

from dpcube.core.arrays import Floats
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.research.arrays import experiment
from dpcube.research.processes import seed_of
from dpcube.research.ratios import short_number
from dpcube.research.reproduce.figure import CurvePanel, Figure, Verdict
from dpcube.research.reproduce.measured import (
    CurveLook,
    Draws,
    Gathered,
    MeasuredFigure,
    PanelPlan,
    Progress,
    clearly_below,
    clearly_changes,
    domain_of,
    exact_counts,
    places,
    size_words,
    table_words,
)
from dpcube.research.reproduce.variance import ALPHA, SHARE, SHARES, THRESHOLDS, with_threshold
from dpcube.strategies import DEFAULT, FittedStrategy, TwoPhase, strategy_of
from dpcube.testing import SeededNoise

QUERY_DRAWS = 100_000
ESTIMATES = {
    "uniform": CurveLook("uniform estimate", "dpcube"),
    "least_squares": CurveLook("least squares", "least squares"),
    "weighted_least_squares": CurveLook("least squares, weighted", "weighted"),
}
FOLLOWING = {"uniform_follows": CurveLook("uniform, threshold follows noise", "dpcube follows")}
WHOLE_BUDGET = {
    "cells": CurveLook("cells, whole budget", "cells"),
    DEFAULT: CurveLook(f"{DEFAULT}, whole budget", DEFAULT),
}


@cache
def queries(grid: str) -> Workload:
    """Return the random queries of a grid: both ends uniform on each axis and put in order."""
    return random_ranges(domain_of(grid).shape, QUERY_DRAWS, seed=0)


def errors_of_estimates(
    grid: str, strategy: FittedStrategy, estimates: Iterable[str], *, epsilon: Fraction, seed: int
) -> list[float]:
    """Return the mean absolute error of the random queries, by each of some estimates of one release."""
    exact = exact_counts(grid)
    release = experiment(exact, epsilon=epsilon, strategy=strategy, noise=SeededNoise(seed), domain=domain_of(grid))
    return [float(absolute_errors(exact, release.cells(one), queries(grid)).mean()) for one in estimates]


def measure_query_error(grid: str, draws: int, progress: Progress) -> Draws:
    """Measure the errors of `draws` releases for each point."""
    found = Gathered()
    for draw in range(draws):
        progress(f"query error, {size_words(grid)}: draw {draw + 1} of {draws}")
        seed = seed_of("query error", grid, draw)
        whole = {
            name: errors_of_estimates(grid, strategy_of(name), ["auto"], epsilon=ALPHA, seed=seed_of(seed, name))[0]
            for name in WHOLE_BUDGET
        }
        for panel, at, strategy in _settings():
            errors = errors_of_estimates(grid, strategy, ESTIMATES, epsilon=ALPHA, seed=seed_of(seed, panel, at))
            for name, error in (*zip(ESTIMATES, errors, strict=True), *whole.items()):
                found.add(panel, name, at, error)
        for share in SHARES:
            at = float(share * ALPHA)
            seen = seed_of(seed, "follows", at)
            (error,) = errors_of_estimates(grid, TwoPhase(share=share), ["uniform"], epsilon=ALPHA, seed=seen)
            found.add("b", "uniform_follows", at, error)
    return found


def _settings() -> list[tuple[str, float, TwoPhase]]:
    against_threshold = [("a", at, with_threshold(SHARE, at)) for at in THRESHOLDS]
    return [*against_threshold, *(("b", float(share * ALPHA), with_threshold(share, 1.0)) for share in SHARES)]


def figure_of_query_error(grid: str, panels: tuple[CurvePanel, ...]) -> Figure:
    """Return the figure of some measured panels."""
    a, b = panels
    return Figure(
        f"query-error-{grid}",
        f"Query error against threshold and budget, {size_words(grid)}",
        "Figure-vsErr_ERRvsThresh",
        f"{table_words(grid)}; alpha = .2, alpha1 = .05 unless it varies; 100,000 random queries; means and 95% "
        f"intervals of {a.curves[0].draws} releases",
        panels,
        (_against_threshold(a), _against_budget(b)),
        _left_out(a, b),
        value_label="mean absolute error of queries",
        panels_a_line=2,
    )


def _best(panel: CurvePanel, curve: str) -> tuple[float, float]:
    """Return the least value of a curve and where it is."""
    values: Floats = panel[curve]
    return float(values.min()), float(panel.at[values.argmin()])


def _against_threshold(a: CurvePanel) -> Verdict:
    least, at = _best(a, "uniform")
    ends = short_number(a["uniform"][0]), short_number(a["uniform"][-1])
    best = f"{short_number(least)} at xi0 = {800 * at:,.0f}"
    holds = f"From its best, {best}, the error of the uniform estimate rises to {ends[1]} at {800 * a.at[-1]:,.0f}."
    fails = f"Below {800 * at:,.0f} it falls, from {ends[0]} at 0: boxes that only noise tells apart save nothing."
    falls_first = clearly_changes(a, "uniform", 0, int(a["uniform"].argmin()))
    small = f"Nothing here; but a threshold of 0, that is, nearly every cell a box, is not clearly worse ({ends[0]})."
    return Verdict(
        "The error increases with the threshold, because of the variance inside boxes.",
        holds if at < a.at[-1] else f"Nothing: as far as it was tried the error falls, to {best}.",
        fails if falls_first else small,
    )


def _against_budget(b: CurvePanel) -> Verdict:
    (fixed, at), (follows, place) = _best(b, "uniform"), _best(b, "uniform_follows")
    ends = [[short_number(b[curve][end]) for curve in ("uniform", "uniform_follows")] for end in (0, -1)]
    small = [x < float(ALPHA) / 2 for x in (at, place)]
    where = {(True, True): "Both ways", (True, False): "At a fixed threshold", (False, True): "With one that follows"}
    both = (
        f"at xi0 = 800 alpha1 = {at:g} is the best ({short_number(fixed)}), and {place:g} where the threshold follows "
        f"the noise ({short_number(follows)})"
    )
    return Verdict(
        "Small alpha1 yields better results, as for smooth data.",
        f"{where.get((small[0], small[1]), 'Neither way')}: {both}.",
        f"{'The smallest is not always the best' if max(at, place) > b.at[0] else 'Nothing here'}: at alpha1 = .01 the "
        f"error is {ends[0][0]} (fixed) and {ends[0][1]} (following), at .19 {ends[1][0]} and {ends[1][1]}. alpha1 "
        "pays for the choice of boxes, which the paper's formulas leave out; at a fixed threshold it also decides how "
        "many there are.",
    )


def _left_out(a: CurvePanel, b: CurvePanel) -> str:
    cells, ours = a["cells"][0], a[DEFAULT][0]
    beaten = [
        places(panel, clearly_below(panel, "uniform", "cells")).replace("at ", f"at {what} = ", 1)
        for panel, what in ((a, "xi0/800"), (b, "alpha1"))
    ]
    least = min(_best(panel, curve)[0] for panel in (a, b) for curve in ESTIMATES)
    return (
        f"Cells with the whole budget of .2 (E33): error {short_number(cells)}; the best point of all estimates above "
        f"has {short_number(least)}. The uniform estimate is clearly better than cells {beaten[0]} in (a), {beaten[1]} "
        f"in (b). The default of this project has {short_number(ours)}, with nothing to choose."
    )


def _plans() -> tuple[PanelPlan, ...]:
    label = "threshold xi0, in units of 800"
    return (
        PanelPlan(
            "a", "against the threshold", "xi0", label, {**ESTIMATES, **WHOLE_BUDGET}, log=True, spaced="log from 0"
        ),
        PanelPlan(
            "b",
            "against alpha1, xi0 = 800",
            "alpha1",
            "alpha1 of .2",
            {**ESTIMATES, **FOLLOWING, **WHOLE_BUDGET},
            log=True,
        ),
    )


QUERY_ERROR = MeasuredFigure(_plans(), measure_query_error, figure_of_query_error)
