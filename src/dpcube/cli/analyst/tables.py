"""Commands `synth`, `export` and `merge`: synthetic rows, the estimated cube as a table, releases of periods merged."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import as_json, print_json, stage, stages_done

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

    from dpcube.release import Release
from dpcube.cli.output import visible

output = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="New .csv or .parquet file."
)
estimate_option = click.option(
    "--estimate", default="auto", show_default=True, help="Estimate to use. `dpcube info` lists the available ones."
)


@click.command(short_help="Write synthetic rows drawn from the cube.")
@release_file
@output
@click.option("--rows", type=int, help="Number of rows. By default the estimated total.")
@click.option("--seed", type=int, help="Random seed, to reproduce the same rows. Random by default.")
@estimate_option
@as_json
def synth(release: Path, *, output: Path, rows: int | None, seed: int | None, estimate: str, as_json: bool) -> None:
    """Write synthetic rows that are distributed like the released cube.

    The file has a column for each attribute and random row order. It costs no privacy budget, because it is made from
    the release alone. Any number of rows is written in little memory.

    Example: dpcube synth patients.dpcube -o rows.parquet
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
@click.option("--boxes", is_flag=True, help="Write the measured boxes instead of every cell.")
@click.option("--errors", is_flag=True, help="Add columns stderr, low and high to each cell. Boxes always have them.")
@estimate_option
@as_json
def export(release: Path, *, output: Path, boxes: bool, errors: bool, estimate: str, as_json: bool) -> None:
    """Write the estimated cube as a table: one row for each cell, or for each box.

    Example: dpcube export patients.dpcube -o cells.csv
    """
    from dpcube.release.capabilities import BOXES, TABLE, require

    opened = _opened(release, output)
    require(BOXES if boxes else TABLE, opened)
    stage("estimating")
    table = opened.boxes(estimate=estimate) if boxes else opened.view(estimate=estimate).table(errors=errors)
    _write(table.to_reader(), output, what="boxes" if boxes else "cells", facts={}, as_json=as_json)


def _opened(release: Path, output: Path) -> "Release":
    """Open a release, after checking that the output table can be written."""
    from dpcube.release import Release
    from dpcube.release.export import check_new_table

    check_new_table(output)
    return Release.open(release)


def _write(table: "RecordBatchReader", output: Path, *, what: str, facts: dict[str, object], as_json: bool) -> None:
    """Write a table and print a summary."""
    from dpcube.release.export import write_table

    written = write_table(table, output)
    stages_done()
    if as_json:
        print_json({"table": str(output), "rows": written, **facts})
    else:
        click.echo(f"wrote {output}: {written:,} {what}")


@click.command(short_help="Merge releases of disjoint periods.")
@click.argument("releases", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RELEASE RELEASE...")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New .dpcube file.")
@as_json
def merge(releases: tuple[Path, ...], *, output: Path, as_json: bool) -> None:
    """Merge releases of disjoint periods over one domain into one file, with the period as an attribute.

    Queries without the period attribute sum over the periods; queries that group by it show them separately. This
    spends no privacy budget.

    Example: dpcube merge may.dpcube june.dpcube -o both.dpcube
    """
    from dpcube.release import Release
    from dpcube.release.pasteable import file_word, shell_word

    made = Release.open(releases)
    digest = made.save(output)
    if as_json:
        print_json({"release": str(output), "periods": made.domain.attributes[0].labels(), "digest": digest})
        return
    name = made.domain.names[0]
    by_period = f"SELECT {name if name.isidentifier() else chr(34) + name + chr(34)}, count(*) FROM cube GROUP BY 1"
    click.echo(visible(f"wrote {output}: {len(releases)} periods, {made.domain.size:,} cells, digest {digest[:16]}"))
    click.echo(f"to use it: dpcube count {file_word(output)}; dpcube sql {file_word(output)} {shell_word(by_period)}")
