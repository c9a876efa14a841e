"""What was measured, kept in a file, a line of JSON for each run: a run that was stopped goes on where it was.

A line counts for the code that made it: it carries a digest that changes with every file that the run depends on.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dpcube


def kept_lines(path: Path | None, code: str) -> Iterator[dict[str, Any]]:
    """Yield what each line says that this code made; lines of other code, and those cut short, are passed over."""
    if path is None or not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            read = json.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict) and read.get("code") == code:
            yield read


def keep_lines(path: Path | None, code: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Add a line for each of what was found, in the file at once; without a file it is kept nowhere."""
    if path is not None:
        lines = [json.dumps({"code": code, **one}) for one in found]
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"\n{line}" for line in lines))  # a line that was cut short stays by itself


def code_digest(left_out: tuple[str, ...]) -> str:
    """Return a digest of all modules of the package but those below some folders."""
    root = Path(dpcube.__file__).parent
    files = sorted((path.relative_to(root).as_posix(), path) for path in root.rglob("*.py"))
    together = hashlib.sha256()
    for name, path in files:
        if not any(name.startswith(f"{folder}/") for folder in left_out):
            together.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return together.hexdigest()[:16]
