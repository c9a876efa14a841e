"""The `.dpcube` file: whatever is wrong with one, opening it gives one clear line and leaves nothing behind."""

import errno
import hashlib
import io
import json
import os
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube import Domain, Integer, Release
from dpcube.core import memory
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DpcubeError, MemoryLimitError, ReleaseFileError
from dpcube.measurements import Measurement
from dpcube.measurements import file as release_file
from dpcube.measurements.measurements import MEASUREMENT_KINDS
from forge import DOMAIN, Manifest, array_of, arrays_of, changed, forged, make_release, members_of, npy, zipped

RELEASE = make_release()
ARRAYS = ["1.counts", "2.above", "2.lower", "2.upper", "2.step", "2.counts", "2.units"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("release") / "whole.dpcube"
    RELEASE.save(path)
    return path.read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory in which a test must leave the file it was given and nothing else."""
    yield tmp_path
    assert {path.name for path in tmp_path.iterdir()} <= {"bad.dpcube"}


def opened(place: Path, content: bytes) -> Release:
    path = place / "bad.dpcube"
    path.write_bytes(content)
    return Release.open(path)


def refused(place: Path, content: bytes, *, kind: type[DpcubeError] = ReleaseFileError) -> str:
    """Open a bad file; return the one line that says what is wrong with it."""
    with pytest.raises(kind) as caught:
        opened(place, content)
    line = str(caught.value)
    assert line.isprintable(), line
    assert len(line) < 600
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    if kind is ReleaseFileError:
        assert line.startswith(f"cannot read {place / 'bad.dpcube'}: ")
    return line


def outcome(place: Path, content: bytes) -> Release | None:
    """Open a file that may or may not be good; None if it is refused as it should be."""
    with suppress(ReleaseFileError, MemoryLimitError):
        return opened(place, content)
    refused(place, content, kind=DpcubeError)
    return None


def assert_same_release(one: Release, other: Release) -> None:
    assert one.digest == other.digest
    assert one.domain == other.domain
    assert one.provenance == other.provenance


def test_the_forger_can_make_a_good_file(whole: bytes, place: Path) -> None:
    """Otherwise every refusal below would prove nothing."""
    assert_same_release(opened(place, forged(whole)), RELEASE)
    again = forged(whole, **{stem: array_of(whole, stem) for stem in ARRAYS})
    np.testing.assert_array_equal(opened(place, again).cells(), RELEASE.cells())


def test_numpy_reads_every_array_of_a_file(whole: bytes) -> None:
    """Without dpcube: a file is what `numpy.savez_compressed` writes, with two members of text."""
    with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
        assert [name for name in arrays.files if "." in name and name[0].isdigit()] == ARRAYS
        np.testing.assert_array_equal(arrays["1.counts"], RELEASE.cells("cells"))
        for stem in ARRAYS:
            assert npy(arrays[stem]) == members_of(whole)[f"{stem}.npy"]
        nodes = np.arange(len(arrays["2.above"])) - arrays["2.above"]
        boxes = RELEASE.transcript.boxes
        assert boxes is not None
        np.testing.assert_array_equal(nodes[1:], boxes.tree.parent[1:])
        np.testing.assert_array_equal(np.cumsum(arrays["2.step"]), boxes.node)
        np.testing.assert_array_equal(arrays["2.lower"].T, boxes.tree.lower)


# Damage: bytes lost or changed on the way.


def test_truncated_files_are_refused(whole: bytes, place: Path) -> None:
    for length in sorted({*range(0, len(whole), 23), *range(len(whole) - 90, len(whole))}):
        refused(place, whole[:length])


def test_files_without_their_beginning_are_refused(whole: bytes, place: Path) -> None:
    for start in range(1, len(whole), 97):
        refused(place, whole[start:])


@pytest.mark.slow
@pytest.mark.parametrize("flip", [0xFF, *(pytest.param(bit, marks=pytest.mark.slow) for bit in (0x01, 0x80))])
def test_a_changed_byte_is_refused_or_means_nothing(whole: bytes, place: Path, flip: int) -> None:
    """Zip keeps dates and attributes that nobody reads; a change anywhere else is found."""
    silent = 0
    central = whole.index(b"PK\x01\x02")
    for at in [*range(0, central, 11), *range(central, len(whole), 2)]:
        content = bytearray(whole)
        content[at] ^= flip
        release = outcome(place, bytes(content))
        if release is not None:
            silent += 1
            assert_same_release(release, RELEASE)
    assert silent < 250


@pytest.mark.parametrize("name", ["manifest.json", "domain.toml", "1.counts.npy", "2.lower.npy", "2.units.npy"])
def test_a_changed_byte_of_any_member_is_refused(whole: bytes, place: Path, name: str) -> None:
    """A few bits of what is packed mean nothing, such as those that fill its last byte."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        info = archive.getinfo(name)
    start, silent = info.header_offset + 30 + len(name), 0
    for at in range(start, start + info.compress_size, max(1, info.compress_size // 60)):
        content = bytearray(whole)
        content[at] ^= 0x20
        release = outcome(place, bytes(content))
        if release is not None:
            silent += 1
            assert_same_release(release, RELEASE)
    assert silent < 4


def test_a_changed_count_is_refused_even_if_the_zip_is_whole(whole: bytes, place: Path) -> None:
    members = members_of(whole)
    members["1.counts.npy"] = members["1.counts.npy"][:-1] + b"\1"
    assert "1.counts.npy does not match its manifest" in refused(place, zipped(list(members.items())))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 5000,
        b"PK",
        b"PK\x05\x06" + b"\0" * 18,
        b"age,sex\n31,F\n",
        b"\x80\x04]\x94.",
        bytes(range(1, 256)) * 16,
    ],
    ids=["empty", "zeros", "PK", "empty zip", "csv", "pickle", "bytes"],
)
def test_what_is_no_release_is_refused(content: bytes, place: Path) -> None:
    refused(place, content)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseFileError, match="No such file"):
        Release.open(tmp_path / "nothing.dpcube")
    with pytest.raises(ReleaseFileError, match="directory"):
        Release.open(tmp_path)
    with pytest.raises(ReleaseFileError):
        Release.open("a\0b.dpcube")


