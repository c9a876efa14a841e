"""Plotly back end: pictures as interactive figures, for notebooks and HTML pages."""

import textwrap
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcube.core.errors import InputError
from dpcube.release.plots.axis import Axis, in_rows
from dpcube.release.plots.outlines import Outlines
from dpcube.release.plots.picture import Bars, HeatMap, Panel, Picture
from dpcube.release.plots.style import (
    BAR,
    GRID,
    INK,
    LINE_WIDTHS,
    OPACITIES,
    QUIET,
    RAMP,
    STROKES,
    colour_scale,
    shades,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PLOTLY_MISSING = "interactive pictures need plotly, which is not installed; pip install 'dpcube[plot]'"
HIGH, BAR_HIGH, LETTER, PANEL_LETTERS = 400, 22, 6.5, 48
WIDE = 900
"""Pixels at which text of a figure is wrapped; the figure itself is as wide as its container."""
LONG_LABEL = 12
"""Letters of a label beside a panel that fit between two panels."""
# Plotly's own page has a button that sends the data to its maker's server.
OFFLINE = {"displaylogo": False, "responsive": True, "showSendToCloud": False, "plotlyServerURL": ""}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body{{font:14px/1.45 system-ui,sans-serif;color:{ink};background:#fff;margin:0;padding:16px 20px;box-sizing:border-box}}
h1{{font-size:20px;margin:0 0 2px}}h2{{font-size:14px;margin:8px 0 0}}p{{color:{quiet};margin:0 0 4px}}
h1,h2,p{{overflow-wrap:anywhere}}
main{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,{least}px),1fr));gap:8px 16px}}
main>div{{min-width:0}}
{fill}
</style></head><body><h1>{title}</h1><p>{note}</p><main>
{panels}
</main><script type="text/javascript">
// Each was drawn before the next one shared its row.
for (const drawn of document.querySelectorAll(".plotly-graph-div")) Plotly.Plots.resize(drawn);
</script></body></html>
"""
FILL = "body{{display:flex;flex-direction:column;height:100vh}}main{{flex:1;min-height:{least}px}}"
"""Style of a page of one panel: it fills the window below title and note, with at least the pixels that it needs."""
LEAST_HIGH = 240
LEAST_WIDE = {1: 300, 2: 480, 3: 380}
"""Minimum width of a panel in pixels, by the number of columns: a narrower window has fewer panels in a row."""


def figure(picture: Picture) -> "Figure":
    """Return a picture as a Plotly figure, as wide as its container."""
    panels = picture.panels
    columns = 1 if any(len(max(_beside(panel), key=len)) > LONG_LABEL for panel in panels) else picture.columns
    drawn = _subplots(panels, columns, picture.top)
    note, title = textwrap.wrap(picture.note, int(WIDE / LETTER)), textwrap.wrap(picture.title, int(WIDE / 10))
    head = f"<b>{'<br>'.join(map(_text, title))}</b><br><sub>{'<br>'.join(map(_text, note))}</sub>"
    top = 75 + 20 * (len(note) + len(title))
    height = drawn.layout.height - drawn.layout.margin.t + top
    drawn.update_layout(title={"text": head, "x": 0.02, "xanchor": "left"}, height=height, margin_t=top)
    return drawn


def plotly_page(picture: Picture) -> bytes:
    """Return a self-contained HTML page that works offline, with Plotly's script (5 MB) inside.

    Each panel is a figure of its own, so that a narrow window has fewer of them in a row.
    """
    alone = len(picture.panels) == 1
    shown = []
    for number, panel in enumerate(picture.panels):
        drawn = _subplots((replace(panel, title=""),), 1, picture.top)
        high = drawn.layout.height
        drawn.update_layout(height=None, margin_b=40)  # longer labels enlarge it
        part = {"full_html": False, "include_plotlyjs": number == 0, "config": OFFLINE}
        body = drawn.to_html(**part, default_width="100%", default_height="100%" if alone else f"{high}px")
        heading = "" if alone or not panel.title else f"<h2>{escape(panel.title)}</h2>"
        # Plotly wraps its element in another, which must fill the height of its container.
        shown.append(f"<div>{heading}{body.replace('<div>', '<div style=height:100%>', 1) if alone else body}</div>")
    words = {"title": escape(picture.title), "note": escape(picture.note), "ink": INK, "quiet": QUIET}
    least = LEAST_WIDE[picture.columns]
    fill = FILL.format(least=_least_high(picture.panels[0])) if alone else ""
    return PAGE.format(**words, least=least, fill=fill, panels="\n".join(shown)).encode()


def _least_high(panel: Panel) -> float:
    """Return the minimum height of a panel in pixels, at which labels beside it do not overlap."""
    lying = isinstance(panel, Bars) and not panel.axis.ordered
    return max(LEAST_HIGH, BAR_HIGH * len(_beside(panel)) + 60) if lying else LEAST_HIGH


def _subplots(panels: tuple[Panel, ...], columns: int, top: float) -> Any:
    """Return a figure of panels in rows of this many columns, without a title."""
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise InputError(PLOTLY_MISSING) from None
    rows = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    heights, gap = [max(map(_height, row)) for row in rows], max(map(_below, panels)) + 40
    whole = sum(heights) + gap * (len(rows) - 1)
    drawn = make_subplots(
        len(rows),
        columns,
        subplot_titles=[f"<b>{_in_lines(panel.title)}</b>" for panel in panels],
        horizontal_spacing=0.34 / (columns + 1),
        vertical_spacing=gap / whole if len(rows) > 1 else 0,
        row_heights=heights,
    )
    for number, panel in enumerate(panels):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        _bars(drawn, panel, place) if isinstance(panel, Bars) else _map(drawn, panel, place)
    drawn.update_annotations(font={"size": 13})
    if any(isinstance(panel, HeatMap) for panel in panels):
        drawn.update_layout(coloraxis=_scale(top))
    above, below = 30 + 16 * max(_in_lines(panel.title).count("<br>") for panel in panels), max(map(_below, panels))
    drawn.update_layout(
        autosize=True,
        height=whole + above + below,
        template="none",
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        showlegend=False,
        margin={"l": 60, "r": 20, "t": above, "b": below},
    )
    return drawn


def _height(panel: Panel) -> float:
    """Return the height of a panel in pixels, without the text around it."""
    lying = isinstance(panel, Bars) and not panel.axis.ordered
    return max(HIGH - 100, BAR_HIGH * len(_beside(panel))) if lying or isinstance(panel, HeatMap) else HIGH - 100


def _beside(panel: Panel) -> list[str]:
    """Return the labels at the left of a panel, without labels of counts."""
    if isinstance(panel, HeatMap):
        return panel.y.ticks(25)[1]
    return [""] if panel.axis.ordered else panel.axis.ticks(40)[1]


def _below(panel: Panel) -> float:
    """Return the pixels below a panel for its labels, which are rotated if long, and the name of the axis."""
    axis = panel.x if isinstance(panel, HeatMap) else panel.axis
    named = 16 * (1 + _in_lines(axis.name).count("<br>")) + 14 if isinstance(panel, HeatMap) else 0
    if isinstance(panel, Bars) and not axis.ordered:
        return 35
    longest = max(map(len, axis.ticks(12)[1]))
    return named + (25 if longest <= 5 else 25 + LETTER * longest)


def _in_lines(text: str) -> str:
    return "<br>".join(map(_text, textwrap.wrap(text, PANEL_LETTERS)))


def _text(text: str) -> str:
    """Return text escaped for Plotly, which interprets some HTML: `<=50K` would vanish."""
    return escape(text, quote=False)


def _ticks(axis: Axis, most: int) -> dict[str, Any]:
    at, labels = axis.ticks(most)
    return {"tickvals": at, "ticktext": [_text(label) for label in labels], "automargin": True, "zeroline": False}


def _bars(drawn: Any, panel: Bars, place: dict[str, int]) -> None:
    import plotly.graph_objects as go

    places = np.arange(len(panel.axis))
    labels = [_text(label) for label in panel.axis.labels]
    lies = not panel.axis.ordered
    whiskers = {
        "array": panel.whiskers[1],
        "arrayminus": panel.whiskers[0],
        "color": INK,
        "thickness": 1.2,
    }
    texts = [[in_rows(v) for v in row] for row in zip(panel.values, panel.low, panel.high, strict=True)]
    drawn.add_trace(
        go.Bar(
            **({"y": places, "x": panel.values, "orientation": "h"} if lies else {"x": places, "y": panel.values}),
            **{"error_x" if lies else "error_y": whiskers},
            marker={"color": BAR, "line": {"color": INK, "width": 0.5}},
            customdata=texts,
            hovertext=labels,
            hovertemplate="%{hovertext}: %{customdata[0]} rows<br>%{customdata[1]} to %{customdata[2]}<extra></extra>",
        ),
        **place,
    )
    counts = {"gridcolor": GRID, "tickformat": ",~r", "rangemode": "tozero", "zeroline": False}
    drawn.update_xaxes(**(counts if lies else _ticks(panel.axis, 12)), **place)
    drawn.update_yaxes(**({**_ticks(panel.axis, 40), "autorange": "reversed"} if lies else counts), **place)


def _map(drawn: Any, panel: HeatMap, place: dict[str, int]) -> None:
    import plotly.graph_objects as go

    drawn.add_trace(
        go.Heatmap(
            z=shades(panel.values),
            text=_hover(panel),
            hovertemplate="%{text}<extra></extra>",
            coloraxis="coloraxis",
        ),
        **place,
    )
    if panel.outlines is not None:
        _outline(drawn, panel.outlines, place)
    for axis, update, most in ((panel.x, drawn.update_xaxes, 10), (panel.y, drawn.update_yaxes, 25)):
        ends = [-0.5, len(axis) - 0.5]
        upside_down = axis is panel.y and not axis.ordered  # a list is read from the top
        named = {"text": _in_lines(axis.name), "standoff": 8}
        update(title=named, range=ends[::-1] if upside_down else ends, showgrid=False, **_ticks(axis, most), **place)


def _outline(drawn: Any, found: Outlines, place: dict[str, int]) -> None:
    import plotly.graph_objects as go

    for lines, thick, opacity in zip(found.lines, LINE_WIDTHS, OPACITIES, strict=True):
        x, y = _broken(lines)
        for colour, wider, fainter in STROKES:
            look = {"color": colour, "width": 1.6 * wider * thick * found.weight}
            faint = fainter * opacity * found.weight
            drawn.add_trace(go.Scatter(x=x, y=y, mode="lines", line=look, opacity=faint, hoverinfo="skip"), **place)


def _hover(panel: HeatMap) -> list[list[str]]:
    """Return the hover text of each cell of a map: its place, its count, and half its confidence interval."""
    half_width = np.zeros_like(panel.values) if panel.half_width is None else panel.half_width
    x = [f"{_text(panel.x.name)} {_text(label)}" for label in panel.x.labels]
    y = [f"{_text(panel.y.name)} {_text(label)}" for label in panel.y.labels]
    known = panel.half_width is not None
    return [
        [
            f"{x[i]}<br>{y[j]}<br>{in_rows(panel.values[i, j])}"
            + (f" \u00b1 {in_rows(half_width[i, j])}" if known else "")
            + " rows"
            for i in range(len(x))
        ]
        for j in range(len(y))
    ]


def _broken(lines: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of lines in sequence, with a gap after each."""
    ends = np.full((len(lines), 3, 2), np.nan)
    ends[:, :2] = lines.reshape(-1, 2, 2) - 0.5
    return ends[:, :, 0].ravel(), ends[:, :, 1].ravel()


def _scale(top: float) -> dict[str, Any]:
    places, labels = colour_scale(top)
    bar = {
        "title": {"text": "rows"},
        "tickvals": places,
        "ticktext": labels,
        "outlinecolor": QUIET,
        "thickness": 14,
    }
    steps = [[k / (len(RAMP) - 1), colour] for k, colour in enumerate(RAMP)]
    return {"colorscale": steps, "cmin": 0, "cmax": np.sqrt(top), "colorbar": bar}
