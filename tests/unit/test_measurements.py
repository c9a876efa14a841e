"""A transcript is a list of measurements: each checks itself, tells its cost, and goes into a file and out of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from dpcube.core.candidates import BoxDistances, LargestClass, TableDistances
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DomainError, DpcubeError, MemoryLimitError, QueryError, ReleaseFileError
from dpcube.measurements import BoxCounts, CellCounts, Choice, MarginalCounts, Measurement, Transcript
from dpcube.measurements.file import spent
from dpcube.measurements.kinds import MEASUREMENT_KINDS
from dpcube.measurements.measurements import MOST_UNITS, Columns, CountsAlike, TableForm
from dpcube.measurements.transcript import MOST_MEASUREMENTS, MOST_UNEVEN
from dpcube.release.explain import account
from dpcube.release.plots.picture import picture
from dpcube.release.report import report
from forge import (
    DOMAIN,
    EIGHTH,
    Manifest,
    changed,
    file_of,
    forged,
    halves,
    make_list,
    make_release_of,
    members_of,
    parquet,
    table_of,
)
from random_trees import random_tree

SHAPE = DOMAIN.shape
LIST = file_of(make_release_of(*make_list()))
CELLS = CellCounts(np.zeros(SHAPE, np.int64), EIGHTH)
TOTAL = MarginalCounts((), np.array(7), EIGHTH)


def transcript_of(*measurements: Measurement) -> Transcript:
    return Transcript(SHAPE, Fraction(1, 2) / BUDGET_UNITS, measurements)


# What a transcript holds.


def test_cells_and_boxes_are_found_if_there_is_one_of_each() -> None:
    boxes = halves(0, 2, units=(10_000, 20_000))
    both = transcript_of(boxes, CELLS, TOTAL)
    assert (both.cells, both.boxes, both.only(MarginalCounts)) == (CELLS, boxes, TOTAL)
    assert (transcript_of(TOTAL).cells, transcript_of(TOTAL).boxes) == (None, None)
    twice = transcript_of(CELLS, boxes, CELLS, boxes)
    assert (twice.cells, twice.boxes, twice.cell_variance) == (None, None, np.inf)


@pytest.mark.parametrize(
    ("measurements", "reason"),
    [
        ((), "at least one measurement"),
        ((TOTAL,) * (MOST_MEASUREMENTS + 1), "at most 1,025"),
        ((halves(0, 2, units=(10_000, 10_000)),) * (MOST_UNEVEN + 1), "32 trees"),
        ((CELLS, None), "a NoneType is no measurement; the kinds are cells, boxes, marginal"),
        ((CellCounts(np.zeros((4, 5), np.int64), 10_000),), "do not fit a cube"),
        ((MarginalCounts((0,), np.zeros(4, np.int64), 10_000),), "does not fit a cube"),
        ((MarginalCounts((2,), np.zeros(4, np.int64), 10_000),), "does not fit a cube"),
        ((MarginalCounts((0, 1), np.zeros(20, np.int64), 10_000),), "does not fit a cube"),
        ((CELLS, MarginalCounts((0,), np.zeros(5, np.int64), 1)), "epsilon outside 1e-9 to 100"),
    ],
)
def test_lists_that_cannot_be_are_refused(measurements: Any, reason: str) -> None:
    with pytest.raises(DomainError, match=reason):
        transcript_of(*measurements)


@pytest.mark.parametrize("axes", [(-1,), (1, 0), (0, 0), (np.int64(0),), (True,), (0.0,), ("0",)])
def test_axes_of_a_marginal_ascend_from_zero(axes: tuple[int, ...]) -> None:
    with pytest.raises(DomainError, match="ascending"):
        MarginalCounts(axes, np.zeros((2,) * len(axes), np.int64), 5)


def test_a_marginal_is_measured_with_units_and_whole_numbers() -> None:
    wrong: tuple[Any, ...] = (0, -1, BUDGET_UNITS + 1, np.int64(5), 5.0, True, "5", None)
    for units in wrong:
        with pytest.raises(DomainError, match="a marginal must be measured with 1 to"):
            MarginalCounts((0,), np.zeros(5, np.int64), units)
        with pytest.raises(DomainError, match="cells must be measured with 1 to"):
            CellCounts(np.zeros(5, np.int64), units)
    with pytest.raises(DomainError, match="64-bit integers"):
        MarginalCounts((0,), np.zeros(5), 5)  # type: ignore[arg-type]
    kept = MarginalCounts((0,), np.zeros(5, np.int64), 5)
    with pytest.raises(ValueError, match="read-only"):
        kept.counts[0] = 1


# What it cost.


def random_choice(shape: tuple[int, ...], generator: np.random.Generator, units: int) -> Choice:
    """Of a class in disjoint boxes, of boxes that overlap, or of tables, by predictions."""
    tree = random_tree(shape, generator, stop=0.3)
    kind, axes = generator.integers(0, 3), len(shape)
    if kind == 0:
        some = np.flatnonzero(generator.random(len(tree.leaves)) < 0.5)
        classes = LargestClass(tree.boxes(tree.leaves[some if len(some) else [0]]), int(generator.integers(axes)))
        return Choice(classes, generator.integers(0, classes.sizes), units)
    if kind == 1:
        boxes = tree.boxes(generator.integers(0, len(tree), 4))
        predicted, weights, allowances = (generator.integers(1, 99, 4) for _ in range(3))
        return Choice(
            BoxDistances(boxes, predicted, np.arange(4), weights, allowances), generator.integers(0, 4, 1), units
        )
    over = tuple((axis,) for axis in range(axes))
    tables = TableDistances(
        shape, over, tuple(generator.integers(-9, 9, side) for side in shape), *generator.integers(1, 9, (2, axes))
    )
    return Choice(tables, generator.integers(0, axes, 1), units)


def random_measurement(shape: tuple[int, ...], generator: np.random.Generator) -> Measurement:
    units = int(generator.integers(10_000, BUDGET_UNITS // 10))
    kind = generator.integers(0, 5)
    if kind == 4:
        return random_choice(shape, generator, units)
    if kind == 0:
        return CellCounts(generator.integers(-9, 9, shape), units)
    if kind == 1:
        axes = tuple(np.flatnonzero(generator.random(len(shape)) < 0.5).tolist())
        return MarginalCounts(axes, np.asarray(generator.integers(-9, 9, tuple(shape[a] for a in axes))), units)
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
        elif isinstance(kept, Choice) and kept.candidates.covered is not None:
            held = np.zeros(shape, np.int64)
            add_to_boxes(held, kept.candidates.covered, np.ones(len(kept.candidates.covered), np.int64))
            charged[held > 0] += kept.units
        elif isinstance(kept, CellCounts | MarginalCounts | Choice):
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
        assert transcript_of(*(dear,) * trees).most_charged() >= MOST_UNITS


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
    assert rows[-1] == ("every cell of the table of age, sex", 20, 0.0625)


def test_many_measurements_are_told_together() -> None:
    rows = account(make_release_of(*(TOTAL,) * 19, CellCounts(np.zeros(SHAPE, np.int64), 2 * EIGHTH))).measured
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
    tables, others = one.tables(), other.tables()
    return (
        type(one) is type(other)
        and one.facts() == other.facts()
        and [list(columns) for columns in tables.values()] == [list(columns) for columns in others.values()]
        and all(
            np.array_equal(column, others[table][name])
            for table, columns in tables.items()
            for name, column in columns.items()
        )
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


@pytest.mark.parametrize(
    ("measurements", "version"),
    [
        ((CELLS,), 1),
        ((halves(0, 2, units=(10_000, 10_000)),), 1),
        ((CELLS, halves(0, 2, units=(10_000, 10_000))), 1),
        ((halves(0, 2, units=(10_000, 10_000)), CELLS), 2),  # format 1 has cells first
        ((CELLS, CELLS), 2),
        ((halves(0, 2, units=(10_000, 10_000)),) * 2, 2),
        ((TOTAL,), 2),
        ((CELLS, TOTAL), 2),
    ],
)
def test_the_oldest_format_that_can_hold_a_list_is_written(measurements: Any, version: int) -> None:
    members = members_of(file_of(make_release_of(*measurements)))
    manifest = json.loads(members["manifest.json"])
    assert manifest["format"] == version
    assert ("measurements" in manifest) == ("grain" not in manifest["noise"]) == (version == 2)


def test_the_digest_depends_on_the_whole_list() -> None:
    first, second = MarginalCounts((0,), np.arange(5), EIGHTH), MarginalCounts((0,), np.arange(5) + 1, EIGHTH)
    lists: list[tuple[Measurement, ...]] = [
        (first, second),
        (second, first),
        (first,),
        (first, first),
        (MarginalCounts((0,), np.arange(5), EIGHTH + 1), second),
        (first, CELLS),
        (CELLS, first),
        (CELLS,),
        (MarginalCounts((0, 1), CELLS.counts, EIGHTH),),
    ]
    assert len({make_release_of(*some).digest for some in lists}) == len(lists)


@pytest.mark.slow
def test_a_file_may_hold_as_many_measurements_as_a_transcript(tmp_path: Path) -> None:
    few = MarginalCounts((0,), np.arange(5), 10_000)
    release = make_release_of(*(few,) * MOST_MEASUREMENTS)
    release.save(tmp_path / "a.dpcube")
    assert len(Release.open(tmp_path / "a.dpcube").transcript.measurements) == MOST_MEASUREMENTS


@dataclass(frozen=True, slots=True, eq=False)
class Ranking(Measurement):
    """Some options in a noisy order: a kind of measurement of one's own."""

    kind: ClassVar[str] = "ranking"
    law: ClassVar[str] = "any"
    table_names: ClassVar[tuple[str, ...]] = ("ranking",)
    order: Ints
    units: int

    def check_shape(self, shape: tuple[int, ...]) -> None:
        assert shape

    def least_and_most_units(self) -> tuple[int, ...]:
        return (self.units,)

    def most_charged(self) -> int:
        return self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:
        return [CountsAlike(f"a ranking of {names[0]}", 1, self.units)][:most]

    def tables(self) -> dict[str, Columns]:
        return {"ranking": {"order": self.order}}

    @classmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Mapping[str, object]) -> dict[str, TableForm]:
        assert (shape, facts["units"]) == (SHAPE, EIGHTH)
        return {"ranking": TableForm(("order",), 1, 9)}

    @classmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Mapping[str, Any], tables: Mapping[str, Columns]) -> Self:
        assert shape == SHAPE
        return cls(tables["ranking"]["order"], facts["units"])


