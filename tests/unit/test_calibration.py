"""The excess of a posterior's errors: nothing to find where all is as stated, found where it is not."""

import numpy as np
import pytest

from dpcube.core.arrays import Floats
from dpcube.models.errors.parts import fixed_normals
from dpcube.models.least_squares_tree import linear_totals
from dpcube.models.posterior.calibration import measured_calibration
from dpcube.queries.workload_model import WorkloadModel
from dpcube.trees.halving import halve
from dpcube.trees.tree import BoxTree

ONES = np.ones(400)


def halved(shape: tuple[int, ...], cuts: int) -> BoxTree:
    order = WorkloadModel(shape, ("ranges",) * len(shape)).cut_order()
    return halve(BoxTree.uncut(shape), np.zeros(1, np.int64), cuts, order).tree


def test_probes_look_normal_and_unrelated() -> None:
    first, second = fixed_normals(100_000, 1), fixed_normals(100_000, 2)
    assert abs(first.mean()) < 0.02
    assert first.std() == pytest.approx(1, abs=0.02)
    assert np.mean(np.abs(first) > 1.96) == pytest.approx(0.05, abs=0.005)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.02


def test_linear_totals_are_those_of_least_squares() -> None:
    """The oracle solves the whole least-squares problem, with the query matrix of the measured nodes."""
    tree, generator = halved((5, 3), 3), np.random.default_rng(3)
    measured = generator.normal(20, 9, len(tree))
    variance = generator.uniform(1, 5, len(tree))
    variance[(np.arange(len(tree)) % 3 == 1) & ~tree.is_leaf] = np.inf
    below = np.zeros((len(tree), len(tree.leaves)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        node = leaf
        while node >= 0:
            below[node, column] = 1
            node = int(tree.parent[node])
    there = np.isfinite(variance)
    weigh = 1 / np.sqrt(variance[there])
    leaves = np.linalg.lstsq(below[there] * weigh[:, None], measured[there] * weigh, rcond=None)[0]
    np.testing.assert_allclose(linear_totals(tree, measured, variance), below @ leaves)


def measured_excess(counts: Floats, shrink: float, stated: Floats) -> float:
    """The excess of an estimate that shrinks each count towards 10, whatever the truth, and states a variance."""
    noise = np.stack([2 * fixed_normals(len(counts), number) for number in range(8)], axis=1)
    return measured_calibration(
        (1 - shrink) * (counts - 10),
        linear_moves=noise,
        moves=shrink * noise,
        stated=stated,
        measurement_only=4 * ONES,
    )


@pytest.mark.parametrize(("truth", "error"), [(10.0, 0.25 * 4), (25.0, 0.25 * 4 + 0.25 * 225)])
def test_the_excess_is_the_true_squared_error_less_the_stated(truth: float, error: float) -> None:
    """Stating 1, the noise that is left after shrinking by half, is right if the truth is 10 and wrong if it is 25."""
    counts = truth + 2 * fixed_normals(400, 99)
    found = measured_excess(counts, 0.5, ONES)
    spread = 4 * np.sqrt(2 / 400)  # of the mean of 400 squares of noise
    assert found * 4 == pytest.approx(error - 1, abs=6 * spread)


def test_an_estimate_that_states_too_much_has_no_excess() -> None:
    found = measured_excess(10 + 2 * fixed_normals(400, 99), 0.5, 50 * ONES)
    assert found == 0


def test_without_noise_there_is_nothing_to_tell() -> None:
    still, moves = np.zeros(400), np.zeros((400, 8))
    found = measured_calibration(still, linear_moves=moves, moves=moves, stated=still, measurement_only=still)
    assert found == 0
