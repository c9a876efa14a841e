"""The table of a comparison: a row for each table, epsilon, method and kind of question."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dpcube.core.memory import in_words
from dpcube.research.comparison.runs import ComparisonRun, KindErrors, listed_method
from dpcube.research.comparison.subjects import QUESTION_KINDS
from dpcube.research.ratios import mean_and_reach, short_number

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
