"""The verb that drafts a record for the public registry of deployments."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import visible

if TYPE_CHECKING:
    from dpcube.release.registry import RegistryQuestion

ANSWERED = {
    "name": "The name of the data product.",
    "curator": "Who publishes it.",
    "curator_type": "Government, Industry or Nonprofit.",
    "intended_use": "What it is to be used for.",
    "region": "The region that it describes, or whose law applies.",
    "published": "The day of publication, YYYY-MM-DD; that of the charge if a ledger is given.",
    "author": "Who writes the record.",
    "sector": "Technology, Healthcare, Education, Government, Energy or Finance.",
    "releases": "'One release' or 'Many releases'; as in the ledger if one is given.",
    "data": "Static or Dynamic: whether new rows come in over time.",
    "units": "Roughly how many units are protected, if that is public.",
    "trust": "Who is trusted with what, and why.",
    "tuning": "How epsilon, bins and settings were chosen, and whether rows were looked at for it.",
    "justification": "Why these choices were made.",
}


def answered(verb: Callable[..., object]) -> Callable[..., object]:
    """Add an option for each thing that only the publisher knows."""
    for key, words in reversed(ANSWERED.items()):
        verb = click.option(f"--{key.replace('_', '-')}", key, help=words)(verb)
    return verb


@click.command(short_help="Draft a record for the public registry of deployments.")
@release_file
@click.option("--ledger", type=click.Path(path_type=Path), help="The ledger that was charged for the release.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a new .yaml file instead of printing.")
@answered
def registry(release: Path, *, ledger: Path | None, output: Path | None, **answers: str | None) -> None:
    """Draft a record of a release for the public registry of deployments of differential privacy.

    It is YAML in the schema of opendp/deployments-registry-data, from the release and its ledger. What they do not know
    is asked on a terminal, or given by options; what is left out stays out, and lowers the tier of the record.
    """
    from dpcube.core.ledger.ledger import Ledger
    from dpcube.release import Release
    from dpcube.release.plots.file import check_ending
    from dpcube.release.registry import as_yaml, missing_for_tier_three, registry_record, unanswered

    if output is not None:
        check_ending(output, ("yaml", "yml"))
    opened = Release.open(release)
    statement = None if ledger is None else Ledger(ledger).statement()
    said = {key: text for key, text in answers.items() if text is not None}
    open_questions = unanswered(said, ledger=statement is not None)
    if open_questions and can_ask():
        said |= _ask(open_questions)
    else:
        _refuse_unknown(open_questions)
    record = registry_record(opened, said, ledger=statement)
    text = as_yaml(record) + "\n"
    _write(output, text)
    if left := missing_for_tier_three(record):
        click.echo(f"left out, so not of tier 3: {', '.join(left)}", err=True)


def can_ask() -> bool:
    """Say whether there is somebody who sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(questions: "list[RegistryQuestion]") -> dict[str, str]:
    """Ask on the terminal; what need not be answered may be left empty."""
    said = {}
    for question in questions:
        words = f"{question.words}{'' if question.required else ' (empty to leave out)'}"
        kind = click.Choice([*question.choices, *([] if question.required else [""])]) if question.choices else str
        said[question.key] = click.prompt(
            words, default=None if question.required else "", show_default=False, type=kind, err=True
        )
    return said


def _refuse_unknown(questions: "list[RegistryQuestion]") -> None:
    from dpcube.core.errors import InputError

    needed = [f"--{question.key.replace('_', '-')}" for question in questions if question.required]
    if needed:
        msg = f"a record needs what the file cannot know: {', '.join(needed)}; give them, or answer on a terminal"
        raise InputError(msg)


def _write(output: Path | None, text: str) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    from dpcube.release.plots.file import write_picture

    write_picture(output, text.encode())
    click.echo(visible(f"wrote {output}; read it before you hand it in"))
