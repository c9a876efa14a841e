"""Verbs that draw a released file: pictures, and a page that tells what it is worth."""

from pathlib import Path

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import stage, stages_done, visible


@click.command(short_help="Draw a cube: counts of attributes, or a map of two.")
@release_file
@click.argument("attributes", nargs=-1, metavar="[ATTRIBUTE [ATTRIBUTE]]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A new .html (interactive), .svg or .png file.",
)
@click.option("--stages", is_flag=True, help="Show two attributes as noisy cells, noisy boxes and the estimate.")
@click.option("--where", help="Draw only rows that meet this question, such as: sex = 'Female'")
@click.option("--confidence", default=0.95, show_default=True, help="Confidence of the whiskers.")
@click.option(
    "--estimate",
    default="auto",
    show_default=True,
    help="Estimate to draw; `info` lists them.",
)
@click.option("--no-boxes", is_flag=True, help="Draw no lines around boxes.")
def plot(
    release: Path,
    attributes: tuple[str, ...],
    *,
    output: Path,
    stages: bool,
    where: str | None,
    confidence: float,
    estimate: str,
    no_boxes: bool,
) -> None:
    """Draw a released cube: one attribute's counts, a map of two, or all attributes' counts."""
    from dpcube.release.cache import libraries, made_once
    from dpcube.release.plots.file import check_ending, write_picture

    ending = check_ending(output)
    stage("drawing")

    def drawn() -> bytes:
        from dpcube.release import Release
        from dpcube.release.plots import picture
        from dpcube.release.plots.file import picture_bytes

        shown = picture(
            Release.open(release),
            *attributes,
            stages=stages,
            where=where,
            estimate=estimate,
            confidence=confidence,
            boxes=not no_boxes,
        )
        return picture_bytes(shown, ending)

    asked = repr((attributes, stages, where, estimate, confidence, no_boxes))
    by = libraries("plotly" if ending == "html" else "matplotlib")
    write_picture(output, made_once(release, f"plot {ending} {asked} {by}", drawn))
    stages_done()
    click.echo(f"Wrote {visible(str(output))}.")


@click.command(short_help="Write a page on what was released and how far to trust it.")
@release_file
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A new .html file.")
@click.option("--title", default="", help="The heading; names the attributes unless given.")
def report(release: Path, *, output: Path, title: str) -> None:
    """Write one page that says what was released, what was spent, and how far answers can be trusted."""
    from dpcube.release.cache import libraries, made_once
    from dpcube.release.plots.file import check_ending, write_picture

    check_ending(output, ("html",))
    stage("drawing")

    def page() -> bytes:
        from dpcube.release import Release
        from dpcube.release.report import report as made

        return made(Release.open(release), title=title).encode()

    write_picture(output, made_once(release, f"report {title!r} {libraries('matplotlib')}", page))
    stages_done()
    click.echo(f"Wrote {visible(str(output))}.")
