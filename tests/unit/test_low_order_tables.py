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
from dpcube.strategies import Adaptive
from dpcube.strategies.adaptive import FAINT, MANY_VALUES
from dpcube.strategies.marginal_selection import PILOT_SHARE
from dpcube.strategies.marginals import (
    MIN_TREE_SHARE,
    count_pairs,
    pairs_of_attributes,
    peak_bytes_of_tables,
    share_of_pairs,
)
from dpcube.strategies.one_way import (
    COST_TO_CELLS,
    OF_RANGES,
    SPARSE_SHARE,
    count_one_way,
    count_same_marginals,
    counts_one_way,
    one_way_shares,
)
from dpcube.testing import SeededNoise, SilentNoise


def run(shape: tuple[int, ...], epsilon: Fraction = Fraction(1)) -> Transcript:
    counts = np.random.default_rng(4).integers(0, 9, shape)
    return Adaptive().run(Gate(counts, epsilon, noise=SeededNoise(1)))


def tables(transcript: Transcript) -> list[Marginal]:
    return [kept for kept in transcript.measurements if isinstance(kept, Marginal)]


@pytest.mark.parametrize(("attributes", "share"), [(3, 0.125), (4, 0.214), (5, 0.30), (6, 0.375), (8, 0.488)])
def test_the_more_pairs_the_larger_their_share(attributes: int, share: float) -> None:
    shape = (3,) * attributes
    counted = count_pairs(Gate(np.ones(shape, np.int64), Fraction(1), noise=SilentNoise()), share_of_pairs(shape))
    assert sum(table.units for table in counted) / BUDGET_UNITS == pytest.approx(share, abs=0.005)
    assert [table.axes for table in counted] == list(itertools.combinations(range(attributes), 2))
    assert len({table.units for table in counted}) == 1


def test_very_many_pairs_leave_the_tree_its_part() -> None:
    assert share_of_pairs((2,) * 20, before=SPARSE_SHARE) == 1 - SPARSE_SHARE - MIN_TREE_SHARE
    transcript = run((2,) * 12, Fraction(1, 10))
    assert transcript.boxes is not None
    spent = sum(table.units for table in tables(transcript))
    assert spent <= (1 - MIN_TREE_SHARE) * BUDGET_UNITS
    assert transcript.most_charged() == BUDGET_UNITS


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
    assert sum(table.units for table in found) / BUDGET_UNITS == pytest.approx(1 / 3, abs=1e-6)


def test_sparse_marginals_share_a_third_by_fourth_roots_of_their_values() -> None:
    shares = one_way_shares((16, 81, 1, 2**14), (True,) * 4, epsilon=0.1, total=1000.0)
    assert sum(shares) == pytest.approx(SPARSE_SHARE)
    assert shares[2] == 0
    assert float(shares[1] / shares[0]) == pytest.approx(3 / 2)
    assert float(shares[3] / shares[0]) == pytest.approx(1024**0.25 / 2)  # no more than 1,024 values count


def test_dense_marginals_are_thrice_as_precise_as_sums_of_cells_and_take_little() -> None:
    shares = one_way_shares((4, 100, 100), (True,) * 3, epsilon=0.1, total=1e9)
    assert float(shares[1]) == pytest.approx(3 * math.sqrt(100 / 40_000) * 0.25 / (2 * 0.15 + 1 / 15))
    assert sum(shares) == pytest.approx(0.25)
    large = one_way_shares((4, 100, 100), (True,) * 3, epsilon=1.0, total=1e9)
    assert sum(large) == pytest.approx(COST_TO_CELLS)
    assert not any(one_way_shares((4, 100, 100), (True,) * 3, epsilon=4.0, total=1e9))  # none would be as precise
    of_many, of_few = one_way_shares((3000, 4), (True, True), epsilon=1.0, total=1e9)
    assert of_many == 0  # half of the cube: its cells state it
    assert float(of_few) == pytest.approx(1 / 15)


def test_attributes_of_which_only_ranges_are_declared_keep_a_quarter() -> None:
    every = one_way_shares((50, 40, 30), (True,) * 3, epsilon=0.1, total=100.0)
    some = one_way_shares((50, 40, 30), (False, True, True), epsilon=0.1, total=100.0)
    assert some == [OF_RANGES * every[0], every[1], every[2]]
    counts = np.ones((50, 40, 30), np.int64)
    for queries, part in (("mixed", 1), ("groups", 1), ("ranges", OF_RANGES), ("prefixes", OF_RANGES)):
        gate = Gate(counts, Fraction(1, 100), noise=SeededNoise(1))
        found = [table for table in tables(Adaptive(queries=queries).run(gate)) if len(table.axes) == 1]
        assert sum(table.units for table in found) / BUDGET_UNITS == pytest.approx(float(part / 3), abs=1e-6)


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
def test_tables_get_their_share_where_they_are_worth_it_and_a_pilot_elsewhere() -> None:
    """Pairs of categories that depend on each other and nothing more; and rows at a few places of the same cube."""
    generator, shape = np.random.default_rng(3), (14, 13, 12, 11)
    alike = np.zeros(shape)
    for axes in itertools.combinations(range(4), 2):
        sides = [side if axis in axes else 1 for axis, side in enumerate(shape)]
        alike = alike + generator.normal(0, 1.0, sides)
    lonely = np.zeros(shape, np.int64)
    lonely[tuple(generator.integers(0, side, 12) for side in shape)] = 20_000
    spent = []
    for table in (generator.poisson(30_000 * np.exp(alike) / np.exp(alike).sum()), lonely):
        transcript = Adaptive(queries="groups").run(Gate(table, Fraction(1), noise=SeededNoise(2)))
        by_way = [sum(one.units for one in tables(transcript) if len(one.axes) == way) for way in (1, 2)]
        spent.append((by_way[0] / BUDGET_UNITS, by_way[1] / BUDGET_UNITS))
    share, ones = float(share_of_pairs(shape)), [of_ones for of_ones, _ in spent]
    assert all(0 < of <= SPARSE_SHARE for of in ones)
    assert [of for _, of in spent] == [pytest.approx(share, abs=1e-6), pytest.approx(float(PILOT_SHARE), abs=1e-6)]


def test_memory_is_announced_for_the_tables() -> None:
    assert peak_bytes_of_tables((50, 40)) == 16 * 90
    announced = peak_bytes_of_tables((50, 40, 30))
    assert announced == 16 * (50 + 40 + 30 + 50 * 40 + 50 * 30 + 40 * 30)
    gate = Gate(np.ones((50, 40, 30), np.int64), Fraction(1), noise=SilentNoise())
    counted = [*count_one_way(gate, [Fraction(1, 12)] * 3), *count_pairs(gate, Fraction(1, 2))]
    assert 2 * sum(table.counts.nbytes for table in counted) == announced
