"""Command `release`, and the options that commands about private tables share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

import click

from dpcube.cli.output import as_json, one_strategy, print_json, stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.core.domain import Domain
    from dpcube.core.errors import KeptReleaseError
    from dpcube.curator import CsvDialect
    from dpcube.strategies import Strategy

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., object])


class TableAddress(click.ParamType[Path | str]):
    """Path of a file, or address of a table in a database, whose double slashes a path would lose."""

    name = "table"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:  # noqa: ARG002 (click's signature)
        """Return an address as text, and anything else as a path."""
        from dpcube.core.sources.open import is_address

        return value if is_address(value) else Path(value)


table_argument = click.argument("table", type=TableAddress())
query_option = click.option(
    "--query", metavar="SQL", help="Count the rows of this query. TABLE is then postgresql://user@host/database."
)


def csv_options(verb: CommandFunction) -> CommandFunction:
    """Add the options that declare the dialect of CSV files."""
    for option in (
        click.option("--null-text", multiple=True, help="Text that means null in a CSV file. Empty text by default."),
        click.option(
            "--names",
            help="Comma-separated column names for a CSV file without a header row. Rows with a different number of "
            "fields are silently dropped.",
        ),
        click.option(
            "--encoding", help="Encoding of a CSV file, such as windows-1252, latin-1 or utf-16. UTF-8 by default."
        ),
        click.option("--delimiter", help="Delimiter of a CSV file. By default a comma, or a tab in .tsv files."),
    ):
        verb = option(verb)
    return verb


def choice_of_rows(verb: CommandFunction) -> CommandFunction:
    """Add the options that select the privacy unit and the rows."""
    for option in (
        click.option(
            "--period",
            nargs=3,
            metavar="COLUMN FIRST LAST",
            help="Use only rows whose COLUMN is from FIRST to LAST, both included.",
        ),
        click.option(
            "--null-unit",
            type=click.Choice(["drop", "each"]),
            default="drop",
            show_default=True,
            help="Drop rows without a privacy unit, or treat each as a unit of its own.",
        ),
        click.option(
            "--max-rows",
            default=1,
            show_default=True,
            help="Maximum number of rows kept of each privacy unit. The noise is proportional to it.",
        ),
        click.option("--unit", help="Column that names the privacy unit, such as patient_id. By default a row."),
    ):
        verb = option(verb)
    return verb


@click.command(short_help="Release a table as a differentially private cube.")
@table_argument
@click.option("--domain", "domain_file", type=click.Path(path_type=Path), required=True, help="Domain file.")
@click.option("--epsilon", required=True, help="Privacy budget to spend, such as 0.5 or 1/3.")
@one_strategy
@click.option(
    "--queries",
    help="Expected workload of the strategy adaptive: mixed, ranges, prefixes, short or groups, once or for each "
    "attribute (a,b,c). The default is mixed, and groups for values without order.",
)
@click.option(
    "--questions",
    type=click.Path(path_type=Path),
    help="File of expected questions, one per line, for the strategy adaptive. The questions become public.",
)
@click.option(
    "--target",
    help="Attribute to be predicted by a classifier. Class-conditional marginals are measured first. The choice is "
    "public and costs no privacy budget.",
)
@click.option(
    "--cuboids",
    metavar="MARGINALS",
    help='For wide tables: marginals to measure, such as "age,sex; age,income". By default they are selected '
    "privately.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New .dpcube file.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="Ledger file. By default TABLE.ledger beside the table."
)
@click.option("--total", help="Total privacy budget of a new ledger. By default the epsilon of this release.")
@click.option(
    "--no-ledger",
    is_flag=True,
    help="Do not record this release in a ledger. The release is marked as unaccounted.",
)
@choice_of_rows
@click.option("--purpose", default="", help="Note to record in the ledger.")
@click.option(
    "--even-if-empty",
    is_flag=True,
    help="Release even if no rows seem to be counted. By default 1/17 of epsilon is first spent on the total count, "
    "which the release contains, and the rest only if that count is above its error.",
)
@query_option
@click.option("--explain", is_flag=True, help="Print the SQL that would count the rows, and stop. Nothing is spent.")
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
    directory of a Delta table, the metadata.json of an Iceberg table, postgresql://user@host/database#schema.table
    (with its password in PGPASSWORD or ~/.pgpass; or without the # and with a --query), or spark:PATH of Parquet.

    Example: dpcube release patients.csv --domain patients.toml --epsilon 0.5 -o patients.dpcube
    """
    from dpcube.core.domain import Domain
    from dpcube.core.errors import EmptyTotalError, InputError, KeptReleaseError
    from dpcube.curator import LedgerLocation, publish
    from dpcube.curator import explain as explained

    if no_ledger and (ledger is not None or total is not None):
        msg = "--no-ledger cannot be combined with --ledger or --total; leave it or them out"
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
    read = csv_words(delimiter, names, null_text, encoding)
    look = command_line("check", table, "--domain", domain_file, *chosen_rows, *read)
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
        msg = f"{stopped}. Check on your terminal which rows are counted: {look}; then spend the rest, or use "
        msg += "--even-if-empty"
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
        click.echo("not recorded in a ledger: nothing prevents further releases of this table; this one is marked so")
    click.echo(visible(f"to see which rows its domain counts (private output): {look}"))
    click.echo(visible(f'to use it: {command_line("info", output)}; {command_line("count", output)} "..."'))


