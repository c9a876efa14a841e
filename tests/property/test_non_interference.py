"""A strategy knows noisy counts and nothing else: give it the same ones without the data, and it does the same."""

import itertools
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, Partitioning
from dpcube.core.candidates import Candidates, MedianCuts
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.gate import Gate
from dpcube.measurements import Marginal, Selection, Transcript
from dpcube.research.strategies.median_tree import MedianTree
from dpcube.strategies import BY_NAME, Adaptive, Cells, Strategy, TwoPhase
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.growth import grow

Asked = tuple[object, ...]

quick = settings(deadline=None, max_examples=80, derandomize=True)
CUBES = hnp.arrays(np.int64, hnp.array_shapes(max_dims=4, max_side=5), elements=st.integers(0, 60))
SEEDS = st.integers(0, 2**32 - 1)


def asked_boxes(boxes: Boxes, units: Ints) -> Asked:
    return ("boxes", boxes.shape, boxes.lower.tolist(), boxes.upper.tolist(), units.tolist())


def asked_choice(candidates: Candidates, units: int) -> Asked:
    """Everything that the candidates hold."""
    assert is_dataclass(candidates)
    held = [plain(getattr(candidates, one.name)) for one in fields(candidates)]
    return ("choice", type(candidates), repr(held), units)


def plain(value: object) -> object:
    if isinstance(value, Boxes):
        return value.shape, value.lower.tolist(), value.upper.tolist()
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass
class Recording:
    """A counter around a counter, which keeps what it was asked and what it said."""

    counter: NoisyCounter
    said: list[tuple[Asked, Ints]] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.counter.shape

    @property
    def epsilon_per_unit(self) -> Fraction:
        return self.counter.epsilon_per_unit

    def boxes(self, boxes: Boxes, units: Ints) -> Ints:
        noisy = self.counter.boxes(boxes, units)
        self.said.append((asked_boxes(boxes, units), noisy.copy()))
        return noisy

    def marginal(self, axes: tuple[int, ...], units: int) -> Ints:
        noisy = self.counter.marginal(axes, units)
        self.said.append((("marginal", axes, units), noisy.copy()))
        return noisy

    def grouped(self, groups: object) -> NoisyCounter:
        raise AssertionError(groups)

    def select(self, candidates: Candidates, units: int) -> Ints:
        chosen = self.counter.select(candidates, units)
        self.said.append((asked_choice(candidates, units), chosen.copy()))
        return chosen


class Replay:
    """A counter without data: it says again what was recorded, and fails when it is asked anything else."""

    def __init__(self, recording: Recording) -> None:
        self.shape, self.epsilon_per_unit = recording.shape, recording.epsilon_per_unit
        self._said = iter(recording.said)

    def boxes(self, boxes: Boxes, units: Ints) -> Ints:
        asked, noisy = next(self._said)
        assert asked == asked_boxes(boxes, units)
        return noisy

    def marginal(self, axes: tuple[int, ...], units: int) -> Ints:
        asked, noisy = next(self._said)
        assert asked == ("marginal", axes, units)
        return noisy

    def grouped(self, groups: object) -> NoisyCounter:
        raise AssertionError(groups)

    def select(self, candidates: Candidates, units: int) -> Ints:
        asked, chosen = next(self._said)
        assert asked == asked_choice(candidates, units)
        return chosen

    def is_over(self) -> bool:
        return next(self._said, None) is None


def bits(transcript: Transcript) -> tuple[object, ...]:
    """Everything a transcript holds, to be compared bit for bit."""
    cells, boxes = transcript.cells, transcript.boxes
    parts: list[object] = [transcript.shape, transcript.epsilon_per_unit]
    if cells is not None:
        parts += ["cells", cells.units, cells.counts.dtype, cells.counts.tobytes()]
    if boxes is not None:
        arrays = (boxes.node, boxes.counts, boxes.units, boxes.tree.lower, boxes.tree.upper, boxes.tree.parent)
        parts += ["boxes", *itertools.chain.from_iterable((array.dtype, array.tobytes()) for array in arrays)]
    for table in transcript.measurements:
        if isinstance(table, Marginal):
            parts += ["marginal", table.axes, table.units, table.counts.dtype, table.counts.tobytes()]
        if isinstance(table, Selection):
            parts += [table.score, table.units, table.sensitivity, *(one.tobytes() for one in table.arrays().values())]
    return tuple(parts)


