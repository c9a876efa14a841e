"""Time and memory of a release with counts given, `dpcube` and `adaptive`, on cubes of several sizes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.timing import seconds
from dpcube import Domain
from dpcube.core.arrays import Ints
from dpcube.curator import publish

SHAPES = {
    "128 x 128": (128, 128),
    "1024 x 1024": (1024, 1024),
    "6 attributes, 10^6 cells": (10, 10, 10, 10, 10, 10),
    "6 attributes, 10^7 cells": (15, 15, 15, 15, 14, 14),
}
ADAPTIVE_SHAPES = ("128 x 128", "1024 x 1024")
EPSILON = "0.1"
MAX_OVER_NOISE = 60
MAX_GROWTH = 1.5


def run() -> Iterator[str]:
    """Measure each cube in a process of its own, so that peak memory is that cube's."""
    yield f"dpcube release from counts, epsilon {EPSILON}, warm"
    measured = {}
    for name, shape in SHAPES.items():
        result = measured[name] = _measure("dpcube", shape)
        yield f"{_line(name, result)}  {result['boxes']:9,} boxes  {_over_noise(result):5.1f}x one numpy noise pass"
    over_noise = _over_noise(measured["1024 x 1024"])
    yield f"1024 x 1024 takes {over_noise:.1f}x one numpy float-noise pass (target: at most {MAX_OVER_NOISE})"
    small, large = measured["6 attributes, 10^6 cells"], measured["6 attributes, 10^7 cells"]
    growth = (large["seconds"] / large["cells"]) / (small["seconds"] / small["cells"])
    yield f"time per cell grows {growth:.2f}x from 10^6 to 10^7 cells (target: at most {MAX_GROWTH})"
    yield f"adaptive release from counts and its estimated cells, epsilon {EPSILON}, warm"
    for name in ADAPTIVE_SHAPES:
        yield _line(name, _measure("adaptive", SHAPES[name]))


def _line(name: str, result: dict[str, float]) -> str:
    per_cell = result["seconds"] / result["cells"] * 1e9
    memory = f"{result['bytes_a_cell']:5.0f} bytes a cell at peak"
    return f"{name:26} {result['seconds']:8.3f} s  {per_cell:6.0f} ns a cell  {memory}"


def _over_noise(result: dict[str, float]) -> float:
    return result["seconds"] / result["noise_seconds"]


def _measure(strategy: str, shape: tuple[int, ...]) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npy"
        np.save(path, counts_of(shape))
        command = [sys.executable, "-m", "benchmarks.release", strategy, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def counts_of(shape: tuple[int, ...]) -> Ints:
    """Return counts with dense clusters on an empty ground: 20 rows a cell on average."""
    generator = np.random.default_rng(1)
    grid = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij", sparse=True)
    density = np.zeros(shape)
    for _ in range(8):
        centre, width = generator.uniform(-0.8, 0.8, len(shape)), generator.uniform(0.05, 0.3)
        density += np.exp(-sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True)) / (2 * width**2))
    counts: Ints = generator.poisson(density * (20 * density.size / density.sum()))
    return counts


def peak_bytes() -> int:
    """Return the most memory this process has held; getrusage would count what its parent held before the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def _measure_here(strategy: str, path: Path) -> dict[str, float]:
    counts: Ints = np.load(path)

    def released(exact: Ints) -> int:
        """Release counts, estimate all cells if the strategy is `adaptive`, and return the number of boxes."""
        domain = Domain.of_shape(exact.shape)
        release = publish(exact, domain, epsilon=EPSILON, ledger=None, strategy=strategy, even_if_empty=True)
        if strategy == "adaptive":
            release.cells()
        boxes = release.transcript.boxes
        return 0 if boxes is None else len(boxes.tree.leaves)

    released(counts[(slice(2),) * counts.ndim])  # compiles
    before = peak_bytes()
    boxes = released(counts)
    peak, generator = peak_bytes() - before, np.random.default_rng()
    return {
        "cells": counts.size,
        "boxes": boxes,
        "seconds": seconds(lambda: released(counts), repeats=5 if counts.size < 5e6 else 3),
        "noise_seconds": seconds(lambda: counts + generator.laplace(scale=10.0, size=counts.shape)),
        "bytes_a_cell": peak / counts.size,
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_measure_here(sys.argv[1], Path(sys.argv[2]))))
    else:
        for line in run():
            print(line, flush=True)
