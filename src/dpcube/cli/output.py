"""What commands share: tables for people, JSON for programs, progress on a terminal only, names of strategies."""

import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache

import click

from dpcube.core.compiled import tell_when_compiling

as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(result: object) -> None:
    """Print a result as one JSON document."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    click.echo(json.dumps(_known(result), ensure_ascii=not unicode, indent=1, allow_nan=False))


def _known(value: object) -> object:
    """Return a result with null in place of NaN and infinity, which JSON cannot represent."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: tuple[int, ...] = (0,)) -> None:
    """Print rows in aligned columns: those in `left` are left-aligned, the others right-aligned."""
    lines = [tuple(map(visible, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def visible(text: str) -> str:
    """Escape control characters: names in an untrusted file must not control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Ticker:
    """Progress line on the terminal: the current stage and its duration, and nothing that was counted."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._words, self._since = "", 0.0

    def say(self, words: str) -> None:
        """Begin a stage."""
        self._words, self._since = words, time.monotonic()
        click.echo(f"\r\x1b[K{words} ...", err=True, nl=False)
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def done(self) -> None:
        """Clear the line."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
            click.echo("\r\x1b[K", err=True, nl=False)

    def _tick(self) -> None:
        while not self._stop.wait(1):
            seconds = round(time.monotonic() - self._since)
            click.echo(f"\r\x1b[K{self._words} ... {seconds} s", err=True, nl=False)


_ticker = Ticker()
stages_begun: list[str] = []
"""Stages that have begun, whether or not they were printed."""


def stage(words: str) -> None:
    """Begin a stage and print it, if stderr is a terminal."""
    stages_begun.append(words)
    if sys.stderr.isatty():
        _ticker.say(words)


def say_when_compiling() -> None:
    """Print a note on a terminal, once, when Numba compiles: it is slow, and only the first time."""
    tell_when_compiling(_say_compiling)


@cache
def _say_compiling() -> None:
    if sys.stderr.isatty():
        words = "compiling for this computer: once, up to a minute (`dpcube compile` does it in advance)"
        click.echo(f"\r\x1b[K{words}", err=True)


def stages_done() -> None:
    """Clear the progress line."""
    _ticker.done()


class StrategyOption(click.Option):
    """Option whose help lists the strategies of the registry when it is printed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help with the strategies' names."""
        from dpcube.strategies import strategy_names

        record = super().get_help_record(ctx)
        taken = ", ".join(name for name in strategy_names() if name not in self.names_left_out())
        return None if record is None else (record[0], f"{record[1]} Available: {taken}.")

    def names_left_out(self) -> tuple[str, ...]:
        """Return the names of strategies that the command refuses."""
        return ()


class ComparedOption(StrategyOption):
    """Option of a command that compares strategies; some strategies only make releases."""

    def names_left_out(self) -> tuple[str, ...]:
        """Return the names of strategies that are not compared."""
        from dpcube.strategies import NOT_COMPARED

        return NOT_COMPARED


one_strategy = click.option(
    "--strategy",
    cls=StrategyOption,
    metavar="NAME",
    help="Strategy that chooses what to measure: a name, or MODULE:CLASS of your own. The default is the first.",
)
SEVERAL = "Comma-separated strategies, each a name or MODULE:CLASS of your own. The default is all built-in ones."
some_strategies = click.option("--strategy", cls=StrategyOption, metavar="NAMES", help=SEVERAL)
compared_strategies = click.option("--strategy", cls=ComparedOption, metavar="NAMES", help=SEVERAL)


def named(strategies: str | None) -> tuple[str, ...]:
    """Return the strategies of a comma-separated list, by default the built-in ones."""
    from dpcube.strategies import BY_NAME

    return tuple(BY_NAME) if strategies is None else tuple(name.strip() for name in strategies.split(","))
