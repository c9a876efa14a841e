"""Available memory, so that a job too large for it is refused before anything is spent.

The least of what the machine has free, what each control group that this process is in allows (a container's, of either
version, and those around it), and what the process's own limits (`ulimit -v`, `ulimit -d`) leave it.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dpcube.core.errors import MemoryLimitError

LEAST_FOR_DUCKDB = 64 * 2**20


class _Files(NamedTuple):
    """Where a version of control groups is, and what it calls the limit, the use, and cached files in the use."""

    place: str
    limit: str
    used: str
    cached: str


_CONTROL_GROUPS = (
    _Files("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    _Files("sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file"),
    _Files("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


# Version 1 has no word for "no limit": it shows the largest number of whole pages. No machine has so much.
_NO_LIMIT = 2**60


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the free memory by the least of all limits; None if unknown. `root` is for tests."""
    limits = [*_meminfo(root), *_control_groups(root), *_own_limits(root)]
    return max(min(limits), 0) if limits else None


def check_memory(needed: int, *, what: str, remedy: str) -> None:
    """Raise MemoryLimitError if fewer than `needed` bytes are available."""
    available = available_bytes()
    if available is not None and needed > available:
        msg = f"{what} needs about {in_words(needed)} of memory and {in_words(available)} is free; {remedy}"
        raise MemoryLimitError(msg)


def half_of_free() -> str:
    """Return half of the free memory as DuckDB's `memory_limit`; beyond it DuckDB spills to files.

    Its default is 80% of the machine's memory, whatever else is in use.
    """
    free = available_bytes()
    return "40%" if free is None else f"{max(free // 2, LEAST_FOR_DUCKDB) // 2**20}MiB"


def in_words(count: int) -> str:
    """Return a number of bytes as `3.2 GB`."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 999.5:  # from here on, three digits would be written as 1e+03
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB" if amount < 999.5 else f"{amount:,.0f} TB"


def _meminfo(root: Path) -> Iterator[int]:
    if (free := _number(f"{root}/proc/meminfo", "MemAvailable:")) is not None:
        yield free * 1024


def _control_groups(root: Path) -> Iterator[int]:
    """Yield what is left in each group that this process is in, and in those around it, where there is a limit.

    A container may see its own group as the top one, under a name that leads nowhere: the groups that are there count.
    """
    own = {PurePosixPath("/")}
    for line in _lines(f"{root}/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            own |= {PurePosixPath(path), *PurePosixPath(path).parents}
    for files in _CONTROL_GROUPS:
        for group in own:
            at = f"{root}/{files.place}/{str(group).lstrip('/')}"
            limit = _first(f"{at}/{files.limit}")
            if limit is not None and limit < _NO_LIMIT and (used := _first(f"{at}/{files.used}")) is not None:
                # Cached files count as used, and make way when memory is asked for.
                yield limit - used + (_number(f"{at}/memory.stat", files.cached) or 0)


def _own_limits(root: Path) -> Iterator[int]:
    """Yield what the limits of this process leave of its address space and of its data."""
    try:
        import resource
    except ImportError:  # there are none on Windows
        return
    for kind, name in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY:
            yield limit - (_number(f"{root}/proc/self/status", name) or 0) * 1024


def _first(path: str) -> int | None:
    """Return the one number in a file of the kernel; None if there is no such file, or another word in it."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _number(path: str, name: str) -> int | None:
    """Return the number after a name in a file of the kernel; None if there is no such file or name."""
    for line in _lines(path):
        words = line.split() if line.startswith(name) else []
        if words[:1] == [name] and words[1:] and words[1].isdigit():
            return int(words[1])
    return None


def _lines(path: str) -> list[str]:
    """Return the lines of a file of the kernel; none if there is no such file."""
    # Names are plain text here, and files are opened plainly: a small release waits for a dozen of them.
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return file.read().splitlines()
    except OSError:
        return []
