"""The report of a release: one HTML page, without scripts or anything to fetch, for whoever will work with it.

A release enters; the page that says what was released, what was spent and how far answers can be trusted leaves.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from html import escape
from itertools import combinations

import numpy as np

from dpcube.analyst.pasteable import example_question, shell_word
from dpcube.analyst.plots.axis import in_rows, printable
from dpcube.analyst.plots.picture import Picture, picture
from dpcube.analyst.plots.static import MATPLOTLIB_MISSING, draw_picture
from dpcube.analyst.release import Release
from dpcube.analyst.trust import COVERAGE, INTERVAL_KINDS, Trust, doubts, trust
from dpcube.transcript.file import spent

STYLE = """
body{font:16px/1.55 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#25282f;background:#fff}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.2rem;margin:2.2rem 0 .4rem}p.lead,figcaption{color:#5b6470}
p.lead{margin-top:0}p{max-width:46rem}table{border-collapse:collapse;margin:.8rem 0}
td,th{padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap}
tr+tr td{border-top:1px solid #d9dee5}th{color:#5b6470;font-weight:600}td{font-variant-numeric:tabular-nums}
code{background:#f0f3f7;padding:.1rem .3rem;border-radius:3px;overflow-wrap:anywhere}figure{margin:1.2rem 0}
figcaption{font-size:.9rem}svg{max-width:100%;height:auto;display:block}
.stamp{border:2px solid #25282f;padding:.5rem 1rem;font-weight:600}
footer{color:#5b6470;font-size:.85rem;margin-top:2.5rem}@media print{figure{break-inside:avoid}}
"""
MOST_MAPS = 3
LONGEST_TITLE = 200


def report(release: Release, *, title: str = "", sections: Mapping[str, str] | None = None) -> str:
    """Return the page; `sections` are further parts of HTML by their headings, put before the pictures."""
    named = ", ".join(printable(name) for name in release.domain.names)
    head = printable(title, longest=LONGEST_TITLE) or f"A private cube of {named}"
    parts = {
        "What was released": _released(release),
        "What was spent": _spent(release),
        "How far answers can be trusted": _trusted(release),
        **(sections or {}),
        "Pictures": pictures_html(lambda: _pictures(release)),
        "How to ask it": _asking(release),
    }
    body = "".join(f"<h2>{escape(heading)}</h2>{part}" for heading, part in parts.items())
    made = release.provenance
    stamp = (
        "" if made.private else '<p class="stamp">NOT PRIVATE: made with noise that can be repeated. Do not share.</p>'
    )
    lead = f"{release.domain.size:,} cells, released once with epsilon {_number(made.epsilon)}."
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(head)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{escape(head)}</h1><p class="lead">{lead}</p>{stamp}{body}'
        f"<footer>Made by {escape(printable(made.library))} from the released file alone. Release "
        f"<code>{release.digest}</code>.</footer></body></html>\n"
    )


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> str:
    """Return an HTML table of text; the last `numbers` columns hold numbers."""
    first = len(header) - numbers
    lines = [
        "<tr>" + "".join(f"<{tag}{' class=n' if k >= first else ''}>{escape(c)}" for k, c in enumerate(row)) + "</tr>"
        for tag, row in (("th", header), *(("td", row) for row in rows))
    ]
    return f"<table>{''.join(lines)}</table>"


def picture_html(shown: Picture, *, caption: str = "") -> str:
    """Return a picture as part of a page; its text can be searched and read aloud."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", draw_picture(shown, "svg", titled=False).decode(), flags=re.DOTALL)
    said = escape(f"{shown.title}: {caption or shown.note}.")
    label = f'<svg role="img" aria-label="{escape(shown.title, quote=True)}"'
    return f"<figure>{svg[svg.index('<svg') :].replace('<svg', label, 1)}<figcaption>{said}</figcaption></figure>"


def _released(release: Release) -> str:
    made, boxes = release.provenance, release.transcript.boxes
    counted = "every cell" if boxes is None else f"{len(boxes.tree.leaves):,} boxes of cells"
    both = " and every cell" if boxes is not None and release.transcript.cells is not None else ""
    words = (
        f"Noisy counts of {counted}{both} of a table over {len(release.domain.names)} attributes, chosen by the "
        f"strategy <b>{escape(printable(made.strategy))}</b>. Answers come from the estimate "
        f"<b>{release.default_estimate}</b>, which makes them agree with one another. No row is in the file."
    )
    rows = [
        (printable(a.name), a.kind, printable(a.extent(), longest=90), f"{a.size:,}") for a in release.domain.attributes
    ]
    return f"<p>{words}</p>{html_table(('attribute', 'type', 'from ... to', 'cells'), rows, numbers=1)}"


def _spent(release: Release) -> str:
    made = release.provenance
    one = (
        "one row" if made.unit is None else f"all rows of one {printable(made.unit)} (at most {made.max_rows} counted)"
    )
    odds = math.exp(min(float(made.epsilon), 50))
    words = (
        f"Epsilon {_number(made.epsilon)} protects {escape(one)}: whatever anybody concludes from this file, now or "
        f"later, is at most {odds:,.3g} times as likely as it would be had {escape(one)} been left out of the table. "
        "Asking the file costs nothing more."
    )
    facts = [(f"epsilon for {phase}", _number(amount)) for phase, amount in spent(release.transcript, made).items()]
    facts += [("rows covered", printable(made.period or "all")), ("kept in a ledger", "yes" if made.ledger else "no")]
    return f"<p>{words}</p>{html_table(('', ''), facts)}"


def _trusted(release: Release) -> str:
    header = ("question", "a typical answer", "95% interval, \N{PLUS-MINUS SIGN}", "of the answer")
    told = trust(release)
    rows = [(printable(t.question, longest=60), in_rows(t.answer), in_rows(t.half_width), _share(t)) for t in told]
    doubtful = doubts(told)
    held = None if doubtful else COVERAGE.get((release.provenance.strategy, release.default_estimate))
    measured = "" if held is None else f" On a public table it did so {_held(held)}."
    words = (
        "Each answer has a standard error and an interval, reckoned from the release itself: noise added for privacy, "
        "and counts spread over cells that were counted together. The interval should hold the truth 95 times in "
        f"100.{measured} A count below its \N{PLUS-MINUS SIGN} may as well be none. A question that cuts a bin is "
        "answered as if its rows were spread evenly, and its interval reaches from none of them to all, unless the "
        "domain declares the attribute even."
    )
    stamp = f'<p class="stamp">{escape(doubtful)}</p>' if doubtful else ""
    return f"{stamp}<p>{escape(words)}</p>{html_table(header, rows, numbers=3)}"


def _held(percent: Mapping[str, int]) -> str:
    said = [f"for {percent[kind]} in 100 {words}" for kind, words in INTERVAL_KINDS.items()]
    return f"{', '.join(said[:-1])} and {said[-1]}"


def pictures_html(pictures: Callable[[], list[Picture]]) -> str:
    """Return pictures as parts of a page, or a note in their place where they cannot be drawn."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        return f"<p>Left out: {escape(MATPLOTLIB_MISSING)}.</p>"
    return "".join(map(picture_html, pictures()))


def _pictures(release: Release) -> list[Picture]:
    maps = [picture(release, *pair, stages=not number) for number, pair in enumerate(pairs(release))]
    return [picture(release), *maps]


def pairs(release: Release) -> list[tuple[str, str]]:
    """Return the pairs of attributes worth a map: those with most cells, none with fewer than three."""
    sizes = dict(zip(release.domain.names, release.domain.shape, strict=True))
    fine = [name for name, size in sizes.items() if size >= 3]
    return sorted(combinations(fine, 2), key=lambda pair: -np.log2(sizes[pair[0]]) - np.log2(sizes[pair[1]]))[
        :MOST_MAPS
    ]


def _asking(release: Release) -> str:
    question = example_question(release.domain)
    asked = f" {shell_word(question)}" if question else ""
    return (
        f"<p>With <code>pip install dpcube</code>: <code>dpcube count FILE{escape(asked)}</code>, or in Python "
        f"<code>dpcube.open(FILE).count({escape(repr(question) if question else '')})</code>.</p>"
    )


def _share(row: Trust) -> str:
    if math.isnan(row.half_width):
        return "unknown"
    return f"{100 * row.half_width / row.answer:,.2g}%" if row.answer >= 1 else "more than all of it"


def _number(value: object) -> str:
    """Return a rational as a decimal if a short one says the same."""
    amount = Fraction(str(value))
    short = f"{float(amount):.6g}"
    return short if Fraction(short) == amount else f"about {short}"
