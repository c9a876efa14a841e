"""Section 6.2 of the paper: the weighted variance of the released boxes against the threshold and against alpha1.

V is the sum over boxes of weight times the variance of the exact counts inside: an exact number, for public data. The
paper weighs by rows, the v-optimal histogram by cells (E4). Both are drawn as parts of V of one box, the whole cube.
alpha = .2, alpha1 = .05 unless it varies. The paper's threshold is not given: xi0 is in units of 800 = 2/.05^2, the
variance that the noise alone gives cells at alpha1 = .05 (E34).

*Histograms*: the original one of the census table, and the three that are released (spec 5). The table and the three
grids are those of `measured`. alpha1 = .05 for cells and alpha2 = .15 for boxes as in section 6.1; boxes are split by
the default threshold, which follows from the noise. Noise is drawn from a seed: the table is public.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np

from dpcube.core.boxes import Partitioning
from dpcube.core.gate import Gate
from dpcube.measurements import Provenance
from dpcube.models.metrics import absolute_errors
from dpcube.queries.random_ranges import random_ranges
from dpcube.release import Release
from dpcube.release.plots import HeatMap, Picture
from dpcube.release.plots.picture import heat_map
from dpcube.research.processes import seed_of
from dpcube.research.ratios import short_number
from dpcube.research.reproduce.figure import CurvePanel, Figure, Maps, Spacing, Verdict
from dpcube.research.reproduce.measured import (
    WIDTHS,
    CurveLook,
    Draws,
    Gathered,
    MeasuredFigure,
    PanelPlan,
    Progress,
    domain_of,
    exact_counts,
    from_to,
    size_words,
    table_words,
    trend,
)
from dpcube.strategies import FittedStrategy, TwoPhase
from dpcube.strategies.cells import Cells
from dpcube.testing import SeededNoise
from dpcube.trees.growth import Weight, grow, weighted_variance

ALPHA, SHARE = Fraction(1, 5), Fraction(1, 4)
FLOOR = 800.0
"""The variance of the noise of a cell at alpha1 = .05, the unit of xi0."""
THRESHOLDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
SHARES = tuple(Fraction(k, 20) for k in (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 19))
"""alpha1 as a part of alpha."""
BY_CELLS, BY_ROWS, NO_NOISE, FOLLOWING, CELLS = "V_cells", "V_rows", "V_exact", "V_follows", "V_cell_histogram"
CELLS_LOOK = CurveLook("every cell a box (Algorithm 1)", "cells")


def with_threshold(share: Fraction, threshold: float) -> TwoPhase:
    """Return the paper's algorithm as it is written, with xi0 in units of the noise floor."""
    return TwoPhase(share=share, noise_corrected=False, slack=0, threshold=threshold * FLOOR)


def _plans() -> tuple[PanelPlan, ...]:
    threshold: tuple[str, str, Spacing] = ("xi0", "threshold xi0, in units of 800", "log from 0")
    budget: tuple[str, str, Spacing] = ("alpha1", "alpha1 of .2", "evenly")
    variances = {
        BY_CELLS: CurveLook("weighted by cells", "dpcube"),
        BY_ROWS: CurveLook("weighted by rows, as written (E4)", "dpcube rows"),
    }
    no_noise = {NO_NOISE: CurveLook("by cells, boxes from exact counts", "even")}
    follows = {FOLLOWING: CurveLook("by cells, threshold follows noise", "dpcube follows")}
    boxes = {"boxes": CurveLook("boxes", "dpcube")}
    boxes_follow = {"boxes_follow": CurveLook("boxes, threshold follows noise", "dpcube follows")}
    found = []
    for letter, (axis, label, spaced), how, curves in (
        ("a", threshold, "xi0 varies", {**variances, **no_noise, CELLS: CELLS_LOOK}),
        ("b", budget, "xi0 = 800", {**variances, **follows, CELLS: CELLS_LOOK}),
    ):
        found.append(PanelPlan(letter, f"weighted variance, {how}", axis, label, curves, spaced=spaced))
    for letter, (axis, label, spaced), how, curves in (
        ("c", threshold, "xi0 varies", {**boxes, "cells": CELLS_LOOK}),
        ("d", budget, "xi0 = 800", {**boxes, **boxes_follow, "cells": CELLS_LOOK}),
    ):
        title = f"number of boxes, {how}"
        found.append(PanelPlan(letter, title, axis, label, curves, log=True, spaced=spaced, value_label="boxes"))
    return tuple(found)


def measure_variance(grid: str, draws: int, progress: Progress) -> Draws:
    """Measure V and the number of boxes of `draws` releases for each point."""
    found = Gathered()
    for draw in range(draws):
        progress(f"variance of boxes, {size_words(grid)}: draw {draw + 1} of {draws}")
        for at in THRESHOLDS:
            boxes = released_boxes(grid, with_threshold(SHARE, at), draw)
            _add_both(found, grid, "ac", at, boxes)
            found.add("a", NO_NOISE, at, part_of_one_box(grid, exact_boxes(grid, at)))
        for share in SHARES:
            at = float(share * ALPHA)
            _add_both(found, grid, "bd", at, released_boxes(grid, with_threshold(share, 1.0), draw))
            boxes = released_boxes(grid, TwoPhase(share=share), draw)
            found.add("b", FOLLOWING, at, part_of_one_box(grid, boxes))
            found.add("d", "boxes_follow", at, len(boxes))
    return found


