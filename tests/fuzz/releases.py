"""Release files at random: a good one, spoilt in its manifest, domain, arrays or zip, mostly with its digests right."""

import json
import struct
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import domains
import numpy as np
from hypothesis import strategies as st

from dpcube import Release, Workload
from dpcube.cli.analyst.count import _attributes, _facts, _words
from dpcube.core import memory
from dpcube.core.errors import DpcubeError, MemoryLimitError, QueryError
from forge import (
    Change,
    array_of,
    arrays_of,
    file_of,
    forged,
    make_cuboids,
    make_list,
    make_release,
    make_release_of,
    make_selections,
    members_of,
    npy,
    zipped,
)

WHOLE = file_of(make_release())
CELLS = file_of(make_release_of(make_list()[1]))
LIST = file_of(make_release_of(*make_list()))
SELECTIONS = file_of(make_release_of(*make_selections()))
CUBOIDS = file_of(make_release_of(*make_cuboids()))
FILES = st.sampled_from([WHOLE, LIST, SELECTIONS, CUBOIDS])
MEMBERS = members_of(WHOLE)
CELLS_THAT_FIT = 2**17

EXTREMES = st.sampled_from([0, 1, -1, 2**31, 2**40, 2**40 + 1, 2**53, 2**62, 2**63 - 1, -(2**63)])
ODD = ["1/3", "1e9", f"1/{10**150}", f"{10**199}/1", "\x1b[2J", "\ud800", "x" * 5000, "\u0663"]
TEXTS = st.sampled_from(ODD) | st.text()
JSON: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | EXTREMES | st.integers() | st.just(10**4000) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


def nested(depth: int) -> object:
    """Return a list in a list in a list."""
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


Keys = tuple[str | int, ...]


def paths_of(value: object, path: Keys = ()) -> Iterator[Keys]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


PATHS = {
    whole: list(paths_of(json.loads(members_of(whole)["manifest.json"])))
    for whole in (WHOLE, LIST, SELECTIONS, CUBOIDS)
}


@st.composite
def manifests(draw: st.DrawFn) -> bytes:
    """Draw a file whose manifest is wrong in a few places."""

    whole = draw(FILES)

    def change(manifest: dict[str, Any]) -> None:
        for path in draw(st.lists(st.sampled_from(PATHS[whole]), min_size=1, max_size=3)):
            table: Any = manifest
            with suppress(LookupError, TypeError, AttributeError):  # an earlier change may have taken the place away
                for key in path[:-1]:
                    table = table[key]
                if draw(st.integers(0, 4)):
                    table[path[-1]] = draw(JSON | st.integers(1, 900).map(nested))
                else:
                    table.pop(path[-1])

    return forged(whole, change)


TYPES = [
    "|i1",
    "<i2",
    "<i4",
    "<i8",
    ">i4",
    "<u8",
    "|u1",
    "|b1",
    "<f8",
    "<f2",
    "<c16",
    "<U5",
    "|S3",
    "<M8[s]",
    "|V4",
    "|O",
]


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Draw a file one of whose arrays has other values, another shape or type, or declares what it has not."""
    whole = draw(FILES)
    stem = draw(st.sampled_from(arrays_of(whole)))
    array = array_of(whole, stem)
    for _ in range(draw(st.integers(0, 3))):
        if array.size:
            array.reshape(-1)[draw(st.integers(0, array.size - 1))] = draw(EXTREMES | st.integers(-3, 30))
    if array.ndim and draw(st.booleans()):
        axis = draw(st.integers(0, array.ndim - 1))
        rows = draw(st.lists(st.integers(0, array.shape[axis] - 1), max_size=40)) if array.shape[axis] else []
        array = np.take(array, rows, axis=axis)
    shaped = draw(st.sampled_from(["as it is"] * 4 + ["flat", "turned", "deeper", "ordered in columns"]))
    array = {"flat": array.reshape(-1), "turned": array.T, "deeper": array[None]}.get(shaped, array)
    with np.errstate(all="ignore"):  # extremes do not fit every type
        other: np.ndarray = array.astype(draw(st.sampled_from(TYPES[:4] * 3 + TYPES[:-1])))
    content = npy(np.asfortranarray(other) if shaped == "ordered in columns" else other)
    said: dict[str, object] = {"type": other.dtype.str, "shape": list(other.shape)}
    if draw(st.integers(0, 3)) == 0:
        said["type"] = draw(st.sampled_from(TYPES) | JSON)
    if draw(st.integers(0, 3)) == 0:
        said["shape"] = draw(st.lists(EXTREMES | st.integers(-1, 9), max_size=4) | JSON)
    if draw(st.integers(0, 3)) == 0:
        content = _with_other_header(draw, content)
    return forged(whole, lambda manifest: manifest["members"][f"{stem}.npy"].update(said), **{stem: content})


def _with_other_header(draw: st.DrawFn, content: bytes) -> bytes:
    """Return an array whose header is of another version, length or text."""
    start = 10 + int.from_bytes(content[8:10], "little")
    words = st.sampled_from(
        ["{}", "{'descr': '|O', 'fortran_order': False, 'shape': (), }", "(" * 3000, "0" * 9000, "\0"]
    )
    text = draw(words | st.text()).encode("utf-8", "surrogatepass")
    version = draw(st.sampled_from([b"\1\0", b"\2\0", b"\3\0", b"\xff\xff"]))
    size = draw(st.just(len(text)) | st.integers(0, 2**16 - 1)).to_bytes(4 if version > b"\2" else 2, "little")
    return b"\x93NUMPY" + version + size + text + content[start:]


@st.composite
def damaged_members(draw: st.DrawFn) -> bytes:
    """Draw a file with changed bytes in a member, whose digest is right again."""
    whole = draw(FILES)
    stem = draw(st.sampled_from(["domain", *arrays_of(whole)]))
    content = bytearray(members_of(whole)["domain.toml" if stem == "domain" else f"{stem}.npy"])
    for place in draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = draw(st.integers(0, 255))
    if draw(st.integers(0, 5)) == 0:
        del content[draw(st.integers(0, len(content))) :]
    return forged(whole, **{stem: bytes(content)})


@st.composite
def other_domains(draw: st.DrawFn) -> bytes:
    """Draw a file with another domain, and cells that fit it if it is small."""
    text = draw(domains.texts())
    replaced: dict[str, Any] = {"domain": text.encode("utf-8", "surrogatepass")}
    with suppress(DpcubeError):
        domain = domains.examine(text)
        if domain is not None and domain.size <= CELLS_THAT_FIT:
            counts = draw(st.lists(EXTREMES | st.integers(-9, 99), min_size=1, max_size=5))
            replaced["1.counts"] = np.resize(np.array(counts, np.int64), domain.shape)
            box = _whole_box(domain.shape)
            boxes = draw(st.booleans())
            replaced |= box if boxes else dict.fromkeys(box)
            return forged(WHOLE, _over(domain.shape, boxes=boxes), **replaced)
    return forged(WHOLE, **replaced)


def _over(shape: tuple[int, ...], *, boxes: bool) -> Change:
    """Return the change of a manifest that makes its cells those of another shape, beside its boxes or alone."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["measurements"][0]["axes"] = list(range(len(shape)))
        manifest["measurements"][1]["units"] = 2**30
        if not boxes:
            manifest["measurements"].pop()

    return change


