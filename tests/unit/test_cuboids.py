"""Releases of wide tables: what is measured, what the file holds and refuses, what is answered and how surely."""

import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import dpcube
from dpcube import Category, Domain, Integer, Release
from dpcube.cli import commands
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.epsilon import MIN_EPSILON, MIN_SHARE
from dpcube.core.errors import DomainError, DpcubeError, InputError, QueryError, ReleaseFileError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.measurements import CellGroups, Marginal, Provenance, Transcript
from dpcube.models import estimate
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.queries.random_ranges import random_ranges
from dpcube.release.answer import Answers
from dpcube.strategies import Cuboids, releasing_strategy, strategy_of
from dpcube.strategies.coarsening import coarsened_cells
from dpcube.strategies.cuboid_budget import GAIN, PAIRS_POWER, WORTH, rounds_for, share_of_ones, units_of_ones
from dpcube.testing import SeededNoise, SilentNoise
from forge import EIGHTH, Change, file_of, forged, halves, make_cuboids, make_release_of

ROWS = 4000
WIDE_DOMAIN = Domain(
    [
        *(Integer(f"x{j}", 0, 9 + j) for j in range(12)),
        Category("kind", ("red", "green", "blue")),
        Category("same", ("red", "green", "blue")),
    ]
)


def wide_table() -> pa.Table:
    """Attributes of which x1 follows x0, and `same` is `kind`; all others are independent."""
    generator = np.random.default_rng(7)
    columns: dict[str, Any] = {f"x{j}": generator.integers(0, 10 + j, ROWS) for j in range(12)}
    columns["x1"] = np.minimum(columns["x0"] + generator.integers(0, 2, ROWS), 10)
    kind = np.array(["red", "green", "blue"])[np.minimum(generator.geometric(0.5, ROWS) - 1, 2)]
    return pa.table({**columns, "kind": kind, "same": kind})


def exact_rows() -> SparseRows:
    from dpcube.core.sources import open_rows

    return SparseRows(WIDE_DOMAIN.shape, *open_rows(wide_table()).count_alike(WIDE_DOMAIN))


def made(epsilon: str = "1", *, strategy: Cuboids | None = None, seed: int | None = 3) -> Release:
    noise = SilentNoise() if seed is None else SeededNoise(seed)
    gate = Gate(exact_rows(), Fraction(epsilon), noise=noise)
    transcript = (strategy or Cuboids()).for_domain(WIDE_DOMAIN).run(gate)
    return Release(WIDE_DOMAIN, transcript, Provenance("cuboids", Fraction(epsilon), "test", private=False))


@pytest.fixture(scope="module")
def release() -> Release:
    return made()


def measured(transcript: Transcript) -> list[Marginal]:
    """The marginals of groups, in the order in which they were counted."""
    return [one for one in transcript.marginals if one.groups is not None]


def test_what_departs_most_is_counted_first(release: Release) -> None:
    first = [WIDE_DOMAIN.names[axis] for table in measured(release.transcript)[:2] for axis in table.axes]
    assert sorted(first) == ["kind", "same", "x0", "x1"]


def test_all_of_the_budget_is_spent_and_no_more(release: Release) -> None:
    assert 0.999 * BUDGET_UNITS < release.transcript.most_charged() <= BUDGET_UNITS


def test_a_measured_question_has_a_measured_interval_and_another_says_that_it_is_modelled(release: Release) -> None:
    table = wide_table().to_pandas()
    one = release.count(kind="red")
    assert not one.modelled
    assert one.low <= (table.kind == "red").sum() <= one.high
    pair = release.count(kind="red", same="red")
    assert not pair.modelled
    assert pair.low <= (table.kind == "red").sum() <= pair.high
    assert pair.high - pair.low < 400
    three = release.count(kind="red", same="red", x0=(0, 4))
    assert three.modelled
    assert "by the model" in str(three)
    assert three.low <= ((table.kind == "red") & (table.x0 <= 4)).sum() <= three.high
    assert three.nonuniformity > 0
    assert not release.count().modelled


def test_a_question_that_cuts_groups_of_counted_attributes_is_modelled() -> None:
    groups = CellGroups((np.array([0, 0, 1, 2, 2]), np.arange(4)))
    release = make_release_of(*ONES, Marginal((0, 1), np.full((3, 4), 30), EIGHTH, groups))
    assert not release.count(age=(20, 21), sex="F").modelled
    assert release.count(age=(20, 20), sex="F").modelled
    assert not release.count(age=(20, 20)).modelled


