"""Run the pages of the documentation that are walked through from top to bottom: tutorials and some guides.

    python tools/walkthrough.py PAGE...            say which outputs are not as the commands print
    python tools/walkthrough.py --write PAGE...    replace the outputs on the pages

The blocks of a page run in order. A tutorial runs in an empty folder, and a guide in one with the files that the
curator's tutorial leaves:

* a block with a title, such as `toml title="visits.toml"`, is a file;
* a Python block without a title is executed, in one namespace for the page;
* in a console block every line that begins with `$ ` is a command. The lines below it are its output. Noise is fresh,
  so numbers may differ, but all else must agree. A line `...` stands for any lines, and `...` inside
  a line for the rest of it. A command without output is run
  too. The commands in `SERVED` would wait for a browser; only their options are checked.
"""

import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy, copytree
from tempfile import TemporaryDirectory

import click

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![A-Za-z])[-+]?(?:\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|nan|unknown)(?![A-Za-z])|\b[0-9a-f]{12,}\b")
DIGEST = re.compile(r"\b[0-9a-f]{16}(?:[0-9a-f]{48})?\b")
SERVED = re.compile(
    r"^dpcube (?:studio\b|explore\b(?!.* (?:-o|--output)\b)|explore\b.* --sql\b|link\b(?! --new-key)"
    r"|.*(?:postgresql://|spark:|visits/|\.gz|\bA\.(?:csv|dpcube|ledger)\b))"
)
NOT_RUN = re.compile(r"^(?:make|pip|python -m venv|marimo|git|npm) ")

HOME = "/home/ann/"
"""What is printed in place of the folder in which a page is walked through."""

Run = Callable[[list[str], Path], tuple[int, str]]


@dataclass
class Walk:
    """A page as it is walked through, with the differences that were found."""

    folder: Path
    run: Run
    names: dict[str, object] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    commands: int = 0

    def block(self, found: re.Match[str]) -> str:
        """Run a block and return it with its outputs as they are now."""
        language, title, text = found[1], found[2], found[3]
        if title:
            (self.folder / title).write_text(text, encoding="utf-8")
        elif language == "python":
            self.commands += 1
            with chdir(self.folder):
                exec(compile(text, "page", "exec"), self.names)
        elif language == "console":
            body = "\n".join(line for command, printed in commands_of(text) for line in self.command(command, printed))
            return f"```console\n{body}\n```"
        return found[0]

    def command(self, command: str, printed: list[str]) -> list[str]:
        """Run a command, and return it with its output."""
        self.commands += 1
        plain = command.partition("   #")[0].replace("\\\n", " ").strip()
        if NOT_RUN.match(plain):
            return [f"$ {command}", *printed]
        if SERVED.match(plain):
            check_options(shlex.split(plain))
            return [f"$ {command}", *printed]
        code, output = self.run(shlex.split(plain), self.folder)
        lines = [line.rstrip() for line in output.replace(f"{self.folder.resolve()}/", HOME).splitlines()]
        refused = bool(printed) and printed[0].startswith("dpcube: ")
        if (code != 0) != refused:
            self.differences.append(f"$ {command}\nexit code {code}\n{output}")
        if printed and not agrees(printed, lines):
            self.differences.append(f"$ {command}\n" + "\n".join(lines))
            return [f"$ {command}", *lines]
        return [f"$ {command}", *printed]


def commands_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a console block, each with the lines that follow it."""
    command, printed = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, printed
            command, printed = line.removeprefix("$ "), []
        elif command.endswith("\\"):
            command += f"\n{line}"
        else:
            printed.append(line)
    yield command, printed


def agrees(printed: list[str], lines: list[str]) -> bool:
    """Say whether lines are those printed on a page, apart from numbers and from what `...` leaves out."""
    parts = [re.escape(shape(line)).replace(r"\.\.\.", ".*") if line != "..." else "" for line in printed]
    pattern = "".join(f"{part}\n" if part else "(?:.*\n)*?" for part in parts)
    return re.fullmatch(pattern, "".join(f"{shape(line)}\n" for line in lines)) is not None


def shape(line: str) -> str:
    """Return a line without its numbers and the width of its columns."""
    line = DIGEST.sub("#", line)
    return re.sub(r"-{3,}", "---", " ".join(NUMBER.sub("#", line).split()))


def check_options(words: list[str]) -> None:
    """Raise click's error if a command has no such options; nothing is run."""
    from dpcube.cli import commands

    command: click.Command = commands
    names = words[1:]
    while isinstance(command, click.Group) and names:
        found = command.get_command(click.Context(command), names[0])
        if found is None:
            break
        command, names = found, names[1:]
    command.make_context(words[0], names, resilient_parsing=False).close()


def in_processes(words: list[str], folder: Path) -> tuple[int, str]:
    """Run a command in a process of its own; what is shown on a terminal only gets one."""
    python = [sys.executable, *(["-m"] if words[0] == "dpcube" else [])]
    rest = words if words[0] == "dpcube" else words[1:]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DPCUBE_CACHE": "off"}
    if words[:2] == ["dpcube", "check"]:
        return on_terminal([*python, *rest], folder, environment)
    done = subprocess.run([*python, *rest], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def on_terminal(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    output = b""
    while some := read(ours):
        output += some
    os.close(ours)
    return process.wait(), output.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how a terminal ends on Linux
        return b""


def walked(page: Path, *, run: Run = in_processes, folder: Path) -> tuple[str, Walk]:
    """Return a page with the outputs of its commands, and its walk."""
    walk = Walk(folder, run)
    text = BLOCK.sub(walk.block, page.read_text(encoding="utf-8"))
    return text, walk


def prepare(folder: Path, *, run: Run = in_processes) -> None:
    """Make the files of the curator's tutorial, beside the release in `notebooks/`."""
    walked(ROOT / "docs" / "tutorials" / "curator.md", run=run, folder=folder)
    (folder / "notebooks").mkdir()
    copy(ROOT / "notebooks" / "adult.dpcube", folder / "notebooks")


def main() -> None:
    """Walk through the pages named."""
    names = [word for word in sys.argv[1:] if word != "--write"]
    with TemporaryDirectory() as prepared:
        if any("tutorials" not in name for name in names):
            prepare(Path(prepared))
        walk_all(names, Path(prepared))


def walk_all(names: list[str], prepared: Path) -> None:
    for name in names:
        with TemporaryDirectory() as folder:
            if "tutorials" not in name:
                copytree(prepared, folder, dirs_exist_ok=True)
            text, walk = walked(Path(name), folder=Path(folder))
        print(f"{name}: {walk.commands} commands and blocks, {len(walk.differences)} differences")
        print("\n\n".join(walk.differences))
        if "--write" in sys.argv:
            Path(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
