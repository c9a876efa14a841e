"""Panels of a picture as data, independent of a back end: bar charts of marginals and heat maps.

Two back ends draw them: `interactive` makes Plotly figures, `static` SVG and PNG files by matplotlib.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import QueryError
from dpcube.models import Estimate
from dpcube.queries import CountingQueries, CountingQuery, Workload, query
from dpcube.queries.counting import cut_queries
from dpcube.release.answer import MODELLED, Answers
from dpcube.release.plots.axis import LONGEST_NAME, Axis, axis_of, printable
from dpcube.release.plots.outlines import Outlines, outlines
from dpcube.release.release import Release

LONGEST_WHERE = 500
MAX_BARS, MAX_UNORDERED_BARS, MAX_MAP_BINS = 40, 80, 100
"""Bins of a marginal, ordered or unordered, and of each axis of a heat map; neighbours are merged beyond."""


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """A marginal: the estimated count of each bin of one attribute, with its confidence interval.

    `is_modelled` says that some of the counts come from a model (docs/guides/wide-tables.md).
    """

    title: str
    axis: Axis
    values: Floats
    low: Floats
    high: Floats
    is_modelled: bool = False

    @property
    def whiskers(self) -> Floats:
        """Lengths of the error bars below and above each value, as two rows."""
        return np.maximum([self.values - self.low, self.high - self.values], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """Estimated counts of two attributes, `values[i, j]` at bin i of `x` and j of `y`, with half their intervals."""

    title: str
    x: Axis
    y: Axis
    values: Floats
    outlines: Outlines | None = None
    half_width: Floats | None = None
    is_modelled: bool = False


Panel = Bars | HeatMap


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Panels under one title; the heat maps of a picture share one scale of colours."""

    title: str
    note: str
    panels: tuple[Panel, ...]

    @property
    def top(self) -> float:
        """The count of the darkest colour."""
        return max([1.0, *(float(panel.values.max()) for panel in self.panels if isinstance(panel, HeatMap))])

    @property
    def columns(self) -> int:
        """Number of panels in a row."""
        return len(self.panels) if len(self.panels) <= 3 else 2


def picture(
    release: Release,
    *attributes: str,
    stages: bool = False,
    where: str | None = None,
    estimate: str = "auto",
    confidence: float = 0.95,
    boxes: bool = True,
) -> Picture:
    """Return the picture of a release: a marginal, a heat map of two attributes, or without names all marginals.

    `stages` draws a heat map of the noisy cells, of the noisy boxes and of the estimate, side by side.
    """
    if len(attributes) > 2 or len(set(attributes)) < len(attributes):
        msg = f"a picture shows one attribute, two different ones, or all (none named); got {', '.join(attributes)}"
        raise QueryError(msg)
    if stages and len(attributes) != 2:
        msg = (
            f"stages are drawn over two attributes, got {len(attributes)}; name two of {listing(release.domain.names)}"
        )
        raise QueryError(msg)
    if len(attributes) == 2:
        panels = _maps(release, attributes, stages=stages, where=where, estimate=estimate, confidence=confidence)
        shown = tuple(panel if boxes else replace(panel, outlines=None) for panel in panels)
        return Picture(_title(attributes), note(release, shown, where, confidence), shown)
    named = attributes or release.domain.names
    bars = tuple(marginal(release, name, where=where, estimate=estimate, confidence=confidence) for name in named)
    return Picture(_title(attributes or ("every attribute",)), note(release, bars, where, confidence), bars)


def _title(names: Sequence[str]) -> str:
    return f"Rows by {' and '.join(printable(name, longest=LONGEST_NAME) for name in names)}"


def note(release: Release, panels: Sequence[Panel], where: str | None, confidence: float) -> str:
    """Return the note of a picture: what is drawn, of which release."""
    made = release.provenance
    said = [f"estimated from a release with epsilon {made.epsilon}" if made.private else "NOT PRIVATE: an experiment"]
    said += [f"where {printable(where, longest=LONGEST_WHERE)}"] if where else []
    cut = cut_queries(release.domain, CountingQueries.of(query(release.domain, where))) if where else None
    said += [] if cut is None else [f"which {cut.words[0]}"]
    if any(isinstance(panel, Bars) for panel in panels):
        said.append(f"whiskers: {100 * confidence:.4g}% confidence intervals")
    if any(panel.is_modelled for panel in panels):
        said.append(f"{MODELLED}: these attributes were not all counted together")
    drawn = [p.outlines for p in panels if isinstance(p, HeatMap) and p.outlines is not None]
    if drawn:
        thinned = "" if drawn[0].boxes == drawn[0].of else f" (merged to {drawn[0].boxes:,})"
        fainter = (
            ", fainter where only some of the boxes behind one another end" if len(release.domain.names) > 2 else ""
        )
        said.append(f"lines: ends of the {drawn[0].of:,} boxes that were counted{thinned}{fainter}")
    return "; ".join(said)


