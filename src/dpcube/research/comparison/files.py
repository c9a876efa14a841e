"""A comparison as files: the rows as CSV, and a picture of errors over epsilon. Existing files are not replaced."""

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from dpcube.core.errors import InputError
from dpcube.core.files import new_file
from dpcube.research.comparison.rows import MEASURED, ComparisonRow
from dpcube.research.comparison.subjects import NOT_PRIVATE_WORDS
from dpcube.research.ratios import LEAST_ERROR

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
