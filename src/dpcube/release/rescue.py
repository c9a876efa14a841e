"""Fallback location of a release that could not be written as requested, so that its spent budget is not lost."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpcube.measurements import file as release_file
from dpcube.release.release import Release

KEPT_IN_MEMORY = Path("/dev/shm")
"""A file system that no full disk fills; what is there is gone when the machine is restarted."""


def save_elsewhere(release: Release, wanted: Path) -> Path | None:
    """Write a release to the first other folder that takes it, for its owner alone; None if no folder does."""
    name = f"{wanted.stem[:100]}-{release.digest[:16]}.dpcube"
    for folder in _folders():
        with suppress(Exception):  # whatever is wrong there, the next may do
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            record = (release.domain, release.transcript, release.provenance)
            release_file.write_record(folder / name, record, private=True)
            return folder / name
    return None


def _folders() -> Iterator[Path]:
    """Yield the user's folder of data, that of temporary files, and one in memory, as far as there are any."""
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "dpcube"
    with suppress(OSError):  # no temporary file can be made
        yield Path(tempfile.gettempdir())
    if KEPT_IN_MEMORY.is_dir():
        yield KEPT_IN_MEMORY
