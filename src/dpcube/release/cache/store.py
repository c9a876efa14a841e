"""The user's cache directory: bytes under a key are stored, and come back as they were or not at all.

A key is made of the digest of a file's bytes, what was made of it, the version of this package and the stamp of its own
files: bytes that were read and checked once by the same code need not be read again, and no other code's results are
used. Nothing in the directory is trusted for being there. It and what is in it must belong to the user and be nobody
else's to write. An entry begins with a digest of its key and of what follows: a damaged or renamed one is not used.
Entries appear whole, by renaming, so any number of processes may read and write at once; the last to write one wins,
and all write the same. A cache may always be missing, full or unwritable: then there is none, and nothing fails. What
is stored follows from a published file, so it is no more private than the file.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from dpcube import __version__
from dpcube.core.caches import cache_folder, is_ours
from dpcube.core.files import PART, is_special, place_beside

MAX_CACHE_BYTES = 2**29
MAX_CACHE_ENTRIES = 64
ENDING = ".kept"
_A_DAY = 86_400.0
_DIGEST = 32
MAX_COUNTED_BYTES = 2**30


def read_entry(folder: Path, key: str) -> memoryview | None:
    """Return what was kept under a key, whole, or None; as a view, for to copy what is large takes time."""
    with suppress(OSError, ValueError):
        if not is_ours(folder.lstat()):
            return None
        # Neither through a link nor, should there be a pipe, for ever.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(_place(folder, key), flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not S_ISREG(found.st_mode) or not is_ours(found) or found.st_size > MAX_CACHE_BYTES:
                return None
            content = memoryview(file.read(MAX_CACHE_BYTES))
        if content[:_DIGEST] == _digest(key, content[_DIGEST:]):
            with suppress(OSError):
                os.utime(_place(folder, key))  # what was used last is cleared away last
            return content[_DIGEST:]
    return None


def write_entry(folder: Path, key: str, content: bytes) -> None:
    """Keep bytes under a key, if that can be done, and clear away what was not used for longest if it is too much."""
    if len(content) > MAX_CACHE_BYTES // 4:
        return
    part = place_beside(_place(folder, key))
    with suppress(OSError, ValueError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_ours(folder.lstat()):
            return
        try:
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(_digest(key, content) + content)
            part.replace(_place(folder, key))
        finally:
            part.unlink(missing_ok=True)
        _clear(folder)


def _place(folder: Path, key: str) -> Path:
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()}{ENDING}"


def _digest(key: str, content: bytes | memoryview) -> bytes:
    whole = hashlib.sha256(hashlib.sha256(key.encode()).digest())
    whole.update(content)
    return whole.digest()


def _clear(folder: Path) -> None:
    """Remove what was not used for longest until the rest is few and small, and what a crash left behind."""
    entries = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process may clear at the same time
            found = path.lstat()
            if path.suffix == ENDING:
                entries.append((found.st_mtime, found.st_size, path))
            elif path.match(PART.format("*")) and found.st_mtime < time.time() - _A_DAY:
                path.unlink()
    size = 0
    for number, (_, taken, path) in enumerate(sorted(entries, reverse=True)):
        size += taken
        if number >= MAX_CACHE_ENTRIES or size > MAX_CACHE_BYTES:
            with suppress(OSError):
                path.unlink()


def key_of(digest: str, what: str) -> str:
    """Return the key of one thing that follows from a file, by the digest of the file's bytes."""
    return f"{digest} {what} {__version__} {_stamp()}"


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes; None if it is no plain file, or too large a one to be worth it."""
    try:
        if is_special(path) or path.stat().st_size > MAX_COUNTED_BYTES:
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # which opening it says better
        return None


def _stamp() -> str:
    """Return a digest of the sizes and times of this package's files: a working copy changes without a new version."""
    whole = hashlib.sha256()
    for path, found in sorted(_sources(str(Path(__file__).parents[2]))):
        whole.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _sources(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _sources(entry.path)


def libraries(*names: str) -> str:
    """Return the versions of libraries, with which pictures change; of one that is not installed, that it is not."""
    from importlib.metadata import version
    from importlib.util import find_spec

    return " ".join(f"{name} {version(name) if find_spec(name) else 'missing'}" for name in names)


def made_once(path: Path, what: str, make: Callable[[], bytes]) -> bytes:
    """Return what `make` makes of the file at `path`, from the cache if it was made before.

    `what` names it, with all that it depends on but the file.
    """
    place, digest = cache_folder(), digest_of(path)
    if place is None or digest is None:
        return make()
    key = key_of(digest, what)
    if (kept := read_entry(place, key)) is not None:
        return bytes(kept)
    made = make()
    if digest_of(path) == digest:
        write_entry(place, key, made)
    return made
