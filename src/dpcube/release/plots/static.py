"""Matplotlib back end: pictures as SVG and PNG, without a browser. Text stays text in an SVG."""

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from dpcube.core.errors import InputError
from dpcube.release.plots.axis import LONGEST_LABEL, Axis, in_rows
from dpcube.release.plots.outlines import Outlines
from dpcube.release.plots.picture import Bars, HeatMap, Panel, Picture
from dpcube.release.plots.style import (
    BAR,
    GRID,
    INK,
    LINE_WIDTHS,
    MAX_TICKS,
    OPACITIES,
    QUIET,
    RAMP,
    STROKES,
    colour_scale,
    shades,
)

FONT: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "text.color": INK,
    "text.parse_math": False,  # a name may hold a dollar sign
    "svg.fonttype": "none",
}
MAP, BARS, ALONE = (4.2, 3.7), (4.8, 2.9), 1.5
BAR_HEIGHT, FEWEST_BARS = 0.24, 4
NOTE_LETTERS, TITLE_LETTERS, PANEL_LETTERS = 15, 9, 10  # letters to an inch of the note and of titles
LABEL = 0.068, 12  # inches to a letter of a label beside a panel, and letters for which every panel has room
TICK_LETTERS = 8.5  # letters of labels below an inch of a panel, before they are rotated
COLUMN, COLUMN_LETTERS, LINE = 4.2, 18, 0.15
"""Width of a panel in a column in inches, letters to a line of its labels, height of a line in inches. On a telephone,
390 pixels wide, its text has the size of a footnote."""
MATPLOTLIB_MISSING = "pictures need matplotlib, which is not installed; pip install 'dpcube[plot]'"


def draw_picture(picture: Picture, ending: str, *, titled: bool = True, about: str = "", look: Any = FONT) -> bytes:
    """Return a picture as the contents of an "svg" or a "png" file, with or without its title and note.

    `about` is a description in the metadata of the file, `look` are settings of Matplotlib instead of this module's.
    """
    with _canvas(picture.title, look) as canvas:
        _panels(canvas, picture)
        if titled:
            _title(canvas, picture)
        file, unseen = io.BytesIO(), {"Title": picture.title, "Description": about}
        dated = {"Date": None} if ending == "svg" else {"Software": None}
        canvas.savefig(file, format=ending, dpi=130, metadata={**unseen, **dated})
    return file.getvalue()


def panel_svg(panel: Panel, *, top: float, salt: str) -> str:
    """Return one panel without its title as an `<svg>` element for a column of a page, however narrow.

    `top` is the count of the darkest colour; `salt` makes the ids inside differ from those of other panels.
    """
    with _canvas(salt) as canvas:
        canvas.set_size_inches(COLUMN, _height_in_column(panel))
        axis = canvas.subplots()
        if isinstance(panel, Bars):
            _bars(axis, replace(panel, title=""), COLUMN, letters=COLUMN_LETTERS)
        else:
            _map(axis, replace(panel, title=""), COLUMN, top, letters=COLUMN_LETTERS)
            _scale(canvas, top, maps=[axis], beside=[axis])
        file = io.BytesIO()
        canvas.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().decode()