# Hostile or foreign zips.


def test_members_must_be_those_listed(whole: bytes, place: Path) -> None:
    members = members_of(whole)
    for name in members:
        refused(place, zipped([item for item in members.items() if item[0] != name]))
    for extra in ("extra.txt", "../../etc/cron.d/job", "/etc/passwd", "1.counts.npy/", "1.COUNTS.NPY", "a" * 60_000):
        refused(place, zipped([*members.items(), (extra, b"x")]))


@pytest.mark.parametrize("extra", ["extra.txt", "../../etc/cron.d/job", "/etc/passwd", "3.counts.npy"])
def test_other_members_are_refused_even_if_listed(whole: bytes, place: Path, extra: str) -> None:
    members = members_of(whole)
    manifest = json.loads(members.pop("manifest.json"))
    manifest["members"][extra] = {"sha256": hashlib.sha256(b"x").hexdigest(), "type": "|i1", "shape": [1]}
    content = [("manifest.json", json.dumps(manifest).encode()), *members.items(), (extra, b"x")]
    assert "members" in refused(place, zipped(content))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["manifest.json", "domain.toml", "1.counts.npy"])
def test_duplicate_members_are_refused(whole: bytes, place: Path, name: str) -> None:
    members = members_of(whole)
    refused(place, zipped([(name, members[name]), *members.items()]))
    refused(place, zipped([*members.items(), (name, b"{}")]))


@pytest.mark.parametrize(
    "renamed", ["../domain.toml", "/domain.toml", "domain.toml\0.txt", "DOMAIN.TOML", "x/domain.toml"]
)
def test_members_of_other_names_are_refused_even_if_listed(whole: bytes, place: Path, renamed: str) -> None:
    members = members_of(whole)
    manifest = json.loads(members.pop("manifest.json"))
    members[renamed] = members.pop("domain.toml")
    manifest["members"][renamed] = manifest["members"].pop("domain.toml")
    refused(place, zipped([("manifest.json", json.dumps(manifest).encode()), *members.items()]))
    assert not (place.parent / "domain.toml").exists()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_packed_in_another_way_are_refused(whole: bytes, place: Path, compression: int) -> None:
    line = refused(place, zipped(list(members_of(whole).items()), compression=compression))
    assert "packed in another way" in line


