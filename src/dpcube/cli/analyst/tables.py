"""Verbs that write tables from a released file: synthetic rows, and the cube itself."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import as_json, print_json, stage, stages_done

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

    from dpcube.release import Release

output = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .csv or .parquet file to make."
)
estimate_option = click.option(
    "--estimate",
    default="auto",
    show_default=True,
    help="Estimate to use; `info` lists them.",
)


@click.command(short_help="Write synthetic rows that look like the cube.")
@release_file
@output
@click.option("--rows", type=int, help="How many rows; the estimated total unless given.")
@click.option("--seed", type=int, help="Repeats the same rows; a fresh one unless given.")
@estimate_option
@as_json
def synth(release: Path, *, output: Path, rows: int | None, seed: int | None, estimate: str, as_json: bool) -> None:
    """Write synthetic rows that look like the released cube.

    The file has the columns of the cube's attributes, in random order of rows, and costs no privacy: it is made from
    the release alone. Any number of rows is written in little memory.
    """
    opened = _opened(release, output)
    private = opened.provenance.private
    drawn = opened.synthesize_batches(rows, seed, estimate=estimate)
    stage("drawing rows")
    what = "synthetic rows" if private else "synthetic rows of a release that is NOT PRIVATE"
    _write(drawn, output, what=what, facts={"seed": seed, "private": private}, as_json=as_json)


@click.command(short_help="Write the cube as a table: a row for each cell or box.")
@release_file
@output
@click.option("--boxes", is_flag=True, help="Write the boxes that were counted instead of every cell.")
@click.option("--errors", is_flag=True, help="Add stderr, low and high to each cell; boxes have them anyway.")
@estimate_option
@as_json
def export(release: Path, *, output: Path, boxes: bool, errors: bool, estimate: str, as_json: bool) -> None:
    """Write the estimated cube as a table that any tool reads: a row for each cell, or for each box."""
    opened = _opened(release, output)
    stage("estimating")
    table = opened.boxes(estimate=estimate) if boxes else opened.view(estimate=estimate).table(errors=errors)
    _write(table.to_reader(), output, what="boxes" if boxes else "cells", facts={}, as_json=as_json)


def _opened(release: Path, output: Path) -> "Release":
    """Open a release, once the table to be made of it can be made."""
    from dpcube.release import Release
    from dpcube.release.export import check_new_table

    check_new_table(output)
    return Release.open(release)


def _write(table: "RecordBatchReader", output: Path, *, what: str, facts: dict[str, object], as_json: bool) -> None:
    """Write a table and say what was written."""
    from dpcube.release.export import write_table

    written = write_table(table, output)
    stages_done()
    if as_json:
        print_json({"table": str(output), "rows": written, **facts})
    else:
        click.echo(f"wrote {output}: {written:,} {what}")
