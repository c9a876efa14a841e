"""Reference pages that are written by a program: the command line from its parser, Python from its docstrings.

    python tools/reference.py            say which pages are out of date
    python tools/reference.py --write    write them

tests/unit/test_reference_pages.py keeps them current.
"""

import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click

from dpcube.cli.verbs import SECTIONS
from dpcube.core import errors

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
MODULES = {
    "dpcube": "Releases, answers and domains. This module never reads private rows.",
    "dpcube.curator": "Private rows are opened by importing this module, and by nothing else.",
    "dpcube.plan": "Errors of a release before it is made.",
    "dpcube.strategies": "What a release measures.",
    "dpcube.testing": "Conformance suites for strategies, estimates and sources of your own.",
    "dpcube.evaluate": "Releases beside the truth, for public data only.",
    "dpcube.theory": "The formal results of the paper, corrected.",
}
"""The public modules, with a line on each."""
BRIEF = {"dpcube.theory", "dpcube.evaluate", "dpcube.strategies"}
"""Modules of which only the first sentence of each object is shown."""
WITH_METHODS = {"Answer", "Answers", "Domain", "Plan", "Release", "View", "Workload"}
"""Classes of which every public method is listed."""
UNDERLINE = re.compile(r"^-{3,}$")


def pages() -> dict[str, str]:
    """Return the pages by their names."""
    return {"cli.md": command_page(), "python.md": python_page(), "errors.md": error_page()}


# The command line


def command_page() -> str:
    """Return the page of every command with its options."""
    lines = [
        "# Command line",
        "",
        "`dpcube --help` lists the commands and `dpcube VERB --help` describes one of them.",
        "`dpcube --version` prints the version. A command that fails prints one line. Its exit code is 2 for input",
        "that you can correct, 1 for a request that is refused, and 130 for an interruption.",
        "",
        '**Completion.** In Bash, add `eval "$(_DPCUBE_COMPLETE=bash_source dpcube)"` to `~/.bashrc`. In Zsh, add',
        '`eval "$(_DPCUBE_COMPLETE=zsh_source dpcube)"` to `~/.zshrc`. For fish, run',
        "`_DPCUBE_COMPLETE=fish_source dpcube > ~/.config/fish/completions/dpcube.fish`.",
        "",
    ]
    for section, verbs in SECTIONS.items():
        lines += [f"## {section.rstrip('?:')}", ""]
        for verb in verbs:
            lines += command_lines(verb.command(), f"dpcube {verb.name}", 3)
    return "\n".join(lines).rstrip() + "\n"


def command_lines(command: click.Command, name: str, level: int) -> list[str]:
    """Return the lines of a command and of those below it."""
    words = " ".join([name, *command.collect_usage_pieces(click.Context(command))])
    lines = [f"{'#' * level} {name}", "", "```text", words, "```", ""]
    for paragraph in inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
        text = " ".join(paragraph.split())
        example = text.removeprefix("Example: ")
        lines += ["```console", f"$ {example}", "```", ""] if example != text else [*wrapped(text), ""]
    options = [one for one in command.params if isinstance(one, click.Option) and one.name != "help" and not one.hidden]
    if options:
        lines += ["| option | meaning |", "|---|---|", *map(option_row, options), ""]
    if isinstance(command, click.Group):
        for below, one in sorted(command.commands.items()):
            lines += command_lines(one, f"{name} {below}", level + 1)
    return lines


def option_row(option: click.Option) -> str:
    """Return the row of an option: its names, its argument, what it means and its default."""
    argument = "" if option.is_flag or option.count else option.metavar or option.type.name.upper()
    if isinstance(option.type, click.Choice):
        argument = "|".join(map(str, option.type.choices))
    named = ", ".join(sorted([*option.opts, *option.secondary_opts], key=len, reverse=True))
    words = " ".join((option.help or "").split())
    if option.required:
        words += " Required."
    elif option.show_default and isinstance(option.default, str | int | float) and not option.is_flag:
        words += f" Default: `{option.default}`."
    return f"| `{f'{named} {argument}'.strip()}` | {words} |".replace("`|`", "`or`").replace("drop|each", "drop, each")


# Python


