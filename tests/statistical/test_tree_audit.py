"""The exact audit of whole private trees, from the first count to the last leaf, and twins that it does not pass.

A tree is grown with noise from a script, once for every script: each count is far above or far below the truth, so
that a node is split or becomes a leaf, and each choice is made in every way. (Of trees by noisy counts, which ask much
more, some scripts are drawn.) What is told is kept. A neighbour's tree is told the same with other noise (that it asks
the same is checked, of one neighbour after another), and the ratio of the two probabilities is known exactly: of a
count by the difference of the noise, of a choice by its law (test_choice_audit). It may not be more than what the gate
charged the cell in which the neighbours differ, and that not more than the budget. A tree is made of what was told, so
no output of it can lose more.

As there, q is the ratio of the noise of an honest choice and taken to be 1/2: all other epsilons are multiples of its
own, and ratios are rational numbers.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from auditor import ChargeForgotten
from checks import Values, revealed
from test_release_audit import Numbers, Source
from test_selection_audit import Halved, law

from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.candidates import CRITERIA, ONE, BestSplit, Candidates
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.errors import BudgetError
from dpcube.core.gate import Gate
from dpcube.core.noise import Noise
from dpcube.research.classification import private_trees
from dpcube.research.classification.private_trees import interactive_id3, random_trees

EPSILON = Fraction(3)
TARGET, FAR = 1, 10**9
Q = Fraction(1, 2)
Grow = Callable[[NoisyCounter], object]
MakeGate = Callable[[Values, Noise], Gate]
TABLES = {
    "empty": np.zeros((3, 2, 2), np.int64),
    "pure": np.array([[[40, 0], [0, 0]], [[0, 0], [0, 31]], [[0, 0], [10, 0]]]),
    "mixed": np.array([[[4, 0], [1, 2]], [[0, 9], [3, 0]], [[1, 1], [0, 6]]]),
}
"""Attributes of 3 and 2 values, and a class between them."""


class Script:
    """What is decided, one decision after another: first what is given, then the first way or any."""

    def __init__(self, given: Sequence[int], generator: np.random.Generator | None = None) -> None:
        self._given, self._generator, self.made = list(given), generator, list[tuple[int, int]]()

    def pick(self, ways: int) -> int:
        turn, any_way = len(self.made), 0 if self._generator is None else int(self._generator.integers(ways))
        way = self._given[turn] if turn < len(self._given) else any_way
        self.made.append((way, ways))
        return way

    def next(self) -> list[int] | None:
        """The decisions of the next script, in the order of an odometer; after the last there is none."""
        made = list(self.made)
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        return [way for way, _ in made[:-1]] + [made[-1][0] + 1] if made else None


def every_script() -> Iterator[Script]:
    """All of them: each is made once the one before was used."""
    given: list[int] | None = []
    while given is not None:
        yield (script := Script(given))
        given = script.next()


def some_scripts() -> Iterator[Script]:
    """All counts far above the truth, and forty at random."""
    yield Script([])
    yield from (Script([], np.random.default_rng(seed)) for seed in range(40))


def honest(exact: Values, noise: Noise) -> Gate:
    return Gate(exact, EPSILON, noise=noise)


class Told:
    """A counter around a gate with scripted noise, which keeps what was asked, what was said, and the epsilons.

    A second gate gets numbers in the place of noise, by which a count is known to have the noise of one draw.
    """

    def __init__(self, make: MakeGate, exact: Values, script: Script) -> None:
        self._noise: Values = np.empty(0, np.int64)
        self._script, self._numbers, self._used = script, Numbers(), set[int]()
        self.gate, self._twin = make(exact, Source(lambda *_: self._noise)), make(exact, self._numbers)
        self.exact, self.shape, self.epsilon_per_unit = exact, self.gate.shape, self.gate.epsilon_per_unit
        self.calls: list[tuple[Boxes | Candidates, Values, list[Fraction]]] = []

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        ways = [self._script.pick(2) for _ in range(len(boxes) if len(boxes) <= 3 else 1)]
        self._noise = np.resize(np.array([FAR, -FAR])[ways], len(boxes))
        said = self.gate.boxes(boxes, units)
        drawn = (self._twin.boxes(boxes, units) - box_sums(self.exact, boxes)).tolist()
        assert len(self._used | set(drawn)) == len(self._used) + len(drawn), "noise was used twice"
        self._used |= set(drawn)
        self.calls.append((boxes, said.copy(), [self._numbers.epsilons[number] for number in drawn]))
        return said

    def select(self, candidates: Candidates, units: int) -> Values:
        noise = [FAR * (np.arange(size) == self._script.pick(size)) for size in candidates.sizes.tolist()]
        self._noise = np.concatenate(noise)
        said = self.gate.select(candidates, units)
        assert said.tolist() == [int(part.argmax()) for part in noise]
        first = len(self._numbers.epsilons)
        self._twin.select(candidates, units)
        (epsilon,) = set(self._numbers.epsilons[first:])
        self.calls.append((candidates, said.copy(), [epsilon]))
        return said

    def charged(self) -> Values:
        """The units that each cell was charged."""
        left = np.asarray(self.gate._budget._left)
        return np.asarray(BUDGET_UNITS - np.broadcast_to(left, self.shape), np.int64)


class Again:
    """A neighbour's counter, which says what was said before, and notices when it is asked anything else."""

    def __init__(self, told: Told, exact: Values) -> None:
        self.exact, self.shape, self.epsilon_per_unit = exact, told.shape, told.epsilon_per_unit
        self._calls = iter(told.calls)

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        asked, said, _ = next(self._calls)
        assert isinstance(asked, Boxes), "a choice was asked for"
        assert np.array_equal(boxes.lower, asked.lower), "other boxes were asked for"
        assert np.array_equal(boxes.upper, asked.upper), "other boxes were asked for"
        assert len(units) == len(said)
        return said.copy()

    def select(self, candidates: Candidates, units: int) -> Values:
        asked, said, _ = next(self._calls)
        assert isinstance(candidates, BestSplit), units
        assert isinstance(asked, BestSplit), "boxes were asked for"
        assert np.array_equal(candidates.boxes.lower, asked.boxes.lower), "other boxes were asked for"
        assert candidates.axes == asked.axes, "other axes were asked for"
        return said.copy()


