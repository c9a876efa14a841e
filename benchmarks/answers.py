"""How fast a hundred thousand range queries are, beside one NumPy fancy-indexing pass over the same corners."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.release import counts_of
from benchmarks.timing import seconds
from dpcube import evaluate
from dpcube.testing import SeededNoise

SHAPE = (1024, 1024)
QUERIES = 100_000
MOST_OVER_INDEXING = 20
MOST_OVER_VALUES = 5


def run() -> list[str]:
    """Measure answers and the indexing they cannot do without."""
    return [line for strategy in ("adaptive", "dpcube", "cells") for line in _run(strategy)]


def _run(strategy: str) -> list[str]:
    release = evaluate.experiment(counts_of(SHAPE), epsilon=1, strategy=strategy, noise=SeededNoise(1))
    workload = evaluate.random_ranges(SHAPE, QUERIES, seed=2)
    estimate, boxes = release.estimate(), release.transcript.boxes
    parts = release.domain.size if boxes is None else len(boxes.tree.leaves)
    table = np.pad(release.cells().cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    (top, left), (bottom, right) = workload.lower.T, workload.upper.T

    def index() -> NDArray[np.float64]:
        values: NDArray[np.float64] = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
        return values

    assert np.allclose(index(), estimate.values(workload))
    indexing = seconds(index)
    values = seconds(lambda: estimate.values(workload))
    release.answer(workload)  # finds what its errors are made of, once
    errors = seconds(lambda: release.answer(workload))
    return [
        f"{QUERIES:,} random ranges on a {SHAPE[0]} x {SHAPE[1]} cube of {parts:,} boxes, {strategy}",
        f"numpy fancy indexing of the corners   {indexing * 1e3:8.1f} ms",
        f"values                                {values * 1e3:8.1f} ms = {values / indexing:.1f}x "
        f"(target: at most {MOST_OVER_INDEXING})",
        f"values and errors                     {errors * 1e3:8.1f} ms = {errors / values:.1f}x the values "
        f"(target: at most {MOST_OVER_VALUES})",
    ]


if __name__ == "__main__":
    print("\n".join(run()))
