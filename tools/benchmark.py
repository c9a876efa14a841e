"""Write docs/research/benchmark.md from the comparisons recorded in docs/compare, and record them.

.venv/bin/python tools/benchmark.py            # the page, from what is recorded
.venv/bin/python tools/benchmark.py NAME...    # run and record these first, each by the command that the page shows
"""

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recorded import Records, write_line

from dpcube.research.comparison.page import RecordedComparison, benchmark_page

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "docs" / "research" / "compare"
HOW_IT_WAS_MADE = RECORDED / "recorded.json"
FIVE, THREE = (f"--draws {draws} --questions 500 --time-limit 120" for draws in (5, 3))
RUNS = {
    "adult": ("The bundled table, 5 attributes", FIVE),
    "shapes-1d": ("Shapes in one dimension, 256 cells", f"--shapes all --sides 256 {THREE}"),
    "shapes-2d": ("Shapes in two dimensions, 64 x 64 cells", f"--shapes all --sides 64x64 {FIVE}"),
    "shapes-3d": ("Shapes in three dimensions, 16 x 16 x 16 cells", f"--shapes all --sides 16x16x16 {THREE}"),
    "shapes-4d": ("Shapes in four dimensions, 4,096 cells", f"--shapes all --sides 8x8x8x8 {THREE}"),
    "shapes-5d": ("Shapes in five dimensions, 4,096 cells", f"--shapes all --sides 8x8x4x4x4 {THREE}"),
    "shapes-6d": ("Shapes in six dimensions, 4,096 cells", f"--shapes all --sides 4x4x4x4x4x4 {THREE}"),
}
"""What can be recorded: the title, and the arguments of `dpcube compare`. Shapes have 100,000 rows."""
LIBRARIES = ("dpcube", "numpy", "numba", "scipy")


def machine_words() -> str:
    """Return the processor, its cores and the memory in words."""
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = models[0] if models else platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores shared with other work, {memory:.0f} GiB, {platform.system()}"


def version_words() -> str:
    """Return Python, the libraries that matter, and the commit in words."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=9", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    return f"Python {platform.python_version()}, {libraries}, commit {commit.stdout.strip()}"


def record(name: str) -> None:
    """Run one comparison and keep its rows and how they were made."""
    arguments = RUNS[name][1]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"{name}.csv"
        command = [sys.executable, "-m", "dpcube", "compare", *shlex.split(arguments), "--csv", str(made)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (RECORDED / made.name).write_bytes(made.read_bytes())
    known = how_it_was_made()
    known[name] = {
        "title": RUNS[name][0],
        "command": f"dpcube compare {arguments} --csv {name}.csv",
        "date": datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        "seconds": round(time.monotonic() - start),
        "machine": machine_words(),
        "versions": version_words(),
    }
    HOW_IT_WAS_MADE.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def how_it_was_made() -> dict[str, dict[str, str | float]]:
    """Return how each recorded run was made, by name."""
    if not HOW_IT_WAS_MADE.exists():
        return {}
    known: dict[str, dict[str, str | float]] = json.loads(HOW_IT_WAS_MADE.read_text(encoding="utf-8"))
    return known


def recorded() -> list[RecordedComparison]:
    """Return what is recorded, in the order of `RUNS`."""
    known = how_it_was_made()
    return [
        RecordedComparison(name, csv=(RECORDED / f"{name}.csv").read_text(encoding="utf-8"), **known[name])  # type: ignore[arg-type]
        for name in RUNS
        if name in known
    ]


def main() -> None:
    for name in sys.argv[1:]:
        record(name)
    (ROOT / "docs" / "research" / "benchmark.md").write_text(benchmark_page(recorded()), encoding="utf-8")
    write_line(Records.load(), "docs/research/benchmark.md")


if __name__ == "__main__":
    main()
