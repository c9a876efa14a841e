"""How long `dpcube --help` takes to start, beside a bare interpreter."""

import subprocess
import sys
from pathlib import Path

from benchmarks.timing import seconds

MOST_OVER_BARE = 15


def run() -> list[str]:
    """Measure both commands."""
    command = str(Path(sys.executable).with_name("dpcube"))
    bare = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), repeats=15)
    helped = seconds(lambda: subprocess.run([command, "--help"], check=True, capture_output=True), repeats=15)
    return [
        f"bare interpreter {bare * 1e3:.0f} ms, dpcube --help {helped * 1e3:.0f} ms = {helped / bare:.1f}x "
        f"(target: at most {MOST_OVER_BARE})"
    ]


if __name__ == "__main__":
    print("\n".join(run()))
