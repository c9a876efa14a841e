"""Figures as pictures, with matplotlib: SVG and PNG from one drawing, without a browser.

Curves differ by dash and marker as well as by colour (Okabe and Ito's, which colour-blind readers distinguish),
and named beside their ends. Text becomes outlines, so that an SVG looks the same everywhere.
"""

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.core.files import new_file
from dpcube.release.plots import static
from dpcube.research.reproduce.figure import CurvePanel, Figure, Maps

CURVE_STYLES: dict[str, dict[str, Any]] = {
    "least squares": {"color": "#000000", "linestyle": "-", "marker": "o"},
    "weighted": {"color": "#595959", "linestyle": (0, (6, 2)), "marker": "D", "markerfacecolor": "white"},
    "bound": {"color": "#0072B2", "linestyle": (0, (4, 2)), "marker": "s"},
    "worst": {"color": "#0072B2", "linestyle": "-", "marker": "^"},
    "formula": {"color": "#AA4499", "linestyle": (0, (1, 1.5)), "marker": "x"},
    "even": {"color": "#56707F", "linestyle": (0, (5, 1.5, 1, 1.5)), "marker": "v"},
    "cells": {"color": "#D55E00", "linestyle": "-", "marker": None, "linewidth": 2.6},
    "adaptive": {"color": "#009E73", "linestyle": "-", "marker": "*", "markersize": 6, "linewidth": 2.2},
    "dpcube": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "dpcube follows": {"color": "#0072B2", "linestyle": (0, (4, 2)), "marker": "s"},
    "dpcube rows": {"color": "#56B4E9", "linestyle": (0, (1, 1.5)), "marker": "^"},
    "kd-tree": {"color": "#AA4499", "linestyle": (0, (4, 2)), "marker": "v", "markerfacecolor": "white"},
    "kd-tree best": {"color": "#AA4499", "linestyle": "-", "marker": "v"},
    "consistency rows": {"color": "#000000", "linestyle": (0, (1, 1.5)), "marker": "D", "markerfacecolor": "white"},
    "consistency hilbert": {"color": "#000000", "linestyle": (0, (4, 2)), "marker": "D"},
    "consistency boxes": {"color": "#000000", "linestyle": "-", "marker": "P"},
    "uniform": {"color": "#999999", "linestyle": "-", "marker": None},
    "hb": {"color": "#000000", "linestyle": "-", "marker": "o", "markerfacecolor": "white"},
    "quad_tree": {"color": "#000000", "linestyle": (0, (4, 2)), "marker": "P"},
    "ugrid": {"color": "#E69F00", "linestyle": (0, (4, 2)), "marker": "s"},
    "agrid": {"color": "#E69F00", "linestyle": "-", "marker": "s"},
    "privelet": {"color": "#595959", "linestyle": (0, (1, 1.5)), "marker": "x"},
    "matrix_mechanism": {"color": "#595959", "linestyle": "-", "marker": "D", "markerfacecolor": "white"},
    "dawa": {"color": "#AA4499", "linestyle": "-", "marker": "^"},
    "mwem": {"color": "#AA4499", "linestyle": (0, (1, 1.5)), "marker": "v"},
    "privtree": {"color": "#882255", "linestyle": (0, (5, 1.5, 1, 1.5)), "marker": "<"},
    "hdpview": {"color": "#882255", "linestyle": (0, (4, 2)), "marker": ">"},
}
CURVE: dict[str, Any] = {"linewidth": 1.4, "markersize": 3.6, "clip_on": False}
FIGURE_LOOK: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "normal",
    "axes.labelsize": 9,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color"), "#000000"),
    "svg.fonttype": "path",
}
WIDTH, HEIGHT = 4.3, 3.1
MEASURED_WIDTH, CROWDED_HEIGHT = 5.8, 4.4
"""The width of panels with error bars, and the height of those where some have more than eight curves."""
MAX_CURVES = 9
"""A panel with more curves is drawn as several, each with those of the roles below."""
REFERENCES = ("cells", "adaptive", "dpcube follows")
ERROR_BAR: dict[str, Any] = {"fmt": "none", "elinewidth": 1.0}
_MARKERS = 11
_LABEL_GAP = 0.072  # of HEIGHT, between the middles of two labels
_MARGIN = 1.25  # a logarithmic axis reaches so much further than the means; error bars may be cut


def figure_digest(figure: Figure | Maps) -> str:
    """Return a digest of the numbers behind a figure, which its SVG carries."""
    return hashlib.sha256(figure.csv().encode()).hexdigest()


def draw_figure(figure: Figure | Maps) -> dict[str, bytes]:
    """Return a figure as the contents of an SVG and of a PNG file, by ending."""
    if isinstance(figure, Maps):
        about = f"numbers sha256 {figure_digest(figure)}"
        svg, png = (
            static.draw_picture(figure.picture, ending, titled=False, about=about, look=FIGURE_LOOK)
            for ending in ("svg", "png")
        )
        return {"svg": _shorter(svg), "png": png}
    return _curves(figure)


