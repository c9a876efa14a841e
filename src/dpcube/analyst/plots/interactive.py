"""Pictures as Plotly figures, for notebooks and pages that answer when pointed at."""

import textwrap
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcube.analyst.plots.axis import Axis, in_rows
from dpcube.analyst.plots.colours import BAR, GRID, INK, QUIET, RAMP
from dpcube.analyst.plots.outlines import Outlines
from dpcube.analyst.plots.picture import Bars, HeatMap, Picture
from dpcube.analyst.plots.static import ALONE, LINE_WIDTHS, OPACITIES, STROKES, scale_ticks
from dpcube.errors import InputError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PLOTLY_MISSING = "interactive pictures need plotly, which is not installed; pip install 'dpcube[plot]'"
WIDE, HIGH, LETTER = 460, 400, 6.5
# Plotly's own page has a button that sends the data to its maker's server.
OFFLINE = {"displaylogo": False, "responsive": True, "showSendToCloud": False, "plotlyServerURL": ""}


def figure(picture: Picture) -> "Figure":
    """Return a picture as a Plotly figure."""
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise InputError(PLOTLY_MISSING) from None
    columns, panels = picture.columns, picture.panels
    rows = -(-len(panels) // columns)
    drawn = make_subplots(
        rows,
        columns,
        subplot_titles=[f"<b>{_text(panel.title)}</b>" for panel in panels],
        horizontal_spacing=0.34 / (columns + 1),
        vertical_spacing=0.34 / (rows + 1),
    )
    for number, panel in enumerate(panels):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        _bars(drawn, panel, place) if isinstance(panel, Bars) else _map(drawn, panel, place)
    drawn.update_annotations(font={"size": 13})
    if any(isinstance(panel, HeatMap) for panel in panels):
        drawn.update_layout(coloraxis=_scale(picture.top))
    width = WIDE * max(columns, ALONE) + 140
    note = textwrap.wrap(picture.note, int(width / LETTER))
    head = f"<b>{_text(picture.title)}</b><br><sub>{'<br>'.join(map(_text, note))}</sub>"
    drawn.update_layout(
        title={"text": head, "x": 0.02, "xanchor": "left"},
        width=width,
        height=HIGH * rows + 90 + 20 * len(note),
        template="none",
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        showlegend=False,
        margin={"l": 90, "r": 30, "t": 95 + 20 * len(note), "b": 70},
    )
    return drawn


def plotly_page(picture: Picture) -> bytes:
    """Return one HTML page that needs no network: Plotly's script, 5 MB, is in it."""
    html: str = figure(picture).to_html(include_plotlyjs=True, full_html=True, config=OFFLINE)
    return html.encode()


def _text(text: str) -> str:
    """Return text as Plotly shows it as it is: it reads some HTML, and `<=50K` would vanish."""
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
    told = [[in_rows(v) for v in row] for row in zip(panel.values, panel.low, panel.high, strict=True)]
    drawn.add_trace(
        go.Bar(
            **({"y": places, "x": panel.values, "orientation": "h"} if lies else {"x": places, "y": panel.values}),
            **{"error_x" if lies else "error_y": whiskers},
            marker={"color": BAR, "line": {"color": INK, "width": 0.5}},
            customdata=told,
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
            z=np.sqrt(np.clip(panel.values, 0, None)).T,
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
        named = {"text": _text(axis.name), "standoff": 12}
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
    """Return what is said of each cell of a map: where it is, its count, and how far that may be off."""
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


def _broken(lines: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of lines one after another, with a gap after each."""
    ends = np.full((len(lines), 3, 2), np.nan)
    ends[:, :2] = lines.reshape(-1, 2, 2) - 0.5
    return ends[:, :, 0].ravel(), ends[:, :, 1].ravel()


def _scale(top: float) -> dict[str, Any]:
    counts = scale_ticks(top)
    bar = {
        "title": {"text": "rows"},
        "tickvals": np.sqrt(counts),
        "ticktext": [in_rows(count) if count else "0 or less" for count in counts],
        "outlinecolor": QUIET,
        "thickness": 14,
    }
    steps = [[k / (len(RAMP) - 1), colour] for k, colour in enumerate(RAMP)]
    return {"colorscale": steps, "cmin": 0, "cmax": np.sqrt(top), "colorbar": bar}
