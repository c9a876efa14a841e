"""Release files at random: a good one, spoilt in its manifest, domain, tables or zip, mostly with its digests right."""

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
import pyarrow as pa
from hypothesis import strategies as st

from dpcube import Release, Workload
from dpcube.cli.analyst.count import _attributes, _facts, _words
from dpcube.core import memory
from dpcube.core.errors import DpcubeError, MemoryLimitError, QueryError
from forge import (
    file_of,
    forged,
    make_choices,
    make_cuboids,
    make_list,
    make_release,
    make_release_of,
    members_of,
    parquet,
    table_of,
    zipped,
)

WHOLE = file_of(make_release())
LIST = file_of(make_release_of(*make_list()))
CHOICES = file_of(make_release_of(*make_choices()))
CUBOIDS = file_of(make_release_of(*make_cuboids()))
FILES = st.sampled_from([WHOLE, LIST, CHOICES, CUBOIDS])  # of format 1, and of format 2
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
    whole: list(paths_of(json.loads(members_of(whole)["manifest.json"]))) for whole in (WHOLE, LIST, CHOICES, CUBOIDS)
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


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Draw a file one of whose tables has other values, rows, columns or types, or is written in another way."""
    whole = draw(FILES)
    stem = draw(st.sampled_from(stems_of(whole)))
    table = table_of(whole, stem)
    columns = {name: table[name].to_numpy().copy() for name in table.schema.names}
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(columns)))
        columns[name][draw(st.integers(0, len(table) - 1))] = draw(EXTREMES | st.integers(-3, 30))
    rows = draw(st.just(list(range(len(table)))) | st.lists(st.integers(0, len(table) - 1), max_size=40))
    wrong = pa.table(columns).take(pa.array(rows, pa.int64()))
    types = [pa.int64(), pa.int32(), pa.uint64(), pa.float64(), pa.string(), pa.decimal128(38, 2), pa.date64()]
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(columns)))
        other = pa.array(rows, pa.int64()).cast(pa.string()).cast(pa.int64())
        with suppress(pa.ArrowException, NotImplementedError):
            other = other.cast(draw(st.sampled_from(types)))
        shape = draw(st.sampled_from(["plain", "list", "struct", "dictionary", "null"]))
        other = _shaped(other, shape)
        place = table.schema.get_field_index(name)
        wrong = wrong.set_column(place, draw(st.sampled_from([name, "x", "", "\0"])), other)
    options = {
        "compression": draw(st.sampled_from(["zstd", "snappy", "gzip", "brotli", "lz4", "none"])),
        "use_dictionary": draw(st.booleans()),
        "row_group_size": draw(st.sampled_from([1, 3, 1000])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "data_page_size": draw(st.sampled_from([1, 1 << 20])),
        "write_statistics": draw(st.booleans()),
        "store_schema": draw(st.booleans()),
    }
    return forged(whole, **{stem: parquet(wrong, **options)})


def stems_of(whole: bytes) -> list[str]:
    """Return the names of a file's tables."""
    return [name.removesuffix(".parquet") for name in members_of(whole) if name.endswith(".parquet")]


def _shaped(array: pa.Array, shape: str) -> pa.Array:
    if shape == "list":
        return pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array)
    if shape == "struct":
        return pa.StructArray.from_arrays([array], ["x"])
    if shape == "dictionary":
        return array.dictionary_encode()
    return pa.nulls(len(array), array.type) if shape == "null" else array


@st.composite
def damaged_members(draw: st.DrawFn) -> bytes:
    """Draw a file with changed bytes in a member, whose digest is right again."""
    whole = draw(FILES)
    stem = draw(st.sampled_from(["domain", *stems_of(whole)]))
    content = bytearray(members_of(whole)["domain.toml" if stem == "domain" else f"{stem}.parquet"])
    for place in draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = draw(st.integers(0, 255))
    if draw(st.integers(0, 5)) == 0:
        del content[draw(st.integers(0, len(content))) :]
    return forged(whole, **{stem: bytes(content)})


@st.composite
def other_domains(draw: st.DrawFn) -> bytes:
    """Draw a file with another domain, and cells that fit it if it is small."""
    text = draw(domains.texts())
    replaced: dict[str, bytes | None] = {"domain": text.encode("utf-8", "surrogatepass")}
    with suppress(DpcubeError):
        domain = domains.examine(text)
        if domain is not None and domain.size <= CELLS_THAT_FIT:
            counts = draw(st.lists(EXTREMES | st.integers(-9, 99), min_size=1, max_size=5))
            replaced["cells"] = parquet({"noisy_count": np.resize(np.array(counts, np.int64), domain.size)})
            if draw(st.booleans()):
                replaced |= _whole_box(domain.shape)
            else:
                replaced |= {"tree": None, "boxes": None}
    return forged(WHOLE, **replaced)


def _whole_box(shape: tuple[int, ...]) -> dict[str, bytes | None]:
    bounds = {f"lower_{j}": [0] for j in range(len(shape))} | {f"upper_{j}": [n] for j, n in enumerate(shape)}
    boxes = {"node": [0], "noisy_count": [7], "units": [9]}
    return {"tree": parquet({"parent": [-1], **bounds}), "boxes": parquet(boxes)}


@st.composite
def zips(draw: st.DrawFn) -> bytes:
    """Draw a file whose zip is wrong: members renamed, repeated, packed, or headers that lie."""
    members = list(members_of(draw(FILES)).items())
    for _ in range(draw(st.integers(0, 2))):
        name, content = draw(st.sampled_from(members))
        odd = st.sampled_from(["../x", "/etc/passwd", "a\0b", "x" * 60000, "domain.toml/", ".", "CON", "\\\\x\\y"])
        members.append((draw(st.just(name) | odd), content))
    members = draw(st.permutations(members)) if draw(st.booleans()) else members
    packing = draw(st.sampled_from([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]))
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
