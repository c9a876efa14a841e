"""One-way and two-way marginals before the tree: which, with how much, and that they are in the transcript."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.gate import Gate
from dpcube.measurements import Marginal, Transcript
from dpcube.models.estimators import available, estimate
from dpcube.queries.workload_model import WorkloadModel
from dpcube.research.tables import classes
from dpcube.strategies import Adaptive
from dpcube.strategies.adaptive import FAINT, MANY_VALUES
from dpcube.strategies.marginals import (
    MAX_PAIRS_SHARE,
    count_pairs,
    pairs_of_attributes,
    peak_bytes_of_tables,
    shares_of_pairs,
)
from dpcube.strategies.one_way import (
    COST_TO_CELLS,
    LARGEST_SHARE,
    OF_RANGES,
    SMALLEST_SHARE,
    count_one_way,
    count_same_marginals,
    counts_one_way,
    one_way_shares,
)
from dpcube.strategies.partial_tree import PartialTree
from dpcube.strategies.refinement import level_shares, refinement_levels
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.halving import depth


def run(shape: tuple[int, ...], epsilon: Fraction = Fraction(1)) -> Transcript:
    counts = np.random.default_rng(4).integers(0, 9, shape)
    return Adaptive().run(Gate(counts, epsilon, noise=SeededNoise(1)))


def tables(transcript: Transcript) -> list[Marginal]:
    return [kept for kept in transcript.measurements if isinstance(kept, Marginal)]


@pytest.mark.parametrize(("attributes", "share"), [(3, 0.125), (4, 0.214), (5, 0.30), (6, 0.375), (8, 0.488)])
def test_the_more_pairs_the_larger_their_share(attributes: int, share: float) -> None:
    shape = (3,) * attributes
    counted = count_pairs(Gate(np.ones(shape, np.int64), Fraction(1), noise=SilentNoise()), shares_of_pairs(shape)[1])
    assert sum(table.units for table in counted) / BUDGET_UNITS == pytest.approx(share, abs=0.005)
    assert [table.axes for table in counted] == list(itertools.combinations(range(attributes), 2))
    assert len({table.units for table in counted}) == 1


def test_very_many_pairs_leave_the_tree_its_part() -> None:
    before = Fraction(1, 2)
    none, some, most = shares_of_pairs((2,) * 20, before=before)
    assert [none, most] == [Fraction(0), MAX_PAIRS_SHARE * (1 - before)]
    assert 0.9 * most < some < most
    transcript = run((2,) * 12, Fraction(1, 10))
    assert transcript.boxes is not None
    of_ones = sum(table.units for table in tables(transcript) if len(table.axes) == 1)
    of_pairs = sum(table.units for table in tables(transcript) if len(table.axes) == 2)
    assert of_pairs <= MAX_PAIRS_SHARE * (BUDGET_UNITS - of_ones)
    assert transcript.most_charged() == BUDGET_UNITS


def test_a_tree_that_is_left_little_pays_for_its_total_and_every_level() -> None:
    """The total was counted with a share of all of epsilon, which is much of a tree's part beside many marginals."""
    for attributes, epsilon in itertools.product((6, 8, 10), (Fraction(1, 1000), Fraction(1, 10))):
        transcript = run((2,) * attributes, epsilon)
        assert transcript.boxes is not None
        assert np.isin(transcript.boxes.tree.leaves, transcript.boxes.node).all()
        assert transcript.most_charged() <= BUDGET_UNITS