def _save_where_asked(kept: "KeptReleaseError") -> NoReturn:
    """Ask on a terminal for other files, until a release that is only in memory is saved; then fail as before."""
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
        msg = f"{kept}. No other directory can store it, and there is no terminal to ask for one, so it is lost when "
        msg += "this command ends"
        raise KeptReleaseError(msg, kept.release, None) from None
    raise kept


def csv_words(delimiter: str | None, names: str | None, null_text: tuple[str, ...], encoding: str | None) -> list[str]:
    """Return the given CSV options, for a follow-up command that reads the file alike."""
    given = [("--delimiter", delimiter), ("--encoding", encoding), ("--names", names)]
    given += [*(("--null-text", text) for text in null_text)]
    return [word for option, value in given if value is not None for word in (option, value)]


def _row_words(
    unit: str | None, max_rows: int, null_unit: str, period: tuple[str, str, str] | None, query: str | None
) -> list[str]:
    """Return the given row options, for a follow-up command that selects the same rows."""
    of_unit = [] if unit is None else ["--unit", unit, "--max-rows", str(max_rows), "--null-unit", null_unit]
    in_period = [] if period is None else ["--period", *period]
    return [*of_unit, *in_period, *([] if query is None else ["--query", query])]


def command_line(verb: str, *words: Path | str) -> str:
    """Return a command that can be pasted; an address may contain a user and a host, and is left out."""
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
    """Return the strategy for the given workload options."""
    from dpcube.strategies import strategy_with

    kinds = None if queries is None else _names_in(queries)
    tables = None if cuboids is None else tuple(_names_in(table) for table in cuboids.split(";") if table.strip())
    options = {
        "queries": kinds[0] if kinds is not None and len(kinds) == 1 else kinds,
        "questions": None if questions is None else _questions_in(questions),
        "target": target,
        "cuboids": tables,
    }
    return strategy_with(strategy, options)


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _questions_in(path: Path) -> tuple[str, ...]:
    """Return the lines of a file that are neither empty nor comments."""
    from dpcube.core.domain.file import read_text
    from dpcube.core.errors import InputError

    lines = (line.strip() for line in read_text(path).splitlines())
    questions = tuple(line for line in lines if line and not line.startswith("#"))
    if not questions:
        msg = f"{path} has no questions; write one per line, such as: age >= 65 and sex = 'Female'"
        raise InputError(msg)
    return questions


def dialect_of(
    table: Path | str,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None = None,
) -> "CsvDialect | None":
    """Return the CSV dialect given by the options of `csv_options`; None for a table in a database."""
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