two_phases = st.builds(
    TwoPhase,
    share=st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=40),
    rule=st.sampled_from(["best", "longest"]),
    weight=st.sampled_from(["cells", "records"]),
    threshold=st.sampled_from([0.0, 3.5, 100.0]),
    noise_corrected=st.booleans(),
    slack=st.sampled_from([0.0, 1.0, 2.5]),
    min_cells=st.integers(1, 4),
    max_depth=st.none() | st.integers(0, 5),
    max_boxes=st.none() | st.integers(1, 9),
    partition_on=st.sampled_from(["counts", "records"]),
)
median_trees = st.builds(
    MedianTree,
    height=st.integers(1, 6),
    axis=st.sampled_from(["in turn", "widest"]),
    stop=st.sampled_from([0.0, 2.0]),
    leftovers=st.booleans(),
)
adaptives = st.builds(Adaptive, queries=st.sampled_from([None, "ranges", "prefixes", "short", "groups"]))
STRATEGIES = st.one_of(st.just(Cells()), two_phases, adaptives, median_trees)


def test_every_strategy_is_replayed_here() -> None:
    assert set(BY_NAME.values()) == {Adaptive, Cells, TwoPhase}


@quick
@given(CUBES, STRATEGIES, SEEDS, st.fractions(Fraction(1, 50), Fraction(5), max_denominator=100))
def test_replayed_counts_give_the_same_transcript(
    counts: Ints, strategy: Strategy, seed: int, epsilon: Fraction
) -> None:
    recording = Recording(Gate(counts, epsilon, noise=SeededNoise(seed)))
    transcript = strategy.run(recording)
    replay = Replay(recording)
    assert bits(strategy.run(replay)) == bits(transcript)
    assert replay.is_over()


@quick
@given(CUBES, STRATEGIES, SEEDS)
def test_a_transcript_holds_the_noisy_counts_as_they_were_said(counts: Ints, strategy: Strategy, seed: int) -> None:
    """Nothing is rounded, clipped or left out on the way, and the units told are the units charged."""
    recording = Recording(Gate(counts, Fraction(1), noise=SeededNoise(seed)))
    transcript = strategy.run(recording)
    said = list(recording.said)
    units = 0
    if transcript.cells is not None:
        asked, noisy = said.pop(0)
        assert asked == ("marginal", tuple(range(counts.ndim)), transcript.cells.units)
        np.testing.assert_array_equal(transcript.cells.counts, noisy)
        units += transcript.cells.units
    for table in (kept for kept in transcript.marginals if kept is not transcript.cells):
        told = [noisy for asked, noisy in said if asked == ("marginal", table.axes, table.units)]
        said = [(asked, noisy) for asked, noisy in said if asked != ("marginal", table.axes, table.units)]
        assert len(told) == 1
        np.testing.assert_array_equal(table.counts, told[0])
        units += table.units
    for selection in transcript.selections:
        asked = next(one for one, _ in said if one[0] == "choice" and one[-1] == selection.units)
        told = [chosen for one, chosen in said if one == asked]
        said = [(one, chosen) for one, chosen in said if one != asked]
        assert len(told) == 1
        np.testing.assert_array_equal(selection.chosen, told[0])
    if transcript.boxes is None:
        assert not said
        return
    boxes, row = transcript.boxes, 0
    for (_, shape, lower, upper, spent), noisy in said:
        rows = slice(row, row + len(noisy))
        row += len(noisy)
        assert shape == transcript.shape
        assert boxes.tree.lower[boxes.node[rows]].tolist() == lower
        assert boxes.tree.upper[boxes.node[rows]].tolist() == upper
        assert boxes.units[rows].tolist() == spent
        np.testing.assert_array_equal(boxes.counts[rows], noisy)
    assert row == len(boxes.node)
    assert units + boxes.most_charged() <= BUDGET_UNITS
    assert transcript.most_charged() <= BUDGET_UNITS


