"""Section 6.3 of the paper: the error of random queries beside other systems, against epsilon and query size.

The paper's rivals are a hierarchical kd-tree (here cut at private medians, of heights 4, 6, 8 and 10) and "consistency
check", Hay and others' tree, which is for one dimension: it is shown along rows, along a Hilbert curve and as a
quad-tree. The paper's DPCube is the uniform estimate with a quarter of epsilon for cells. Its threshold is not given,
so it is shown twice: as it follows from the noise, and at the best of the thresholds of `variance`, seen afterwards,
which no release could. Two more panels have systems that the paper does not compare with. Cells with the whole budget
are in all of them.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache, partial

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
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
    domain_of,
    exact_counts,
    from_to,
    places,
    size_words,
    table_words,
    trend,
)
from dpcube.research.reproduce.query_error import queries
from dpcube.research.reproduce.variance import SHARE, THRESHOLDS
from dpcube.research.rivals import OfStrategy, Rival, rival_of
from dpcube.research.strategies.hierarchical import Hierarchical
from dpcube.research.strategies.median_tree import MedianTree
from dpcube.strategies import DEFAULT, TwoPhase

EPSILONS_OF_FIGURE = tuple(map(Fraction, ("0.05", "0.1", "0.2", "0.5", "1")))
SIZES_AT = Fraction("0.2")
"""The epsilon at which errors are shown by size."""
SHOWN_RANGES = 1000
"""Queries given to systems that need them (`dawa`, `mwem`)."""
A_SIZE = 2000
"""Queries of each size, at most."""
HEIGHTS = (4, 6, 8, 10)
CONSISTENCY = {"consistency_rows": "row-major", "consistency_hilbert": "hilbert", "consistency_boxes": "boxes"}

BOTH = {
    "dpcube": CurveLook("DPCube, threshold follows noise", "dpcube follows"),
    "cells": CurveLook("cells, whole budget", "cells"),
    DEFAULT: CurveLook(DEFAULT, DEFAULT),
}
PAPERS = {
    **BOTH,
    "dpcube_best": CurveLook("DPCube, best threshold, seen afterwards", "dpcube"),
    "kd_tree": CurveLook("kd-tree, height 10", "kd-tree"),
    "kd_tree_best": CurveLook("kd-tree, best height, seen afterwards", "kd-tree best"),
    "consistency_rows": CurveLook("consistency, along rows", "consistency rows"),
    "consistency_hilbert": CurveLook("consistency, Hilbert curve", "consistency hilbert"),
    "consistency_boxes": CurveLook("consistency, quad-tree", "consistency boxes"),
}
ADDED_NAMES = (
    "uniform",
    "hb",
    "quad_tree",
    "ugrid",
    "agrid",
    "privelet",
    "matrix_mechanism",
    "dawa",
    "mwem",
    "privtree",
    "hdpview",
)
ADDED = {**BOTH, **{name: CurveLook(name, name) for name in ADDED_NAMES}}


@cache
def queries_by_size(grid: str) -> tuple[Workload, Ints]:
    """Return random queries of every size, at most `A_SIZE` of each, and the power of two below each one's cells."""
    asked = random_ranges(domain_of(grid).shape, 1_000_000, seed=1)
    power = np.floor(np.log2((asked.upper - asked.lower).prod(axis=1))).astype(np.int64)
    kept = np.concatenate([np.flatnonzero(power == k)[:A_SIZE] for k in np.unique(power)])
    return Workload(asked.shape, asked.lower[kept], asked.upper[kept]), power[kept]


def systems(grid: str) -> dict[str, list[Callable[[Fraction], Rival]]]:
    """Return every system by name, as functions of epsilon; of several the best is taken, seen afterwards."""
    shown = random_ranges(domain_of(grid).shape, SHOWN_RANGES, seed=0)
    trees: Mapping[str, list[Callable[[Fraction], Rival]]] = {
        name: [_always(OfStrategy(Hierarchical(order=order), "tree_least_squares"))]  # type: ignore[arg-type]
        for name, order in CONSISTENCY.items()
    }
    heights = [_always(OfStrategy(MedianTree(height=height), "tree_least_squares")) for height in HEIGHTS]
    return {
        "dpcube": [_always(OfStrategy(TwoPhase(share=SHARE), "uniform"))],
        "dpcube_best": [partial(_literal, threshold=threshold) for threshold in THRESHOLDS],
        "kd_tree": heights[-1:],
        "kd_tree_best": heights,
        **trees,
        **{name: [_always(rival_of(name, shown))] for name in ("cells", DEFAULT, *ADDED_NAMES)},
    }


