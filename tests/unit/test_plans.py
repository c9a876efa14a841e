"""Plans: which is chosen, that each spends what there is and no more, and that the choice is in the release."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcube
from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import Candidates
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import DomainError
from dpcube.core.gate import Gate
from dpcube.measurements import BoxCounts, Transcript
from dpcube.noise import noise_variances
from dpcube.queries.workload_model import WorkloadModel
from dpcube.research import experiment
from dpcube.strategies import Adaptive
from dpcube.strategies.level_budgets import LevelBudgets
from dpcube.strategies.partial_tree import ROOT, PartialTree
from dpcube.strategies.pilot import FIRST_TOTAL, MAX_PILOT_SHARE, MAX_SELECTION_CELLS, count_pilot, is_small
from dpcube.strategies.plan_selection import PlanWorkload, select_plan
from dpcube.strategies.plans import ADAPTIVE, CELLS, CLEAR_AT_ONCE, LEVELS, PLANS, PlanSetting, TreePlan
from dpcube.strategies.refinement import ROOT_SHARE, level_shares, refinement_levels
from dpcube.strategies.simulated import discrete_noise, draw_below, noise_of_cells, ranges_of, simulated_gate
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.halving import depth

ANY = ("mixed", "mixed")


def dense(shape: tuple[int, ...], mean: float = 600) -> Ints:
    generator = np.random.default_rng(3)
    return generator.poisson(generator.gamma(0.7, mean, shape))


def sparse(shape: tuple[int, ...]) -> Ints:
    generator = np.random.default_rng(3)
    return np.where(generator.random(shape) < 0.02, generator.integers(0, 40, shape), 0)


def prepared(counter: NoisyCounter, *, cells: float = 0.3) -> tuple[PartialTree, PlanSetting]:
    """The tree after a first look, and what all plans share."""
    shape = counter.shape
    model = WorkloadModel(shape, ("mixed",) * len(shape))
    partial, levels = PartialTree(counter, model.cut_order()), refinement_levels(depth(shape))
    count_pilot(partial)
    budgets = LevelBudgets(model, partial.order, shape, float(BUDGET_UNITS * counter.epsilon_per_unit), cells=cells)
    return partial, PlanSetting(model, budgets, levels, level_shares(partial, model, levels))


def charged(boxes: BoxCounts) -> Ints:
    charges = np.zeros(boxes.tree.shape, np.int64)
    boxes.add_charges(charges)
    return charges


def test_dense_tables_have_their_cells_counted_and_sparse_ones_are_looked_at() -> None:
    assert Adaptive().run(Gate(dense((16, 15)), Fraction(1), noise=SeededNoise(1))).plan == "cells"
    assert Adaptive().run(Gate(sparse((64, 64)), Fraction(1, 10), noise=SeededNoise(1))).plan == "adaptive"


def test_a_large_epsilon_and_a_large_cube_name_their_plans_too() -> None:
    assert Adaptive().run(Gate(dense((4, 4)), Fraction(6), noise=SeededNoise(1))).plan == "cells"
    large = np.zeros((MAX_SELECTION_CELLS // 64 + 1, 64), np.int64)
    assert not is_small(large.shape)
    transcript = Adaptive().run(Gate(large, Fraction(1), noise=SeededNoise(1)))
    assert transcript.plan == "adaptive"
    assert transcript.boxes is not None
    assert transcript.boxes.units[0] == int(ROOT_SHARE * BUDGET_UNITS)  # at once: no first look


def test_a_plan_is_chosen_by_the_number_of_cells_however_many_attributes_there_are() -> None:
    assert is_small((MAX_SELECTION_CELLS,))
    assert not is_small((MAX_SELECTION_CELLS + 1,))
    assert is_small((2,) * 18)
    assert not is_small((2,) * 19)


class Recorder:
    """A counter around a gate, which keeps how many counts it gave and what a cell paid at most."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self.shape, self.epsilon_per_unit = gate, gate.shape, gate.epsilon_per_unit
        self.given: list[int] = []

    def grouped(self, groups: object) -> NoisyCounter:
        raise AssertionError(groups)

    def select(self, candidates: Candidates, units: int) -> Ints:
        raise AssertionError(candidates, units)

    def boxes(self, boxes: Boxes, units: Ints) -> Ints:
        said = self._gate.boxes(boxes, units)
        self.given += said.tolist()
        return said

    def marginal(self, axes: tuple[int, ...], units: int) -> Ints:
        said = self._gate.marginal(axes, units)
        self.given += said.reshape(-1).tolist()
        return said