@contextmanager
def _canvas(salt: str, look: Any = FONT) -> Iterator[Any]:
    """Yield an empty figure with the settings of this module; `salt` determines the ids inside an SVG."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(MATPLOTLIB_MISSING) from None
    with mpl.rc_context({**FONT, **look, "svg.hashsalt": salt}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        yield Figure(layout="constrained")


def _height_in_column(panel: Panel) -> float:
    """Return the height of a panel in a column, in inches: horizontal bars take as many lines as their labels."""
    if isinstance(panel, HeatMap):
        at_foot = max(len(label) for label in _wrapped(panel.x.ticks(MAX_TICKS[panel.x.ordered])[1], COLUMN_LETTERS))
        listed = 0 if panel.y.ordered else LINE * _most_lines(panel.y, COLUMN_LETTERS) * min(len(panel.y), 25)
        return max(MAP[1], listed + 1) + 0.04 * at_foot
    if panel.axis.ordered:
        return BARS[1]
    bar = max(BAR_HEIGHT, LINE * _most_lines(panel.axis, COLUMN_LETTERS) + 0.06)
    return bar * max(FEWEST_BARS, len(panel.axis)) + 0.5


def _most_lines(axis: Axis, letters: int) -> int:
    return max(label.count("\n") + 1 for label in _wrapped(axis.labels, letters))


def _wrapped(labels: Sequence[str], letters: int) -> list[str]:
    """Return labels wrapped to lines of at most this many letters; those that fit keep their spaces."""
    return [label if len(label) <= letters else "\n".join(textwrap.wrap(label, letters)) for label in labels]


def _panels(canvas: Any, picture: Picture) -> None:
    """Draw the panels in rows, on a canvas of the size that they need."""
    columns, panels = picture.columns, picture.panels
    rows = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    heights = [max(_size(panel)[1] for panel in row) for row in rows]
    width = max(ALONE, columns) * max(_size(panel)[0] for panel in panels)
    canvas.set_size_inches(width, sum(heights))
    axes = canvas.subplots(len(rows), columns, squeeze=False, height_ratios=heights).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        if isinstance(panel, Bars):
            _bars(axis, panel, width / columns)
        else:
            _map(axis, panel, width / columns, picture.top)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    maps = [axis for axis, panel in zip(axes, panels, strict=False) if isinstance(panel, HeatMap)]
    if maps:
        _scale(canvas, picture.top, maps=maps, beside=list(axes))


def _title(canvas: Any, picture: Picture) -> None:
    """Write the title above the panels and the note below them, and increase the height of the canvas."""
    width, panels = canvas.get_size_inches()
    note = textwrap.wrap(picture.note, int(NOTE_LETTERS * width))
    title = textwrap.wrap(picture.title, int(TITLE_LETTERS * width))
    above, below = 0.2 * len(title) + 0.15, 0.12 * len(note) + 0.1
    high = panels + above + below
    canvas.set_size_inches(width, high)
    canvas.text(0.01, 1 - 0.08 / high, "\n".join(title), fontsize=12, fontweight="bold", va="top")
    canvas.text(0.01, 0.06 / high, "\n".join(note), fontsize=7.5, color=QUIET, va="bottom")
    canvas.get_layout_engine().set(rect=(0, below / high, 1, panels / high))


def _size(panel: Panel) -> tuple[float, float]:
    """Return width and height of a panel in inches, with room for labels beside it and for horizontal bars."""
    if isinstance(panel, HeatMap):
        return MAP[0] + _beside(panel.y), MAP[1]
    if panel.axis.ordered:
        return BARS
    return BARS[0] + _beside(panel.axis), max(BARS[1] - 1, BAR_HEIGHT * len(panel.axis) + 0.7)


def _beside(axis: Axis) -> float:
    """Return the additional inches for labels beside a panel."""
    inches, room = LABEL
    return inches * max(0, max(map(len, axis.labels)) - room)


def _bars(axis: Any, panel: Bars, wide: float, *, letters: int = LONGEST_LABEL) -> None:
    """Draw a marginal: vertical bars of ordered values, horizontal bars of unordered ones."""
    if panel.axis.ordered:
        _vertical_bars(axis, panel, wide)
    else:
        _horizontal_bars(axis, panel, letters)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(_lines(panel.title, PANEL_LETTERS * (wide - 1)), loc="left")


def _look(panel: Bars) -> dict[str, Any]:
    caps = {"ecolor": INK, "elinewidth": 1.0, "capsize": min(3.0, 60 / len(panel.axis))}
    return {"color": BAR, "edgecolor": INK, "linewidth": 0.4, "error_kw": caps}


def _vertical_bars(axis: Any, panel: Bars, wide: float) -> None:
    axis.bar(np.arange(len(panel.axis)), panel.values, width=0.86, yerr=panel.whiskers, **_look(panel))
    _name_bins(axis, panel.axis, wide)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter("{x:,.10g}")
    axis.grid(axis="y", color=GRID, linewidth=0.6)


def _horizontal_bars(axis: Any, panel: Bars, letters: int) -> None:
    places = np.arange(len(panel.axis))
    axis.barh(places, panel.values, height=0.72, xerr=panel.whiskers, **_look(panel))
    axis.set_yticks(places, _wrapped(panel.axis.labels, letters))
    spare = max(0, FEWEST_BARS - len(places)) / 2  # keeps two bars from becoming as thick as beams
    axis.set_ylim(len(places) - 0.5 + spare, -0.5 - spare)
    ends = np.where(np.isnan(panel.high), panel.values, panel.high)
    axis.set_xlim(0, 1.32 * max(float(ends.max()), 1.0))
    axis.xaxis.set_major_formatter("{x:,.10g}")
    axis.xaxis.get_major_locator().set_params(nbins=5)
    axis.grid(axis="x", color=GRID, linewidth=0.6)
    for place, value, end, off in zip(places, panel.values, ends, panel.whiskers.max(axis=0), strict=True):
        said = f" {in_rows(value)} \N{PLUS-MINUS SIGN} {in_rows(off)}"
        axis.annotate(said, (end, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)


def _map(axis: Any, panel: HeatMap, wide: float, top: float, *, letters: int = LONGEST_LABEL) -> None:
    # "none" puts a pixel for each cell into an SVG, which viewers enlarge without smoothing.
    axis.imshow(
        shades(panel.values),
        origin="lower",
        aspect="auto",
        cmap=_colours(),
        vmin=0,
        vmax=np.sqrt(top),
        interpolation="none",
    )
    if panel.outlines is not None:
        _outline(axis, panel.outlines)
    _name_bins(axis, panel.x, wide, letters)
    at, labels = panel.y.ticks(MAX_TICKS[panel.y.ordered])
    axis.set_yticks(at, _wrapped(labels, letters))
    if not panel.y.ordered:
        axis.invert_yaxis()  # a list is read from the top
    axis.set_xlabel(_lines(panel.x.name, PANEL_LETTERS * (wide - 1)))
    axis.set_ylabel(_lines(panel.y.name, PANEL_LETTERS * (MAP[1] - 0.5)))
    axis.set_title(panel.title, loc="left")


def _lines(text: str, letters: float) -> str:
    """Return text wrapped to lines of at most this many letters."""
    return "\n".join(textwrap.wrap(text, int(letters)))


def _outline(axis: Any, found: Outlines) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Lines

    for lines, thick, opacity in zip(found.lines, LINE_WIDTHS, OPACITIES, strict=True):
        if len(lines):
            path = Lines(lines.reshape(-1, 2) - 0.5, np.tile([Lines.MOVETO, Lines.LINETO], len(lines)))
            for colour, wider, fainter in STROKES:
                look = {"linewidth": wider * thick * found.weight, "alpha": fainter * opacity * found.weight}
                axis.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, **look))  # one path, not thousands


def _name_bins(axis: Any, bins: Axis, wide: float, letters: int = LONGEST_LABEL) -> None:
    """Label bins below a panel `wide` inches wide, rotated where they would overlap."""
    at, labels = bins.ticks(MAX_TICKS[bins.ordered])
    rotated = sum(map(len, labels)) > TICK_LETTERS * wide
    axis.set_xticks(at, _wrapped(labels, letters), rotation=40 if rotated else 0, ha="right" if rotated else "center")
    axis.tick_params(axis="x", pad=1 if rotated else 3)


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("dpcube", RAMP)


def _scale(canvas: Any, top: float, *, maps: list[Any], beside: list[Any]) -> None:
    """Draw the common scale of colours of the maps, beside all panels."""
    bar = canvas.colorbar(maps[0].images[0], ax=beside, shrink=0.85, pad=0.015, aspect=30)
    places, labels = colour_scale(top)
    bar.set_ticks(places, labels=labels)
    bar.ax.set_title("rows", fontsize=8.5, fontweight="normal", loc="left")
    bar.outline.set_edgecolor(QUIET)
