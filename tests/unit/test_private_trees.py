"""Private trees of others: what they spend, that rows reach them through the counter alone, and what they tell."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcube.core.boxes import Boxes
from dpcube.core.candidates import CRITERIA, Candidates, Criterion
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.domain import Domain
from dpcube.core.errors import BudgetError
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise
from dpcube.core.sources.open import counts_from_array
from dpcube.learn import HistogramID3
from dpcube.learn.id3 import Node
from dpcube.research.classification import private_trees
from dpcube.research.classification.private_trees import interactive_id3, random_trees, votes
from dpcube.testing import SeededNoise, SilentNoise

SHAPE, TARGET = (3, 2, 4, 2), 1
FEATURES = (0, 2, 3)
COUNTS = np.random.default_rng(5).integers(0, 400, SHAPE)
CELLS = np.indices((3, 4, 2)).reshape(3, -1).T


def gate(noise: Noise, epsilon: object = 1, counts: np.ndarray[Any, Any] = COUNTS) -> Gate:
    return Gate(counts_from_array(counts, Domain.of_shape(SHAPE)), Fraction(str(epsilon)), noise=noise)


class Account:
    """A counter that passes every call on, and keeps what each cell was charged for it."""

    def __init__(self, counter: Gate) -> None:
        self.counter, self.charged, self.calls = counter, np.zeros(counter.shape, np.int64), list[Any]()
        self.shape, self.epsilon_per_unit = counter.shape, counter.epsilon_per_unit

    def boxes(self, boxes: Boxes, units: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        for lower, upper, each in zip(boxes.lower, boxes.upper, units, strict=True):
            self.charged[tuple(map(slice, lower, upper))] += each
        return self._kept(self.counter.boxes(boxes, units))

    def grouped(self, groups: object) -> NoisyCounter:
        raise AssertionError(groups)

    def select(self, candidates: Candidates, units: int) -> np.ndarray[Any, Any]:
        assert candidates.covered is not None
        for lower, upper in zip(candidates.covered.lower, candidates.covered.upper, strict=True):
            self.charged[tuple(map(slice, lower, upper))] += units
        return self._kept(self.counter.select(candidates, units))

    def marginal(self, axes: tuple[int, ...], units: int) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def _kept(self, answer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.calls.append(answer)
        return answer


class Replayed:
    """A counter without rows: it gives the answers that another gave."""

    def __init__(self, account: Account) -> None:
        self.shape, self.epsilon_per_unit, self._answers = account.shape, account.epsilon_per_unit, iter(account.calls)

    def boxes(self, *_: object) -> Any:
        return next(self._answers)

    select = boxes


def drawn(node: Node) -> object:
    """Return a tree as plain values."""
    return node.axis, node.weights.tolist(), {value: drawn(child) for value, child in node.children.items()}


METHODS: dict[str, dict[str, Any]] = {
    "sulq": {"splits": "sulq"},
    **{criterion: {"criterion": criterion, "most_rows": 2**14} for criterion in CRITERIA},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_cell_pays_more_than_the_budget_and_the_deepest_pay_nearly_all(method: str, depth: int) -> None:
    account = Account(gate(SilentNoise(), 100))
    interactive_id3(account, TARGET, depth=depth, **METHODS[method])
    assert account.charged.max() <= BUDGET_UNITS
    assert account.charged.max() >= BUDGET_UNITS - 2**10  # shares are rounded down


def test_a_level_costs_two_parts() -> None:
    account = Account(gate(SilentNoise(), 100))
    interactive_id3(account, TARGET, depth=3)
    each = BUDGET_UNITS // 8
    assert set(np.unique(account.charged // each)) == {8}
    assert (account.charged % each == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_rows_reach_a_tree_through_the_counter_alone(method: str) -> None:
    account = Account(gate(SeededNoise(3)))
    made = interactive_id3(account, TARGET, depth=3, **METHODS[method])
    again = interactive_id3(Replayed(account), TARGET, depth=3, **METHODS[method])  # type: ignore[arg-type]
    assert drawn(again) == drawn(made)


@pytest.mark.parametrize("method", METHODS)
def test_a_tree_that_spends_more_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sabotage twin: parts of a budget twice as large, and the gate stops them."""
    monkeypatch.setattr(private_trees, "BUDGET_UNITS", 2 * BUDGET_UNITS)
    with pytest.raises(BudgetError):
        interactive_id3(gate(SilentNoise(), 100), TARGET, depth=3, **METHODS[method])
    with pytest.raises(BudgetError):
        random_trees(gate(SilentNoise(), 100), TARGET, trees=4)


