"""Bounds and bins of a column from noisy counts on public grids: post-processing, which sees no row.

A coarse cell is found if its noisy count reaches ln(1 / (m w)) / epsilon, where w is its share of a public prior and m
the expected number of false cells, twice over. The bounds go from the first found cell to the last one, and inside
these two to where the noisy fine counts begin. What lies beyond is clipped, or has a cell of its own.
"""

import math
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.domain import Attribute, Date, Float, Integer
from dpcube.core.domain.calendar import Every
from dpcube.curator.column_readings import ColumnReading, Grid, round_numbers
from dpcube.curator.draft import WANTED_BINS, round_width

FALSE_CELLS = 0.01
"""The m of thresholds."""
END_SCALES = 2
"""Scales of noise, beside its growing deviation, that fine counts from an end add up to where the bounds begin."""
TWO_DECADES = 100
SKEWED = 5
"""How many times the median the upper bound is of a column that gets bins of equal ratios."""


class Span(NamedTuple):
    """The found fine cells: the first, the last, that of the median, and the least positive edge of a coarse one."""

    first: int
    last: int
    median: int
    least: float


def least_count(prior: float, epsilon: Fraction) -> int:
    """Return the noisy count with which a cell of this share of the prior is found."""
    return max(1, math.ceil(math.log(1 / (FALSE_CELLS * prior)) / float(epsilon)))


def found_span(grid: Grid, coarse: Ints, fine: Ints, epsilons: tuple[Fraction, Fraction]) -> Span | None:
    """Return the cells between the bounds, by noisy counts of coarse and of fine cells; None if no cell is found."""
    least = np.array([least_count(prior, epsilons[0]) for prior in grid.prior])
    found = np.flatnonzero(coarse[: len(least)] >= least)
    if not found.size:
        return None
    scale = 1 / float(epsilons[1])
    lowest, highest = (np.flatnonzero(grid.coarse == cell) for cell in (found[0], found[-1]))
    first, last = _end(fine, lowest, scale), _end(fine, highest[::-1], scale)
    if first > last:  # within one coarse cell the two ends may cross
        first, last = int(lowest[0]), int(highest[-1])
    until = np.cumsum(fine[first : last + 1])
    median = first + int(np.argmax(until >= until[-1] / 2)) if until[-1] > 0 else first
    starts = grid.edges[[np.flatnonzero(grid.coarse == cell)[0] for cell in found]]
    return Span(first, last, median, float(min(starts[starts > 0], default=grid.edges[last + 1])))


def _end(fine: Ints, cells: Ints, scale: float) -> int:
    """Return the first of the cells by which the noisy counts add up to more than noise, or else the first of all.

    The noise of n cells together has a standard deviation of sqrt(2 n) scales at most.
    """
    enough = (END_SCALES + 1.2 * np.sqrt(2 * np.arange(1, len(cells) + 1))) * scale
    return int(cells[int(np.argmax(np.cumsum(fine[cells]) > enough))])


def number_attribute(
    name: str, grid: Grid, span: Span, reading: ColumnReading, *, whole: bool, own: dict[str, Any]
) -> Attribute:
    """Return an attribute of numbers: in equal widths, or in equal ratios if they are skewed over two decades."""
    low, high = float(grid.edges[span.first]), float(grid.edges[span.last + 1])
    if 0 < low < high / TWO_DECADES:
        low = 0.0
    options = {**own, **reading.options, "outside": "clip"}
    kind: type[Integer | Float] = Integer if whole else Float
    if whole:
        options.pop("nan", None)
    top = float(grid.edges[min(span.median + 1, len(grid.edges) - 1)])
    if low >= 0 and high >= TWO_DECADES * span.least and high >= SKEWED * max(top, 0.0):
        between = [edge for edge in round_numbers() if max(low, span.least) < edge < high]
        edges = sorted({low, max(low, span.least), *between, high})
        return kind(name, edges=_whole_edges(edges) if whole else tuple(edges), **options)
    if whole:
        first, end = math.ceil(low), max(math.ceil(high), math.ceil(low) + 1)
        return Integer(
            name, first, end - 1, width=int(float(round_width((end - first) / WANTED_BINS, whole=True))), **options
        )
    width = float(round_width((high - low) / WANTED_BINS, whole=False))
    if width * WANTED_BINS > 2 * (high - low):  # narrower than a millionth: the grid's own cells
        return Float(name, edges=tuple(grid.edges[span.first : span.last + 2].tolist()), **options)
    return Float(name, low, high, width=width, **options)


def _whole_edges(edges: list[float]) -> tuple[int, ...]:
    """Return the whole numbers at which bins of whole numbers begin; one bin at least."""
    whole = sorted({math.ceil(edge) for edge in edges})
    return (*whole, *([] if len(whole) > 1 else [whole[0] + 1]))


def date_attribute(name: str, grid: Grid, span: Span, reading: ColumnReading, *, own: dict[str, Any]) -> Attribute:
    """Return an attribute of dates, by day up to a quarter, by month up to twenty years, and by year beyond."""
    start = date.fromordinal(int(grid.edges[span.first]))
    end = date.fromordinal(int(grid.edges[span.last + 1])) - timedelta(1)
    days = (end - start).days
    every: Every = "day" if days < 93 else "month" if days < 366 * 20 else "year"
    return Date(name, start, end, every=every, outside="clip", **own, **reading.options)  # type: ignore[arg-type]
