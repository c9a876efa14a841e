"""How long a `dpcube` release takes with counts given: time, memory and time per cell, on cubes of several sizes."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import seconds
from dpcube import Domain
from dpcube.curator import publish

SHAPES = {
    "128 x 128": (128, 128),
    "1024 x 1024": (1024, 1024),
    "6 attributes, 10^6 cells": (10, 10, 10, 10, 10, 10),
    "6 attributes, 10^7 cells": (15, 15, 15, 15, 14, 14),
}
EPSILON = "0.1"
MOST_OVER_NOISE = 60
MOST_GROWTH = 1.5


def run() -> list[str]:
    """Measure each cube in a process of its own, so that peak memory is that cube's."""
    lines = [f"dpcube release from counts, epsilon {EPSILON}, warm"]
    measured = {name: _measure(shape) for name, shape in SHAPES.items()}
    for name, result in measured.items():
        per_cell = result["seconds"] / result["cells"] * 1e9
        lines.append(
            f"{name:26} {result['seconds']:8.3f} s  {per_cell:6.0f} ns a cell  {result['bytes_a_cell']:5.0f} bytes a "
            f"cell at peak  {result['boxes']:9,} boxes  {result['seconds'] / result['noise_seconds']:5.1f}x one numpy "
            "noise pass"
        )
    square = measured["1024 x 1024"]
    small, large = measured["6 attributes, 10^6 cells"], measured["6 attributes, 10^7 cells"]
    growth = (large["seconds"] / large["cells"]) / (small["seconds"] / small["cells"])
    over_noise = square["seconds"] / square["noise_seconds"]
    lines.append(f"1024 x 1024 takes {over_noise:.1f}x one numpy float-noise pass (target: at most {MOST_OVER_NOISE})")
    lines.append(f"time per cell grows {growth:.2f}x from 10^6 to 10^7 cells (target: at most {MOST_GROWTH})")
    return lines


def _measure(shape: tuple[int, ...]) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npy"
        np.save(path, counts_of(shape))
        command = [sys.executable, "-m", "benchmarks.release", str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def counts_of(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return counts with dense clusters on an empty ground: 20 rows a cell on average."""
    generator = np.random.default_rng(1)
    grid = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij", sparse=True)
    density = np.zeros(shape)
    for _ in range(8):
        centre, width = generator.uniform(-0.8, 0.8, len(shape)), generator.uniform(0.05, 0.3)
        density += np.exp(-sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True)) / (2 * width**2))
    counts: NDArray[np.int64] = generator.poisson(density * (20 * density.size / density.sum()))
    return counts


def peak_bytes() -> int:
    """Return the most memory this process has held; getrusage would count what its parent held before the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def _measure_here(path: Path) -> dict[str, float]:
    counts: NDArray[np.int64] = np.load(path)
    shape, domain = counts.shape, Domain.of_shape(counts.shape)
    publish(
        np.zeros((2,) * len(shape), np.int64),
        Domain.of_shape((2,) * len(shape)),
        epsilon=EPSILON,
        ledger=None,
        strategy="dpcube",
    )  # compiles
    before = peak_bytes()
    release = publish(counts, domain, epsilon=EPSILON, ledger=None, strategy="dpcube")
    peak = peak_bytes() - before
    boxes = release.transcript.boxes
    assert boxes is not None
    generator = np.random.default_rng()
    repeats = 5 if counts.size < 5e6 else 3
    return {
        "cells": counts.size,
        "boxes": len(boxes.tree.leaves),
        "seconds": seconds(
            lambda: publish(counts, domain, epsilon=EPSILON, ledger=None, strategy="dpcube"), repeats=repeats
        ),
        "noise_seconds": seconds(lambda: counts + generator.laplace(scale=10.0, size=shape)),
        "bytes_a_cell": peak / counts.size,
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_measure_here(Path(sys.argv[1]))))
    else:
        print("\n".join(run()))
