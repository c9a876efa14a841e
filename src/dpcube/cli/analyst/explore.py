"""The verb that makes a page of a released file, to see it and to ask it."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.web.explorer.engine_package import PageEngine


@click.command(short_help="See a cube and ask it, on a page: served here, or written as one offline file.")
@release_file
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the page as a new .html file.")
@click.option("--confidence", default=0.95, show_default=True, help="Confidence of the intervals.")
@click.option("--estimate", default="auto", show_default=True, help="Estimate to show; `info` lists them.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1; any that is free unless given. Not with -o."
)
@click.option("--no-open", is_flag=True, help="Print the page's address and open no browser. Not with -o.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), help="Longest that an SQL statement may run; 30 unless given. Not with -o."
)
@click.option("--sql", is_flag=True, help="Put DuckDB into the file (about 11 MB), for SQL without Python. With -o.")
@click.option(
    "--duckdb-wasm",
    "package",
    type=click.Path(path_type=Path),
    envvar="DPCUBE_DUCKDB_WASM",
    help="The npm package @duckdb/duckdb-wasm for --sql: its .tgz or folder.",
)
def explore(
    release: Path,
    *,
    output: Path | None,
    confidence: float,
    estimate: str,
    port: int | None,
    no_open: bool,
    seconds: float | None,
    sql: bool,
    package: Path | None,
) -> None:
    """Show every attribute's counts on a page that answers questions, with the numbers of `dpcube count`.

    Without -o it is served on this machine only, with SQL and synthetic rows, for cubes of any size and wide tables;
    Ctrl-C ends it. With -o it is one file that needs no network: put it on any web site, or mail it.
    """
    if output is None and sql:
        msg = "--sql is for a file; a page that is served has SQL by itself: leave it out, or add -o"
        raise click.UsageError(msg)
    if output is None:
        _serve(release, confidence, estimate, port=port or 0, seconds=seconds or 30.0, opens=not no_open)
        return
    if port is not None or no_open or seconds is not None:
        msg = "--port, --no-open and --seconds are for a page that is served; leave them or -o out"
        raise click.UsageError(msg)
    _write(release, output, confidence, estimate, sql=sql, package=package)


def _write(release: Path, output: Path, confidence: float, estimate: str, *, sql: bool, package: Path | None) -> None:
    from dpcube.release.cache import made_once
    from dpcube.release.plots.axis import printable
    from dpcube.release.plots.file import check_ending, write_picture

    check_ending(output, ("html",))
    engine = _engine(package) if sql else None
    stage("working out counts and their errors")

    def contents() -> bytes:
        from dpcube.release import Release
        from dpcube.web.explorer import packed_contents

        return packed_contents(Release.open(release), release, estimate=estimate, confidence=confidence, sql=sql)

    what = f"explore {release.name!r} {estimate} {confidence}" + (" sql" if sql else "")
    packed = made_once(release, what, contents)
    from dpcube.web.explorer import explorer_page

    title = f"{printable(release.stem)}: a private cube"
    write_picture(output, explorer_page(packed, title=title, engine=engine).encode())
    stages_done()
    click.echo(f"Wrote {visible(str(output))}.")


def _engine(package: Path | None) -> "PageEngine":
    from dpcube.web.explorer.engine_package import page_engine

    stage("packing DuckDB")
    return page_engine(package)


def _serve(release: Path, confidence: float, estimate: str, *, port: int, seconds: float, opens: bool) -> None:
    from dpcube.web.explorer import ExplorerServer
    from dpcube.web.loopback import opened_in_browser, serve

    stage("working out counts and their errors")
    server = ExplorerServer(release, estimate=estimate, confidence=confidence, seconds=seconds, port=port)
    stages_done()
    click.echo(f"open once, in a browser on this machine: {server.access.address}")
    click.echo("Ctrl-C ends it.")
    sys.stdout.flush()
    try:
        with opened_in_browser(server.access.address) if opens and has_screen() else nullcontext():
            serve(server)
    except KeyboardInterrupt:
        click.echo("\nended")
    finally:
        server.server_close()


def has_screen() -> bool:
    """Say whether a browser could show a window: one in the terminal would take it, and could not show the page."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
