"""Figures as pictures, with matplotlib: SVG and PNG from one drawing, without a browser.

Curves are told apart by dash and marker as well as by colour (Okabe and Ito's, which colour-blind readers tell apart),
and named beside their ends. Text becomes outlines, so that an SVG looks the same everywhere.
"""

import hashlib
import io
from typing import Any

import numpy as np

from dpcube.analyst.plots import static
from dpcube.arrays import Floats
from dpcube.errors import InputError
from dpcube.evaluate.reproduce.figure import CurvePanel, Figure, Maps

CURVE_STYLES: dict[str, dict[str, Any]] = {
    "least squares": {"color": "#000000", "linestyle": "-", "marker": "o"},
    "weighted": {"color": "#595959", "linestyle": (0, (6, 2)), "marker": "D", "markerfacecolor": "white"},
    "bound": {"color": "#0072B2", "linestyle": (0, (4, 2)), "marker": "s"},
    "worst": {"color": "#0072B2", "linestyle": "-", "marker": "^"},
    "formula": {"color": "#AA4499", "linestyle": (0, (1, 1.5)), "marker": "x"},
    "even": {"color": "#56707F", "linestyle": (0, (5, 1.5, 1, 1.5)), "marker": "v"},
    "cells": {"color": "#D55E00", "linestyle": "-", "marker": None, "linewidth": 2.6},
}
CURVE: dict[str, Any] = {"linewidth": 1.4, "markersize": 3.6, "clip_on": False}
FIGURE_FONT: Any = {"font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9}
WIDTH, HEIGHT = 4.3, 3.1
_MARKERS = 11
_LABEL_GAP = 0.072  # of the height of a panel, between the middles of two labels


def figure_digest(figure: Figure | Maps) -> str:
    """Return a digest of the numbers behind a figure, which its SVG carries."""
    return hashlib.sha256(figure.csv().encode()).hexdigest()


def draw_figure(figure: Figure | Maps) -> dict[str, bytes]:
    """Return a figure as the contents of an SVG and of a PNG file, by ending."""
    if isinstance(figure, Maps):
        about = f"numbers sha256 {figure_digest(figure)}"
        return {
            ending: static.draw_picture(figure.picture, ending, titled=False, about=about) for ending in ("svg", "png")
        }
    return _curves(figure)


def _curves(figure: Figure) -> dict[str, bytes]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        message = "drawing needs matplotlib, which is not installed; pip install 'dpcube[plot]', or ask for --json"
        raise InputError(message) from None
    with mpl.rc_context({**FIGURE_FONT, "svg.hashsalt": figure.name, "svg.fonttype": "path"}):
        canvas = Canvas(figsize=(WIDTH * len(figure.panels), HEIGHT), layout="constrained")
        axes = canvas.subplots(1, len(figure.panels), squeeze=False)[0]
        for axis, panel in zip(axes, figure.panels, strict=True):
            _panel(axis, panel)
        axes[0].set_ylabel(figure.value_label)
        about = {"Title": figure.title, "Description": f"numbers sha256 {figure_digest(figure)}"}
        return {
            "svg": _saved(canvas, format="svg", metadata={**about, "Date": None}),
            "png": _saved(canvas, format="png", dpi=150, metadata={**about, "Software": None}),
        }


def _saved(canvas: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    canvas.savefig(file, **how)
    return file.getvalue()


def _panel(axis: Any, panel: CurvePanel) -> None:
    every = max(1, len(panel.at) // _MARKERS)
    for curve in panel.curves:
        axis.plot(panel.at, curve.values, markevery=every, **(CURVE | CURVE_STYLES[curve.role]))
        if curve.errors is not None:
            axis.errorbar(panel.at, curve.values, curve.errors, ecolor=CURVE_STYLES[curve.role]["color"], fmt="none")
    axis.set_title(f"({panel.name}) {panel.title}", loc="left")
    axis.set_xlabel(panel.axis_label)
    axis.set_xlim(panel.at[0], panel.at[-1])
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    if panel.log:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
        axis.set_yticks([10, 20, 50, 100, 200], minor=False)
    else:
        axis.set_ylim(bottom=0)
    if panel.mark is not None:
        axis.axvline(panel.mark[0], color="#777777", linewidth=0.8, linestyle=":")
        axis.annotate(
            panel.mark[1],
            (panel.mark[0], 0.97),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            va="top",
            fontsize=8,
            color="#444444",
        )
    _label_ends(axis, panel)


def _label_ends(axis: Any, panel: CurvePanel) -> None:
    """Write each curve's name beside its end, with a piece of it, moved up or down where two would touch."""
    ends = np.array([curve.values[-1] for curve in panel.curves])
    low, high = axis.get_ylim()
    places = np.log(ends / low) / np.log(high / low) if panel.log else (ends - low) / (high - low)
    for curve, place in zip(panel.curves, keep_apart(places), strict=True):
        style = CURVE | CURVE_STYLES[curve.role]
        axis.plot((1.03, 1.07, 1.11), [place] * 3, transform=axis.transAxes, markevery=[1], **style)
        axis.annotate(
            curve.label,
            (1.12, place),
            xycoords="axes fraction",
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=CURVE_STYLES[curve.role]["color"],
        )


def keep_apart(places: Floats) -> Floats:
    """Return heights near the given ones that keep `_LABEL_GAP` apart, in the same order.

    >>> keep_apart(np.array([0.5, 0.5, 0.9])).round(3).tolist()
    [0.464, 0.536, 0.9]
    """
    order = np.argsort(places, kind="stable")
    # Least squares under the gaps: pool neighbours that would touch, as isotonic regression does.
    steps = _LABEL_GAP * np.arange(len(places))
    blocks: list[list[float]] = []
    for value in places[order] - steps:
        blocks.append([float(value), 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, m), (second, n) = blocks[-2:]
            blocks[-2:] = [[(first * m + second * n) / (m + n), m + n]]
    result = np.empty(len(places))
    result[order] = np.concatenate([np.full(int(count), value) for value, count in blocks]) + steps
    return result
