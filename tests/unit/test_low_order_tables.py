"""Tables over one and two attributes before the tree: which, with how much, and that they are in the transcript."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.counter import BUDGET_UNITS
from dpcube.curator.gate import Gate
from dpcube.estimate.estimators import available, estimate
from dpcube.strategy import Adaptive
from dpcube.strategy.adaptive import FAINT
from dpcube.strategy.marginals import axes_of_tables, count_tables, peak_bytes_of_tables, share_of_tables
from dpcube.strategy.worth_of_tables import PILOT
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.transcript import MarginalCounts, Transcript


def run(shape: tuple[int, ...], epsilon: Fraction = Fraction(1)) -> Transcript:
    counts = np.random.default_rng(4).integers(0, 9, shape)
    return Adaptive().run(Gate(counts, epsilon, noise=SeededNoise(1)))


def tables(transcript: Transcript) -> list[MarginalCounts]:
    return [kept for kept in transcript.measurements if isinstance(kept, MarginalCounts)]


@pytest.mark.parametrize(("attributes", "share"), [(3, 0.17), (4, 0.29), (5, 0.40), (6, 0.50), (8, 0.65)])
def test_the_more_pairs_the_larger_their_share(attributes: int, share: float) -> None:
    shape = (3,) * attributes
    counted = count_tables(Gate(np.ones(shape, np.int64), Fraction(1), noise=SilentNoise()), share_of_tables(shape))
    assert sum(table.units for table in counted) / BUDGET_UNITS == pytest.approx(share, abs=0.005)
    ones, twos = ([table for table in counted if len(table.axes) == way] for way in (1, 2))
    assert len(ones) == attributes
    assert len(twos) == attributes * (attributes - 1) // 2
    for way in (ones, twos):
        assert len({table.units for table in way}) == 1
    assert 3 * sum(table.units for table in ones) == pytest.approx(sum(table.units for table in twos))


def test_the_tables_are_those_of_the_counts() -> None:
    exact = np.arange(60).reshape(5, 4, 3)
    for table in count_tables(Gate(exact, Fraction(1), noise=SilentNoise()), Fraction(1, 2)):
        others = tuple({0, 1, 2} - set(table.axes))
        np.testing.assert_array_equal(table.counts, exact.sum(axis=others))


@pytest.mark.parametrize("shape", [(40,), (6, 7), (6, 7, 1), (1, 1, 1, 1), (9, 1, 9, 1)])
def test_fewer_than_three_attributes_that_tell_anything_have_no_tables(shape: tuple[int, ...]) -> None:
    assert axes_of_tables(shape) == ([], [])
    assert not tables(run(shape))


def test_pairs_nearly_as_large_as_the_cube_are_left_out() -> None:
    singles, pairs = axes_of_tables((30, 20, 2))
    assert singles == [(0,), (1,), (2,)]
    assert pairs == [(0, 1), (0, 2), (1, 2)]  # 600 of 1,200 cells are half
    assert axes_of_tables((4, 3, 2, 1)) == ([(0,), (1,), (2,)], [(0, 1), (0, 2), (1, 2)])


def test_a_large_epsilon_counts_plain_cells_and_a_tiny_one_no_tables() -> None:
    assert [kept.kind for kept in run((4, 4, 4), Fraction(6)).measurements] == ["cells"]
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
        alike = alike + generator.normal(0, 0.5, sides)
    lonely = np.zeros(shape, np.int64)
    lonely[tuple(generator.integers(0, side, 12) for side in shape)] = 20_000
    spent = []
    for table in (generator.poisson(30_000 * np.exp(alike) / np.exp(alike).sum()), lonely):
        transcript = Adaptive(queries="groups").run(Gate(table, Fraction(1), noise=SeededNoise(2)))
        spent.append(sum(one.units for one in tables(transcript)) / BUDGET_UNITS)
    assert spent == [pytest.approx(float(share_of_tables(shape)), abs=1e-6), pytest.approx(float(PILOT), abs=1e-6)]


def test_memory_is_announced_for_the_tables() -> None:
    assert peak_bytes_of_tables((50, 40)) == 0
    announced = peak_bytes_of_tables((50, 40, 30))
    assert announced == 16 * (50 + 40 + 30 + 50 * 40 + 50 * 30 + 40 * 30)
    counted = count_tables(Gate(np.ones((50, 40, 30), np.int64), Fraction(1), noise=SilentNoise()), Fraction(1, 2))
    held = sum(table.counts.nbytes for table in counted)
    assert 2 * held == announced
    assert math.prod((50, 40, 30)) * 16 > announced
