"""Under what a file's things are kept: a file enters, a key leaves.

What is kept is found by the digest of the file's bytes, the version of this package and the stamp of its own files:
bytes that were read and checked once by the same code need not be read again, and no other code's answers are taken.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from dpcube import __version__
from dpcube.core.files import is_special

LARGEST_COUNTED = 2**30


def key_of(digest: str, what: str) -> str:
    """Return the key of one thing that follows from a file, by the digest of the file's bytes."""
    return f"{digest} {what} {__version__} {_stamp()}"


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes; None if it is no plain file, or too large a one to be worth it."""
    try:
        if is_special(path) or path.stat().st_size > LARGEST_COUNTED:
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
