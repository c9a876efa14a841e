"""How long an adaptive release takes from counts to estimated cells, beside a laboratory sketch of the same method.

The sketch is not part of this repository: its path is the argument, or the environment variable DPCUBE_SKETCH. Without
it only our own times are shown.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.release import counts_of, peak_bytes
from benchmarks.timing import in_turns
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise
from dpcube.models import estimate
from dpcube.strategies import Adaptive

SHAPES = {"128 x 128": (128, 128), "1024 x 1024": (1024, 1024)}
EPSILON = 0.1
LEAST_OVER_SKETCH = 8

Estimated = NDArray[np.float64]


def run(sketch: str | None = os.environ.get("DPCUBE_SKETCH")) -> list[str]:
    """Measure each cube in a process of its own, so that peak memory is that cube's."""
    path = None if sketch is None or not Path(sketch).is_file() else sketch
    lines = [f"adaptive release and its cells from counts, epsilon {EPSILON}, warm"]
    if path is None:
        lines.append("no sketch to compare with: give its path as the argument, or in DPCUBE_SKETCH")
    for name, shape in SHAPES.items():
        result = _measure(shape, path)
        line = f"{name:12} {result['seconds']:7.3f} s  {result['bytes_a_cell']:5.0f} bytes a cell at peak"
        if "sketch_seconds" in result:
            ratio = result["sketch_seconds"] / result["seconds"]
            line += f"  sketch {result['sketch_seconds']:7.3f} s = {ratio:.1f}x (target: at least {LEAST_OVER_SKETCH})"
        lines.append(line)
    return lines


def _measure(shape: tuple[int, ...], sketch: str | None) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npy"
        np.save(path, counts_of(shape))
        command = [sys.executable, "-m", "benchmarks.adaptive", "--here", str(path), *([sketch] if sketch else [])]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _released(counts: NDArray[np.int64]) -> Estimated:
    transcript = Adaptive().run(Gate(counts, Fraction(str(EPSILON)), noise=ExactNoise()))
    return estimate(transcript).cells()


def _sketch_of(path: str) -> Callable[[NDArray[np.int64]], Estimated]:
    spec = importlib.util.spec_from_file_location("sketch", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    generator = np.random.default_rng()
    return lambda counts: module.release(counts, EPSILON, generator)


def _measure_here(path: Path, sketch: str | None) -> dict[str, float]:
    counts: NDArray[np.int64] = np.load(path)
    _released(counts[:4, :4])  # compiles
    before = peak_bytes()
    _released(counts)
    measured = {"bytes_a_cell": (peak_bytes() - before) / counts.size}
    steps = [lambda: _released(counts)]
    if sketch is not None:
        released = _sketch_of(sketch)
        steps.append(lambda: released(counts))
    times = in_turns(*steps, repeats=5 if counts.size < 1e5 else 1)
    return measured | dict(zip(("seconds", "sketch_seconds"), times, strict=False))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(_measure_here(Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)))
    else:
        print("\n".join(run(*sys.argv[1:])))
