"""Command `merge`: one release from releases of disjoint periods."""

from pathlib import Path

import click

from dpcube.cli.output import as_json, print_json, visible


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