def test_cells_that_the_model_leaves_empty_are_not_known_to_be_empty() -> None:
    """Rows that the noise of an attribute's table hides may be there: no interval shrinks to nothing."""
    ones = Marginal((0,), np.array([900, -40, 500, 400, 500]), EIGHTH), ONES[1]
    groups = CellGroups((np.array([0, 0, 1, 2, 2]), np.arange(4)))
    release = make_release_of(*ones, Marginal((0, 1), np.full((3, 4), 200), EIGHTH, groups))
    hidden, shown = release.count(age=(21, 21), sex="F"), release.count(age=(20, 20), sex="F")
    assert hidden.modelled
    assert hidden.value < 1 < shown.value
    of_cell = release.count(age=(21, 21)).stderr
    assert 0.2 * of_cell < hidden.stderr < of_cell


def test_units_go_by_the_fourth_root_of_cells_and_none_is_too_few_to_draw() -> None:
    per, share = Fraction(1, BUDGET_UNITS), Fraction(2, 5)
    few, many = units_of_ones((4, 64), per, share)
    assert many / few == pytest.approx(2, rel=1e-3)
    assert few + many <= 2 * BUDGET_UNITS / 5
    smallest = MIN_EPSILON / BUDGET_UNITS
    assert min(units_of_ones((2,) + (2**20,) * 63, smallest, share)) * smallest >= MIN_SHARE


