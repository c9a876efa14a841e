"""The demonstration: a real release of the bundled public table, and a report that shows the truth beside it.

The exact counts are shown because the table is public; nothing else in the product does that.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Ints
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.curator.publishing import count, publish
from dpcube.queries import query
from dpcube.release import Answer, Release
from dpcube.release.plots import HeatMap, Picture, picture
from dpcube.release.plots.picture import coarsen
from dpcube.release.report import finest_pair, html_table, pictures_html, report
from dpcube.strategies import Strategy

QuestionsAnswered = Sequence[tuple[str, int, Answer]]


@dataclass(frozen=True, slots=True)
class Demo:
    """The files that the demonstration wrote, and its questions with exact and released answers."""

    rows: int
    release_path: Path
    report_path: Path
    questions: tuple[str, ...]
    truths: tuple[int, ...]
    answers: tuple[Answer, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the demonstration as plain values."""
        rows = zip(self.questions, self.truths, self.answers, strict=True)
        answers = [{"question": q, "truth": truth, **asdict(answer)} for q, truth, answer in rows]
        return {"release": str(self.release_path), "report": str(self.report_path), "answers": answers}


def run_demo(
    output: Path,
    *,
    epsilon: str,
    strategy: str | Strategy,
    questions: tuple[str, ...] = datasets.ADULT_QUESTIONS,
    progress: Callable[[str], None] = lambda _: None,
) -> Demo:
    """Release the bundled table with real noise, answer the questions, and write the release and a report."""
    table, domain = datasets.adult_table(), Domain.load(datasets.adult_domain())
    exact_counts = count(table, domain)
    release = publish(table, domain, epsilon=epsilon, strategy=strategy, ledger=None, progress=progress)
    progress("writing")
    release_path = _save(release, output)
    truths = tuple(round(float((exact_counts * query(domain, q).dense()).sum())) for q in questions)
    answers = tuple(release.count(q) for q in questions)
    report_path = release_path.with_suffix(".html")
    asked = list(zip(questions, truths, answers, strict=True))
    shown = demo_page(release, exact_counts, asked, title="A private cube of the Adult census")
    report_path.write_text(shown, encoding="utf-8")
    return Demo(int(exact_counts.sum()), release_path, report_path, questions, truths, answers)


def _save(release: Release, output: Path) -> Path:
    """Save under the first free name, since a release never overwrites another."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot make the directory {output}: {error.strerror}"
        raise InputError(msg) from None
    path = output / "adult.dpcube"
    number = 1
    while path.exists():
        number += 1
        path = output / f"adult-{number}.dpcube"
    release.save(path)
    return path


def beside_truth(release: Release, exact_counts: Ints, *names: str) -> Picture:
    """Return the map of two attributes of a public table, then those of its release: cells, boxes, estimate."""
    shown = picture(release, *names, stages=True)
    first = shown.panels[0]
    assert isinstance(first, HeatMap)
    at = release.domain.axis(names[0]), release.domain.axis(names[1])
    exact = exact_counts.sum(axis=tuple(j for j in range(exact_counts.ndim) if j not in at), dtype=np.float64)
    truth = coarsen(exact if at[0] < at[1] else exact.T, first.x, first.y)
    panels = (HeatMap("the table (never released)", first.x, first.y, truth), *shown.panels)
    return replace(shown, panels=panels)


def _rounded(*numbers: float) -> list[str]:
    return [f"{number:,.0f}" for number in numbers]


def _interval(answer: Answer) -> str:
    return f"{answer.low:,.0f} to {answer.high:,.0f}"


def demo_page(release: Release, exact_counts: Ints, asked: QuestionsAnswered, *, title: str) -> str:
    """Return the report of a release with questions answered, and the truth beside them."""
    header = ("question", "truth", "answer", "noise", "non-uniformity", "95% interval")
    rows = [
        (f"{q} ({a.note})" if a.note else q, f"{t:,}", *_rounded(a.value, a.stderr, a.nonuniformity), _interval(a))
        for q, t, a in asked
    ]
    held = sum(answer.low <= truth <= answer.high for _, truth, answer in asked)
    words = (
        f"<p>The truth is shown because this table is public; a real report has none. {held} of {len(asked)} intervals "
        "hold it. <i>noise</i> is the standard error of the noise added for privacy, <i>non-uniformity</i> the error "
        "expected from counts spread over cells that were counted together; the interval covers both.</p>"
    )
    section, pairs = words + html_table(header, rows, numbers=5), finest_pair(release)
    if pairs:
        section += pictures_html(lambda: [beside_truth(release, exact_counts, *pairs[0])])
    return report(release, title=title, sections={"Beside the truth": section}, with_map=False)
