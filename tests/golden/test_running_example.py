"""The paper's 3x3 example and the estimators, against numbers and solvers that share no code with them."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from golden_file import GOLDEN

from dpcube import Category, Domain, Release
from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes, Partitioning
from dpcube.core.counter import BUDGET_UNITS, every_cell
from dpcube.core.errors import QueryError
from dpcube.core.gate import Gate
from dpcube.measurements import BoxCounts, Marginal, Provenance, Transcript
from dpcube.models import Estimate, estimate
from dpcube.models.least_squares_tree import consistent_totals
from dpcube.noise import noise_variances
from dpcube.queries import CountingQueries, CountingQuery
from dpcube.testing import SilentNoise
from dpcube.trees.tree import BoxTree
from random_trees import random_tree

EXAMPLE = GOLDEN["example_3x3"]
CUBE = np.array(EXAMPLE["x"], np.int64).reshape(3, 3)
# Rows are incomes, highest first; columns are ages (spec 1).
DOMAIN = Domain(
    (
        Category(name="income", values=(">20K", "10-20K", "0-10K")),
        Category(name="age", values=("20-30", "30-40", "40-50")),
    )
)
FIFTH = Fraction(1, 5)
QUARTER = BUDGET_UNITS // 4  # alpha1 = .05 and alpha2 = .15 of alpha = .2


def paper_boxes() -> tuple[Ints, Ints]:
    at = [np.stack(np.unravel_index(np.array(part) - 1, (3, 3))) for part in EXAMPLE["HII_parts"]]
    return np.array([cells.min(axis=1) for cells in at]), np.array([cells.max(axis=1) + 1 for cells in at])


def flat_tree(shape: tuple[int, ...], lower: Ints, upper: Ints) -> BoxTree:
    """A root whose children are all the leaves."""
    root = np.zeros((1, len(shape)), np.int64)
    parent = np.array([-1] + [0] * len(lower))
    return BoxTree(shape, np.concatenate([root, lower]), np.concatenate([[shape], upper]), parent)


def one_box(shape: tuple[int, ...]) -> BoxTree:
    return BoxTree(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]), np.array([-1]))


def two_phase(exact: Ints, tree: BoxTree, *, epsilon: Fraction = FIFTH) -> Transcript:
    """Measure cells and leaves without noise."""
    gate = Gate(exact, epsilon, noise=SilentNoise())
    cells = every_cell(gate, QUARTER)
    units = np.full(len(tree.leaves), BUDGET_UNITS - QUARTER)
    boxes = gate.boxes(tree.partitioning(), units)
    return Transcript(
        exact.shape,
        gate.epsilon_per_unit,
        (Marginal.from_cells(cells, QUARTER), BoxCounts(tree, tree.leaves, boxes, units)),
    )


def rows_of(tree: BoxTree, nodes: Ints) -> Floats:
    """The query matrix of some nodes: a row of ones and zeros over the cells for each."""
    grid = np.indices(tree.shape).reshape(len(tree.shape), -1)
    inside = (grid >= tree.lower[nodes][:, :, None]) & (grid < tree.upper[nodes][:, :, None])
    return inside.all(axis=1).astype(float)


def answered(got: Estimate, asked: CountingQuery) -> tuple[float, float]:
    """The value of one query and its noise variance."""
    values, errors = got.answers(CountingQueries.of(asked))
    return float(values[0]), float(errors.noise_variances[0])


def random_query(shape: tuple[int, ...], generator: np.random.Generator) -> CountingQuery:
    """Whole, cut and left-out bins on every axis."""
    return CountingQuery(tuple(generator.choice([0.0, 0.25, 1.0], size=side, p=[0.3, 0.2, 0.5]) for side in shape))


def test_the_boxes_of_the_example_are_31_37_73_0() -> None:
    lower, upper = paper_boxes()
    gate = Gate(CUBE, Fraction(1, 5), noise=SilentNoise())
    assert gate.boxes(Partitioning((3, 3), lower, upper), np.full(4, BUDGET_UNITS)).tolist() == [31, 37, 73, 0]
    assert EXAMPLE["HII_x"] == [31, 37, 73, 0]
    assert EXAMPLE["paper_yII"] != [31, 37, 73, 0]  # erratum E1


def test_golden_answers_of_the_example() -> None:
    transcript = two_phase(CUBE, flat_tree((3, 3), *paper_boxes()))
    release = Release(DOMAIN, transcript, Provenance("dpcube", FIFTH, "test", private=False))
    assert CUBE.reshape(-1).tolist() == EXAMPLE["x"]
    assert CUBE.sum() == EXAMPLE["total"]
    assert release.count(age="20-30", income=">20K", estimate="cells").value == EXAMPLE["Q1"]
    assert release.count(age="30-40", estimate="cells").value == EXAMPLE["Q2"]
    q2 = release.count(age="30-40", estimate="uniform").value
    assert q2 == pytest.approx(EXAMPLE["Q2_uniform_noiseless"], abs=1e-12)
    least = release.count(age="30-40", estimate="least_squares").value
    assert least == pytest.approx(EXAMPLE["Q2_LS_noiseless"], abs=1e-12)
    weights = np.array(EXAMPLE["Q2_weights_on_y10_y13"])
    assert weights @ np.array(EXAMPLE["HII_x"])[[0, 3]] == pytest.approx(q2, abs=1e-12)
    assert weights @ np.array(EXAMPLE["paper_yII"])[[0, 3]] == EXAMPLE["Q2_uniform_with_papers_numbers"]


def test_the_cells_of_the_example_come_out_as_they_are_without_noise() -> None:
    cells = every_cell(Gate(CUBE, FIFTH, noise=SilentNoise()), BUDGET_UNITS)
    assert cells.tolist() == [[10, 21, 37], [20, 0, 0], [53, 0, 0]]


@pytest.mark.parametrize(
    ("name", "q2"),
    [("uniform", 15.5), ("consistent", 15.5), ("least_squares", 21), ("weighted_least_squares", 21), ("cells", 21)],
)
def test_answers_of_the_example_without_noise(name: str, q2: float) -> None:
    transcript = two_phase(CUBE, flat_tree((3, 3), *paper_boxes()))
    release = Release(DOMAIN, transcript, Provenance("dpcube", FIFTH, "test", private=False))
    assert release.count(age="30-40", estimate=name).value == pytest.approx(q2, abs=1e-12)
    assert release.count(estimate=name).value == pytest.approx(141, abs=1e-12)
    # Q1 is one cell of the box {1, 2} of 31.
    q1 = release.count(age="20-30", income=">20K", estimate=name).value
    assert q1 == pytest.approx(15.5 if name in ("uniform", "consistent") else 10, abs=1e-12)


def test_the_least_squares_estimate_of_exact_counts_is_exact() -> None:
    transcript = two_phase(CUBE, flat_tree((3, 3), *paper_boxes()))
    for name in ("least_squares", "weighted_least_squares", "cells"):
        np.testing.assert_allclose(estimate(transcript, name).cells(), CUBE, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_least_squares_is_the_pseudo_inverse_of_one_box(n: int) -> None:
    generator = np.random.default_rng(n)
    y, y_p = generator.integers(-50, 50, n), int(generator.integers(-200, 200))
    boxes = BoxCounts(one_box((n,)), np.array([0]), np.array([y_p]), np.array([BUDGET_UNITS - QUARTER]))
    cells = estimate(
        Transcript((n,), FIFTH / BUDGET_UNITS, (Marginal.from_cells(y, QUARTER), boxes)), "least_squares"
    ).cells()
    dense = np.linalg.pinv(np.vstack([np.ones((1, n)), np.eye(n)])) @ np.concatenate([[y_p], y])
    np.testing.assert_allclose(cells, dense, atol=1e-10)
    np.testing.assert_allclose(cells, y + (y_p - y.sum()) / (n + 1), atol=1e-10)


SHAPES = [(7,), (4, 3), (5, 2, 3), (2, 3, 2, 2)]


def measured(shape: tuple[int, ...], seed: int) -> tuple[Transcript, Floats, Floats, Floats]:
    """A transcript with boxes of unequal epsilons; its query matrix, counts and noise variances."""
    generator = np.random.default_rng(seed)
    tree, epsilon = random_tree(shape, generator, stop=0.3), Fraction(int(generator.integers(1, 30)), 10)
    leaves = tree.leaves
    units = generator.integers(BUDGET_UNITS // 50, BUDGET_UNITS // 2, len(leaves))
    cell_units = int(generator.integers(BUDGET_UNITS // 50, BUDGET_UNITS // 2))
    y_boxes, y_cells = generator.integers(-40, 300, len(leaves)), generator.integers(-40, 90, shape)
    boxes = BoxCounts(tree, leaves, y_boxes, units)
    transcript = Transcript(shape, epsilon / BUDGET_UNITS, (Marginal.from_cells(y_cells, cell_units), boxes))
    matrix = np.vstack([rows_of(tree, leaves), np.eye(y_cells.size)])
    alpha = float(epsilon / BUDGET_UNITS) * np.concatenate([units, np.full(y_cells.size, cell_units)])
    return transcript, matrix, np.concatenate([y_boxes, y_cells.reshape(-1)]), 0.5 / np.sinh(alpha / 2) ** 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
def test_weighted_least_squares_is_dense_generalised_least_squares(shape: tuple[int, ...], seed: int) -> None:
    transcript, matrix, counts, variances = measured(shape, seed)
    covariance = np.linalg.inv(matrix.T @ (matrix / variances[:, None]))
    expected = covariance @ matrix.T @ (counts / variances)
    got = estimate(transcript, "weighted_least_squares")
    np.testing.assert_allclose(got.cells().reshape(-1), expected, atol=1e-7)
    generator = np.random.default_rng(seed)
    for _ in range(5):
        asked = random_query(shape, generator)
        q = asked.dense().reshape(-1)
        value, variance = answered(got, asked)
        assert value == pytest.approx(q @ expected, rel=1e-9, abs=1e-7)
        assert variance == pytest.approx(q @ covariance @ q, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares_is_the_dense_pseudo_inverse(shape: tuple[int, ...], seed: int) -> None:
    transcript, matrix, counts, variances = measured(shape, seed)
    inverse = np.linalg.pinv(matrix)
    got = estimate(transcript, "least_squares")
    np.testing.assert_allclose(got.cells().reshape(-1), inverse @ counts, atol=1e-7)
    generator = np.random.default_rng(seed)
    for _ in range(5):
        asked = random_query(shape, generator)
        weights = asked.dense().reshape(-1) @ inverse
        assert answered(got, asked)[1] == pytest.approx(weights**2 @ variances, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
def test_uniform_spreads_each_box_evenly(shape: tuple[int, ...], seed: int) -> None:
    transcript, matrix, counts, variances = measured(shape, seed)
    boxes = len(counts) - int(np.prod(shape))
    to_cells = (matrix[:boxes] / matrix[:boxes].sum(axis=1, keepdims=True)).T
    got = estimate(transcript, "uniform")
    np.testing.assert_allclose(got.cells().reshape(-1), to_cells @ counts[:boxes], atol=1e-9)
    asked = random_query(shape, np.random.default_rng(seed))
    weights = asked.dense().reshape(-1) @ to_cells
    assert answered(got, asked)[1] == pytest.approx(weights**2 @ variances[:boxes], rel=1e-9, abs=1e-12)


def eleven_cells(name: str, s: int) -> float:
    """The noise variance of a query of s cells in a box of 11, at alpha1 = .05 and alpha2 = .15."""
    transcript = two_phase(np.arange(11), one_box((11,)))
    return answered(estimate(transcript, name), CountingQuery((np.where(np.arange(11) < s, 1.0, 0.0),)))[1]


@pytest.mark.parametrize("s", range(1, 12))
def test_golden_variances_of_a_box_of_eleven_cells(s: int) -> None:
    golden = GOLDEN["discrete_laplace"]["LS_GLS_n11_a1.05_a2.15"][str(s)]
    assert eleven_cells("least_squares", s) == pytest.approx(golden["V_LS"], rel=1e-8)
    assert eleven_cells("weighted_least_squares", s) == pytest.approx(golden["V_GLS"], rel=1e-8)
    v1, v2 = (GOLDEN["discrete_laplace"]["single"][alpha]["var"] for alpha in ("0.05", "0.15"))
    assert eleven_cells("uniform", s) == pytest.approx((s / 11) ** 2 * v2, rel=1e-8)
    assert eleven_cells("cells", s) == pytest.approx(s * v1, rel=1e-8)


@pytest.mark.parametrize("alpha", ["0.05", "0.15", "0.2", "1.0", "2.0"])
def test_golden_variances_of_single_counts(alpha: str) -> None:
    golden = GOLDEN["discrete_laplace"]["single"][alpha]["var"]
    assert noise_variances(np.array([BUDGET_UNITS]), Fraction(alpha) / BUDGET_UNITS)[0] == pytest.approx(
        golden, rel=1e-8
    )


def test_golden_gain_of_weighted_least_squares() -> None:
    cells = np.zeros(11, np.int64)
    boxes = BoxCounts(one_box((11,)), np.array([0]), np.array([1000]), np.array([BUDGET_UNITS - QUARTER]))
    moved = estimate(
        Transcript((11,), FIFTH / BUDGET_UNITS, (Marginal.from_cells(cells, QUARTER), boxes)), "weighted_least_squares"
    )
    np.testing.assert_allclose(moved.cells(), 1000 * GOLDEN["discrete_laplace"]["kappa_GLS"], rtol=1e-8)


# The consistent estimate, by dense least squares up the tree and by trying every set of children down it.


def children_of(tree: BoxTree, node: int) -> Ints:
    return np.flatnonzero(tree.parent == node)


def pooled_by_dense_solve(tree: BoxTree, counts: Floats, variance: Floats, node: int) -> tuple[float, float]:
    """The generalised least-squares estimate of a node's total from it and its descendants alone."""
    below = np.arange(node, tree.end[node])
    leaves = below[tree.is_leaf[below]]
    known = below[np.isfinite(variance[below])]
    matrix = np.array([[float(k <= leaf < tree.end[k]) for leaf in leaves] for k in known])
    covariance = np.linalg.inv(matrix.T @ (matrix / variance[known, None]))
    return float((covariance @ matrix.T @ (counts[known] / variance[known])).sum()), float(covariance.sum())