@pytest.mark.parametrize("name", ["manifest.json", "domain.toml", "1.counts.npy", "2.units.npy"])
def test_a_bomb_of_zeros_is_refused_unopened(
    whole: bytes, place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {name: members_of(whole)[name] for name in ("manifest.json", "domain.toml")}
    bomb = zipped(list((members_of(whole) | {name: b"\0" * 50_000_000}).items()))
    assert len(bomb) < 60_000
    opening = zipfile.ZipFile.open

    def small(archive: zipfile.ZipFile, member: zipfile.ZipInfo, *arguments: Any) -> Any:
        assert member.filename in members, "an array was unpacked"
        assert member.filename != name, "the bomb was unpacked"
        return opening(archive, member, *arguments)

    monkeypatch.setattr(zipfile.ZipFile, "open", small)
    refused(place, bomb)


def lying(whole: bytes, name: str, size: int, content: bytes) -> bytes:
    """A file one of whose members is packed zeros, and the zip says that it has another size."""
    packed = bytearray(zipped(list((members_of(whole) | {name: content}).items())))
    with zipfile.ZipFile(io.BytesIO(bytes(packed))) as archive:
        local = archive.getinfo(name).header_offset
    central = packed.index(b"PK\x01\x02")
    while packed[central + 46 : central + 46 + len(name)] != name.encode():
        central = packed.index(b"PK\x01\x02", central + 4)
    struct.pack_into("<I", packed, local + 22, size)
    struct.pack_into("<I", packed, central + 24, size)
    return bytes(packed)


@pytest.mark.parametrize("name", ["manifest.json", "domain.toml", "1.counts.npy"])
def test_a_member_that_unpacks_to_more_than_its_zip_says_is_unpacked_no_further(
    whole: bytes, place: Path, name: str
) -> None:
    content = lying(whole, name, len(members_of(whole)[name]), b"\0" * 200_000_000)
    assert len(content) < 250_000
    tracemalloc.start()
    try:
        refused(place, content)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_member_that_unpacks_to_less_than_its_zip_says_is_refused(whole: bytes, place: Path) -> None:
    good = members_of(whole)["1.counts.npy"]
    refused(place, lying(whole, "1.counts.npy", len(good), good[:-1]))


def test_a_manifest_of_megabytes_is_refused(whole: bytes, place: Path) -> None:
    line = refused(place, forged(whole, lambda manifest: manifest.update(padding="x" * 2**20)))
    assert "manifest.json is too large" in line


def test_encrypted_members_and_unknown_zip_versions_are_refused(whole: bytes, place: Path) -> None:
    central = whole.index(b"PK\x01\x02")
    for offset, value in ((6, 99), (8, 1), (8, 0x20), (8, 0x40), (10, 77)):  # version needed, flags, method
        content = bytearray(whole)
        content[central + offset : central + offset + 2] = struct.pack("<H", value)
        refused(place, bytes(content))


# Manifests that are not what they should be.


def paths_of(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if path != ("strategy", "parameters"):
                yield (*path, key)
                yield from paths_of(inner, (*path, key))


def at(manifest: Manifest, path: tuple[str, ...]) -> Manifest:
    for key in path[:-1]:
        manifest = manifest[key]
    return manifest


UNREAD = {
    ("privacy", "neighbours"),
    ("privacy", "spent"),
    ("privacy", "spent", "cells"),
    ("privacy", "spent", "boxes"),
}
FAIR: dict[tuple[str, ...], Any] = {
    ("strategy", "name"): str,
    ("strategy", "parameters"): dict,
    ("library",): str,
    ("private",): bool,
    ("privacy", "ledger"): bool,
    ("privacy", "unit"): str | None,
    ("privacy", "max_rows"): int,
    ("privacy", "period"): str | None,
    ("privacy", "reading"): str | None,
    ("plan",): str | None,
    ("groups",): list,
}


def test_every_key_of_the_manifest_is_needed(whole: bytes, place: Path) -> None:
    manifest = json.loads(members_of(whole)["manifest.json"])
    needed = [path for path in paths_of(manifest) if path not in UNREAD]
    assert len(needed) > 15
    for path in needed:
        refused(place, forged(whole, lambda manifest, path=path: at(manifest, path).pop(path[-1])))  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [None, [], {}, "x", -1, 0, 1.5, True, "1/0", "-1/2", "1e9999", "1e999999999", 10**30])
def test_every_key_of_the_manifest_is_checked(whole: bytes, place: Path, wrong: object) -> None:
    """A wrong value is refused, or it is a value that could have been written."""
    manifest = json.loads(members_of(whole)["manifest.json"])
    began = time.process_time()
    for path in paths_of(manifest):
        if path in UNREAD:
            continue
        content = forged(whole, lambda manifest, path=path: at(manifest, path).update({path[-1]: wrong}))  # type: ignore[misc]
        release = outcome(place, content)
        if release is not None:
            assert isinstance(wrong, FAIR[path])
            assert len(release.digest) == 64  # it can be written again
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "manifest",
    [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe{}", b"[" * 500_000, b'{"format": 1}', b'{"format": Infinity}'],
    ids=lambda content: repr(content[:12]),
)
def test_manifests_that_are_none_are_refused(whole: bytes, place: Path, manifest: bytes) -> None:
    members = members_of(whole) | {"manifest.json": manifest}
    refused(place, zipped(list(members.items())))


def test_infinities_in_a_manifest_are_refused(whole: bytes, place: Path) -> None:
    for value in (float("inf"), float("nan")):
        refused(place, forged(whole, lambda manifest, value=value: manifest["noise"].update(epsilon_per_unit=value)))  # type: ignore[misc]


@pytest.mark.parametrize("version", [2, 99, 10**9])
def test_a_future_format_names_the_remedy(whole: bytes, place: Path, version: int) -> None:
    line = refused(place, forged(whole, lambda manifest: manifest.update(format=version)))
    assert f"its format is {version}" in line
    assert "install a newer dpcube" in line


def test_a_future_format_is_recognised_before_anything_else_is_looked_at(place: Path) -> None:
    future = zipped([("manifest.json", b'{"format": 2, "anything": []}'), ("new.bin", b"?")])
    assert "install a newer dpcube" in refused(place, future)


# Arrays that are not what they should be.

FORM, DECLARED = "does not have the type and the shape it should", "does not match its manifest"


def test_the_arrays_are_those_of_this_release(whole: bytes) -> None:
    assert arrays_of(whole) == ARRAYS


@pytest.mark.parametrize("stem", ARRAYS)
def test_arrays_of_other_types_are_refused(whole: bytes, place: Path, stem: str) -> None:
    array = array_of(whole, stem)
    for type_ in ("<f8", "<u8", "|u1", "|b1", ">i8", ">i2", "<m8[s]", "<U3", "|S8", "<c16", "|V8"):
        assert FORM in refused(place, forged(whole, **{stem: np.abs(array).astype(type_)}))
    assert FORM in refused(place, declared(whole, stem, type="|O"))


@pytest.mark.parametrize("stem", ARRAYS)
def test_any_type_that_holds_the_numbers_is_read_alike(whole: bytes, place: Path, stem: str) -> None:
    for type_ in ("<i8", "<i4") if array_of(whole, stem).max() < 2**31 else ("<i8",):
        release = opened(place, forged(whole, **{stem: array_of(whole, stem).astype(type_)}))
        assert_same_release(release, RELEASE)


def declared(whole: bytes, stem: str, **facts: object) -> bytes:
    """A file whose manifest declares something else of an array."""
    return forged(whole, lambda manifest: manifest["members"][f"{stem}.npy"].update(facts))


@pytest.mark.parametrize("stem", ARRAYS)
@pytest.mark.parametrize(
    "shape",
    [[], [-1], [0], [2**63], [10**30], [True], ["4"], [4.0], None, {}, 5, [[5]], [5] * 100, [1] * 5000],
    ids=repr,
)
def test_shapes_that_cannot_be_are_refused(whole: bytes, place: Path, stem: str, shape: object) -> None:
    refused(place, declared(whole, stem, shape=shape), kind=DpcubeError)


@pytest.mark.parametrize("stem", ARRAYS)
def test_every_fact_of_an_array_is_needed_and_checked(whole: bytes, place: Path, stem: str) -> None:
    good = json.loads(members_of(whole)["manifest.json"])["members"][f"{stem}.npy"]
    for key, fair in good.items():
        refused(place, forged(whole, lambda m, key=key: m["members"][f"{stem}.npy"].pop(key)))  # type: ignore[misc]
        wrong: list[object] = [None, {}, 0, True, "x", "|i1", "<i2", "<i4", "<i8", [0] * 9, [*good["shape"], 1]]
        for value in wrong:
            if value != fair:
                refused(place, declared(whole, stem, **{key: value}))


def test_a_shape_may_be_declared_right_and_a_header_lie(whole: bytes, place: Path) -> None:
    """Whatever an array says of itself is held against what its manifest declares, byte for byte."""
    good = members_of(whole)["1.counts.npy"]
    for old, new in (
        (b"(5, 4)", b"(4, 5)"),
        (b"(5, 4)", b"(20,) "),
        (b"(5, 4)", b"(5,4) "),
        (b"False", b"True "),
        (b"'|i1'", b"'|u1'"),
        (b"'|i1'", b"'|O8'"),
        (b"\x01\x00", b"\x02\x00"),
        (b"{", b"["),
        (b"NUMPY", b"NUMPX"),
    ):
        assert good.count(old) == 1
        assert DECLARED in refused(place, forged(whole, **{"1.counts": good.replace(old, new)}))


def test_no_object_is_ever_unpickled(whole: bytes, place: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("unpickled",))

    sink = io.BytesIO()
    np.save(sink, np.array([[Bomb()] * 4] * 5, object), allow_pickle=True)
    refused(place, forged(whole, **{"1.counts": sink.getvalue()}))
    for type_ in ("|O", "O", "object"):
        assert FORM in refused(place, forged(whole, retyped(type_), **{"1.counts": sink.getvalue()}))


def retyped(type_: str) -> Any:
    return lambda manifest: manifest["members"]["1.counts.npy"].update(type=type_)


def test_too_few_and_too_many_cells_are_refused(whole: bytes, place: Path) -> None:
    counts = array_of(whole, "1.counts")
    for wrong in (
        counts[:0],
        counts[:-1],
        counts[:, :-1],
        counts.T,
        counts.reshape(-1),
        np.concatenate([counts, counts]),
    ):
        assert FORM in refused(place, forged(whole, **{"1.counts": wrong}))


@pytest.mark.parametrize("stem", ARRAYS)
def test_what_is_no_array_is_refused(whole: bytes, place: Path, stem: str) -> None:
    good = members_of(whole)[f"{stem}.npy"]
    for content in (b"", b"\x93NUMPY", good[:-1], good + b"\0", good[:100], good[::-1], b"x" * len(good), b"PAR1" * 40):
        assert DECLARED in refused(place, forged(whole, **{stem: content})) or "too large" in refused(
            place, forged(whole, **{stem: content})
        )


def test_damaged_arrays_are_refused_even_if_their_digest_is_right(whole: bytes, place: Path) -> None:
    for stem in ARRAYS:
        good = members_of(whole)[f"{stem}.npy"]
        for position in range(0, len(good), 7):
            content = bytearray(good)
            content[position] ^= 0xFF
            release = outcome(place, forged(whole, **{stem: bytes(content)}))
            assert release is None or (len(release.digest) == 64 and position >= 128)


@pytest.mark.parametrize("units", [0, -1, -(2**63), BUDGET_UNITS + 1, 2**62])
def test_units_that_cannot_be_are_refused(whole: bytes, place: Path, units: int) -> None:
    line = refused(place, forged(whole, **{"2.units": changed(array_of(whole, "2.units"), 2, units)}))
    assert "units" in line
    for number in (0, 1):
        refused(place, forged(whole, lambda m, n=number: m["measurements"][n].update(units=units)))  # type: ignore[misc]


@pytest.mark.parametrize("node", [-1, 10**6, -(2**63), 2**63 - 1])
def test_boxes_that_are_no_nodes_are_refused(whole: bytes, place: Path, node: int) -> None:
    assert "nodes" in refused(place, forged(whole, **{"2.step": changed(array_of(whole, "2.step"), 0, node)}))


@pytest.mark.parametrize(
    ("name", "place_in_it", "value"),
    [
        ("above", 0, 1),
        ("above", 0, -1),
        ("above", 1, 0),
        ("above", 1, 2),
        ("above", 1, -4),
        ("above", 2, -(2**63)),
        ("above", 2, 2**63 - 1),
        ("lower", 0, 1),
        ("upper", 1, 2**62),
        ("lower", 1, -3),
        ("upper", 2, 0),
        ("upper", 0, 4),
    ],
)
def test_trees_that_do_not_partition_are_refused(
    whole: bytes, place: Path, name: str, place_in_it: int, value: int
) -> None:
    array = array_of(whole, f"2.{name}")
    assert array.shape[-1] > 3
    refused(place, forged(whole, **{f"2.{name}": changed(array, place_in_it, value)}))


def boxes_of(nodes: dict[str, Any], *, node: list[int], units: int) -> dict[str, Any]:
    """The arrays of boxes in place of those of the release."""
    counted = {"step": np.diff(node, prepend=0), "counts": [3] * len(node), "units": [units] * len(node)}
    return {f"2.{name}": array for name, array in (nodes | counted).items()}


def test_a_tree_whose_leaves_overlap_is_refused(whole: bytes, place: Path) -> None:
    """Children of the right number of cells that lie on one another."""
    tree = {"above": [0, 1, 2], "lower": [[0, 0, 0], [0, 0, 0]], "upper": [[5, 5, 5], [4, 2, 2]]}
    line = refused(place, forged(whole, cost(1, 5), **boxes_of(tree, node=[1], units=5)))
    assert "overlap" in line


def cost(number: int, units: int) -> Any:
    return lambda manifest: manifest["measurements"][number].update(units=units)


def test_the_forged_tree_above_is_good_but_for_its_leaves(whole: bytes, place: Path) -> None:
    tree = {"above": [0, 1, 2], "lower": [[0, 0, 0], [0, 0, 2]], "upper": [[5, 5, 5], [4, 2, 4]]}
    assert opened(place, forged(whole, cost(1, 2**30), **boxes_of(tree, node=[1], units=2**30))).estimates


def test_an_empty_tree_is_refused(whole: bytes, place: Path) -> None:
    empty = {"above": np.empty(0, np.int64), "lower": np.empty((2, 0), np.int64), "upper": np.empty((2, 0), np.int64)}
    assert FORM in refused(place, forged(whole, **boxes_of(empty, node=[0], units=5)))


@pytest.mark.parametrize("stem", ["domain", *ARRAYS])
def test_a_missing_array_is_refused(whole: bytes, place: Path, stem: str) -> None:
    refused(place, forged(whole, **{stem: None}))


def test_a_file_of_no_arrays_is_refused(whole: bytes, place: Path) -> None:
    refused(place, forged(whole, **dict.fromkeys(ARRAYS)))


# Declarations far larger than the file: refused from what is declared, before anything is unpacked.


def huge_domain(cells: int) -> bytes:
    return Domain((Integer(name="a", min=0, max=cells - 1), Integer(name="b", min=0, max=3))).dumps().encode()


@pytest.mark.parametrize("cells", [2**31, 2**31 - 1])
def test_huge_declared_shapes_are_refused_at_once(whole: bytes, place: Path, cells: int) -> None:
    began = time.process_time()
    line = refused(place, forged(whole, domain=huge_domain(cells)), kind=DpcubeError)
    assert time.process_time() - began < 1
    assert f"{4 * cells:,} cells" in line


def test_a_large_shape_is_not_allocated_for_a_small_table(
    whole: bytes, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is unknown or vast, the number of rows still tells."""
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    for cells in (10**7, 2**31):
        tracemalloc.start()
        began = time.process_time()
        refused(place, forged(whole, domain=huge_domain(cells)))
        assert time.process_time() - began < 1
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20
        tracemalloc.stop()


@pytest.mark.parametrize("stem", ARRAYS)
def test_arrays_of_too_many_numbers_are_refused_unread(
    whole: bytes, place: Path, stem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal numbers pack into next to nothing: three million take 3 kB here, and more would hardly take more."""
    content = forged(whole, **{stem: np.zeros((*array_of(whole, stem).shape[:-1], 3_000_000), np.int8)})
    assert len(content) < 100_000
    opening = zipfile.ZipFile.open

    def unless_it(archive: zipfile.ZipFile, member: zipfile.ZipInfo, *arguments: Any) -> Any:
        assert member.filename != f"{stem}.npy", "an array was read before its shape was checked"
        return opening(archive, member, *arguments)

    monkeypatch.setattr(zipfile.ZipFile, "open", unless_it)
    assert FORM in refused(place, content)


def test_too_little_memory_names_the_remedy(whole: bytes, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    line = refused(place, whole, kind=MemoryLimitError)
    assert "20 cells" in line
    assert "larger machine" in line


# Domains that are not what they should be.


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"not toml [",
        b"[" * 100_000,
        b"format = 2",
        b'[[attribute]]\nname = "a"\ntype = "integer"\nmin = 0\nmax = -5\n',
        b'[[attribute]]\nname = "a\\nb\\u001b[31m"\ntype = "bogus"\n',
        b'[[attribute]]\nname = "a\\nb\\u001b[31m"\ntype = "integer"\nmin = 5\nmax = 0\n',
        b'[[attribute]]\nname = "a"\ntype = "category"\nvalues = ["' + b"x" * 5000 + b'", 3]\n',
        b'[[attribute]]\nname = "' + b"x" * 5000 + b'"\ntype = "bogus"\n',
        b'[[attribute]]\nname = "a"\ntype = "integer"\nmin = 0\nmax = 19\n',
    ],
    ids=range(11),
)
def test_domains_that_cannot_be_are_refused_in_one_line(whole: bytes, place: Path, text: bytes) -> None:
    refused(place, forged(whole, domain=text))


def test_a_domain_cannot_have_files_of_the_reader_read(
    whole: bytes, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A release that names a list of values on the analyst's disk must not be given it."""
    secret = tmp_path_factory.mktemp("home") / "secret.txt"
    secret.write_text("\n".join(f"line {i}" for i in range(20)))
    text = f'[[attribute]]\nname = "a"\ntype = "category"\nvalues_from = "{secret}"\n'
    content = forged(whole, domain=text.encode())
    assert "line 1" not in refused(place, content)


# Writing.


def test_a_release_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "a.dpcube"
    path.write_bytes(b"precious")
    with pytest.raises(ReleaseFileError, match="never overwrites"):
        RELEASE.save(path)
    with pytest.raises(ReleaseFileError, match="never overwrites"):
        release_file.check_writable(path, needed=0)
    assert path.read_bytes() == b"precious"
    assert [found.name for found in tmp_path.iterdir()] == ["a.dpcube"]


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "a.dpcube"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReleaseFileError):
        RELEASE.save(link)
    assert not (tmp_path / "elsewhere").exists()


def test_of_many_savers_one_wins_and_its_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.dpcube"
    releases = [make_release(seed=seed) for seed in range(8)]

    def save(release: Release) -> str | None:
        try:
            return release.save(path)
        except ReleaseFileError:
            return None

    with ThreadPoolExecutor(8) as pool:
        saved = [digest for digest in pool.map(save, releases) if digest]
    assert len(saved) == 1
    assert Release.open(path).digest == saved[0]
    assert [found.name for found in tmp_path.iterdir()] == ["a.dpcube"]


@pytest.mark.parametrize(
    "claim", [{"epsilon": "1/3"}, {"max_rows": 2}, {"epsilon": "499999/1000000"}], ids=["epsilon", "rows", "a little"]
)
def test_a_file_that_cost_more_than_it_claims_is_refused(whole: bytes, place: Path, claim: dict[str, object]) -> None:
    assert "costs more than the epsilon" in refused(place, forged(whole, lambda m: m["privacy"].update(claim)))


def test_a_file_system_without_hard_links_holds_releases_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "a.dpcube"
    assert RELEASE.save(path) == Release.open(path).digest
    with pytest.raises(ReleaseFileError, match="never overwrites"):
        RELEASE.save(path)
    assert [found.name for found in tmp_path.iterdir()] == ["a.dpcube"]


@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_a_failure_leaves_no_part_behind(tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(ReleaseFileError, match="No space left on device"):
        RELEASE.save(tmp_path / "a.dpcube")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_part_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        RELEASE.save(tmp_path / "a.dpcube")
    assert list(tmp_path.iterdir()) == []


def test_until_it_is_whole_a_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "a.dpcube", []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.exists()))
    RELEASE.save(path)
    assert seen == [False, True]  # the file before it has its name, the directory after
    assert Release.open(path).digest == RELEASE.digest


def test_a_part_left_by_a_crash_is_not_written_through(tmp_path: Path) -> None:
    """A crash between the link and the removal of the part leaves two names of one file."""
    path = tmp_path / "a.dpcube"
    RELEASE.save(path)
    for name in (f".a.dpcube.{os.getpid()}.part", ".a.dpcube.part"):
        os.link(path, tmp_path / name)
    with pytest.raises(ReleaseFileError, match="never overwrites"):
        make_release(seed=2).save(path)
    assert Release.open(path).digest == RELEASE.digest


@pytest.mark.parametrize("name", ["r.csv", "r", "r.dpcube.csv", "r.DPCUBE"])
def test_a_release_has_the_ending_of_releases(tmp_path: Path, name: str) -> None:
    """Found before anything is spent: what should be a table is written by `dpcube export`."""
    with pytest.raises(ReleaseFileError, match=r"does not end in it; name it r.*\.dpcube, .* dpcube export"):
        release_file.check_writable(tmp_path / name, needed=0)


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (
        tmp_path / "no" / "a.dpcube",
        tmp_path / "file" / "a.dpcube",
        tmp_path / ("x" * 300),
        tmp_path / "a\0b",
    ):
        with pytest.raises(ReleaseFileError, match="cannot write") as caught:
            RELEASE.save(path)
        assert "\n" not in str(caught.value)
    for path in (Path(), Path("/"), tmp_path):
        with pytest.raises(ReleaseFileError):
            RELEASE.save(path)
    with pytest.raises(ReleaseFileError, match="not a directory that can be written to"):
        release_file.check_writable(tmp_path / "no" / "a.dpcube", needed=0)
    release_file.check_writable(tmp_path / "new.dpcube", needed=1)
    with pytest.raises(ReleaseFileError, match="less free"):
        release_file.check_writable(tmp_path / "new.dpcube", needed=2**60)
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_the_longest_name_of_a_file_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 248 + ".dpcube")
    RELEASE.save(path)
    assert Release.open(path).digest == RELEASE.digest


