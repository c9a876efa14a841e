"""Plans of wide tables and of fine grids: what is predicted from public facts, and how it is asked."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcube import Category, Domain, Integer, plan
from dpcube.cli import commands
from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import BudgetError, InputError, MemoryLimitError
from dpcube.models import estimate
from dpcube.models.cuboids import CuboidsEstimate
from dpcube.plan import row_predictor
from dpcube.plan.axes import PlannedAxis, axes_of
from dpcube.plan.distributions import DISTRIBUTIONS
from dpcube.plan.row_errors import (
    counts_in_ranges,
    errors_of_cuboids,
    errors_of_grid,
    ranges_of_few,
    ranges_of_share,
)
from dpcube.plan.simulated_rows import SimulatedRows, simulated_rows
from dpcube.queries import Workload
from dpcube.strategies import Cuboids, FineGrid
from dpcube.strategies.simulated import simulated_gate

WIDE = Domain(*(Integer(f"a{j}", 0, 4 + j) for j in range(4)), Category("sex", ("f", "m"), null="cell"))
GRID = Domain(Integer("x", 0, 10**6 - 1), Integer("y", 0, 10**5 - 1))


def rows_of(cells: list[list[int]], shape: tuple[int, ...], alike: list[int]) -> SimulatedRows:
    return SimulatedRows(shape, np.array(cells, np.int64), np.array(alike, np.int64))


# Made-up rows.


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_made_up_rows_lie_in_the_domain_and_are_repeated_by_their_seed(name: str) -> None:
    axes = (*axes_of(WIDE), PlannedAxis("far", 10**6, 1, ordered=True))
    made, again = (simulated_rows(name, axes, rows=5003, most=2000, seed=3) for _ in range(2))
    assert (made.total, len(made.cells)) == (5003, 2000)
    assert (made.cells >= 0).all()
    assert (made.cells < np.array(made.shape)).all()
    assert np.array_equal(made.cells, again.cells)
    assert len(np.unique(made.cells[:, -1] % 2)) == 2  # cells between the bins of a character hold rows, too


def test_attributes_of_made_up_rows_follow_each_other_unless_they_are_even() -> None:
    axes = tuple(PlannedAxis(f"a{j}", 20, 0, ordered=True) for j in range(8))
    strongest = {}
    for name in ("even", "smooth"):
        made = simulated_rows(name, axes, rows=20_000, most=20_000, seed=0)
        strongest[name] = np.abs(np.corrcoef(made.cells.T) - np.eye(8)).max()
    assert strongest["even"] < 0.05
    assert strongest["smooth"] > 0.3


# Counters.


def test_simulated_tables_are_the_rows_with_noise_of_their_units() -> None:
    made = rows_of([[0, 1], [2, 0]], (3, 2), [1000, 5000])
    counter = simulated_gate(made.exact(), Fraction(10), seed=(0,))
    assert np.abs(counter.marginal((0, 1), BUDGET_UNITS // 2) - [[0, 1000], [0, 0], [5000, 0]]).max() < 10
    coarser = counter.grouped([np.array([0, 1, 1]), np.array([0, 0])])
    assert coarser.shape == (2, 1)
    assert np.abs(coarser.marginal((0,), BUDGET_UNITS // 2) - [1000, 5000]).max() < 10
    with pytest.raises(BudgetError):
        counter.marginal((0,), 1)  # the coarser counter spent of the same budget


def test_simulated_boxes_are_the_rows_with_noise_of_their_units() -> None:
    made = rows_of([[5, 7], [900, 1]], (1000, 1000), [1000, 5000])
    counter = simulated_gate(made.exact(), Fraction(10), seed=(0,))
    boxes = Boxes(made.shape, np.array([[0, 0], [500, 0]]), np.array([[500, 1000], [1000, 1000]]))
    counts = counter.boxes(boxes, np.full(2, BUDGET_UNITS))
    assert np.abs(counts - [1000, 5000]).max() < 10
    with pytest.raises(BudgetError):
        counter.boxes(boxes, np.full(2, 1))


# Errors against rows that are known.


def brute(made: SimulatedRows, asked: Workload) -> list[int]:
    pairs = zip(asked.lower, asked.upper, strict=True)
    return [int(made.repeats[((made.cells >= low) & (made.cells < high)).all(axis=1)].sum()) for low, high in pairs]


def test_rows_are_counted_in_ranges() -> None:
    made = simulated_rows("clustered", axes_of(WIDE), rows=700, most=500, seed=1)
    asked = ranges_of_few(made.shape)
    assert counts_in_ranges(made, asked).tolist() == brute(made, asked)
    cut = ((asked.upper - asked.lower) < np.array(made.shape)).sum(axis=1)
    assert cut.min() >= 0
    assert cut.max() == 3


def test_ranges_of_a_share_take_it_and_every_other_one_holds_a_row() -> None:
    made = simulated_rows("smooth", axes_of(GRID), rows=2000, most=2000, seed=1)
    asked = ranges_of_share(made, 0.01)
    shares = ((asked.upper - asked.lower) / np.array(made.shape)).prod(axis=1)
    assert np.median(shares) == pytest.approx(0.01, rel=0.01)
    assert (counts_in_ranges(made, asked)[1::2] > 0).all()


def quiet(made: SimulatedRows, strategy: Cuboids) -> CuboidsEstimate:
    found = estimate(strategy.run(simulated_gate(made.exact(), Fraction(50), seed=(0,))))
    assert isinstance(found, CuboidsEstimate)
    return found


def test_without_noise_what_was_counted_is_told_and_what_was_not_is_wrong() -> None:
    generator = np.random.default_rng(0)
    first = generator.integers(0, 4, 4000)
    cells = np.stack([first, first, first, generator.integers(0, 4, 4000)], axis=1)
    made = SimulatedRows((4,) * 4, cells, np.ones(4000, np.int64))
    domain = Domain.of_shape(made.shape)
    strategy = Cuboids(cuboids=(domain.names[:2],)).for_domain(domain)
    errors = errors_of_cuboids(quiet(made, strategy), made, domain.names)
    assert errors["marginals", domain.names[2]][0] < 3
    assert errors["pairs", "counted"][0] < 3
    assert errors["pairs", "modelled"][0] > 50  # attributes that are the same were taken to be independent
    assert errors["pairs", "counted"][1] == pytest.approx(1 / 16)


def test_errors_of_a_grid_are_of_each_size_that_holds_a_cell() -> None:
    made = simulated_rows("smooth", axes_of(Domain.of_shape((100, 30))), rows=500, most=500, seed=0)
    found = estimate(FineGrid().run(simulated_gate(made.exact(), Fraction(1), seed=(0,))))
    errors = errors_of_grid(found, made)
    sizes = ["", "25% of the grid", "5% of the grid", "1% of the grid"]
    assert [about for kind, about in errors if kind == "ranges"] == sizes
    whole = Workload(made.shape, np.array([[0, 0]]), np.array([made.shape]))
    assert errors["total", ""] == (abs(found.values(whole)[0] - 500), 1.0)


# Plans.


@pytest.fixture(scope="module")
def wide() -> plan.Plan:
    return plan.plan(WIDE, rows=900, epsilon=1, queries="pairs", strategies="cuboids", roughly=True)


def test_a_wide_table_is_planned_by_attribute_and_by_pair(wide: plan.Plan) -> None:
    told = {(one.queries, one.about): one for one in wide.predictions}
    assert {about for kind, about in told if kind == "marginals"} == {"", *WIDE.names}
    assert {about for kind, about in told if kind == "pairs"} == {"", "counted", "modelled"}
    assert wide.best == told["pairs", ""]
    assert all(0 < one.low <= one.typical <= one.high < 900 for one in wide.predictions)
    assert told["marginals", "sex"].answer == pytest.approx(300)
    assert wide.advice is None
    assert wide.as_dict()["done"] == list(wide.done)
    assert "released as cuboids" in wide.done[0]


def test_a_plan_of_a_wide_table_opens_nothing_and_is_repeated(wide: plan.Plan) -> None:
    again = plan.plan(WIDE, rows=900, epsilon=1, queries="pairs", strategies="cuboids", roughly=True)
    assert again.predictions == wide.predictions


def test_errors_of_a_wide_table_fall_with_epsilon(wide: plan.Plan) -> None:
    less = plan.plan(WIDE, rows=900, epsilon="0.1", queries="pairs", strategies="cuboids", roughly=True)
    for mine, theirs in zip(wide.predictions, less.predictions, strict=True):
        if mine.queries != "total":  # one number of each run
            assert (mine.queries, mine.about) == (theirs.queries, theirs.about)
            assert mine.typical < theirs.typical


def test_several_rows_a_unit_cost_as_much_epsilon(wide: plan.Plan) -> None:
    more = plan.plan(WIDE, rows=900, epsilon=10, max_rows=10, queries="pairs", strategies=Cuboids(), roughly=True)
    assert more.best.typical == wide.best.typical


def test_a_table_too_wide_for_a_cube_is_planned_as_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_predictor, "SIMULATED", ("even",))
    domain = Domain(*(Category(f"c{j}", ("a", "b", "c"), null="drop") for j in range(18)))
    made = plan.plan(domain, rows=500, epsilon=1)
    assert made.best.strategy == "cuboids"
    assert "about 2 of them" in made.done[2]
    more = plan.plan(domain, rows=10**9, epsilon=1)
    assert more.best.basis == "extrapolated"
    assert made.best.basis == "simulated"


def test_a_fine_grid_is_planned_by_the_size_of_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_predictor, "SIMULATED", ("smooth", "even"))
    made = plan.plan(GRID, rows=500, epsilon=1)
    assert {one.strategy for one in made.predictions} == {"fine_grid"}
    assert [one.about for one in made.predictions if one.queries == "ranges"][1:] == [
        "25% of the grid",
        "5% of the grid",
        "1% of the grid",
        "0.01% of the grid",
        "0.0001% of the grid",
    ]
    assert "at most 10 levels" in made.done[1]


@pytest.mark.parametrize(
    ("domain", "given", "message"),
    [
        (WIDE, {"strategies": "cuboids", "queries": "cells"}, "no queries 'cells' to plan for with cuboids"),
        (GRID, {"queries": "marginals"}, "with fine_grid; the kinds are 'ranges', 'total'"),
        (WIDE, {"strategies": ["cuboids", "cells"]}, "cuboids is planned by itself"),
        (Domain.of_shape((5, 4)), {"queries": "pairs"}, "no queries 'pairs' to plan for; the kinds are"),
        (Domain.of_shape((5,)), {"strategies": "cuboids", "queries": "pairs"}, "the kinds are 'ranges', 'marginals'"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(domain: Domain, given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        plan.plan(domain, rows=100, epsilon=1, **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_plan_tells_of_a_grid_that_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_predictor, "SIMULATED", ("even",))

    def too_much(strategy: object, domain: object) -> None:
        msg = "a release of a grid needs about 9 GB"
        raise MemoryLimitError(msg)

    monkeypatch.setattr("dpcube.plan.planning.check_room", too_much)
    (told,) = plan.plan(GRID, rows=1000, epsilon=1).refusals
    assert told == "A release by fine_grid would be refused on this machine: a release of a grid needs about 9 GB."


# What is done, in words.


def shares_in(sentence: str) -> list[float]:
    return [float(word.rstrip("%,).;").lstrip("(")) for word in sentence.split() if "%" in word]


def test_what_is_done_adds_up_to_the_whole() -> None:
    for strategy in (Cuboids(), Cuboids(target="sex")):
        _, first, further = strategy.for_domain(WIDE).description(WIDE, rows=50_000)
        whole = [shares_in(first)[0], *shares_in(further)]
        assert sum(whole) == pytest.approx(100)
    parts = shares_in(Cuboids().description(WIDE, rows=50_000)[1])
    assert sum(parts[1:]) == pytest.approx(parts[0], abs=0.05)


def test_what_is_done_with_tables_that_are_named() -> None:
    named = Cuboids(cuboids=(("a1", "a2"), ("sex", "a1"))).for_domain(WIDE)
    assert "the marginals named (a1, a2; sex, a1): 60%" in named.description(WIDE)[2]


def test_the_command_prints_a_plan_of_a_wide_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_predictor, "SIMULATED", ("even",))
    WIDE.save(tmp_path / "t.toml")
    asked = ["plan", str(tmp_path / "t.toml"), "--epsilon", "1", "--rows", "400", "--strategy", "cuboids"]
    printed = CliRunner().invoke(commands, [*asked, "--queries", "pairs"])
    assert printed.exit_code == 0
    lines = printed.output.splitlines()
    assert [line.split("  ")[0] for line in lines[3:6]] == ["pairs", "pairs, counted", "pairs, modelled"]
    assert any(line.startswith("marginals, sex ") for line in lines)
    assert any("released as cuboids" in line for line in lines)
    assert not any("too fine" in line for line in lines)
    assert CliRunner().invoke(commands, [*asked, "--queries", "cells"]).exit_code != 0