def neighbours(exact: Values) -> Iterator[tuple[tuple[int, ...], Values]]:
    for cell in np.ndindex(exact.shape):
        for change in (1, -1):
            if exact[cell] + change >= 0:
                other = exact.copy()
                other[cell] += change
                yield cell, other


def probability(candidates: BestSplit, said: Values, exact: Values, q: Fraction, laws: dict[Any, Any]) -> Fraction:
    """The exact probability of the choices that were made."""
    scores, result = iter(candidates.scores(exact).tolist()), Fraction(1)
    for size, made in zip(candidates.sizes.tolist(), said.tolist(), strict=True):
        some = list(itertools.islice(scores, size))
        key = tuple(one - max(some) for one in some), q
        if key not in laws:
            laws[key] = law(list(key[0]), q)
        result *= laws[key][made]
    return result


def loss(told: Told, other: Values, honest_choice: Fraction, laws: dict[Any, Any]) -> tuple[Fraction, Fraction]:
    """What a neighbour changes: of the counts as a power of 1/q, and of the choices as a ratio of probabilities."""
    power, ratio = Fraction(0), Fraction(1)
    for asked, said, epsilons in told.calls:
        if isinstance(asked, BestSplit):
            times = epsilons[0] / honest_choice
            assert times.denominator == 1
            one, another = (probability(asked, said, table, Q ** int(times), laws) for table in (told.exact, other))
            ratio *= one / another
            continue
        assert isinstance(asked, Boxes)
        was, now = np.abs(said - box_sums(told.exact, asked)), np.abs(said - box_sums(other, asked))
        for at in np.flatnonzero(was != now):
            power += epsilons[at] / honest_choice * int(now[at] - was[at])
    return power, ratio


