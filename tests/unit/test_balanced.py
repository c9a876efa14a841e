"""Tables of low order beside a tree: least squares against dense algebra, fitting, shrinkage, and the estimate."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpcube.core.arrays import Floats, Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.gate import Gate
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models import estimate
from dpcube.models.errors.parts import fixed_normals
from dpcube.models.least_squares_tree import linear_totals
from dpcube.models.marginals import BalancedEstimate, Components, NoisyTable
from dpcube.models.marginals.balanced import cells_of_table
from dpcube.models.marginals.components import TableAxes, assembled, centred, table_over
from dpcube.models.marginals.fitting import (
    Departures,
    fitted,
    groups_by_size,
    maximum_entropy_cube,
    nearest_with_margins,
    nearest_with_sums,
    posterior_signals,
    signals,
)
from dpcube.models.posterior import Whole, infer, whole_count
from dpcube.models.posterior.estimate import PosteriorEstimate
from dpcube.queries import CountingQueries, Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.queries.workload_model import WorkloadModel
from dpcube.release.explain import _tables_alike, account
from dpcube.release.periods import _stacked_tree
from dpcube.research.arrays import experiment
from dpcube.strategies import Adaptive
from dpcube.testing import SeededNoise
from dpcube.trees.halving import halve
from dpcube.trees.tree import BoxTree

SHAPE = (4, 3, 5)
TABLES = [((0,), 3.0), ((1,), 5.0), ((0, 1), 2.0), ((1, 2), 7.0), ((0, 2), 4.0), ((0, 1), 9.0)]


def sums_over(axes: tuple[int, ...]) -> Floats:
    """The matrix that takes the cells of a cube to a table: shape (cells of the table, cells of the cube)."""
    cells = np.indices(SHAPE).reshape(len(SHAPE), -1)
    place = np.ravel_multi_index(tuple(cells[list(axes)]), [SHAPE[axis] for axis in axes])
    matrix: Floats = (np.arange(math.prod(SHAPE[axis] for axis in axes))[:, None] == place).astype(np.float64)
    return matrix


def noisy() -> tuple[list[NoisyTable], Floats, Floats]:
    """Noisy tables of a cube; the matrix that measures them, whitened, and what was measured, whitened."""
    generator = np.random.default_rng(4)
    cube = generator.poisson(20, SHAPE).astype(np.float64)
    tables, rows, seen = [], [], []
    for axes, variance in TABLES:
        counts = table_over(cube, axes) + math.sqrt(variance) * generator.normal(size=[SHAPE[axis] for axis in axes])
        tables.append(NoisyTable(axes, counts, variance))
        rows.append(sums_over(axes) / math.sqrt(variance))
        seen.append(counts.ravel() / math.sqrt(variance))
    return tables, np.concatenate(rows), np.concatenate(seen)


def test_components_are_those_of_dense_least_squares() -> None:
    tables, matrix, seen = noisy()
    found = Components.from_tables(SHAPE, tables)
    cube = np.array(np.linalg.lstsq(matrix, seen, rcond=None)[0], np.float64).reshape(SHAPE)
    asked: list[TableAxes] = [(), (0,), (2,), (0, 1), (1, 2)]
    for axes in asked:
        np.testing.assert_allclose(assembled(found.values, SHAPE, axes), table_over(cube, axes), rtol=1e-9)
        np.testing.assert_allclose(found.values[axes], centred(table_over(cube, axes)), atol=1e-8)


def test_variances_of_questions_are_those_of_dense_least_squares() -> None:
    """Weights of any sign on one or two axes; a question on three axes is no question of these tables."""
    tables, matrix, _ = noisy()
    covariance = np.linalg.pinv(matrix.T @ matrix)
    generator = np.random.default_rng(9)
    asked: list[TableAxes] = [(0,), (2,), (0, 1), (1, 2), (), (0, 1, 2)]
    rows = []
    for axes in asked:
        rows.append([generator.normal(size=n) if axis in axes else np.ones(n) for axis, n in enumerate(SHAPE)])
    sums = np.array([[weights.sum() for weights in row] for row in rows])
    squares = np.array([[(weights**2).sum() for weights in row] for row in rows])
    found = Components.from_tables(SHAPE, tables).question_variances(sums, squares)
    for k, (first, second, third) in enumerate(rows[:-1]):
        weights = np.einsum("a,b,c->abc", first, second, third).ravel()
        assert found[k] == pytest.approx(weights @ covariance @ weights, rel=1e-8)
    assert found[-1] == np.inf


@settings(max_examples=60, derandomize=True)
@given(
    arrays.arrays(np.float64, (3, 5), elements=st.floats(-50, 50)), st.lists(st.floats(0, 90), min_size=3, max_size=3)
)
def test_the_nearest_rows_have_their_sums_and_nothing_is_nearer(rows: Floats, sums: list[float]) -> None:
    found = nearest_with_sums(rows, np.array(sums))
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), sums, atol=1e-9)
    for start in range(5):  # moving a little between any two cells that can give comes no nearer
        for target in range(5):
            for row in range(3):
                step = min(1e-3, found[row, start])
                moved = found[row].copy()
                moved[start] -= step
                moved[target] += step
                apart, before = np.sum((moved - rows[row]) ** 2), np.sum((found[row] - rows[row]) ** 2)
                assert apart >= before - 1e-9


def test_a_table_with_margins_agrees_with_them() -> None:
    generator = np.random.default_rng(2)
    table = generator.normal(4, 6, (6, 7))
    of_rows, of_columns = generator.uniform(10, 40, 6), generator.uniform(1, 9, 7)
    of_columns *= of_rows.sum() / of_columns.sum()
    found = nearest_with_margins(table, of_rows, of_columns)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=0), of_columns, rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), of_rows, rtol=0.05)


def test_a_fitted_cube_has_the_tables_and_keeps_what_is_beyond_them() -> None:
    """Odds ratios of three attributes are kept: fitting multiplies by factors of pairs."""
    generator = np.random.default_rng(5)
    cube, wanted = generator.gamma(2.0, 1.0, (2, 2, 2)) * 50, generator.gamma(2.0, 1.0, (2, 2, 2)) * 50
    tables: dict[TableAxes, Floats] = {axes: table_over(wanted, axes) for axes in itertools.combinations(range(3), 2)}
    found = fitted(cube, tables, close=1e-9)
    for axes, table in tables.items():
        np.testing.assert_allclose(table_over(found, axes), table, rtol=1e-3)

    def interaction(of: Floats) -> float:
        signs = np.array([1.0, -1.0])
        return float((np.log(of) * np.einsum("a,b,c->abc", signs, signs, signs)).sum())

    assert interaction(found) == pytest.approx(interaction(cube))


def test_signals_are_kept_where_there_are_any_and_noise_goes() -> None:
    noise = fixed_normals(1200, 7).reshape(30, 40) * 5
    signal = np.zeros((30, 40))
    signal[:3] = 60.0
    groups = groups_by_size(signal)
    (found,) = signals([Departures(signal + noise, 25.0, groups)])
    assert np.mean((found - signal) ** 2) < 0.15 * 25.0
    np.testing.assert_allclose(found[:3], 60.0, atol=20)
    (nothing,) = signals([Departures(noise, 25.0, groups)])
    assert np.mean(nothing**2) < 0.1 * 25.0


def test_the_largest_cells_are_the_first_group() -> None:
    groups = groups_by_size(np.arange(400.0).reshape(20, 20))
    assert (groups.ravel()[-25:] == 0).all()
    assert (np.diff(groups.ravel()) <= 0).all()
    assert np.unique(groups_by_size(np.ones((3, 3)))).tolist() == [0]


def test_a_cube_of_pairs_alone_has_their_tables() -> None:
    generator = np.random.default_rng(11)
    cube = generator.gamma(0.7, 1.0, (6, 5, 4)) * 400
    exact = [NoisyTable(axes, table_over(cube, axes), 0.01) for axes in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]]
    found = maximum_entropy_cube(Components.from_tables((6, 5, 4), exact))
    for axes in itertools.combinations(range(3), 2):
        np.testing.assert_allclose(table_over(found, axes), table_over(cube, axes), rtol=0.02, atol=2)


class TestWholeCount:
    """Only boxes that fill the cube and were counted in one go tell the total."""

    def tree(self) -> BoxTree:
        order = WorkloadModel((8,), ("ranges",)).cut_order()
        return halve(BoxTree.uncut((8,)), np.zeros(1, np.int64), 3, order).tree

    def counts(self, *runs: tuple[Ints, int, int]) -> BoxCounts:
        """Runs of nodes, each node counted as a number with some units."""
        nodes, counts, units = (
            np.concatenate([np.full(len(run[0]), run[k]) if k else run[0] for run in runs]) for k in range(3)
        )
        return BoxCounts(self.tree(), nodes, counts, units)

    def test_complete_runs_are_pooled_by_precision_and_others_left_out(self) -> None:
        tree = self.tree()
        halves = np.flatnonzero(tree.levels == 1)
        counted = self.counts((np.zeros(1, np.int64), 100, 10**11), (halves, 60, 10**11), (tree.leaves[:3], 999, 7))
        found = whole_count(counted, Fraction(1, BUDGET_UNITS))
        assert found is not None
        alone = whole_count(self.counts((np.zeros(1, np.int64), 100, 10**11), (tree.leaves, 1, 7)), Fraction(1, 2**40))
        assert alone is not None
        assert found.total == pytest.approx((100 + 120 / 2) / 1.5)  # the sum of two has twice the variance of one
        variance = 0.5 / math.sinh(10**11 / BUDGET_UNITS / 2) ** 2
        assert found.variance == pytest.approx(variance / 1.5)

    def test_the_totals_of_periods_are_added_up_each_by_its_own_runs(self) -> None:
        """A last run of the first slab that is not complete must not swallow the first one of the second."""
        of_slab = halve(BoxTree.uncut((4,)), np.zeros(1, np.int64), 2, WorkloadModel((4,), ("ranges",)).cut_order())
        tree, (first, second) = _stacked_tree((2, 4), [of_slab.tree] * 2)
        runs = [([first], 10), (tree.leaves[:4], 2), (tree.leaves[:2], 999), ([second], 30)]

        def found(runs: list[tuple[Any, int]]) -> Whole | None:
            nodes = np.concatenate([run for run, _ in runs])
            counts = np.concatenate([np.full(len(run), count) for run, count in runs])
            boxes = BoxCounts(tree, nodes, counts, np.full(len(nodes), 10**11))
            return whole_count(boxes, Fraction(1, BUDGET_UNITS), periods=2)

        variance = 0.5 / math.sinh(10**11 / BUDGET_UNITS / 2) ** 2
        assert found(runs) == pytest.approx(((10 + 8 / 4) / (1 + 1 / 4) + 30, variance / (1 + 1 / 4) + variance))
        assert found(runs[:-1]) is None

    def test_without_a_complete_run_nothing_is_known(self) -> None:
        tree = self.tree()
        most, half = tree.leaves[1:], tree.leaves[:4]
        assert whole_count(self.counts((most, 5, 10**10)), Fraction(1, BUDGET_UNITS)) is None
        twice = self.counts((half, 5, 10**10), (half, 5, 10**10))
        assert whole_count(twice, Fraction(1, BUDGET_UNITS)) is None, "half of the cube twice is not the cube"

    def test_boxes_that_fill_the_cube_may_have_different_budgets(self) -> None:
        tree, units = self.tree(), np.arange(1, 9) * 10**10
        found = whole_count(BoxCounts(tree, tree.leaves, np.full(8, 5), units), Fraction(1, BUDGET_UNITS))
        assert found is not None
        assert found.total == pytest.approx(40)
        assert found.variance == pytest.approx(float(np.sum(0.5 / np.sinh(units / BUDGET_UNITS / 2) ** 2)))


def test_sums_of_faint_cells_give_way_to_the_counts_that_contradict_them() -> None:
    """Cells of 0 to 30 rows under noise of deviation 14: what passes for empty must not be missed by large sums."""
    random, shape, variance = np.random.default_rng(5), (32, 32), 200.0
    cells = random.poisson(8 * random.gamma(0.3, 1 / 0.3, shape))
    tree = halve(
        BoxTree.uncut(shape), np.zeros(1, np.int64), 10, WorkloadModel(shape, ("ranges",) * 2).cut_order()
    ).tree
    leaves, quarters = tree.leaves, np.flatnonzero(tree.levels == 2)
    truth = np.array([cells[tuple(map(slice, tree.lower[n], tree.upper[n]))].sum() for n in quarters])
    variances = np.full(len(tree), np.inf)
    variances[leaves] = variance
    wrong = np.zeros((3, 30))
    for draw in range(30):
        measured = np.zeros(len(tree))
        measured[leaves] = cells[tuple(tree.lower[leaves].T)] + random.laplace(0, 10, len(leaves))
        whole = Whole(float(measured.sum()), variance * cells.size)
        found = [linear_totals(tree, measured, variances), infer(tree, measured, variances).totals]
        found.append(infer(tree, measured, variances, whole=whole).totals)
        wrong[:, draw] = [np.mean((totals[quarters] - truth) ** 2) for totals in found]
    plain, biased, corrected = np.sqrt(wrong.mean(axis=1))
    assert biased > 1.5 * plain
    assert corrected < 1.2 * plain


def made(
    shape: tuple[int, ...] = (9, 8, 6), epsilon: Fraction = Fraction(1), seed: int = 1
) -> tuple[Floats, Transcript, BalancedEstimate]:
    """A table of dependent pairs, what was counted of it with tables, and the estimate."""
    generator = np.random.default_rng(3)
    table = generator.poisson(8 * generator.gamma(0.5, 2.0, shape))
    gate = Gate(table, epsilon, noise=SeededNoise(seed))
    singles = [(axis,) for axis in range(3)]
    units = BUDGET_UNITS // 20
    counted = [
        Marginal(axes, gate.marginal(axes, units), units) for axes in [*singles, *itertools.combinations(range(3), 2)]
    ]
    tree = Adaptive().run(Gate(table, epsilon * Fraction(7, 10), noise=SeededNoise(seed + 1))).boxes
    assert tree is not None
    boxes = BoxCounts(tree.tree, tree.node, tree.counts, (tree.units * 7) // 10)
    transcript = Transcript(shape, gate.epsilon_per_unit, (*counted, boxes))
    found = estimate(transcript)
    assert isinstance(found, BalancedEstimate)
    return table.astype(np.float64), transcript, found


def test_answers_agree_however_they_are_asked() -> None:
    """A range, the same range as a counting query, and the cells; values and errors."""
    _, _, found = made()
    ranges = random_ranges(found.shape, 40, seed=6)
    weights = []
    for axis, extent in enumerate(found.shape):
        place = np.arange(extent)
        inside = (place >= ranges.lower[:, axis, None]) & (place < ranges.upper[:, axis, None])
        weights.append(inside.astype(np.float64))
    queries = CountingQueries(tuple(weights), np.tile(np.arange(40)[:, None], (1, 3)))
    values, errors = found.answers(queries)
    cells = found.cells()
    for k, (low, high) in enumerate(zip(ranges.lower, ranges.upper, strict=True)):
        box = cells[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
        assert values[k] == pytest.approx(box.sum(), rel=1e-9)
    np.testing.assert_allclose(found.values(ranges), values, rtol=1e-9)
    by_range = found.errors(ranges)
    np.testing.assert_allclose(by_range.noise_variances, errors.noise_variances, rtol=1e-6)
    np.testing.assert_allclose(by_range.nonuniformity_squares, errors.nonuniformity_squares, rtol=1e-6, atol=1e-9)


def test_every_pair_and_bar_of_the_cube_agree() -> None:
    _, _, found = made()
    cells = found.cells()
    assert (cells >= 0).all()
    for axes in [(0,), (1, 2)]:
        ranges = cells_of_table(found.shape, axes)
        np.testing.assert_allclose(found.values(ranges), table_over(cells, axes).ravel(), rtol=1e-9, atol=1e-9)


def test_precise_tables_win_and_faint_ones_change_next_to_nothing() -> None:
    table, transcript, found = made()
    measured, tree = found.tables, found.tree
    exact = Components.from_tables(
        found.shape, [NoisyTable(axes, table_over(table, axes), 1e-3) for axes in measured.values if axes]
    )
    moved = BalancedEstimate("balanced", tree, exact).cells()
    for axes in exact.values:
        np.testing.assert_allclose(table_over(moved, axes), table_over(table, axes), rtol=0.02, atol=1.0)
    generator = np.random.default_rng(8)
    faint = [
        NoisyTable(axes, table_over(table, axes) + 3000 * generator.normal(size=measured.values[axes].shape), 9e6)
        for axes in measured.values
        if axes
    ]
    of_faint = BalancedEstimate("balanced", tree, Components.from_tables(found.shape, faint))
    assert (found.moves(), of_faint.moves()) == (True, False)
    kept = of_faint.cells()
    assert np.abs(kept - tree.cells()).sum() < 0.05 * np.abs(moved - tree.cells()).sum() + 0.01 * table.sum()
    assert transcript.most_charged() <= BUDGET_UNITS


@pytest.mark.slow
def test_intervals_of_bars_and_pairs_hold() -> None:
    """Over 60 releases; a twin that states half of its errors is caught by the same numbers."""
    held, halved = [], []
    for seed in range(60):
        table, _, found = made(seed=10 * seed)
        for axes in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]:
            ranges = cells_of_table(found.shape, axes)
            errors = found.errors(ranges)
            wrong = np.abs(found.values(ranges) - table_over(table, axes).ravel())
            stated = np.sqrt(errors.noise_variances + errors.nonuniformity_squares)
            held.append(wrong <= 2.118 * stated)
            halved.append(wrong <= 2.118 * stated / 2)
    assert 0.92 < np.concatenate(held).mean() < 0.995
    assert np.concatenate(halved).mean() < 0.88


def test_very_many_ranges_are_doubted_as_a_few_are() -> None:
    """The tables of every cell, and the walk down the tree, give the same sums."""
    generator = np.random.default_rng(1)
    table = generator.poisson(generator.gamma(0.3, 10.0, (16, 16)))
    found = estimate(Adaptive().run(Gate(table, Fraction(1, 2), noise=SeededNoise(2))))
    assert isinstance(found, PosteriorEstimate)
    ranges = random_ranges((16, 16), 50, seed=4)
    many = found._many_apart(ranges)
    few = found._apart(found._everything.inside(ranges))
    np.testing.assert_allclose(many, few, rtol=1e-6, atol=1e-6)
    assert (many > 0).any()


def test_one_cell_of_a_table_is_a_range() -> None:
    asked = cells_of_table((2, 3, 4), (1,))
    assert isinstance(asked, Workload)
    np.testing.assert_array_equal(asked.lower, [[0, 0, 0], [0, 1, 0], [0, 2, 0]])
    np.testing.assert_array_equal(asked.upper, [[2, 1, 4], [2, 2, 4], [2, 3, 4]])
    assert len(cells_of_table((2, 3, 4), ())) == 1


def test_tables_alike_are_told_together() -> None:
    _, transcript, _ = made()
    alike, together = _tables_alike(transcript.marginals)
    assert [one.what for one in alike] == [
        "every cell of 3 tables over 1 attribute",
        "every cell of 3 tables over 2 attributes",
    ]
    assert [one.counts for one in alike] == [9 + 8 + 6, 9 * 8 + 9 * 6 + 8 * 6]
    assert [one.kind for one in transcript.measurements if id(one) not in together] == ["boxes"]


def test_the_plan_is_told() -> None:
    table = np.random.default_rng(3).poisson(2000, (16, 15))
    release = experiment(table, epsilon="1", strategy="adaptive", noise=SeededNoise(1))
    assert release.transcript.plan == "cells"
    assert "by adaptive (plan: cells)." in account(release).cube


def test_the_error_of_a_moved_answer_has_a_part_of_the_trees_and_a_part_of_the_tables() -> None:
    """By hand, bar by bar: w of the way to the tables leaves (1 - w)^2 of the tree's square and w^2 of the tables'."""
    _, _, found = made()
    for axes in [(0,), (1, 2)]:
        ranges = cells_of_table(found.shape, axes)
        if len(axes) == 1:  # two values each: of a single one the error is that of its own move
            ranges = Workload(found.shape, ranges.lower[:-1], ranges.upper[1:])
        cells = (ranges.upper - ranges.lower).astype(np.float64)
        of_tables = found.tables.question_variances(cells, cells)
        own = found._moved.factors[axes] * found.tree.own_squares(ranges)
        tree, errors = found.tree.errors(ranges), found.errors(ranges)
        for k in range(len(ranges)):
            way = own[k] / (own[k] + of_tables[k])
            noise = max(tree.noise_variances[k], own[k] - tree.nonuniformity_squares[k])
            assert errors.noise_variances[k] == pytest.approx((1 - way) ** 2 * noise + way**2 * of_tables[k])
            assert errors.nonuniformity_squares[k] == pytest.approx((1 - way) ** 2 * tree.nonuniformity_squares[k])
        assert (errors.noise_variances < tree.noise_variances + tree.nonuniformity_squares).any()
    single = found.errors(cells_of_table(found.shape, (0,)))
    np.testing.assert_array_equal(single.noise_variances, found.of_values[0])
    assert not single.nonuniformity_squares.any()


def test_departures_beyond_all_scales_are_real() -> None:
    """A value of a million rows under noise of one: densities of every scale vanish in doubles there."""
    departures = np.zeros(100)
    departures[3] = 1e6
    ((found, variance),) = posterior_signals([Departures(departures, 1.0, np.zeros(100, np.int64))])
    assert found[3] == pytest.approx(1e6, rel=0.02)
    assert np.isfinite(variance).all()
