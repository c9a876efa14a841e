"""How verbs print: aligned text for people, JSON for programs, stages on a terminal only."""

import json
import sys
from collections.abc import Sequence

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(result: object) -> None:
    """Print a result as one JSON document."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    click.echo(json.dumps(result, ensure_ascii=not unicode, indent=1))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: tuple[int, ...] = (0,)) -> None:
    """Print rows in columns: those in `left` to the left, the others to the right."""
    lines = [tuple(map(visible, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def visible(text: str) -> str:
    """Write control characters out: the names in a file from elsewhere are not to steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def stage(words: str) -> None:
    """Say on a terminal what is being done; stay quiet otherwise."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{words} ...", err=True, nl=False)


def stages_done() -> None:
    """Clear the line that `stage` wrote."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
