"""The page of recorded comparisons, docs/research/benchmark.md, from the CSV of each.

Everything on the page follows from the recorded rows, failures and losses too, so that a test can check it.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from dpcube.core.memory import in_words
from dpcube.research.comparison.rows import MEASURED
from dpcube.research.comparison.subjects import QUESTION_KINDS
from dpcube.research.ratios import LEAST_ERROR, MeanError, geometric_mean, short_number
from dpcube.strategies import DEFAULT

Row = Mapping[str, str]
SHOWN_KIND = "ranges"
FEW_TABLES = 2
"""Runs of at most this many tables are shown by kind of question, others by table."""


@dataclass(frozen=True, slots=True)
class RecordedComparison:
    """One run of `dpcube compare`: its rows, the command, the day, and the machine with its versions in words."""

    name: str
    title: str
    command: str
    date: str
    seconds: float
    machine: str
    versions: str
    csv: str

    @property
    def rows(self) -> list[Row]:
        """The rows of the CSV."""
        return list(csv.DictReader(io.StringIO(self.csv)))


class Loss(NamedTuple):
    """A setting in which another method errs less than the default: the best one, the ratio, and whether apart."""

    other: str
    ratio: float
    apart: bool


def benchmark_page(runs: Sequence[RecordedComparison]) -> str:
    """Return the page of some recorded comparisons."""
    parts = [HEAD, _what_was_run(runs), _not_measured(runs)]
    parts += [_results(run) for run in runs]
    return "\n".join([*parts, _where_we_lose(runs)])


HEAD = """# Benchmark

Strategies and rivals ([rivals.md](rivals.md)) beside each other on public data, by `dpcube compare`
([compare.md](compare.md), which tells what is measured). **Nothing here is private**: it is made from exact counts.
This page is written by `python tools/benchmark.py` from the rows recorded in `docs/compare`, and a test holds it to
them; `python tools/benchmark.py NAME...` records runs anew. The methods that are shown the questions (`dawa`, `mwem`)
are shown the random ranges. Errors are means over draws with 95% intervals; every row, with scaled L2 and coverage by
kind, is in the CSV of its run. `held` and `stated` are plain means over a run's rows. Other work ran on the machine
meanwhile, so seconds are upper bounds.
"""


def _what_was_run(runs: Sequence[RecordedComparison]) -> str:
    lines = ["## What was run", ""]
    for run in runs:
        rows = run.rows
        failed = sum(row["outcome"] != MEASURED for row in rows)
        lines += [
            f"* **{run.title}** ([{run.name}.csv](compare/{run.name}.csv)): {run.date}, {run.seconds:,.0f} seconds, "
            f"{len(rows)} rows, {failed} of them not measured. {run.machine}; {run.versions}.",
            "",
            f"  `{run.command}`",
            "",
        ]
    return "\n".join(lines)


def _not_measured(runs: Sequence[RecordedComparison]) -> str:
    """Return what failed or was stopped, each setting with why; methods that say the same on a table are one line."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        for row in run.rows:
            if row["outcome"] != MEASURED:
                found.setdefault((run.title, row["method"], row["outcome"]), []).append(_setting(row))
    lines = [f"* {title}: `{method}` {why}: {'; '.join(where)}." for (title, method, why), where in found.items()]
    return "\n".join(["## What failed or was stopped", "", *(lines or ["Nothing."]), ""])


def _setting(row: Row) -> str:
    return f"{_table(row)}, epsilon {row['epsilon']}"


def _table(row: Row) -> str:
    return f"{row['table']}, {int(row['rows']):,} rows" if row["rows"] else row["table"]


def _results(run: RecordedComparison) -> str:
    measured = [row for row in run.rows if row["outcome"] == MEASURED]
    tables = list(dict.fromkeys(row["table"] for row in run.rows))
    lines = [f"## {run.title}", ""]
    for epsilon in dict.fromkeys(row["epsilon"] for row in run.rows):
        of = [row for row in measured if row["epsilon"] == epsilon]
        if len(tables) <= FEW_TABLES:
            for table in tables:
                lines += [f"{table}, epsilon {epsilon}: mean absolute errors.", ""]
                lines += _table_of([row for row in of if row["table"] == table], "questions", QUESTION_KINDS)
        else:
            lines += [f"Mean absolute errors of {SHOWN_KIND}, epsilon {epsilon}.", ""]
            lines += _table_of([row for row in of if row["questions"] == SHOWN_KIND], "table", tables)
    return "\n".join(
        [*lines, "How often stated 95% intervals hold, over all questions; time and memory.", "", *_costs(run)]
    )


def _table_of(rows: Sequence[Row], across: str, columns: Iterable[str]) -> list[str]:
    """Return methods down and something across, as lines of Markdown."""
    named = [column for column in columns if any(row[across] == column for row in rows)]
    lines = [f"| method | {' | '.join(named)} |", f"|---|{'---|' * len(named)}"]
    for method in dict.fromkeys(row["method"] for row in rows):
        found = {row[across]: row for row in rows if row["method"] == method}
        lines.append(f"| {method} | {' | '.join(_error(found.get(column)) for column in named)} |")
    return [*lines, ""]


def _error(row: Row | None) -> str:
    if row is None:
        return "not measured"
    reach = (
        f" +- {short_number(float(row['mean_abs_high']) - float(row['mean_abs']), digits=2)}"
        if row["mean_abs_high"]
        else ""
    )
    return short_number(float(row["mean_abs"])) + reach


