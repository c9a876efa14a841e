"""A transcript is a list of measurements: each checks itself, tells its cost, and goes into a file and out of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube import Release
from dpcube.cli import commands
from dpcube.core import memory
from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, add_to_boxes
from dpcube.core.candidates import MedianCuts, TableDistances
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DomainError, DpcubeError, MemoryLimitError, QueryError, ReleaseFileError
from dpcube.measurements import BoxCounts, CellGroups, Marginal, Measurement, Selection, Transcript
from dpcube.measurements.manifest import spent
from dpcube.measurements.measurement import CountsAlike, Facts, Form, NamedArrays
from dpcube.measurements.measurements import MAX_SUMMED_UNITS, MEASUREMENT_KINDS
from dpcube.measurements.transcript import MAX_MEASUREMENTS, MAX_UNEVEN_MEASUREMENTS
from dpcube.release.explain import account
from dpcube.release.plots.picture import picture
from dpcube.release.report import report
from forge import (
    DOMAIN,
    EIGHTH,
    Manifest,
    array_of,
    arrays_of,
    changed,
    file_of,
    forged,
    halves,
    make_list,
    make_release_of,
    members_of,
    npy,
    selection,
)
from random_trees import random_tree

SHAPE = DOMAIN.shape
LIST = file_of(make_release_of(*make_list()))
CELLS = Marginal.from_cells(np.zeros(SHAPE, np.int64), EIGHTH)
TOTAL = Marginal((), np.array(7), EIGHTH)


def transcript_of(*measurements: Measurement) -> Transcript:
    return Transcript(SHAPE, Fraction(1, 2) / BUDGET_UNITS, measurements)


# What a transcript holds.


def test_cells_and_boxes_are_found_if_there_is_one_of_each() -> None:
    boxes = halves(0, 2, units=(10_000, 20_000))
    both = transcript_of(boxes, CELLS, TOTAL)
    assert (both.cells, both.boxes, both.marginals) == (CELLS, boxes, (CELLS, TOTAL))
    assert (transcript_of(TOTAL).cells, transcript_of(TOTAL).boxes) == (None, None)
    twice = transcript_of(CELLS, boxes, CELLS, boxes)
    assert (twice.cells, twice.boxes, twice.cell_variance) == (None, None, np.inf)


@pytest.mark.parametrize(
    ("measurements", "reason"),
    [
        ((), "at least one measurement"),
        ((TOTAL,) * (MAX_MEASUREMENTS + 1), "at most 1,025"),
        ((halves(0, 2, units=(10_000, 10_000)),) * (MAX_UNEVEN_MEASUREMENTS + 1), "32 trees"),
        ((CELLS, None), "a NoneType is no measurement; the kinds are marginal, boxes, selection"),
        ((Marginal.from_cells(np.zeros((4, 5), np.int64), 10_000),), "does not fit a cube"),
        ((Marginal((0,), np.zeros(4, np.int64), 10_000),), "does not fit a cube"),
        ((Marginal((2,), np.zeros(4, np.int64), 10_000),), "does not fit a cube"),
        ((Marginal((0, 1), np.zeros(20, np.int64), 10_000),), "does not fit a cube"),
        ((CELLS, Marginal((0,), np.zeros(5, np.int64), 1)), "epsilon outside 1e-9 to 100"),
    ],
)
def test_lists_that_cannot_be_are_refused(measurements: Any, reason: str) -> None:
    with pytest.raises(DomainError, match=reason):
        transcript_of(*measurements)


@pytest.mark.parametrize("axes", [(-1,), (1, 0), (0, 0), (np.int64(0),), (True,), (0.0,), ("0",)])
def test_axes_of_a_marginal_ascend_from_zero(axes: tuple[int, ...]) -> None:
    with pytest.raises(DomainError, match="ascending"):
        Marginal(axes, np.zeros((2,) * len(axes), np.int64), 5)


def test_a_marginal_is_measured_with_units_and_whole_numbers() -> None:
    wrong: tuple[Any, ...] = (0, -1, BUDGET_UNITS + 1, np.int64(5), 5.0, True, "5", None)
    for units in wrong:
        with pytest.raises(DomainError, match="a marginal must be measured with 1 to"):
            Marginal((0,), np.zeros(5, np.int64), units)
    with pytest.raises(DomainError, match="64-bit integers"):
        Marginal((0,), np.zeros(5), 5)  # type: ignore[arg-type]
    kept = Marginal((0,), np.zeros(5, np.int64), 5)
    with pytest.raises(ValueError, match="read-only"):
        kept.counts[0] = 1


# What it cost.


def random_selection(shape: tuple[int, ...], generator: np.random.Generator, units: int) -> Selection:
    """Of cuts of disjoint boxes, of one in boxes that overlap, or of a table over some attributes."""
    tree = random_tree(shape, generator, stop=0.3)
    kind, axes = generator.integers(0, 3), len(shape)
    if kind == 0 and max(shape) > 1:
        wide = [k for k in tree.leaves if (tree.upper[k] - tree.lower[k]).max() > 1] or [0]
        boxes = tree.boxes(np.array(wide))
        across = (boxes.upper - boxes.lower).argmax(axis=1)
        cuts = MedianCuts(boxes, across)
        return Selection.among(cuts, generator.integers(0, cuts.sizes), across[:, None], units)
    if kind == 1:
        boxes = tree.boxes(generator.integers(0, len(tree), 4))
        told = np.array([4]), generator.integers(0, 4, 1), np.empty((1, 0), np.int64)
        return Selection("how far counts are off", *told, units, 2, boxes)
    over = tuple((axis,) for axis in range(axes))
    tables = TableDistances(
        shape, over, tuple(generator.integers(-9, 9, side) for side in shape), *generator.integers(1, 9, (2, axes))
    )
    chosen = generator.integers(0, axes, 1)
    return Selection.among(tables, chosen, [over[chosen[0]]], units)


def random_measurement(shape: tuple[int, ...], generator: np.random.Generator) -> Measurement:
    units = int(generator.integers(10_000, BUDGET_UNITS // 10))
    kind = generator.integers(0, 5)
    if kind == 4:
        return random_selection(shape, generator, units)
    if kind == 0:
        return Marginal.from_cells(generator.integers(-9, 9, shape), units)
    if kind == 1:
        axes = tuple(np.flatnonzero(generator.random(len(shape)) < 0.5).tolist())
        return Marginal(axes, np.asarray(generator.integers(-9, 9, tuple(shape[a] for a in axes))), units)
    tree = random_tree(shape, generator, stop=0.3)
    node = generator.integers(0, len(tree), generator.integers(0, 6))
    return BoxCounts(tree, node, node * 3, generator.integers(10_000, BUDGET_UNITS // 10, len(node)))


def painted(shape: tuple[int, ...], measurements: Sequence[Measurement]) -> Ints:
    """What each cell was charged, count by count."""
    charged = np.zeros(shape, np.int64)
    for kept in measurements:
        if isinstance(kept, BoxCounts):
            boxes = Boxes(shape, kept.tree.lower[kept.node], kept.tree.upper[kept.node])
            add_to_boxes(charged, boxes, kept.units)
        elif isinstance(kept, Selection) and kept.boxes is not None:
            held = np.zeros(shape, np.int64)
            add_to_boxes(held, kept.boxes, np.ones(len(kept.boxes), np.int64))
            charged[held > 0] += kept.units
        elif isinstance(kept, Marginal | Selection):
            charged += kept.units
    return charged


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple), st.integers(0, 2**32 - 1))
def test_a_transcript_costs_what_its_dearest_cell_was_charged(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    measurements = [random_measurement(shape, generator) for _ in range(generator.integers(1, 6))]
    transcript = Transcript(shape, Fraction(1, BUDGET_UNITS), tuple(measurements))
    assert transcript.most_charged() == painted(shape, measurements).max()
    for kept in measurements:
        assert kept.most_charged() == painted(shape, [kept]).max()
        charges = np.full(shape, 7, np.int64)
        kept.add_charges(charges)
        np.testing.assert_array_equal(charges, 7 + painted(shape, [kept]))


def test_trees_that_charge_other_cells_most_are_not_charged_twice(tmp_path: Path) -> None:
    """Added up by their dearest cells they would cost 4/8, and an honest file be refused."""
    trees = halves(0, 2, units=(EIGHTH, 2 * EIGHTH)), halves(0, 2, units=(2 * EIGHTH, EIGHTH))
    assert transcript_of(*trees).most_charged() == 3 * EIGHTH
    release = make_release_of(*trees, epsilon=Fraction(3, 16))
    release.save(tmp_path / "a.dpcube")
    assert Release.open(tmp_path / "a.dpcube").digest == release.digest
    make_release_of(*trees, epsilon=Fraction(3, 16) - Fraction(1, 10**9)).save(tmp_path / "b.dpcube")
    with pytest.raises(ReleaseFileError, match="costs more than the epsilon"):
        Release.open(tmp_path / "b.dpcube")


def test_charges_too_large_to_add_up_stay_too_large() -> None:
    """Four such trees would make a negative sum of 64-bit integers."""
    tree = halves(0, 2, units=(10_000, 10_000)).tree
    rows = np.ones(2**21 + 1, np.int64)
    dear = BoxCounts(tree, rows, rows, rows * BUDGET_UNITS)
    for trees in range(1, 6):
        assert transcript_of(*(dear,) * trees).most_charged() >= MAX_SUMMED_UNITS


def test_what_was_spent_is_told_by_measurement() -> None:
    release = make_release_of(*make_list())
    assert spent(release.transcript, release.provenance) == {
        "marginal 1": "1/16",
        "cells": "1/8",
        "boxes 1": "1/8",
        "marginal 2": "1/16",
        "boxes 2": "1/16",
        "marginal 3": "1/32",
    }
    rows = [(row.what, row.counts, row.share) for row in account(release).measured]
    assert rows[:2] == [("every cell of the table of sex", 4, 0.125), ("every cell", 20, 0.25)]
    assert rows[4] == ("the whole", 1, 0.125)
    assert rows[-1] == ("every cell of the table of age", 5, 0.0625)


def test_many_measurements_are_told_together() -> None:
    rows = account(make_release_of(*(TOTAL,) * 19, Marginal.from_cells(np.zeros(SHAPE, np.int64), 2 * EIGHTH))).measured
    assert len(rows) == 9
    assert (rows[-1].what, rows[-1].counts) == ("12 other measurements, with at most", 31)
    assert rows[-1].share == 0.25


def test_what_no_estimate_knows_is_not_answered_but_told(tmp_path: Path) -> None:
    path = tmp_path / "a.dpcube"
    make_release_of(TOTAL).save(path)
    release = Release.open(path)
    assert release.estimates == ()
    for ask in (release.count, release.cells, lambda: report(release), lambda: picture(release)):
        with pytest.raises(QueryError, match=r"no estimate can answer from what this release measured \(marginal\)"):
            ask()
    told = CliRunner().invoke(commands, ["info", str(path)])
    assert told.exit_code == 0, told.output
    assert "No estimate of this dpcube can answer" in told.output


# Into a file and out of it.


def same(one: Measurement, other: Measurement) -> bool:
    arrays, others = one.arrays(), other.arrays()
    return (
        type(one) is type(other)
        and one.facts() == other.facts()
        and list(arrays) == list(others)
        and all(np.array_equal(array, others[name]) for name, array in arrays.items())
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_list_comes_back_in_its_order(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    generator = np.random.default_rng(seed)
    measurements = [random_measurement(SHAPE, generator) for _ in range(generator.integers(1, 6))]
    release = make_release_of(*measurements, epsilon=Fraction(5))
    path = tmp_path_factory.mktemp("list") / "a.dpcube"
    assert release.save(path) == release.digest == Release.open(path).digest
    back = Release.open(path).transcript.measurements
    assert len(back) == len(measurements)
    assert all(same(one, other) for one, other in zip(back, measurements, strict=True))


def test_the_digest_depends_on_the_whole_list() -> None:
    first, second = Marginal((0,), np.arange(5), EIGHTH), Marginal((0,), np.arange(5) + 1, EIGHTH)
    lists: list[tuple[Measurement, ...]] = [
        (first, second),
        (second, first),
        (first,),
        (first, first),
        (Marginal((0,), np.arange(5), EIGHTH + 1), second),
        (first, CELLS),
        (CELLS, first),
        (CELLS,),
        (Marginal((0, 1), CELLS.counts, EIGHTH, CellGroups((np.arange(5), np.arange(4)))),),
        (selection(), CELLS),
        (replace(selection(), score="another score"), CELLS),
        (replace(selection(), sensitivity=3), CELLS),
    ]
    assert len({make_release_of(*some).digest for some in lists}) == len(lists)


@pytest.mark.slow
def test_a_file_may_hold_as_many_measurements_as_a_transcript(tmp_path: Path) -> None:
    few = Marginal((0,), np.arange(5), 10_000)
    release = make_release_of(*(few,) * MAX_MEASUREMENTS)
    release.save(tmp_path / "a.dpcube")
    assert len(Release.open(tmp_path / "a.dpcube").transcript.measurements) == MAX_MEASUREMENTS


@dataclass(frozen=True, slots=True, eq=False)
class Ranking(Measurement):
    """Some options in a noisy order: a kind of measurement of one's own."""

    kind: ClassVar[str] = "ranking"
    law: ClassVar[str] = "any"
    order: Ints
    units: int

    @property
    def noisy(self) -> Ints:
        return self.order

    def check_shape(self, shape: tuple[int, ...]) -> None:
        assert shape

    def noise_units(self) -> tuple[Fraction, ...]:
        return (Fraction(self.units),)

    def most_charged(self) -> int:
        return self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:
        return [CountsAlike(f"a ranking of {names[0]}", 1, self.units)][:most]

    def arrays(self) -> NamedArrays:
        return {"order": self.order}

    @classmethod
    def forms(cls, shape: tuple[int, ...], sides: tuple[int, ...], facts: Facts) -> dict[str, Form]:
        assert (shape, sides, facts["units"]) == (SHAPE, (), EIGHTH)
        return {"order": (range(1, 10),)}

    @classmethod
    def from_arrays(
        cls, shape: tuple[int, ...], groups: CellGroups | None, facts: Mapping[str, Any], arrays: NamedArrays
    ) -> Self:
        assert (shape, groups) == (SHAPE, None)
        return cls(arrays["order"], facts["units"])