def marginal(
    release: Release, name: str, *, where: str | None = None, estimate: str = "auto", confidence: float = 0.95
) -> Bars:
    """Return the marginal of one attribute with confidence intervals."""
    attribute = release.domain[name]
    axis = axis_of(attribute, most=MAX_BARS if attribute.ordered else MAX_UNORDERED_BARS)
    at = release.domain.axis(name)
    if where is None:
        answers = release.answer(_grid(release, {at: axis}), estimate=estimate)
    else:
        asked = _within(query(release.domain, where), at, axis)
        answers = Answers.asked(release.domain, release.estimate(estimate), asked)
    low, high = answers.interval(confidence)
    return Bars(axis.name, axis, answers.values, low, high, _any_modelled(answers))


def _any_modelled(answers: Answers) -> bool:
    return answers.modelled is not None and bool(answers.modelled.any())


def _within(asked: CountingQuery, at: int, axis: Axis) -> CountingQueries:
    """Return a query restricted to each display bin of an axis."""
    cells = np.arange(len(asked.weights[at]))
    drawn = (cells >= axis.starts[:, None]) & (cells < axis.stops[:, None])
    weights, parts = [w[None] for w in asked.weights], [p[None] for p in asked.parts]
    weights[at], parts[at] = weights[at] * drawn, parts[at] & drawn
    chosen = np.zeros((len(axis), len(weights)), np.int64)
    chosen[:, at] = np.arange(len(axis))
    return CountingQueries(tuple(weights), chosen, tuple(parts))


def heat_map(
    release: Release,
    names: Sequence[str],
    *,
    where: str | None = None,
    estimate: str = "auto",
    confidence: float = 0.95,
    title: str = "",
) -> HeatMap:
    """Return the estimated counts of two attributes, with the outlines of the measured boxes."""
    x, y = (axis_of(release.domain[name], most=MAX_MAP_BINS) for name in names)
    at = release.domain.axis(names[0]), release.domain.axis(names[1])
    counted = release.transcript.boxes
    lines = None if counted is None or estimate == "cells" else outlines(counted.tree, (at[0], x), (at[1], y))
    half_width, is_modelled = None, release.transcript.is_wide
    if where is None:
        workload = _grid(release, {at[0]: x, at[1]: y})
        answers = release.answer(workload, estimate=estimate)
        values = answers.values.reshape(len(x), len(y))
        half_width, is_modelled = answers.half_width(confidence).reshape(values.shape), _any_modelled(answers)
    else:
        values = coarsen(_chosen(release.estimate(estimate), query(release.domain, where), at), x, y)
    return HeatMap(title, x, y, values, lines, half_width, is_modelled)


def _grid(release: Release, drawn: dict[int, Axis]) -> Workload:
    """Return a range for each combination of display bins, the first axis slowest, all other axes whole."""
    shape = release.domain.shape
    places = np.meshgrid(*(np.arange(len(axis)) for axis in drawn.values()), indexing="ij")
    count = math.prod(len(axis) for axis in drawn.values())
    lower, upper = np.zeros((count, len(shape)), np.int64), np.tile(np.array(shape, np.int64), (count, 1))
    for (at, axis), place in zip(drawn.items(), places, strict=True):
        lower[:, at], upper[:, at] = axis.starts[place.ravel()], axis.stops[place.ravel()]
    return Workload(shape, lower, upper)


def _chosen(estimate: Estimate, asked: CountingQuery, at: tuple[int, int]) -> Floats:
    """Return the cells that a query counts, summed over all axes except two."""
    cells = estimate.cells()
    for j in reversed(range(cells.ndim)):
        if j in at:
            cells = cells * asked.weights[j].reshape([-1 if k == j else 1 for k in range(cells.ndim)])
        else:
            cells = np.tensordot(cells, asked.weights[j], axes=([j], [0]))
    return cells if at[0] < at[1] else cells.T


def coarsen(cells: Floats, x: Axis, y: Axis) -> Floats:
    """Return counts of the display bins from those of a table of two attributes."""
    rows: Floats = np.add.reduceat(cells, x.starts, axis=0)
    return np.asarray(np.add.reduceat(rows, y.starts, axis=1), np.float64)


def _maps(
    release: Release,
    names: Sequence[str],
    *,
    stages: bool,
    where: str | None,
    estimate: str,
    confidence: float,
) -> list[HeatMap]:
    if not stages:
        return [heat_map(release, names, where=where, estimate=estimate, confidence=confidence)]
    drawn = {
        chosen: heat_map(release, names, where=where, estimate=chosen, confidence=confidence, title=title)
        for title, chosen in stages_of(release).items()
    }  # only the stage of noisy boxes has outlines
    return [panel if chosen == "uniform" else replace(panel, outlines=None) for chosen, panel in drawn.items()]


def stages_of(release: Release) -> dict[str, str]:
    """Return the estimates of the stages of a release by their titles: noisy cells, noisy boxes, the best estimate."""
    stages = {}
    transcript = release.transcript
    if transcript.cells is not None:
        stages["noisy cells"] = "cells"
    if transcript.boxes is not None:
        _, variances = transcript.boxes.by_node(transcript.epsilon_per_unit)
        if np.isfinite(variances[transcript.boxes.tree.leaves]).all():
            stages["noisy boxes, spread evenly"] = "uniform"
    best = release.default_estimate
    if best not in stages.values():
        stages[f"estimate: {best}"] = best
    return stages
