"""Command `domain`: drafts a domain file, from names and types, from public data, or learnt at a price."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from dpcube.cli.curator.release import (
    command_line,
    csv_options,
    csv_words,
    dialect_of,
    query_option,
    table_argument,
)
from dpcube.cli.output import stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.core.errors import KeptReleaseError
    from dpcube.curator import LearntDomain

ONLY_LEARNT = ("known", "explain", "ledger", "total", "no_ledger", "unit", "null_unit", "purpose", "again")
ONLY_DRAFTED = ("from_data", "public", "quantiles")


@click.command(short_help="Draft a domain file for a table, or learn one at a price.")
@table_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the draft to this file, not to stdout.")
@click.option("--columns", help="Comma-separated columns to draft. All columns by default.")
@click.option(
    "--from-data",
    is_flag=True,
    help="Look up bounds and values in the table. The draft is then private: only you can read its file, and releases "
    "refuse it until you sign it as public.",
)
@click.option(
    "--public",
    metavar="NAME",
    help="Sign a draft made with --from-data: NAME declares that the table itself is public.",
)
@click.option(
    "--quantiles",
    type=int,
    metavar="BINS",
    help="Draft this many bins with about equal numbers of rows for numeric columns. For public data only.",
)
@click.option(
    "--epsilon",
    help="Privacy budget to spend on learning how text is read, bounds, dates and values, with differential privacy.",
)
@click.option("--explain", is_flag=True, help="With --epsilon: print which counts would be found. Nothing is spent.")
@click.option(
    "--known",
    multiple=True,
    metavar="COLUMN=FILE",
    help="With --epsilon: values of a column that are publicly known to be likely, one per line.",
)
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="Ledger to charge. By default TABLE.ledger beside the table."
)
@click.option("--total", help="Total privacy budget of a new ledger. By default the epsilon of this command.")
@click.option("--no-ledger", is_flag=True, help="Do not record the charge. Releases then ask for a signature.")
@click.option("--unit", help="Column that names the privacy unit, such as patient_id. One row of each is counted.")
@click.option(
    "--null-unit",
    type=click.Choice(["drop", "each"]),
    default="drop",
    show_default=True,
    help="Drop rows without a privacy unit, or treat each as a unit of its own.",
)
@click.option("--purpose", default="", help="Note to record in the ledger.")
@click.option("--again", is_flag=True, help="Learn once more from a table whose ledger has such a charge already.")
@query_option
@csv_options
@click.pass_context
def domain(
    ctx: click.Context,
    /,
    table: Path | str,
    *,
    output: Path | None,
    columns: str | None,
    epsilon: str | None,
    query: str | None,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None,
    **given: Any,
) -> None:
    """Draft a domain file for TABLE, from its column names and types only, or learn it with --epsilon.

    TABLE is any source that `dpcube release` accepts. Without --epsilon, fill in the bounds and values from public
    knowledge, then run `dpcube release`. With it the file is complete; the epsilon is charged to the ledger of the
    table, and a release that is charged to the same ledger needs no signature.

    Example: dpcube domain patients.csv -o patients.toml

    Example: dpcube domain patients.csv --epsilon 0.05 --total 1 -o patients.toml
    """
    from dpcube.curator.draft import draft

    _refuse_mixed(ctx, learning=epsilon is not None)
    _refuse_existing(output)
    chosen = None if columns is None else tuple(name.strip() for name in columns.split(","))
    csv = dialect_of(table, delimiter, names, null_text, encoding)
    of_table: dict[str, Any] = {"columns": chosen, "csv": csv, "query": query}
    if epsilon is not None and given["explain"]:
        from dpcube.curator import explain_learning

        click.echo(visible_lines(explain_learning(table, epsilon=epsilon, known=_known(given["known"]), **of_table)))
        return
    private = False
    if epsilon is not None:
        text = _learnt(table, output, epsilon=epsilon, **of_table, **given)
    else:
        text = draft(table, **of_table, **{key: given[key] for key in ONLY_DRAFTED})
        private = given["from_data"] and given["public"] is None
    if output is None:
        click.echo(text, nl=False)
        return
    _write(output, text, private=private, paid=epsilon is not None)
    same = csv_words(None, names, null_text, None)  # the draft contains the delimiter and the encoding
    then = f"{command_line('check', table, '--domain', output, *same)} (private output), "
    then += command_line("release", table, "--domain", output, *same, "--epsilon", "E", "-o", "R.dpcube")
    click.echo(visible(f"wrote {output}; {'' if epsilon else 'edit it, '}then run: {then}".replace("; then", "; next")))


def _learnt(
    table: Path | str,
    output: Path | None,
    *,
    epsilon: str,
    known: tuple[str, ...],
    ledger: Path | None,
    total: str | None,
    no_ledger: bool,
    unit: str | None,
    null_unit: Literal["drop", "each"],
    purpose: str,
    again: bool,
    columns: tuple[str, ...] | None,
    csv: Any,
    query: str | None,
    **_: object,
) -> str:
    """Learn a domain and return the text of its file."""
    from dpcube.core.errors import InputError, KeptReleaseError
    from dpcube.curator import LedgerLocation, learn_domain

    if no_ledger and (ledger is not None or total is not None):
        msg = "--no-ledger cannot be combined with --ledger or --total; leave it or them out"
        raise InputError(msg)
    if output is not None and not os.access(output.absolute().parent, os.W_OK):
        msg = f"{output} cannot be written; nothing was read or spent"
        raise InputError(msg)
    try:
        found = learn_domain(
            table,
            epsilon=epsilon,
            columns=columns,
            known=_known(known),
            ledger=None if no_ledger else ledger or LedgerLocation.BESIDE_TABLE,
            total=total,
            unit=unit,
            null_unit=null_unit,
            purpose=purpose,
            csv=csv,
            query=query,
            again=again,
            progress=stage,
        )
    except KeptReleaseError as kept:
        _show(kept)
        raise
    stages_done()
    return found.text


def _show(kept: "KeptReleaseError") -> None:
    """Print a learnt domain whose charge could not be completed: it is paid for."""
    stages_done()
    found: LearntDomain = kept.release  # type: ignore[assignment]
    click.echo(found.text, nl=False)


def _write(output: Path, text: str, *, private: bool, paid: bool) -> None:
    """Write the file; what was paid for is printed if that fails."""
    from dpcube.core.domain.file import write_text
    from dpcube.core.errors import DomainError

    try:
        write_text(output, text, private=private)
    except DomainError:
        if paid:
            click.echo(text, nl=False)
        raise


def _known(given: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the known values of each column, from COLUMN=FILE."""
    from dpcube.core.domain.file import read_text
    from dpcube.core.errors import InputError

    found = {}
    for one in given:
        column, equals, path = one.partition("=")
        if not column or not equals or not path:
            msg = f"--known takes COLUMN=FILE, such as ward=wards.txt, got {one!r}"
            raise InputError(msg)
        found[column] = [line.strip() for line in read_text(Path(path)).splitlines() if line.strip()]
    return found


def _refuse_mixed(ctx: click.Context, *, learning: bool) -> None:
    """Refuse options that go with the other way to make a domain file."""
    from dpcube.core.errors import InputError

    for name in ONLY_DRAFTED if learning else ONLY_LEARNT:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            msg = f"{option} {'cannot be combined with' if learning else 'goes with'} --epsilon; leave it out"
            raise InputError(msg)


def _refuse_existing(output: Path | None) -> None:
    from dpcube.core.errors import InputError

    if output is not None and os.path.lexists(output):
        msg = f"{output} exists; choose another name, or remove it first"
        raise InputError(msg)


def visible_lines(text: str) -> str:
    """Escape control characters of a text of several lines."""
    return "\n".join(map(visible, text.split("\n")))
