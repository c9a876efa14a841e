"""The report of a release: one HTML page, without scripts or anything to fetch, to be mailed, printed and archived.

The page has the headline numbers first, then pictures, the errors of answers, and at the end how the release was made
and what it cost. Its tables and pictures fit any screen and paper: a telephone has tables row by row, with each
number's name beside it, and pictures one below the other; on paper no row and no picture is cut in two.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from html import escape
from itertools import combinations

import numpy as np

from dpcube.measurements import Transcript
from dpcube.release.answer import MODELLED
from dpcube.release.explain import measured
from dpcube.release.pasteable import example_question, shell_word
from dpcube.release.plots.axis import LONGEST_NAME, in_rows, printable
from dpcube.release.plots.picture import Bars, Panel, Picture, picture
from dpcube.release.plots.static import MATPLOTLIB_MISSING, panel_svg
from dpcube.release.release import Release
from dpcube.release.trust import COVERAGE, INTERVAL_KINDS, Trust, doubts, trust

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


MAX_TITLE_LENGTH = 1000
MAX_TITLE_ATTRIBUTES = 6
"""Attributes that a title names; of more it names the first, and says how many others there are."""
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
OF_A_MODEL = (
    "Answers about attributes that were not all counted together are those of a model that was fitted to the noisy "
    "tables; the last column is their share. "
)


def report(
    release: Release, *, title: str = "", sections: Mapping[str, str] | None = None, with_map: bool = True
) -> str:
    """Return the page; `sections` are further parts of HTML by their headings, put before the pictures.

    `with_map=False` leaves out the map of two attributes, for a page one of whose sections has it.
    """
    head = printable(title, longest=MAX_TITLE_LENGTH) or f"A private cube of {_named(release.domain.names)}"
    made, kinds, marginals = release.provenance, trust(release), picture(release)
    parts = {
        "Headline numbers": _headline(kinds, marginals),
        **(sections or {}),
        "Pictures": pictures_html(lambda: [marginals, *(_map(release) if with_map else [])]),
        "How far answers can be trusted": _trusted(release, kinds),
        "How to ask it": _asking(release),
        "How it was made": _made(release),
        "What was spent": _spent(release),
    }
    body = "".join(f"<section><h2>{escape(heading)}</h2>{part}</section>" for heading, part in parts.items())
    warnings = [
        "" if made.private else "NOT PRIVATE: made with noise that can be repeated. Do not share.",
        doubts(kinds),
    ]
    stamps = "".join(f'<p class="stamp">{escape(words)}</p>' for words in warnings if words)
    lead = f"{release.domain.size:,} cells, released once with epsilon {_number(made.epsilon)}."
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(head)}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{escape(head)}</h1><p class="lead">{lead}</p>{stamps}{body}'
        f"</main><footer>Made by {escape(printable(made.library))} from the released file alone. Release "
        f"<code>{release.digest}</code>.</footer></body></html>\n"
    )


def _named(names: Sequence[str]) -> str:
    """Return the names of attributes, each whole; of very many the first, and how many others there are."""
    shown = [printable(name, longest=LONGEST_NAME) for name in names]
    if len(shown) <= MAX_TITLE_ATTRIBUTES:
        return ", ".join(shown)
    return (
        f"{', '.join(shown[: MAX_TITLE_ATTRIBUTES - 1])} and {len(shown) - MAX_TITLE_ATTRIBUTES + 1} other attributes"
    )


def _headline(kinds: Sequence[Trust], marginals: Picture) -> str:
    """Return the total, large, and of each attribute the group that most rows are in."""
    total = kinds[0]
    tile = (
        f'<p class="headline"><strong>{in_rows(total.answer)}</strong> rows in all, {PLUS_MINUS} '
        f"{in_rows(total.half_width)} with 95% confidence</p>"
    )
    if doubts(kinds):
        return tile
    header = ("attribute", "largest group", "rows", f"95%, {PLUS_MINUS}", "of all rows")
    rows = [_largest(bars, total.answer) for bars in marginals.panels if isinstance(bars, Bars)]
    return tile + html_table(header, rows, numbers=3)


def _largest(bars: Bars, total: float) -> tuple[str, ...]:
    """Return the largest group of an attribute, and which others may be as large; or that none stands out."""
    first = int(np.argmax(bars.values))
    rivals = [k for k in np.argsort(-bars.values) if k != first and not bars.high[k] < bars.low[first]]
    name = bars.axis.name
    if len(rivals) > 2 or np.isnan(bars.low[first]):
        return name, "none stands out", "", "", ""
    groups = " or ".join(bars.axis.labels[k] for k in (first, *rivals))
    value, off = float(bars.values[first]), float(bars.whiskers[:, first].max())
    return name, groups, in_rows(value), in_rows(off), f"{100 * value / total:,.2g}%"


def _map(release: Release) -> list[Picture]:
    return [picture(release, *pair, stages=True) for pair in finest_pair(release)]


def finest_pair(release: Release) -> list[tuple[str, str]]:
    """Return the pair of attributes with most cells, that a map shows best; none if no two have three cells each."""
    sizes = dict(zip(release.domain.names, release.domain.shape, strict=True))
    pairs = combinations([name for name, size in sizes.items() if size >= 3], 2)
    return sorted(pairs, key=lambda pair: -np.log2(sizes[pair[0]]) - np.log2(sizes[pair[1]]))[:1]


def _trusted(release: Release, kinds: Sequence[Trust]) -> str:
    some_modelled = any(t.modelled for t in kinds)
    coverage = None if doubts(kinds) else COVERAGE.get((release.provenance.strategy, release.default_estimate))
    on_public = "" if coverage is None else f" On a public table it did so {_held(coverage)}."
    words = (
        "Each answer has a standard error and a confidence interval, computed from the release itself: noise added for "
        "privacy, and counts spread over cells that were counted together. The interval should contain the truth 95 "
        f"times in 100.{on_public} A count below its {PLUS_MINUS} is compatible with 0. "
        f"{OF_A_MODEL if some_modelled else ''}"
        "A question that cuts a bin is "
        "answered as if its rows were spread evenly, and its interval reaches from none of them to all, unless the "
        "domain declares the attribute even."
    )
    return f"<p>{escape(words)}</p>{_trust_table(kinds, some_modelled=some_modelled)}"


def _trust_table(kinds: Sequence[Trust], *, some_modelled: bool) -> str:
    header = ("question", "a typical answer", f"95% interval, {PLUS_MINUS}", "of the answer", MODELLED)
    rows = [
        (
            printable(t.question, longest=LONGEST_NAME),
            in_rows(t.answer),
            in_rows(t.half_width),
            _share(t),
            f"{t.modelled:.0%}",
        )
        for t in kinds
    ]
    columns = len(header) if some_modelled else len(header) - 1
    return html_table(header[:columns], [row[:columns] for row in rows], numbers=columns - 1)


def _held(percent: Mapping[str, int]) -> str:
    said = [f"for {percent[kind]} in 100 {words}" for kind, words in INTERVAL_KINDS.items()]
    return f"{', '.join(said[:-1])} and {said[-1]}"


def _share(row: Trust) -> str:
    if math.isnan(row.half_width):
        return "unknown"
    return f"{100 * row.half_width / row.answer:,.2g}%" if row.answer >= 1 else "more than all of it"


def _asking(release: Release) -> str:
    question = example_question(release.domain)
    asked = f" {shell_word(question)}" if question else ""
    return (
        f"<p>With <code>pip install dpcube</code>: <code>dpcube count FILE{escape(asked)}</code>, or in Python "
        f"<code>dpcube.open(FILE).count({escape(repr(question) if question else '')})</code>.</p>"
    )


def _made(release: Release) -> str:
    words = (
        f"Noisy counts of {escape(_counted(release.transcript))}, over a table of {len(release.domain.names)} "
        f"attributes. The strategy <b>{escape(printable(release.provenance.strategy))}</b> selected what is counted. "
        f"Answers come from the estimate <b>{release.default_estimate}</b>. No row is in the file."
    )
    rows = [
        (printable(a.name, longest=LONGEST_NAME), a.kind, printable(a.extent(), longest=90), f"{a.size:,}")
        for a in release.domain.attributes
    ]
    return f"<p>{words}</p>{html_table(('attribute', 'type', 'from ... to', 'cells'), rows, numbers=1)}"


def _counted(transcript: Transcript) -> str:
    """Return in words what a release counted: cells, boxes of cells, and tables over some of the attributes.

    A release without boxes need not have counted cells: a wide table has far too many of them.
    """
    found = [words for kept in transcript.measurements if (words := kept.counted(transcript.shape))]
    tables = Counter(len(one.axes) for one in transcript.marginals if not one.covers(transcript.shape))
    for axes, many in sorted(tables.items()):
        over = f"{axes} attribute{'s' * (axes != 1)}" + (" each" if many > 1 else "")
        found.append(f"{many} table{'s' * (many > 1)} over {over}" if axes else "all rows")
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def _spent(release: Release) -> str:
    made = release.provenance
    one = (
        "one row" if made.unit is None else f"all rows of one {printable(made.unit)} (at most {made.max_rows} counted)"
    )
    odds = math.exp(min(float(made.epsilon), 50))
    covered = "all rows" if made.period is None else f"the rows of {printable(made.period, longest=LONGEST_NAME)}"
    book = "A ledger keeps account of it." if made.ledger else "No ledger keeps account of it."
    words = (
        f"Epsilon {_number(made.epsilon)} protects {escape(one)}: whatever anybody concludes from this file, now or "
        f"later, is at most {odds:,.3g} times as likely as it would be had {escape(one)} been left out of the table. "
        f"Asking the file costs nothing more. It covers {escape(covered)}. {book}"
    )
    header = ("counted", "counts", "of epsilon, each", "noise of each, rows")
    rows = [
        (printable(row.what, longest=LONGEST_NAME), f"{row.counts:,}", f"{row.share:.2%}", f"{row.noise:,.3g}")
        for row in measured(release)
    ]
    return f"<p>{words}</p>{html_table(header, rows, numbers=3)}"


def _number(value: object) -> str:
    """Return a rational as a decimal if a short one says the same."""
    amount = Fraction(str(value))
    short = f"{float(amount):.6g}"
    return short if Fraction(short) == amount else f"about {short}"