def _always(rival: Rival) -> Callable[[Fraction], Rival]:
    return lambda _: rival


def _literal(epsilon: Fraction, *, threshold: float) -> Rival:
    """Return the paper's algorithm as written; xi0 in units of the variance of the noise of its cells."""
    floor = float(2 / (epsilon * SHARE) ** 2)
    return OfStrategy(TwoPhase(share=SHARE, noise_corrected=False, slack=0, threshold=threshold * floor), "uniform")


def measure_rivals(grid: str, draws: int, progress: Progress) -> Draws:
    """Measure the errors of `draws` releases of every system at every epsilon."""
    found, every = Gathered(), systems(grid)
    for done, (name, choices) in enumerate(every.items()):
        for epsilon in EPSILONS_OF_FIGURE:
            progress(f"{name} at epsilon {float(epsilon):g}, {size_words(grid)}: {done} of {len(every)} systems done")
            tried = [_errors(grid, made(epsilon), epsilon, draws) for made in choices]
            best = min(tried, key=lambda errors: float(np.mean(errors[0])))
            for panel, at, errors in _points(grid, name, epsilon, best):
                for error in errors:
                    found.add(panel, name, at, error)
    return found


def _errors(grid: str, rival: Rival, epsilon: Fraction, draws: int) -> tuple[list[float], list[Floats]]:
    """Return the mean error of the random queries in each draw, and at one epsilon those of every size."""
    exact, (sized, power) = exact_counts(grid), queries_by_size(grid)
    chosen = rival.strategy.parameters() if isinstance(rival, OfStrategy) else ""
    means, by_size = [], []
    for draw in range(draws):
        random = np.random.default_rng(seed_of("against rivals", grid, rival.name, chosen, epsilon, draw))
        estimated = rival.release(exact, float(epsilon), random)
        means.append(float(absolute_errors(exact, estimated, queries(grid)).mean()))
        if epsilon == SIZES_AT:
            wrong = absolute_errors(exact, estimated, sized)
            by_size.append(np.array([wrong[power == k].mean() for k in np.unique(power)]))
    return means, by_size


def _points(
    grid: str, name: str, epsilon: Fraction, errors: tuple[list[float], list[Floats]]
) -> Iterator[tuple[str, float, list[float]]]:
    """Yield what goes into which panel where: the paper's systems into (a) and (b), those added into (c) and (d)."""
    means, by_size = errors
    for known, (against_epsilon, against_size) in ((PAPERS, "ab"), (ADDED, "cd")):
        if name in known:
            yield against_epsilon, float(epsilon), means
            for place, k in enumerate(np.unique(queries_by_size(grid)[1]) if by_size else ()):
                yield against_size, float(2**k), [float(one[place]) for one in by_size]


def figure_of_rivals(grid: str, panels: tuple[CurvePanel, ...]) -> Figure:
    """Return the figure of some measured panels."""
    a, b, c, d = panels
    return Figure(
        f"comparison-{grid}",
        f"Query error beside other systems, {size_words(grid)}",
        "Figure-error-comparison",
        f"{table_words(grid)}; (a), (c): 100,000 random queries; (b), (d): epsilon = .2, up to 2,000 queries of each "
        f"size; means and 95% intervals of {a.curves[0].draws} releases",
        panels,
        (_best_against(a), _grows(b), _small_and_large(b)),
        _left_out(a, b, c, d),
        value_label="mean absolute error of queries",
        panels_a_line=2,
    )


RIVALS_OF_THE_PAPER = [name for name in PAPERS if name.startswith(("kd_tree", "consistency"))]


def _best_against(a: CurvePanel) -> Verdict:
    won = _where(a, {name: clearly_below(a, "dpcube", name) for name in RIVALS_OF_THE_PAPER})
    lost = _where(a, {name: clearly_below(a, name, "dpcube") for name in RIVALS_OF_THE_PAPER})
    won_at_best = _where(a, {name: clearly_below(a, "dpcube_best", name) for name in RIVALS_OF_THE_PAPER})
    lost_at_best = _where(a, {name: clearly_below(a, name, "dpcube_best") for name in RIVALS_OF_THE_PAPER})
    return Verdict(
        "DPCube has the least error of the three approaches, at every privacy budget.",
        f"Where its threshold follows the noise it is clearly better than: {won or 'none of them'}. At its best "
        f"threshold, seen afterwards, it is clearly better than: {won_at_best or 'none of them'}.",
        f"Clearly better than DPCube whose threshold follows the noise: {lost or 'none'}. Clearly better than DPCube "
        f"at its best threshold, seen afterwards: {lost_at_best or 'none'}.",
    )


