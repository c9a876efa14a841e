"""File name expansion: the distinct files of a path, a directory or a pattern.

Two names denote one file if they have the same device and inode after following links; contents are never compared.
So one row changes the counts by one, however many links and patterns lead to its file. Which files exist is public;
their contents are not.
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
from dpcube.core.limits import MAX_NAMES
from dpcube.core.sources.lakehouse import current_snapshot, lakehouse_at

DELIMITERS = (";", "\t", "|", ",")


@dataclass(frozen=True, slots=True)
class File:
    """File of a table: the path by which it is read, and its resolved names in the table.

    It has several names if the table contains hard links to it; `elsewhere` tells whether it has further ones.
    """

    path: Path
    names: tuple[Path, ...]
    elsewhere: bool


def identity(path: str | Path) -> tuple[int, int]:
    """Return the device and inode of a file, which all its names share."""
    status = os.stat(path)  # noqa: PTH116 (takes text too)
    return status.st_dev, status.st_ino


def listed(path: Path) -> list[File]:
    """Return the files of an absolute path: a file, the files of a directory, or the matches of a pattern.

    Names that begin with a dot or an underscore are not data, by the convention of Spark and others. Each file is
    listed once, under the first of its names in order. For a lakehouse table they are the files of its current version.
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
        msg = f"there is no data file in {path}; a table without rows still needs a file with its columns"
        raise SourceError(msg)
    return _once(path, found)


def _once(path: Path, found: Iterable[Path]) -> list[File]:
    real = cache(os.path.realpath)
    files: dict[tuple[int, int], list[Path]] = {}
    for name in sorted(found):
        if not name.is_file():
            msg = (
                f"{path} contains {name.name}, which is not a file; use a pattern of files, such as 'data/*/*.parquet'"
            )
            raise SourceError(msg)
        names = files.setdefault(identity(name), [])
        names.append(name)
        if len(names) > 1 and not identity(name)[1]:
            msg = f"{path} is on a file system that gives files no identity (inode); copy the table elsewhere"
            raise SourceError(msg)
    return [_file(names, real) for names in files.values()]


def _file(names: list[Path], real: Callable[[Path], str]) -> File:
    own = {Path(real(name)) if name.is_symlink() else Path(real(name.parent), name.name) for name in names}
    others = number_of_names(names[0]) > len(own) or not all(map(os.path.lexists, own))  # the latter: it was deleted
    return File(names[0], tuple(sorted(own)), others)


def matched(pattern: Path) -> set[Path]:
    """Return the matches of an absolute pattern, as `glob.glob(pattern, recursive=True)` does.

    The matches below a directory depend on the directory and on the remaining parts of the pattern, so each such pair
    is walked once, under the first name that leads to it. So cycles of links end, no file is left out, and the work is
    at most the number of names times the number of parts.
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
        if looked > MAX_NAMES:
            msg = f"{pattern} visits more than {MAX_NAMES:,} names; use a pattern that begins in a smaller directory"
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
    with suppress(OSError), os.scandir(directory) as entries:  # unreadable directories match nothing, as in glob
        for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):  # the last to be put off is the next
            hidden = entry.name.startswith(".") and not part.startswith(".")
            match = not hidden and matches(os.path.normcase(entry.name))
            yield entry.name if match else None, bool(match) and _is_directory(entry)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False


def delimiter_hint(columns: Sequence[str]) -> str:
    """Return a hint to declare a delimiter, for a table with one column whose name contains one; else no text."""
    found = [mark for mark in DELIMITERS if len(columns) == 1 and mark in columns[0]]
    if not found:
        return ""
    mark = "\\t" if found[0] == "\t" else found[0]
    remedy = f"--delimiter '{mark}', or in a domain file delimiter = \"{mark}\" "
    remedy += f"(CsvDialect(delimiter={found[0]!r}) in Python)"
    return f"if its fields are separated by {mark!r}, declare it: {remedy}"


def refuse_twice(table: str, read: Iterable[tuple[Hashable, str]]) -> None:
    """Refuse a table that would read a file twice; each file is given by its identity and its name."""
    names: dict[Hashable, str] = {}
    for thing, name in read:
        if thing in names:
            again = "twice" if names[thing] == name else f"and {name}, which are the same file"
            msg = f"{table} reads {names[thing]} {again}, so each row would count twice; read each file once"
            raise SourceError(msg)
        names[thing] = name