def test_the_levels_of_a_tree_get_no_more_than_it_has_left() -> None:
    gate = Gate(np.full((8, 8, 8), 5), Fraction(1, 10), noise=SeededNoise(1))
    model = WorkloadModel(gate.shape, ("mixed",) * 3, None)
    partial = PartialTree(gate, model.cut_order())
    partial.count_total(Fraction(4, 100))
    partial.set_aside(BUDGET_UNITS * 9 // 10)
    shares = level_shares(partial, model, refinement_levels(depth(gate.shape)))
    assert 0 < sum(shares) * partial.whole < int(partial.left.min())


def test_the_tables_are_those_of_the_counts() -> None:
    exact = np.arange(60).reshape(5, 4, 3)
    gate = Gate(exact, Fraction(1), noise=SilentNoise())
    counted = [*count_one_way(gate, [Fraction(1, 12)] * 3), *count_pairs(gate, Fraction(1, 2))]
    assert [table.axes for table in counted] == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    for table in counted:
        others = tuple({0, 1, 2} - set(table.axes))
        np.testing.assert_array_equal(table.counts, exact.sum(axis=others))


@pytest.mark.parametrize("shape", [(40,), (6, 7), (6, 7, 1), (1, 1, 1, 1), (9, 1, 9, 1)])
def test_two_attributes_with_an_order_have_no_tables(shape: tuple[int, ...]) -> None:
    assert pairs_of_attributes(shape) == []
    assert not counts_one_way(shape, ("mixed",) * len(shape))
    assert not tables(run(shape))


def test_of_two_attributes_marginals_are_counted_if_one_has_no_order() -> None:
    assert counts_one_way((6, 7), ("mixed", "groups"))
    assert not counts_one_way((6, 1), ("groups", "groups"))
    domain = Domain(Integer("a", 0, 39), Category("b", [f"v{k}" for k in range(30)]))
    gate = Gate(np.ones(domain.shape, np.int64), Fraction(1, 10), noise=SeededNoise(1))
    found = tables(Adaptive().for_domain(domain).run(gate))
    assert [table.axes for table in found] == [(0,), (1,)]
    assert sum(table.units for table in found) / BUDGET_UNITS == pytest.approx(LARGEST_SHARE, abs=1e-6)


def test_sparse_marginals_share_two_fifths_by_fourth_roots_of_their_values() -> None:
    shares = one_way_shares((16, 81, 1, 2**14), (True,) * 4, epsilon=0.1, total=1000.0)
    assert sum(shares) == pytest.approx(LARGEST_SHARE)
    assert shares[2] == 0
    assert float(shares[1] / shares[0]) == pytest.approx(3 / 2)
    assert float(shares[3] / shares[0]) == pytest.approx(1024**0.25 / 2)  # no more than 1,024 values count


def test_the_denser_the_cells_the_less_the_marginals_get() -> None:
    shape, epsilon = (128, 64, 32), 0.1
    cells = math.prod(shape) / epsilon
    spent = [
        sum(one_way_shares(shape, (True,) * 3, epsilon=epsilon, total=of * cells)) for of in (0.1, 0.3, 1, 3, 10, 99)
    ]
    assert spent[:2] == [pytest.approx(LARGEST_SHARE)] * 2
    assert spent[1] > spent[2] > spent[3] > spent[4]
    assert spent[4:] == [pytest.approx(SMALLEST_SHARE)] * 2
    assert sum(one_way_shares(shape, (True,) * 3, epsilon=3.0, total=1e9)) == pytest.approx(COST_TO_CELLS / 3)
    assert sum(one_way_shares(shape, (True,) * 3, epsilon=3.0, total=0.0)) == pytest.approx(LARGEST_SHARE)


def test_a_marginal_that_sums_of_clear_cells_state_better_is_not_counted() -> None:
    assert not any(one_way_shares((10, 10, 10), (True,) * 3, epsilon=1.0, total=1e9))  # each a tenth of the cells
    of_many, of_few = one_way_shares((3000, 4), (True, True), epsilon=1.0, total=1e9)
    assert of_many == 0  # half of the cube: its cells state it
    assert of_few > 1 / 100


def test_attributes_of_which_only_ranges_are_declared_keep_a_quarter() -> None:
    every = one_way_shares((50, 40, 30), (True,) * 3, epsilon=0.1, total=100.0)
    some = one_way_shares((50, 40, 30), (False, True, True), epsilon=0.1, total=100.0)
    assert some == [OF_RANGES * every[0], every[1], every[2]]
    counts = np.ones((50, 40, 30), np.int64)
    for queries, part in (("mixed", 1), ("groups", 1), ("ranges", OF_RANGES), ("prefixes", OF_RANGES)):
        gate = Gate(counts, Fraction(1, 100), noise=SeededNoise(1))
        found = [table for table in tables(Adaptive(queries=queries).run(gate)) if len(table.axes) == 1]
        assert sum(table.units for table in found) / BUDGET_UNITS == pytest.approx(
            float(part * LARGEST_SHARE), abs=1e-6
        )


def test_questions_on_ranges_leave_values_without_an_order_their_share() -> None:
    domain = Domain(Integer("a", 0, 39), Category("b", [f"v{k}" for k in range(30)]), Integer("c", 0, 19))
    strategy = Adaptive(questions=("a between 3 and 9", "c <= 4 and b = 'v3'")).for_domain(domain)
    gate = Gate(np.ones(domain.shape, np.int64), Fraction(1, 100), noise=SeededNoise(1))
    units = {table.axes: table.units for table in tables(strategy.run(gate))}
    whole = one_way_shares(domain.shape, (True,) * 3, epsilon=0.01, total=0.0)
    for axis, part in ((0, OF_RANGES), (1, 1), (2, OF_RANGES)):
        assert units[axis,] / BUDGET_UNITS == pytest.approx(float(part * whole[axis]), abs=1e-6)


def test_a_release_for_a_target_counts_no_one_way_marginals() -> None:
    domain = Domain(Integer("a", 0, 9), Category("b", ["x", "y"]), Integer("c", 0, 7))
    gate = Gate(np.ones(domain.shape, np.int64), Fraction(1, 100), noise=SeededNoise(1))
    found = tables(Adaptive(target="b").for_domain(domain).run(gate))
    assert [table.axes for table in found] == [(0, 1), (1, 2)]


def test_marginals_are_counted_alike_by_another_counter() -> None:
    first = count_one_way(Gate(np.ones((4, 3), np.int64), Fraction(1), noise=SilentNoise()), [Fraction(1, 8)] * 2)
    again = count_same_marginals(Gate(np.full((4, 3), 2), Fraction(1), noise=SilentNoise()), first)
    assert [(one.axes, one.units) for one in again] == [(one.axes, one.units) for one in first]
    np.testing.assert_array_equal(again[0].counts, np.full(4, 6))


def test_many_values_of_one_category_alone_are_counted_one_by_one() -> None:
    def released(values: int, *, ordered: bool) -> Transcript:
        domain = Domain(Category("a", [f"v{k}" for k in range(values)], ordered=ordered))
        gate = Gate(np.zeros(values, np.int64), Fraction(1, 10), noise=SeededNoise(1))
        return Adaptive().for_domain(domain).run(gate)

    transcript = released(MANY_VALUES + 1, ordered=False)
    assert transcript.plan == "cells"
    assert transcript.most_charged() == BUDGET_UNITS
    assert transcript.boxes is not None
    assert (transcript.boxes.tree.sizes[transcript.boxes.node] == 1).sum() == MANY_VALUES + 1
    assert "cells" not in (released(MANY_VALUES, ordered=False).plan, released(1000, ordered=True).plan)


def test_a_large_epsilon_counts_plain_cells_and_a_tiny_one_no_tables() -> None:
    plain = run((4, 4, 4), Fraction(6))
    assert plain.measurements == (plain.cells,)
    assert [kept.kind for kept in run((4, 4, 4), FAINT / 2).measurements] == ["boxes"]


@pytest.mark.slow
@settings(deadline=None, max_examples=20, derandomize=True)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.sampled_from([Fraction(1, 10**6), FAINT, Fraction(2)]))
def test_tables_and_tree_spend_no_more_than_there_is_and_can_be_estimated(sides: list[int], epsilon: Fraction) -> None:
    transcript = run(tuple(sides), epsilon)
    assert transcript.most_charged() <= BUDGET_UNITS
    assert transcript.boxes is not None
    # Boxes are counted with what is left, to the unit: the poorest cell has nothing.
    assert transcript.most_charged() == BUDGET_UNITS
    assert available(transcript)[0] == "balanced"
    assert np.isfinite(estimate(transcript).cells()).all()


