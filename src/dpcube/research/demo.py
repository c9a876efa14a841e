"""The demonstration on the bundled public table: a real release, and the truth beside its answers."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from dpcube import datasets
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.curator.publishing import count, publish
from dpcube.queries import query
from dpcube.release import Answer, Release
from dpcube.research.report import demo_page
from dpcube.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demonstration shows."""

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
    questions: tuple[str, ...],
    output: Path,
    *,
    epsilon: str,
    strategy: str | Strategy,
    progress: Callable[[str], None] = lambda _: None,
) -> Demo:
    """Release the bundled table with real noise, ask it the questions, and write the release and a report."""
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
