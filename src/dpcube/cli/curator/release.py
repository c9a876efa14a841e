"""Verbs for the owner of a private table."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

import click

from dpcube.cli.output import as_json, print_json, stage, stages_done, visible
from dpcube.cli.strategies import one_strategy

if TYPE_CHECKING:
    from dpcube.core.domain import Domain
    from dpcube.core.errors import KeptReleaseError
    from dpcube.curator import CsvDialect
    from dpcube.strategies import Strategy

Verb = TypeVar("Verb", bound=Callable[..., object])


class TableAddress(click.ParamType[Path | str]):
    """A file's path, or the address of a table in PostgreSQL or Spark, whose slashes a path would not keep."""

    name = "table"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:  # noqa: ARG002 (click's signature)
        """Keep an address as it is."""
        address = isinstance(value, str) and value.startswith(("postgresql://", "postgres://", "spark:"))
        return value if address else Path(value)


table_argument = click.argument("table", type=TableAddress())
query_option = click.option(
    "--query", metavar="SQL", help="Count the rows of a query; TABLE is postgresql://user@host/database."
)


def csv_options(verb: Verb) -> Verb:
    """Add the options that declare how a CSV file is written."""
    for option in (
        click.option("--null-text", multiple=True, help="Text that means null in a CSV file; empty unless given."),
        click.option(
            "--names",
            help="Comma-separated names of all columns of a CSV file without a header, whose first row would else be "
            "taken for names and shown. Lines of more or fewer fields than names are dropped, and nothing says so.",
        ),
        click.option(
            "--encoding", help="Encoding of a CSV file, such as windows-1252, latin-1 or utf-16; UTF-8 unless given."
        ),
        click.option("--delimiter", help="Delimiter of a CSV file: a comma, or a tab in .tsv files, unless given."),
    ):
        verb = option(verb)
    return verb


def choice_of_rows(verb: Verb) -> Verb:
    """Add the options that say whom a release protects, and which rows it is of."""
    for option in (
        click.option(
            "--period", nargs=3, metavar="COLUMN FIRST LAST", help="Only rows in a range, both ends included."
        ),
        click.option(
            "--null-unit",
            type=click.Choice(["drop", "each"]),
            default="drop",
            show_default=True,
            help="Rows without a unit: drop them, or count each as a unit.",
        ),
        click.option(
            "--max-rows", default=1, show_default=True, help="Rows kept of each unit, at most; noise grows with it."
        ),
        click.option("--unit", help="Column whose values are protected, such as patient_id; one row unless given."),
    ):
        verb = option(verb)
    return verb


@click.command(short_help="Draft a domain file for a table.")
@table_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the draft here instead of printing it.")
@click.option("--columns", help="Comma-separated columns to draft; all of them unless given.")
@click.option(
    "--from-data",
    is_flag=True,
    help="Look up bounds and values in the table. The draft is then private (its file is yours alone), and refused "
    "until you sign it as public.",
)
@click.option(
    "--public", metavar="NAME", help="Sign a draft --from-data: the table itself is public, and NAME says so."
)
@click.option(
    "--quantiles", type=int, help="So many bins of about as many rows each, for numbers; of public data only."
)
@query_option
@csv_options
def domain(
    table: Path | str,
    *,
    output: Path | None,
    columns: str | None,
    from_data: bool,
    public: str | None,
    quantiles: int | None,
    query: str | None,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None,
) -> None:
    """Draft a domain file for TABLE, from its column names and types only.

    TABLE is what `dpcube release` takes.

    Fill in the bounds and values from what is publicly known, then run `dpcube release`.
    """
    from dpcube.core.domain.file import write_text
    from dpcube.core.draft import draft
    from dpcube.core.errors import InputError

    if output is not None and os.path.lexists(output):
        msg = f"{output} exists; choose another name, or remove it first"
        raise InputError(msg)
    chosen = None if columns is None else tuple(name.strip() for name in columns.split(","))
    csv = dialect_of(table, delimiter, names, null_text, encoding)
    drawn = {"from_data": from_data, "public": public, "quantiles": quantiles}
    text = draft(table, columns=chosen, csv=csv, query=query, **drawn)  # type: ignore[arg-type]
    if output is None:
        click.echo(text, nl=False)
        return
    write_text(output, text, private=from_data and public is None)
    same = _csv_words(None, names, null_text, None)  # the draft has the delimiter and the encoding
    then = f"{_command('check', table, '--domain', output, *same)} (for your eyes only), "
    then += _command("release", table, "--domain", output, *same, "--epsilon", "E", "-o", "R.dpcube")
    click.echo(visible(f"wrote {output}; edit it, then: {then}"))