def test_a_new_kind_is_one_class_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASUREMENT_KINDS, "ranking", Ranking)
    release = make_release_of(CELLS, Ranking(np.array([3, 1]), EIGHTH))
    release.save(tmp_path / "a.dpcube")
    back = Release.open(tmp_path / "a.dpcube")
    assert back.digest == release.digest
    assert same(back.transcript.measurements[1], release.transcript.measurements[1])
    assert [row.what for row in account(back).measured] == ["every cell", "a ranking of age"]
    monkeypatch.undo()
    with pytest.raises(ReleaseFileError, match=r"of kind 'ranking'.* does not support; install a newer dpcube"):
        Release.open(tmp_path / "a.dpcube")


# Files that are not what they should be.


def refused(place: Path, content: bytes, *, kind: type[DpcubeError] = ReleaseFileError) -> str:
    """Open a bad file; return the one line that says what is wrong with it."""
    (place / "bad.dpcube").write_bytes(content)
    with pytest.raises(kind) as caught:
        Release.open(place / "bad.dpcube")
    line = str(caught.value)
    assert line.isprintable(), line
    assert len(line) < 600 + len(str(place))
    return line


def test_the_forger_can_make_a_good_list(tmp_path: Path) -> None:
    """Otherwise every refusal below would prove nothing."""
    path = tmp_path / "good.dpcube"
    path.write_bytes(forged(LIST, **{"6.counts": array_of(LIST, "6.counts")}))
    assert Release.open(path).digest == make_release_of(*make_list()).digest


