"""Compiling ahead, for whoever installs."""

import click

from dpcube.cli.output import as_json, print_json, stage, stages_done


@click.command("compile", short_help="Compile once now what would else compile later.")
@as_json
def compile_verb(*, as_json: bool) -> None:
    """Compile ahead what would else be compiled when it is first used: run it once after installing.

    It takes a minute or more, and a few seconds when there is nothing left to compile. The result is in the package's
    own folder, or in the user's cache directory if that folder cannot be written to.
    """
    from dpcube.research.ahead import compile_ahead

    stage("compiling")
    made = compile_ahead()
    stages_done()
    if as_json:
        print_json({"compiled": made})
    else:
        click.echo(f"compiled {made:,} loops" if made else "nothing was left to compile")
