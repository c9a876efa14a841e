"""Commands `info` and `count`: the contents of a release, and counts with confidence intervals."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.output import as_json, print_json, print_table, visible

if TYPE_CHECKING:
    from dpcube.core.domain import Attribute
    from dpcube.core.errors import QueryError
    from dpcube.release import Answer, Release

release_file = click.argument("release", type=click.Path(path_type=Path))


@click.command(short_help="Show the contents and accuracy of a cube.")
@release_file
@as_json
def info(release: Path, *, as_json: bool) -> None:
    """Show the contents of a released cube, the privacy budget spent on it, and the errors of its answers.

    Example: dpcube info patients.dpcube
    """
    import json

    from dpcube.release.cache import made_once

    contents = json.loads(made_once(release, "info", lambda: json.dumps(_contents(release)).encode()))
    facts, attributes = contents["facts"], contents["attributes"]
    if as_json:
        print_json({**facts, "attributes": attributes, **contents["account"]})
        return
    facts["spent_on"] = _by_kind(facts["spent_on"])
    for name, fact in facts.items():
        click.echo(f"{name.replace('_', ' '):<12} {visible(_words(fact))}".rstrip())
    click.echo()
    for line in contents["lines"]:
        click.echo(visible(line))
    click.echo()
    header = ("attribute", "type", "cells", "irregular values", "levels", "domain")
    rows = [tuple(_column(attribute[name]) for name in header) for attribute in attributes]
    print_table(header, rows, left=(0, 3, 4, 5))


def _contents(path: Path) -> dict[str, object]:
    """Return the facts about a release that `info` prints, as plain values."""
    from dpcube.release import Release
    from dpcube.release.explain import account

    opened = Release.open(path)
    contents = account(opened)
    return {
        "facts": _facts(opened),
        "attributes": _attributes(opened),
        "account": contents.as_dict(),
        "lines": str(contents).splitlines(),
    }


def _by_kind(amounts: Mapping[str, str]) -> dict[str, str]:
    """Return the budget spent on each kind of measurement, for display.

    >>> _by_kind({"marginal 1": "1/50", "marginal 2": "1/50", "boxes": "24/25"})
    {'marginal': '0.04', 'boxes': '0.96'}
    """
    sums: dict[str, Fraction] = {}
    for name, amount in amounts.items():
        kind = name.rstrip("0123456789 ")
        sums[kind] = sums.get(kind, Fraction(0)) + Fraction(amount)
    return {kind: f"{float(amount):.4g}" for kind, amount in sums.items()}


def _column(fact: object) -> str:
    """Return a fact of an attribute for display; a single level is the attribute itself."""
    return (" < ".join(fact) if len(fact) > 1 else "") if isinstance(fact, list) else str(fact)


def _facts(release: "Release") -> dict[str, object]:
    from dpcube.measurements.manifest import spent

    made = release.provenance
    boxes = release.transcript.boxes
    unit = "one row" if made.unit is None else f"all rows of one {made.unit}, at most {made.max_rows} of them counted"
    return {
        "private": made.private,
        "epsilon": str(made.epsilon),
        "protects": unit,
        "rows": made.period or "all",
        "spent_on": spent(release.transcript, made),
        "ledger": made.ledger,
        "strategy": made.strategy,
        "parameters": dict(made.parameters),
        "cells": release.domain.size,
        "boxes": 0 if boxes is None else len(boxes.tree.leaves),
        "estimates": list(release.estimates),
        "digest": release.digest,
        "made_by": made.library,
    }


def _words(fact: object) -> str:
    """Return a fact of a release for display."""
    if isinstance(fact, bool):
        return "yes" if fact else "NO"
    if isinstance(fact, dict):
        return ", ".join(f"{key} {value}" for key, value in fact.items() if value is not None)
    return ", ".join(fact) if isinstance(fact, list) else f"{fact:,}" if isinstance(fact, int) else str(fact)


def _attributes(release: "Release") -> list[dict[str, object]]:
    return [
        {
            "attribute": attribute.name,
            "type": attribute.kind,
            "cells": attribute.size,
            "domain": attribute.extent(),
            "irregular values": _irregular(attribute),
            "levels": [level.name for level in attribute.levels()],
        }
        for attribute in release.domain.attributes
    ]


def _irregular(attribute: "Attribute") -> str:
    """Return the destinations of values without a bin, such as `null own cell, outside clipped, others dropped`."""
    from dpcube.core.domain.attribute import IRREGULAR

    given = {kind: getattr(attribute, kind) for kind in IRREGULAR if hasattr(attribute, kind)}
    kept = [f"{kind} {'clipped' if went == 'clip' else 'own cell'}" for kind, went in given.items() if went != "drop"]
    dropped = [] if len(kept) == len(given) else ["others dropped" if kept else "dropped"]
    return ", ".join(kept + dropped)


@click.command(short_help="Count the rows that satisfy each question.")
@release_file
@click.argument("questions", nargs=-1, metavar="QUESTION...")
@click.option("--confidence", default=0.95, show_default=True, help="Level of the confidence intervals.")
@click.option(
    "--estimate",
    default="auto",
    show_default=True,
    help="Estimate to answer from. `dpcube info` lists the available ones.",
)
@as_json
def count(release: Path, questions: tuple[str, ...], *, confidence: float, estimate: str, as_json: bool) -> None:
    """Count the rows that satisfy each question, with confidence intervals. Without a question, count all rows.

    Example: dpcube count patients.dpcube "age between 30 and 39 and sex = 'Female'"
    """
    from dataclasses import asdict

    from dpcube.core.errors import QueryError

    asked = questions or ("",)
    found = list(zip(asked, _answered(release, asked, confidence=confidence, estimate=estimate), strict=True))
    answers = [(text, answer) for text, answer in found if not isinstance(answer, QueryError)]
    faults = [str(fault) for _, fault in found if isinstance(fault, QueryError)]
    if as_json and answers:
        print_json(
            [
                {"question": text, **({"error": str(each)} if isinstance(each, QueryError) else asdict(each))}
                for text, each in found
            ]
        )
    elif answers:
        _print_answers(answers, confidence)
    if faults:
        raise QueryError("; ".join(faults))


def _answered(
    release: Path, questions: Sequence[str], *, confidence: float, estimate: str
) -> list["Answer | QueryError"]:
    """Return the answer to each question, or why it has none: a faulty question does not lose the others."""
    from dpcube.core.errors import QueryError
    from dpcube.release.cache import counted

    try:
        return [*counted(release, questions, confidence=confidence, estimate=estimate)]
    except QueryError as error:
        if len(questions) == 1:
            return [error]
    return [
        each
        for question in questions
        for each in _answered(release, (question,), confidence=confidence, estimate=estimate)
    ]


def _print_answers(found: Sequence[tuple[str, "Answer"]], confidence: float) -> None:
    from dpcube.release.answer import MODELLED, said

    answers = [answer for _, answer in found]
    other = MODELLED if all(a.modelled for a in answers) else "nonuniformity"
    header = ["question", "count", "noise", other, f"{100 * confidence:.4g}% interval", "note"]
    rows = [
        [text or "(all)", f"{a.value:,.1f}", said(a.stderr), said(a.nonuniformity), a.interval, a.note]
        for text, a in found
    ]
    columns = slice(None if any(a.note for a in answers) else -1)
    print_table(header[columns], [row[columns] for row in rows], left=(0, 5))
