"""Releases of fine grids: a few attributes of so many cells that nobody could hold the cube, from rows to answers."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain, Integer, Release
from dpcube.core.arrays import Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DomainError, DpcubeError, InputError, MemoryLimitError, QueryError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.measurements import BoxCounts, Provenance, Transcript
from dpcube.models import available, estimate
from dpcube.models.fine_grid import GridEstimate
from dpcube.models.least_squares_tree import consistent_totals
from dpcube.plan import planning
from dpcube.queries import Workload
from dpcube.strategies import Cuboids, FineGrid, releasing_strategy, strategy_of
from dpcube.strategies.fine_grid import weights_to_come
from dpcube.testing import SeededNoise, SilentNoise
from dpcube.trees.tree import BoxTree

SIDE = 10**6
FINE = Domain(Integer("x", 0, SIDE - 1), Integer("y", 0, SIDE - 1))
EDGES = np.array([[0, 0], [0, SIDE - 1], [SIDE - 1, 0], [SIDE - 1, SIDE - 1]])


def clumps(rows: int, axes: int = 2) -> Ints:
    """Rows around a few places, on the edges, and anywhere."""
    generator = np.random.default_rng(4)
    centres = generator.integers(0, SIDE, (3, axes))
    near = centres[generator.integers(0, 3, rows)] + generator.normal(0, 300, (rows, axes))
    anywhere = generator.random((rows, 1)) < 0.1
    places = np.where(anywhere, generator.integers(0, SIDE, (rows, axes)), near)
    return np.clip(places, 0, SIDE - 1).astype(np.int64)


def transcript_of(places: Ints, *, epsilon: Fraction = Fraction(1), seed: int = 1) -> Transcript:
    rows = SparseRows((SIDE,) * places.shape[1], list(places.T), np.ones(len(places), np.int64))
    return FineGrid().run(Gate(rows, epsilon, noise=SeededNoise(seed)))


def release_of(places: Ints, epsilon: str = "1") -> Release:
    table = pa.table({"xyz"[axis]: places[:, axis] for axis in range(places.shape[1])})
    domain = Domain([Integer("xyz"[axis], 0, SIDE - 1) for axis in range(places.shape[1])])
    return publish(table, domain, epsilon=epsilon, ledger=None)


@pytest.fixture(scope="module")
def places() -> Ints:
    return np.concatenate([clumps(4000), EDGES])


@pytest.fixture(scope="module")
def release(places: Ints) -> Release:
    return release_of(places)


def test_few_attributes_of_many_cells_are_released_as_a_grid() -> None:
    assert isinstance(releasing_strategy("adaptive", FINE), FineGrid)
    assert isinstance(releasing_strategy("fine_grid", Domain(Integer("x", 0, 9))), FineGrid)
    three = Domain(*(Integer(name, 0, SIDE - 1) for name in "xyz"))
    assert isinstance(releasing_strategy("adaptive", three), FineGrid)
    four = Domain(*(Integer(name, 0, SIDE - 1) for name in "wxyz"))
    assert isinstance(releasing_strategy("adaptive", four), Cuboids)
    assert releasing_strategy("adaptive", Domain(Integer("x", 0, 99), Integer("y", 0, 99))).name == "adaptive"
    with pytest.raises(DomainError, match="at most 2\\^61 cells"):
        FineGrid().for_domain(four)
    with pytest.raises(InputError, match="fine grids, which are not compared"):
        strategy_of("fine_grid")


def test_a_domain_too_long_for_this_machine_is_refused_before_rows_are_read() -> None:
    domain = Domain(Integer("x", 0, 2**31 - 2), Integer("y", 0, 2**30 - 1))
    with pytest.raises(MemoryLimitError, match="a release by fine_grid of"):
        publish("no such file.csv", domain, epsilon=1, ledger=None)
    with pytest.raises(DomainError, match="bins"):
        Integer("x", 0, 10**12)


def test_answers_are_near_and_their_intervals_hold(release: Release, places: Ints) -> None:
    assert release.provenance.strategy == "fine_grid"
    assert release.estimates[0] == "grid"
    whole = release.count()
    assert abs(whole.value - len(places)) < 100
    generator = np.random.default_rng(8)
    lower = generator.integers(0, SIDE // 2, (200, 2))
    upper = lower + generator.integers(1, SIDE // 2, (200, 2))
    inside = (places[None] >= lower[:, None]) & (places[None] < upper[:, None])
    truth = inside.all(axis=2).sum(axis=1)
    answers = release.answer(Workload(FINE.shape, lower, upper))
    low, high = answers.interval(0.95)
    assert np.mean((low <= truth) & (truth <= high)) > 0.85
    assert np.mean(np.abs(answers.values - truth)) < 40
    assert np.isfinite(answers.stderrs).all()
    assert np.isfinite(answers.nonuniformities).all()


def test_a_heap_keeps_its_rows_and_an_interval_reaches_what_was_counted() -> None:
    """All rows at one place. Totals that are divided so that none is below zero lose some to the empty boxes around."""
    shape, place, rows = (2**11, 2**11), np.array([300, 700]), 3000
    reach = np.array([[4], [32]])
    around = Workload(shape, place - reach, place + reach)
    held, off = {"grid": list[bool](), "divided": list[bool]()}, []
    for seed in range(8):
        heap = SparseRows(shape, list(place[:, None]), np.array([rows]))
        transcript = FineGrid().run(Gate(heap, Fraction(1), noise=SeededNoise(seed)))
        made, boxes = estimate(transcript, "grid"), transcript.boxes
        assert isinstance(made, GridEstimate)
        assert boxes is not None
        divided = consistent_totals(boxes.tree, *boxes.by_node(transcript.epsilon_per_unit))
        off += np.abs(made.values(around) - rows).tolist()
        for name, one in (("grid", made), ("divided", replace(made, totals=divided))):
            errors = one.errors(around)
            deviation = np.sqrt(errors.noise_variances + errors.nonuniformity_squares)
            held[name] += (np.abs(one.values(around) - rows) <= 2 * deviation).tolist()
    assert np.mean(off) < 15
    assert np.mean(held["grid"]) >= 0.9
    assert np.mean(held["divided"]) >= 0.9


def test_a_count_is_the_same_as_a_range(release: Release) -> None:
    one = release.count(x=(100_000, 399_999), y=(0, 500_000))
    same = release.answer(Workload(FINE.shape, np.array([[100_000, 0]]), np.array([[400_000, 500_001]])))
    assert one.value == pytest.approx(float(same.values[0]))
    assert one.stderr == pytest.approx(float(same.stderrs[0]))
    assert one.nonuniformity == pytest.approx(float(same.nonuniformities[0]))


def test_a_file_holds_it(release: Release, tmp_path: Path) -> None:
    digest = release.save(tmp_path / "grid.dpcube")
    assert (tmp_path / "grid.dpcube").stat().st_size < 2**20
    opened = Release.open(tmp_path / "grid.dpcube")
    assert opened.digest == digest
    assert opened.count(x=(0, 5000)).value == release.count(x=(0, 5000)).value


def test_rows_and_sql_come_from_the_boxes(release: Release) -> None:
    rows = release.synthesize(seed=3)
    x, y = (rows[name].to_numpy() for name in "xy")
    assert len(rows) == pytest.approx(release.count().value, abs=1)
    assert x.min() >= 0
    assert y.max() < SIDE
    half = release.count(x=(0, SIDE // 2 - 1)).value
    assert abs(np.sum(x < SIDE // 2) - half) < 20 + 0.05 * half
    assert rows.equals(release.synthesize(seed=3))
    (counted,) = release.sql("SELECT count(*) AS n FROM cube WHERE x < 500000")["n"].to_pylist()
    assert counted == pytest.approx(half, abs=1)
    assert release.boxes().num_rows == len(release.transcript.boxes.tree.leaves)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "ask",
    [Release.cells, Release.table, Release.to_training, Release.train],
    ids=["cells", "table", "training", "train"],
)
def test_what_needs_every_cell_is_refused_in_one_line(release: Release, ask: object) -> None:
    arguments = ["x"] if ask in (Release.to_training, Release.train) else []
    with pytest.raises(DpcubeError) as refused:
        ask(release, *arguments)  # type: ignore[operator]
    assert "\n" not in str(refused.value)


def test_other_estimates_of_a_grid(release: Release) -> None:
    for name in release.estimates:
        with pytest.raises(QueryError, match=r"all cells as an array: a fine grid has more cells .* ask for ranges"):
            release.cells(name)
    assert set(available(release.transcript)) == {"grid", "consistent", "uniform", "tree_least_squares"}
    with pytest.raises(QueryError, match="grid too fine"):
        estimate(release.transcript, "balanced")


@pytest.mark.parametrize(
    "places",
    [
        np.empty((0, 2), np.int64),
        np.full((5000, 2), SIDE - 1),
        np.tile(EDGES, (100, 1)),
        clumps(2000, 3),
        clumps(500, 1),
    ],
    ids=["no rows", "one cell", "the corners", "three axes", "one axis"],
)
@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10**6), Fraction(1), pytest.param(Fraction(40), marks=pytest.mark.slow)]
)
def test_any_table_is_measured_whole_within_its_budget(places: Ints, epsilon: Fraction) -> None:
    boxes = transcript_of(places, epsilon=epsilon).boxes
    assert boxes is not None
    assert boxes.most_charged() <= BUDGET_UNITS
    counted = np.zeros(len(boxes.tree), np.bool_)
    counted[boxes.node] = True
    assert counted[boxes.tree.leaves].all()


def test_all_rows_in_one_cell_are_found_there() -> None:
    grid = estimate(transcript_of(np.full((5000, 2), 123_456)))
    cell = np.full((1, 2), 123_456)
    near = grid.values(Workload((SIDE, SIDE), cell - 500, cell + 500))
    assert near[0] == pytest.approx(5000, abs=250)


def test_a_small_cube_is_measured_as_by_the_gate_of_cubes() -> None:
    exact = np.random.default_rng(2).integers(0, 30, (37, 20))
    cells = np.nonzero(exact)
    fine = Gate(SparseRows(exact.shape, cells, exact[cells]), Fraction(1), noise=SeededNoise(6))
    first, second = FineGrid().run(fine).boxes, FineGrid().run(Gate(exact, Fraction(1), noise=SeededNoise(6))).boxes
    assert first is not None
    assert second is not None
    for name in ("node", "counts", "units"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_without_noise_the_estimate_is_what_was_counted() -> None:
    exact = np.random.default_rng(2).integers(0, 30, (16, 8))
    transcript = FineGrid().run(Gate(exact, Fraction(50), noise=SilentNoise()))
    lower = np.array([[0, 0], [0, 0]])
    upper = np.array([[16, 8], [8, 8]])
    values = estimate(transcript, "grid").values(Workload((16, 8), lower, upper))
    np.testing.assert_allclose(values, [exact.sum(), exact[:8].sum()], rtol=1e-6)


def test_where_more_looks_pay_the_next_one_gets_less() -> None:
    weights = weights_to_come(np.array([0.0, 10.0, 1e3, 1e5, 1e9]), np.ones(5), 5)
    assert np.all(np.diff(weights) >= 0)
    assert weights[0] < weights[-1]
    assert weights_to_come(np.array([1e9]), np.ones(1), 0).tolist() == [1.0]


def saved(path: Path, transcript: Transcript) -> Path:
    Release(FINE, transcript, Provenance("fine_grid", Fraction(4), "test", {})).save(path)
    return path


def whole() -> BoxCounts:
    return BoxCounts(BoxTree.uncut(FINE.shape), np.zeros(1, np.int64), np.ones(1, np.int64), np.array([BUDGET_UNITS]))


def test_a_file_that_would_need_every_cell_is_refused(tmp_path: Path) -> None:
    """Two trees are added up over every cell: of a trillion there is no room, and none is asked for."""
    per = Fraction(1, BUDGET_UNITS)
    assert Release.open(saved(tmp_path / "one", Transcript(FINE.shape, per, (whole(),), layout="grid")))
    made = Transcript(FINE.shape, per, (whole(), whole()))
    with pytest.raises(MemoryLimitError):
        Release.open(saved(tmp_path / "two", made))


def test_a_tree_that_is_not_cut_in_two_is_refused() -> None:
    middle = SIDE // 2
    lower = np.array([[0, 0], [0, 0], [0, middle], [middle, 0], [middle, middle]])
    upper = np.array([[SIDE, SIDE], [middle, middle], [middle, SIDE], [SIDE, middle], [SIDE, SIDE]])
    with pytest.raises((DomainError, MemoryLimitError)):  # after the memory of an array of labels, or before
        BoxTree(FINE.shape, lower, upper, np.array([-1, 0, 0, 0, 0]))


def test_a_plan_alone_makes_no_grid(tmp_path: Path) -> None:
    transcript = Transcript(FINE.shape, Fraction(1, BUDGET_UNITS), (whole(),), layout="grid")
    opened = Release.open(saved(tmp_path / "whole", transcript))
    assert opened.count().value == 1
    assert 0 < opened.count(x=(0, SIDE // 2)).nonuniformity < math.inf


def test_a_plan_does_not_say_that_a_grid_would_be_refused() -> None:
    assert list(planning._refusals(FINE, 1000, Fraction(1), 1, [FineGrid()])) == []
    (refused,) = planning._refusals(FINE, 1000, Fraction(1), 1, [strategy_of("cells")])
    assert "by cells would be refused" in refused
