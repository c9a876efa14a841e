"""Command `compile`: compiles all Numba functions in advance."""

import click

from dpcube.cli.output import as_json, print_json, stage, stages_done


@click.command("compile", short_help="Compile all Numba functions in advance.")
@as_json
def compile_verb(*, as_json: bool) -> None:
    """Compile all functions that would otherwise compile on first use. Run it once after installing.

    It takes a minute or more, and a few seconds if everything is compiled already. The result is stored in the
    directory of the package, or in the user's cache directory if the former is read-only.

    Example: dpcube compile
    """
    from dpcube.research.ahead import compile_ahead

    stage("compiling")
    made = compile_ahead()
    stages_done()
    if as_json:
        print_json({"compiled": made})
    else:
        click.echo(f"compiled {made:,} functions" if made else "everything is compiled already")