def test_a_new_kind_is_one_class_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASUREMENT_KINDS, "ranking", Ranking)
    release = make_release_of(CELLS, Ranking(np.array([3, 1]), EIGHTH))
    release.save(tmp_path / "a.dpcube")
    back = Release.open(tmp_path / "a.dpcube")
    assert back.digest == release.digest
    assert same(back.transcript.measurements[1], release.transcript.measurements[1])
    assert [row.what for row in account(back).measured] == ["every cell", "a ranking of age"]
    monkeypatch.undo()
    with pytest.raises(ReleaseFileError, match=r"of kind 'ranking'.* does not know; install a newer dpcube"):
        Release.open(tmp_path / "a.dpcube")


# Files of format 2 that are not what they should be.


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
    path.write_bytes(forged(LIST, **{"6-marginal": parquet(table_of(LIST, "6-marginal"))}))
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
        lambda manifest: manifest.update(format=1),
        lambda manifest: manifest["members"].pop("6-marginal.parquet"),
        lambda manifest: manifest["members"].update({"7-marginal.parquet": "0" * 64}),
        lambda manifest: manifest["measurements"][0].update(law="Gaussian"),
        lambda manifest: manifest["measurements"][0].update(kind="cells"),
        lambda manifest: manifest["measurements"][1].update(units=2 * EIGHTH + EIGHTH),
        lambda manifest: manifest["measurements"][2].update(units=2 * EIGHTH + 1),
        lambda manifest: manifest["measurements"][0].update(axes=[0]),
        lambda manifest: manifest["measurements"][0].update(axes=[0, 1]),
        lambda manifest: manifest["measurements"][5].update(axes=[1, 0]),
    ],
    ids=range(20),
)
def test_lists_that_are_not_what_they_should_be_are_refused(tmp_path: Path, change: Any) -> None:
    refused(tmp_path, forged(LIST, change))


