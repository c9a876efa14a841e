"""Algorithm 3 on the paper's running example and the weights examples, from `golden.json`."""

import re
from typing import Literal, cast

import numpy as np
import pytest
from golden_file import GOLDEN, agrees

from dpcube.core.boxes import Partitioning
from dpcube.trees.growth import Weight, grow, weighted_variance

EXAMPLE = GOLDEN["example_3x3"]
CUBE = np.array(EXAMPLE["x"], dtype=np.int64).reshape(3, 3)
ROWS = list(EXAMPLE["alg3_on_exact_cube"])


def test_all_24_rows_are_here() -> None:
    assert len(ROWS) == 24


@pytest.mark.parametrize("setting", ROWS)
def test_partition_of_the_running_example(setting: str) -> None:
    matched = re.fullmatch(r"(\w+)\|(\w+)\|xi0=([\d.]+)", setting)
    assert matched is not None
    rule, weight = cast(Literal["best", "longest"], matched[1]), cast(Weight, matched[2])
    tree = grow(CUBE, threshold=float(matched[3]), rule=rule, weight=weight)
    labels = tree.partitioning().labels.reshape(-1)
    assert [(np.flatnonzero(labels == box) + 1).tolist() for box in range(len(tree.leaves))] == (
        EXAMPLE["alg3_on_exact_cube"][setting]
    )


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


def test_costs_of_every_split_of_the_weights_example() -> None:
    example = GOLDEN["v_optimal"]["weights_differ_example"]
    counts = np.array(example["data"], dtype=np.int64)
    weights: tuple[Weight, ...] = ("cells", "records")
    costs = [[weighted_variance(counts, halves(4, k), weight=weight) for weight in weights] for k in (1, 2, 3)]
    assert agrees(costs, example["costs_cells_records"])


def test_costs_of_the_v_optimal_example() -> None:
    frequencies = np.array([2, 4, 5, 2, 1, 4, 3, 2])
    golden = GOLDEN["v_optimal"]["poosala_check_freq_[2,4,5,2,1,4,3,2]"]
    for after in (4, 2):
        assert agrees(weighted_variance(frequencies, halves(8, after)), golden[f"split_after_{after}"])


@pytest.mark.parametrize("cells", [4, 16, 64])
def test_variance_that_noise_alone_shows(cells: int) -> None:
    """Its mean and deviation are where growth stops: slack = 1 splits a box just above them, not one just below."""
    golden = GOLDEN["v_optimal"][f"pop_variance_of_{cells}_pure_noise_cells_alpha1_.05"]
    others = cells - 1
    assert agrees(800 * others / cells, golden["mean"])
    assert agrees(800 * np.sqrt((6 * others**2 - others * (cells - 3)) / cells**3), golden["sd"])
    # Half of the cells at +x and half at -x have population variance x^2.
    for slack, variance in ((0.0, golden["mean"]), (1.0, golden["mean"] + golden["sd"])):
        for nudge, boxes in ((1 - 1e-4, 1), (1 + 1e-4, 2)):
            x = round(1e6 * np.sqrt(variance * nudge))
            counts = np.where(np.arange(cells) < cells // 2, x, -x)
            tree = grow(counts, threshold=0, noise_variance=800e12, slack=slack, max_boxes=2)
            assert len(tree.leaves) == boxes


def test_variances_of_the_running_example() -> None:
    golden = EXAMPLE["variances"]
    parts = {"all9": CUBE, "x1x2": CUBE[0, :2], "x4x7": CUBE[1:, 0], "col_age20_30": CUBE[:, 0], "row_gt20K": CUBE[0]}
    assert set(parts) == set(golden)
    for name, part in parts.items():
        counts = np.ascontiguousarray(part)
        whole = grow(counts, threshold=1000).partitioning()
        assert agrees(weighted_variance(counts, whole) / counts.size, golden[name]), name
