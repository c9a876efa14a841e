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
from numpy.typing import NDArray

from dpcube import Category, Domain, Integer, Release
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import BestSplit, MedianCuts, TableDistances
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.gate import Gate
from dpcube.measurements import BoxCounts, CellGroups, Marginal, Measurement, Provenance, Selection, Transcript
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
    """Marginals, cells and boxes, some twice, with made-up counts; together they cost 15/16 where they cost most."""
    return (
        Marginal((1,), np.array([40, -2, 30, 5]), EIGHTH),
        Marginal.from_cells(np.arange(20).reshape(5, 4) ** 2 % 37, 2 * EIGHTH),
        halves(0, 2, units=(EIGHTH, 2 * EIGHTH)),
        Marginal((), np.array(73), EIGHTH),
        halves(1, 1, units=(EIGHTH // 2, EIGHTH)),
        Marginal((0,), np.arange(5) * 300, EIGHTH // 2),
    )


def make_cuboids() -> tuple[Measurement, ...]:
    """A wide release of the small cube: a table over each attribute, and two of groups, one of them selected."""
    groups = CellGroups((np.array([0, 0, 1, 2, 2]), np.array([0, 1, 2, 0])))
    return (
        Marginal((0,), np.array([30, 20, -5, 40, 10]), EIGHTH),
        Marginal((1,), np.array([40, 30, 20, 5]), EIGHTH),
        selection(),
        Marginal((0, 1), np.array([[20, 10, 9], [1, -3, 2], [22, 18, 9]]), EIGHTH, groups),
        Marginal((1,), np.array([41, 33, 18]), EIGHTH, groups),
    )


def selection() -> Selection:
    """The selection of a table over both attributes, among three."""
    told = np.array([3]), np.array([2]), np.array([[0, 1]])
    return Selection(TableDistances.score, *told, EIGHTH // 2, 2)


def make_selections() -> tuple[Measurement, ...]:
    """Selections by several scores, made up, and the boxes they might have led to; together they cost 15/16."""
    two = np.ones(2, np.int64)
    whole = Boxes(DOMAIN.shape, np.array([[0, 0]]), np.array([[5, 4]]))
    parts = Boxes(DOMAIN.shape, np.array([[0, 0], [2, 0]]), np.array([[2, 4], [5, 3]]))
    tables = TableDistances(DOMAIN.shape, ((0,), (0, 1)), (np.arange(5), -np.arange(20).reshape(5, 4)), 3 * two, -two)
    splits = BestSplit(parts, 1, (0,), "information", 1000)
    return (
        Selection.among(MedianCuts(parts, np.array([1, 0])), np.array([2, 1]), [[1], [0]], EIGHTH),
        Selection.among(MedianCuts(whole, np.array([1])), np.array([2]), [[1]], EIGHTH),
        Selection.among(splits, np.array([0, 0]), [[0], [0]], EIGHTH),
        Selection.among(tables, np.array([1]), [[0, 1]], 2 * EIGHTH),
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


def zipped(members: list[tuple[str, bytes]], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", compression) as archive, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name")
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return sink.getvalue()


def forged(
    whole: bytes, change: Change = lambda _: None, /, **replaced: bytes | NDArray[Any] | list[Any] | None
) -> bytes:
    """Change the manifest or replace members (`**{"1.counts": ...}`), with every digest right again.

    Of an array the declared type and shape are right too; bytes are taken for an array that is declared as before.
    """
    members = members_of(whole)
    manifest = json.loads(members.pop("manifest.json"))
    for stem, content in replaced.items():
        name = f"{stem}.toml" if stem == "domain" else f"{stem}.npy"
        if content is None:
            members.pop(name, None)
            manifest["members"].pop(name, None)
        elif isinstance(content, bytes):
            members[name] = content
        else:
            array = np.asarray(content)
            members[name] = npy(array)
            manifest["members"][name] = {"type": array.dtype.str, "shape": list(array.shape)}
    for name, content in members.items():
        entry = manifest["members"].setdefault(name, {})
        entry["sha256"] = hashlib.sha256(content).hexdigest()
    change(manifest)
    return zipped([("manifest.json", json.dumps(manifest).encode()), *members.items()])


def arrays_of(whole: bytes) -> list[str]:
    """The names of a file's arrays."""
    return [name.removesuffix(".npy") for name in members_of(whole) if name.endswith(".npy")]


def array_of(whole: bytes, stem: str) -> NDArray[np.int64]:
    """An array of a file, as NumPy reads it."""
    found: NDArray[Any] = np.load(io.BytesIO(members_of(whole)[f"{stem}.npy"]), allow_pickle=False)
    return found.astype(np.int64)


def npy(array: NDArray[Any]) -> bytes:
    """An array as NumPy writes it."""
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def changed(array: NDArray[np.int64], at: int, value: int) -> NDArray[np.int64]:
    """An array with another number at a place, counted along its last axis first."""
    other = array.copy()
    other.reshape(-1)[at] = value
    return other
