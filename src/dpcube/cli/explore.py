"""The verb that makes a page of a released file, to see it and to ask it."""

from pathlib import Path

import click

from dpcube.cli.analyst import release_file
from dpcube.cli.output import stage, stages_done, visible


@click.command(short_help="Write a page to see a cube and ask it, as one offline file.")
@release_file
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A new .html file.")
@click.option("--confidence", default=0.95, show_default=True, help="Confidence of the intervals.")
@click.option("--estimate", default="auto", show_default=True, help="Estimate to show; `info` lists them.")
def explore(release: Path, *, output: Path, confidence: float, estimate: str) -> None:
    """Write one page that shows every attribute's counts and answers questions by itself, with the network off.

    The release travels inside the page: put it on any web site, or mail it. It has the numbers of `dpcube count`.
    """
    from dpcube.analyst.kept import made_once
    from dpcube.analyst.plots.axis import printable
    from dpcube.analyst.plots.file import check_ending, write_picture

    check_ending(output, ("html",))
    stage("working out counts and their errors")

    def contents() -> bytes:
        from dpcube.analyst import Release
        from dpcube.explore import packed_contents

        return packed_contents(Release.open(release), release, estimate=estimate, confidence=confidence)

    packed = made_once(release, f"explore {release.name!r} {estimate} {confidence}", contents)
    from dpcube.explore import explorer_page

    write_picture(output, explorer_page(packed, title=f"{printable(release.stem)}: a private cube").encode())
    stages_done()
    click.echo(f"Wrote {visible(str(output))}.")
