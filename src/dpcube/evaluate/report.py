"""The demonstration's report: one self-contained HTML page, for public data only because it shows the truth too."""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from dpcube.analyst import Answer, Release

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1a1a2e;background:#fff}
h1{font-size:1.6rem;margin-bottom:.2rem}p.lead{color:#555;margin-top:0}
table{border-collapse:collapse;width:100%;margin:1.5rem 0}td,th{padding:.35rem .6rem;text-align:right}
td:first-child,th:first-child{text-align:left}tr+tr td{border-top:1px solid #ddd}th{color:#555;font-weight:600}
td{font-variant-numeric:tabular-nums}code{background:#f3f3f7;padding:.1rem .3rem;border-radius:3px}
.maps{display:flex;gap:1.2rem;flex-wrap:wrap}figure{margin:0;flex:1 1 17rem}figcaption{color:#555;font-size:.9rem}
svg{width:100%;height:auto;display:block}footer{color:#777;font-size:.85rem;margin-top:2rem}
"""

# A light-to-dark ramp that stays in order in grey-scale and for colour-blind readers.
RAMP = np.array([[247, 247, 251], [190, 203, 224], [117, 150, 195], [48, 95, 150], [8, 40, 88]], np.float64)

Asked = Sequence[tuple[str, int, Answer]]


def report(release: Release, exact_counts: NDArray[np.int64], asked: Asked) -> str:
    """Return the page: the questions beside the truth, and the first two axes drawn three ways."""
    made = release.provenance
    lead = (
        f"{escape(', '.join(release.domain.names))}: {release.domain.size:,} cells, released once at epsilon "
        f"{made.epsilon} by the strategy {escape(made.strategy)}. Digest <code>{release.digest[:16]}</code>."
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>DPCube report</title><style>{STYLE}</style>'
        f'<h1>A private cube of the Adult census</h1><p class="lead">{lead}</p>'
        f"{_answers(asked)}<div class='maps'>{_maps(release, exact_counts)}</div>"
        "<footer><i>noise</i> is the standard error of the noise added for privacy, <i>within boxes</i> the error "
        "expected from spreading counts evenly inside boxes; the interval covers both. The truth is "
        "shown because this table is public; a real report has none.</footer></html>"
    )


def _answers(asked: Asked) -> str:
    head = "<tr><th>question<th>truth<th>answer<th>noise<th>within boxes<th>95% interval"
    rows = [
        f"<tr><td>{escape(question)}<td>{truth:,}<td>{answer.value:,.0f}<td>{answer.stderr:,.0f}"
        f"<td>{answer.within:,.0f}"
        f"<td>{answer.low:,.0f} to {answer.high:,.0f}"
        for question, truth, answer in asked
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _maps(release: Release, exact_counts: NDArray[np.int64]) -> str:
    """Draw the marginal of the first two axes: the truth, the noisy cells, and the estimate."""
    others = tuple(range(2, exact_counts.ndim))
    panels = {"the table (never released)": exact_counts.sum(axis=others, dtype=np.float64)}
    if "cells" in release.estimates:
        panels["noisy cells, phase I"] = release.cells("cells").sum(axis=others)
    panels[f"what answers come from: {release.estimates[0]}"] = release.cells().sum(axis=others)
    top = max(float(panel.max()) for panel in panels.values())
    names = release.domain.names
    axes = f"{escape(names[0])} down, {escape(names[1])} across" if len(names) > 1 else escape(names[0])
    captions = {title: f"<figcaption><b>{escape(title)}</b><br>{axes}</figcaption>" for title in panels}
    return "".join(
        f"<figure>{heat_map(np.atleast_2d(panel), top)}{captions[title]}</figure>" for title, panel in panels.items()
    )


def heat_map(values: NDArray[np.float64], top: float) -> str:
    """Return an SVG heat map of a 2-D array, dark for `top` and light for zero and below."""
    height, width = values.shape
    at = np.clip(values / max(top, 1e-9), 0, 1) ** 0.5 * (len(RAMP) - 1)
    low = np.minimum(at.astype(int), len(RAMP) - 2)
    colours = (RAMP[low] + (at - low)[..., None] * (RAMP[low + 1] - RAMP[low])).round().astype(int)
    cells = [
        f'<rect x="{x}" y="{y}" width="1.02" height="1.02" fill="rgb({r},{g},{b})"/>'
        for (y, x), (r, g, b) in zip(np.ndindex(height, width), colours.reshape(-1, 3).tolist(), strict=True)
    ]
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(cells)}</svg>'
