"""The help of every command ends with an example, and each example is a command line that the parser accepts."""

import inspect
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from dpcube import __version__
from dpcube.cli import commands
from dpcube.cli.verbs import VERBS


def all_commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, by their names."""
    yield name, command
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            yield from all_commands(one, f"{name} {below}")


COMMANDS = dict(pair for verb in VERBS.values() for pair in all_commands(verb.command(), verb.name))


def example(command: click.Command) -> str:
    """Return the command line of the last paragraph of a help; empty if that is no example."""
    last = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[-1].split())
    return last.removeprefix("Example: ") if last.startswith("Example: dpcube ") else ""


def parse(line: str) -> click.Context:
    """Parse a command line as `dpcube` does, but do not run it."""
    program, *arguments = shlex.split(line)
    assert program == "dpcube"
    command: click.Command = commands
    context = None
    while isinstance(command, click.Group):
        context = command.make_context(command.name or "", arguments, parent=context)
        name, below, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None, line
        assert below is not None, line
        command = below
    return command.make_context(command.name or "", arguments, parent=context)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_an_example_that_parses(name: str) -> None:
    line = example(COMMANDS[name])
    assert line.startswith(f"dpcube {name.split()[0]}")
    assert parse(line).command.callback is not None


def test_overview_examples_parse() -> None:
    shown = [verb.example for verb in VERBS.values() if verb.example]
    assert len(shown) > 20
    for line in shown:
        written = line.replace("[", "").replace("]", "").replace(" ... ", " ")
        assert parse(f"dpcube {written}").command.callback is not None


@pytest.mark.parametrize(
    "wrong", ["dpcube count", "dpcube plan d.toml --epsilom 1", "dpcube nothing", "dpcube synth a.dpcube b.dpcube c"]
)
def test_a_wrong_line_is_refused(wrong: str) -> None:
    """Otherwise the test above could not fail."""
    with pytest.raises(click.UsageError):
        parse(wrong)


def test_the_version_is_that_of_the_package() -> None:
    shown = CliRunner().invoke(commands, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"dpcube, version {__version__}\n")
