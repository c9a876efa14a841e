"""Command `check`: shows the owner, on a terminal only, which rows of a table a domain counts."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from dpcube.cli.curator.release import choice_of_rows, csv_options, dialect_of, query_option, table_argument
from dpcube.cli.output import print_table, stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.curator.check import Look

PRIVATE = "PRIVATE: exact facts about the rows, rounded. For the owner of the table; do not pass them on."
MEANING = """\
kept: the value is in a bin. clipped: it is outside, and counted in the nearest bin. null, unknown: it is missing, or
this domain cannot read it; it has its own cell or is dropped. dropped: the row is not counted at all.
Options for reading text (format, decimal, trim, ...): docs/guides/sources.md. Nothing was spent or written."""

SOME_DROPPED = "some texts of rows that are not counted, escaped and shortened:"
NONE_DROPPED = "no text is dropped (apart from nulls)"


@click.command(short_help="Show the owner which rows of a table would be counted.")
@table_argument
@click.option("--domain", "domain_file", type=click.Path(path_type=Path), required=True, help="Domain file.")
@click.option(
    "--show-values", is_flag=True, help="Show some texts of rows that are not counted. These are private values."
)
@choice_of_rows
@query_option
@csv_options
def check(
    table: Path | str,
    *,
    domain_file: Path,
    show_values: bool,
    unit: str | None,
    max_rows: int,
    null_unit: Literal["drop", "each"],
    period: tuple[str, str, str] | None,
    query: str | None,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None,
) -> None:
    """Show the owner which rows of TABLE a domain file would count, on a terminal only.

    The output is the approximate share of the rows of each attribute that are kept, clipped or dropped. --unit and
    --period select rows as in `dpcube release`. This command spends no privacy budget and writes no file. Domains are
    public: use the output to correct how text is read, but take bounds and values from public knowledge.

    Example: dpcube check patients.csv --domain patients.toml
    """
    from dpcube.core.domain import Domain
    from dpcube.core.errors import DomainError, InputError
    from dpcube.core.feasible import check_public
    from dpcube.curator.check import ENDS
    from dpcube.curator.check import check as checked

    if not sys.stdout.isatty():
        msg = "dpcube check shows private facts on a terminal only, not to a file or a pipe; nothing was read"
        raise InputError(msg)
    csv = dialect_of(table, delimiter, names, null_text, encoding)
    stage("reading the rows")
    declared = Domain.load(domain_file)
    rows = {"unit": unit, "max_rows": max_rows, "null_unit": null_unit, "period": period}
    found = checked(table, declared, csv=csv, query=query, show_values=show_values, **rows)  # type: ignore[arg-type]
    stages_done()
    click.echo(PRIVATE + "\n")
    if found.in_period is not None:
        click.echo(f"share of rows in the period: {found.in_period}; the rest of this output is about them\n")
    print_table(("attribute", *ENDS), [(look.attribute, *look.shares) for look in found.looks])
    click.echo(f"\nshare of rows counted, by all attributes together: {found.counted}")
    if found.named is not None:
        none_named = "are units of their own" if null_unit == "each" else "are dropped"
        click.echo(visible(f"of these, rows with a privacy unit in '{unit}' (others {none_named}): {found.named}"))
        click.echo(f"of these, rows kept, at most {max_rows} of each unit: {found.kept}")
    if found.broken_lines is not None:
        click.echo(f"malformed lines of the file (wrong number of fields, open quotes): {found.broken_lines}")
    if show_values:
        _print_examples(found.looks)
    click.echo(f"\n{MEANING}")
    try:
        check_public(declared)
    except DomainError as refused:
        click.echo(f"\nA release would be refused: {refused}.")


def _print_examples(looks: "Sequence[Look]") -> None:
    """Print texts of dropped rows, and the irregular values that are not listed because they are counted."""
    dropped = [look for look in looks if look.examples]
    click.echo(f"\n{SOME_DROPPED if dropped else NONE_DROPPED}")
    for look in dropped:
        click.echo(visible(f"  {look.attribute}: {', '.join(map(ascii, look.examples))}"))
    if counted := [look for look in looks if look.counted]:
        click.echo("not listed, because these values are counted:")
        for look in counted:
            click.echo(visible(f"  {look.attribute}: {look.counted}"))
