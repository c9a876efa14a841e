"""The verb that asks a released cube in SQL."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import as_json, print_json, print_table, visible

if TYPE_CHECKING:
    import pyarrow as pa


@click.command(short_help="Ask a cube in SQL, as a table named cube.")
@release_file
@click.argument("query")
@click.option(
    "--error", is_flag=True, help="Add standard errors and intervals to counts, sums, averages, ratios and medians."
)
@click.option("--confidence", default=0.95, show_default=True, help="Confidence of intervals, minima and maxima.")
@click.option(
    "--estimate",
    default="auto",
    show_default=True,
    help="Estimate to answer from; `info` lists them.",
)
@click.option("--seconds", default=60.0, show_default=True, help="Longest that the query may run.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the result as CSV.")
@as_json
def sql(
    release: Path,
    query: str,
    *,
    error: bool,
    confidence: float,
    estimate: str,
    seconds: float,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Ask the cube in SQL: a SELECT on the table `cube`, whose columns are the attributes.

    A query is like: SELECT sex, count(*), avg(age) FROM cube WHERE age >= 30 GROUP BY sex
    """
    from dpcube.release.cache import domain_and_estimate

    if as_csv and as_json:
        msg = "--csv and --json exclude each other"
        raise click.UsageError(msg)
    domain, infer = domain_and_estimate(release, estimate)
    from dpcube.release.sql import run  # after the file is known to be a release

    table = run(query, domain, infer, error=error, confidence=confidence, seconds=seconds)
    if as_json:
        print_json([{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()])
    elif as_csv:
        _print_csv(table)
    else:
        _print(table)


def _plain(value: object) -> object:
    """Return a value as JSON has it: dates and times as ISO text."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _print_csv(table: "pa.Table") -> None:
    import csv

    from dpcube.core.spreadsheets import spreadsheet_text

    def printed(value: object) -> str:
        text = spreadsheet_text(value) if isinstance(value, str) else "" if value is None else str(value)
        return visible(text) if sys.stdout.isatty() else text

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(printed, table.column_names))
    writer.writerows(zip(*(map(printed, column.to_pylist()) for column in table.columns), strict=True))


def _print(table: "pa.Table") -> None:
    import pyarrow as pa

    columns = [_texts(column.to_pylist()) for column in table.columns]
    left = tuple(place for place, kind in enumerate(table.schema.types) if pa.types.is_string(kind))
    print_table(table.column_names, list(zip(*columns, strict=True)), left=left)


def _texts(values: list[object]) -> list[str]:
    """Return the values of a column as they are printed: fractions with the digits that they need, the same for all."""
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value) and value]
    return [_shown(value, decimals(sizes)) for value in values]


def decimals(sizes: list[float]) -> int:
    """Return how many decimals numbers of these sizes need: five digits of the largest, three of the smallest.

    They need two at least, but none that are all zeros.

    >>> decimals([16087.52, 32681.5]), decimals([0.23956, 0.0024]), decimals([13.4215]), decimals([1.23e-9])
    (2, 5, 3, 10)
    >>> decimals([]), decimals([27.0, 37.0]), decimals([11.0, 30.3])
    (0, 0, 1)
    """
    if not sizes:
        return 0
    before_point = [math.floor(math.log10(size)) + 1 for size in (max(sizes), min(sizes))]
    most = max(2, min(10, max(5 - before_point[0], 3 - before_point[1])))
    return next(places for places in range(most + 1) if places == most or all(round(s, places) == s for s in sizes))


def _shown(value: object, places: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(_texts(value))
    if isinstance(value, float) and math.isnan(value):
        return "unknown"
    return f"{value:,.{places}f}" if isinstance(value, float) else str(value)