def _add_both(found, grid: str, panels: str, at: float, boxes: Partitioning) -> None:  # type: ignore[no-untyped-def]
    found.add(panels[0], BY_CELLS, at, part_of_one_box(grid, boxes))
    found.add(panels[0], BY_ROWS, at, part_of_one_box(grid, boxes, by_rows=True))
    found.add(panels[0], CELLS, at, 0.0)
    found.add(panels[1], "boxes", at, len(boxes))
    found.add(panels[1], "cells", at, exact_counts(grid).size)


def released_boxes(grid: str, strategy: TwoPhase, draw: int) -> Partitioning:
    """Return the boxes of one release."""
    seed = seed_of("variance", grid, strategy.share, strategy.threshold, strategy.noise_corrected, draw)
    measured = strategy.run(Gate(exact_counts(grid), ALPHA, noise=SeededNoise(seed))).boxes
    assert measured is not None
    return measured.tree.partitioning()


def exact_boxes(grid: str, threshold: float) -> Partitioning:
    """Return the boxes that exact counts would give, which nobody may release."""
    return grow(exact_counts(grid), threshold=threshold * FLOOR).partitioning()


def part_of_one_box(grid: str, boxes: Partitioning, *, by_rows: bool = False) -> float:
    """Return V of some boxes over V of one box that is the whole cube."""
    counts = exact_counts(grid)
    weight: Weight = "records" if by_rows else "cells"
    whole = Partitioning(counts.shape, np.zeros((1, counts.ndim), np.int64), np.array([counts.shape]))
    return weighted_variance(counts, boxes, weight=weight) / weighted_variance(counts, whole, weight=weight)


def figure_of_variance(grid: str, panels: tuple[CurvePanel, ...]) -> Figure:
    """Return the figure of some measured panels."""
    a, b, c, d = panels
    return Figure(
        f"variance-{grid}",
        f"Weighted variance of the boxes, {size_words(grid)}",
        "fig:variance",
        f"{table_words(grid)}; alpha = .2, alpha1 = .05 unless it varies; V over V of one box; means and 95% intervals "
        f"of {a.curves[0].draws} releases",
        panels,
        (_against_threshold(a, c), _against_budget(b, d)),
        "Cells: their V is 0 whatever the budget (the line at the bottom). V counts what boxes hide and nothing of the "
        f"noise that they save, so it falls with every cut. {_weights(a)} Nor is the threshold given: xi0 is "
        "compared with the variance of noisy cells, of which 800 is noise (E34).",
        value_label="V, as a part of that of one box",
        panels_a_line=2,
    )


def _against_threshold(a: CurvePanel, c: CurvePanel) -> Verdict:
    few, many = short_number(c.value("boxes", 2.0)), short_number(c.value("boxes", 0.5))
    noisy, exact = (short_number(a.value(curve, 4.0)) for curve in (BY_CELLS, NO_NOISE))
    return Verdict(
        "With a larger threshold less is partitioned, which increases the variance.",
        f"V {trend(a, BY_CELLS)} with xi0, from {from_to(a, BY_CELLS)} (by cells), and the number of boxes goes from "
        f"{from_to(c, 'boxes')}.",
        f"Below the noise's own variance it is noise that is cut: at xi0 = 400 there are {many} boxes for "
        f"{c['cells'][0]:,.0f} cells, at 1,600 {few}. At 3,200 V is {noisy}, where boxes from exact counts would have "
        f"{exact}.",
    )


def _against_budget(b: CurvePanel, d: CurvePanel) -> Verdict:
    goes, boxes = trend(b, BY_CELLS), from_to(d, "boxes")
    why = (
        f"That is no randomness: with less noise there are fewer cuts at the same xi0 ({boxes} boxes), and noise that "
        "is cut into single cells has a small V."
        if goes == "rises"
        else f"But the number of boxes changes with it ({boxes}), and V counts that as well as how good they are."
    )
    return Verdict(
        "At a fixed threshold the relation with alpha1 is not clear; the variance should decrease as alpha1 increases, "
        "for better partitions.",
        f"With a threshold that follows the noise V {trend(b, FOLLOWING)}: {from_to(b, FOLLOWING)} as alpha1 goes from "
        ".01 to .19.",
        f"At a fixed one V {goes}: {from_to(b, BY_CELLS)}. {why}",
    )


def _weights(a: CurvePanel) -> str:
    text = f"Weighted by rows, as the paper writes (E4), V goes from {from_to(a, BY_ROWS)}"
    most = float(a[BY_ROWS].max())
    return f"{text}, up to {short_number(most)}: cutting can increase it." if most > 1 else f"{text}."


VARIANCE = MeasuredFigure(_plans(), measure_variance, figure_of_variance)


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
