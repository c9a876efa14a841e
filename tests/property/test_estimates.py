"""One estimate, many ways to ask it: they all agree, whatever was measured."""

import itertools
import math
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcube import Category, Date, Domain, Float, Integer, Release, Workload
from dpcube import open as open_release
from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.candidates import Candidates
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.domain import Attribute
from dpcube.core.domain.attribute import Destination
from dpcube.core.gate import Gate
from dpcube.measurements import BoxCounts, Marginal, Provenance, Transcript
from dpcube.models import Estimate, available, boxes, estimate
from dpcube.models.boxes import BoxEstimate
from dpcube.models.errors.nonuniformity import REACHED
from dpcube.models.estimators import ESTIMATORS
from dpcube.queries import CountingQueries, CountingQuery
from dpcube.research import experiment
from dpcube.strategies import Cells, TwoPhase
from dpcube.testing import SeededNoise
from random_trees import random_tree

quick = settings(deadline=None, max_examples=60, derandomize=True)
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple).filter(lambda shape: math.prod(shape) <= 200)
SEEDS = st.integers(0, 2**32 - 1)


def random_transcript(shape: tuple[int, ...], generator: np.random.Generator) -> Transcript:
    """Measure cells or not, every leaf and some other nodes, some twice, each with units of its own."""
    tree = random_tree(shape, generator, stop=0.2)
    node = np.concatenate([tree.leaves, generator.integers(0, len(tree), generator.integers(0, 4))])
    units = generator.integers(BUDGET_UNITS // 100, BUDGET_UNITS // 4, len(node))
    counts = generator.integers(-30, 200, len(node))
    cells = []
    if generator.random() < 0.7:
        noisy, cell_units = (
            generator.integers(-20, 60, shape),
            generator.integers(BUDGET_UNITS // 100, BUDGET_UNITS // 2),
        )
        cells = [Marginal.from_cells(noisy, int(cell_units))]
    epsilon_per_unit = Fraction(int(generator.integers(1, 40)), 10 * BUDGET_UNITS)
    return Transcript(shape, epsilon_per_unit, (*cells, BoxCounts(tree, node, counts, units)))


def with_boxes(transcript: Transcript, boxes: BoxCounts) -> Transcript:
    """The same transcript with other boxes."""
    cells = () if transcript.cells is None else (transcript.cells,)
    return Transcript(transcript.shape, transcript.epsilon_per_unit, (*cells, boxes))


def random_workload(shape: tuple[int, ...], generator: np.random.Generator, *, queries: int = 12) -> Workload:
    """Random ranges, the whole cube and its first cell."""
    ends = generator.integers(0, np.array(shape), (2, queries, len(shape)))
    lower, upper = ends.min(axis=0), ends.max(axis=0) + 1
    lower[:2], upper[0], upper[1] = 0, shape, 1
    return Workload(shape, lower, upper)


def queries_of(workload: Workload) -> Iterator[CountingQuery]:
    for lower, upper in zip(workload.lower, workload.upper, strict=True):
        sides = zip(workload.shape, lower, upper, strict=True)
        yield CountingQuery(
            tuple(np.where((np.arange(side) >= low) & (np.arange(side) < high), 1.0, 0.0) for side, low, high in sides)
        )


def released(transcript: Transcript) -> Release:
    return Release(
        Domain.of_shape(transcript.shape), transcript, Provenance("test", Fraction(1), "test", private=False)
    )


def range_variances(transcript: Transcript, name: str, workload: Workload) -> Floats:
    return released(transcript).answer(workload, estimate=name).stderrs ** 2


def every_estimate(transcript: Transcript) -> Iterator[Estimate]:
    names = available(transcript)
    assert {"uniform", "consistent"} <= set(names)
    for name in names:
        yield estimate(transcript, name)


@quick
@given(SHAPES, SEEDS)
def test_ranges_agree_by_table_by_sum_and_by_descent(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    transcript = random_transcript(shape, generator)
    workload = random_workload(shape, generator)
    for got in every_estimate(transcript):
        cells = got.cells()
        direct = workload.matrix() @ cells.reshape(-1)
        slices = [tuple(map(slice, a, b)) for a, b in zip(workload.lower, workload.upper, strict=True)]
        np.testing.assert_allclose(got.values(workload), [cells[where].sum() for where in slices], atol=1e-8)
        np.testing.assert_allclose(got.values(workload), direct, atol=1e-8)
        if isinstance(got, BoxEstimate) and got.boxes is not None and got.detail is None:
            np.testing.assert_allclose(got.boxes.range_values(workload), direct, atol=1e-8)


@pytest.mark.slow  # single answers are compared with many below too, as a release gives them
@quick
@given(SHAPES, SEEDS)
def test_single_answers_agree_with_many(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    transcript = random_transcript(shape, generator)
    workload = random_workload(shape, generator)
    for got in every_estimate(transcript):
        values, variances = got.values(workload), range_variances(transcript, got.name, workload)
        for asked, value, variance in zip(queries_of(workload), values, variances, strict=True):
            alone, errors = got.answers(CountingQueries.of(asked))
            assert alone == pytest.approx(value, abs=1e-8)
            assert errors.noise_variances == pytest.approx(variance, rel=1e-9, abs=1e-9, nan_ok=True)
            assert variance > 0 or (np.isnan(variance) and not states_noise(got.name, transcript))


@settings(quick, max_examples=25)
@given(SHAPES, SEEDS)
def test_estimates_state_the_errors_that_they_declare(shape: tuple[int, ...], seed: int) -> None:
    """What is declared is known for all cells and ranges; of what is not, something is not; the default says most."""
    generator = np.random.default_rng(seed)
    transcript = random_transcript(shape, generator)
    if generator.random() < 0.5:
        assert transcript.boxes is not None
        transcript = Transcript(shape, transcript.epsilon_per_unit, (transcript.boxes,))
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    declared = {one.name: one.states(transcript) for one in ESTIMATORS if one.lacking(transcript) is None}
    for name, states in declared.items():
        for asked in (random_workload(shape, generator), Workload(shape, cells, cells + 1)):
            errors = estimate(transcript, name).errors(asked)
            for name_of_part, stated in (
                ("noise", errors.noise_variances),
                ("nonuniformity", errors.nonuniformity_squares),
            ):
                assert name_of_part not in states or np.isfinite(stated).all()
                assert name_of_part in states or asked.sizes.max() > 1 or np.isnan(stated).any()
    default, *others = available(transcript)
    assert all(len(declared[default]) >= len(declared[name]) for name in others)
    assert set(available(transcript)) <= set(declared)


def states_noise(name: str, transcript: Transcript) -> bool:
    """Whether an estimate knows its noise: `consistent` does not where boxes inside one another were counted."""
    assert transcript.boxes is not None
    inner = np.setdiff1d(transcript.boxes.node, transcript.boxes.tree.leaves)
    return name != "consistent" or len(inner) == 0


@quick
@given(SHAPES, SEEDS)
def test_weighted_queries_are_dense_rows(shape: tuple[int, ...], seed: int) -> None:
    """Any weights, fractions, zeros and runs of equal ones included: the value is the dense row times the cells."""
    generator = np.random.default_rng(seed)
    transcript = random_transcript(shape, generator)
    weights = tuple(generator.choice([-0.5, 0.0, 0.3, 1.0], (3, side), p=[0.1, 0.3, 0.2, 0.4]) for side in shape)
    asked = CountingQueries(weights, generator.integers(0, 3, (6, len(shape))))
    rows = [CountingQuery(tuple(w[k] for w, k in zip(weights, chosen, strict=True))) for chosen in asked.chosen]
    for got in every_estimate(transcript):
        values, errors = got.answers(asked)
        np.testing.assert_allclose(values, [(row.dense() * got.cells()).sum() for row in rows], atol=1e-8)
        for k, row in enumerate(rows):
            alone = got.answers(CountingQueries.of(row))[1]
            stated = alone.noise_variances[0], alone.nonuniformity_squares[0]
            np.testing.assert_array_equal((errors.noise_variances[k], errors.nonuniformity_squares[k]), stated)
            assert np.isfinite(errors.noise_variances[k]) == states_noise(got.name, transcript)
        if isinstance(got, BoxEstimate):
            np.testing.assert_allclose(
                errors.noise_variances, [variance_of(got, row) for row in rows], rtol=1e-9, atol=1e-9
            )
            np.testing.assert_allclose(
                errors.nonuniformity_squares, [within_of(got, row) for row in rows], rtol=1e-7, atol=1e-9
            )


def variance_of(got: BoxEstimate, row: CountingQuery) -> float:
    """The noise variance as the head of `estimate.py` has it, from dense weights."""
    variance = got.cell_variance * float((row.dense() ** 2).sum())
    if got.boxes is not None:
        variance += float(box_sums(row.dense(), got.boxes.leaves) ** 2 @ got.boxes.square)
    return float(np.maximum(variance, 0.0))


def within_of(got: BoxEstimate, row: CountingQuery) -> float:
    """The expected squared error within boxes, from dense weights; unknown where nothing tells it."""
    if got.boxes is None or got.detail is not None:
        return 0.0
    leaves, dense = got.boxes.leaves, row.dense()
    cut = box_sums(dense**2, leaves) - box_sums(dense, leaves) ** 2 / leaves.sizes
    if got.within is None:
        return math.nan if cut.max() > 1e-12 else 0.0
    parts = np.where(cut > 1e-12 * leaves.sizes, box_sums(np.abs(dense), leaves) / leaves.sizes, 0.0)
    squares = got.boxes.totals**2
    worst = np.abs(dense).max() * parts @ squares - REACHED * parts**2 @ squares
    guess = (got.within.deviation * dense).sum()
    return float(got.within.expected_square(guess, np.array(cut.sum()), np.array(worst)))


def test_tables_know_whole_boxes_as_a_walk_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sides of 7, 11 and 13 are no parts of a power of two, so tables round; the law of whole boxes is exact still."""
    generator = np.random.default_rng(5)
    counts = generator.poisson(3000 * generator.random((91, 77)) ** 4)
    got = experiment(counts, epsilon="0.5", strategy="dpcube", noise=SeededNoise(1)).estimate("uniform")
    assert isinstance(got, BoxEstimate)
    assert got.boxes is not None
    tree, nodes = got.boxes.tree, np.arange(len(got.boxes.tree))
    whole_boxes = Workload(tree.shape, tree.lower[nodes], tree.upper[nodes])
    by_table = got.errors(whole_boxes)
    assert "_tables" in got.boxes.__dict__
    monkeypatch.setattr(boxes, "worthwhile", lambda *_: False)
    by_walk = got.errors(whole_boxes)
    assert by_table.noises is not None
    assert by_walk.noises is not None
    np.testing.assert_array_equal(by_table.noises.numbers, by_walk.noises.numbers)
    assert (by_table.noises.numbers > 0).all()
    assert (by_table.nonuniformity_squares == 0).all()
    np.testing.assert_allclose(by_table.noise_variances, by_walk.noise_variances)


@settings(quick, max_examples=25)
@given(SHAPES.filter(lambda shape: math.prod(shape) <= 40), SEEDS)
def test_variances_are_those_of_the_noise_that_enters_each_estimate(shape: tuple[int, ...], seed: int) -> None:
    """Estimates are linear: the variance of an answer is the sum over counts of (its weight)^2 times its variance."""
    generator = np.random.default_rng(seed)
    transcript = random_transcript(shape, generator)
    boxes = transcript.boxes
    assert boxes is not None
    workload = random_workload(shape, generator, queries=4)
    leaves_only = BoxCounts(boxes.tree, boxes.tree.leaves, *_of_leaves(boxes))
    transcript = with_boxes(transcript, leaves_only)
    for name in set(available(transcript)) - {
        "consistent",
        "posterior",
        "balanced",
    }:  # what these cut at zero depends on noise
        expected: Floats = np.zeros(4)
        for moved, variance in _one_more_in_each_count(transcript):
            effect = estimate(moved, name).values(workload) - estimate(transcript, name).values(workload)
            expected += effect**2 * variance
        np.testing.assert_allclose(range_variances(transcript, name, workload), expected, rtol=1e-6, atol=1e-6)


def _of_leaves(boxes: BoxCounts) -> tuple[Ints, Ints]:
    leaves = len(boxes.tree.leaves)
    return boxes.counts[:leaves].copy(), boxes.units[:leaves].copy()


def _one_more_in_each_count(transcript: Transcript) -> Iterator[tuple[Transcript, float]]:
    """Every transcript with one measured count larger by one, and the noise variance of that count."""
    boxes, cells, epsilon_per_unit = transcript.boxes, transcript.cells, transcript.epsilon_per_unit
    assert boxes is not None

    def law(units: int) -> float:
        return 0.5 / math.sinh(float(units * epsilon_per_unit) / 2) ** 2

    for k, units in enumerate(boxes.units.tolist()):
        counts = boxes.counts + (np.arange(len(boxes.counts)) == k)
        yield with_boxes(transcript, BoxCounts(boxes.tree, boxes.node, counts, boxes.units)), law(units)
    if cells is not None:
        for k in range(cells.counts.size):
            one = (np.arange(cells.counts.size) == k).reshape(transcript.shape)
            more = (Marginal.from_cells(cells.counts + one, cells.units), boxes)
            yield Transcript(transcript.shape, epsilon_per_unit, more), law(cells.units)


@pytest.mark.slow
@quick
@given(SHAPES, SEEDS)
def test_a_release_speaks_from_one_estimate(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    transcript = random_transcript(shape, generator)
    release = released(transcript)
    workload = random_workload(shape, generator, queries=5)
    rows = workload.matrix()
    for name in ("auto", *release.estimates):
        answers = release.answer(workload, estimate=name)
        cells, (low, high) = release.cells(name), answers.interval()
        for k in range(5):
            bounds = zip(workload.lower[k].tolist(), workload.upper[k].tolist(), strict=True)
            conditions = {f"axis{j}": (low, high - 1) for j, (low, high) in enumerate(bounds)}
            counted = release.count(conditions, estimate=name)
            assert counted.value == pytest.approx(answers.values[k], abs=1e-8)
            assert counted.stderr == pytest.approx(answers.stderrs[k], rel=1e-6, abs=1e-9, nan_ok=True)
            assert counted.nonuniformity == pytest.approx(answers.nonuniformities[k], rel=1e-6, abs=1e-6, nan_ok=True)
            assert counted.value == pytest.approx(rows[k] @ cells.reshape(-1), abs=1e-8)
            known = np.isfinite(counted.stderr + counted.nonuniformity)
            assert known == (counted.interval != "unknown") == (counted.low <= max(counted.value, 0) <= counted.high)
            assert (counted.low, counted.high) == pytest.approx((low[k], high[k]), rel=1e-6, abs=1e-6, nan_ok=True)
    np.testing.assert_array_equal(release.cells(), release.cells(release.estimates[0]))


class Replayed:
    """A counter without data: it gives the noisy counts it was made with, for whatever boxes it is asked."""

    def __init__(self, noisy_cells: Ints, box_noise: Ints, epsilon_per_unit: Fraction) -> None:
        self.shape, self.epsilon_per_unit = noisy_cells.shape, epsilon_per_unit
        self._noisy_cells, self._box_noise = noisy_cells, box_noise

    def boxes(self, boxes: Boxes, units: Ints) -> Ints:
        assert units.shape == (len(boxes),)
        sums = [self._noisy_cells[tuple(map(slice, a, b))].sum() for a, b in zip(boxes.lower, boxes.upper, strict=True)]
        return np.array(sums, np.int64) + self._box_noise[: len(boxes)]

    def marginal(self, axes: tuple[int, ...], units: int) -> Ints:
        assert 0 < units <= BUDGET_UNITS
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        table: Ints = np.sum(self._noisy_cells, axis=others, dtype=np.int64)
        return table

    def grouped(self, groups: object) -> NoisyCounter:
        raise AssertionError(groups)

    def select(self, candidates: Candidates, units: int) -> Ints:
        raise AssertionError(candidates, units)


@pytest.mark.slow
@quick
@given(SHAPES.filter(lambda shape: len(shape) > 1), SEEDS, st.data())
def test_permuting_attributes_permutes_everything(shape: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    """Counts are drawn from a wide range: only a tie between splits would be broken by the order of the axes."""
    axes = data.draw(st.permutations(range(len(shape))))
    max_boxes = data.draw(st.sampled_from([None, 3, 9]))
    generator = np.random.default_rng(seed)
    cells = generator.integers(-(10**6), 10**6, shape)
    noise = generator.integers(-50, 50, cells.size)
    strategy = TwoPhase(threshold=1e9, noise_corrected=False, slack=0, max_boxes=max_boxes)
    epsilon_per_unit = Fraction(1, 2 * BUDGET_UNITS)
    straight = strategy.run(Replayed(cells, noise, epsilon_per_unit))
    turned = strategy.run(Replayed(np.ascontiguousarray(cells.transpose(axes)), noise, epsilon_per_unit))
    assert straight.boxes is not None
    assert turned.boxes is not None
    np.testing.assert_array_equal(straight.boxes.tree.lower[:, axes], turned.boxes.tree.lower)
    np.testing.assert_array_equal(straight.boxes.tree.upper[:, axes], turned.boxes.tree.upper)
    np.testing.assert_array_equal(straight.boxes.counts, turned.boxes.counts)
    workload = random_workload(shape, generator, queries=6)
    moved = Workload(turned.shape, workload.lower[:, axes], workload.upper[:, axes])
    for name in available(straight):
        one, other = estimate(straight, name), estimate(turned, name)
        np.testing.assert_allclose(one.cells().transpose(axes), other.cells(), rtol=1e-12, atol=1e-6)
        np.testing.assert_allclose(one.values(workload), other.values(moved), rtol=1e-9, atol=1e-4)
        variances = range_variances(straight, name, workload), range_variances(turned, name, moved)
        np.testing.assert_allclose(*variances, rtol=1e-9)


NAMES = st.text(min_size=1, max_size=12).filter(str.strip)
TEXTS = st.lists(st.text(max_size=8), min_size=1, max_size=4, unique=True)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    kind = draw(st.sampled_from(["integer", "edges", "float", "category", "date"]))
    null: Destination = draw(st.sampled_from(["drop", "cell"]))
    low = draw(st.integers(-50, 50))
    if kind == "integer":
        return Integer(name=name, min=low, max=low + draw(st.integers(0, 9)), width=draw(st.integers(1, 4)), null=null)
    if kind == "edges":
        edges = draw(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=5, unique=True).map(sorted))
        return Float(name=name, edges=tuple(edges), null=null, outside="clip")
    if kind == "float":
        return Float(name=name, min=low / 7, max=low / 7 + draw(st.integers(1, 4)), width=0.5, nan="cell")
    if kind == "category":
        return Category(name=name, values=tuple(draw(TEXTS)), ordered=draw(st.booleans()), null=null)
    start = draw(st.dates())
    return Date(name=name, start=start, end=start, every="month")


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return Domain(tuple(draw(attributes(name)) for name in names))


def assert_same(one: Release, other: Release) -> None:
    assert one.domain == other.domain
    assert one.provenance == other.provenance
    assert one.digest == other.digest
    a, b = one.transcript, other.transcript
    assert (a.shape, a.epsilon_per_unit) == (b.shape, b.epsilon_per_unit)
    assert (a.cells is None, a.boxes is None) == (b.cells is None, b.boxes is None)
    if a.cells is not None and b.cells is not None:
        assert a.cells.units == b.cells.units
        _assert_bit_equal(a.cells.counts, b.cells.counts)
    if a.boxes is not None and b.boxes is not None:
        for name in ("node", "counts", "units"):
            _assert_bit_equal(getattr(a.boxes, name), getattr(b.boxes, name))
        for name in ("lower", "upper", "parent", "end", "leaves"):
            _assert_bit_equal(getattr(a.boxes.tree, name), getattr(b.boxes.tree, name))
    for name in one.estimates:
        _assert_bit_equal(one.cells(name), other.cells(name))


def _assert_bit_equal(one: NDArray[np.generic], other: NDArray[np.generic]) -> None:
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


@quick
@given(domains(), SEEDS, st.sampled_from(["cells", "dpcube", "random"]), st.data())
def test_save_and_open_is_the_identity(domain: Domain, seed: int, made: str, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    shape, epsilon = domain.shape, Fraction(data.draw(st.integers(1, 300)), data.draw(st.integers(1, 7)) * 100)
    strategy = Cells() if made == "cells" else TwoPhase(share=Fraction(data.draw(st.integers(1, 9)), 10))
    if made == "random":
        transcript = random_transcript(shape, generator)
    else:
        transcript = strategy.run(Gate(generator.integers(0, 90, shape), epsilon, noise=SeededNoise(seed)))
    max_rows = data.draw(st.integers(1, 9))
    provenance = Provenance(
        strategy.name,
        transcript.most_charged()
        * transcript.epsilon_per_unit
        * max_rows,  # what it cost: a file that claims less is refused
        data.draw(st.text(max_size=9)),
        strategy.parameters(),
        unit=data.draw(st.none() | st.text(max_size=5)),
        max_rows=max_rows,
        period=data.draw(st.none() | st.text(max_size=5)),
        ledger=data.draw(st.booleans()),
        private=data.draw(st.booleans()),
    )
    release = Release(domain, transcript, provenance)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.dpcube"
        assert release.save(path) == release.digest
        again = open_release(path)
        assert_same(release, again)
        assert again.save(Path(directory) / "b.dpcube") == release.digest
        assert (Path(directory) / "b.dpcube").read_bytes() == path.read_bytes()


def test_different_releases_have_different_digests() -> None:
    digests = set()
    for seed, epsilon in itertools.product(range(3), (Fraction(1), Fraction(2))):
        gate = Gate(np.arange(12).reshape(3, 4), epsilon, noise=SeededNoise(seed))
        transcript = Cells().run(gate)
        digests.add(Release(Domain.of_shape((3, 4)), transcript, Provenance("cells", epsilon, "test")).digest)
    assert len(digests) == 6
