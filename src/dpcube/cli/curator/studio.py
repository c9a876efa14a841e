"""Command `studio`: serves a page on which the owner plans and makes a release."""

import sys
from pathlib import Path

import click

from dpcube.cli.curator.release import csv_options, dialect_of, query_option, table_argument


@click.command(short_help="Open a page to plan and make a release of a table.")
@table_argument
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="Ledger file. By default TABLE.ledger beside the table."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. By default a free one.")
@query_option
@csv_options
def studio(
    table: Path | str,
    *,
    ledger: Path | None,
    port: int,
    query: str | None,
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None,
) -> None:
    """Serve a page, on this machine only, to define the domain of TABLE, predict errors, and make a release.

    The printed address opens the page once. Ctrl-C ends it. Nothing is spent before you confirm.

    Example: dpcube studio patients.csv
    """
    from dpcube.web.loopback import serve
    from dpcube.web.studio import StudioServer, StudioSession

    session = StudioSession(
        table, csv=dialect_of(table, delimiter, names, null_text, encoding), query=query, ledger=ledger
    )
    server = StudioServer(session, port)
    click.echo(f"open once, in a browser on this machine: {server.access.address}")
    click.echo("Ctrl-C ends it. What you type stays here, and nothing is spent before you confirm.")
    sys.stdout.flush()
    try:
        serve(server)
    except KeyboardInterrupt:
        click.echo("\nended")