def _whole_box(shape: tuple[int, ...]) -> dict[str, Any]:
    bounds = {"lower": [[0] for _ in shape], "upper": [[n] for n in shape]}
    boxes = {"above": [0], **bounds, "step": [0], "counts": [7], "units": [2**30]}
    return {f"2.{name}": np.array(array, np.int64) for name, array in boxes.items()}


@st.composite
def zips(draw: st.DrawFn) -> bytes:
    """Draw a file whose zip is wrong: members renamed, repeated, packed, or headers that lie."""
    members = list(members_of(draw(FILES)).items())
    for _ in range(draw(st.integers(0, 2))):
        name, content = draw(st.sampled_from(members))
        odd = st.sampled_from(["../x", "/etc/passwd", "a\0b", "x" * 60000, "domain.toml/", ".", "CON", "\\\\x\\y"])
        members.append((draw(st.just(name) | odd), content))
    members = draw(st.permutations(members)) if draw(st.booleans()) else members
    packing = draw(st.sampled_from([zipfile.ZIP_DEFLATED] * 4 + [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2]))
    whole = bytearray(zipped(members, compression=packing))
    headers = [at for at in range(len(whole) - 4) if whole[at : at + 2] == b"PK"]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(headers)) + draw(st.integers(4, 44))
        width, value = draw(st.sampled_from(["<H", "<I"])), draw(st.sampled_from([0, 1, 8, 9, 99, 2**15, 2**16 - 1]))
        value = value if width == "<H" else draw(st.sampled_from([value, 2**31, 2**32 - 1]))
        if place + 4 <= len(whole):
            struct.pack_into(width, whole, place, value)
    return bytes(whole) + draw(st.sampled_from([b"", b"junk", b"PK\x05\x06" + bytes(18)]))


def examine(content: bytes) -> Release | None:
    """Open a file; it is refused, or is a release of which everything can be asked, with finite answers."""
    with TemporaryDirectory() as place, patch.object(memory, "available_bytes", lambda: 16 * CELLS_THAT_FIT):
        path = Path(place) / "bad.dpcube"
        path.write_bytes(content)
        release, said = _opened(path)
        assert [found.name for found in Path(place).iterdir()] == ["bad.dpcube"]
    assert said.isprintable()
    assert len(said) < 600 + len(place)
    if release is not None:
        _ask(release)
    return release


def _opened(path: Path) -> tuple[Release | None, str]:
    try:
        return Release.open(path), ""
    except DpcubeError as error:
        return None, str(error)


def _ask(release: Release) -> None:
    assert repr(release)
    shown = json.dumps({**_facts(release), "attributes": _attributes(release)}, indent=1, allow_nan=False)
    assert shown.encode()
    assert all(_words(fact).encode() is not None for fact in _facts(release).values())
    shape = release.domain.shape
    whole = Workload(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))
    for name in ("auto", *release.estimates):
        with suppress(QueryError):
            answer = release.count(estimate=name)
            numbers = [value for name, value in asdict(answer).items() if name != "cut"]
            assert not np.isinf(numbers).any(), answer
            assert np.isfinite([answer.value, answer.confidence]).all(), answer
            assert np.isfinite(numbers).all() == (answer.interval != "unknown"), answer
            assert str(answer)
            assert np.isfinite(release.answer(whole, estimate=name).values).all()
            with suppress(MemoryLimitError):  # one tree opens whatever the cells: it need not be laid out
                assert np.isfinite(release.cells(name)).all()