@click.command(short_help="Release a table as a differentially private cube.")
@table_argument
@click.option("--domain", "domain_file", type=click.Path(path_type=Path), required=True, help="The domain file.")
@click.option("--epsilon", required=True, help="The privacy budget to spend, such as 0.5 or 1/3.")
@one_strategy
@click.option(
    "--queries",
    help="What will be asked, for adaptive: mixed, ranges, prefixes, short or groups, once or for each attribute "
    "(a,b,c); mixed unless given, and groups where values have no order.",
)
@click.option(
    "--questions",
    type=click.Path(path_type=Path),
    help="A file of questions that will be asked, one a line, for adaptive; they become public.",
)
@click.option(
    "--target", help="The attribute that a classifier will tell from the others, for adaptive; public, and free."
)
@click.option(
    "--cuboids",
    metavar="TABLES",
    help='For wide tables: the tables to count, such as "age,sex; age,income"; chosen privately unless given.',
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .dpcube file to make.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="The ledger; TABLE.ledger beside the table unless given."
)
@click.option("--total", help="What a new ledger allows in all; this release's epsilon unless given.")
@click.option("--no-ledger", is_flag=True, help="Keep no account; the release says so.")
@choice_of_rows
@click.option("--purpose", default="", help="A note to keep in the ledger.")
@click.option(
    "--even-if-empty",
    is_flag=True,
    help="Go on whatever the total is. Otherwise 1/17 of epsilon is charged and drawn for the total first, and the "
    "rest only if the total is above its error. The release keeps the total.",
)
@query_option
@click.option("--explain", is_flag=True, help="Print the SQL that would count the rows, and stop: nothing is spent.")
@csv_options
@as_json
def release(
    table: Path | str,
    *,
    domain_file: Path,
    epsilon: str,
    strategy: str | None,
    queries: str | None,
    questions: Path | None,
    target: str | None,
    cuboids: str | None,
    output: Path,
    ledger: Path | None,
    total: str | None,
    no_ledger: bool,
    unit: str | None,
    max_rows: int,
    null_unit: Literal["drop", "each"],
    period: tuple[str, str, str] | None,
    purpose: str,
    even_if_empty: bool,
    query: str | None,
    explain: bool,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None,
    as_json: bool,
) -> None:
    """Release TABLE as a differentially private cube.

    TABLE is a CSV or Parquet file, a directory of files of one kind, a pattern in quotes ('data/*.csv.gz'), the
    directory of a Delta table, the metadata.json of an Iceberg table,
    postgresql://user@host/database#schema.table (its password in PGPASSWORD or ~/.pgpass; or a --query without
    the #), or spark:PATH of Parquet.
    """
    from dpcube.core.domain import Domain
    from dpcube.core.errors import EmptyTotalError, InputError, KeptReleaseError
    from dpcube.curator import LedgerLocation, publish
    from dpcube.curator import explain as explained

    if no_ledger and (ledger is not None or total is not None):
        msg = "--no-ledger keeps no account, so --ledger and --total have no place beside it"
        raise InputError(msg)
    declared = Domain.load(domain_file)
    csv = dialect_of(table, delimiter, names, null_text, encoding)
    fitted = _fitted(strategy, queries, questions, target, cuboids)
    if explain:
        for sentence in _said_of_cuboids(fitted, declared):
            click.echo(f"-- {visible(sentence)}")
        chosen = {"unit": unit, "max_rows": max_rows, "null_unit": null_unit, "period": period}
        click.echo(visible(explained(table, declared, **chosen, csv=csv, query=query)))  # type: ignore[arg-type]
        return
    chosen_rows = _row_words(unit, max_rows, null_unit, period, query)
    csv_words = _csv_words(delimiter, names, null_text, encoding)
    look = _command("check", table, "--domain", domain_file, *chosen_rows, *csv_words)
    try:
        made = publish(
            table,
            declared,
            epsilon=epsilon,
            strategy=fitted,
            ledger=None if no_ledger else ledger or LedgerLocation.BESIDE_TABLE,
            total=total,
            unit=unit,
            max_rows=max_rows,
            null_unit=null_unit,
            period=period,
            purpose=purpose,
            csv=csv,
            query=query,
            save_to=output,
            even_if_empty=even_if_empty,
            progress=stage,
        )
    except EmptyTotalError as stopped:
        msg = f"{stopped}. See on your terminal which rows count: {look}; then release what is left, or --even-if-empty"
        raise EmptyTotalError(msg) from None
    except KeptReleaseError as kept:
        _save_where_asked(kept)
    stages_done()
    facts = {"release": str(output), "epsilon": str(made.provenance.epsilon), "digest": made.digest}
    if as_json:
        print_json({**facts, "ledger": made.provenance.ledger})
        return
    cells = f"{declared.size:,} cells at epsilon {facts['epsilon']}"
    click.echo(visible(f"wrote {output}: {cells}, digest {made.digest[:16]}"))
    if no_ledger:
        click.echo("no ledger was kept: nothing stops another release of this table, and this one says so")
    click.echo(visible(f"which rows its domain counts, for your eyes only: {look}"))
    click.echo(visible(f'ask it: {_command("info", output)}; {_command("count", output)} "..."'))


