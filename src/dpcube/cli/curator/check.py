"""The verb by which a table's owner sees, on a terminal alone, which rows a domain would count."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from dpcube.cli.curator.release import choice_of_rows, csv_options, dialect_of, query_option, table_argument
from dpcube.cli.output import print_table, stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.core.check import Look

PRIVATE = "PRIVATE: exact facts about the rows, in rough words. For the owner of the table; not to be passed on."
MEANING = """\
kept: in a bin as it is. clipped: outside, counted in the bin nearest to it. null, unknown: without a value, or not
read by this domain; they have a cell of their own or are dropped. dropped: the row is not counted at all.
How text can be read (format, decimal, trim, ...): docs/sources.md. Nothing was spent, and nothing written."""

SOME_DROPPED = "some texts of rows that are not counted, escaped and cut:"
NONE_DROPPED = "no text is dropped (nulls apart)"


@click.command(short_help="Show its owner which rows of a table would be counted.")
@table_argument
@click.option("--domain", "domain_file", type=click.Path(path_type=Path), required=True, help="The domain file.")
@click.option("--show-values", is_flag=True, help="Show some texts of rows that are not counted. They are rows' own.")
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
    """See which rows of TABLE a domain file would count: for its owner, on a terminal only.

    For each attribute, roughly which share of the rows goes where; with --unit and --period as `dpcube release` has
    them, of the rows that it would count. It spends nothing and writes nothing. Domains are
    public: mend how text is read by what you see, and take bounds and values from what is publicly known.
    """
    from dpcube.core.check import ENDS
    from dpcube.core.check import check as checked
    from dpcube.core.domain import Domain
    from dpcube.core.errors import DomainError, InputError
    from dpcube.core.feasible import check_public

    if not sys.stdout.isatty():
        msg = "dpcube check shows private facts on a terminal only, not in a file or a pipe; nothing was read"
        raise InputError(msg)
    csv = dialect_of(table, delimiter, names, null_text, encoding)
    stage("looking at the rows")
    declared = Domain.load(domain_file)
    rows = {"unit": unit, "max_rows": max_rows, "null_unit": null_unit, "period": period}
    found = checked(table, declared, csv=csv, query=query, show_values=show_values, **rows)  # type: ignore[arg-type]
    stages_done()
    click.echo(PRIVATE + "\n")
    if found.in_period is not None:
        click.echo(f"rows in the period, of all: {found.in_period}; what follows is of them\n")
    print_table(("attribute", *ENDS), [(look.attribute, *look.shares) for look in found.looks])
    click.echo(f"\nrows counted, by all attributes together: {found.counted}")
    if found.named is not None:
        none_named = "count as units of their own" if null_unit == "each" else "are dropped"
        click.echo(visible(f"of these, rows that name a unit in '{unit}' (others {none_named}): {found.named}"))
        click.echo(f"of these, rows kept, at most {max_rows} of each unit: {found.kept}")
    if found.broken_lines is not None:
        click.echo(f"lines of the file that are no rows (other number of fields, open quotes): {found.broken_lines}")
    if show_values:
        _print_examples(found.looks)
    click.echo(f"\n{MEANING}")
    try:
        check_public(declared)
    except DomainError as refused:
        click.echo(f"\nA release would be refused: {refused}.")


def _print_examples(looks: "Sequence[Look]") -> None:
    """Print texts of rows that are dropped, and which irregular values are not listed because they are counted."""
    dropped = [look for look in looks if look.examples]
    click.echo(f"\n{SOME_DROPPED if dropped else NONE_DROPPED}")
    for look in dropped:
        click.echo(visible(f"  {look.attribute}: {', '.join(map(ascii, look.examples))}"))
    if counted := [look for look in looks if look.counted]:
        click.echo("not listed, for these values are counted:")
        for look in counted:
            click.echo(visible(f"  {look.attribute}: {look.counted}"))