def python_page() -> str:
    """Return the page of the public names of Python."""
    lines = ["# Python", "", "Everything that this page does not list may change without notice.", ""]
    for name, words in MODULES.items():
        module = import_module(name)
        lines += [f"## {name}", "", words, ""]
        if name in BRIEF:
            lines += ["| name | meaning |", "|---|---|"]
            lines += [
                f"| `{signed(one, getattr(module, one))}` | {first_sentence(getattr(module, one))} |"
                for one in public(module)
                if has_own_words(getattr(module, one))
            ]
            lines += [""]
        else:
            for one in public(module):
                lines += object_lines(name, one, getattr(module, one))
    return formatted(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n")


def formatted(page: str) -> str:
    """Return a page with its Python laid out by ruff, which `make lint` asks for in Markdown too."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(REFERENCE / "python.md"), "-"]
    return subprocess.run(command, input=page, capture_output=True, text=True, check=True).stdout


def public(module: ModuleType) -> list[str]:
    """Return the public names of a module; errors have a page of their own."""
    names = [name for name in module.__all__ if not is_error(getattr(module, name))]
    return sorted(names, key=lambda name: (inspect.isroutine(getattr(module, name)), name))


def is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


def has_own_words(one: object) -> bool:
    """Say whether an object is documented: values of built-in types are not."""
    return inspect.isclass(one) or inspect.isroutine(one)


def object_lines(module: str, name: str, one: object) -> list[str]:
    """Return the lines of a class with its methods, or of a function."""
    lines = [f"### {module}.{name}", "", "```python", signed(name, one), "```", "", *doc_lines(one), ""]
    if name not in WITH_METHODS or not inspect.isclass(one):
        return lines
    for method, member in sorted(members(one)):
        called = signed(method, member) if callable(member) else method
        lines += [f"#### {name}.{method}", "", "```python", called, "```", "", *doc_lines(member), ""]
    return lines


def members(one: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of a class that have words of their own."""
    for base in reversed([base for base in one.__mro__ if base.__module__.startswith("dpcube")]):
        for name in vars(base):
            member = inspect.getattr_static(one, name)
            shown = isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
            if not name.startswith("_") and shown and base is owner(one, name):
                yield name, member if isinstance(member, property) else getattr(one, name)


def owner(one: type, name: str) -> type:
    return next(base for base in one.__mro__ if name in vars(base))


def signed(name: str, one: object) -> str:
    """Return a name with its parameters: defaults that are plain values, no types."""
    try:
        parameters = list(inspect.signature(one).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    written, keyword = [], False
    for one_of in parameters:
        if one_of.name in ("self", "cls"):
            continue
        if one_of.kind is one_of.KEYWORD_ONLY and not keyword:
            written.append("*")
        keyword = keyword or one_of.kind in (one_of.KEYWORD_ONLY, one_of.VAR_POSITIONAL)
        stars = "*" if one_of.kind is one_of.VAR_POSITIONAL else "**" if one_of.kind is one_of.VAR_KEYWORD else ""
        written.append(f"{stars}{one_of.name}{default(one_of)}")
    return f"{name}({', '.join(written)})"


def default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    plain = value is None or isinstance(value, str | int | float | tuple | frozenset)
    return (
        f"={value!r}"
        if plain
        and " at 0x" not in repr(value)
        and not hasattr(value, "_member_map_")
        and (type(value).__module__ == "builtins")
        else "=..."
    )


def words_of(one: object) -> str:
    """Return the docstring of an object; of a plain dataclass without one nothing."""
    found = inspect.getdoc(one) or ""
    return "" if inspect.isclass(one) and found.startswith(f"{one.__name__}(") else found


def first_sentence(one: object) -> str:
    first = words_of(one).partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


def doc_lines(one: object) -> list[str]:
    """Return a numpydoc docstring as Markdown."""
    lines, found, section = words_of(one).splitlines(), [], ""
    at = 0
    while at < len(lines):
        if at + 1 < len(lines) and UNDERLINE.match(lines[at + 1]):
            section = lines[at]
            found += ["", f"**{section}**", ""]
            at += 2
        elif lines[at].startswith(">>> "):
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            found += ["", "```pycon", *lines[at:end], "```", ""]
            at = end
        elif section in ("Parameters", "Returns", "Raises", "Attributes", "Yields") and lines[at].strip():
            indented = lines[at].startswith(" ")
            found.append(f"  {lines[at].strip()}" if indented else f"* `{lines[at].strip()}`:")
            at += 1
        else:
            found.append(lines[at])
            at += 1
    return ["\n".join(found).strip()]


def wrapped(text: str) -> list[str]:
    """Return a paragraph in lines of up to 100 characters."""
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


# Errors


def error_page() -> str:
    """Return the page of the exceptions, from their classes."""
    lines = [
        "# Errors",
        "",
        "A message is one line. It names the object, the value, what is allowed and what to do instead.",
        "No message contains a value of a private row, or an exact count.",
        "",
        "| exception | exit code | meaning |",
        "|---|---:|---|",
    ]
    found = [one for one in vars(errors).values() if is_error(one) and one.__module__ == errors.__name__]
    lines += [f"| `{one.__name__}` | {exit_code(one)} | {first_sentence(one)} |" for one in sorted(found, key=ancestry)]
    lines += ["", "An indented exception is a subclass of the one above it with less indentation:", "", "```text"]
    lines += [f"{'  ' * (len(ancestry(one)) - 1)}{one.__name__}" for one in sorted(found, key=ancestry)]
    lines += [
        "```",
        "",
        "All of them are names of `dpcube`, so `except dpcube.DpcubeError` catches every error that dpcube raises on",
        "purpose. A command that is interrupted returns 130. What was charged to the ledger before stays spent.",
    ]
    return "\n".join(lines) + "\n"


def ancestry(one: type) -> tuple[str, ...]:
    return tuple(base.__name__ for base in reversed(one.__mro__) if base.__module__ == errors.__name__)


def exit_code(one: type) -> str:
    if one is errors.DpcubeError:
        return ""
    return "2" if issubclass(one, errors.InputError) else "1"


def main() -> int:
    stale = {name: text for name, text in pages().items() if not is_current(name, text)}
    for name, text in stale.items():
        print(f"docs/reference/{name}: out of date")
        if "--write" in sys.argv:
            (REFERENCE / name).write_text(text, encoding="utf-8")
    return 1 if stale and "--write" not in sys.argv else 0


def is_current(name: str, text: str) -> bool:
    return (REFERENCE / name).exists() and (REFERENCE / name).read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
