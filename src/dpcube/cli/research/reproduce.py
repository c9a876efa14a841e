"""`dpcube reproduce`: the paper's figures as pictures and numbers, with verdicts on its claims."""

import textwrap
from pathlib import Path

import click

from dpcube.cli.output import as_json, print_json, stage, stages_done

DIRECTORY = Path("dpcube-figures")


@click.command(short_help="Make figures of the paper.")
@click.argument("figure", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Directory for the pictures (SVG, PNG), numbers (CSV) and the page.  [default: {DIRECTORY}]",
)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    help="Releases behind each point of the figures that are measured.  [default: 30]",
)
@click.option("--replace", is_flag=True, help="Replace files of the same names in the directory.")
@as_json
def reproduce(*, figure: tuple[str, ...], output: Path | None, draws: int | None, replace: bool, as_json: bool) -> None:
    """Make figures of the paper: give names of figures, of groups, or all; without names, list them.

    With --json the numbers and verdicts are printed, and files are written only if -o is given.

    Example: dpcube reproduce theory -o figures
    """
    from dpcube.research.reproduce import DRAWS, figure_groups, make_figures, named_figures

    if not figure:
        _list(figure_groups(), as_json=as_json)
        return
    if output is not None or not as_json:
        from dpcube.research.reproduce.draw import check_drawing, figure_files

        check_drawing()
        figure_files(named_figures(figure), output or DIRECTORY, replace=replace)
    stage("computing the figures")
    made = make_figures(figure, draws=draws or DRAWS, progress=stage)
    files: list[Path] = []
    if output is not None or not as_json:
        from dpcube.research.reproduce.draw import write_figures

        stage("drawing")
        files = write_figures(made, output or DIRECTORY, replace=replace)
    stages_done()
    if as_json:
        print_json({"figures": [one.as_dict() for one in made], "files": [str(path) for path in files]})
        return
    from dpcube.research.reproduce.draw import verdicts

    for one in made:
        click.echo(f"{one.title} ({one.label}; {one.setting})")
        for what, text in verdicts(one):
            click.echo(textwrap.fill(f"{what}: {text}", 100, initial_indent="  ", subsequent_indent="    "))
        click.echo("")
    verb = "Wrote or replaced" if replace else "Wrote"
    click.echo(f"{verb} {len(files)} files; start with {files[0]}")


def _list(known: dict[str, tuple[str, tuple[str, ...]]], *, as_json: bool) -> None:
    if as_json:
        print_json({group: {"about": about, "figures": list(names)} for group, (about, names) in known.items()})
        return
    for group, (about, names) in known.items():
        click.echo(f"{group}: {about}")
        for name in names:
            click.echo(f"  {name}")
    click.echo("\nMake some with  dpcube reproduce NAME...  or everything with  dpcube reproduce all")
