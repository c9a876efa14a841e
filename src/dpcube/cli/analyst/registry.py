"""Command `registry`: drafts a record for the public registry of deployments, and Croissant metadata beside it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import visible

if TYPE_CHECKING:
    from dpcube.release.registry import RegistryQuestion

ONE_FILE = click.Path(path_type=Path, dir_okay=False)
ANSWERED = {
    "name": "Name of the data product.",
    "curator": "Organisation that publishes it.",
    "curator_type": "Government, Industry or Nonprofit.",
    "intended_use": "Intended use.",
    "region": "Region that it describes, or whose law applies.",
    "published": "Date of publication, YYYY-MM-DD. With a ledger, by default the date of the charge.",
    "author": "Author of the record.",
    "sector": "Technology, Healthcare, Education, Government, Energy or Finance.",
    "releases": "'One release' or 'Many releases'. With a ledger, by default as in the ledger.",
    "data": "Static or Dynamic: whether new rows arrive over time.",
    "units": "Approximate number of privacy units, if that is public.",
    "trust": "Trust model: who is trusted with what, and why.",
    "tuning": "How epsilon, bins and settings were chosen, and whether rows were inspected for it.",
    "justification": "Reasons for these choices.",
}


def answered(verb: Callable[..., object]) -> Callable[..., object]:
    """Add an option for each field that only the publisher can fill in."""
    for key, words in reversed(ANSWERED.items()):
        verb = click.option(f"--{key.replace('_', '-')}", key, help=words)(verb)
    return verb


@click.command(short_help="Draft a registry record, and Croissant metadata.")
@release_file
@click.option("--ledger", type=click.Path(path_type=Path), help="Ledger that was charged for the release.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a new .yaml file, not to stdout.")
@click.option("--croissant", type=ONE_FILE, help="Write Croissant metadata too, to this new .json file.")
@click.option("--table", type=ONE_FILE, help="CSV or Parquet file made of the release, to describe in --croissant.")
@click.option("--license", "licence", help="Address of the licence of the release, for --croissant.")
@click.option("--url", help="Address of the page of the release, for --croissant.")
@answered
def registry(
    release: Path,
    *,
    ledger: Path | None,
    output: Path | None,
    croissant: Path | None,
    table: Path | None,
    licence: str | None,
    url: str | None,
    **answers: str | None,
) -> None:
    """Draft a record of a release for the public registry of differential privacy deployments.

    The record is YAML in the schema of opendp/deployments-registry-data, from the release and its ledger. Other fields
    are options, or asked on a terminal. Fields that are left out lower the tier of the record.

    --croissant writes Croissant 1.1 metadata (JSON-LD) of the same release, which dataset search engines and machine
    learning libraries read. Publish it beside the release file.

    Example: dpcube registry patients.dpcube --ledger patients.ledger -o record.yaml --croissant patients.json
    """
    from dpcube.core.ledger.ledger import Ledger
    from dpcube.release import Release
    from dpcube.release.croissant import croissant as describe
    from dpcube.release.croissant import missing_properties
    from dpcube.release.plots.file import check_ending
    from dpcube.release.registry import as_yaml, basic, missing_for_tier_three, registry_record, unanswered

    if output is not None:
        check_ending(output, ("yaml", "yml"))
    _check_metadata(croissant, table, licence, url)
    opened = Release.open(release)
    statement = None if ledger is None else Ledger(ledger).statement()
    given = {key: text for key, text in answers.items() if text is not None}
    open_questions = unanswered(given, ledger=statement is not None)
    if open_questions and can_ask():
        given |= _ask(open_questions)
    else:
        _refuse_unknown(open_questions)
    record = registry_record(opened, given, ledger=statement)
    text = as_yaml(record) + "\n"
    metadata = None
    if croissant is not None:
        metadata = describe(opened, release, basic(record), licence=licence, url=url, table=table)
    _write(output, text)
    if croissant is not None and metadata is not None:
        _write(croissant, json.dumps(metadata, indent=2, ensure_ascii=False) + "\n")
        if unsaid := missing_properties(metadata):
            click.echo(f"Croissant requires: {', '.join(f'--{name}' for name in unsaid)}", err=True)
    if left := missing_for_tier_three(record):
        click.echo(f"missing for tier 3: {', '.join(left)}", err=True)


def _check_metadata(croissant: Path | None, table: Path | None, licence: str | None, url: str | None) -> None:
    """Refuse what could not be written or described, before anything is asked."""
    from dpcube.core.errors import InputError
    from dpcube.release.croissant import check_table
    from dpcube.release.plots.file import check_ending

    if croissant is not None:
        check_ending(croissant, ("json",))
    elif table is not None or licence is not None or url is not None:
        msg = "--table, --license and --url describe a release in Croissant metadata; name its file with --croissant"
        raise InputError(msg)
    if table is not None:
        check_table(table)


def can_ask() -> bool:
    """Return whether stdin and stderr are a terminal, so that questions can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(questions: "list[RegistryQuestion]") -> dict[str, str]:
    """Ask on the terminal; optional fields may be left empty."""
    given = {}
    for question in questions:
        words = f"{question.words}{'' if question.required else ' (empty to leave out)'}"
        kind = click.Choice([*question.choices, *([] if question.required else [""])]) if question.choices else str
        given[question.key] = click.prompt(
            words, default=None if question.required else "", show_default=False, type=kind, err=True
        )
    return given


def _refuse_unknown(questions: "list[RegistryQuestion]") -> None:
    from dpcube.core.errors import InputError

    needed = [f"--{question.key.replace('_', '-')}" for question in questions if question.required]
    if needed:
        msg = f"a record needs fields that the release does not contain: {', '.join(needed)}; give these options, or "
        msg += "answer on a terminal"
        raise InputError(msg)


def _write(output: Path | None, text: str) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    from dpcube.release.plots.file import write_picture

    write_picture(output, text.encode())
    click.echo(visible(f"wrote {output}; read it before you submit it"))
