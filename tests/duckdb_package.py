"""DuckDB for browsers, for tests of pages with SQL inside: npm's package, fetched by npm from where npm is set to look.

DPCUBE_DUCKDB_WASM names one that is there already. Where there is no npm and we are root on Debian, it is installed.
"""

import os
import shutil
import subprocess
from pathlib import Path

from chromium import INSTALLING
from dpcube.web.explorer.inlined import PACKAGE, PACKAGE_VERSION


def duckdb_package(folder: Path) -> Path:
    """Return the package's archive, in a folder if it must be fetched."""
    if given := os.environ.get("DPCUBE_DUCKDB_WASM"):
        return Path(given)
    if shutil.which("npm") is None and shutil.which("apt-get") and os.geteuid() == 0:
        for what in (("update",), ("install", "--no-install-recommends", "npm")):
            subprocess.run([*INSTALLING, *what], check=True, capture_output=True, timeout=900)
    assert shutil.which("npm"), "tests of SQL inside a page need npm, or DPCUBE_DUCKDB_WASM: its archive of the package"
    command = ["npm", "pack", "--ignore-scripts", f"{PACKAGE}@{PACKAGE_VERSION}"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return next(folder.glob("*.tgz"))
