"""The user's cache directory: where it is, and whether what is there is the user's own."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISREG, S_IWGRP, S_IWOTH

SWITCH = "DPCUBE_CACHE"
"""The variable that names another directory, or says "off"."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where to keep things: `DPCUBE_CACHE`, or the place for caches on this kind of system; None for nowhere."""
    if (chosen := environment.get(SWITCH)) is not None:
        return None if chosen in ("", "off") else Path(chosen)
    try:
        if sys.platform == "win32":
            base = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # nobody's home
        return None
    return base / "dpcube" if base.is_absolute() else None


def is_ours(found: os.stat_result) -> bool:
    """Say whether a file or directory is the user's own and no link, and nobody else can write to it."""
    if not (S_ISDIR(found.st_mode) or S_ISREG(found.st_mode)):
        return False
    if not hasattr(os, "geteuid"):  # Windows keeps a profile's folders to its user
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (S_IWGRP | S_IWOTH)