def _costs(run: RecordedComparison) -> list[str]:
    """Return coverage, the range of seconds over tables, the largest memory, and what makes it, for each method."""
    lines = [
        "| method | held | stated | seconds of a release | memory | made by | shown |",
        "|---|---|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(row["method"] for row in run.rows):
        rows = [row for row in run.rows if row["method"] == method]
        measured = [row for row in rows if row["outcome"] == MEASURED]
        made = f"{rows[0]['made_by']} | {rows[0]['shown'] or '-'} |"
        if not measured:
            lines.append(f"| {method} | - | - | not measured | - | {made}")
            continue
        seconds = [float(row["seconds"]) for row in measured]
        peak = max(float(row["peak_bytes"] or 0) for row in measured)
        held, stated = _mean(measured, "coverage"), _mean(measured, "stated")
        taken = f"{min(seconds):.3f} to {max(seconds):.3f}"
        lines.append(f"| {method} | {held} | {stated} | {taken} | {in_words(int(peak))} | {made}")
    return [*lines, ""]


def _mean(rows: Iterable[Row], column: str) -> str:
    """Return the plain mean of a share over rows that have it."""
    known = [float(row[column]) for row in rows if row[column]]
    return f"{sum(known) / len(known):.1%}" if known else "-"


def losses(text: str) -> dict[tuple[str, str], dict[str, Loss | None]]:
    """Return by table and epsilon, and by kind of question, the best other method if it errs less than the default.

    A setting in which the default was not measured is lost to whichever was the best.
    """
    settings: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row["outcome"] == MEASURED:
            kinds = settings.setdefault((_table(row), row["epsilon"]), {})
            kinds.setdefault(row["questions"], {})[row["method"]] = row
    return {setting: {kind: _loss(dict(of)) for kind, of in kinds.items()} for setting, kinds in settings.items()}


def _loss(methods: dict[str, Row]) -> Loss | None:
    ours = methods.pop(DEFAULT, None)
    if not methods:
        return None
    best = min(methods.values(), key=lambda row: float(row["mean_abs"]))
    if ours is None:
        return Loss(best["method"], float("inf"), apart=True)
    least, error = float(best["mean_abs"]), float(ours["mean_abs"])
    if least >= error:
        return None
    has_intervals = bool(best["mean_abs_high"] and ours["mean_abs_low"])
    apart = has_intervals and float(best["mean_abs_high"]) < float(ours["mean_abs_low"])
    return Loss(best["method"], error / max(least, LEAST_ERROR), apart)


def _where_we_lose(runs: Sequence[RecordedComparison]) -> str:
    lines = ["## Where we lose", "", *LOSS_WORDS, ""]
    for run in runs:
        found = losses(run.csv)
        each = [loss for kinds in found.values() for loss in kinds.values()]
        lost = [loss for loss in each if loss is not None]
        lines += [
            f"**{run.title}**: another method errs less in {len(lost)} of {len(each)} settings, apart in "
            f"{sum(loss.apart for loss in lost)}. {_beside_cells(run)}{_slower_than(run)}",
            "",
        ]
        kinds = [kind for kind in QUESTION_KINDS if any(kind in of for of in found.values())]
        lines += [f"| table | epsilon | {' | '.join(kinds)} |", f"|---|---|{'---|' * len(kinds)}"]
        for (table, epsilon), of in found.items():
            if any(of.values()):
                lines.append(f"| {table} | {epsilon} | {' | '.join(_loss_cell(of.get(kind)) for kind in kinds)} |")
        lines.append("")
    return "\n".join(lines)


LOSS_WORDS = (
    f"Settings in which another method errs less than the default, `{DEFAULT}`, in the mean over draws: the best other",
    "one, and the default's error over its own; in bold where their 95% intervals do not touch. The other one is the",
    "best of all, seen afterwards, so that ratios near one are chance. An empty place is one where the default errs",
    "least; tables without a loss are left out.",
)


def _loss_cell(loss: Loss | None) -> str:
    if loss is None:
        return ""
    words = f"{loss.other} {loss.ratio:.2f}" if loss.ratio < float("inf") else f"{loss.other}, ours not measured"
    return f"**{words}**" if loss.apart else words


def _beside_cells(run: RecordedComparison) -> str:
    """Return the default's error over that of plain cells, as a geometric mean over the run's settings."""
    pairs: dict[tuple[str, ...], dict[str, float]] = {}
    for row in run.rows:
        if row["outcome"] == MEASURED and row["method"] in (DEFAULT, "cells"):
            setting = _table(row), row["epsilon"], row["questions"]
            pairs.setdefault(setting, {})[row["method"]] = float(row["mean_abs"])
    ratios = [
        MeanError(of[DEFAULT] / max(of["cells"], LEAST_ERROR))
        for of in pairs.values()
        if {DEFAULT, "cells"} <= of.keys()
    ]
    if not ratios:
        return ""
    mean = geometric_mean(ratios).mean
    return f"The default errs {mean:.2f} times as much as plain cells, in the geometric mean of all settings. "


def _slower_than(run: RecordedComparison) -> str:
    """Return how long the default takes, and how many others take less in the median of their rows."""
    seconds: dict[str, list[float]] = {}
    for row in run.rows:
        if row["outcome"] == MEASURED:
            seconds.setdefault(row["method"], []).append(float(row["seconds"]))
    ours = seconds.pop(DEFAULT, None)
    if ours is None or not seconds:
        return ""
    faster = sum(median(of) < median(ours) for of in seconds.values())
    return f"It takes {median(ours):.2g} seconds in the median; {faster} of {len(seconds)} others take less."
