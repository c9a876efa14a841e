"""Atomic creation of a new file: complete, under a name that was free, or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG

PART = ".dpcube-{}.part"
NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # what file systems without them say


def is_special(path: Path) -> bool:
    """Say whether there is a pipe, a device or a socket at `path`: opening or reading one may never end."""
    mode = path.stat().st_mode
    return not S_ISREG(mode) and not S_ISDIR(mode)


def number_of_names(path: Path) -> int:
    """Return how many names a file has (hard links), without those under which `new_file` wrote it.

    Such a name is about to go, or was left by a crash. It is looked for before the names are counted, so one that goes
    in between does no harm.
    """
    parts = 0
    if path.stat().st_nlink > 1:
        for part in path.resolve().parent.glob(PART.format("*")):
            with suppress(OSError):
                parts += part.samefile(path)
    return path.stat().st_nlink - parts


def largest_file() -> int | None:
    """Return how many bytes this process may write to one file; None if there is no limit."""
    try:
        import resource
    except ImportError:  # there are none on Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


def place_beside(path: Path) -> Path:
    """Return a place in the same directory whose name is nobody else's."""
    return path.parent / PART.format(os.urandom(8).hex())


@contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Give an empty file to write; on leaving without an error it gets the name `path`, on disk and whole.

    Whatever the umask is, nobody but its owner can write to it, and if it is private nobody else can read it.
    FileExistsError if the name is taken by then. Nothing is left at the place, whatever happens; its name is nobody
    else's, so neither another process nor what a crash left behind can get in the way.
    """
    part = place_beside(path)
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o644))
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        _name(part, path)
        _sync_directory(path.parent)
    finally:
        with suppress(OSError, ValueError):
            part.unlink()


def _name(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        # Reserve the name, then put the file in its place.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        part.replace(path)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
