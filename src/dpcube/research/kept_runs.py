"""Seeds that follow from what is measured, and files of measured runs, from which a stopped measurement continues.

A file has a line of JSON for each run. A line counts for the code that made it: it carries a digest that changes with
every file on which the run depends.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dpcube


def seed_of(*what: object) -> int:
    """Return a seed that depends on the given values alone.

    >>> seed_of("age x sex", "0.1", "cells", 3) == seed_of("age x sex", "0.1", "cells", 3)
    True
    >>> seed_of("age x sex", 13) == seed_of("age x sex", 1, 3)
    False
    """
    named = "\x1f".join(map(str, what))
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=7).digest())


def kept_lines(path: Path | None, code: str) -> Iterator[dict[str, Any]]:
    """Yield the content of each line written by the same code; lines of other code, and partial ones, are skipped."""
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
    """Append a line for each run to the file at once, if there is a file."""
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