@pytest.mark.parametrize("method", ["sulq", "information"])
def test_without_noise_it_is_id3(method: str) -> None:
    tree = interactive_id3(gate(SilentNoise(), 10**6), TARGET, depth=3, **METHODS[method])
    by_class = np.moveaxis(COUNTS, TARGET, -1)
    weights = by_class.reshape(-1)
    X, y = np.repeat(CELLS, 2, axis=0), np.tile([0, 1], len(CELLS))
    plain = HistogramID3().fit(X, y, weights.astype(float))
    assert tree.axis == plain.tree_.axis
    np.testing.assert_array_equal(votes([tree], CELLS).argmax(axis=1), plain.predict(CELLS))


@pytest.mark.parametrize("criterion", ["max", "gini"])
def test_without_noise_a_node_is_split_by_its_criterion(criterion: Criterion) -> None:
    tree = interactive_id3(gate(SilentNoise(), 100), TARGET, depth=1, criterion=criterion)
    scores = []
    for axis in FEATURES:
        table = COUNTS.sum(axis=tuple(a for a in range(4) if a not in (axis, TARGET)))
        table = (table if axis < TARGET else table.T).astype(float)
        rows = table.sum(axis=1)
        scores.append(table.max(axis=1).sum() if criterion == "max" else (table**2).sum(axis=1) @ (1 / rows))
    assert tree.axis == int(np.argmax(scores))


def test_a_node_of_few_rows_is_a_leaf() -> None:
    """With e = 1/12, two values and two classes at most, a node is a leaf below 67.88 rows (baselines, section 4)."""
    units = BUDGET_UNITS // 12
    deviation = math.sqrt(2) / (units / BUDGET_UNITS)
    account = gate(SilentNoise())
    one = private_trees._Open(Node(np.zeros(2)), np.zeros(4, int), np.array(SHAPE), (3,))
    assert not private_trees._is_worth_splitting(one, 67, TARGET, deviation, account)
    assert private_trees._is_worth_splitting(one, 68, TARGET, deviation, account)
    empty = np.zeros(SHAPE, np.int64)
    tree = interactive_id3(gate(SilentNoise(), 1, empty), TARGET)
    assert tree.axis == -1


class TestRandomTrees:
    def test_their_shapes_know_nothing_of_the_rows(self) -> None:
        def shape(node: Node) -> object:
            return node.axis, {value: shape(child) for value, child in node.children.items()}

        one, other = (random_trees(gate(SilentNoise(), 1, counts), TARGET, seed=3) for counts in (COUNTS, 0 * COUNTS))
        assert [shape(tree) for tree in one] == [shape(tree) for tree in other]
        assert [shape(tree) for tree in random_trees(gate(SilentNoise()), TARGET, seed=4)] != list(map(shape, one))

    def test_each_costs_its_part(self) -> None:
        account = Account(gate(SilentNoise()))
        random_trees(account, TARGET, trees=7)
        assert (account.charged == 7 * (BUDGET_UNITS // 7)).all()

    def test_one_of_full_height_without_noise_looks_cells_up(self) -> None:
        trees = random_trees(gate(SilentNoise()), TARGET, trees=1, height=3)
        np.testing.assert_array_equal(votes(trees, CELLS), np.moveaxis(COUNTS, TARGET, -1).reshape(-1, 2))