ENTRIES = json.loads(members_of(LIST)["manifest.json"])["measurements"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "key"), [(number, key) for number, entry in enumerate(ENTRIES) for key in entry], ids=str
)
def test_every_fact_of_a_measurement_is_needed_and_checked(tmp_path: Path, number: int, key: str) -> None:
    refused(tmp_path, forged(LIST, lambda manifest: manifest["measurements"][number].pop(key)))
    wrong: list[object] = [
        None,
        {},
        "x",
        -1,
        0,
        1,
        1.5,
        True,
        10**30,
        [[0]],
        [True],
        ["x"],
        [2],
        [0, 0],
        [1, 0],
        [10**30],
        "x" * 5000,
    ]
    for value in wrong:
        if json.dumps(value) != json.dumps(ENTRIES[number][key]):  # true is not 1
            refused(tmp_path, forged(LIST, lambda m, value=value: m["measurements"][number].update({key: value})))  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("measurements"),
        lambda manifest: manifest.update(measurements={}),
        lambda manifest: manifest.update(measurements=[]),
        lambda manifest: manifest.update(measurements=[None] * 6),
        lambda manifest: manifest.update(measurements=manifest["measurements"][:-1]),
        lambda manifest: manifest.update(measurements=manifest["measurements"][::-1]),
        lambda manifest: manifest["measurements"].append(manifest["measurements"][0]),
        lambda manifest: manifest["noise"].pop("epsilon_per_unit"),
        lambda manifest: manifest["noise"].update(epsilon_per_unit="0"),
        lambda manifest: manifest["noise"].update(epsilon_per_unit=1),
        lambda manifest: manifest["noise"].pop("laws"),
        lambda manifest: manifest["members"].pop("6.counts.npy"),
        lambda manifest: manifest["members"].update({"7.counts.npy": manifest["members"]["6.counts.npy"]}),
        lambda manifest: manifest["noise"]["laws"].update(boxes="Gaussian"),
        lambda manifest: manifest["noise"]["laws"].pop("marginal"),
        lambda manifest: manifest["measurements"][0].update(kind="boxes"),
        lambda manifest: manifest["measurements"][0].update(grouped=True),
        lambda manifest: manifest.update(groups=[5, 4]),
        lambda manifest: manifest.pop("layout"),
        lambda manifest: manifest.update(layout="sphere"),
        lambda manifest: manifest.pop("plan"),
        lambda manifest: manifest.update(plan=7),
        lambda manifest: manifest["measurements"][1].update(units=2 * EIGHTH + EIGHTH),
        lambda manifest: manifest["measurements"][2].update(units=2 * EIGHTH + 1),
        lambda manifest: manifest["measurements"][0].update(axes=[0]),
        lambda manifest: manifest["measurements"][0].update(axes=[0, 1]),
        lambda manifest: manifest["measurements"][5].update(axes=[1, 0]),
    ],
    ids=range(27),
)
def test_lists_that_are_not_what_they_should_be_are_refused(tmp_path: Path, change: Any) -> None:
    refused(tmp_path, forged(LIST, change))