def test_a_strategy_that_remembers_an_exact_count_is_caught() -> None:
    """The replay must be able to fail: this strategy looks through the recording at the gate."""

    def peek(counter: NoisyCounter) -> Transcript:
        honest = Cells().run(counter)
        exact = getattr(getattr(counter, "counter", None), "_exact", None)
        if exact is None:
            return honest
        return Transcript(
            honest.shape, honest.epsilon_per_unit, (Marginal.from_cells(exact.reveal().copy(), BUDGET_UNITS),)
        )

    recording = Recording(Gate(np.arange(50), Fraction(1, 10), noise=SeededNoise(3)))
    transcript = peek(recording)
    assert bits(peek(Replay(recording))) != bits(transcript)


def test_a_strategy_that_asks_by_the_data_is_caught() -> None:
    recording = Recording(Gate(np.arange(50).reshape(5, 10), Fraction(1), noise=SeededNoise(3)))
    Cells().run(recording)
    whole, corner = np.array([[5, 10]]), np.zeros((1, 2), np.int64)
    with pytest.raises(AssertionError):
        every_cell(Replay(recording), BUDGET_UNITS - 1)
    with pytest.raises(AssertionError):
        Replay(recording).marginal((0,), BUDGET_UNITS)
    with pytest.raises(AssertionError):
        Replay(recording).select(MedianCuts(Boxes((5, 10), corner, whole), np.array([0])), BUDGET_UNITS)
    with pytest.raises(AssertionError):
        Replay(recording).boxes(Boxes((5, 10), corner, corner + 1), np.array([1]))


@st.composite
def partitionings(draw: st.DrawFn, shape: tuple[int, ...]) -> Partitioning:
    """Every cell by itself, the whole cube, or the leaves of a tree grown on anything."""
    guide = draw(hnp.arrays(np.int64, shape, elements=st.integers(-9, 9)))
    return grow(guide, threshold=0, max_boxes=draw(st.none() | st.integers(1, 12))).partitioning()


@quick
@given(CUBES, st.data())
def test_one_record_more_changes_box_counts_by_one(counts: Ints, data: st.DataObject) -> None:
    parts = data.draw(partitionings(counts.shape))
    cell = tuple(data.draw(st.integers(0, side - 1)) for side in counts.shape)
    neighbour = counts.copy()
    neighbour[cell] += 1
    units = np.full(len(parts), BUDGET_UNITS // 2)
    one, other = (Gate(table, Fraction(1), noise=SilentNoise()) for table in (counts, neighbour))
    assert np.abs(other.boxes(parts, units) - one.boxes(parts, units)).sum() == 1
    assert np.abs(every_cell(other, BUDGET_UNITS // 4) - every_cell(one, BUDGET_UNITS // 4)).sum() == 1
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, counts.ndim - 1), min_size=1))))
    more = other.marginal(axes, BUDGET_UNITS // 4) - one.marginal(axes, BUDGET_UNITS // 4)
    assert (more[tuple(cell[axis] for axis in axes)], np.abs(more).sum()) == (1, 1)


@quick
@given(CUBES, st.data())
def test_one_record_more_changes_overlapping_counts_by_the_boxes_that_hold_it(
    counts: Ints, data: st.DataObject
) -> None:
    """What the gate debits a cell for a call is what the call tells of a record in it."""
    shape = counts.shape
    sides = [
        [sorted(data.draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))) for n in shape] for _ in range(4)
    ]
    lower = np.array([[low for low, _ in box] for box in sides])
    upper = np.array([[high + 1 for _, high in box] for box in sides])
    cell = tuple(data.draw(st.integers(0, side - 1)) for side in shape)
    neighbour = counts.copy()
    neighbour[cell] += 1
    units = np.full(4, BUDGET_UNITS // 4)
    said = [
        Gate(table, Fraction(1), noise=SilentNoise()).boxes(Boxes(shape, lower, upper), units)
        for table in (counts, neighbour)
    ]
    holding = ((lower <= cell) & (np.array(cell) < upper)).all(axis=1)
    assert (said[1] - said[0]).tolist() == holding.astype(int).tolist()
