"""Blocks: no matching pair of values falls outside the candidates; the number of boxes weighs what padding costs."""

from datetime import date
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.boxes import Partitioning
from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import InputError
from dpcube.core.padding import padding_shift
from dpcube.curator.publishing import count
from dpcube.link.blocking import BlockFile, BlockPlan, candidate_pairs, plan_boxes
from dpcube.link.limits import MAX_PLANNED_BLOCKS
from dpcube.link.linking import LinkCost, compared_pairs, link_quality, reduction_ratio
from dpcube.link.rules import MatchingRules
from dpcube.research.tables import experiment
from dpcube.testing import SeededNoise

PEOPLE = Domain(Integer("year", 1920, 1999), Category("state", list("abcd"), null="cell"))


def even_cells(domain: Domain, rows: float) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    return np.full(domain.shape, rows / domain.size)


@pytest.mark.parametrize("shift", [14, 27, 132])
def test_the_number_of_boxes_is_near_the_best_for_even_rows(shift: int) -> None:
    """For equal blocks n m / B + k (n + m) + B k^2 is least at B = sqrt(n m) / k."""
    rows = 5000.0
    plan = plan_boxes(PEOPLE, even_cells(PEOPLE, rows), reach=(0, 0), shift=shift)
    best = rows**2 / (rows / shift) + 2 * shift * rows + rows / shift * shift**2
    assert plan.pairs <= 1.1 * best
    assert 0.6 * rows / shift <= len(plan) <= 1.5 * rows / shift
    assert plan.pairs_without == (rows + shift) ** 2


def test_padding_that_costs_more_than_blocks_save_leaves_one_block() -> None:
    assert len(plan_boxes(PEOPLE, even_cells(PEOPLE, 100), reach=(0, 0), shift=132)) == 1


def test_rounds_of_messages_take_fewer_boxes() -> None:
    """With r for each pair of blocks, n m / B + B (k^2 + r) is least at B = sqrt(n m / (k^2 + r))."""
    for rounds, best in ((0.0, 185), (8192.0, 53), (1e9, 1)):
        plan = plan_boxes(PEOPLE, even_cells(PEOPLE, 5000), reach=(0, 0), shift=27, rounds=rounds)
        assert 0.6 * best <= len(plan) <= 1.5 * best


def test_more_padding_never_takes_more_boxes() -> None:
    found = [len(plan_boxes(PEOPLE, even_cells(PEOPLE, 5000), reach=(0, 0), shift=k)) for k in (5, 14, 27, 132, 1000)]
    assert found == sorted(found, reverse=True)


def test_no_more_boxes_than_can_be_looked_at() -> None:
    domain = Domain(Integer("x", 0, 4999))
    assert len(plan_boxes(domain, even_cells(domain, 1e7), reach=(0,), shift=1)) == MAX_PLANNED_BLOCKS


def test_noise_that_is_negative_or_nothing_at_all_still_gives_boxes() -> None:
    nothing = -np.ones(PEOPLE.shape)
    for other_rows in (None, 0.0, 1e6):
        plan = plan_boxes(PEOPLE, nothing, reach=(0, 0), shift=10, other_rows=other_rows)
        assert len(plan) == 1


def test_a_reach_for_each_attribute_is_needed() -> None:
    with pytest.raises(InputError, match="reach needs one number for each of the 2 attributes"):
        plan_boxes(PEOPLE, even_cells(PEOPLE, 10), reach=(0,), shift=10)


DOMAINS = {
    "whole": Domain(Integer("x", 0, 59, width=7, null="cell"), Category("c", ["a", "b"])),
    "real": Domain(Float("x", 0, 60, width=7.5), Category("c", ["a", "b"])),
    "days": Domain(Date("x", date(2020, 1, 1), date(2020, 2, 29), every="week"), Category("c", ["a", "b"])),
}
START = {"whole": 0, "real": 0, "days": date(2020, 1, 1).toordinal()}


def cell_of(domain: Domain, value: float, category: int) -> int:
    """The flat number of a cell, as an oracle of its own."""
    edges = domain.attributes[0].bin_edges()
    return int(np.searchsorted(edges, value, side="right") - 1) * domain.shape[1] + category


