"""Junction trees against the dense cube that they stand for: tables, weighted sums, fits, and rows drawn from them."""

import itertools
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.arrays import Floats
from dpcube.models.cuboids.beliefs import Beliefs, calibrated, spread, summed, zero_factors
from dpcube.models.cuboids.departures import departure_of
from dpcube.models.cuboids.fitting import CountedTable, fit, pooled, total_of
from dpcube.models.cuboids.junction import CliqueAxes, JunctionTree, model_cells, model_cells_with, table_cells
from dpcube.models.sampling import modelled_groups, stratified

ALL = (0, 1, 2, 3, 4)
Made = tuple[JunctionTree, list[CliqueAxes], list[Floats]]


@st.composite
def models(draw: st.DrawFn) -> Made:
    """A tree of up to five axes with tables of up to three, and a factor for each clique."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=5, max_size=5)))
    some = st.lists(st.sampled_from(ALL), min_size=1, max_size=3, unique=True).map(lambda axes: tuple(sorted(axes)))
    tables = draw(st.lists(some, max_size=6))
    tree = JunctionTree.from_marginals(shape, tables)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    return tree, tables, [generator.normal(0, 3, table.shape) for table in zero_factors(tree)]


def dense(tree: JunctionTree, factors: list[Floats]) -> Floats:
    laid_out = [spread(factor, clique, ALL) for factor, clique in zip(factors, tree.cliques, strict=True)]
    return np.exp(np.broadcast_to(reduce(np.add, laid_out), tree.shape))


@given(models())
def test_a_tree_holds_every_table_and_every_axis_in_one_piece(
    made: Made,
) -> None:
    tree, tables, _ = made
    for table in tables:
        assert set(table) <= set(tree.cliques[tree.home(table)])
    assert tree.cells == model_cells(tree.shape, tables)
    assert tree.parents[0] == -1
    for k, parent in enumerate(tree.parents[1:], start=1):
        assert parent < k
        before = {axis for clique in tree.cliques[:k] for axis in clique}
        # What a clique has in common with any before it, it has in common with its parent.
        assert set(tree.cliques[k]) & before == set(tree.shared[k]) == set(tree.cliques[k]) & set(tree.cliques[parent])
    assert {axis for clique in tree.cliques for axis in clique} == set(ALL)


@settings(max_examples=30)
@given(models())
def test_tables_and_weighted_sums_are_those_of_the_cube(
    made: Made,
) -> None:
    tree, _, factors = made
    cube = dense(tree, factors)
    tables, whole = calibrated(tree, [factor.copy() for factor in factors])
    assert whole == pytest.approx(np.log(cube.sum()))
    cube /= cube.sum()
    beliefs = Beliefs(tree, tables)
    generator = np.random.default_rng(1)
    for many in range(len(ALL) + 1):
        for axes in itertools.combinations(ALL, many):
            np.testing.assert_allclose(beliefs.marginal(axes), summed(cube, ALL, axes), atol=1e-12)
            weights = {axis: generator.normal(size=tree.shape[axis]) for axis in set(ALL) - set(axes) - {3}}
            weighed = reduce(np.multiply, [spread(w, (axis,), ALL) for axis, w in weights.items()], cube)
            np.testing.assert_allclose(beliefs.marginal(axes, weights), summed(weighed, ALL, axes), atol=1e-11)
    several = [axes for many in (2, 1, 3, 2) for axes in itertools.combinations(ALL, many)]
    for axes, table in zip(several, beliefs.marginals(several), strict=True):
        np.testing.assert_allclose(table, summed(cube, ALL, axes), atol=1e-12)


def exact_tables(cube: Floats, tables: list[CliqueAxes], variance: float) -> list[CountedTable]:
    return [CountedTable(axes, summed(cube, ALL, axes), variance) for axes in tables]


@settings(max_examples=15, deadline=None)
@given(models())
def test_a_fit_of_exact_tables_meets_them_and_is_the_most_even(
    made: Made,
) -> None:
    tree, tables, _ = made
    cube = np.random.default_rng(5).gamma(1.0, 40.0, tree.shape) + 1
    given_tables = exact_tables(cube, [*{(axis,) for axis in ALL}, *tables], 1e-6)
    beliefs = fit(tree.shape, given_tables, steps=2000).beliefs
    for table in given_tables:
        np.testing.assert_allclose(beliefs.marginal(table.axes), table.counts, rtol=1e-2, atol=0.01 * cube.sum() ** 0.5)
    # Iterative proportional fitting of an even cube has the same limit.
    even = np.full(tree.shape, cube.sum() / cube.size)
    for _ in range(300):
        for table in given_tables:
            even *= spread(table.counts / summed(even, ALL, table.axes), table.axes, ALL)
    np.testing.assert_allclose(beliefs.marginal(ALL), even, rtol=0.05, atol=0.5)


def test_counts_below_zero_and_noise_leave_a_model_without_either() -> None:
    counts = np.array([[90.0, -30.0], [-5.0, 60.0]])
    beliefs = fit((2, 2), [CountedTable((0, 1), counts, 400.0)]).beliefs
    table = beliefs.marginal((0, 1))
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(115.0)
    assert table[0, 1] < 5


def test_two_tables_over_the_same_axes_count_by_their_precision() -> None:
    one, other = CountedTable((0,), np.array([10.0, 0.0]), 1.0), CountedTable((0,), np.array([40.0, 0.0]), 2.0)
    (both,) = pooled([one, other])
    assert both.counts.tolist() == [20.0, 0.0]
    assert both.variance == pytest.approx(2 / 3)
    assert total_of([one, other]) == pytest.approx(20.0)


def test_rows_have_the_tables_of_the_model() -> None:
    shape = (3, 4, 2, 5, 3)
    tree = JunctionTree.from_marginals(shape, [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)])
    generator = np.random.default_rng(2)
    tables, _ = calibrated(tree, [generator.normal(size=table.shape) for table in zero_factors(tree)])
    beliefs = Beliefs(tree, tuple(1000 * table for table in tables))
    rows = modelled_groups(beliefs, 20_000, generator)
    for axes in tree.cliques:
        place = np.ravel_multi_index([rows[axis] for axis in axes], [shape[axis] for axis in axes])
        seen = np.bincount(place, minlength=table_cells(shape, axes)) / 20
        # Strata leave less than independent draws would: a twentieth of 20,000 rows has deviations of up to 7 there.
        np.testing.assert_allclose(seen, beliefs.marginal(axes).reshape(-1), atol=4)


@given(seed=st.integers(0, 2**32), ways=st.integers(1, 6), rows=st.integers(0, 50))
def test_every_row_gets_a_way_that_is_possible(seed: int, ways: int, rows: int) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.random((4, ways)) * (generator.random((4, ways)) < 0.5)
    condition = generator.integers(0, 4, rows)
    drawn = stratified(weights, condition, generator)
    assert drawn.shape == (rows,)
    assert ((drawn >= 0) & (drawn < ways)).all()
    possible = weights.sum(axis=1)[condition] > 0
    assert (weights[condition, drawn][possible] > 0).all()


def test_a_stratum_is_met_to_less_than_two_rows() -> None:
    generator = np.random.default_rng(0)
    weights = np.array([[1.0, 2.0, 5.0], [0.0, 1.0, 0.0]])
    condition = np.repeat([0, 1], [80, 7])
    drawn = stratified(weights, condition, generator)
    assert np.abs(np.bincount(drawn[:80]) - [10, 20, 50]).max() < 2
    assert (drawn[80:] == 1).all()


def test_what_tables_depart_by_is_told_by_those_held_out() -> None:
    """Two attributes that are the same, which no table but the last can tell."""
    shape, even = (4, 4, 2), np.full(4, 250.0)
    ones = [
        CountedTable((0,), even, 1.0),
        CountedTable((1,), even, 1.0),
        CountedTable((2,), np.array([500.0, 500.0]), 1.0),
    ]
    plain = CountedTable((0, 2), np.full((4, 2), 125.0), 1.0)
    alike = CountedTable((0, 1), np.diag(even), 1.0)
    far = departure_of(shape, ones, [plain, plain, alike], selected=False)
    unlike = CountedTable((0, 1), np.full((4, 4), 62.5), 1.0)
    near = departure_of(shape, ones, [plain, plain, unlike], selected=False)
    assert far is not None
    assert near is not None
    assert far.of_cells > 100 * max(near.of_cells, 0.01)
    assert far.of_halves > 0.5 > near.of_halves


def test_of_few_tables_those_that_were_selected_tell() -> None:
    shape, even = (4, 4), np.full(4, 250.0)
    ones = [CountedTable((axis,), even, 1.0) for axis in range(2)]
    alike = CountedTable((0, 1), np.diag(even), 1.0)
    found = departure_of(shape, ones, [alike], selected=True)
    assert found is not None
    assert found.of_halves > 0.5
    assert departure_of(shape, ones, [alike] * 2, selected=False) is None
    assert departure_of(shape, ones, ones, selected=True) is None  # tables of one attribute say nothing of pairs


@pytest.mark.parametrize("seed", range(5))
def test_the_cells_of_many_models_are_those_of_each(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shape = tuple(generator.integers(1, 9, 12).tolist())
    pairs = list(itertools.combinations(range(12), 2))
    tables: list[CliqueAxes] = [pairs[k] for k in generator.permutation(len(pairs))[: 4 * seed]]
    found = model_cells_with(shape, [*tables, (0, 3, 7)], pairs)
    assert found.tolist() == [model_cells(shape, [*tables, (0, 3, 7), pair]) for pair in pairs]
