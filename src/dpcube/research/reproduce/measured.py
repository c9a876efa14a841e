"""Figures whose curves are measured: means of releases with 95% intervals, also read back from recorded CSV.

The sentences about a figure are made from its panels alone, so that a page follows from the recorded numbers. The table
of the paper's experiments is the first 10^4 rows of Adult on two attributes, on three grids (spec 5). The paper takes
Age and Income; Adult has no numeric income (E32), so hours-per-week replaces it. The paper does not give the number of
cells, which matters more than anything else, so there are three grids.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from dpcube import datasets
from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Domain, Integer
from dpcube.core.errors import InputError
from dpcube.curator.publishing import count
from dpcube.research.ratios import mean_and_reach, short_number
from dpcube.research.reproduce.figure import MEASURED_COLUMNS, Curve, CurvePanel, Figure, Spacing

ROWS = 10_000
WIDTHS = {"coarse": (10, 10), "middle": (4, 5), "fine": (1, 1)}
"""Years of age and hours per week in a bin."""


def domain_of(grid: str) -> Domain:
    """Return the two attributes on one of the three grids."""
    years, hours = WIDTHS[grid]
    age = Integer(name="age", min=17, max=90, width=years)
    return Domain((age, Integer(name="hours-per-week", min=1, max=99, width=hours)))


@cache
def exact_counts(grid: str) -> Ints:
    """Return the counts of the first rows of the bundled table, which is public."""
    return count(pq.read_table(datasets.adult_table()).slice(0, ROWS), domain_of(grid))


def size_words(grid: str) -> str:
    """Return how many cells a grid has along its axes."""
    return "{} x {} cells".format(*domain_of(grid).shape)


def table_words(grid: str) -> str:
    """Return which table it is, on which grid."""
    return f"age and hours-per-week of the first 10,000 rows of Adult, {size_words(grid)}"


DRAWS = 30
"""Releases behind each mean, unless asked otherwise."""

Progress = Callable[[str], None]
Draws = Mapping[tuple[str, str], Mapping[float, Sequence[float]]]
"""What was measured, draw by draw: by panel and curve, and by the place on the axis."""


class Gathered(dict[tuple[str, str], dict[float, list[float]]]):
    """Draws as they come in."""

    def add(self, panel: str, curve: str, at: float, value: float) -> None:
        """Add one draw of a point."""
        self.setdefault((panel, curve), {}).setdefault(at, []).append(float(value))


class CurveLook(NamedTuple):
    """What a curve is called in a picture, and which role it has."""

    label: str
    role: str


@dataclass(frozen=True, slots=True)
class PanelPlan:
    """A panel that is still without numbers; its curves by name, in the order in which they are drawn."""

    name: str
    title: str
    axis: str
    axis_label: str
    curves: Mapping[str, CurveLook]
    log: bool = False
    spaced: Spacing = "evenly"
    value_label: str = ""

    def panel(self, at: Floats, curves: tuple[Curve, ...]) -> CurvePanel:
        """Return the panel with its numbers."""
        place = self.name, self.title, self.axis, self.axis_label, at, curves
        return CurvePanel(*place, log=self.log, spaced=self.spaced, value_label=self.value_label)


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """A kind of figure on each grid: its panels, how they are measured, and the sentences about them."""

    plans: tuple[PanelPlan, ...]
    measure: Callable[[str, int, Progress], Draws]
    figure: Callable[[str, tuple[CurvePanel, ...]], Figure]

    def make(self, grid: str, *, draws: int = DRAWS, progress: Progress = lambda _: None) -> Figure:
        """Measure the figure on a grid, each point by a number of draws."""
        return self.figure(grid, measured_panels(self.plans, self.measure(grid, draws, progress)))

    def read(self, grid: str, text: str) -> Figure:
        """Return the figure that was recorded as CSV."""
        return self.figure(grid, recorded_panels(self.plans, text))

    def on_every_grid(self, name: str) -> dict[str, Callable[..., Figure]]:
        """Return the functions that make it on each grid, by the figures' names."""
        return {f"{name}-{grid}": partial(self.make, grid) for grid in WIDTHS}


