"""The adaptive strategy from end to end: every shape, every epsilon, every count."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dpcube
from dpcube import Category, Domain, Integer
from dpcube.core.arrays import Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import InputError, QueryError
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.posterior import infer
from dpcube.noise.law import DiscreteLaplace
from dpcube.queries.workload_model import WorkloadModel
from dpcube.research import experiment, random_ranges
from dpcube.strategies import BY_NAME, DEFAULT, Adaptive, partial_tree, strategy_of
from dpcube.strategies.partial_tree import REFINEMENT_ROUNDS, ROOT, PartialTree, most_below
from dpcube.strategies.pilot import FIRST_TOTAL
from dpcube.strategies.refinement import EXPECTED_SPLITS, best_boxes, cheapest, worth_refining
from dpcube.testing import SeededNoise, SilentNoise
from nightly import at_night

SHAPES = [(1,), (2,), (1, 1, 1), (7, 1, 3), (3, 5), (1, 300), (4096,), (40, 33), (3, 4, 2, 5, 2, 3)]
WARDS = Domain((Integer(name="age", min=0, max=9), Category(name="ward", values=("north", "south", "west"))))
EPSILONS = ["0.0001", "0.1", "1", "5.3"]


def table(shape: tuple[int, ...], *, largest: int) -> Ints:
    """Counts over many orders of size, half of them nothing."""
    generator = np.random.default_rng(len(shape) + shape[0])
    sizes = largest ** generator.random(shape)
    return np.where(generator.random(shape) < 0.5, 0, sizes).astype(np.int64)


def charged(boxes: BoxCounts) -> Ints:
    """The units that every cell was charged, by painting."""
    spent = np.zeros(boxes.tree.shape, np.int64)
    for node, units in zip(boxes.node.tolist(), boxes.units.tolist(), strict=True):
        bounds = zip(boxes.tree.lower[node], boxes.tree.upper[node], strict=True)
        spent[tuple(slice(low, high) for low, high in bounds)] += units
    return spent


def charged_by_all(transcript: Transcript) -> Ints:
    """The units that every cell was charged by the tree and by the tables over some attributes."""
    tables = [kept for kept in transcript.measurements if isinstance(kept, Marginal)]
    assert len(tables) == len(transcript.measurements) - 1
    spent: Ints = charged(boxes_of(transcript)) + sum(table.units for table in tables)
    return spent


def boxes_of(transcript: Transcript) -> BoxCounts:
    assert transcript.boxes is not None
    return transcript.boxes


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("largest", [30, pytest.param(2**40, marks=pytest.mark.slow)])
def test_any_shape_epsilon_and_counts(shape: tuple[int, ...], epsilon: str, largest: int) -> None:
    counts = table(shape, largest=largest)
    release = experiment(counts, epsilon=epsilon, strategy="adaptive", noise=SeededNoise(1))
    boxes = boxes_of(release.transcript)
    assert boxes.most_charged() == charged(boxes).max()
    spent = charged_by_all(release.transcript)
    assert spent.max() <= BUDGET_UNITS
    assert release.transcript.most_charged() == spent.max()
    cells = release.cells()
    assert cells.shape == shape
    assert np.isfinite(cells).all()
    assert (cells >= 0).all()
    answers = release.answer(random_ranges(shape, 20, seed=3))
    for numbers in (answers.values, answers.stderrs, answers.nonuniformities):
        assert np.isfinite(numbers).all()
    assert release.estimates[0] == "balanced"


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", ["0.01", "1"])
def test_nearly_all_of_the_budget_is_spent_in_the_cells_of_the_boxes_counted_last(
    shape: tuple[int, ...], epsilon: str
) -> None:
    """A box is counted with all that its poorest cell has left, so every box's poorest cell ends with nothing."""
    release = experiment(table(shape, largest=3000), epsilon=epsilon, strategy="adaptive", noise=SeededNoise(2))
    boxes = boxes_of(release.transcript)
    spent = charged_by_all(release.transcript)
    left = BUDGET_UNITS - spent
    covered = np.zeros(shape, np.bool_)
    for node, units in zip(boxes.node[::-1].tolist(), boxes.units[::-1].tolist(), strict=True):
        bounds = zip(boxes.tree.lower[node], boxes.tree.upper[node], strict=True)
        inside = tuple(slice(low, high) for low, high in bounds)
        if covered[inside].any():
            break  # the look before
        covered[inside] = True
        assert left[inside].min() <= BUDGET_UNITS // 100, units
    assert (covered | (left == 0)).all()  # regions that were given all at once have nothing left