def test_one_way_marginals_get_the_more_the_less_can_be_told_of_pairs() -> None:
    shape = (9,) * 24
    shares = [share_of_ones(rows_times_epsilon, shape) for rows_times_epsilon in (-50.0, 1e2, 6e3, 2e4, 6e4, 1e12)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == Fraction(17, 20) > shares[3] > shares[-1] == Fraction(9, 20)
    # Twice the attributes, or four times the cells, with twice the rows: the same noise in a pair.
    assert share_of_ones(2e4, shape) == share_of_ones(4e4, (9,) * 48) == share_of_ones(4e4, (36,) * 24)
    assert share_of_ones(1e4, (1, 1)) == share_of_ones(1e4, (1,) * 2)


def test_the_rule_of_shares_is_least_in_its_own_sum_of_errors() -> None:
    """With one-way marginals' noise u / s and a gain of v log(1 + (1 - s) y): the share has the least sum."""
    shape, signal = (9,) * 24, 2e4
    noise = 24 * 9**0.5 / signal
    y = GAIN / noise
    tried = np.linspace(0.3, 0.99, 691)
    sums = noise / tried - noise / WORTH * y * np.log(1 + (1 - tried) * y)
    assert float(share_of_ones(signal, shape)) == pytest.approx(tried[np.argmin(sums)], abs=0.002)


@pytest.mark.slow
def test_intervals_hold_where_two_pairs_were_chosen() -> None:
    shape, generator = (12, 10, 8), np.random.default_rng(6)
    shares = generator.gamma(0.3, 1.0, shape)
    table = generator.multinomial(30_000, (shares / shares.sum()).reshape(-1)).reshape(shape)
    asked, held = random_ranges(shape, 300, seed=2), []
    exact = range_sums(summed_area_table(table.astype(np.float64)), asked.lower, asked.upper)
    for seed in range(8):
        cells = np.nonzero(table)
        gate = Gate(SparseRows(shape, cells, table[cells]), Fraction(1, 10), noise=SeededNoise(seed))
        transcript = Cuboids().run(gate)
        assert 1 <= len(measured(transcript)) < 3
        found = estimate(transcript)
        low, high = Answers.from_parts(found.values(asked), found.errors(asked)).interval()
        held.append(np.mean((low <= exact) & (exact <= high)))
    assert np.mean(held) >= 0.93


def test_larger_tables_get_more_units(release: Release) -> None:
    tables = measured(release.transcript)[:-1]  # the last has what is left
    largest, least = (pick(tables, key=lambda one: one.counts.size) for pick in (max, min))
    assert largest.units > least.units
    roots = (largest.counts.size / least.counts.size) ** PAIRS_POWER
    assert largest.units / least.units == pytest.approx(roots, rel=0.3)


def test_named_cuboids_are_counted_and_nothing_is_chosen() -> None:
    release = made(strategy=Cuboids(cuboids=(("x0", "kind"), ("x2", "x1"))))
    assert [table.axes for table in measured(release.transcript)] == [(0, 12), (1, 2)]
    assert release.transcript.selections == ()
    # Two that were named tell nothing of others: what is modelled lies within Frechet's bounds, and noise.
    asked = release.count(kind="red", x5=(0, 3))
    alone = min(release.count(kind="red").value, release.count(x5=(0, 3)).value)
    assert asked.modelled
    assert asked.low < max(release.count(kind="red").value + release.count(x5=(0, 3)).value - ROWS, asked.value) + 1
    assert alone <= asked.high < alone + 1500
    assert release.provenance.parameters == {}


def test_a_target_is_counted_with_every_other_attribute() -> None:
    release = made(strategy=Cuboids(target="kind"))
    firsts = [one for one in release.transcript.marginals if one.groups is None]
    assert [set(one.axes) for one in firsts] == [{j, 12} for j in range(14) if j != 12]
    assert len({one.units for one in firsts}) == 1
    pairs, groups = measured(release.transcript), release.transcript.groups
    assert {0, 1} in [set(table.axes) for table in pairs]  # what departs most, of all that are beside the target
    assert all(12 not in table.axes for table in pairs)
    assert [one.axes[0].tolist() for one in release.transcript.selections] == [list(table.axes) for table in pairs]
    assert groups is not None
    assert groups.sides[12] == 3  # classes are never put together
    assert 0.999 * BUDGET_UNITS < release.transcript.most_charged() <= BUDGET_UNITS


def test_cells_by_target_are_measured_and_their_intervals_hold() -> None:
    table, release = wide_table().to_pandas(), made(strategy=Cuboids(target="kind"))
    held = []
    for kind in ("red", "green", "blue"):
        for value in range(12):
            answer = release.count(x2=value, kind=kind)
            assert not answer.modelled
            held.append(answer.low <= ((table.x2 == value) & (table.kind == kind)).sum() <= answer.high)
        assert not release.count(x2=3).modelled
    assert np.mean(held) > 0.9
    assert release.count(kind="red").low <= (table.kind == "red").sum() <= release.count(kind="red").high
    assert release.count(x2=3, x3=4).modelled


@pytest.mark.parametrize("names", [("kind",), ("x0", "kind"), ("kind", "x0", "same")])
def test_a_target_beside_few_attributes(names: tuple[str, ...], tmp_path: Path) -> None:
    domain = WIDE_DOMAIN.project(names)
    rows = SparseRows(domain.shape, [np.zeros(3, np.int64)] * len(names), np.full(3, 500))
    strategy = Cuboids(target="kind").for_domain(domain)
    transcript = strategy.run(Gate(rows, Fraction(1), noise=SeededNoise(1)))
    made_of = Release(domain, transcript, Provenance("cuboids", Fraction(1), "test", private=False))
    made_of.save(tmp_path / "r.dpcube")
    opened = Release.open(tmp_path / "r.dpcube")
    assert opened.count(kind="red").value == pytest.approx(1500, abs=60)
    assert opened.digest == made_of.digest


def test_first_tables_that_share_no_target_are_answered_by_no_estimate() -> None:
    release = made(strategy=Cuboids(target="kind"))
    measurements = list(release.transcript.measurements)
    first = measurements[0]
    assert isinstance(first, Marginal)
    other = Marginal((0, 1), np.zeros((10, 11), np.int64), first.units)
    for some in (measurements[1:], [other, *measurements[1:]], [first, *measurements]):
        transcript = Transcript(WIDE_DOMAIN.shape, release.transcript.epsilon_per_unit, tuple(some))
        forged_release = Release(WIDE_DOMAIN, transcript, release.provenance)
        with pytest.raises(QueryError, match="no estimate can answer"):
            forged_release.count(kind="red")


def test_without_noise_tables_are_exact_and_the_model_agrees_with_them() -> None:
    release = made(seed=None)
    table = wide_table().to_pandas()
    for kind in ("red", "green", "blue"):
        assert release.count(kind=kind, same=kind).value == pytest.approx((table.kind == kind).sum(), rel=0.02)
    assert release.count(kind="red", same="blue").value < 40


@pytest.mark.parametrize("epsilon", [str(MIN_EPSILON), "0.001", "1", "99"])
@pytest.mark.parametrize("strategy", [Cuboids(), Cuboids(cuboids=(("x0", "x1", "x2", "x3"),)), Cuboids(target="same")])
def test_no_epsilon_makes_a_run_fail_once_it_is_charged(epsilon: str, strategy: Cuboids) -> None:
    empty = SparseRows(WIDE_DOMAIN.shape, [np.empty(0, np.int64)] * 14, np.empty(0, np.int64))
    transcript = strategy.for_domain(WIDE_DOMAIN).run(Gate(empty, Fraction(epsilon), noise=SeededNoise(1)))
    release = Release(WIDE_DOMAIN, transcript, Provenance("cuboids", Fraction(epsilon), "test", private=False))
    assert math.isfinite(release.count(kind="red").value)


FOUR_FINE = Domain([Integer(f"x{j}", 0, 199) for j in range(4)])


@pytest.mark.parametrize(
    "strategy",
    [
        Cuboids(cuboids=(tuple(FOUR_FINE.names),)),
        Cuboids(cuboids=(("x0", "x1"), ("x1", "x2"), ("x2", "x3"), ("x0", "x3"))),
        Cuboids(target="x0"),
    ],
    ids=["four attributes", "a ring", "many classes"],
)
def test_what_was_named_can_be_asked_once_it_is_charged(strategy: Cuboids) -> None:
    """Many rows at a large epsilon make many groups; of tables of several the model must still be held."""
    rng = np.random.default_rng(1)
    rows = SparseRows(FOUR_FINE.shape, list(rng.integers(0, 200, (4, 3000))), np.full(3000, 10**6))
    transcript = strategy.for_domain(FOUR_FINE).run(Gate(rows, Fraction(20), noise=SeededNoise(1)))
    release = Release(FOUR_FINE, transcript, Provenance("cuboids", Fraction(20), "test", private=False))
    assert release.estimates[:1] == ("cuboids",)
    assert release.count(x1=(0, 99)).value == pytest.approx(3000 * 10**6 / 2, rel=0.1)


def test_tables_that_no_model_could_hold_are_refused_before_anything() -> None:
    names = [f"x{j}" for j in range(20)]
    many = Domain([Integer(name, 0, 199) for name in names])
    pairs = tuple((one, other) for j, one in enumerate(names) for other in names[:j])
    with pytest.raises(InputError, match="form a junction tree of more than 1,048,576 cells"):
        Cuboids(cuboids=pairs).for_domain(many)
    classes = Domain([Integer("zip", 0, 99_999), *(Integer(name, 0, 99) for name in names)])
    with pytest.raises(InputError, match="with the target 'zip' form a junction tree of more than 1,048,576 cells"):
        Cuboids(target="zip").for_domain(classes)


@pytest.mark.slow
def test_a_domain_of_many_or_of_single_cells_can_be_released() -> None:
    for shape in ((1,), (1, 1), (2,) * 64, (1,) * 30 + (5,)):
        rows = SparseRows(shape, [np.zeros(3, np.int64)] * len(shape), np.ones(3, np.int64))
        transcript = Cuboids().for_domain(Domain.of_shape(shape)).run(Gate(rows, Fraction(2), noise=SeededNoise(1)))
        release = Release(Domain.of_shape(shape), transcript, Provenance("cuboids", Fraction(2), "test", private=False))
        assert math.isfinite(release.count().value)
        assert release.synthesize(5, seed=1).num_rows == 5


def test_the_same_counts_make_the_same_release() -> None:
    """Non-interference: a strategy that is told the same says the same."""
    assert made().digest == made().digest


@pytest.mark.parametrize(
    ("cuboids", "words"),
    [
        ((("x0", "nobody"),), "no attribute 'nobody'"),
        ((("x0", "x0"),), "each named once"),
        (((),), "one or more"),
        ((("x0", "x1"), ("x1", "x0")), "name each marginal once"),
        ((("x0", "x1", "x2", "x3", "x4"),), "at most 4 attributes"),
    ],
)
def test_cuboids_that_cannot_be_are_refused_before_anything(cuboids: Any, words: str) -> None:
    with pytest.raises(DpcubeError, match=words):
        Cuboids(cuboids=cuboids).for_domain(WIDE_DOMAIN)


def test_an_attribute_of_too_many_cells_is_refused_and_not_chosen_for() -> None:
    fine = Domain(Integer("a", 0, 10**8 - 1), Integer("b", 0, 10**8 - 1))
    with pytest.raises(DomainError, match="'a' 100,000,000; use wider bins"):
        releasing_strategy("cuboids", fine)
    assert not isinstance(releasing_strategy("adaptive", fine), Cuboids)


def test_cuboids_and_a_target_are_not_both_named() -> None:
    with pytest.raises(InputError, match="not both"):
        Cuboids(cuboids=(("x0",),), target="kind")


def test_a_cube_that_fits_stays_one_cube() -> None:
    small = WIDE_DOMAIN.project(("x0", "kind"))
    assert not isinstance(releasing_strategy("adaptive", small), Cuboids)
    assert isinstance(releasing_strategy("cuboids", small), Cuboids)
    assert isinstance(releasing_strategy("adaptive", WIDE_DOMAIN), Cuboids)
    assert not isinstance(releasing_strategy("cells", WIDE_DOMAIN), Cuboids)
    with pytest.raises(InputError, match="wide tables, which are not compared"):
        strategy_of("cuboids")


@pytest.mark.parametrize("sides", [3, 20, 200])
@pytest.mark.parametrize("ordered", [True, False])
def test_groups_are_numbered_and_hold_enough(sides: int, *, ordered: bool) -> None:
    counts = np.random.default_rng(sides).gamma(0.3, 100.0, sides)
    groups = coarsened_cells(counts, ordered=ordered, most=8, least=50.0)
    np.testing.assert_array_equal(np.unique(groups), np.arange(groups.max() + 1))
    assert groups.max() + 1 <= 2 * 8 + 1
    held = np.bincount(groups, weights=counts)
    if ordered:
        assert (np.diff(groups) >= 0).all()
        assert (np.diff(groups) <= 1).all()
    else:
        assert (held[:-1] >= 50).all() or sides == groups.max() + 1


def test_rounds_follow_what_can_be_told() -> None:
    large = (60,) * 14
    few, some, many = (rounds_for(signal, large) for signal in (0.0, 3e4, 6e8))
    assert (1, 1) <= few < some < many <= (91, 91)
    assert few == (1, 1)
    assert rounds_for(6e8, (60, 60)) == (1, 1)


def test_all_pairs_are_counted_where_they_are_small() -> None:
    assert rounds_for(3e4, (9, 16, 7, 15, 6, 5, 2, 2)) == (11, 28)
    assert rounds_for(6e11, (2,) * 64) == (128, 128)  # twice as many as attributes, as of large tables
    assert rounds_for(6e11, (2,) * 30) == (60, 100)
    # 81 tables with noise of 1 / (6,000 * 0.9 / 81) in each of four cells move 3% of the rows.
    assert rounds_for(6e3, (2,) * 30) == (28, 81)
    assert rounds_for(0.0, (1, 1)) == rounds_for(0.0, (5,)) == (1, 1)


def tables_of(rows: np.ndarray, side: int) -> list[Marginal]:
    """The marginals of groups that a release counts at epsilon 1, which spends nearly all of its budget."""
    shape = (side,) * rows.shape[1]
    codes, alike = np.unique(rows, axis=0, return_counts=True)
    gate = Gate(SparseRows(shape, list(codes.T), alike), Fraction(1), noise=SeededNoise(5))
    domain = Domain(*(Integer(f"a{j}", 0, side - 1) for j in range(len(shape))))
    transcript = Cuboids().for_domain(domain).run(gate)
    assert 0.98 * BUDGET_UNITS < transcript.most_charged() <= BUDGET_UNITS
    return measured(transcript)


@pytest.mark.slow
@pytest.mark.parametrize("depends", [True, False])
def test_many_tables_are_counted_only_where_the_first_tell_something(*, depends: bool) -> None:
    random = np.random.default_rng(4)
    rows = random.integers(0, 3, (20_000, 15))
    if depends:
        rows[:, 1:] = np.where(random.random((20_000, 14)) < 0.5, rows[:, :1], rows[:, 1:])
    left = 1 - share_of_ones(20_000, (3,) * 15)
    few, most = rounds_for(20_000 * float(left), (3,) * 15)
    assert few < 20 < 60 < most
    assert len(tables_of(rows, 3)) == pytest.approx(most if depends else few, abs=1)  # its total is a noisy one


def test_what_tables_that_no_model_could_hold_leave_goes_to_the_last() -> None:
    random = np.random.default_rng(4)
    hidden = random.integers(0, 4, (60_000, 1))
    rows = np.where(random.random((60_000, 11)) < 0.5, hidden, random.integers(0, 4, (60_000, 11)))
    left = 1 - share_of_ones(60_000, (4,) * 11)
    assert len(tables_of(rows, 4)) < rounds_for(60_000 * float(left), (4,) * 11)[1] == 55


# Files.


def test_a_file_holds_cuboids(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "wide.dpcube")
    opened = dpcube.open(tmp_path / "wide.dpcube")
    assert opened.digest == release.digest
    assert opened.count(kind="red", x0=(0, 4)) == release.count(kind="red", x0=(0, 4))
    assert str(opened.count(x3=3)) == str(release.count(x3=3))


def _entry(number: int, key: str, value: object) -> Change:
    return lambda manifest: manifest["measurements"][number].update({key: value})


def _fact(key: str, value: object) -> Change:
    return lambda manifest: manifest.update({key: value})


SPOILT: dict[str, Change] = {
    "axes beyond the cube": _entry(3, "axes", [0, 7]),
    "axes twice": _entry(3, "axes", [0, 0]),
    "axes that descend": _entry(3, "axes", [1, 0]),
    "no axes": _entry(4, "axes", []),
    "axes of text": _entry(4, "axes", ["0"]),
    "units of nothing": _entry(3, "units", 0),
    "units of truth": _entry(3, "units", True),
    "units beyond the budget": _entry(3, "units", BUDGET_UNITS + 1),
    "a selection for nothing": _entry(2, "units", 0),
    "a selection that costs less than nothing": _entry(2, "units", -5),
    "a selection in boxes that are not there": _entry(2, "boxes", True),
    "cells that are said to be groups": _entry(0, "grouped", True),
    "groups that are said to be cells": _entry(3, "grouped", False),
    "more groups than cells": _fact("groups", [2**40, 3]),
    "fewer groups than attributes": _fact("groups", [3]),
    "groups below one": _fact("groups", [0, 3]),
    "another number of groups": _fact("groups", [2, 3]),
    "groups that are no list": _fact("groups", {}),
    "no groups": _fact("groups", []),
    "very many measurements": _fact("measurements", [{"kind": "marginal", "axes": [0], "units": 1}] * 5000),
    "no measurements, and counts": _fact("measurements", []),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_a_spoilt_manifest_is_refused(spoilt: str, tmp_path: Path) -> None:
    path = tmp_path / "spoilt.dpcube"
    path.write_bytes(forged(file_of(make_release_of(*make_cuboids())), SPOILT[spoilt]))
    with pytest.raises(ReleaseFileError):
        dpcube.open(path)


def test_the_file_that_is_spoilt_above_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.dpcube"
    path.write_bytes(forged(file_of(make_release_of(*make_cuboids())), lambda _: None))
    assert dpcube.open(path).estimates == ("cuboids",)


ONES = make_cuboids()[:2]
GROUPED = make_cuboids()[2:]
TRANSCRIPT = Transcript((5, 4), Fraction(1, 10 * BUDGET_UNITS), make_cuboids())
assert TRANSCRIPT.groups is not None
LAST = TRANSCRIPT.groups.of_axis[1]


@pytest.mark.parametrize(
    "groups",
    [
        (np.array([0, 0, 1, 3, 3]), LAST),
        (np.array([0, 0, 1, 2, 2**62]), LAST),
        (np.array([-1, 0, 1, 2, 2]), LAST),
        (np.array([0.0, 0, 1, 2, 2]), LAST),
        (np.empty(0, np.int64), LAST),
    ],
    ids=range(5),
)
def test_groups_that_are_none_are_no_measurement(groups: Any) -> None:
    with pytest.raises(DomainError):
        CellGroups(groups)


@pytest.mark.parametrize(
    "groups",
    [
        [0, 0, 1, 3, 3, 0, 1, 2, 0],
        [0, 0, 1, 2, 2**62, 0, 1, 2, 0],
        [-1, 0, 1, 2, 2, 0, 1, 2, 0],
        [0, 0, 1, 2, 2, 0, 1, 3, 2],
        [0, 0, 1, 2, 2, 0, 1, 2],
        [0.0, 0, 1, 2, 2, 0, 1, 2, 0],
    ],
    ids=range(6),
)
def test_groups_that_are_none_are_refused_in_a_file(groups: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "spoilt.dpcube"
    path.write_bytes(forged(file_of(make_release_of(*make_cuboids())), groups=groups))
    with pytest.raises(ReleaseFileError):
        dpcube.open(path)


def test_a_transcript_has_one_object_of_groups_and_no_boxes_beside_it() -> None:
    per = Fraction(1, 10 * BUDGET_UNITS)
    with pytest.raises(DomainError, match="share one object of groups"):
        Transcript((5, 4), per, (*ONES, *GROUPED, *make_cuboids()[3:]))
    with pytest.raises(DomainError, match="marginals and selections of the whole cube, and no more"):
        Transcript((5, 4), per, (*ONES, *GROUPED, halves(0, 2, units=(EIGHTH, EIGHTH))))
    with pytest.raises(DomainError, match="groups of cells of a cube of shape"):
        Transcript((5, 3), per, GROUPED[1:])
    with pytest.raises(DomainError, match="over one or more attributes"):
        Marginal((), np.array(5), EIGHTH, TRANSCRIPT.groups)


def test_the_groups_of_a_file_are_one_object(tmp_path: Path) -> None:
    make_release_of(*make_cuboids()).save(tmp_path / "r.dpcube")
    opened = dpcube.open(tmp_path / "r.dpcube").transcript
    assert opened.groups is not None
    assert [one.groups is opened.groups for one in opened.marginals] == [False, False, True, True]
    assert opened.groups.sides == (3, 3)


def test_cuboids_without_a_table_of_each_attribute_have_no_estimate() -> None:
    release = make_release_of(ONES[0], *GROUPED)
    assert release.estimates == ()
    with pytest.raises(QueryError, match="one table over each attribute"):
        release.estimate("cuboids")


def test_a_model_that_nobody_could_hold_is_refused_when_it_is_asked() -> None:
    """Every pair of 40 attributes: a clique of all of them. It opens, and answers nothing."""
    shape = (4,) * 40
    ones = [Marginal((j,), np.ones(4, np.int64), 2**20) for j in range(40)]
    groups = CellGroups((np.arange(4),) * 40)
    pairs = [Marginal(pair, np.ones((4, 4), np.int64), 2**20, groups) for pair in combinations(range(40), 2)]
    transcript = Transcript(shape, Fraction(1, BUDGET_UNITS), (*ones, *pairs))
    release = Release(Domain.of_shape(shape), transcript, Provenance("cuboids", Fraction(1), "test", private=False))
    with pytest.raises(QueryError, match="no estimate can answer"):
        release.count()


# What an analyst has.


def test_sql_views_and_rows_speak_from_the_same_model(release: Release) -> None:
    pairs = release.group_by("kind", "same").to_pandas()
    by_sql = release.sql("SELECT kind, same, count(*) AS n FROM cube GROUP BY kind, same", error=True).to_pandas()
    together = pairs.merge(by_sql, on=["kind", "same"])
    assert len(together) == 9
    np.testing.assert_allclose(together.value, together.n, rtol=1e-9)
    np.testing.assert_allclose(together.high, together.n_high, rtol=1e-9)
    for row in pairs.itertuples():
        asked = release.count(kind=row.kind, same=row.same)
        assert asked.value == pytest.approx(row.value)
        assert asked.low == pytest.approx(row.low)
    rows = release.synthesize(seed=1).to_pandas()
    assert list(rows.columns) == list(WIDE_DOMAIN.names)
    assert (rows.kind == rows.same).mean() > 0.97
    assert (rows.x1 - rows.x0).between(-1, 2).mean() > 0.9


def test_an_average_has_an_error_that_is_not_nothing(release: Release) -> None:
    """Weights of both signs: a sum near zero is no sum of few rows."""
    found = release.sql("SELECT kind, avg(x5) AS a FROM cube GROUP BY kind", error=True).to_pylist()
    truth = wide_table().to_pandas().groupby("kind").x5.mean()
    for row in found:
        assert row["a_low"] <= truth[row["kind"]] <= row["a_high"]
        assert row["a_high"] - row["a_low"] > 0.05


def test_questions_about_very_many_attributes_are_answered_one_by_one(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions: dict[str, Any] = {f"x{j}": (0, 6 + j) for j in range(12)}
    together = release.count(kind="red", **{name: conditions[name] for name in ("x0", "x1", "x2")})
    monkeypatch.setattr("dpcube.models.cuboids.estimate.MAX_JOINT_CELLS", 1)
    alone = release.count(kind="red", **{name: conditions[name] for name in ("x0", "x1", "x2")})
    assert alone.value == pytest.approx(together.value)
    assert alone.high == pytest.approx(together.high)
    assert release.count(kind="red", **conditions).value > 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda release: release.cells(),
        lambda release: release.table(),
        lambda release: release.boxes(),
    ],
)
def test_what_would_lay_out_every_cell_is_refused_in_a_line(ask: Any, release: Release) -> None:
    with pytest.raises(QueryError) as refused:
        ask(release)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_the_account_and_the_report_tell_of_cuboids(release: Release) -> None:
    from dpcube.release.report import report

    told = release.explain()
    assert "candidates, by distance of a table from a prediction" in " ".join(told.split())
    assert "tables over 1 attribute" in told
    assert "kind" in report(release)


def test_publish_chooses_cuboids_for_a_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "wide.dpcube"
    made = publish(wide_table(), WIDE_DOMAIN, epsilon=2, ledger=None, save_to=path, even_if_empty=False)
    assert made.provenance.strategy == "cuboids"
    assert made.provenance.private
    assert abs(dpcube.open(path).count().value - ROWS) < 500


def test_an_array_of_counts_can_be_released_as_cuboids() -> None:
    counts = np.random.default_rng(1).poisson(50, (4, 5, 6))
    made = publish(counts, Domain.of_shape((4, 5, 6)), epsilon=50, ledger=None, strategy="cuboids")
    assert made.count(axis0=2).value == pytest.approx(counts[2].sum(), abs=100)
    assert made.cells().shape == (4, 5, 6)


def test_the_command_releases_and_explains_cuboids(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(wide_table(), tmp_path / "t.parquet")
    WIDE_DOMAIN.save(tmp_path / "t.toml")
    base = ["release", str(tmp_path / "t.parquet"), "--domain", str(tmp_path / "t.toml"), "--epsilon", "1"]
    base += ["--no-ledger", "-o", str(tmp_path / "t.dpcube")]
    run = CliRunner().invoke
    explained = run(commands, [*base, "--explain"])
    said, first, then, *_ = explained.output.splitlines()
    assert said.startswith("-- ")
    assert "released as cuboids" in said
    assert first.startswith("-- First each attribute")
    assert then.startswith("-- Then, on cells merged into groups")
    assert run(commands, [*base, "--cuboids", "x0,kind", "--strategy", "cells"]).exit_code != 0
    assert run(commands, [*base, "--cuboids", "x0,nobody"]).exit_code != 0
    assert not (tmp_path / "t.dpcube").exists()
    assert run(commands, [*base, "--cuboids", "x0, kind; kind, same"]).exit_code == 0
    assert dpcube.open(tmp_path / "t.dpcube").provenance.parameters == {"cuboids": "x0, kind; kind, same"}


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, float("nan"), "2", None])
def test_a_unit_has_a_whole_number_of_rows(max_rows: Any) -> None:
    with pytest.raises(InputError, match="whole number of rows"):
        Gate(exact_rows(), Fraction(1), max_rows=max_rows)


@pytest.mark.parametrize("max_rows", [1, 4])
def test_a_person_with_many_rows_gets_the_more_noise_for_each_count_of_a_wide_table(max_rows: int) -> None:
    gate = Gate(exact_rows(), Fraction(1, 2), max_rows=max_rows)
    assert gate.epsilon_per_unit == Fraction(1, 2) / max_rows / BUDGET_UNITS
    assert gate.grouped([np.zeros(side, np.int64) for side in gate.shape]).epsilon_per_unit == gate.epsilon_per_unit
