"""Building blocks of a self-contained HTML page: tables and pictures that fit any screen and paper.

A telephone has tables row by row, with each number's name beside it, and pictures one below the other; on paper no row
and no picture is cut in two.
"""

import re
from collections.abc import Callable, Sequence
from html import escape

from dpcube.release.plots.picture import Bars, Panel, Picture
from dpcube.release.plots.static import MATPLOTLIB_MISSING, panel_svg

STYLE = """
:root{color-scheme:light}*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#25282f;background:#fff}
h1,h2,h3,p,code,figcaption,td.w{overflow-wrap:anywhere}h1{font-size:1.7rem;line-height:1.25;margin-bottom:.2rem}
h2{font-size:1.2rem;margin:2.2rem 0 .4rem}h3{font-size:1rem;margin:.6rem 0 .2rem}p{max-width:46rem}
p.lead,figcaption{color:#5b6470}p.lead{margin-top:0}p.headline{font-size:1.15rem;margin:.4rem 0 1rem}
p.headline strong{font-size:2.4rem;line-height:1.2;margin-right:.2rem}
table{border-collapse:collapse;margin:.8rem 0}td,th{padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top}
td.n,th.n{text-align:right}td.n{white-space:nowrap}
tr+tr td{border-top:1px solid #d9dee5}th{color:#5b6470;font-weight:600}
td{font-variant-numeric:tabular-nums}code{background:#f0f3f7;padding:.1rem .3rem;border-radius:3px}
figure{margin:1.2rem 0}figcaption{font-size:.9rem}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr));gap:.5rem 1.5rem}
.panel{min-width:0}.panel svg{display:block;width:100%;max-width:34rem;height:auto}
.stamp{border:2px solid #25282f;padding:.5rem 1rem;font-weight:600}
footer{color:#5b6470;font-size:.85rem;margin-top:2.5rem}
@media screen and (max-width:600px){body{margin:1rem auto}h1{font-size:1.4rem}
table,tbody{display:block;width:100%}tr{display:block;padding:.5rem 0}tr+tr{border-top:1px solid #d9dee5}
tr+tr td{border:0}tr:has(th){position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
td,td.n{display:flex;justify-content:space-between;gap:1rem;padding:.1rem 0;text-align:right}
td:first-child{display:block;text-align:left;font-weight:600}td:empty{display:none}
td[data-label]::before{content:attr(data-label);color:#5b6470;text-align:left;flex:none}}
@media print{@page{margin:15mm}body{max-width:none;margin:0;padding:0;font-size:10.5pt}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}h1,h2,h3{break-after:avoid}
tr,p,.panel,.stamp{break-inside:avoid}figcaption{break-before:avoid}
.panels{display:block;columns:2;column-gap:1.5rem}.panel svg{max-height:220mm}}
"""
NAMES_OF_DRAWING = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
"""What matplotlib calls its parts, alike in every picture; a page may hold a name once, and nothing refers to them."""


LONG_WORD = 24
"""Letters of a word that a table may break anywhere, lest it be wider than its page; others stay whole."""


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> str:
    """Return an HTML table of text; the last `numbers` columns hold numbers."""
    first = len(header) - numbers
    kinds = ["" if k < first else " class=n" for k in range(len(header))]
    head = "".join(f"<th scope=col{kind}>{escape(name)}" for kind, name in zip(kinds, header, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell(*told) for told in zip(kinds, ("", *header[1:]), row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(kind: str, name: str, text: str) -> str:
    """Return a cell; the name of its column stands beside it where there is no room for columns."""
    longest = max(map(len, text.split()), default=0)
    label = f' data-label="{escape(name)}"' if name else ""
    return f"<td{' class=w' if longest > LONG_WORD else kind}{label}>{escape(text)}</td>"


def pictures_html(pictures: Callable[[], Sequence[Picture]]) -> str:
    """Return pictures as parts of a page, or a note in their place where they cannot be drawn."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        return f"<p>Left out: {escape(MATPLOTLIB_MISSING)}.</p>"
    return "".join(map(picture_html, pictures()))


def picture_html(shown: Picture) -> str:
    """Return a picture as part of a page, each panel with its heading, as many side by side as there is room for."""
    panels = "".join(_panel(panel, shown, f"{shown.title} {k}") for k, panel in enumerate(shown.panels))
    said = escape(f"{shown.title}: {shown.note}.")
    return f'<figure><div class="panels">{panels}</div><figcaption>{said}</figcaption></figure>'


def _panel(panel: Panel, shown: Picture, salt: str) -> str:
    svg = re.sub(r"<metadata>.*?</metadata>", "", panel_svg(panel, top=shown.top, salt=salt), flags=re.DOTALL)
    drawn = NAMES_OF_DRAWING.sub("", svg[svg.index("<svg") :])
    title = panel.title or shown.title
    said = f"Rows by {title}" if isinstance(panel, Bars) else f"{shown.title}, {title}" if panel.title else title
    label = f'<svg role="img" aria-label="{escape(said, quote=True)}"'
    return f'<div class="panel"><h3>{escape(title)}</h3>{drawn.replace("<svg", label, 1)}</div>'