@pytest.mark.parametrize("kind", list(DOMAINS))
@given(
    pair=st.tuples(st.integers(0, 59), st.integers(0, 59)),
    reach=st.integers(0, 70),
    shift=st.integers(1, 40),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_values_that_may_match_are_in_candidate_blocks(
    kind: str, pair: tuple[int, int], reach: int, shift: int, seed: int
) -> None:
    domain = DOMAINS[kind]
    cells = np.random.default_rng(seed).integers(0, 200, domain.shape).astype(np.float64)
    plan = plan_boxes(domain, cells, reach=(reach, 0), shift=shift)
    candidates = {tuple(one) for one in plan.candidates().tolist()}
    if abs(pair[0] - pair[1]) <= reach:
        for category in (0, 1):
            left, right = (plan.block_of(np.array([cell_of(domain, START[kind] + v, category)]))[0] for v in pair)
            assert (left, right) in candidates
            assert (right, left) in candidates


def test_boxes_that_are_further_apart_are_no_candidates() -> None:
    """Years 1920-1929, 1930-1939, ...: with a reach of 1 neighbours only, with 12 also those one further."""
    domain = Domain(Integer("year", 1920, 1969))
    lower = np.arange(0, 50, 10)[:, None]
    boxes = Partitioning(domain.shape, lower, lower + 10)
    for reach, apart in ((0, 0), (0.5, 0), (1, 1), (10, 1), (11, 2), (20, 2), (21, 3)):
        found = {tuple(one) for one in candidate_pairs(domain, boxes, (reach,)).tolist()}
        assert found == {(i, j) for i, j in product(range(5), repeat=2) if abs(i - j) <= apart}, reach


def test_a_cell_of_its_own_is_near_nothing_but_itself() -> None:
    domain = Domain(Integer("x", 0, 3, null="cell"))
    boxes = Partitioning(domain.shape, np.array([[0], [2], [4]]), np.array([[2], [4], [5]]))
    found = {tuple(one) for one in candidate_pairs(domain, boxes, (100,)).tolist()}
    assert found == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)}


def test_records_go_to_the_box_that_counts_them() -> None:
    """The blocks' sizes are the sums of the counts that the sources make of the same rows."""
    rng = np.random.default_rng(5)
    table = pa.table({"year": rng.integers(1910, 2005, 500), "state": rng.choice(["a", "b", "c", "d", "e"], 500)})
    counts = count(table, PEOPLE)
    plan = plan_boxes(PEOPLE, counts.astype(np.float64), reach=(0, 0), shift=5)
    cells = np.repeat(np.arange(PEOPLE.size), counts.reshape(-1))
    sizes = np.bincount(plan.block_of(cells), minlength=len(plan))
    expected = [
        int(counts[tuple(map(slice, low, high))].sum())
        for low, high in zip(plan.boxes.lower, plan.boxes.upper, strict=True)
    ]
    assert sizes.tolist() == expected
    assert isinstance(plan, BlockPlan)


def test_the_golden_reduction_ratio() -> None:
    left, right = np.array([3, 1, 0]), np.array([2, 0, 5])
    assert reduction_ratio(left, right) == pytest.approx(1 - 6 / 28)
    assert round(reduction_ratio(left, right), 6) == 0.785714
    assert compared_pairs(left, right) == 6


def test_padding_and_more_candidates_lower_the_reduction_ratio_even_below_zero() -> None:
    left, right = np.array([3, 1, 0]), np.array([2, 0, 5])
    assert reduction_ratio(left + 10, right + 10, records=(4, 7)) == pytest.approx(
        1 - (13 * 12 + 11 * 10 + 10 * 15) / 28
    )
    every = np.argwhere(np.ones((3, 3)))
    assert reduction_ratio(left, right, every) == 0
    with pytest.raises(InputError, match="at least one record on both sides"):
        reduction_ratio(left, np.zeros(3, np.int64))
    with pytest.raises(InputError, match="same number of block sizes"):
        compared_pairs(left, right[:2])


def test_sizes_whose_product_has_no_64_bits_are_multiplied_exactly() -> None:
    huge = np.array([2**40])
    assert compared_pairs(huge, huge) == 2**80


def test_quality_and_cost() -> None:
    quality = link_quality([(1, "a"), (2, "b"), (2, "b")], [(1, "a"), (3, "c"), (4, "d")])
    assert [quality.recall, quality.precision, quality.f1] == pytest.approx([1 / 3, 0.5, 0.4])
    assert link_quality([], []).f1 == 1
    cost = LinkCost(pairs=100, pairs_without=5000, sent_bytes=6, seconds=2)
    assert (cost.seconds_without, cost.bytes_without) == (100, 300)
    assert cost.as_dict()["extrapolated_seconds_without_blocking"] == 100
    assert LinkCost(0, 10, 0, 1).seconds_without == 0


def test_a_plan_is_made_for_the_rows_and_rounds_asked_for_and_comes_back_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def kept(*given: Any, **named: Any) -> BlockPlan:
        asked.update(named)
        return plan_boxes(*given, **named)

    monkeypatch.setattr("dpcube.link.blocking.plan_boxes", kept)
    release = experiment(np.full((4, 3), 50), epsilon="1", noise=SeededNoise(1))
    rules = MatchingRules.loads('threshold = 1\n[[compare]]\ncolumn = "name"\nkind = "exact"\n')
    blocks = BlockFile.planned(release, rules, epsilon="3", delta="1e-5", max_rows=2, other_rows=77, rounds=5)
    assert (asked["other_rows"], asked["rounds"], len(asked["reach"])) == (77, 5, 2)
    assert asked["shift"] == padding_shift(Fraction(3), Fraction(1, 10**5), sensitivity=2)
    blocks.save(tmp_path / "blocks.json")
    assert BlockFile.load(tmp_path / "blocks.json").dumps() == blocks.dumps()
