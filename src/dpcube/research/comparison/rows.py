"""The table of a comparison: a row for each table, epsilon, method and kind of question."""

import csv
import io
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dpcube.core.errors import InputError
from dpcube.core.files import new_file
from dpcube.core.memory import in_words
from dpcube.research.comparison.runs import ComparisonRun, KindErrors, listed_method
from dpcube.research.comparison.subjects import NOT_PRIVATE_WORDS, QUESTION_KINDS
from dpcube.research.ratios import LEAST_ERROR, mean_and_reach, short_number

MEASURED, ALL_KINDS = "measured", "all"


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """What a method came to on questions of one kind: means over draws with 95% intervals, seconds, memory, coverage.

    `coverage` is the share of stated 95% intervals that hold the truth, over questions that are not empty; `stated` the
    share of them for which the method states one. A method that failed or was stopped in a draw has one row, of all
    kinds, that says why.
    """

    table: str
    rows: int | None
    epsilon: str
    method: str
    made_by: str
    shown: str
    privacy: str
    questions: str
    draws: int
    mean_abs: float = math.nan
    mean_abs_low: float = math.nan
    mean_abs_high: float = math.nan
    scaled_l2: float = math.nan
    scaled_l2_low: float = math.nan
    scaled_l2_high: float = math.nan
    coverage: float = math.nan
    stated: float = math.nan
    seconds: float = math.nan
    peak_bytes: float = math.nan
    outcome: str = MEASURED

    def as_dict(self) -> dict[str, object]:
        """Return plain values, with the word that none of this is private."""
        return {**asdict(self), "private": False}


def comparison_rows(runs: Iterable[ComparisonRun]) -> list[ComparisonRow]:
    """Put draws together, in the order in which settings were met."""
    together: dict[tuple[object, ...], list[ComparisonRun]] = {}
    for run in runs:
        together.setdefault(run.key._replace(draw=0), []).append(run)
    return [row for draws in together.values() for row in _rows(draws)]


def _rows(runs: Sequence[ComparisonRun]) -> list[ComparisonRow]:
    """Return a row for each kind of question, or one that says why there are none."""
    key, listed = runs[0].key, listed_method(runs[0].key.method)
    made_by = "release" if listed.released_by_gate else "research code"
    shown = "ranges" if listed.shown_workload else ""
    place = key.table, key.rows or None, key.epsilon, key.method, made_by, shown, listed.privacy
    if failed := [run.failed for run in runs if run.failed]:
        why = f"{failed[0]} ({len(failed)} of {len(runs)} draws missing)"
        return [ComparisonRow(*place, ALL_KINDS, len(runs), outcome=why)]
    seconds = float(np.median([run.seconds for run in runs]))
    peak = float(np.max([run.peak_bytes for run in runs]))
    found = []
    for kinds in zip(*(run.kinds for run in runs), strict=True):
        errors, scaled = (_interval([getattr(one, name) for one in kinds]) for name in ("mean_abs", "scaled_l2"))
        held = _held(kinds)
        found.append(ComparisonRow(*place, kinds[0].kind, len(runs), *errors, *scaled, *held, seconds, peak))
    return found


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return a mean and its 95% interval; one draw has none."""
    mean, reach = mean_and_reach(values)
    return mean, mean - reach, mean + reach


def _held(kinds: Sequence[KindErrors]) -> tuple[float, float]:
    held, stated, asked = (sum(getattr(one, name) for one in kinds) for name in ("held", "stated", "asked"))
    return held / stated if stated else math.nan, stated / asked if asked else math.nan


def setting_words(row: ComparisonRow) -> str:
    """Return the table, its rows if they were drawn, and epsilon in words."""
    drawn = "" if row.rows is None else f", {row.rows:,} rows drawn"
    return f"{row.table}{drawn}, epsilon {row.epsilon}"


def not_measured(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return what failed or was stopped, in words, one line for each."""
    return [f"{row.method} on {setting_words(row)}: {row.outcome}" for row in rows if row.outcome != MEASURED]


