"""How much memory there is, so that a job too large for it is refused before anything is spent."""

from pathlib import Path

from dpcube.errors import MemoryLimitError


def available_bytes() -> int | None:
    """Return the memory that can still be used, by the machine's or the container's account; None if unknown."""
    limits = [_meminfo(), _control_group()]
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(needed: int, *, what: str, remedy: str) -> None:
    """Raise MemoryLimitError when `needed` bytes are not there."""
    available = available_bytes()
    if available is not None and needed > available:
        msg = f"{what} needs about {in_words(needed)} of memory and {in_words(available)} is free; {remedy}"
        raise MemoryLimitError(msg)


def in_words(count: int) -> str:
    """Return a number of bytes as `3.2 GB`."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB" if amount < 1000 else f"{amount:,.0f} TB"


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _control_group() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        # Cached files count as used, and make way when memory is asked for.
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    cached = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return max(int(limit) - used + cached, 0) if limit.isdigit() else None