@pytest.mark.parametrize("axes", [[2], [-1], [0, 2], [0, 0], [1, 1, 1], [0] * 5000], ids=range(6))
def test_a_marginal_is_no_larger_than_the_cube(tmp_path: Path, axes: list[int]) -> None:
    line = refused(tmp_path, forged(LIST, lambda manifest: manifest["measurements"][0].update(axes=axes)))
    assert "among the 2 axes of the cube, each once" in line


def test_a_list_longer_than_a_transcript_is_refused_before_its_members_are_read(tmp_path: Path) -> None:
    def lengthen(manifest: Manifest) -> None:
        manifest["measurements"] = [{}] * (MAX_MEASUREMENTS + 1)

    assert "1,026 measurements" in refused(tmp_path, forged(LIST, lengthen))


def test_more_trees_than_a_transcript_holds_are_refused(tmp_path: Path) -> None:
    arrays = [stem.removeprefix("5.") for stem in arrays_of(LIST) if stem.startswith("5.")]
    many = {
        f"{n}.{name}": array_of(LIST, f"5.{name}") for n in range(7, 7 + MAX_UNEVEN_MEASUREMENTS) for name in arrays
    }

    def lengthen(manifest: Manifest) -> None:
        manifest["measurements"] += [ENTRIES[4]] * MAX_UNEVEN_MEASUREMENTS

    assert "32 trees" in refused(tmp_path, forged(LIST, lengthen, **many))


