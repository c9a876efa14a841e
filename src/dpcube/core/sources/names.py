"""Names of files: a path enters, the files that it stands for leave, each once, whatever names lead to it.

Names are of one file if, links followed, its device and inode are the same; what is in it never counts. One row then
changes the counts by one, whichever links and patterns lead to its file. Which files there are is public; what is in
them is not.
"""

import glob
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path

from dpcube.core.errors import SourceError
from dpcube.core.files import number_of_names
from dpcube.core.sources.lakehouse import lakehouse_at
from dpcube.core.sources.snapshot import current_snapshot

DELIMITERS = (";", "\t", "|", ",")
MOST_NAMES = 10_000_000  # to look at for one pattern: more than the files of any table


@dataclass(frozen=True, slots=True)
class File:
    """A file of a table: the name by which it is read, and its own names in the table, once links are followed.

    There are several of the latter if hard links to it are in the table; `elsewhere` says that it has others.
    """

    path: Path
    names: tuple[Path, ...]
    elsewhere: bool


def identity(path: str | Path) -> tuple[int, int]:
    """Return what a file has once, however many names it has."""
    status = os.stat(path)  # noqa: PTH116 (takes text too)
    return status.st_dev, status.st_ino


def listed(path: Path) -> list[File]:
    """Return the files that an absolute path stands for: itself, those of a directory, or those that match a pattern.

    Names that begin with a dot or an underscore are not data, by the custom of Spark and others. Each file is there
    once, by the first of its names in order. Of a lakehouse table they are the files of its current version.
    """
    if (lakehouse := lakehouse_at(path)) is not None:
        return _once(path, [file.path for file in current_snapshot(lakehouse).files])
    if path.is_file():
        return _once(path, [path])
    found: Iterable[Path] = ()
    if path.is_dir():
        with suppress(OSError):  # a directory that may not be read
            found = [file for file in path.iterdir() if not file.name.startswith((".", "_"))]
    elif glob.has_magic(str(path)):
        found = matched(path)
    else:
        msg = f"there is no file {path}"
        raise SourceError(msg)
    if not found:
        msg = f"there is no file to be read in {path}; a table without rows still has a file, with its columns"
        raise SourceError(msg)
    return _once(path, found)


def _once(path: Path, found: Iterable[Path]) -> list[File]:
    real = cache(os.path.realpath)
    files: dict[tuple[int, int], list[Path]] = {}
    for name in sorted(found):
        if not name.is_file():
            msg = f"{path} leads to {name.name}, which is no file; write a pattern of files, such as 'data/*/*.parquet'"
            raise SourceError(msg)
        names = files.setdefault(identity(name), [])
        names.append(name)
        if len(names) > 1 and not identity(name)[1]:
            msg = f"{path} is on a file system that does not tell one file from another; copy the table elsewhere"
            raise SourceError(msg)
    return [_file(names, real) for names in files.values()]


def _file(names: list[Path], real: Callable[[Path], str]) -> File:
    own = {Path(real(name)) if name.is_symlink() else Path(real(name.parent), name.name) for name in names}
    others = number_of_names(names[0]) > len(own) or not all(map(os.path.lexists, own))  # the latter: it was deleted
    return File(names[0], tuple(sorted(own)), others)


def matched(pattern: Path) -> set[Path]:
    """Return what matches an absolute pattern, as `glob.glob(pattern, recursive=True)` has it.

    What matches below a directory depends on the directory and on the parts of the pattern that are left, so each such
    pair is walked once, by the first name that leads to it. So links that lead back end, no file is left out, and the
    work is at most the number of names times the number of parts.
    """
    anchor, *parts = pattern.parts
    found: set[Path] = set()
    walked: set[tuple[Hashable, int]] = set()
    todo, looked = [(anchor, 0)], 0
    while todo:
        directory, turn = todo.pop()
        any_depth, last = parts[turn] == "**", turn == len(parts) - 1
        if (key := (_key(directory), turn)) in walked:
            continue
        walked.add(key)
        if any_depth and last:
            found.add(Path(directory))
        elif any_depth:
            todo.append((directory, turn + 1))
        for name, is_directory in _entries(directory, parts[turn]):
            looked += 1
            if name is not None and last:
                found.add(Path(directory, name))
            if name is not None and is_directory and (any_depth or not last):
                todo.append((os.path.join(directory, name), turn if any_depth else turn + 1))  # noqa: PTH118
        if looked > MOST_NAMES:
            msg = (
                f"{pattern} leads to more than {MOST_NAMES:,} names; write a pattern that begins in a smaller directory"
            )
            raise SourceError(msg)
    return found


def _key(directory: str) -> Hashable:
    try:
        known = identity(directory)
    except OSError:
        return directory
    return known if known[1] else directory


def _entries(directory: str, part: str) -> Iterator[tuple[str | None, bool]]:
    """Yield each name in a directory that matches a part of a pattern, and whether it is a directory; else None."""
    if part != "**" and not glob.has_magic(part):
        path = os.path.join(directory, part)  # noqa: PTH118
        if os.path.lexists(path):
            yield part, os.path.isdir(path)  # noqa: PTH112
        return
    matches = re.compile(translate(os.path.normcase("*" if part == "**" else part))).match
    with suppress(OSError), os.scandir(directory) as entries:  # one that may not be read, as glob has it
        for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):  # the last to be put off is the next
            hidden = entry.name.startswith(".") and not part.startswith(".")
            match = not hidden and matches(os.path.normcase(entry.name))
            yield entry.name if match else None, bool(match) and _is_directory(entry)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False


def delimiter_hint(columns: Sequence[str]) -> str:
    """Return what to say of a table with one column in whose name another delimiter stands; nothing of any other."""
    found = [mark for mark in DELIMITERS if len(columns) == 1 and mark in columns[0]]
    if not found:
        return ""
    mark = "\\t" if found[0] == "\t" else found[0]
    said = f"--delimiter '{mark}', or in a domain file delimiter = \"{mark}\" "
    said += f"(CsvDialect(delimiter={found[0]!r}) in Python)"
    return f"if its fields are divided by {mark!r}, say so: {said}"


def refuse_twice(table: str, read: Iterable[tuple[Hashable, str]]) -> None:
    """Refuse a table that would read one thing twice; each is given by what it is and by its name."""
    names: dict[Hashable, str] = {}
    for thing, name in read:
        if thing in names:
            again = "twice" if names[thing] == name else f"and {name}, which are the same"
            msg = f"{table} reads {names[thing]} {again}, and each row would count twice; read each file once"
            raise SourceError(msg)
        names[thing] = name