def test_many_attributes_and_the_smallest_epsilon_do_not_fail() -> None:
    transcript = run((2,) * 12, Fraction(1, 10**6))
    assert transcript.most_charged() == BUDGET_UNITS


@pytest.mark.slow
def test_two_way_marginals_get_a_large_share_where_they_state_the_table_and_a_small_one_elsewhere() -> None:
    """A mixture of classes of independent attributes, which pairs state well; and rows at a few places of a cube."""
    generator, shape = np.random.default_rng(3), (12, 11, 10, 9, 4, 2)
    weights = classes(shape, generator)
    mixture = generator.multinomial(60_000, weights.ravel() / weights.sum()).reshape(shape).astype(np.int64)
    lonely = np.zeros((14, 13, 12, 11), np.int64)
    lonely[tuple(generator.integers(0, side, 12) for side in lonely.shape)] = 20_000
    for table, seed, large in ((mixture, 2, True), (mixture, 3, True), (lonely, 2, False), (lonely, 3, False)):
        transcript = Adaptive().run(Gate(table, Fraction(1), noise=SeededNoise(seed)))
        of_ones, of_pairs = (sum(one.units for one in tables(transcript) if len(one.axes) == way) for way in (1, 2))
        assert 0 < of_ones <= LARGEST_SHARE * BUDGET_UNITS
        _, some, most = shares_of_pairs(table.shape, before=Fraction(of_ones, BUDGET_UNITS))
        assert (
            (of_pairs > 0.99 * some * BUDGET_UNITS)
            if large
            else (of_pairs < 1.01 * some * BUDGET_UNITS < most * BUDGET_UNITS)
        )


def test_memory_is_announced_for_the_tables() -> None:
    assert peak_bytes_of_tables((50, 40)) == 16 * 90
    announced = peak_bytes_of_tables((50, 40, 30))
    assert announced == 16 * (50 + 40 + 30 + 50 * 40 + 50 * 30 + 40 * 30)
    gate = Gate(np.ones((50, 40, 30), np.int64), Fraction(1), noise=SilentNoise())
    counted = [*count_one_way(gate, [Fraction(1, 12)] * 3), *count_pairs(gate, Fraction(1, 2))]
    assert 2 * sum(table.counts.nbytes for table in counted) == announced
