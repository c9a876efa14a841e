"""Virtual environment of the secure-computation engine, made once by pip in the user's cache directory.

`spu` is a wheel for Python 3.11 on Linux that requires NumPy 1 and takes a gigabyte with its dependencies. dpcube keeps
its own NumPy, and never imports the engine's packages into a process with budgets: they run in a child process only.
The engine gets private features, so it is run only from a directory that belongs to the user and that nobody else may
enter.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from stat import S_IRWXG, S_IRWXO

from dpcube.core.caches import cache_folder, is_ours
from dpcube.core.errors import InputError, LinkageError

ENGINE = "spu 0.9.5, Cheetah, products of 64 bits"
ENGINE_SWITCH = "DPCUBE_LINK_ENGINE"
REQUIREMENTS = (
    "cachetools==8.0.0",
    "cloudpickle==3.1.2",
    "dill==0.4.1",
    "jax==0.4.34",
    "jaxlib==0.4.34",
    "ml_dtypes==0.5.4",
    "multiprocess==0.70.19",
    "numpy==1.26.4",
    "opt_einsum==3.4.0",
    "scipy==1.17.1",
    "spu==0.9.5",
    "termcolor==3.3.0",
)
_READY = "ready"


def engine_python(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the Python of the engine's environment; InputError with instructions if there is none."""
    if chosen := environment.get(ENGINE_SWITCH):
        return Path(chosen)
    folder = engine_folder(environment)
    if not (folder / _READY).exists():
        msg = f"the engine of secure comparisons is not installed in {folder}; run: dpcube link --install-engine"
        raise InputError(msg)
    _refuse_foreign(folder)
    return folder / "bin" / "python"


def _refuse_foreign(folder: Path) -> None:
    """Refuse an environment into which another user could have put code, or still could."""
    place, above = folder.lstat(), folder.parent.lstat()
    if is_ours(above) and is_ours(place) and not place.st_mode & (S_IRWXG | S_IRWXO):
        return
    msg = (
        f"the engine of secure comparisons in {folder} is not run, because other users could have put code there: both "
        f"that directory (chmod 700) and {folder.parent} (chmod go-w) must be yours alone. If others could write to "
        "them, remove it and install it again (dpcube link --install-engine)"
    )
    raise InputError(msg)


def engine_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the engine."""
    place = cache_folder(environment)
    if place is None:
        msg = f"there is no cache directory for the engine; set {ENGINE_SWITCH} to a Python that has spu"
        raise InputError(msg)
    return place / f"engine-{REQUIREMENTS[-2].replace('==', '-')}"


def install_engine(folder: Path | None = None) -> Path:
    """Create the engine's environment unless it exists, and return its Python. An incomplete one is replaced."""
    is_kept, folder = folder is None, folder or engine_folder()
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            _run(_python_3_11(), "-m", "venv", str(folder))
            options = ("--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps")
            _run(str(folder / "bin" / "python"), "-m", "pip", "install", *options, *REQUIREMENTS)
            _run(str(folder / "bin" / "python"), "-I", "-c", "import jax, spu")
            (folder / _READY).touch()
    if is_kept:  # in the cache directory; for another folder the caller is responsible
        _refuse_foreign(folder)
    return folder / "bin" / "python"


def _python_3_11() -> str:
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    if found := shutil.which("python3.11"):
        return found
    msg = "the engine of secure comparisons needs Python 3.11 for its own environment; install python3.11"
    raise InputError(msg)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        msg = f"the engine cannot be installed: {last[0]}"
        raise LinkageError(msg)
