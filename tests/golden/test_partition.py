"""Algorithm 3 on the paper's running example and the weights examples, from `golden.json`."""

import json
import re
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest

from dpcube.domain.box import Partitioning
from dpcube.partition.growth import grow
from dpcube.partition.variance import Weight, weighted_variance

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
EXAMPLE = GOLDEN["example_3x3"]
CUBE = np.array(EXAMPLE["x"], dtype=np.int64).reshape(3, 3)
ROWS = list(EXAMPLE["alg3_on_exact_cube"].items())


def test_all_24_rows_are_here() -> None:
    assert len(ROWS) == 24


@pytest.mark.parametrize(("setting", "expected"), ROWS, ids=[setting for setting, _ in ROWS])
def test_partition_of_the_running_example(setting: str, expected: list[list[int]]) -> None:
    matched = re.fullmatch(r"(\w+)\|(\w+)\|xi0=([\d.]+)", setting)
    assert matched is not None
    rule, weight = cast(Literal["best", "longest"], matched[1]), cast(Weight, matched[2])
    tree = grow(CUBE, threshold=float(matched[3]), rule=rule, weight=weight)
    labels = tree.partitioning().labels.reshape(-1)
    assert [(np.flatnonzero(labels == box) + 1).tolist() for box in range(len(tree.leaves))] == expected


def halves(cells: int, after: int) -> Partitioning:
    return Partitioning((cells,), np.array([[0], [after]]), np.array([[after], [cells]]))


@pytest.mark.parametrize("after", range(1, 6))
def test_weighted_variance_of_both_weights(after: int) -> None:
    costs = GOLDEN["v_optimal"]["weights_example_[0,8,8,30,34,38]_split_after_k"][str(after)]
    counts = np.array([0, 8, 8, 30, 34, 38])
    weights: tuple[Weight, ...] = ("cells", "records")
    for weight in weights:
        assert weighted_variance(counts, halves(6, after), weight=weight) == pytest.approx(costs[weight], rel=1e-8)


def test_weighing_by_records_splits_elsewhere() -> None:
    example = GOLDEN["v_optimal"]["weights_differ_example"]
    counts = np.array(example["data"], dtype=np.int64)
    by_cells = grow(counts, threshold=0, max_boxes=2)
    by_records = grow(counts, threshold=0, max_boxes=2, weight="records")
    assert by_cells.upper[1, 0] == example["split_cells"]
    assert by_records.upper[1, 0] == example["split_records"]
    ratio = weighted_variance(counts, by_records.partitioning()) / weighted_variance(counts, by_cells.partitioning())
    assert ratio == pytest.approx(example["SSE_ratio"], rel=1e-8)


def test_variances_of_the_running_example() -> None:
    whole = grow(CUBE, threshold=1000).partitioning()
    assert weighted_variance(CUBE, whole) / 9 == pytest.approx(EXAMPLE["variances"]["all9"], abs=1e-6)