def _save_where_asked(kept: "KeptReleaseError") -> NoReturn:
    """Ask on a terminal for another place, until one takes a release that is in memory alone; then fail as before."""
    from dpcube.cli.analyst.registry import can_ask
    from dpcube.core.errors import InputError, KeptReleaseError
    from dpcube.release import Release

    stages_done()
    while kept.path is None and isinstance(kept.release, Release) and can_ask():
        click.echo(f"dpcube: {visible(str(kept))}", err=True)
        place = Path(click.prompt("another file to write it to, such as /media/stick/r.dpcube", err=True))
        try:
            kept.release.save(place)
        except InputError as error:
            click.echo(f"dpcube: {visible(str(error))}", err=True)
        else:
            kept.path = place
            click.echo(visible(f"wrote {place}"))
    if kept.path is None:
        msg = f"{kept}. No other folder takes it, and nobody can be asked for one, so it ends with this command"
        raise KeptReleaseError(msg, kept.release, None) from None
    raise kept


def _csv_words(delimiter: str | None, names: str | None, null_text: tuple[str, ...], encoding: str | None) -> list[str]:
    """Return the options by which a CSV file is read, for a command that is to read it alike."""
    given = [("--delimiter", delimiter), ("--encoding", encoding), ("--names", names)]
    given += [*(("--null-text", text) for text in null_text)]
    return [word for option, value in given if value is not None for word in (option, value)]


def _row_words(
    unit: str | None, max_rows: int, null_unit: str, period: tuple[str, str, str] | None, query: str | None
) -> list[str]:
    """Return the options by which rows are chosen, for a command that is to choose the same."""
    of_unit = [] if unit is None else ["--unit", unit, "--max-rows", str(max_rows), "--null-unit", null_unit]
    in_period = [] if period is None else ["--period", *period]
    return [*of_unit, *in_period, *([] if query is None else ["--query", query])]


def _command(verb: str, *words: Path | str) -> str:
    """Return a command that can be pasted; an address may name a user or a host, and stays out of it."""
    from dpcube.release.pasteable import file_word, shell_word

    shown = (
        file_word(word) if isinstance(word, Path) else "TABLE" if "://" in word else shell_word(word) for word in words
    )
    return " ".join(["dpcube", verb, *shown])


def _said_of_cuboids(strategy: "str | Strategy", declared: "Domain") -> list[str]:
    """Return what would be measured, in sentences, where the name of the strategy does not say it."""
    from dpcube.strategies import releasing_strategy

    return releasing_strategy(strategy, declared).description(declared)


def _fitted(
    strategy: str | None, queries: str | None, questions: Path | None, target: str | None, cuboids: str | None
) -> "str | Strategy":
    """Return the strategy for what was said to be asked."""
    from dpcube.core.errors import InputError
    from dpcube.strategies import BY_NAME, DEFAULT, WIDE_STRATEGY, Adaptive, Cuboids

    if (cuboids is not None or strategy == WIDE_STRATEGY) and queries is None and questions is None:
        if strategy not in (None, WIDE_STRATEGY):
            msg = f"--cuboids names the tables of the strategy {WIDE_STRATEGY}, not of {strategy}; leave --strategy out"
            raise InputError(msg)
        named = [table for table in (cuboids or "").split(";") if table.strip()]
        return Cuboids(
            cuboids=tuple(tuple(name.strip() for name in table.split(",")) for table in named), target=target
        )
    if cuboids is not None:
        msg = "--cuboids names the tables to count, so --queries and --questions have no place beside it"
        raise InputError(msg)
    strategy = strategy or DEFAULT
    if queries is None and questions is None and target is None:
        return strategy
    if BY_NAME.get(strategy) is not Adaptive:
        msg = "--queries, --questions and --target are for the strategy adaptive; "
        msg += f"{strategy} is the same whatever is asked"
        raise InputError(msg)
    kinds = None if queries is None else tuple(kind.strip() for kind in queries.split(","))
    return Adaptive(
        queries=kinds[0] if kinds is not None and len(kinds) == 1 else kinds,
        questions=() if questions is None else _questions_in(questions),
        target=target,
    )


def _questions_in(path: Path) -> tuple[str, ...]:
    """Return the lines of a file that are neither empty nor comments."""
    from dpcube.core.domain.file import read_text
    from dpcube.core.errors import InputError

    lines = (line.strip() for line in read_text(path).splitlines())
    questions = tuple(line for line in lines if line and not line.startswith("#"))
    if not questions:
        msg = f"{path} has no questions; write one a line, such as: age >= 65 and sex = 'Female'"
        raise InputError(msg)
    return questions


def dialect_of(
    table: Path | str,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None = None,
) -> "CsvDialect | None":
    """Return how CSV files are written, by the options of `csv_options`; None for a table in a database."""
    from dpcube.curator import CsvDialect

    if isinstance(table, str):
        return None
    return CsvDialect(
        delimiter=None if delimiter is None else delimiter.replace("\\t", "\t"),
        header=names is None,
        columns=None if names is None else tuple(name.strip() for name in names.split(",")),
        null_text=null_text or ("",),
        encoding="utf-8" if encoding is None else encoding,
    )
