"""Distances of synthetic rows to the release and to the truth: by hand, and on the bundled table."""

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain, Release, Workload, datasets, evaluate
from dpcube.curator.publishing import count
from dpcube.testing import SeededNoise


def test_distances_by_hand() -> None:
    one, other = np.array([[2, 2], [4, 0]]), np.array([[1, 1], [1, 1]])
    whole = Workload((2, 2), np.array([[0, 0], [1, 0]]), np.array([[2, 2], [2, 2]]))
    got = evaluate.distances(one, other, Domain.of_shape((2, 2)), whole)
    assert got.marginals == {"axis0": 0, "axis1": pytest.approx(0.25)}  # 6/8 against 1/2
    assert got.pairs == {("axis0", "axis1"): pytest.approx(0.25)}  # 1/4, 1/4, 1/2, 0 against quarters
    assert got.ranges.mean_abs == pytest.approx(3)  # 8 for 4, and 4 for 2
    nothing = evaluate.distances(np.zeros((2, 2)), np.zeros((2, 2)), Domain.of_shape((2, 2)), whole)
    assert set(nothing.marginals.values()) == {0}


@pytest.mark.slow
def test_rows_of_the_bundled_table_add_little_to_the_error_of_the_release() -> None:
    domain = Domain.load(datasets.adult_domain())
    exact_counts = count(datasets.adult_table(), domain)
    workload = evaluate.random_ranges(domain.shape, 500, seed=0)
    made = evaluate.experiment(exact_counts, epsilon="0.5", noise=SeededNoise(3))
    release = Release(domain, made.transcript, made.provenance)
    quality = evaluate.synthetic_quality(release.synthesize(seed=1), release, exact_counts, workload)
    independent = np.random.default_rng(1).multinomial(48_842, (release.cells() / release.cells().sum()).reshape(-1))
    rival = evaluate.distances(independent.reshape(domain.shape), release.cells(), domain, workload)
    assert quality.to_release.ranges.mean_abs < rival.ranges.mean_abs / 2
    assert max(quality.to_release.pairs.values()) < max(rival.pairs.values())
    for name, seen in quality.to_truth.marginals.items():  # total variation is a metric
        assert abs(seen - quality.release_to_truth.marginals[name]) <= quality.to_release.marginals[name] + 1e-12
    assert quality.to_truth.ranges.mean_abs < 1.1 * quality.release_to_truth.ranges.mean_abs


def test_rows_of_something_else_are_far_from_the_release() -> None:
    counts = np.array([[50, 0], [10, 30]])
    release = evaluate.experiment(counts, epsilon=5, noise=SeededNoise(1))
    other = pa.table({"axis0": [0, 1] * 45, "axis1": [1, 0] * 45})
    workload = evaluate.prefixes((2, 2))
    quality = evaluate.synthetic_quality(other, release, counts, workload)
    assert quality.to_release.pairs["axis0", "axis1"] > 0.8
    assert quality.release_to_truth.pairs["axis0", "axis1"] < 0.1
