"""The researcher's tools: workloads of known law, errors by hand, and releases of arrays that a seed repeats."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpcube import Workload, evaluate
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DpcubeError, QueryError
from dpcube.core.noise import ExactNoise
from dpcube.strategies import Cells, TwoPhase
from dpcube.testing import SeededNoise, SilentNoise

ALARM = 1e-6
COUNTS: NDArray[np.int64] = np.arange(35).reshape(5, 7) ** 2 % 41


def ends_of(workload: Workload) -> NDArray[np.int64]:
    """The lowest and the highest cell of each range, axis after axis."""
    return np.stack([workload.lower, workload.upper - 1], axis=-1).reshape(len(workload), -1)


def chi_square(seen: dict[tuple[int, ...], int], law: dict[tuple[int, ...], float], drawn: int) -> float:
    assert math.isclose(sum(law.values()), 1)
    assert set(seen) <= set(law)
    return float(stats.chisquare([seen.get(key, 0) for key in law], [drawn * p for p in law.values()]).pvalue)


def law_of_ordered_ends(side: int) -> dict[tuple[int, ...], float]:
    """Two uniform ends put in order: a pair of different ends is twice as likely as a single cell."""
    pairs = itertools.combinations_with_replacement(range(side), 2)
    return {(low, high): (1 if low == high else 2) / side**2 for low, high in pairs}


@pytest.mark.parametrize("seed", range(3))
def test_random_ranges_have_uniform_ends_in_order(seed: int) -> None:
    drawn = 40_000
    workload = evaluate.random_ranges((6, 4), drawn, seed=seed)
    one, other = law_of_ordered_ends(6), law_of_ordered_ends(4)
    law = {a + b: p * q for a, p in one.items() for b, q in other.items()}  # the axes are independent
    keys, counts = np.unique(ends_of(workload), axis=0, return_counts=True)
    seen = dict(zip(map(tuple, keys.tolist()), counts.tolist(), strict=True))
    assert chi_square(seen, law, drawn) > ALARM


def test_the_check_of_ranges_rejects_other_laws() -> None:
    """Uniform over ranges, and one end after the other, are near misses."""
    generator, law, drawn = np.random.default_rng(0), law_of_ordered_ends(6), 40_000
    uniform = generator.choice(len(law), drawn)
    assert chi_square({key: int((uniform == k).sum()) for k, key in enumerate(law)}, law, drawn) < ALARM
    low = generator.integers(0, 6, drawn)
    high = generator.integers(low, 6)
    seen = {key: int(((low == key[0]) & (high == key[1])).sum()) for key in law}
    assert chi_square(seen, law, drawn) < ALARM


@pytest.mark.parametrize("shape", [(1,), (9,), (3, 5), (4, 1, 6), (2, 3, 2, 4)])
def test_random_ranges_lie_inside_and_reach_every_edge(shape: tuple[int, ...]) -> None:
    workload = evaluate.random_ranges(shape, 3000, seed=5)
    assert workload.shape == shape
    assert len(workload) == 3000
    assert (workload.lower.min(axis=0) == 0).all()
    assert (workload.upper.max(axis=0) == shape).all()
    assert (workload.lower < workload.upper).all()


@pytest.mark.parametrize(
    "make", [evaluate.random_ranges, lambda *a, seed: evaluate.ranges_of_size(*a, cells=9, seed=seed)]
)
def test_workloads_are_repeated_by_their_seed(make: Callable[..., Workload]) -> None:
    one, again, other = (make((20, 30), 50, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.lower, again.lower)
    np.testing.assert_array_equal(one.upper, again.upper)
    assert (one.lower != other.lower).any()


SIZES = [
    ((1000,), 1),
    ((1000,), 37),
    ((1000,), 1000),
    ((64, 64), 1),
    ((64, 64), 100),
    ((64, 64), 4096),
    ((8, 500), 300),
    ((500, 8), 3000),
    ((16, 16, 16), 512),
    ((2, 50, 50), 2500),
    ((2, 2, 2, 2), 16),
]


@pytest.mark.parametrize(("shape", "cells"), SIZES)
def test_ranges_of_a_size_have_about_that_size(shape: tuple[int, ...], cells: int) -> None:
    workload = evaluate.ranges_of_size(shape, 2000, cells=cells, seed=3)
    assert len(workload) == 2000
    assert (workload.lower >= 0).all()
    assert (workload.upper <= shape).all()
    # Sides are whole, so the last one is off by at most a half: a factor of 3/2 either way if it is 1.
    assert workload.sizes.min() >= cells / 2
    assert workload.sizes.max() <= 2 * cells
    assert np.median(workload.sizes) == pytest.approx(cells, rel=0.15)


@pytest.mark.parametrize(("shape", "cells"), [((40,), 7), ((30, 40), 60)])
def test_ranges_of_a_size_are_placed_everywhere(shape: tuple[int, ...], cells: int) -> None:
    """Given its side, a range starts anywhere it fits with equal chance."""
    drawn = 20_000
    workload = evaluate.ranges_of_size(shape, drawn, cells=cells, seed=3)
    for axis, limit in enumerate(shape):
        sides = workload.upper[:, axis] - workload.lower[:, axis]
        side = int(np.bincount(sides).argmax())
        starts = workload.lower[sides == side, axis]
        assert stats.chisquare(np.bincount(starts, minlength=limit - side + 1)).pvalue > ALARM


def test_ranges_of_a_size_have_different_shapes() -> None:
    workload = evaluate.ranges_of_size((100, 100), 500, cells=400, seed=3)
    sides = workload.upper - workload.lower
    assert len(np.unique(sides[:, 0])) > 10
    assert sides[:, 0].min() >= 10
    assert sides[:, 0].max() <= 40


@pytest.mark.parametrize("cells", [0, -3, 36, 10**9])
def test_a_size_that_no_range_has_is_refused(cells: int) -> None:
    with pytest.raises(QueryError, match="1 to 35 cells"):
        evaluate.ranges_of_size((5, 7), 3, cells=cells, seed=0)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 2, 3)])
def test_prefixes_are_all_ranges_from_the_origin(shape: tuple[int, ...]) -> None:
    workload = evaluate.prefixes(shape)
    assert len(workload) == math.prod(shape)
    assert not workload.lower.any()
    assert [tuple(upper) for upper in workload.upper.tolist()] == [
        tuple(i + 1 for i in last) for last in np.ndindex(shape)
    ]


@pytest.mark.parametrize("shape", [(11,), (5, 7), (3, 4, 2), (2, 3, 2, 2)])
def test_exact_answers_are_sums_of_cells(shape: tuple[int, ...]) -> None:
    counts = np.random.default_rng(1).integers(0, 10**6, shape)
    workload = evaluate.random_ranges(shape, 60, seed=2)
    direct = [
        counts[tuple(map(slice, low, high))].sum() for low, high in zip(workload.lower, workload.upper, strict=True)
    ]
    assert evaluate.exact_answers(counts, workload).tolist() == direct
    assert (workload.matrix() @ counts.reshape(-1)).tolist() == direct


def test_exact_answers_of_large_counts_are_exact() -> None:
    counts = np.array([2**52, 1, 2**51, 3])
    assert evaluate.exact_answers(counts, evaluate.prefixes((4,))).tolist() == np.cumsum(counts).tolist()


def test_errors_by_hand() -> None:
    exact, estimated = np.array([[10, 0], [5, 25]]), np.array([[7, 0], [6, 29.0]])
    workload = Workload((2, 2), np.array([[0, 0], [0, 0], [1, 1]]), np.array([[2, 2], [1, 2], [2, 2]]))
    got = evaluate.errors(exact, estimated, workload)  # off by +2, -3 and +4; there are 40 rows
    assert got.mean_abs == pytest.approx(3)
    assert got.rms == pytest.approx(math.sqrt(29 / 3))
    assert got.largest == pytest.approx(4)
    assert got.scaled_l2 == pytest.approx(math.sqrt(29) / (3 * 40))


def test_errors_of_the_truth_are_zero_and_an_empty_table_has_errors_too() -> None:
    workload = evaluate.random_ranges((5, 7), 30, seed=0)
    assert evaluate.errors(COUNTS, COUNTS, workload) == evaluate.Errors(0, 0, 0, 0)
    nothing = np.zeros((5, 7))
    assert evaluate.errors(nothing, nothing + 1, workload).largest == workload.sizes.max()


@pytest.mark.parametrize("strategy", ["cells", "dpcube", TwoPhase(share=Fraction(1, 3), rule="longest")])
def test_a_seed_repeats_a_release_and_another_does_not(strategy: str | TwoPhase) -> None:
    one, again, other = (
        evaluate.release_array(COUNTS, epsilon="0.5", strategy=strategy, seed=seed) for seed in (7, 7, 8)
    )
    assert one.tobytes() == again.tobytes()
    assert one.shape == COUNTS.shape
    assert (one != other).any()


def test_two_seeds_share_no_noise() -> None:
    first, second = (
        evaluate.release_array(np.zeros(4000), epsilon="0.1", strategy="cells", seed=seed) for seed in (1, 2)
    )
    assert np.mean(first == second) < 0.2
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


@pytest.mark.parametrize("noise", [SeededNoise(1), SilentNoise(), ExactNoise()])
def test_what_is_made_here_is_stamped_not_private(noise: SeededNoise | SilentNoise | ExactNoise) -> None:
    release = evaluate.experiment(COUNTS, epsilon=1, noise=noise)
    assert not release.provenance.private
    assert "NOT PRIVATE" in repr(release)


def test_silent_noise_gives_the_truth() -> None:
    release = evaluate.experiment(
        COUNTS, epsilon=1, strategy=TwoPhase(noise_corrected=False, slack=0), noise=SilentNoise()
    )
    np.testing.assert_allclose(release.cells("least_squares"), COUNTS, atol=1e-9)
    np.testing.assert_array_equal(release.cells("cells"), COUNTS)


def test_estimates_of_an_array_are_those_of_its_release() -> None:
    release = evaluate.experiment(COUNTS, epsilon="0.5", noise=SeededNoise(4))
    for name in ("auto", *release.estimates):
        got = evaluate.release_array(COUNTS, epsilon="0.5", seed=4, estimate=name)
        assert got.tobytes() == release.cells(name).tobytes()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1)])
def test_seeded_noise_has_the_right_scale(epsilon: Fraction) -> None:
    """Mean size and mean square of 120,000 values, at this seed; the law itself is tested elsewhere for real noise."""
    release = evaluate.experiment(np.zeros((400, 300)), epsilon=epsilon, strategy=Cells(), noise=SeededNoise(11))
    assert release.transcript.epsilon_per_unit == epsilon / BUDGET_UNITS
    assert np.abs(release.cells()).mean() == pytest.approx(1 / math.sinh(float(epsilon)), rel=0.015)
    assert (release.cells() ** 2).mean() == pytest.approx(0.5 / math.sinh(float(epsilon) / 2) ** 2, rel=0.03)


@pytest.mark.parametrize("counts", [[[1, -1]], [[0.5]], [["a"]], [[np.nan]], np.zeros((2, 0)), np.array(3)], ids=repr)
def test_what_is_no_array_of_counts_is_refused(counts: object) -> None:
    with pytest.raises(DpcubeError):
        evaluate.release_array(counts, epsilon=1, seed=0)  # type: ignore[arg-type]