@pytest.mark.parametrize("counts", [np.zeros((40, 33), np.int64), np.full((40, 33), 2**40), np.eye(64, dtype=np.int64)])
def test_empty_full_and_diagonal_tables(counts: Ints) -> None:
    cells = experiment(counts, epsilon="1", strategy="adaptive", noise=SeededNoise(5)).cells()
    assert np.isfinite(cells).all()
    assert abs(cells.sum() - counts.sum()) < 100 + 1e-6 * counts.sum()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", ["5.5", "50"])
def test_plain_cells_are_counted_when_a_share_of_epsilon_is_worth_nothing(shape: tuple[int, ...], epsilon: str) -> None:
    counts = table(shape, largest=2**40)
    plain, ours = (
        experiment(counts, epsilon=epsilon, strategy=name, noise=SeededNoise(3)).cells()
        for name in ("cells", "adaptive")
    )
    np.testing.assert_array_equal(ours, plain)


def test_without_noise_the_table_comes_back() -> None:
    counts = 20 * table((16, 9), largest=500)  # a cell of one row may pass for an empty one with noise of this size
    cells = experiment(counts, epsilon="5", strategy="adaptive", noise=SilentNoise()).cells()
    np.testing.assert_allclose(cells, counts, atol=0.51)


def test_an_empty_table_is_seldom_looked_at_and_a_dense_one_is() -> None:
    """Where nothing is left to learn, looking stops: few boxes; where there is much, every cell is counted."""
    few, many = (
        boxes_of(Adaptive().run(Gate(np.full((64, 64), rows), Fraction(1, 10), noise=SeededNoise(1)))).tree
        for rows in (0, 100_000)
    )
    assert len(few.leaves) < 200
    assert len(many.leaves) == 64 * 64


def test_the_total_is_counted_first() -> None:
    boxes = boxes_of(Adaptive().run(Gate(np.full((4, 4), 5), Fraction(1), noise=SilentNoise())))
    assert (boxes.node[0], boxes.counts[0], boxes.units[0]) == (0, 80, int(FIRST_TOTAL * BUDGET_UNITS))


def test_the_cheapest_boxes_are_those_of_every_way_to_stop() -> None:
    """Against every pruning of a tree of 15 nodes."""
    generator = np.random.default_rng(3)
    parent = np.array([-1, 0, 1, 2, 2, 1, 5, 5, 0, 8, 9, 9, 8, 12, 12])
    end = np.array([15, 8, 5, 4, 5, 8, 7, 8, 15, 12, 11, 12, 15, 14, 15])

    def cost(node: int, unknown: NDArray[np.float64], noise: NDArray[np.float64]) -> float:
        alone = float(unknown[node : end[node]].sum() + noise[node])
        if end[node] == node + 1:
            return alone
        return min(alone, cost(node + 1, unknown, noise) + cost(int(end[node + 1]), unknown, noise))

    for _ in range(50):
        unknown, noise = generator.exponential(1, 15), generator.exponential(2, 15)
        chosen = np.flatnonzero(cheapest(parent, end, unknown, noise))
        found = sum(float(unknown[node : end[node]].sum() + noise[node]) for node in chosen)
        assert found == pytest.approx(cost(0, unknown, noise))
        assert (end - np.arange(15))[chosen].sum() == 15 - sum(1 for n in range(15) if _above(n, chosen.tolist(), end))
    assert most_below(parent, np.arange(15)).tolist()[:2] == [14, 7]


def _above(node: int, chosen: list[int], end: Ints) -> bool:
    return not any(stop <= node < end[stop] for stop in chosen)


def test_unordered_attributes_are_asked_by_groups() -> None:
    counts = np.arange(30).reshape(10, 3)
    release = publish(counts, WARDS, epsilon="1", ledger=None)
    assert release.provenance.strategy == DEFAULT == "adaptive"
    assert release.provenance.parameters == {"queries": "mixed, groups"}
    told = publish(counts, WARDS, epsilon="1", strategy=Adaptive(queries="prefixes"), ledger=None)
    assert told.provenance.parameters == {"queries": "prefixes"}


def test_a_domain_chooses_the_queries_only_where_nobody_did() -> None:
    domain = Domain.of_shape((4, 4))
    assert strategy_of("adaptive", domain) == Adaptive(queries=("mixed", "mixed"))
    assert strategy_of(Adaptive(queries="groups"), domain) == Adaptive(queries="groups")
    assert strategy_of("cells", domain) == BY_NAME["cells"]()


@pytest.mark.parametrize("queries", ["cells", ("ranges", "any")])
def test_unknown_queries_are_refused(queries: str | tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="queries must be among mixed, ranges, prefixes, short, groups, got"):
        Adaptive(queries=queries)