@pytest.mark.parametrize("exact", [dense((16, 15)), sparse((64, 64)), dense((6, 5, 4), 3), dense((300,), 20)])
def test_everything_counted_is_in_the_transcript(exact: Ints) -> None:
    counter = Recorder(Gate(exact, Fraction(1, 2), noise=SeededNoise(4)))
    transcript = Adaptive().run(counter)
    kept = [count for one in transcript.measurements for count in one.arrays()["counts"].reshape(-1).tolist()]
    assert sorted(kept) == sorted(counter.given)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.sampled_from(PLANS),
    st.sampled_from([0.0, 3.0, 2000.0]),
    st.sampled_from([Fraction(1, 20), Fraction(3)]),
    st.sampled_from([0, BUDGET_UNITS // 3]),
)
def test_each_plan_spends_the_budget_of_every_box_to_the_unit(
    sides: list[int], plan: TreePlan, mean: float, epsilon: Fraction, aside: int
) -> None:
    """Each cell pays at most what there is, and cells of the boxes that were counted last pay all of it."""
    partial, setting = prepared(Gate(dense(tuple(sides), mean), epsilon, noise=SeededNoise(2)))
    partial.set_aside(aside)
    plan.run(partial, setting)
    boxes, whole = partial.counts(), BUDGET_UNITS - aside
    spent = charged(boxes)
    assert spent.max() == whole
    leaves = set(boxes.tree.leaves.tolist())
    assert leaves <= set(boxes.node.tolist())  # every leaf is counted: there is something to estimate
    if plan in (CELLS, LEVELS):
        assert (spent == whole).all()
        assert (boxes.tree.sizes[boxes.tree.leaves] == 1).all()
    np.testing.assert_array_equal(partial.left[boxes.tree.leaves] >= 0, True)


def test_no_region_keeps_what_it_could_spend_when_others_were_counted_at_once() -> None:
    """Half of the table is clear and committed; what is left of the other half goes on its boxes."""
    exact = np.zeros((32, 32), np.int64)
    exact[:16] = dense((16, 32), 20_000)
    partial, setting = prepared(Gate(exact, Fraction(1, 2), noise=SeededNoise(3)))
    CLEAR_AT_ONCE.run(partial, setting)
    boxes = partial.counts()
    spent = charged(boxes)
    assert (spent[:16] == BUDGET_UNITS).all()
    assert spent[16:].min() > BUDGET_UNITS * 95 // 100
    assert 512 < len(boxes.tree.leaves) < 1024


def test_the_choice_depends_on_what_was_counted_alone() -> None:
    """The same answers, the same plan; a seed is drawn from nowhere else."""
    one, again = (Adaptive().run(Gate(dense((40, 33), 2), Fraction(1), noise=SeededNoise(5))) for _ in range(2))
    np.random.default_rng().random()
    assert one.plan == again.plan
    for first, second in zip(one.measurements, again.measurements, strict=True):
        for name, array in first.arrays().items():
            np.testing.assert_array_equal(array, second.arrays()[name])


def test_the_first_look_is_nearly_free() -> None:
    for exact in (dense((16, 15)), dense((64, 64), 1), sparse((64, 64)), dense((5,)), np.zeros((8, 8), np.int64)):
        partial = PartialTree(
            Gate(exact, Fraction(1, 10), noise=SeededNoise(1)),
            WorkloadModel(exact.shape, ("mixed",) * exact.ndim).cut_order(),
        )
        count_pilot(partial)
        assert charged(partial.counts()).max() <= float(FIRST_TOTAL + MAX_PILOT_SHARE) * BUDGET_UNITS


def test_declared_ranges_are_what_counts() -> None:
    """Of a long line with clear counts, declared ranges never take plain cells; without, cells may not lose much."""
    shape = (1024,)
    declared, anything = (PlanWorkload.from_kinds(shape, (kind,), None) for kind in ("ranges", "mixed"))
    assert len(declared.ranges) == 1
    assert len(anything.ranges) == 3
    wrong = np.random.default_rng(2).normal(size=shape)
    assert len(declared.errors(wrong)) == declared.wanted == 1
    assert len(anything.errors(wrong)) == 4
    found = []
    for asked, cells in ((declared, 0.0), (anything, 0.3)):
        partial, setting = prepared(Gate(dense(shape, 5000), Fraction(1), noise=SeededNoise(1)), cells=cells)
        select_plan(partial, setting, asked).run(partial, setting)
        counts = partial.counts()
        found.append(int(counts.units[counts.tree.sizes[counts.node] == 1].min()))
    assert found[0] < found[1]


def test_declared_questions_are_asked_of_made_up_tables() -> None:
    weights = (np.array([[1.0, 1, 0, 0], [0, 0, 0, 1]]), np.array([[1.0, 0, 0], [1, 1, 1]]))
    asked = PlanWorkload.from_kinds((4, 3), ("mixed", "groups"), weights)
    wrong = np.arange(12.0).reshape(4, 3)
    assert asked.errors(wrong) == pytest.approx([((0 + 3) + (9 + 10 + 11)) / 2])


def test_kinds_of_ranges_are_what_they_say() -> None:
    shape = (50, 40)
    prefixes, groups = ranges_of(shape, ("prefixes", "groups")), ranges_of(shape, ("groups", "groups"))
    assert (prefixes.lower[:, 0] == 0).all()
    widths = groups.upper - groups.lower
    assert ((widths == 1) | (widths == shape)).all()
    wide, short = (ranges_of(shape, (kind, kind)).sizes.mean() for kind in ("ranges", "short"))
    assert short < wide / 4


def test_made_up_tables_keep_what_was_counted() -> None:
    partial, _ = prepared(Gate(dense((16, 16)), Fraction(1), noise=SilentNoise()))
    tree = partial.tree
    totals = np.zeros(len(tree), np.int64)
    totals[0] = 1000
    weights = np.tile([0.1, 0.1, 0.4, 0.4], (int(tree.levels.max()) + 1, 1))
    draw_below(tree, totals, ROOT, np.full(len(tree), 0.5), weights, 0.3, seed=1)
    assert totals.min() >= 0
    inner = np.flatnonzero(~tree.is_leaf)
    np.testing.assert_array_equal(totals[inner], totals[inner + 1] + totals[tree.end[inner + 1]])
    assert len(set(totals[tree.leaves].tolist())) > 5


def test_what_is_drawn_follows_from_its_seed() -> None:
    """Else the same counts could lead to another plan, and nobody could check the choice."""
    partial, _ = prepared(Gate(dense((16, 16)), Fraction(1), noise=SilentNoise()))
    tree, table = partial.tree, dense((4, 4))
    weights = np.tile([0.1, 0.1, 0.4, 0.4], (int(tree.levels.max()) + 1, 1))
    per_unit, corner = Fraction(1, BUDGET_UNITS), Boxes((4, 4), np.zeros((1, 2), np.int64), np.full((1, 2), 4))

    def drawn(seed: int) -> list[list[int] | list[float]]:
        totals = np.zeros(len(tree), np.int64)
        totals[0] = 10**6
        draw_below(tree, totals, ROOT, np.full(len(tree), 0.5), weights, 0.3, seed=seed)
        counter = simulated_gate(table, per_unit * BUDGET_UNITS, seed=seed)
        said = counter.boxes(corner, np.array([BUDGET_UNITS // 1000]))
        cells, sums = every_cell(counter, BUDGET_UNITS // 1000), counter.marginal((1,), BUDGET_UNITS // 1000)
        noise = noise_of_cells((4, 4), np.array(list(np.ndindex(4, 4))), 1.0, seed=seed)
        assert cells.shape == table.shape
        assert sums.shape == (4,)
        return [values.reshape(-1).tolist() for values in (totals, said, cells, sums, noise)]

    assert drawn(1) == drawn(1)
    assert all(one != other for one, other in zip(drawn(1), drawn(2), strict=True))
    np.testing.assert_array_equal(ranges_of((50,), ("short",)).upper, ranges_of((50,), ("short",)).upper)


def test_plain_cells_on_a_made_up_table_have_the_noise_of_the_plan_of_cells() -> None:
    """So that plans and plain cells are compared by what they do, not by luck."""
    table, per_unit = dense((8, 8)), Fraction(1, BUDGET_UNITS)
    partial, setting = prepared(Gate(table, Fraction(1), noise=SeededNoise(1)))
    twin = partial.on(simulated_gate(table, per_unit * BUDGET_UNITS, seed=7))
    CELLS.run(twin, setting)
    nodes, counts, _ = twin.rows[-1]
    places = twin.tree.lower[nodes]
    noise = counts - table[tuple(places.T)]
    expected = noise_of_cells((8, 8), places, 1.0, seed=7)[tuple(places.T)]
    assert (np.abs(noise - expected) <= 1 + 0.03 * np.abs(expected)).all()
    assert np.mean(noise == expected) > 0.9
    cells = Boxes((8, 8), places, places + 1)
    plain = simulated_gate(table, per_unit * BUDGET_UNITS, seed=7).boxes(cells, np.full(64, BUDGET_UNITS))
    np.testing.assert_array_equal(plain - table[tuple(places.T)], expected)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_noise_on_made_up_tables_has_the_law_of_the_gate(epsilon: float) -> None:
    """Rounded Laplace noise has not: at epsilon 3 it is twice as large, and cells would seem worse than they are."""
    noise = discrete_noise(np.full(40_000, epsilon), np.random.default_rng(3))
    expected = float(noise_variances(np.array([BUDGET_UNITS]), Fraction(str(epsilon)) / BUDGET_UNITS)[0])
    square = float(np.mean(noise.astype(float) ** 2))
    deviation = float(np.std(noise.astype(float) ** 2)) / 200
    assert abs(square - expected) < 5 * deviation
    assert abs(np.mean(noise == 0) - math.tanh(epsilon / 2)) < 5 * 0.5 / 200


def test_level_budgets_go_on_high_levels_for_ranges_of_a_line_and_on_cells_for_cells() -> None:
    model = WorkloadModel((256,), ("mixed",))
    nothing = (0.0,) * 9
    queries, both = (
        LevelBudgets(model, model.cut_order(), (256,), 1.0, cells=c).best(0, 1.0, nothing) for c in (0.0, 3.0)
    )
    for budgets in (queries, both):
        assert budgets.sum() == pytest.approx(1)
        assert budgets.min() >= 0
    assert queries[-1] < both[-1] <= 1
    assert both[-1] > 0.7


def test_the_plan_is_in_the_file(tmp_path: Path) -> None:
    release = experiment(dense((16, 15)), epsilon="1", strategy="adaptive", noise=SeededNoise(1))
    release.save(tmp_path / "made.dpcube")
    opened = dpcube.open(tmp_path / "made.dpcube")
    assert opened.transcript.plan == release.transcript.plan == "cells"
    assert opened.digest == release.digest


def test_a_release_without_a_plan_says_none(tmp_path: Path) -> None:
    release = experiment(dense((4, 4)), epsilon="1", strategy="cells", noise=SeededNoise(1))
    release.save(tmp_path / "made.dpcube")
    assert dpcube.open(tmp_path / "made.dpcube").transcript.plan is None


@pytest.mark.parametrize("plan", ["a\nb", "x" * 101, "\ud800", 3])
def test_a_plan_that_no_file_could_tell_is_refused(plan: str) -> None:
    made = Adaptive().run(Gate(dense((4, 4)), Fraction(1), noise=SeededNoise(1)))
    with pytest.raises(DomainError, match="the plan of a transcript must be None, or printable text"):
        Transcript(made.shape, made.epsilon_per_unit, made.measurements, plan)


RUNS: list[Callable[[NoisyCounter], Transcript]] = [Adaptive().run, Adaptive(queries="prefixes").run]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_plans_are_among_those_that_there_are(run: Callable[[NoisyCounter], Transcript]) -> None:
    assert ADAPTIVE in PLANS
    for exact in (dense((20, 20)), sparse((20, 20)), dense((400,), 2)):
        assert run(Gate(exact, Fraction(1), noise=SeededNoise(1))).plan in {plan.name for plan in PLANS}