@pytest.mark.parametrize("axes", [[2], [-1], [0, 2], [0, 0], [1, 1, 1], [0] * 5000], ids=range(6))
def test_a_marginal_is_no_larger_than_the_cube(tmp_path: Path, axes: list[int]) -> None:
    line = refused(tmp_path, forged(LIST, lambda manifest: manifest["measurements"][0].update(axes=axes)))
    assert "among the 2 axes of the cube, each once" in line


def test_a_list_longer_than_a_transcript_is_refused_before_its_members_are_read(tmp_path: Path) -> None:
    def lengthen(manifest: Manifest) -> None:
        manifest["measurements"] = [{}] * (MOST_MEASUREMENTS + 1)

    assert "1,026 measurements" in refused(tmp_path, forged(LIST, lengthen))


def test_more_trees_than_a_transcript_holds_are_refused(tmp_path: Path) -> None:
    tree, boxes = members_of(LIST)["5-tree.parquet"], members_of(LIST)["5-boxes.parquet"]
    many: dict[str, bytes | None] = {}
    for number in range(7, 7 + MOST_UNEVEN):
        many |= {f"{number}-tree": tree, f"{number}-boxes": boxes}

    def lengthen(manifest: Manifest) -> None:
        for number in range(7, 7 + MOST_UNEVEN):
            names = [f"{number}-tree.parquet", f"{number}-boxes.parquet"]
            manifest["measurements"].append({**ENTRIES[4], "members": names})

    assert "32 trees" in refused(tmp_path, forged(LIST, lengthen, **many))


