"""`dpcube compile`: compile every numerical loop ahead of its first use."""

import click

from dpcube.cli.output import as_json, print_json, stage, stages_done


@click.command("compile", short_help="Compile numerical loops ahead of their first use.")
@as_json
def compile_verb(*, as_json: bool) -> None:
    """Compile all numerical loops now instead of at their first use: run it once after installing.

    It takes a minute or more, and a few seconds if everything is compiled already. The machine code is kept in the
    package's own folder, or in the user's cache directory if that folder is not writable.

    Example: dpcube compile
    """
    from dpcube.ahead import compile_ahead

    stage("compiling")
    made = compile_ahead()
    stages_done()
    if as_json:
        print_json({"compiled": made})
    else:
        click.echo(f"compiled {made:,} loops" if made else "nothing was left to compile")