def check_drawing() -> None:
    """Refuse where figures cannot be drawn: before they are made, which can take hours."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        message = "drawing needs matplotlib, which is not installed; pip install 'dpcube[plot]', or ask for --json"
        raise InputError(message) from None


def _curves(figure: Figure) -> dict[str, bytes]:
    check_drawing()
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    drawn = [part for panel in figure.panels for part in uncrowded(panel)]
    with mpl.rc_context({**FIGURE_LOOK, "svg.hashsalt": figure.name}):
        wide = min(len(drawn), figure.panels_a_line)
        lines = -(-len(drawn) // wide)
        height = CROWDED_HEIGHT if max(len(panel.curves) for panel in drawn) > 8 else HEIGHT
        width = MEASURED_WIDTH if any(_is_measured(panel) for panel in drawn) else WIDTH
        canvas = Canvas(figsize=(width * wide, height * lines), layout="constrained")
        axes = canvas.subplots(lines, wide, squeeze=False).ravel()
        for place, (axis, panel) in enumerate(zip(axes, drawn, strict=True)):
            _panel(axis, panel, label_gap=_LABEL_GAP * HEIGHT / height)
            if panel.value_label or place % wide == 0:
                axis.set_ylabel(panel.value_label or figure.value_label)
        about = {"Title": figure.title, "Description": f"numbers sha256 {figure_digest(figure)}"}
        return {
            "svg": _shorter(_saved(canvas, format="svg", metadata={**about, "Date": None})),
            "png": _saved(canvas, format="png", dpi=150, metadata={**about, "Software": None}),
        }


def uncrowded(panel: CurvePanel) -> list[CurvePanel]:
    """Return the panels as which one is drawn, of at most `MAX_CURVES` curves each, all with the references."""
    if len(panel.curves) <= MAX_CURVES:
        return [panel]
    kept = [curve for curve in panel.curves if curve.role in REFERENCES]
    others = [curve for curve in panel.curves if curve.role not in REFERENCES]
    parts = -(-len(others) // (MAX_CURVES - len(kept)))
    ends = [len(others) * part // parts for part in range(parts + 1)]
    return [
        replace(panel, title=f"{panel.title}, {part} of {parts}", curves=(*kept, *others[first:last]))
        for part, (first, last) in enumerate(pairwise(ends), 1)
    ]


def _saved(canvas: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    canvas.savefig(file, **how)
    return file.getvalue()


def _shorter(svg: bytes) -> bytes:
    """Return an SVG without comments and indentation, whose coordinates have two decimals, a fiftieth of a pixel.

    Scales stay whole: outlines of letters have one of 1/64, and letters of another are too small for their places.
    """
    rounded = re.sub(rb"(scale\([^)]*\))|(\d\.\d\d)\d+", lambda found: found[1] or found[2], svg)
    named = re.sub(rb"<!-- .*? -->", b"", rounded).replace(b"DejaVuSans-", b"g")  # what letters are called
    return re.sub(rb"\s*\n\s*", b"\n", named)


def _panel(axis: Any, panel: CurvePanel, *, label_gap: float) -> None:
    every = max(1, len(panel.at) // _MARKERS)
    for curve in panel.curves:
        style = CURVE | CURVE_STYLES[curve.role]
        axis.plot(panel.at, curve.values, markevery=every, **style)
        if curve.reach is not None:
            axis.errorbar(panel.at, curve.values, yerr=curve.reach, ecolor=style["color"], **ERROR_BAR)
    _space(axis, panel)
    axis.set_title(f"({panel.name}) {panel.title}", loc="left")
    axis.set_xlabel(panel.axis_label)
    axis.set_xlim(panel.at[0], panel.at[-1])
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    if panel.log:
        axis.set_yscale("log")
        _number_logarithms(axis, panel)
    else:
        axis.set_ylim(bottom=min(0.0, *(float(curve.values.min()) for curve in panel.curves)))
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
    _label_ends(axis, panel, label_gap)


def _space(axis: Any, panel: CurvePanel) -> None:
    """Lay the places of the axis out, and number those that were measured where they lie by logarithms."""
    if panel.spaced == "evenly":
        return
    axis.set_xscale("symlog" if panel.spaced == "log from 0" else "log", **_spacing(panel))
    axis.set_xticks(panel.at[:: -(-len(panel.at) // 9)])
    axis.set_xticks([], minor=True)
    axis.xaxis.set_major_formatter("{x:g}")


def _spacing(panel: CurvePanel) -> dict[str, Any]:
    """Return how an axis that begins with 0 is spaced: evenly up to its next place, by powers of two from there on."""
    return {"base": 2, "linthresh": float(panel.at[1])} if panel.spaced == "log from 0" else {"base": 2}


def _is_measured(panel: CurvePanel) -> bool:
    return any(curve.reach is not None for curve in panel.curves)


def _number_logarithms(axis: Any, panel: CurvePanel) -> None:
    """Put numbers on a logarithmic axis at 1, 2 and 5 times powers of ten."""
    low, high = axis.get_ylim()
    if _is_measured(panel):
        values = np.concatenate([curve.values for curve in panel.curves])
        low, high = values[values > 0].min() / _MARGIN, values.max() * _MARGIN
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.array([digit * power for power in powers for digit in (1, 2, 5)])
    axis.set_yticks(ticks[(ticks >= low) & (ticks <= high)], minor=False)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    axis.set_ylim(low, high)


def _label_ends(axis: Any, panel: CurvePanel, label_gap: float) -> None:
    """Write each curve's name and line style beside its end, moved up or down where two would touch."""
    ends = np.array([curve.values[-1] for curve in panel.curves])
    low, high = axis.get_ylim()
    places = np.log(ends / low) / np.log(high / low) if panel.log else (ends - low) / (high - low)
    for curve, place in zip(panel.curves, _inside(keep_apart(places, label_gap), label_gap), strict=True):
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