def test_kinds_for_other_attributes_are_refused() -> None:
    with pytest.raises(InputError, match="for each of 2 attributes"):
        Adaptive(queries=("ranges",)).run(Gate(np.zeros((2, 2), np.int64), Fraction(1)))


def test_given_questions_become_weights_and_public_parameters() -> None:
    questions = ("age < 5 and ward = 'north'", "age between 2 and 3")
    fitted = strategy_of(Adaptive(questions=questions), WARDS)
    assert isinstance(fitted, Adaptive)
    assert fitted.weights is not None
    assert fitted.queries == ("mixed", "groups")
    of_age, of_ward = fitted.weights
    np.testing.assert_array_equal(of_age, [[1] * 5 + [0] * 5, [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(of_ward, [[1, 0, 0], [1, 1, 1]])
    release = publish(np.arange(30).reshape(10, 3), WARDS, epsilon="1", strategy=fitted, ledger=None)
    assert release.provenance.parameters == {"questions": "; ".join(questions)}


def test_a_strategy_fitted_to_another_domain_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    fitted = strategy_of(Adaptive(questions=("age < 5",)), WARDS)
    wider = Domain((Integer(name="age", min=0, max=19), WARDS.attributes[1]))
    with pytest.raises(InputError, match="fitted to another domain"):
        publish(np.ones((20, 3), np.int64), wider, epsilon="1", strategy=fitted, ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


@pytest.mark.slow
def test_questions_draw_the_boxes_to_where_they_ask() -> None:
    """Of spiky counts, those that are asked about one by one get more of the budget, and err less.

    At an epsilon of 0.05 plain cells are the plan whatever is asked.
    """
    counts = (np.random.default_rng(0).pareto(1.0, 1024) * 100).clip(0, 2000).astype(np.int64)
    paid, errors = np.zeros((2, 10)), np.zeros((2, 10))
    for row, questions in enumerate([tuple(f"axis0 = {cell}" for cell in range(128)), ()]):
        strategy = Adaptive(questions=questions)
        for seed in range(10):
            release = experiment(counts, epsilon="0.02", strategy=strategy, noise=SeededNoise(seed))
            boxes = boxes_of(release.transcript)
            asked = (boxes.tree.upper[boxes.node, 0] <= 128) & (boxes.tree.sizes[boxes.node] == 1)
            paid[row, seed] = boxes.units[asked].sum()
            errors[row, seed] = np.abs(release.cells() - counts)[:128].mean()
    assert (paid[0] >= paid[1]).all()
    assert paid[0].mean() > 1.1 * paid[1].mean()
    assert errors[0].mean() < errors[1].mean()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"questions": ("age < 5",), "queries": "ranges"}, "kinds of queries, or a list of questions, not both"),
        ({"questions": "age < 5"}, "or a list of questions"),
        ({"questions": ("age < 5",) * 10_000_000}, "10,000,000 questions on attributes of 13 cells are too many"),
        ({"questions": ("agee < 5",)}, "there is no attribute 'agee'"),
    ],
)
def test_wrong_questions_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, QueryError), match=words):
        strategy_of(Adaptive(**given), WARDS)


def test_a_saved_release_answers_the_same(tmp_path: Path) -> None:
    release = experiment(table((40, 33), largest=500), epsilon="0.5", strategy="adaptive", noise=SeededNoise(9))
    release.save(tmp_path / "made.dpcube")
    opened = dpcube.open(tmp_path / "made.dpcube")
    assert opened.digest == release.digest
    np.testing.assert_array_equal(opened.cells(), release.cells())
    asked = random_ranges((40, 33), 50, seed=2)
    for name in ("values", "stderrs", "nonuniformities"):
        np.testing.assert_array_equal(getattr(opened.answer(asked), name), getattr(release.answer(asked), name))