def test_files_and_digests_are_reproducible(tmp_path: Path, whole: bytes) -> None:
    digest = make_release().save(tmp_path / "again.dpcube")
    assert (tmp_path / "again.dpcube").read_bytes() == whole
    assert digest == RELEASE.digest
    assert make_release(seed=2).digest != digest


def test_a_file_describes_itself(whole: bytes) -> None:
    members = members_of(whole)
    manifest = json.loads(members["manifest.json"])
    assert set(members) == {"manifest.json", "domain.toml", *(f"{stem}.npy" for stem in ARRAYS)}
    assert manifest["format"] == 1
    assert manifest["private"] is False
    assert manifest["privacy"]["epsilon"] == "1/2"
    assert manifest["privacy"]["spent"] == {"cells": "1/4", "boxes": "1/4"}
    assert Fraction(manifest["noise"]["epsilon_per_unit"]) == Fraction(1, 2 * BUDGET_UNITS)
    assert Domain.loads(members["domain.toml"].decode()) == DOMAIN
    assert array_of(whole, "1.counts").tolist() == RELEASE.cells("cells").astype(int).tolist()


def test_the_digest_is_that_of_the_release_whatever_packed_it(whole: bytes, place: Path) -> None:
    """Another version of zlib writes other bytes; the release that a ledger names must stay recognisable."""
    content = forged(whole, **{"1.counts": array_of(whole, "1.counts")})  # in eight bytes a number
    assert content != whole
    assert opened(place, content).digest == RELEASE.digest


