"""What one hostile input may cost: processor time and memory, measured around it."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numba.core.event import install_timer

SELF = Path("/proc/self")
SECONDS = 5.0
MEBIBYTES = 300


@contextmanager
def bounded(*, seconds: float = SECONDS, mebibytes: int = MEBIBYTES) -> Iterator[None]:
    """Assert that what is done inside takes no more processor time, and adds no more to the memory in use at its peak.

    The kernel keeps the peak of what is resident, and forgets it when told to; what is there already is not charged.
    Nor is the tracing of coverage, which takes longer than what it traces, nor the compiling of a loop, once for each
    kind of array.
    """
    (SELF / "clear_refs").write_text("5")
    tracing = sys.gettrace()
    sys.settrace(None)
    compiling: list[float] = []
    before, began = _resident("VmRSS"), time.process_time()
    try:
        with install_timer("numba:compile", compiling.append):
            yield
    finally:
        took, grown = time.process_time() - began - sum(compiling), _resident("VmHWM") - before
        sys.settrace(tracing)
    assert took <= seconds, f"took {took:.1f} s of processor time; {seconds} are allowed"
    assert grown <= mebibytes * 2**20, f"took {grown / 2**20:.0f} MiB more at its peak; {mebibytes} are allowed"


def _resident(kind: str) -> int:
    lines = (SELF / "status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))
