"""Where the user's cache directory is."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

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