def test_the_digest_depends_on_all_that_is_told(whole: bytes, place: Path) -> None:
    def but(stem: str, at: int, value: int) -> dict[str, Any]:
        return {stem: changed(array_of(whole, stem), at, value)}

    def dearer(manifest: Manifest) -> None:
        manifest["privacy"]["epsilon"] = "3/4"
        manifest["measurements"][1]["units"] *= 2

    node = changed(np.cumsum(array_of(whole, "2.step")), 0, 0)
    others = [
        forged(whole, **but("1.counts", 7, 12345)),
        forged(whole, **but("2.counts", 1, 12345)),
        forged(whole, **but("2.units", 1, 12345)),
        forged(whole, dearer, **{"2.step": np.diff(node, prepend=0)}),
        forged(whole, domain=DOMAIN.dumps().replace("age", "Age").encode()),
        forged(whole, lambda manifest: manifest["noise"].update(epsilon_per_unit=f"1/{3 * BUDGET_UNITS}")),
        forged(whole, cost(0, 12345)),
        forged(whole, lambda manifest: manifest.update(plan="another")),
        forged(whole, lambda manifest: manifest.update(layout="grid")),
        forged(whole, lambda manifest: manifest["privacy"].update(epsilon="2/3")),
        forged(whole, lambda manifest: manifest["privacy"].update(max_rows=2, epsilon="1")),
        forged(whole, lambda manifest: manifest["privacy"].update(unit="person")),
        forged(whole, lambda manifest: manifest["privacy"].update(period="day 1")),
        forged(whole, lambda manifest: manifest["privacy"].update(ledger=True)),
        forged(whole, lambda manifest: manifest["strategy"].update(name="other")),
        forged(whole, lambda manifest: manifest["strategy"]["parameters"].update(share="1/3")),
        forged(whole, lambda manifest: manifest.update(private=True)),
        forged(whole, lambda manifest: manifest.update(library="another")),
    ]
    digests = {opened(place, content).digest for content in others}
    assert len(digests) == len(others)
    assert RELEASE.digest not in digests


@pytest.mark.parametrize(
    ("kind", "facts", "needed"),
    [
        ("marginal", {"grouped": False, "axes": [0, 1, 2]}, True),
        ("marginal", {"grouped": False, "axes": [0, 2]}, False),
        ("marginal", {"grouped": True, "axes": [0, 1, 2]}, False),
        ("boxes", {}, True),
        ("selection", {"boxes": True}, True),
        ("selection", {"boxes": False}, False),
    ],
)
def test_a_measurement_states_whether_it_needs_every_cell(kind: str, facts: dict[str, object], needed: object) -> None:
    assert MEASUREMENT_KINDS[kind].lays_out(facts, 3) is needed
    assert Measurement.lays_out(facts, 3)  # of a new kind, until it says