def divided_by_enumeration(total: float, pooled: Floats, spread: Floats) -> Floats:
    """Minimise sum (h - pooled)^2 / spread with h >= 0 and sum h = total, by trying every set of positive h."""
    best, least = np.zeros(len(pooled)), np.inf
    for kept in itertools.product([False, True], repeat=len(pooled)):
        chosen = np.array(kept)
        h = np.zeros(len(pooled))
        if chosen.any():
            h[chosen] = pooled[chosen] + spread[chosen] * (total - pooled[chosen].sum()) / spread[chosen].sum()
        cost = float((((h - pooled) ** 2) / spread).sum())
        if abs(h.sum() - total) < 1e-9 and h.min() >= -1e-12 and cost < least:
            best, least = h, cost
    assert np.isfinite(least)
    return best


def consistent_by_brute_force(tree: BoxTree, counts: Floats, variance: Floats) -> Floats:
    pooled, spread = np.array([pooled_by_dense_solve(tree, counts, variance, node) for node in range(len(tree))]).T
    totals = np.zeros(len(tree))
    totals[0] = max(pooled[0], 0.0)
    for node in range(len(tree)):
        children = children_of(tree, node)
        if len(children):
            totals[children] = divided_by_enumeration(totals[node], pooled[children], spread[children])
    return totals


