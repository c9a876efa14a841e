"""Rivals in research code: they return the data without noise, and err as their formulas say with it."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpcube.core.arrays import Floats
from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.errors import InputError
from dpcube.models.metrics import exact_answers
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.queries.workload_model import WorkloadModel
from dpcube.research.rivals import dawa, hdpview, matrix_mechanism, mwem, privelet, privtree
from dpcube.research.rivals.matrix_mechanism import MatrixMechanism, along_axes
from dpcube.research.rivals.registry import LISTED, rival_of
from dpcube.research.rivals.rival import NOT_PRIVATE, PURE, Rival
from dpcube.research.strategies.hilbert import hilbert_cells
from dpcube.strategies import BY_NAME, RIVALS
from dpcube.trees.halving import halve
from dpcube.trees.tree import BoxTree

NOTHING = 1e9
"""An epsilon at which there is hardly any noise."""
SHAPES = ((7,), (1,), (8, 8), (5, 6), (3, 1, 5), (2, 3, 2, 2))
RESEARCH = ("privelet", "matrix_mechanism", "dawa", "privtree", "hdpview")


def every_range(shape: tuple[int, ...]) -> Workload:
    axes = [[(low, high) for low in range(n) for high in range(low + 1, n + 1)] for n in shape]
    ends = np.array(list(itertools.product(*axes)))
    return Workload(shape, ends[:, :, 0], ends[:, :, 1])


@pytest.mark.parametrize("name", RESEARCH)
@pytest.mark.parametrize("shape", SHAPES)
def test_without_noise_the_counts_come_back(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    exact = rng.integers(0, 30, shape)
    estimated = rival_of(name, every_range(shape)).release(exact, NOTHING, rng)
    np.testing.assert_allclose(estimated, exact, atol=1e-4)


def test_every_strategy_and_rival_is_listed_with_what_it_promises() -> None:
    assert set(BY_NAME) | set(RIVALS) | set(RESEARCH) | {"mwem"} == set(LISTED)
    exact, workload = np.arange(12).reshape(3, 4), random_ranges((3, 4), 20, seed=1)
    for name, one in LISTED.items():
        rival: Rival = one.make(workload)
        assert (rival.name, rival.privacy, one.privacy) == (name, PURE, PURE)
        assert one.source
        estimated = rival.release(exact, 1.0, np.random.default_rng(2))
        assert estimated.shape == exact.shape
        assert np.isfinite(estimated).all()
        np.testing.assert_array_equal(estimated, rival.release(exact, 1.0, np.random.default_rng(2)))
        assert one.released_by_gate == (name in BY_NAME or name in RIVALS)
    assert [name for name, one in LISTED.items() if one.shown_workload] == ["dawa", "mwem"]
    assert "not private" in NOT_PRIVATE
    with pytest.raises(InputError, match="there is no rival 'magic'; there are 'adaptive'"):
        rival_of("magic", workload)


@pytest.mark.parametrize("name", RESEARCH)
def test_what_is_no_array_of_counts_is_refused(name: str) -> None:
    rng, rival = np.random.default_rng(1), rival_of(name, random_ranges((3,), 5, seed=1))
    for counts in (np.array(3), np.array([1, -1, 2]), np.array([1.5, 2, 3]), np.zeros((0,), np.int64)):
        with pytest.raises(InputError, match="needs an array of whole numbers from 0"):
            rival.release(counts, 1.0, rng)
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="needs an epsilon above 0"):
            rival.release(np.array([1, 2, 3]), epsilon, rng)


def squares_agree(wrong: Floats, variances: Floats) -> None:
    """Errors of many runs, shape (runs, answers), have the variances that are claimed: within five standard errors."""
    ratio = (wrong**2 / variances).mean(axis=1)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(len(ratio))
    assert (np.abs(wrong.mean(axis=0)) < 6 * np.sqrt(variances / len(ratio))).all()


def runs(rival: Rival, workload: Workload, *, number: int, epsilon: float) -> Floats:
    rng = np.random.default_rng(5)
    exact = rng.integers(0, 30, workload.shape)
    return np.array([exact_answers(rival.release(exact, epsilon, rng) - exact, workload) for _ in range(number)])


# Privelet.


def test_the_transform_has_the_sensitivity_that_is_paid_for() -> None:
    for shape in ((8,), (16,), (4, 8), (2, 2, 4)):
        for cell in np.ndindex(*shape):
            one = np.zeros(shape)
            one[cell] = 1
            assert np.abs(privelet.haar(one)).sum() == privelet.sensitivity(shape)
    array = np.random.default_rng(1).normal(size=(8, 4))
    np.testing.assert_allclose(privelet.unhaar(privelet.haar(array)), array)


def privelet_variances(shape: tuple[int, ...], workload: Workload, epsilon: float) -> Floats:
    """Variances by the dense inverse of the transform, built column by column."""
    size = math.prod(shape)
    inverse = np.array([privelet.unhaar(unit.reshape(shape)).reshape(-1) for unit in np.eye(size)]).T
    scale = privelet.sensitivity(shape) / epsilon
    variances: Floats = 2 * scale**2 * ((workload.matrix() @ inverse) ** 2).sum(axis=1)
    return variances


def test_the_worst_range_of_privelet_is_the_paper_s() -> None:
    """With coefficients of variance (sigma/W)^2, W their weights: 1.1875 for 8 cells, 1.421875 for 16, sigma = 1."""
    for cells, worst in ((8, 1.1875), (16, 1.421875)):
        variances = privelet_variances((cells,), every_range((cells,)), 1.0)
        assert variances.max() / (2 * privelet.sensitivity((cells,)) ** 2) == pytest.approx(worst)


def test_privelet_errs_as_its_formula_says() -> None:
    workload = random_ranges((8, 4), 25, seed=3)
    squares_agree(
        runs(privelet.Privelet(), workload, number=300, epsilon=0.5), privelet_variances((8, 4), workload, 0.5)
    )


# The matrix mechanism.


def test_the_gram_matrix_is_that_of_the_questions() -> None:
    dense = every_range((8,)).matrix()
    gram = matrix_mechanism.gram_of(8, "ranges")
    np.testing.assert_array_equal(gram, dense.T @ dense)
    assert len(dense) == 36
    assert np.trace(gram) == 120
    prefixes = np.tri(8)
    np.testing.assert_array_equal(matrix_mechanism.gram_of(8, "prefixes"), prefixes.T @ prefixes)


def test_closed_forms_are_dense_least_squares() -> None:
    rows = np.random.default_rng(1).random((3, 10))
    strategy, gram = matrix_mechanism.PIdentity(rows), matrix_mechanism.gram_of(10, "ranges")
    matrix = strategy.matrix()
    np.testing.assert_allclose(matrix.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(strategy.covariance(), np.linalg.inv(matrix.T @ matrix), rtol=1e-9)
    error, slope = matrix_mechanism.error_and_gradient(rows, gram)
    assert error == pytest.approx(np.trace(gram @ np.linalg.inv(matrix.T @ matrix)))
    step = 1e-6
    for place in np.ndindex(3, 10):
        moved = rows.copy()
        moved[place] += step
        assert (matrix_mechanism.error_and_gradient(moved, gram)[0] - error) / step == pytest.approx(
            slope[place], rel=1e-3
        )


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["ranges", "prefixes"])
@pytest.mark.parametrize("cells", [1, 2, 8, 64, 300])
def test_optimised_strategies_lie_between_the_identity_and_the_bound(
    cells: int, asked: matrix_mechanism.AxisWorkload
) -> None:
    gram = matrix_mechanism.gram_of(cells, asked)
    found = matrix_mechanism.optimised(cells, asked)
    assert np.abs(found.matrix()).sum(axis=0).max() == pytest.approx(1, abs=1e-12)
    error = found.total_error(gram)
    bound = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum() ** 2 / cells
    assert bound * (1 - 1e-9) <= error <= np.trace(gram) * (1 + 1e-9)
    assert cells < 64 or error < 0.8 * np.trace(gram)
    if (cells, asked) == (8, "ranges"):
        assert bound == pytest.approx(79.172, abs=1e-3)


def test_the_matrix_mechanism_errs_as_its_formula_says() -> None:
    shape = (64, 5)
    mechanism, workload = MatrixMechanism(), random_ranges((64, 5), 25, seed=3)
    variances = mechanism.range_variances(workload, 0.5)
    dense = along_axes_dense([one.covariance() for one in mechanism.strategies(shape)])
    weights = workload.matrix()
    np.testing.assert_allclose(variances, 8 * np.einsum("ij,jk,ik->i", weights, dense, weights), rtol=1e-9)
    squares_agree(runs(mechanism, workload, number=300, epsilon=0.5), variances)
    everything = every_range((6, 3))
    mean = MatrixMechanism().range_variances(everything, 0.5).mean()
    assert MatrixMechanism().expected_square((6, 3), 0.5) == pytest.approx(mean)


def along_axes_dense(matrices: list[Floats]) -> Floats:
    dense: Floats = np.ones((1, 1))
    for matrix in matrices:
        dense = np.asarray(np.kron(dense, matrix), np.float64)
    return dense


def test_axis_by_axis_is_the_kronecker_product() -> None:
    rng = np.random.default_rng(1)
    matrices, array = [rng.normal(size=(3, 2)), rng.normal(size=(5, 4))], rng.normal(size=(2, 4))
    expected = along_axes_dense(matrices) @ array.reshape(-1)
    np.testing.assert_allclose(along_axes(array, matrices).reshape(-1), expected)


# DAWA.


def test_deviations_are_those_of_every_run() -> None:
    row = np.random.default_rng(1).integers(0, 9, 37).astype(float)
    found = dawa.deviations_of_runs(row)
    assert found.shape == (6, 37)
    for level, place in np.ndindex(6, 37):
        run = row[place + 1 - 2**level : place + 1] if place + 1 >= 2**level else None
        expected = np.inf if run is None else np.abs(run - run.mean()).sum()
        assert found[level, place] == pytest.approx(expected)


def test_the_cheapest_cover_is_the_cheapest_of_all() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        costs = rng.normal(size=(3, 7))
        begin = dawa.cheapest_buckets(costs)
        best = min(sum(_cost(costs, cover) for cover in zip(way, [*way[1:], 7], strict=True)) for way in covers(7))
        assert sum(_cost(costs, cover) for cover in zip(begin, [*begin[1:], 7], strict=True)) == pytest.approx(best)
    row = np.array([0.0, 0, 9, 9])
    found = dawa.cheapest_buckets(dawa.deviations_of_runs(row) + 1.0)
    np.testing.assert_array_equal(found, [0, 2])
    np.testing.assert_array_equal(dawa.cheapest_buckets(dawa.deviations_of_runs(np.ones(8)) + 1), [0])


def covers(cells: int) -> list[tuple[int, ...]]:
    """All ways to cover a row by runs of 1, 2 or 4 cells, by where they begin."""
    if cells == 0:
        return [()]
    return [(*before, cells - n) for n in (1, 2, 4) if n <= cells for before in covers(cells - n)]


def _cost(costs: Floats, run: tuple[int, int]) -> float:
    first, stop = map(int, run)
    return float(costs[(stop - first).bit_length() - 1, stop - 1])


def test_the_deviation_of_a_run_moves_by_no_more_than_is_paid_for() -> None:
    rng = np.random.default_rng(1)
    most = np.zeros(4)
    for _ in range(300):
        row = rng.integers(0, 4, 8).astype(float)
        more = row.copy()
        more[rng.integers(8)] += 1
        before, after = dawa.deviations_of_runs(row), dawa.deviations_of_runs(more)
        most = np.maximum(most, np.abs(np.nan_to_num(after, posinf=0) - np.nan_to_num(before, posinf=0)).max(axis=1))
    np.testing.assert_array_less(most, 2 * (1 - 0.5 ** np.arange(4)) + 1e-9)
    assert most[1] == pytest.approx(1)


def all_cells_are_buckets(made: dawa.Dawa, row: Floats, *, runs_: int, seed: int) -> float:
    """How often every cell is a bucket of its own."""
    rng = np.random.default_rng(seed)
    found = (dawa.cheapest_buckets(made.noisy_costs(row, 1.0, 0.5, rng)) for _ in range(runs_))
    return sum(len(begin) == len(row) for begin in found) / runs_


class SilentSingles(dawa.Dawa):
    """Sabotage: no noise on single cells and a floor under costs, as in the public code, with the doubled noise."""

    __slots__ = ()

    def noisy_costs(self, row: Floats, first: float, rest: float, rng: np.random.Generator) -> Floats:
        costs = dawa.deviations_of_runs(row) + 1 / rest
        length = 2.0 ** np.arange(len(costs))[:, None]
        scale = np.where(length > 1, 2 * (2 - 1 / length - 1 / len(row)) / first, 0.0)
        return np.maximum(costs + scale * rng.laplace(size=costs.shape), 1 / rest)


@pytest.mark.slow
def test_the_partition_is_private_and_would_not_be_without_noise_on_single_cells() -> None:
    """The head of `dawa.py`: on (1,0,1,1) and (1,1,1,1) the log-ratio would be 1.3 epsilon."""
    workload, number = every_range((4,)), 20_000
    before, after = np.array([1.0, 0, 1, 1]), np.ones(4)
    for made, least, most in ((SilentSingles(workload), 1.1, 1.5), (dawa.Dawa(workload, penalty=0.0), -1.0, 1.0)):
        first = all_cells_are_buckets(made, before, runs_=number, seed=1)
        second = all_cells_are_buckets(made, after, runs_=number, seed=2)
        assert least < math.log(first / second) < most


def test_weights_of_a_greedy_tree_add_up_to_one_and_beat_the_alternatives() -> None:
    questions = random_ranges((64,), 200, seed=1).matrix()
    tree, weight = dawa.greedy_tree(questions)
    rows = (np.arange(64) >= tree.lower) & (np.arange(64) < tree.upper)
    matrix = rows * weight[:, None]
    np.testing.assert_allclose(matrix.sum(axis=0), 1)
    uniform_tree = rows / 7

    def error(strategy: Floats) -> float:
        return float(np.trace(questions @ np.linalg.pinv(strategy.T @ strategy) @ questions.T))

    assert error(matrix) < error(np.eye(64))
    assert error(matrix) < error(uniform_tree)


def greedy_by_recursion(
    questions: Floats, first: int, stop: int, depth: int
) -> tuple[float, Floats, dict[tuple[int, int], float]]:
    """The definition with dense matrices: error, covariance and weights of the tree over some counts."""
    some = questions[:, first:stop]
    if stop - first == 1:
        return float((some**2).sum()), np.ones((1, 1)), {(first, stop): 1.0}
    middle = first + (stop - first) // 2
    left, right = (greedy_by_recursion(questions, *ends, depth + 1) for ends in ((first, middle), (middle, stop)))
    n, below = stop - first, np.zeros((stop - first,) * 2)
    below[: middle - first, : middle - first], below[middle - first :, middle - first :] = left[1], right[1]
    u = below.sum(axis=1)
    parts = [some[:, : middle - first] @ u[: middle - first], some[:, middle - first :] @ u[middle - first :]]
    apart = sum(float((part**2).sum()) for part in parts)
    together, decay = float(((parts[0] + parts[1]) ** 2).sum()), 2.0 ** (-depth / 2)
    tried = []
    for step in range(100):
        p = 1 - step / 100
        own = (1 - p) ** 2 * decay
        gained = ((together - apart) * decay + apart) * own / (p**2 + own * u.sum())
        tried.append(((left[0] + right[0] - gained) / p**2, p))
    error, p = min(tried, key=lambda pair: pair[0])
    strategy = np.vstack([np.linalg.cholesky(np.linalg.inv(below)).T * p, np.full((1, n), 1 - p)])
    weights = {(first, stop): 1 - p} | {ends: p * w for one in (left, right) for ends, w in one[2].items()}
    return error, np.linalg.inv(strategy.T @ strategy), weights


def test_a_greedy_tree_is_that_of_the_recursion() -> None:
    for questions in (every_range((75,)).matrix(), np.tri(75)):
        tree, weight = dawa.greedy_tree(questions)
        _, _, expected = greedy_by_recursion(questions, 0, 75, 0)
        found = {(int(a), int(b)): w for (a,), (b,), w in zip(tree.lower, tree.upper, weight, strict=True)}
        assert found == pytest.approx(expected)
        assert max(weight[~tree.is_leaf]) > 0


def test_counts_that_no_question_tells_apart_are_one_box() -> None:
    questions = np.repeat(np.eye(3), [2, 3, 1], axis=1)
    tree, _ = dawa.greedy_tree(questions)
    assert set(zip(tree.lower[tree.leaves, 0], tree.upper[tree.leaves, 0], strict=True)) >= {(5, 6)}
    assert len(dawa.greedy_tree(np.ones((4, 6))).tree) == 1


def test_a_row_has_the_cells_of_the_table_and_no_others() -> None:
    for shape in ((5,), (5, 6), (3, 2, 7), (16, 20, 7, 2, 2)):
        assert (np.sort(dawa.row_of(shape), axis=None) == np.arange(math.prod(shape))).all()
    curve = hilbert_cells(2, 3)
    inside = curve[(curve < np.array([5, 6])).all(axis=1)]
    assert (dawa.row_of((5, 6))[tuple(inside.T)] == np.arange(30)).all()


def test_means_of_questions_are_dense_ones() -> None:
    shape = (5, 6)
    place, workload, begin = dawa.row_of(shape), random_ranges(shape, 30, seed=1), np.array([0, 3, 20, 21, 25])
    dense = np.zeros((30, 30))
    dense[:, place.reshape(-1)] = workload.matrix()
    expected = np.array([part.mean(axis=1) for part in np.split(dense, begin[1:], axis=1)]).T
    np.testing.assert_allclose(dawa.mean_weights(workload, place, begin, 30), expected)


# MWEM.


def test_multiplicative_weights_reach_what_was_measured() -> None:
    exact = np.random.default_rng(1).integers(1, 30, (6, 5)).astype(float)
    workload = random_ranges((6, 5), 6, seed=1)
    estimate = np.full(exact.shape, exact.mean())
    for _ in range(30):
        mwem.reweighted(estimate, workload.lower, workload.upper, exact_answers(exact, workload), exact.sum())
    np.testing.assert_allclose(exact_answers(estimate, workload), exact_answers(exact, workload), rtol=1e-3)
    assert estimate.sum() == pytest.approx(exact.sum())


def test_a_step_is_the_formula_s() -> None:
    """One range, one of the hundred passes at a time, by hand."""
    estimate = np.array([1.0, 2, 3, 4])
    by_hand = estimate.copy()
    for _ in range(mwem.PASSES):
        by_hand[1:3] *= math.exp((7 - by_hand[1:3].sum()) / 20)
        by_hand *= 10 / by_hand.sum()
    mwem.reweighted(estimate, np.array([[1]]), np.array([[3]]), np.array([7.0]), 10.0)
    np.testing.assert_allclose(estimate, by_hand)


def test_mwem_beats_the_even_guess_and_survives_wrong_numbers_of_rows() -> None:
    rng = np.random.default_rng(1)
    exact = np.zeros((16, 16), np.int64)
    exact[3:6, 2:9] = 400
    workload = random_ranges((16, 16), 200, seed=2)
    even = np.full(exact.shape, exact.mean())
    found = mwem.Mwem(workload, rows=int(exact.sum())).release(exact, 1.0, rng)
    worst = np.abs(exact_answers(even - exact, workload)).mean()
    assert np.abs(exact_answers(found - exact, workload)).mean() < worst / 3
    for rows in (0, 1):
        assert np.isfinite(mwem.Mwem(workload, rows=rows).release(exact, 1.0, rng)).all()


# PrivTree and HDPView.


def test_the_constants_of_the_trees_are_the_papers() -> None:
    assert privtree.noise_and_bias(4, 1.0) == pytest.approx((2.3333, 3.2347), abs=5e-5)
    assert hdpview.HDPView(ratio=0.5, gamma=1).noise_and_bias(2.0) == pytest.approx((9.333, 4.387), abs=5e-4)


def test_an_empty_table_is_hardly_cut() -> None:
    for name in ("privtree", "hdpview"):
        empty = np.zeros((16, 16), np.int64)
        estimated = rival_of(name, random_ranges((16, 16), 5, seed=1)).release(empty, 0.5, np.random.default_rng(1))
        assert len(np.unique(estimated)) < 40


def test_privtree_by_halves_cuts_where_our_own_trees_do() -> None:
    """Ties and all: two axes of one length among three are told apart by nothing but rounding."""
    exact = np.random.default_rng(1).poisson(np.linspace(0, 30, 480)).reshape(30, 4, 4).astype(np.float64)
    silent: Any = SimpleNamespace(laplace=lambda **given: np.zeros(given["size"]))
    found = privtree.PrivTree(one_axis=True)._leaves(exact, 0.2, silent)
    order, (_, bias) = WorkloadModel(exact.shape, ("ranges",) * 3).cut_order(), privtree.noise_and_bias(2, 0.2)
    tree, chosen = BoxTree.uncut(exact.shape), np.zeros(1, np.int64)
    while len(chosen):
        tree, _, new = halve(tree, chosen, 1, order)
        chosen = new[(tree.sizes[new] > 1) & (box_sums(exact, tree.boxes(new)) > tree.levels[new] * bias)]
    expected = tree.leaf_boxes
    assert 50 < len(expected) < exact.size / 2
    boxes = [sorted(np.hstack([one.lower, one.upper]).tolist()) for one in (found, expected)]
    assert boxes[0] == boxes[1]


def test_privtree_s_decisions_cost_no_more_than_its_share() -> None:
    """The log-probability of any path of cuts, with one row more in it, moves by epsilon at most."""
    epsilon, depth = 1.0, 12
    scale, bias = privtree.noise_and_bias(4, epsilon)
    steps = np.arange(depth)

    def log_cut(counts: Floats) -> Floats:
        biased = np.maximum(counts - steps * bias, -bias) / scale
        return np.where(biased > 0, np.log1p(-np.exp(-np.abs(biased)) / 2), biased - math.log(2))

    for counts in np.random.default_rng(1).integers(0, 60, (500, depth)):
        falling = np.sort(counts)[::-1].astype(float)
        assert abs(log_cut(falling + 1) - log_cut(falling)).sum() <= epsilon


def test_ae_is_what_the_proof_says_of_it() -> None:
    """It moves by less than 2 with one row, and is never larger in a part of a box."""
    rng = np.random.default_rng(1)
    whole = Boxes((6, 6), np.array([[0, 0]]), np.array([[6, 6]]))
    for _ in range(200):
        exact = rng.integers(0, 6, (6, 6)).astype(float)
        more = exact.copy()
        more[tuple(rng.integers(6, size=2))] += 1
        (before,), (after,) = hdpview.box_deviations(exact, whole), hdpview.box_deviations(more, whole)
        assert abs(before - after) < 2
        ends = np.sort(rng.integers(0, 7, (2, 2)), axis=0)
        if (ends[0] < ends[1]).all():
            assert hdpview.box_deviations(exact, Boxes((6, 6), ends[:1], ends[1:]))[0] <= before + 1e-9
        assert before == pytest.approx(np.abs(exact - exact.mean()).sum())


def test_hdpview_cuts_where_the_table_changes() -> None:
    exact = np.zeros((12, 10), np.int64)
    exact[:, 6:] = 50_000
    estimated = hdpview.HDPView().release(exact, 1.0, np.random.default_rng(1))
    assert np.abs(estimated[:, :6]).max() < 1000
    assert np.abs(estimated[:, 6:] - 50_000).max() < 1000
