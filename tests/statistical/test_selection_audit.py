"""The exact audit of private selections over every store, and for each way to break them a gate it does not pass.

A choice with noise at epsilon a has the law of whole powers of q = exp(-a). So q is taken to be a rational number, and
probabilities are rational numbers too: nothing is sampled and nothing rounded, and a bound exp(e) is a power of q.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from auditor import (
    EPSILON,
    STORES,
    ChargeForgotten,
    MakeGate,
    SharedNoise,
    Tape,
    charge_selection,
    left_of,
    over,
    rows_forgotten,
)
from checks import ALARM, Values, association, revealed, two_sided, union
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpcube.core.boxes import Boxes
from dpcube.core.candidates import CRITERIA, BestSplit, Candidates, MedianCuts, ReadRows, TableDistances
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.gate import Gate
from dpcube.core.selection import one_sided, selected

HALF = BUDGET_UNITS // 2
BY_STORE = pytest.mark.parametrize("store", list(STORES))
ONES, ZEROS = np.ones(3, np.int64), np.zeros(3, np.int64)


def whole(*shape: int) -> Boxes:
    return Boxes(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))


def opposite(cells: int, predicted: int) -> TableDistances:
    """All cells of a line twice: one row more takes the first further from 0 and brings the second nearer."""
    tables = np.array([0]), np.array([predicted])
    return TableDistances((1, cells), ((0,), (0,)), tables, ONES[:2], ZEROS[:2])


def tables(weights: Values) -> TableDistances:
    predicted = np.array([2, 1]), np.array([1, 2]), np.ones((2, 2), int)
    return TableDistances((2, 2), ((0,), (1,), (0, 1)), predicted, weights, ZEROS)


SQUARE = whole(2, 2, 2)
KINDS: dict[str, Candidates] = {
    "medians": MedianCuts(whole(4), np.array([0])),
    "medians of two boxes": MedianCuts(
        Boxes((2, 3), np.array([[0, 0], [1, 0]]), np.array([[1, 3], [2, 3]])), np.array([1, 1])
    ),
    "opposite tables": opposite(4, 9),
    "tables": tables(ONES),
    "weighted tables": tables(np.array([1, 3, 2])),
    **{criterion: BestSplit(SQUARE, 2, (0, 1), criterion) for criterion in CRITERIA},
    "information of few": BestSplit(SQUARE, 2, (0, 1), "information", 2),
    "readings": ReadRows((2, 3), (0, 1), (np.array([True, False]), np.array([True, False, False])), (2, 1)),
}


# The law of a choice, and the exact loss on all neighbours of small tables.


def law(scores: list[int], q: Fraction) -> list[Fraction]:
    """Return the exact probability of each candidate: the first of the highest sums of a score and geometric noise.

    The highest sum v is at least the highest score. Given v, candidate i has noise v - s_i, those before it less and
    those after it no more: P(i) is the sum over v of (1-q) q^(v - s_i) times factors 1 - q^(v - s_j + [j > i]). Their
    product is multiplied out, and each of its terms summed over all v.
    """
    top, found = max(scores), []
    for i, mine in enumerate(scores):
        total, others = Fraction(0), [(top - s + (j > i)) for j, s in enumerate(scores) if j != i]
        for signs in itertools.product((0, 1), repeat=len(others)):
            power = top - mine + sum(more for taken, more in zip(signs, others, strict=True) if taken)
            total += (-1) ** sum(signs) * q**power * (1 - q) / (1 - q ** (1 + sum(signs)))
        found.append(total)
    assert sum(found) == 1
    return found


def laws(candidates: Candidates, counts: Values, q: Fraction) -> list[list[Fraction]]:
    scores = iter(candidates.scores(counts).tolist())
    return [law(list(itertools.islice(scores, size)), q) for size in candidates.sizes.tolist()]


def largest_ratio(candidates: Candidates, counts: Values, q: Fraction) -> Fraction:
    """Return the largest ratio of the probabilities of an outcome, over all tables with one row more."""
    worst, before = Fraction(1), laws(candidates, counts, q)
    for cell in np.ndindex(counts.shape):
        more = counts.copy()
        more[cell] += 1
        ratio = Fraction(1)  # questions are chosen independently
        for one, other in zip(before, laws(candidates, more, q), strict=True):
            ratio *= max(max(a / b, b / a) for a, b in zip(one, other, strict=True))
        worst = max(worst, ratio)
    return worst


def tables_of(candidates: Candidates) -> Iterator[Values]:
    """Every table of 0 to 2 rows a cell; of 8 cells those of 0 or 1, and some with many rows."""
    size = math.prod(candidates.shape)
    for counts in itertools.product(range(3 if size < 6 else 2), repeat=size):
        yield np.array(counts).reshape(candidates.shape)
    for rows in (7, 40):
        yield (np.arange(size) * rows % 11).reshape(candidates.shape)


BASES = {1: Fraction(1, 3), 2: Fraction(1, 2), 6: Fraction(2, 3)}
ATTAINED = {"medians", "medians of two boxes", "opposite tables", "tables", "max", "readings"}


@pytest.mark.parametrize("name", KINDS)
def test_no_neighbour_changes_the_law_of_a_choice_by_more_than_its_epsilon(name: str) -> None:
    candidates = KINDS[name]
    q = BASES.get(candidates.sensitivity, Fraction(1, 2))
    worst = max(largest_ratio(candidates, table, q) for table in tables_of(candidates))
    assert 1 < worst <= q**-candidates.sensitivity
    if name in ATTAINED:
        assert worst == q**-candidates.sensitivity  # no more noise than is needed


def test_the_law_is_that_of_noise_drawn_one_by_one() -> None:
    """The closed form against a sum over all noise up to a bound, for scores with ties and without."""
    q, most = Fraction(1, 3), 9
    for scores in ([0, 0], [3, 1], [0, 2], [1, 1, 0], [0, 2, 2], [-4, -4, -5]):
        summed = [Fraction(0)] * len(scores)
        for noise in itertools.product(range(most + 1), repeat=len(scores)):
            raised = [s + g for s, g in zip(scores, noise, strict=True)]
            summed[raised.index(max(raised))] += math.prod((1 - q) * q**g for g in noise)
        left = 1 - sum(summed)
        assert left < Fraction(1, 10**3)
        assert all(a <= exact <= a + left for a, exact in zip(summed, law(scores, q), strict=True))


# The auditor of gates: everything a job says, by all the noise that it draws.

Job = Callable[[NoisyCounter], Hashable]


def choice(candidates: Candidates) -> Job:
    return lambda counter: tuple(counter.select(candidates, HALF).tolist())


class Audit:
    """The probabilities of what a job says on a table, summed over all noise from -most to most, and what is left.

    `base` is exp(-a) at the epsilon a of honest noise for these candidates; noise at another is a power of it.
    """

    def __init__(
        self, make: MakeGate, job: Job, table: Values, *, honest: Fraction, base: Fraction, most: int, rows: int
    ) -> None:
        job(make(table, EPSILON, max_rows=rows, noise=(tape := Tape())))
        sizes, powers = [len(drawn) for _, drawn in tape.drawn], [epsilon / honest for epsilon, _ in tape.drawn]
        assert all(power.denominator == 1 for power in powers)
        ratios = [base ** int(power) for size, power in zip(sizes, powers, strict=True) for _ in range(size)]
        self.said: dict[Hashable, Fraction] = defaultdict(Fraction)
        for noise in itertools.product(range(-most, most + 1), repeat=sum(sizes)):
            told = np.split(np.array(noise), np.cumsum(sizes)[:-1])
            said = job(make(table, EPSILON, max_rows=rows, noise=Tape(told)))
            self.said[said] += math.prod((1 - q) / (1 + q) * q ** abs(z) for q, z in zip(ratios, noise, strict=True))
        self.left = 1 - sum(self.said.values())


def charged(make: MakeGate, job: Job, table: Values, cell: tuple[int, ...], rows: int) -> Fraction:
    """The units that a cell was charged, as a part of HALF."""
    gate = make(table, EPSILON, max_rows=rows, noise=Tape())
    job(gate)
    assert isinstance(gate, Gate)
    left = left_of(gate)[cell]
    return Fraction(BUDGET_UNITS - int(left), HALF)


def loses_too_much(
    make: MakeGate,
    job: Job,
    table: Values,
    *,
    spread: int,
    base: Fraction = Fraction(1, 4),
    most: int = 6,
    rows: int = 1,
) -> bool:
    """Whether some outcome is surely more than exp(what was charged) times likelier with rows more in a cell."""
    honest = EPSILON * Fraction(HALF, BUDGET_UNITS) / rows / spread

    def audit(counts: Values) -> Audit:
        return Audit(make, job, counts, honest=honest, base=base, most=most, rows=rows)

    before = audit(table)
    for cell in np.ndindex(table.shape):
        more = table.copy()
        more[cell] += rows
        # The bound exp(e) for e charged, where exp(-e) of HALF is base^spread a row.
        power = charged(make, job, table, cell, rows) * spread * rows
        assert power.denominator == 1
        factor = base ** -int(power)
        after = audit(more)
        for one, other in ((before, after), (after, before)):
            if any(p > factor * (other.said.get(said, Fraction(0)) + other.left) for said, p in one.said.items()):
                return True
    return False


LINE = np.array([3, 2, 0])
TWO_CUTS = MedianCuts(whole(3), np.array([0]))
TWO_TABLES = opposite(3, 9)
TWO_READINGS = ReadRows((1, 3), (1, 1), (np.array([True, False, False]), np.array([False, True, True])), (1, 1))
TWO_SPLITS = BestSplit(whole(1, 2, 2), 2, (0, 1))
"""Of the whole, and by the values of an axis: the second has the fewer rows outside the largest class."""
LINES = LINE[None]
EVEN = np.array([[[4, 0], [0, 3]]])
TIED = np.array([[[3, 0], [0, 0]]])
FLOATS = np.array([[[2**53, 0], [0, 1]]])


@pytest.mark.parametrize(
    ("candidates", "table"), [(TWO_CUTS, LINE), (TWO_TABLES, LINES), (TWO_SPLITS, EVEN), (TWO_SPLITS, 0 * EVEN)]
)
@BY_STORE
def test_the_gate_chooses_by_the_law(candidates: Candidates, table: Values, store: str) -> None:
    """The gate, given all noise one by one, against the closed form."""
    base = Fraction(1, 4)
    honest = EPSILON * Fraction(HALF, BUDGET_UNITS) / candidates.sensitivity
    audit = Audit(over(store), choice(candidates), table, honest=honest, base=base, most=6, rows=1)
    assert audit.left < Fraction(1, 1000)
    (exact,) = laws(candidates, table, base)
    for k, probability in enumerate(exact):
        assert audit.said.get((k,), Fraction(0)) <= probability <= audit.said.get((k,), Fraction(0)) + audit.left


@BY_STORE
def test_the_gate_passes_the_audit(store: str) -> None:
    assert not loses_too_much(over(store), choice(TWO_CUTS), LINE, spread=2)
    assert not loses_too_much(over(store), choice(TWO_TABLES), LINES, spread=2)
    assert not loses_too_much(over(store), choice(TWO_READINGS), LINES, spread=1)
    assert not loses_too_much(over(store), choice(TWO_SPLITS), EVEN, spread=1)
    assert not loses_too_much(over(store), choice(TWO_SPLITS), EVEN, spread=1, rows=2)
    assert not loses_too_much(over(store), choice(TWO_SPLITS), TIED, spread=1)
    assert not loses_too_much(over(store), choice(TWO_SPLITS), FLOATS, spread=1)


# The sabotages that the audit sees.


class Halved(Gate):
    """Noise for half of the spread."""

    def select(self, candidates: Candidates, units: int) -> Values:
        charge_selection(self, candidates, units)
        epsilon = 2 * units * self.epsilon_per_unit / candidates.sensitivity
        return self._exact.selected(candidates, self._noise.draw(epsilon, int(candidates.sizes.sum())))


class FromFloats(Gate):
    """Scores and sums in floating-point arithmetic, of counts and not of what is missing."""

    def select(self, candidates: Candidates, units: int) -> Values:
        charge_selection(self, candidates, units)
        epsilon = units * self.epsilon_per_unit / candidates.sensitivity
        cells = revealed(self._exact).astype(np.float64)
        scores = np.array([cells.sum(axis=1 - axis).max(axis=1).sum() for axis in range(2)])
        return selected(scores, self._noise.draw(epsilon, scores.size), sizes=candidates.sizes)


class NoiseOfCounts(Gate):
    """The noise that a table was counted with is used once more for the choice."""

    def marginal(self, axes: tuple[int, ...], units: int) -> Values:
        noisy = super().marginal(axes, units)
        self._kept = noisy - self._exact.marginal(axes).reveal()
        return noisy

    def select(self, candidates: Candidates, units: int) -> Values:
        charge_selection(self, candidates, units)
        return self._exact.selected(candidates, self._kept)


class ChargesTheChosen(Gate):
    """Only the cells before the cut that was chosen are charged."""

    def select(self, candidates: Candidates, units: int) -> Values:
        assert isinstance(candidates, MedianCuts)
        epsilon = units * self.epsilon_per_unit / candidates.sensitivity
        found = self._exact.selected(candidates, self._noise.draw(epsilon, int(candidates.sizes.sum())))
        before = Boxes(self.shape, candidates.boxes.lower, candidates.places(found)[:, None])
        self._budget.charge(before, np.array([units]))
        return found


class Rounded(Gate):
    """Scores are rounded to even numbers."""

    def select(self, candidates: Candidates, units: int) -> Values:
        charge_selection(self, candidates, units)
        epsilon = units * self.epsilon_per_unit / candidates.sensitivity
        scores = candidates.scores(revealed(self._exact)) // 2 * 2
        return selected(scores, self._noise.draw(epsilon, scores.size), sizes=candidates.sizes)


def counts_and_choice(counter: NoisyCounter) -> Hashable:
    return tuple(counter.marginal((1,), HALF).tolist()), tuple(counter.select(TWO_SPLITS, HALF).tolist())


@BY_STORE
def test_counts_and_a_choice_pass_the_audit_together(store: str) -> None:
    settings: dict[str, Any] = {"spread": 1, "base": Fraction(1, 8)}
    assert not loses_too_much(over(store), counts_and_choice, EVEN, **settings, most=2)
    assert loses_too_much(over(store, NoiseOfCounts), counts_and_choice, EVEN, **settings, most=5)


CAUGHT: dict[str, tuple[Callable[..., NoisyCounter], Job, Values, int, int]] = {
    "noise for half of the spread, ranks": (Halved, choice(TWO_CUTS), LINE, 2, 1),
    "noise for half of the spread, distances": (Halved, choice(TWO_TABLES), LINES, 2, 1),
    "noise for half of the spread, splits": (Halved, choice(TWO_SPLITS), EVEN, 1, 1),
    "noise for half of the spread, readings": (Halved, choice(TWO_READINGS), LINES, 1, 1),
    "score from floats": (FromFloats, choice(TWO_SPLITS), FLOATS, 1, 1),
    "noise shared by candidates": (SharedNoise, choice(TWO_SPLITS), TIED, 1, 1),
    "charge forgotten": (ChargeForgotten, choice(TWO_CUTS), LINE, 2, 1),
    "only the chosen is charged": (ChargesTheChosen, choice(TWO_CUTS), LINE, 2, 1),
    "scores rounded to even numbers": (Rounded, choice(TWO_SPLITS), TIED, 1, 1),
    "unit bound ignored": (rows_forgotten, choice(TWO_SPLITS), EVEN, 1, 2),
}


@BY_STORE
@pytest.mark.parametrize("sabotage", CAUGHT)
def test_sabotage_loses_more_than_was_charged(sabotage: str, store: str) -> None:
    make, job, table, spread, rows = CAUGHT[sabotage]
    assert loses_too_much(over(store, make), job, table, spread=spread, rows=rows)


# The real noise: choices have the law that was audited.

MANY = 8000
LAW_EPSILON = Fraction(3, 2)
ROW = np.array([4, 1, 3, 0, 6])
BY_CLASS = np.array([[[3, 1], [0, 1]], [[1, 0], [2, 3]]])


def many_choices(make: Callable[..., NoisyCounter]) -> float:
    """As many questions as there are rows of a table, all alike; each choice has its law and is independent."""
    p_values = []
    for one, kind in (
        (ROW, lambda boxes: MedianCuts(boxes, np.ones(MANY, np.int64))),
        (BY_CLASS, lambda boxes: BestSplit(boxes, 3, (1, 2))),
    ):
        counts = np.repeat(one[None], MANY, axis=0)
        lower = np.zeros((MANY, counts.ndim), np.int64)
        lower[:, 0] = np.arange(MANY)
        candidates = kind(Boxes(counts.shape, lower, lower + np.array([1, *one.shape])))
        found = make(counts, LAW_EPSILON).select(candidates, HALF)
        q = Fraction(math.exp(-LAW_EPSILON / 2 / candidates.sensitivity))
        exact = law(candidates.scores(counts)[: candidates.sizes[0]].tolist(), q)
        for k, probability in enumerate(exact):
            p_values.append(two_sided(stats.binom(MANY, float(probability)), np.count_nonzero(found == k)))
        often = found == np.bincount(found).argmax()
        p_values.append(association(often[::2], often[1::2]))
        p_values.append(association(often[: MANY // 2], often[MANY // 2 :]))
    return union(*p_values)


def test_choices_have_their_law() -> None:
    assert many_choices(Gate) > ALARM


class TooLittle(Gate):
    """A fifth too little noise."""

    def select(self, candidates: Candidates, units: int) -> Values:
        return super().select(candidates, units + units // 5)


class BothSides(Gate):
    """Noise of both signs."""

    def select(self, candidates: Candidates, units: int) -> Values:
        epsilon = units * self.epsilon_per_unit / candidates.sensitivity
        noise = self._noise.draw(epsilon, int(candidates.sizes.sum()))
        scores = candidates.scores(revealed(self._exact)) + noise - one_sided(noise)
        return selected(scores, noise, sizes=candidates.sizes)


class LastOfTheBest(Gate):
    """Among equals the last."""

    def select(self, candidates: Candidates, units: int) -> Values:
        epsilon = units * self.epsilon_per_unit / candidates.sensitivity
        noise = one_sided(self._noise.draw(epsilon, int(candidates.sizes.sum())))
        raised = (candidates.scores(revealed(self._exact)) + noise).reshape(len(candidates.sizes), -1)
        return np.asarray(raised.shape[1] - 1 - np.argmax(raised[:, ::-1], axis=1))


class SameForAll(Gate):
    """The noise of the first question serves every second one too."""

    def select(self, candidates: Candidates, units: int) -> Values:
        epsilon = units * self.epsilon_per_unit / candidates.sensitivity
        size = int(candidates.sizes[0])
        noise = np.repeat(self._noise.draw(epsilon, MANY // 2 * size).reshape(-1, size), 2, axis=0)
        return self._exact.selected(candidates, noise.reshape(-1))


@pytest.mark.parametrize("sabotage", [TooLittle, BothSides, LastOfTheBest, SameForAll])
def test_sabotage_of_the_law_of_choices_is_caught(sabotage: Callable[..., NoisyCounter]) -> None:
    assert many_choices(sabotage) < ALARM


# The noise is for the sensitivity of the scores, and is the same by every store.

CUBE_TABLES: dict[tuple[int, ...], list[tuple[int, ...]]] = {
    (4,): [(0,)],
    (2, 3): [(0,), (1,), (0, 1)],
    (2, 2, 2): [(0, 1), (1, 2), (2,)],
}


def weighted(shape: tuple[int, ...]) -> TableDistances:
    """Tables of a cube, with weights from 3 on."""
    axes = CUBE_TABLES[shape]
    predicted = tuple(np.ones([shape[axis] for axis in some], np.int64) for some in axes)
    many = np.arange(len(axes))
    return TableDistances(shape, tuple(axes), predicted, 3 + many, 2 * many)


class SensitivityForgotten(Gate):
    def select(self, candidates: Candidates, units: int) -> Values:
        charge_selection(self, candidates, units)
        noise = self._noise.draw(units * self.epsilon_per_unit, int(candidates.sizes.sum()))
        return self._exact.selected(candidates, noise)


def has_noise_of_its_sensitivity(make: MakeGate) -> bool:
    for shape, axes in CUBE_TABLES.items():
        counter = make(np.arange(math.prod(shape)).reshape(shape), EPSILON, max_rows=1, noise=(tape := Tape()))
        counter.select(weighted(shape), HALF)
        largest_weight = 2 + len(axes)
        asked = [(epsilon, len(drawn)) for epsilon, drawn in tape.drawn]
        if asked != [(EPSILON / 2 / (2 * largest_weight), len(axes))]:
            return False
    return True


@BY_STORE
def test_selections_have_the_noise_of_their_sensitivity(store: str) -> None:
    assert has_noise_of_its_sensitivity(over(store))
    assert not has_noise_of_its_sensitivity(over(store, SensitivityForgotten))


@given(noise=st.lists(st.integers(-40, 40), min_size=24, max_size=24), data=st.data())
def test_a_selection_is_the_same_by_every_store(noise: list[int], data: st.DataObject) -> None:
    candidates = data.draw(st.sampled_from([*map(weighted, CUBE_TABLES), *KINDS.values()]))
    cells = math.prod(candidates.shape)
    exact = np.array(data.draw(st.lists(st.integers(0, 9), min_size=cells, max_size=cells))).reshape(candidates.shape)
    told = np.array(noise[: int(candidates.sizes.sum())])
    gates = [over(store)(exact, 10**6 * EPSILON, max_rows=1, noise=Tape([told])) for store in STORES]
    one, other = (gate.select(candidates, BUDGET_UNITS // 10**6) for gate in gates)
    np.testing.assert_array_equal(one, other)
    charged = [left_of(gate) for gate in gates if isinstance(gate, Gate)]
    np.testing.assert_array_equal(charged[0], charged[1])