class Audit:
    """Whether some cell loses more than it was charged, over scripts and all neighbours, or all of the whole budget.

    A tree of this depth has 2 (depth + 1) equal parts of the budget.
    """

    def __init__(
        self,
        grow: Grow,
        exact: Values,
        make: MakeGate = honest,
        *,
        depth: int = 1,
        spread: int = 1,
        scripts: Callable[[], Iterator[Script]] = every_script,
    ) -> None:
        units = BUDGET_UNITS // (2 * (depth + 1))
        self._full = 2 * (depth + 1) * units
        self._honest_choice = units * EPSILON / BUDGET_UNITS / spread
        self.loses_too_much, self.loses_all, self.most_charged, self.scripts = False, False, 0, 0
        self._laws: dict[Any, Any] = {}
        others = list(neighbours(exact))
        for script in scripts():
            told = Told(make, exact, script)
            grow(told)  # type: ignore[arg-type]
            grow(Again(told, others[self.scripts % len(others)][1]))  # type: ignore[arg-type]
            self.scripts += 1
            self._compare(told, others)

    def _compare(self, told: Told, others: list[tuple[tuple[int, ...], Values]]) -> None:
        charged = told.charged()
        self.most_charged = max(self.most_charged, int(charged.max()))
        for cell, other in others:
            allowed = int(charged[cell]) * (EPSILON / BUDGET_UNITS) / self._honest_choice
            for power, ratio in both_ways(*loss(told, other, self._honest_choice, self._laws)):
                self.loses_too_much |= above(power, ratio, allowed)
                if charged[cell] == self._full:
                    self.loses_all |= not above(power, ratio, allowed) and not above(-power, 1 / ratio, -allowed)


