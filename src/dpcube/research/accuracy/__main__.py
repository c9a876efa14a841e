"""Errors of strategies beside plain cells and rivals, by group of tables: `python -m dpcube.research.accuracy`."""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from dpcube.core.errors import DpcubeError, InputError
from dpcube.research.accuracy import cases, dpbench, held_out_tables, report
from dpcube.research.accuracy.cases import CASE_GROUPS, AccuracyCase
from dpcube.research.accuracy.runs import PLAIN_CELLS, PRIVTREE, RunCache, Setting, by_setting, measure
from dpcube.strategies import BY_NAME, DEFAULT

WIDE_RIVALS = "AIM3*,MST*"
BESIDE_ALL = ("even", "held-out")


@dataclass(frozen=True, slots=True)
class Where:
    """Directories of tables and results that are not ours to give away, and which tables are simulated."""

    bench: Path | None
    tables: Path | None
    rivals: Path | None
    named: tuple[str, ...]
    drawn: int
    seed: int

    def cases(self, group: str) -> Iterator[AccuracyCase]:
        """Yield the cases of a group."""
        if group == "dpbench":
            if self.bench is None:
                msg = (
                    "the group dpbench needs DPBench's arrays; name their directory with --data, or leave the group out"
                )
                raise InputError(msg)
            return cases.dpbench_cases(self.bench)
        if group == "wide":
            return cases.wide(self.tables)
        if group == "drawn":
            return cases.drawn(self.drawn, seed=self.seed)
        return {"dense": cases.dense, "even": cases.even_cases, "held-out": cases.held_out}[group]()


def algorithms_of(group: str, strategies: Sequence[str]) -> tuple[str, ...]:
    """Return the algorithms that are run in a group: `BESIDE_ALL` have all that are built in, and PrivTree."""
    more = (*BY_NAME, PRIVTREE) if group in BESIDE_ALL else ()
    return tuple(dict.fromkeys((*strategies, PLAIN_CELLS, *more)))


def report_lines(group: str, found: Sequence[Setting], strategies: Sequence[str], where: Where) -> list[str]:
    """Return the tables of a group."""
    lines = [f"## {group}: {len(found)} settings", ""]
    if group == "dpbench" and where.bench is not None:
        names = algorithms_of(group, strategies)
        return [*lines, *report.dpbench_section(found, names, dpbench.Bench(where.bench)), ""]
    for strategy in strategies:
        if group == "wide":
            recorded = {} if where.rivals is None else report.recorded_rivals(where.rivals, where.named)
            lines += report.on_wide(found, strategy, recorded, where.named if recorded else ())
        elif group in BESIDE_ALL:
            lines += report.beside_each_other(found, strategy)
        else:
            lines += [*report.to_plain_cells(found, strategy), "", *report.by_size(found, strategy)]
        lines.append("")
    lines += held_out_tables.missing() if group == "held-out" else []
    return [*lines, report.seconds_line(found, algorithms_of(group, strategies)), ""]


def write_rows(found: Sequence[Setting], path: Path) -> None:
    """Write every error as CSV."""
    rows = list(report.csv_rows(found))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@click.command()
@click.option(
    "--groups", default=",".join(CASE_GROUPS), show_default=True, help="Comma-separated; dpbench needs --data."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="DPBENCH",
    help="Directory of DPBench's arrays, queries and results.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of NAME.npz tables of coded rows, for the group wide.",
)
@click.option(
    "--rivals",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="CSV file of recorded errors of rivals, for the group wide.",
)
@click.option("--rival-names", default=WIDE_RIVALS, show_default=True, help="Which rivals of that file count.")
@click.option(
    "--drawn", type=click.IntRange(min=1), default=20, show_default=True, help="How many tables are simulated."
)
@click.option("--tables-seed", type=int, default=0, show_default=True, help="Which tables are simulated.")
@click.option(
    "--strategy", default=DEFAULT, show_default=True, help="Comma-separated; adaptive:KIND; MODULE:CLASS; PrivTree."
)
@click.option(
    "--draws",
    type=click.IntRange(min=2),
    default=10,
    show_default=True,
    help="Releases of each table; of DPBench's, of each trial.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the noise.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes to run.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of the releases measured so far, from which a stopped run continues.",
)
@click.option(
    "--csv", "rows", type=click.Path(path_type=Path, dir_okay=False), help="CSV file of every error to write."
)
def main(
    *,
    groups: str,
    data: Path | None,
    tables: Path | None,
    rivals: Path | None,
    rival_names: str,
    drawn: int,
    tables_seed: int,
    strategy: str,
    draws: int,
    seed: int,
    jobs: int,
    cache: Path | None,
    rows: Path | None,
) -> None:
    """Measure strategies beside plain noisy cells and rivals, by group of tables and kind of query."""
    where = Where(data, tables, rivals, tuple(rival_names.split(",")), drawn, tables_seed)
    strategies, kept, every = strategy.split(","), RunCache(cache), []
    try:
        for group in _checked(groups.split(",")):
            measured = measure(
                where.cases(group),
                algorithms_of(group, strategies),
                draws=draws,
                seed=seed,
                jobs=jobs,
                cache=kept,
                progress=_on_terminal,
            )
            found = by_setting(measured)
            click.echo("\n".join(report_lines(group, found, strategies, where)))
            every += found
    except DpcubeError as error:
        raise SystemExit(str(error)) from None
    if rows is not None:
        write_rows(every, rows)
    click.echo(f"{draws} draws ({PLAIN_CELLS} more), seed {seed}, simulated tables of seed {tables_seed}")


def _on_terminal(words: str) -> None:
    if sys.stderr.isatty():
        click.echo(words, err=True)


def _checked(groups: list[str]) -> list[str]:
    for group in groups:
        if group not in CASE_GROUPS:
            msg = f"there is no group '{group}'; the groups are {', '.join(CASE_GROUPS)}"
            raise InputError(msg)
    return groups


if __name__ == "__main__":
    main()