@pytest.mark.parametrize("stem", arrays_of(LIST))
def test_arrays_of_a_list_are_checked_as_all_are(tmp_path: Path, stem: str) -> None:
    array, shape = array_of(LIST, stem), "the type and the shape it should"
    assert shape in refused(tmp_path, forged(LIST, **{stem: array.astype(np.float64)}))
    assert shape in refused(tmp_path, forged(LIST, **{stem: array[None]}))
    if stem.endswith("counts") and array.ndim and stem[0] not in "35":
        for wrong in (array[:-1], array[:0], np.zeros(3_000_000, np.int64)):
            assert shape in refused(tmp_path, forged(LIST, **{stem: wrong}))
    refused(tmp_path, forged(LIST, **{stem: None}))
    refused(tmp_path, forged(LIST, **{stem: b"\x93NUMPY"}))
    refused(tmp_path, forged(LIST, **{stem: npy(array[None])}))  # declared as before


def test_the_cost_of_a_list_is_that_of_all_its_measurements(tmp_path: Path) -> None:
    def claim(epsilon: str) -> bytes:
        return forged(LIST, lambda manifest: manifest["privacy"].update(epsilon=epsilon))

    (tmp_path / "exact.dpcube").write_bytes(claim("15/32"))
    assert Release.open(tmp_path / "exact.dpcube").provenance.epsilon == Fraction(15, 32)
    assert "costs more than the epsilon" in refused(tmp_path, claim("14999/32000"))
    dearer = changed(array_of(LIST, "3.units"), 1, 4 * EIGHTH)
    content = forged(LIST, lambda manifest: manifest["measurements"][2].update(units=4 * EIGHTH), **{"3.units": dearer})
    assert "costs more than the epsilon" in refused(tmp_path, content)


def test_all_tables_must_fit_into_memory_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 480 bytes at most by itself."""
    content = file_of(make_release_of(*(Marginal.from_cells(np.zeros(SHAPE, np.int64), 10_000),) * 9))
    monkeypatch.setattr(memory, "available_bytes", lambda: 9 * 480 - 1)
    assert "arrays of 180 numbers" in refused(tmp_path, content, kind=MemoryLimitError)
    monkeypatch.setattr(memory, "available_bytes", lambda: 9 * 480)
    assert len(Release.open(tmp_path / "bad.dpcube").transcript.measurements) == 9