def _where(panel: CurvePanel, found: Mapping[str, Bools]) -> str:
    """Return which systems something is so for, each with the epsilons."""
    return "; ".join(f"{PAPERS[name].label} ({places(panel, where)})" for name, where in found.items() if where.any())


def _grows(b: CurvePanel) -> Verdict:
    values: Floats = b["dpcube"]
    most, at = short_number(float(values.max())), float(b.at[values.argmax()])
    others = sum(trend(b, name) == "rises" for name in PAPERS)
    cited = "The figure that the paper cites as proof varies something else (E27)."
    return Verdict(
        "DPCube's error increases with the size of the query.",
        f"From the smallest to the largest it {trend(b, 'dpcube')}, {from_to(b, 'dpcube')}; that of {others} of the "
        f"{len(PAPERS)} systems in (b) rises.",
        f"Not to the end: the most is {most} at {at:,.0f} cells, and the largest queries have less. {cited}"
        if at < b.at[-1]
        else cited,
    )


def _small_and_large(b: CurvePanel) -> Verdict:
    better = _at_sizes(b, {name: clearly_below(b, "dpcube_best", name) for name in CONSISTENCY})
    worse = _at_sizes(b, {name: clearly_below(b, name, "dpcube_best") for name in CONSISTENCY})
    noisy = _at_sizes(b, {name: clearly_below(b, name, "dpcube") for name in CONSISTENCY})
    return Verdict(
        "For queries of reasonable size DPCube is better than consistency check, for large ones worse.",
        f"At its best threshold DPCube is clearly better than: {better}.",
        f"Clearly better than it are: {worse}. Clearly better than DPCube whose threshold follows the noise: {noisy}.",
    )


def _at_sizes(panel: CurvePanel, found: Mapping[str, Bools]) -> str:
    return "; ".join(f"{PAPERS[name].label} ({_sizes(panel, where)})" for name, where in found.items())


def _sizes(panel: CurvePanel, where: Bools) -> str:
    """Return sizes at which something is so as runs, in words."""
    if not where.any() or where.all():
        return "at no size" if not where.any() else "at every size"
    at = panel.at[where]
    solid = where[where.argmax() : len(where) - where[::-1].argmax()].all()
    return f"{'from' if solid else 'at some sizes from'} {at[0]:,.0f} to {2 * at[-1] - 1:,.0f} cells"


def _left_out(a: CurvePanel, b: CurvePanel, c: CurvePanel, d: CurvePanel) -> str:
    cells = places(a, clearly_below(a, "cells", "dpcube_best"))
    best = {float(x): min(ADDED, key=lambda name: c.value(name, float(x))) for x in c.at}
    named = ", ".join(f"{ADDED[name].label} at {x:g} ({short_number(c.value(name, x))})" for x, name in best.items())
    small = _sizes(b, clearly_below(b, "cells", "dpcube_best"))
    better = {name: (clearly_below(c, name, DEFAULT), clearly_below(d, name, DEFAULT)) for name in ADDED}
    at_epsilons = "; ".join(f"{name} ({places(c, where)})" for name, (where, _) in better.items() if where.any())
    at_sizes = "; ".join(f"{name} ({_sizes(d, where)})" for name, (_, where) in better.items() if where.any())
    return (
        f"Cells with the whole budget (E33) are clearly better than DPCube at its best threshold {cells} in (a), "
        f"{small} in (b). The least error of all in (c): {named}. Clearly better than the default of this "
        f"project: {at_epsilons or 'none'} in (c), {at_sizes or 'none'} in (d)."
    )


def _plans() -> tuple[PanelPlan, ...]:
    epsilon, size = ("epsilon", "privacy budget epsilon"), ("cells", "cells in the query, up to twice as many")
    return (
        PanelPlan("a", "the paper's rivals", *epsilon, PAPERS, log=True, spaced="log"),
        PanelPlan("b", "the paper's rivals, epsilon = .2", *size, PAPERS, log=True, spaced="log"),
        PanelPlan("c", "others", *epsilon, ADDED, log=True, spaced="log"),
        PanelPlan("d", "others, epsilon = .2", *size, ADDED, log=True, spaced="log"),
    )


AGAINST_RIVALS = MeasuredFigure(_plans(), measure_rivals, figure_of_rivals)