def test_the_seed_is_all_that_an_experiment_depends_on() -> None:
    counts = table((40, 33), largest=500)
    one, again, other = (
        experiment(counts, epsilon="0.5", strategy="adaptive", noise=SeededNoise(seed)).cells() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


PEAK = """
import sys
from pathlib import Path
import numpy as np
from dpcube.strategies import Adaptive
from dpcube.core.gate import Gate
from dpcube.testing import SeededNoise
from fractions import Fraction

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

def run(shape):
    return Adaptive().run(Gate(np.full(shape, 1000), Fraction(1), noise=SeededNoise(1)))

shape = tuple(map(int, sys.argv[1:]))
run((2,) * len(shape))
before = peak()
leaves = len(run(shape).boxes.tree.leaves)
print(peak() - before, Adaptive().peak_bytes(shape), leaves, np.prod(shape))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc, to know the most memory a process held"
)
@pytest.mark.parametrize("shape", [(512, 512), at_night((2**18,)), at_night((12, 12, 12, 12, 12))])
def test_memory_stays_within_what_is_announced(shape: tuple[int, ...]) -> None:
    """With every cell counted, which takes most."""
    command = [sys.executable, "-c", PEAK, *map(str, shape)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken, announced, leaves, cells = map(int, done.stdout.split())
    assert leaves == cells
    assert taken <= announced


def test_the_tree_is_bounded_and_grows_where_it_is_worth_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four corners hold rows, one of them ten times as many: with room for one corner only, that one is looked into."""
    counts = np.zeros((64, 64), np.int64)
    counts[:8, :8] = counts[:8, -8:] = counts[-8:, :8] = 1000
    counts[-8:, -8:] = 10_000
    free = boxes_of(Adaptive().run(Gate(counts, Fraction(1), noise=SeededNoise(1))))
    monkeypatch.setattr(partial_tree, "MAX_NODES", 300)
    bounded = boxes_of(Adaptive().run(Gate(counts, Fraction(1), noise=SeededNoise(1))))
    assert len(bounded.tree) <= 300 < len(free.tree)
    smallest = bounded.tree.leaves[bounded.tree.sizes[bounded.tree.leaves] == 1]
    assert len(smallest)
    assert (bounded.tree.lower[smallest] >= 32).all()


def left_by_path(partial: PartialTree) -> Ints:
    """What each node's own cells have left: all, less what the node and those above it were counted with."""
    left = np.full(len(partial.tree), BUDGET_UNITS, np.int64)
    for node in range(len(partial.tree)):
        at = node
        while at >= 0:
            left[node] -= sum(int(units[nodes == at].sum()) for nodes, _, units in partial.rows)
            at = int(partial.tree.parent[at])
    return left


def test_a_look_is_weighed_against_what_the_region_itself_has_left() -> None:
    """One region was counted with nearly all it had: its noise is far larger than that of the others."""
    counts = np.add.outer(np.arange(16), 3 * np.arange(16)) * 4
    gate = Gate(counts, Fraction(1, 2), noise=SeededNoise(7))
    model = WorkloadModel((16, 16), ("mixed", "mixed"))
    partial = PartialTree(gate, model.cut_order())
    partial.count(ROOT, np.array([BUDGET_UNITS // 50]))
    fresh, _ = partial.below(ROOT, 3)
    units = np.full(len(fresh), BUDGET_UNITS // 100)
    units[::2] = BUDGET_UNITS - BUDGET_UNITS // 50 - BUDGET_UNITS // 1000  # which leaves a thousandth
    partial.count(fresh, units)
    left = left_by_path(partial)
    np.testing.assert_array_equal(partial.left[fresh], left[fresh])
    posterior = infer(partial.tree, *partial.counts().by_node(gate.epsilon_per_unit), rounds=REFINEMENT_ROUNDS)
    covered, differ = model.values(partial.tree.lower, partial.tree.upper, *partial.order.cuts_of(partial.tree))
    gains = {
        node: differ[node]
        * EXPECTED_SPLITS
        * (posterior.totals[node] ** 2 + posterior.variances[node])
        / (covered[node] * DiscreteLaplace(int(left[node]) * gate.epsilon_per_unit).variance)
        for node in fresh.tolist()
    }
    worth = sorted((node for node in gains if gains[node] > 1), key=lambda node: -gains[node])
    assert worth_refining(partial, fresh, model).tolist() == worth
    assert 0 < len(worth) < len(fresh)


def test_boxes_are_counted_with_what_their_poorest_cell_has_left() -> None:
    gate = Gate(table((16, 16), largest=500), Fraction(1), noise=SeededNoise(8))
    model = WorkloadModel((16, 16), ("mixed", "mixed"))
    partial = PartialTree(gate, model.cut_order())
    partial.count(ROOT, np.array([BUDGET_UNITS // 50]))
    fresh, _ = partial.below(ROOT, 4)
    partial.count(fresh, (np.arange(len(fresh)) + 1) * (BUDGET_UNITS // 100))
    chosen, units = best_boxes(partial, model)
    left, tree = left_by_path(partial), partial.tree
    for node, paid in zip(chosen.tolist(), units.tolist(), strict=True):
        leaves = [leaf for leaf in tree.leaves.tolist() if node <= leaf < tree.end[node]]
        assert paid == min(left[leaf] for leaf in leaves)