def measured_panels(plans: Sequence[PanelPlan], draws: Draws) -> tuple[CurvePanel, ...]:
    """Return the measured panels with nine digits, as they will be read back."""
    panels = []
    for plan in plans:
        found = {name: draws[plan.name, name] for name in plan.curves}
        at = np.array(sorted(next(iter(found.values()))))
        curves = [_curve(name, plan.curves[name], [found[name][x] for x in at]) for name in plan.curves]
        panels.append(plan.panel(at, tuple(curves)))
    return tuple(panels)


def _curve(name: str, look: CurveLook, draws: Sequence[Sequence[float]]) -> Curve:
    means = np.array([[float(f"{number:.9g}") for number in mean_and_reach(some)] for some in draws])
    return Curve(name, look.label, look.role, means[:, 0], means[:, 1], len(draws[0]))


def recorded_panels(plans: Sequence[PanelPlan], text: str) -> tuple[CurvePanel, ...]:
    """Return the panels of a recorded CSV, which must have exactly the planned curves."""
    rows = list(csv.DictReader(io.StringIO(text)))
    known = {(plan.name, name) for plan in plans for name in plan.curves}
    if (
        not rows
        or not {"value", *MEASURED_COLUMNS} <= rows[0].keys()
        or {(r["panel"], r["curve"]) for r in rows} != known
    ):
        msg = "the recorded numbers are not of this figure's curves; record them anew"
        raise InputError(msg)
    panels = []
    for plan in plans:
        of = {name: [r for r in rows if (r["panel"], r["curve"]) == (plan.name, name)] for name in plan.curves}
        at = np.array([float(row["at"]) for row in next(iter(of.values()))])
        panels.append(plan.panel(at, tuple(_read(name, plan.curves[name], some) for name, some in of.items())))
    return tuple(panels)


def _read(name: str, look: CurveLook, rows: list[dict[str, Any]]) -> Curve:
    values, reach = (np.array([float(row[column]) for row in rows]) for column in ("value", "reach"))
    return Curve(name, look.label, look.role, values, reach, int(rows[0]["draws"]))


def clearly_below(panel: CurvePanel, curve: str, other: str) -> Bools:
    """Return where one curve is below another, and not by chance: beyond the 95% interval of their difference."""
    one, two = (next(c for c in panel.curves if c.name == name) for name in (curve, other))
    assert one.reach is not None
    assert two.reach is not None
    return np.asarray(two.values - one.values > np.hypot(one.reach, two.reach))


def clearly_changes(panel: CurvePanel, curve: str, first: int, last: int) -> bool:
    """Return whether a curve has different values at two of its places, and not by chance."""
    drawn = next(c for c in panel.curves if c.name == curve)
    assert drawn.reach is not None
    return bool(abs(drawn.values[last] - drawn.values[first]) > np.hypot(drawn.reach[first], drawn.reach[last]))


def trend(panel: CurvePanel, curve: str) -> str:
    """Return whether a curve rises, falls or does neither from its first place to its last, beyond chance."""
    if not clearly_changes(panel, curve, 0, -1):
        return "does not change beyond chance"
    return "rises" if panel[curve][-1] > panel[curve][0] else "falls"


def from_to(panel: CurvePanel, curve: str) -> str:
    """Return the values of a curve at both ends in words."""
    return f"{short_number(panel[curve][0])} to {short_number(panel[curve][-1])}"


def places(panel: CurvePanel, where: Bools) -> str:
    """Return the places of an axis at which something is so, in words."""
    if not where.any():
        return "nowhere"
    return "everywhere" if where.all() else "at " + ", ".join(f"{x:g}" for x in panel.at[where])