def noisy_tree(seed: int) -> tuple[BoxTree, Floats, Floats]:
    """A small tree, a noisy count for each node and its variance; some inner nodes are not measured."""
    generator = np.random.default_rng(seed)
    tree = random_tree([(9,), (4, 3), (2, 3, 3)][seed % 3], generator, stop=0.3)
    variance = generator.uniform(0.5, 20, len(tree))
    variance[~tree.is_leaf & (generator.random(len(tree)) < 0.4)] = np.inf
    return tree, np.where(np.isinf(variance), 0.0, generator.normal(3, 12, len(tree))), variance


@pytest.mark.parametrize("seed", range(40))
def test_consistent_totals_are_those_of_a_brute_force_solver(seed: int) -> None:
    tree, counts, variance = noisy_tree(seed)
    got = consistent_totals(tree, counts, variance)
    np.testing.assert_allclose(got, consistent_by_brute_force(tree, counts, variance), atol=1e-8)
    assert got.min() >= 0
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        assert got[children_of(tree, node)].sum() == pytest.approx(got[node], abs=1e-8)


def test_the_cases_of_the_brute_force_solver_are_not_easy() -> None:
    """They must cut some children at zero and keep others, and have nodes of three or more children."""
    cut = wide = 0
    for seed in range(40):
        tree, counts, variance = noisy_tree(seed)
        totals = consistent_totals(tree, counts, variance)
        cut += bool(totals[0] > 0 and (totals == 0).any())
        wide += int(np.bincount(tree.parent[1:], minlength=1).max()) >= 3
    assert cut >= 10
    assert wide >= 10


