"""HTML representations of releases, answers and views for notebooks.

The tables have no scripts, no colours of their own and nothing to fetch, so that they read in light and in dark. Names
come from files made elsewhere: all text is escaped, and shortened. At most `SHOWN_ROWS` rows are shown, and no more are
worked out, however large the view.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcube.core.errors import DpcubeError
from dpcube.release.answer import MODELLED, Answer, Answers, said
from dpcube.release.plots.axis import printable
from dpcube.release.view import first_places, group_answers

if TYPE_CHECKING:
    from dpcube.release.release import Release
    from dpcube.release.view import View

SHOWN_ROWS = 20
MAX_NOTEBOOK_TEXT = 120
STAMP = "NOT PRIVATE: made with noise that can be repeated, or from an experiment. Do not share."


def release_html(release: "Release") -> str:
    """Return what a release is of, and its attributes; nothing is estimated for it."""
    made, domain = release.provenance, release.domain
    sizes = f"{' x '.join(map(str, domain.shape))} = {domain.size:,}" if len(domain.shape) > 1 else f"{domain.size:,}"
    protected = "one row" if made.unit is None else f"all rows of one {made.unit} ({made.max_rows} counted at most)"
    counted = _counted(min(len(domain.shape), SHOWN_ROWS), len(domain.shape), "attributes")
    words = f"Release: {sizes} cells, epsilon {made.epsilon} for {protected}, by {made.strategy}; {counted}"
    rows = [(a.name, a.kind, a.extent(), f"{a.size:,}") for a in domain.attributes[:SHOWN_ROWS]]
    return _page(_table(("attribute", "type", "from ... to", "cells"), rows, numbers=(3,)), words, release)


def answer_html(answer: Answer) -> str:
    """Return an answer with its interval."""
    other = MODELLED if answer.modelled else "nonuniformity"
    header = ("count", _interval_heading(answer.confidence), "noise", other, *(["note"] if answer.note else []))
    row = (f"{answer.value:,.1f}", answer.interval, said(answer.stderr), said(answer.nonuniformity))
    return _page(_table(header, [(*row, *([answer.note] if answer.note else []))], numbers=range(4)))


def answers_html(answers: Answers) -> str:
    """Return the first answers, each with its number and its interval."""
    labels = [(str(number),) for number in range(min(len(answers), SHOWN_ROWS))]
    return _page(_answered(("",), labels, _first(answers)), _counted(len(labels), len(answers), "answers"))


def view_html(view: "View") -> str:
    """Return the first rows of a view: the names of their groups, counts and intervals."""
    try:
        axes = view.groups()
        places = first_places(axes, SHOWN_ROWS)
        answers = group_answers(axes, view.release, view.estimate, places=places)
    except (
        DpcubeError
    ) as error:  # a cube too large for this machine, say: a notebook should still show which view it is
        return _page("", f"{repr(view)[1:-1]}: {error}", view.release)
    shown = [(axis, places[:, number]) for number, axis in enumerate(axes) if axis.level is not None]
    columns = [[axis.labels[group] for group in groups] for axis, groups in shown]
    labels = list(zip(*columns, strict=True)) if columns else [()] * len(places)
    rows = math.prod(len(axis) for axis in axes)
    header = [axis.attribute.name for axis, _ in shown]
    return _page(
        _answered(header, labels, answers), f"{repr(view)[1:-1]}: {_counted(len(places), rows, 'rows')}", view.release
    )


def _answered(header: Sequence[str], labels: Sequence[Sequence[str]], answers: Answers) -> str:
    """Return a table of answers: their labels, counts, intervals and errors, and notes if any has one."""
    low, high = answers.interval()
    said_of, shown = answers.notes(), slice(1 if any(answers.notes()) else 0)
    notes = [(note,)[shown] for note in said_of]
    rows = [
        (*label, f"{value:,.1f}", _interval(*ends), said(stderr), said(within), *note)
        for label, value, ends, stderr, within, note in zip(
            labels,
            answers.values.tolist(),
            zip(low.tolist(), high.tolist(), strict=True),
            answers.stderrs.tolist(),
            answers.nonuniformities.tolist(),
            notes,
            strict=True,
        )
    ]
    measures = ["count", _interval_heading(0.95), "noise", "nonuniformity"]
    numbers = range(len(header), len(header) + len(measures))
    return _table([*header, *measures, *["note"][shown]], rows, numbers=numbers)


def _first(answers: Answers) -> Answers:
    """Return the answers that are shown; those that cut bins keep what they can mean at the least and at the most."""
    kept = slice(SHOWN_ROWS)
    cuts = answers.cuts
    if cuts is not None:
        inside = cuts.at < SHOWN_ROWS
        words = tuple(word for word, shown in zip(cuts.words, inside.tolist(), strict=True) if shown)
        cuts = replace(
            cuts, at=cuts.at[inside], least=_at(cuts.least, inside), most=_at(cuts.most, inside), words=words
        )
    return replace(_at(answers, kept), cuts=cuts)


def _at(answers: Answers, kept: slice | NDArray[np.bool_]) -> Answers:
    noises = answers.noises
    if noises is not None:
        noises = noises._replace(numbers=noises.numbers[kept])
    modelled = None if answers.modelled is None else answers.modelled[kept]
    return Answers(
        answers.values[kept], answers.stderrs[kept], answers.nonuniformities[kept], noises, modelled=modelled
    )


def _interval(low: float, high: float) -> str:
    return "unknown" if math.isnan(low + high) else f"{low:,.1f} to {high:,.1f}"


def _interval_heading(confidence: float) -> str:
    return f"{100 * confidence:.3g}% interval"


def _counted(shown: int, there: int, what: str) -> str:
    return (
        f"the first {shown} of {there:,} {what}" if shown < there else f"{there:,} {what if there != 1 else what[:-1]}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int]) -> str:
    """Return a table; the columns of `numbers` are set flush right, all others flush left."""
    lines = []
    for tag, row in (("th", header), *(("td", row) for row in rows)):
        cells = [
            f'<{tag} style="text-align:{"right" if k in numbers else "left"};padding:.1em .7em">'
            f"{escape(printable(cell, longest=MAX_NOTEBOOK_TEXT))}</{tag}>"
            for k, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"


def _page(table: str, words: str = "", release: "Release | None" = None) -> str:
    stamp = "" if release is None or release.provenance.private else f"<p><strong>{escape(STAMP)}</strong></p>"
    lead = f"<p>{escape(printable(words, longest=4 * MAX_NOTEBOOK_TEXT))}</p>" if words else ""
    return f"<div>{stamp}{lead}{table}</div>"
