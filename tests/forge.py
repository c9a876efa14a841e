"""Forged `.dpcube` files: a good release taken apart, spoilt, and put together again with every digest right."""

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube import Category, Domain, Integer, Release
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import BestSplit, BoxDistances, LargestClass, MedianCuts, TableDistances
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.gate import Gate
from dpcube.measurements import (
    BoxCounts,
    CellCounts,
    Choice,
    Cuboid,
    CuboidCounts,
    MarginalCounts,
    Measurement,
    Provenance,
    Transcript,
)
from dpcube.strategies import TwoPhase
from dpcube.testing import SeededNoise
from dpcube.trees.tree import BoxTree

DOMAIN = Domain((Integer(name="age", min=20, max=24), Category(name="sex", values=("F", "M", "X"), null="cell")))
PARAMETERS = TwoPhase().parameters()

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]


def make_release(*, seed: int = 1) -> Release:
    """A small release of cells and boxes, with seeded noise."""
    exact = np.arange(20).reshape(5, 4) ** 2 % 37
    transcript = TwoPhase(slack=0, noise_corrected=False).run(Gate(exact, Fraction(1, 2), noise=SeededNoise(seed)))
    return Release(DOMAIN, transcript, Provenance("dpcube", Fraction(1, 2), "dpcube test", PARAMETERS, private=False))


def halves(axis: int, cut: int, *, units: tuple[int, int]) -> BoxCounts:
    """The two halves of the cube on the sides of a cut, with units of their own."""
    lower, upper = np.zeros((3, 2), np.int64), np.tile(np.array(DOMAIN.shape), (3, 1))
    upper[1, axis] = lower[2, axis] = cut
    tree = BoxTree(DOMAIN.shape, lower, upper, np.array([-1, 0, 0]))
    return BoxCounts(tree, np.array([1, 2]), np.array([100, -3]), np.array(units))


EIGHTH = BUDGET_UNITS // 8


def make_list() -> tuple[Measurement, ...]:
    """Every kind of measurement, some twice, with made-up counts; together they cost 15/16 where they cost most."""
    return (
        MarginalCounts((1,), np.array([40, -2, 30, 5]), EIGHTH),
        CellCounts(np.arange(20).reshape(5, 4) ** 2 % 37, 2 * EIGHTH),
        halves(0, 2, units=(EIGHTH, 2 * EIGHTH)),
        MarginalCounts((), np.array(73), EIGHTH),
        halves(1, 1, units=(EIGHTH // 2, EIGHTH)),
        MarginalCounts((0, 1), np.arange(20).reshape(5, 4), EIGHTH // 2),
    )


def make_cuboids() -> tuple[Measurement, ...]:
    """A wide release of the small cube: a table over each attribute, and two cuboids of groups, one of them chosen."""
    groups = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 2, 0])
    return (
        MarginalCounts((0,), np.array([30, 20, -5, 40, 10]), EIGHTH),
        MarginalCounts((1,), np.array([40, 30, 20, 5]), EIGHTH),
        CuboidCounts(
            groups,
            (
                Cuboid((0, 1), np.array([[20, 10, 9], [1, -3, 2], [22, 18, 9]]), EIGHTH, 3, EIGHTH // 2),
                Cuboid((1,), np.array([41, 33, 18]), EIGHTH),
            ),
        ),
    )


def make_choices() -> tuple[Measurement, ...]:
    """Choices by every score, made up, and the boxes they might have led to; together they cost 15/16."""
    two = np.ones(2, np.int64)
    whole = Boxes(DOMAIN.shape, np.array([[0, 0]]), np.array([[5, 4]]))
    parts = Boxes(DOMAIN.shape, np.array([[0, 0], [2, 0]]), np.array([[2, 4], [5, 3]]))
    three = Boxes(DOMAIN.shape, np.array([[0, 0], [2, 0], [0, 0]]), np.array([[2, 4], [5, 4], [5, 1]]))
    tables = TableDistances(DOMAIN.shape, ((0,), (0, 1)), (np.arange(5), -np.arange(20).reshape(5, 4)), 3 * two, -two)
    return (
        Choice(MedianCuts(parts, np.array([1, 0])), np.array([2, 1]), EIGHTH),
        Choice(LargestClass(whole, 1), np.array([3]), EIGHTH),
        Choice(BestSplit(parts, 1, (0,), "information", 1000), np.array([0, 0]), EIGHTH),
        Choice(BoxDistances(three, np.array([9, -9, 0]), np.array([0, 0, 1]), 2 * two, 5 * two), np.array([1]), EIGHTH),
        Choice(tables, np.array([1]), EIGHTH),
        halves(0, 2, units=(EIGHTH, 2 * EIGHTH)),
        halves(1, 1, units=(EIGHTH // 2, EIGHTH // 2)),
    )


def make_release_of(*measurements: Measurement, epsilon: Fraction = Fraction(1, 2)) -> Release:
    """A release of these measurements of the small cube."""
    transcript = Transcript(DOMAIN.shape, Fraction(1, 2) / BUDGET_UNITS, measurements)
    return Release(DOMAIN, transcript, Provenance("made up", epsilon, "dpcube test", {}, private=False))


def file_of(release: Release) -> bytes:
    """The bytes of a release's file."""
    with TemporaryDirectory() as place:
        release.save(Path(place) / "whole.dpcube")
        return (Path(place) / "whole.dpcube").read_bytes()


def members_of(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: list[tuple[str, bytes]], **options: Any) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", **options) as archive, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name")
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=options.get("compression"))
    return sink.getvalue()


def forged(whole: bytes, change: Change = lambda _: None, /, **replaced: bytes | None) -> bytes:
    """Change the manifest or replace members (`cells=` for `cells.parquet`), with every digest right again."""
    members = members_of(whole)
    manifest = json.loads(members.pop("manifest.json"))
    for stem, content in replaced.items():
        name = f"{stem}.toml" if stem == "domain" else f"{stem}.parquet"
        members.pop(name, None)
        if content is not None:
            members[name] = content
    manifest["members"] = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    change(manifest)
    return zipped([("manifest.json", json.dumps(manifest).encode()), *members.items()])


def table_of(whole: bytes, stem: str) -> pa.Table:
    return pq.read_table(io.BytesIO(members_of(whole)[f"{stem}.parquet"]))


def parquet(table: pa.Table | dict[str, Any], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), sink, **options)
    return sink.getvalue()


def changed(table: pa.Table, column: str, at: int, value: int) -> bytes:
    values = table[column].to_numpy().copy()
    values[at] = value
    return parquet(table.set_column(table.schema.get_field_index(column), column, pa.array(values)))