def test_consistent_totals_by_hand() -> None:
    flat = flat_tree((3,), np.array([[0], [1], [2]]), np.array([[1], [2], [3]]))
    # The children sum to 13. To keep it, the first two are cut at zero: 20 - 7 is all that is left for the third.
    totals = consistent_totals(flat, np.array([0, -8.0, 1.0, 20.0]), np.array([np.inf, 1.0, 2.0, 4.0]))
    np.testing.assert_allclose(totals, [13, 0, 0, 13])
    # A measured root of 7 with variance 7, as much as its children together, moves the total half way, to 10.
    totals = consistent_totals(flat, np.array([7.0, -8.0, 1.0, 20.0]), np.array([7.0, 1.0, 2.0, 4.0]))
    np.testing.assert_allclose(totals, [10, 0, 0, 10])


@pytest.mark.parametrize("seed", range(10))
def test_without_noise_the_consistent_leaves_are_the_truth(seed: int) -> None:
    generator = np.random.default_rng(seed)
    exact = generator.integers(0, 30, (5, 4)) * (generator.random((5, 4)) < 0.6)
    tree = random_tree((5, 4), generator, stop=0.3)
    everything = np.arange(len(tree))
    units = generator.integers(BUDGET_UNITS // 100, BUDGET_UNITS // 10, len(tree))
    truth = Gate(exact, FIFTH, noise=SilentNoise()).boxes(Boxes((5, 4), tree.lower, tree.upper), units)
    transcript = Transcript((5, 4), FIFTH / BUDGET_UNITS, (BoxCounts(tree, everything, truth, units),))
    got = estimate(transcript, "consistent")
    np.testing.assert_allclose(got.cells().sum(), exact.sum(), atol=1e-8)
    np.testing.assert_allclose(rows_of(tree, tree.leaves) @ got.cells().reshape(-1), truth[tree.leaves], atol=1e-8)


def test_repeated_measurements_of_a_box_are_pooled_by_precision() -> None:
    tree = one_box((4,))
    units = np.array([BUDGET_UNITS // 8, BUDGET_UNITS // 4, BUDGET_UNITS // 2])
    boxes = BoxCounts(tree, np.zeros(3, np.int64), np.array([10, 40, 22]), units)
    v = noise_variances(units, FIFTH / BUDGET_UNITS)
    got = estimate(Transcript((4,), FIFTH / BUDGET_UNITS, (boxes,)), "uniform")
    value, variance = answered(got, CountingQuery((np.ones(4),)))
    assert value == pytest.approx((10 / v[0] + 40 / v[1] + 22 / v[2]) / (1 / v).sum(), rel=1e-12)
    assert variance == pytest.approx(1 / (1 / v).sum(), rel=1e-12)


@pytest.mark.parametrize("name", ["uniform", "consistent"])
def test_leaves_that_were_not_measured_have_no_counts_to_spread(name: str) -> None:
    tree = flat_tree((4,), np.array([[0], [1]]), np.array([[1], [4]]))
    boxes = BoxCounts(tree, np.array([0]), np.array([100]), np.array([BUDGET_UNITS]))
    with pytest.raises(QueryError, match="did not count every leaf"):
        estimate(Transcript((4,), FIFTH / BUDGET_UNITS, (boxes,)), name)
