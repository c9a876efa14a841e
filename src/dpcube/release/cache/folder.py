"""What is kept in the user's cache directory: bytes under a key enter, and leave as they entered or not at all.

Nothing in it is trusted for being there. The directory and what is in it must belong to the user and be nobody else's
to write. An entry begins with a digest of its key and of what follows: a damaged or renamed one is not used. Entries
appear whole, by renaming, so any number of processes may read and write at once; the last to write one wins, and all
write the same. A cache may always be missing, full or unwritable: then there is none, and nothing fails.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from dpcube.core.caches import is_ours
from dpcube.core.files import PART, place_beside

MOST_BYTES = 2**29
MOST_ENTRIES = 64
ENDING = ".kept"
_A_DAY = 86_400.0
_DIGEST = 32


def read_entry(folder: Path, key: str) -> memoryview | None:
    """Return what was kept under a key, whole, or None; as a view, for to copy what is large takes time."""
    with suppress(OSError, ValueError):
        if not is_ours(folder.lstat()):
            return None
        # Neither through a link nor, should there be a pipe, for ever.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(_place(folder, key), flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not S_ISREG(found.st_mode) or not is_ours(found) or found.st_size > MOST_BYTES:
                return None
            content = memoryview(file.read(MOST_BYTES))
        if content[:_DIGEST] == _digest(key, content[_DIGEST:]):
            with suppress(OSError):
                os.utime(_place(folder, key))  # what was used last is cleared away last
            return content[_DIGEST:]
    return None


def write_entry(folder: Path, key: str, content: bytes) -> None:
    """Keep bytes under a key, if that can be done, and clear away what was not used for longest if it is too much."""
    if len(content) > MOST_BYTES // 4:
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
        if number >= MOST_ENTRIES or size > MOST_BYTES:
            with suppress(OSError):
                path.unlink()
