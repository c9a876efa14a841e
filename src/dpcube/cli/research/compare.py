"""Strategies and rivals beside each other on public data."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.output import as_json, print_json, print_table, stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.research.comparison import ComparisonRow, Subject

NEW_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(short_help="Compare strategies and rivals on a PUBLIC table.")
@click.argument("table", type=click.Path(path_type=Path), required=False)
@click.option("--public", metavar="NAME", help="Name of the person who declares TABLE public; required with TABLE.")
@click.option("--domain", "domain_file", type=click.Path(path_type=Path), help="The domain file of TABLE.")
@click.option(
    "--shapes", metavar="LIST", help="Simulated shapes: sparse, clumped, spiky, smooth, striped, uniform; or all."
)
@click.option("--dims", metavar="LIST", help="Dimensions of the shapes, 1 to 6.  [default: 2]")
@click.option("--sides", metavar="LIST", help="Sides of the shapes instead, such as 64x64,16x8x8.")
@click.option(
    "--rows", metavar="LIST", help="Draw this many rows like the table's.  [default: the table; 100000 of shapes]"
)
@click.option("--epsilon", metavar="LIST", default="0.1,1", show_default=True, help="Comma-separated.")
@click.option("--method", metavar="LIST", help="Methods by name, or MODULE:CLASS of your own.  [default: all]")
@click.option("--draws", type=click.IntRange(min=1), default=5, show_default=True, help="Releases of each method.")
@click.option(
    "--questions", type=click.IntRange(min=1), default=1000, show_default=True, help="Most questions of each kind."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of shapes, rows, questions and noise.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of processes.")
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="Stop a method that takes longer for its draws on one table at one epsilon; its row says so.",
)
@click.option("--cache", type=NEW_FILE, help="File of the finished runs, from which a stopped comparison continues.")
@click.option("--csv", "csv_file", type=NEW_FILE, help="CSV file to write, a row for each kind of question.")
@click.option("--plot", type=NEW_FILE, help="Picture to write (.svg, .png): errors of ranges over epsilon.")
@as_json
def compare(  # one argument for each option
    *,
    table: Path | None,
    public: str | None,
    domain_file: Path | None,
    shapes: str | None,
    dims: str | None,
    sides: str | None,
    rows: str | None,
    epsilon: str,
    method: str | None,
    draws: int,
    questions: int,
    seed: int,
    jobs: int,
    time_limit: float | None,
    cache: Path | None,
    csv_file: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare strategies and rivals on a PUBLIC table: errors, coverage of intervals, seconds, memory.

    TABLE is a public table with its --domain, or a .npy array of counts; without it and --shapes, the bundled table.
    It is not private: it uses exact counts, charges nothing, and refuses a table that has a ledger beside it.
    Methods that need the questions are given the random ranges. docs/research/compare.md has recorded runs.

    Example: dpcube compare --shapes smooth --dims 2 --epsilon 1 --method adaptive,cells
    """
    from dpcube.research.comparison import NOT_PRIVATE_WORDS, comparison_rows
    from dpcube.research.comparison import compare as run_all
    from dpcube.research.comparison.rows import COMPARISON_ENDINGS, check_new, csv_text, picture_of, write_new
    from dpcube.research.rivals import LISTED

    check_new(csv_file, (".csv",))
    check_new(plot, COMPARISON_ENDINGS)
    subjects = _subjects(table, public, domain_file, shapes=shapes, dims=dims, sides=sides, rows=rows, seed=seed)
    runs = run_all(
        subjects,
        list(LISTED) if method is None else _parts(method),
        _parts(epsilon),
        draws=draws,
        questions=questions,
        seed=seed,
        jobs=jobs,
        time_limit=time_limit,
        kept=cache,
        progress=stage,
    )
    stages_done()
    found = comparison_rows(runs)
    if csv_file is not None:
        write_new(csv_file, csv_text(found).encode())
    if plot is not None:
        write_new(plot, picture_of(found, plot.suffix.lower()))
    if as_json:
        print_json({"private": False, "about": NOT_PRIVATE_WORDS, "rows": [row.as_dict() for row in found]})
        return
    _print(found)


def _print(found: "list[ComparisonRow]") -> None:
    from dpcube.research.comparison import NOT_PRIVATE_WORDS
    from dpcube.research.comparison.rows import not_measured, terminal_tables

    click.echo(f"{NOT_PRIVATE_WORDS}.")
    for words, header, lines in terminal_tables(found):
        click.echo(f"\n{words}: mean absolute error with its 95% interval")
        print_table(header, lines, left=(0, len(header) - 1))
    click.echo("\nscaled L2 and held are those of ranges; --csv and --json have them for every kind of question.")
    click.echo("held: the share of stated 95% confidence intervals that hold the truth, over questions with rows.")
    click.echo("seconds: the median; memory: the peak above what the process had before.")
    if missing := not_measured(found):
        click.echo(f"\nNot measured ({len(missing)}):")
        for line in missing:
            click.echo(f"  {visible(line)}")


def _parts(words: str) -> list[str]:
    return [part.strip() for part in words.split(",") if part.strip()]


def _numbers(words: str, what: str, mark: str = ",") -> list[int]:
    from dpcube.core.errors import InputError

    parts = [part.strip().replace("_", "") for part in words.split(mark)]
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        msg = f"{what} takes whole numbers, got {words!r}"
        raise InputError(msg)
    return [int(part) for part in parts]


def _subjects(
    table: Path | None,
    public: str | None,
    domain_file: Path | None,
    *,
    shapes: str | None,
    dims: str | None,
    sides: str | None,
    rows: str | None,
    seed: int,
) -> "list[Subject]":
    """Return the subjects of the comparison; options without effect are refused."""
    from dpcube.core.errors import InputError
    from dpcube.research.comparison import subjects
    from dpcube.research.tables import SHAPE_LAWS, SIDES

    scales = [] if rows is None else _numbers(rows, "--rows")
    if shapes is None and (dims is not None or sides is not None):
        msg = "--dims and --sides are those of simulated shapes; add --shapes, or leave them out"
        raise InputError(msg)
    if table is None and (public is not None or domain_file is not None):
        msg = "--public and --domain belong to a TABLE, and none is given"
        raise InputError(msg)
    if shapes is None:
        if table is None:
            return subjects.at_scales([subjects.bundled_subject()], scales)
        return subjects.at_scales([subjects.public_subject(table, domain_file, public=public)], scales)
    if table is not None or (dims is not None and sides is not None):
        msg = "give a TABLE or --shapes, and of --dims and --sides one"
        raise InputError(msg)
    wanted = _numbers(dims or "2", "--dims")
    if unknown := [one for one in wanted if one not in SIDES]:
        msg = f"--dims takes 1 to {max(SIDES)}, got {unknown[0]}"
        raise InputError(msg)
    cubes = [SIDES[one] for one in wanted]
    if sides is not None:
        cubes = [tuple(_numbers(one, "--sides", "x")) for one in _parts(sides)]
    laws = list(SHAPE_LAWS) if shapes == "all" else _parts(shapes)
    return subjects.at_scales(subjects.made_up_subjects(laws, cubes, seed=seed), scales or [100_000])