def both_ways(power: Fraction, ratio: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    yield power, ratio
    yield -power, 1 / ratio


def above(power: Fraction, ratio: Fraction, allowed: Fraction) -> bool:
    """Whether q^-power times the ratio is above q^-allowed."""
    if ratio == 1:
        return power > allowed
    assert (allowed - power).denominator == 1
    return ratio > Q ** -int(allowed - power)


def interactive(criterion: Any, depth: int = 1) -> Grow:
    return lambda counter: interactive_id3(counter, TARGET, depth=depth, criterion=criterion, most_rows=64)


def sulq(counter: NoisyCounter) -> object:
    return interactive_id3(counter, TARGET, depth=2, splits="sulq")


def three_random_trees(counter: NoisyCounter) -> object:
    return random_trees(counter, TARGET, trees=3, height=2, seed=4)


def spread_of(criterion: Any) -> int:
    whole = Boxes((3, 2, 2), np.zeros((1, 3), np.int64), np.array([[3, 2, 2]]))
    return BestSplit(whole, TARGET, (0, 2), criterion, 64).sensitivity


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_tree_by_choices_loses_more_than_it_was_charged(criterion: Any, table: str) -> None:
    audit = Audit(interactive(criterion), TABLES[table], spread=spread_of(criterion))
    assert not audit.loses_too_much
    # A leaf at once: 2 classes above or below. Split in 3 or in 2: as many counts, and all classes of leaves together.
    assert (audit.scripts, audit.most_charged) == (2**2 + 2**3 * 2 + 2**2 * 2, 4 * (BUDGET_UNITS // 4))
    if criterion == "max" and table == "mixed":
        assert audit.loses_all  # some cell loses all of the budget: the audit would see a unit more


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_deeper_tree_loses_more_than_it_was_charged(criterion: Any) -> None:
    audit = Audit(interactive(criterion, 2), TABLES["mixed"], depth=2, spread=spread_of(criterion))
    assert not audit.loses_too_much
    assert audit.scripts > 100
    assert audit.most_charged == 6 * (BUDGET_UNITS // 6) <= BUDGET_UNITS


@pytest.mark.parametrize("table", TABLES)
def test_no_tree_by_noisy_counts_loses_more_than_it_was_charged(table: str) -> None:
    audit = Audit(sulq, TABLES[table], depth=2, scripts=some_scripts)
    assert not audit.loses_too_much
    assert BUDGET_UNITS - 2**10 < audit.most_charged <= BUDGET_UNITS


@pytest.mark.parametrize("table", TABLES)
def test_no_random_trees_lose_more_than_they_were_charged(table: str) -> None:
    audit = Audit(three_random_trees, TABLES[table])
    assert not audit.loses_too_much
    assert (audit.scripts, audit.most_charged) == (2**3, 3 * (BUDGET_UNITS // 3))


# The twins: the same audit finds each of these.


class LouderCounts(Gate):
    """A gate that draws noise of counts for a tenth more than it charges."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        epsilon = Fraction(11, 10) * int(units[0]) * self.epsilon_per_unit
        return box_sums(revealed(self._exact), boxes) + self._noise.draw(epsilon, len(boxes))


class SameNoiseForAll(Gate):
    """A gate with one noise for all boxes of a call."""

    def boxes(self, boxes: Boxes, units: Values) -> Values:
        self._budget.charge(boxes, units)
        drawn = self._noise.draw(int(units[0]) * self.epsilon_per_unit, 1)[:1]
        return box_sums(revealed(self._exact), boxes) + np.repeat(drawn, len(boxes))


def made_by(gate: Callable[..., Gate]) -> MakeGate:
    return lambda exact, noise: gate(exact, EPSILON, noise=noise)


@pytest.mark.parametrize("gate", [Halved, ChargeForgotten])
def test_sabotage_choices_with_too_little_noise_or_for_nothing_are_caught(gate: Callable[..., Gate]) -> None:
    assert Audit(interactive("max"), TABLES["mixed"], made_by(gate)).loses_too_much


@pytest.mark.parametrize("grow", [three_random_trees, sulq])
def test_sabotage_counts_with_too_little_noise_are_caught(grow: Grow) -> None:
    assert Audit(grow, TABLES["empty"], made_by(LouderCounts), scripts=some_scripts).loses_too_much


def test_sabotage_noise_that_is_used_twice_is_caught() -> None:
    with pytest.raises(AssertionError, match="noise was used twice"):
        Audit(three_random_trees, TABLES["mixed"], made_by(SameNoiseForAll))


@pytest.mark.parametrize("criterion", ["gini", "information"])
def test_sabotage_a_score_taken_to_change_by_one_is_caught(criterion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gini changes by up to 2, information by more: with noise for a change of 1 some neighbour tells."""
    monkeypatch.setattr(BestSplit, "sensitivity", property(lambda _: ONE))
    assert Audit(interactive(criterion), TABLES["pure"], spread=ONE).loses_too_much


def test_sabotage_a_stop_by_the_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_rows(one: Any, _: int, __: int, ___: float, counter: Any) -> bool:
        return bool(one.axes) and counter.exact[tuple(map(slice, one.lower, one.upper))].sum() % 2 == 0

    monkeypatch.setattr(private_trees, "_is_worth_splitting", by_rows)
    with pytest.raises((AssertionError, StopIteration)):
        Audit(interactive("max"), TABLES["mixed"])


def test_sabotage_random_trees_shaped_by_the_rows_are_caught() -> None:
    with pytest.raises(AssertionError, match="other boxes were asked for"):
        Audit(
            lambda counter: random_trees(counter, TARGET, trees=2, height=1, seed=int(counter.exact.sum())),  # type: ignore[attr-defined]
            TABLES["mixed"],
        )


def test_sabotage_leaves_counted_with_a_part_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf's classes are counted with two parts: a gate refuses the deepest leaves, whatever the rows are."""
    count_classes = private_trees._count_classes
    monkeypatch.setattr(private_trees, "_count_classes", lambda c, leaves, t, u: count_classes(c, leaves, t, 2 * u))
    for grow in (interactive("max"), sulq):
        with pytest.raises(BudgetError):
            Audit(grow, TABLES["empty"])
