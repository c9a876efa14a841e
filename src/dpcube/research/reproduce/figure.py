"""Figures as numbers: panels of curves or maps of counts, with the paper's claims and verdicts on them."""

import csv
import io
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.release.plots import HeatMap, Picture

Spacing = Literal["evenly", "log", "log from 0"]
MEASURED_COLUMNS = ("reach", "draws")
"""What a file of numbers that were measured has beside them."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line of a panel. Curves of one role look the same in every figure.

    One that was measured has means for values, with 95% intervals of `reach` to both sides over `draws`; one
    that was computed has none.
    """

    name: str
    label: str
    role: str
    values: Floats
    reach: Floats | None = None
    draws: int = 0


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Curves over one axis; `mark` is the place of a vertical line on the axis, with its label.

    `spaced` says how places lie along the axis: by their numbers, by logarithms, or by logarithms from 0 on.
    `value_label` stands at a panel that does not show what the figure's others do.
    """

    name: str
    title: str
    axis: str
    axis_label: str
    at: Floats
    curves: tuple[Curve, ...]
    log: bool = False
    mark: tuple[float, str] | None = None
    spaced: Spacing = "evenly"
    value_label: str = ""

    def __getitem__(self, curve: str) -> Floats:
        """Return the values of a curve by its name."""
        return next(c.values for c in self.curves if c.name == curve)

    def value(self, curve: str, at: float) -> float:
        """Return the value of a curve at a place of the axis that was computed."""
        return float(self[curve][np.flatnonzero(np.isclose(self.at, at))[0]])


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim of the paper, the part that holds and the part that does not."""

    claim: str
    holds: str
    fails: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper; `label` is the paper's own, `left_out` what the paper should have drawn beside it."""

    name: str
    title: str
    label: str
    setting: str
    panels: tuple[CurvePanel, ...]
    verdicts: tuple[Verdict, ...]
    left_out: str
    value_label: str = field(default="expected absolute error")
    panels_a_line: int = 3

    def panel(self, name: str) -> CurvePanel:
        """Return a panel by its letter."""
        return next(panel for panel in self.panels if panel.name == name)

    def csv(self) -> str:
        """Return the numbers behind the figure, to nine significant digits, one per line.

        >>> line = Curve("E_LS", "least squares", "least squares", np.array([37.0479270541]))
        >>> panel = CurvePanel("a", "one point", "s", "query size s", np.array([5.0]), (line,))
        >>> print(Figure("f", "t", "l", "", (panel,), (), "").csv().splitlines())
        ['panel,axis,at,curve,value', 'a,s,5,E_LS,37.0479271']
        """
        measured = any(curve.reach is not None for panel in self.panels for curve in panel.curves)
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("panel", "axis", "at", "curve", "value", *(MEASURED_COLUMNS if measured else ())))
        for panel in self.panels:
            for curve in panel.curves:
                for place, (at, value) in enumerate(zip(panel.at, curve.values, strict=True)):
                    row = (panel.name, panel.axis, f"{at:.9g}", curve.name, f"{value:.9g}")
                    lines.writerow((*row, *_measured_cells(curve, place)) if measured else row)
        return text.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the picture, for JSON."""
        panels = [
            {
                "panel": panel.name,
                "title": panel.title,
                "axis": panel.axis,
                "at": panel.at.tolist(),
                "curves": {curve.name: curve.values.tolist() for curve in panel.curves},
                "reach_of_95%": {c.name: c.reach.tolist() for c in panel.curves if c.reach is not None},
            }
            for panel in self.panels
        ]
        return _told(self, panels)


@dataclass(frozen=True, slots=True, eq=False)
class Maps:
    """A figure of the paper that shows counts over two attributes, with verdicts as in `Figure`."""

    name: str
    title: str
    label: str
    setting: str
    picture: Picture
    verdicts: tuple[Verdict, ...]
    left_out: str

    @property
    def maps(self) -> dict[str, HeatMap]:
        """The panels by their letters."""
        return {chr(ord("a") + k): p for k, p in enumerate(self.picture.panels) if isinstance(p, HeatMap)}

    def csv(self) -> str:
        """Return the counts of each panel as a table, to five significant digits."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        for letter, panel in self.maps.items():
            lines.writerow(("panel", f"{panel.x.name} / {panel.y.name}", *panel.y.labels))
            for label, row in zip(panel.x.labels, panel.values, strict=True):
                lines.writerow((letter, label, *(f"{value:.5g}" for value in row)))
        return text.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the picture, for JSON."""
        panels = [
            {
                "panel": letter,
                "title": panel.title,
                panel.x.name: list(panel.x.labels),
                panel.y.name: list(panel.y.labels),
                "counts": panel.values.tolist(),
            }
            for letter, panel in self.maps.items()
        ]
        return _told(self, panels)


def _measured_cells(curve: Curve, place: int) -> tuple[str, str]:
    return ("", "") if curve.reach is None else (f"{curve.reach[place]:.9g}", str(curve.draws))


def _told(figure: Figure | Maps, panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": figure.name,
        "title": figure.title,
        "paper_label": figure.label,
        "setting": figure.setting,
        "panels": panels,
        "verdicts": [{"claim": v.claim, "holds": v.holds, "fails": v.fails} for v in figure.verdicts],
        "left_out_by_the_paper": figure.left_out,
    }


def curve(name: str, label: str, role: str, values: ArrayLike, at: Floats) -> Curve:
    """Return a curve over the places `at`; a single value makes a horizontal line."""
    return Curve(name, label, role, np.broadcast_to(np.asarray(values, np.float64), at.shape))
