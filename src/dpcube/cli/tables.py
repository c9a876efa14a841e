"""Verbs that write tables from a released file: synthetic rows, and the cube itself."""

from pathlib import Path

import click

from dpcube.cli.analyst import release_file
from dpcube.cli.output import as_json, print_json, stage, stages_done

output = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .csv or .parquet file to make."
)
estimate = click.option("--estimate", default="auto", show_default=True, help="Estimate to use; `info` lists them.")


@click.command()
@release_file
@output
@click.option("--rows", type=int, help="How many rows; the estimated total unless given.")
@click.option("--seed", type=int, help="Repeats the same rows; a fresh one unless given.")
@estimate
@as_json
def synth(release: Path, *, output: Path, rows: int | None, seed: int | None, estimate: str, as_json: bool) -> None:
    """Write synthetic rows that look like the released cube.

    The file has the columns of the cube's attributes, in random order of rows, and costs no privacy: it is made from
    the release alone. Any number of rows is written in little memory.
    """
    from dpcube.analyst import Release
    from dpcube.analyst.export import check_new_table, write_table

    check_new_table(output)
    opened = Release.open(release)
    drawn = opened.synthesize_batches(rows, seed, estimate=estimate)
    stage("drawing rows")
    written = write_table(drawn, output)
    stages_done()
    if as_json:
        print_json({"table": str(output), "rows": written, "seed": seed, "private": opened.provenance.private})
        return
    stamp = "" if opened.provenance.private else " of a release that is NOT PRIVATE"
    click.echo(f"wrote {output}: {written:,} synthetic rows{stamp}")


@click.command()
@release_file
@output
@click.option("--boxes", is_flag=True, help="Write the boxes that were counted instead of every cell.")
@click.option("--errors", is_flag=True, help="Add stderr, low and high to each cell; boxes have them anyway.")
@estimate
@as_json
def export(release: Path, *, output: Path, boxes: bool, errors: bool, estimate: str, as_json: bool) -> None:
    """Write the estimated cube as a table that any tool reads: a row for each cell, or for each box."""
    from dpcube.analyst import Release
    from dpcube.analyst.export import check_new_table, write_table

    check_new_table(output)
    opened = Release.open(release)
    stage("estimating")
    table = opened.boxes(estimate=estimate) if boxes else opened.view(estimate=estimate).table(errors=errors)
    written = write_table(table.to_reader(), output)
    stages_done()
    if as_json:
        print_json({"table": str(output), "rows": written})
        return
    click.echo(f"wrote {output}: {written:,} {'boxes' if boxes else 'cells'}")