def terminal_tables(rows: Sequence[ComparisonRow]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return a title, a header and lines for each table, number of rows and epsilon."""
    settings: dict[str, dict[str, list[ComparisonRow]]] = {}
    for row in rows:
        settings.setdefault(setting_words(row), {}).setdefault(row.method, []).append(row)
    found = []
    for words, methods in settings.items():
        kinds = [k for k in QUESTION_KINDS if any(row.questions == k for of in methods.values() for row in of)]
        header = ("method", *kinds, "scaled L2", "held", "seconds", "memory", "privacy")
        found.append((words, header, [_line(name, of, kinds) for name, of in methods.items()]))
    return found


def _line(name: str, rows: Sequence[ComparisonRow], kinds: Sequence[str]) -> tuple[str, ...]:
    first = rows[0]
    if first.outcome != MEASURED:
        return (name, *["-"] * (len(kinds) + 4), f"{first.privacy}; {first.outcome}")
    by_kind = {row.questions: row for row in rows}
    held = "-" if math.isnan(first.coverage) else f"{first.coverage:.1%}"
    memory = "-" if math.isnan(first.peak_bytes) else in_words(int(first.peak_bytes))
    errors = [_with_reach(by_kind[kind]) for kind in kinds]
    measured = f"{first.scaled_l2:.2e}", held, f"{first.seconds:.3f}", memory
    return name, *errors, *measured, first.privacy


def _with_reach(row: ComparisonRow) -> str:
    reach = row.mean_abs_high - row.mean_abs
    return short_number(row.mean_abs) + ("" if math.isnan(reach) else f" +- {short_number(reach, digits=2)}")


COMPARISON_ENDINGS = (".svg", ".png")
PLOTTED = "ranges"
MARKERS, DASHES = "osD^vP*X<>hd8p", ("-", "--")  # there are ten colours, and more methods
PANEL_WIDTH, PANEL_HEIGHT, PANELS_A_LINE = 5.5, 4.0, 3


def check_new(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse an output file that exists or has another ending, before anything is run."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        msg = f"{path} must end in {' or '.join(endings)}"
        raise InputError(msg)
    if os.path.lexists(path):
        msg = f"{path} exists; choose another name, or remove it first"
        raise InputError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"there is no directory {path.parent}; make it first"
        raise InputError(msg)


def csv_text(rows: Sequence[ComparisonRow]) -> str:
    """Return the rows as CSV, with empty cells for missing values."""
    file = io.StringIO()
    names = [*(field.name for field in fields(ComparisonRow)), "private"]
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _csv_cell(value) for name, value in row.as_dict().items()})
    return file.getvalue()


def _csv_cell(value: object) -> object:
    """Return a value as written to CSV: empty if missing, six digits of a measured number."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else value


def write_new(path: Path, content: bytes) -> None:
    """Write a new file."""
    try:
        with new_file(path) as part:
            part.write_bytes(content)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; what was measured is in the --cache file, if one was given"
        raise InputError(msg) from None


def picture_of(rows: Sequence[ComparisonRow], ending: str) -> bytes:
    """Return a picture, a panel for each table and number of rows: the mean error of ranges over epsilon."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        msg = "drawing needs matplotlib, which is not installed; pip install 'dpcube[plot]'"
        raise InputError(msg) from None
    panels: dict[str, dict[str, list[ComparisonRow]]] = {}
    for row in rows:
        if row.outcome == MEASURED and row.questions == PLOTTED:
            title = row.table if row.rows is None else f"{row.table}, {row.rows:,} rows"
            panels.setdefault(title, {}).setdefault(row.method, []).append(row)
    if not panels:
        msg = "there is nothing to draw: every method failed"
        raise InputError(msg)
    wide = min(len(panels), PANELS_A_LINE)
    lines = -(-len(panels) // wide)
    canvas = Canvas(figsize=(PANEL_WIDTH * wide, PANEL_HEIGHT * lines), layout="constrained")
    axes = canvas.subplots(lines, wide, squeeze=False).ravel()
    for axis, (title, methods) in zip(axes, panels.items(), strict=False):
        _draw_panel(axis, title, methods)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    named = {name: one for axis in axes for one, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    canvas.legend(named.values(), named, loc="outside right upper", fontsize=8)
    canvas.suptitle(NOT_PRIVATE_WORDS, fontsize=8)
    file = io.BytesIO()
    canvas.savefig(file, format=ending.removeprefix("."), dpi=120)
    return file.getvalue()


def _draw_panel(axis: Any, title: str, methods: dict[str, list[ComparisonRow]]) -> None:
    from dpcube.core.epsilon import parse_epsilon

    for place, (name, rows) in enumerate(methods.items()):
        found = sorted(((float(parse_epsilon(row.epsilon)), row) for row in rows), key=lambda one: one[0])
        at, errors = [e for e, _ in found], [max(row.mean_abs, LEAST_ERROR) for _, row in found]
        reach = [0.0 if row.draws < 2 else row.mean_abs_high - row.mean_abs for _, row in found]
        style = {"marker": MARKERS[place % len(MARKERS)], "color": f"C{place}", "linestyle": DASHES[place // 10 % 2]}
        axis.errorbar(at, errors, yerr=reach, label=name, markersize=4, linewidth=1, capsize=2, **style)
    axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="mean absolute error of ranges")
    axis.set_title(title, fontsize=9)