@pytest.mark.parametrize("stem", ["1-marginal", "2-cells", "3-tree", "5-boxes", "6-marginal"])
def test_tables_of_a_list_are_checked_as_all_are(tmp_path: Path, stem: str) -> None:
    table = table_of(LIST, stem)
    name = table.schema.names[0]
    others = [
        table.rename_columns(["x", *table.schema.names[1:]]),
        table.append_column("x", table[name]),
        {column: table[column].to_numpy().astype(np.float64) for column in table.schema.names},
    ]
    if "marginal" in stem or "cells" in stem:
        others.append(table[:0])
        for wrong in (table[:-1], {"noisy_count": np.zeros(3_000_000, np.int64)}):
            assert "rows it should" in refused(tmp_path, forged(LIST, **{stem: parquet(wrong)}))
    for other in others:
        refused(tmp_path, forged(LIST, **{stem: parquet(other)}))
    refused(tmp_path, forged(LIST, **{stem: None}))
    refused(tmp_path, forged(LIST, **{stem: b"PAR1"}))


def test_the_cost_of_a_list_is_that_of_all_its_measurements(tmp_path: Path) -> None:
    def claim(epsilon: str) -> bytes:
        return forged(LIST, lambda manifest: manifest["privacy"].update(epsilon=epsilon))

    (tmp_path / "exact.dpcube").write_bytes(claim("15/32"))
    assert Release.open(tmp_path / "exact.dpcube").provenance.epsilon == Fraction(15, 32)
    assert "costs more than the epsilon" in refused(tmp_path, claim("14999/32000"))
    dearer = changed(table_of(LIST, "3-boxes"), "units", 1, 4 * EIGHTH)
    content = forged(LIST, lambda manifest: manifest["measurements"][2].update(units=4 * EIGHTH), **{"3-boxes": dearer})
    assert "costs more than the epsilon" in refused(tmp_path, content)


def test_all_tables_must_fit_into_memory_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 480 bytes at most by itself."""
    content = file_of(make_release_of(*(CellCounts(np.zeros(SHAPE, np.int64), 10_000),) * 9))
    monkeypatch.setattr(memory, "available_bytes", lambda: 9 * 480 - 1)
    assert "tables of 180 rows" in refused(tmp_path, content, kind=MemoryLimitError)
    monkeypatch.setattr(memory, "available_bytes", lambda: 9 * 480)
    assert len(Release.open(tmp_path / "bad.dpcube").transcript.measurements) == 9
