"""Command `explore`: an interactive page of a release, served locally or written as one offline file."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.web.explorer.inlined import PageEngine


@click.command(short_help="Explore a cube on a page, served locally or written as one offline file.")
@release_file
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the page as a new .html file.")
@click.option("--confidence", default=0.95, show_default=True, help="Level of the confidence intervals.")
@click.option(
    "--estimate", default="auto", show_default=True, help="Estimate to show. `dpcube info` lists the available ones."
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port on 127.0.0.1. By default a free one. Not with -o.")
@click.option("--no-open", is_flag=True, help="Print the address of the page without opening a browser. Not with -o.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), help="Time limit of an SQL statement. 30 by default. Not with -o."
)
@click.option(
    "--sql", is_flag=True, help="Include DuckDB in the file (about 11 MB), for SQL without Python. Only with -o."
)
@click.option(
    "--duckdb-wasm",
    "package",
    type=click.Path(path_type=Path),
    envvar="DPCUBE_DUCKDB_WASM",
    help="npm package @duckdb/duckdb-wasm for --sql: its .tgz file or directory.",
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
    """Show the counts of every attribute on an interactive page, with the same numbers as `dpcube count`.

    Without -o the page is served on this machine only, with SQL and synthetic rows, for cubes of any size and wide
    tables; Ctrl-C ends it. With -o it is a single self-contained HTML file that works offline.

    Example: dpcube explore patients.dpcube -o patients.html
    """
    if output is None and sql:
        msg = "--sql needs -o; a served page always has SQL: leave it out, or add -o"
        raise click.UsageError(msg)
    if output is None:
        _serve(release, confidence, estimate, port=port or 0, seconds=seconds or 30.0, opens=not no_open)
        return
    if port is not None or no_open or seconds is not None:
        msg = "--port, --no-open and --seconds cannot be combined with -o; leave them or -o out"
        raise click.UsageError(msg)
    _write(release, output, confidence, estimate, sql=sql, package=package)


def _write(release: Path, output: Path, confidence: float, estimate: str, *, sql: bool, package: Path | None) -> None:
    from dpcube.release.cache import made_once
    from dpcube.release.plots.axis import printable
    from dpcube.release.plots.file import check_ending, write_picture

    check_ending(output, ("html",))
    engine = _engine(package) if sql else None
    stage("computing counts and errors")

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
    from dpcube.web.explorer.inlined import page_engine

    stage("packing DuckDB")
    return page_engine(package)


def _serve(release: Path, confidence: float, estimate: str, *, port: int, seconds: float, opens: bool) -> None:
    from dpcube.web.explorer import ExplorerServer
    from dpcube.web.loopback import opened_in_browser, serve

    stage("computing counts and errors")
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
    """Return whether a graphical browser can open; one in the terminal would block it, and cannot show the page."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
