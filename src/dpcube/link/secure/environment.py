"""The engine's own environment: made once by pip in the user's cache directory, used as a child process only.

`spu` is a wheel for Python 3.11 on Linux that asks for NumPy 1 and takes a gigabyte with what it needs. dpcube keeps
its own NumPy, and what the engine brings is never imported beside budgets.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from dpcube.caches import cache_folder
from dpcube.errors import InputError, LinkageError

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
    """Return the Python of the engine's environment, or say how to make one."""
    if chosen := environment.get(ENGINE_SWITCH):
        return Path(chosen)
    folder = engine_folder(environment)
    if not (folder / _READY).exists():
        msg = f"the engine of secure comparisons is not installed in {folder}; dpcube link --install-engine does it"
        raise InputError(msg)
    return folder / "bin" / "python"


def engine_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the engine is installed."""
    place = cache_folder(environment)
    if place is None:
        msg = f"there is no cache directory to install the engine in; set {ENGINE_SWITCH} to a Python that has spu"
        raise InputError(msg)
    return place / f"engine-{REQUIREMENTS[-2].replace('==', '-')}"


def install_engine(folder: Path | None = None) -> Path:
    """Make the engine's environment, unless it is there, and return its Python. Half of one is made anew."""
    folder = engine_folder() if folder is None else folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run(_python_3_11(), "-m", "venv", str(folder))
            options = ("--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps")
            _run(str(folder / "bin" / "python"), "-m", "pip", "install", *options, *REQUIREMENTS)
            _run(str(folder / "bin" / "python"), "-I", "-c", "import jax, spu")
            (folder / _READY).touch()
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
