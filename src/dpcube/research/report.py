"""A release beside the truth: pictures and a page for public data only, because they show the exact counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcube.release import Answer, Release
from dpcube.release.page_parts import html_table, pictures_html
from dpcube.release.plots import HeatMap, Picture, picture
from dpcube.release.plots.picture import coarsen
from dpcube.release.report import finest_pair, report

QuestionsAnswered = Sequence[tuple[str, int, Answer]]


def beside_truth(release: Release, exact_counts: NDArray[np.int64], *names: str) -> Picture:
    """Return the map of two attributes of a public table, then those of its release: cells, boxes, estimate."""
    shown = picture(release, *names, stages=True)
    first = shown.panels[0]
    assert isinstance(first, HeatMap)
    at = release.domain.axis(names[0]), release.domain.axis(names[1])
    exact = exact_counts.sum(axis=tuple(j for j in range(exact_counts.ndim) if j not in at), dtype=np.float64)
    truth = coarsen(exact if at[0] < at[1] else exact.T, first.x, first.y)
    panels = (HeatMap("the table (never released)", first.x, first.y, truth), *shown.panels)
    return replace(shown, panels=panels)


def demo_page(release: Release, exact_counts: NDArray[np.int64], asked: QuestionsAnswered, *, title: str) -> str:
    """Return the report of a release with questions answered, and the truth beside them."""
    header = ("question", "truth", "answer", "noise", "nonuniformity", "95% interval")
    rows = [
        (
            named,
            f"{t:,}",
            f"{a.value:,.0f}",
            f"{a.stderr:,.0f}",
            f"{a.nonuniformity:,.0f}",
            f"{a.low:,.0f} to {a.high:,.0f}",
        )
        for named, t, a in ((f"{q} ({a.note})" if a.note else q, t, a) for q, t, a in asked)
    ]
    held = sum(answer.low <= truth <= answer.high for _, truth, answer in asked)
    words = (
        f"<p>The truth is shown because this table is public; a real report has none. {held} of {len(asked)} intervals "
        "hold it. <i>noise</i> is the standard error of the noise added for privacy, <i>nonuniformity</i> the error "
        "expected from counts spread over cells that were counted together; the interval covers both.</p>"
    )
    section, pairs = (
        words + html_table(header, rows, numbers=5),
        finest_pair(release),
    )
    if pairs:
        section += pictures_html(lambda: [beside_truth(release, exact_counts, *pairs[0])])
    return report(release, title=title, sections={"Beside the truth": section}, with_map=False)