def _inside(places: Floats, gap: float) -> Floats:
    """Return the heights moved into the panel, still a gap apart where there is room for it."""
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(len(places))
    result = np.empty(len(places))
    result[order] = np.maximum(np.minimum(places[order], 1 - steps[::-1]), min(0.0, 1 - steps[-1]) + steps)
    return result


def keep_apart(places: Floats, gap: float = _LABEL_GAP) -> Floats:
    """Return heights near the given ones that keep a gap apart, in the same order.

    >>> keep_apart(np.array([0.5, 0.5, 0.9])).round(3).tolist()
    [0.464, 0.536, 0.9]
    """
    order = np.argsort(places, kind="stable")
    # Least squares under the gaps: pool neighbours that would touch, as isotonic regression does.
    steps = gap * np.arange(len(places))
    blocks: list[list[float]] = []
    for value in places[order] - steps:
        blocks.append([float(value), 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, m), (second, n) = blocks[-2:]
            blocks[-2:] = [[(first * m + second * n) / (m + n), m + n]]
    result = np.empty(len(places))
    result[order] = np.concatenate([np.full(int(count), value) for value, count in blocks]) + steps
    return result


FIGURES_PAGE = "figures.md"


def figure_files(figures: Sequence[str], directory: Path, *, replace: bool = False) -> list[Path]:
    """Return the files that figures of these names are written to; one that is there is refused unless `replace`.

    Asked before figures are made, which can take hours.
    """
    names = [FIGURES_PAGE, *(f"{figure}.{ending}" for figure in figures for ending in ("svg", "png", "csv"))]
    files = [directory / name for name in names]
    taken = [file for file in files if file.exists()]
    if taken and not replace:
        message = f"{taken[0]} exists; give another directory (-o), or --replace"
        raise InputError(message)
    return files


def write_figures(figures: Sequence[Figure | Maps], directory: Path, *, replace: bool = False) -> list[Path]:
    """Write figures into a directory and return the files; a name that is taken is refused unless `replace`."""
    files = figure_files([figure.name for figure in figures], directory, replace=replace)
    contents = {FIGURES_PAGE: reproduction_page(figures).encode()}
    for figure in figures:
        contents[f"{figure.name}.csv"] = figure.csv().encode()
        contents |= {f"{figure.name}.{ending}": picture for ending, picture in draw_figure(figure).items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            if replace:
                (directory / name).unlink(missing_ok=True)
            with new_file(directory / name) as part:
                part.write_bytes(content)
    except OSError as error:
        message = f"cannot write figures to {directory}: {error.strerror}; give another directory (-o)"
        raise InputError(message) from None
    return files


def reproduction_page(figures: Sequence[Figure | Maps], *, pictures: str = "") -> str:
    """Return the page: each figure, the paper's claims about it, what holds and what does not.

    `pictures` goes before the name of each picture, as "folder/" does where they lie elsewhere.
    """
    return "\n".join(_section(figure, pictures) for figure in figures)


def verdicts(figure: Figure | Maps) -> list[tuple[str, str]]:
    """Return the sentences about a figure under their headings: claims, what holds, what does not, left out."""
    said = [
        pair
        for verdict in figure.verdicts
        for pair in (
            ("The paper claims", verdict.claim),
            ("What holds", verdict.holds),
            ("What does not", verdict.fails),
        )
    ]
    return [*said, ("What the paper leaves out", figure.left_out)]


def _section(figure: Figure | Maps, pictures: str) -> str:
    name = f"{pictures}{figure.name}"
    head = (
        f"## {figure.title}\n\n![{figure.title}]({name}.svg)\n\nThe paper's `{figure.label}`; {figure.setting}. "
        f"Numbers: [{figure.name}.csv]({name}.csv).\n\n"
    )
    new_claim = ("The paper claims", "What the paper leaves out")
    lines = [f"{'* ' if what in new_claim else '  '}**{what}**: {text}\n" for what, text in verdicts(figure)]
    return head + "\n".join(lines)
