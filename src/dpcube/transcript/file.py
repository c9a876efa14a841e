"""The `.dpcube` file: a zip of `manifest.json`, `domain.toml` and Parquet tables, self-describing and without pickle.

Enters: a domain, a transcript and its provenance. Leaves: a file written in one step, or the three of them again.
The manifest holds the SHA-256 of every other member. The digest of a release is of what it says, not of how Parquet
happens to encode it, so it is the same in memory and in any file. Members are stored without zip compression (Parquet
compresses), so the size of the file bounds what reading it can cost.
A file that is damaged, truncated, hostile or of a future version gets one clear ReleaseFileError.
"""

import hashlib
import io
import json
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcube.counter import BUDGET_UNITS
from dpcube.domain import Domain
from dpcube.domain.file import LARGEST_FILE as LARGEST_DOMAIN
from dpcube.domain.text import is_text
from dpcube.errors import DomainError, MemoryLimitError, ReleaseFileError
from dpcube.files import is_special, new_file
from dpcube.geometry.tree import BoxTree
from dpcube.memory import check_memory, in_words
from dpcube.transcript.pages import checked_rows
from dpcube.transcript.provenance import Provenance
from dpcube.transcript.transcript import MOST_UNITS, BoxCounts, CellCounts, Transcript

FORMAT = 1
MANIFEST = "manifest.json"
DOMAIN = "domain.toml"
CELLS = "cells.parquet"
TREE = "tree.parquet"
BOXES = "boxes.parquet"
LARGEST_MANIFEST = 2**20
ROWS_AT_A_TIME = 2**20

Record = tuple[Domain, Transcript, Provenance]
T = TypeVar("T")

_RATIONAL = re.compile(r"[0-9]{1,200}(/[1-9][0-9]{0,199})?")


class FutureFormatError(ReleaseFileError):
    """A file of a format that this version does not know yet."""


def write(path: Path, record: Record) -> str:
    """Write a release to a new file and return its digest; a file that is there already is never replaced."""
    check_domain(record[0])
    members = _members(record)
    manifest = _manifest(record, members)
    try:
        with new_file(path) as part, zipfile.ZipFile(part, "x", zipfile.ZIP_STORED) as archive:
            for name, content in {MANIFEST: manifest, **members}.items():
                archive.writestr(zipfile.ZipInfo(name), content)  # ZipInfo's fixed date keeps files reproducible
    except FileExistsError:
        raise _exists(path) from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        msg = f"cannot write {path}: {getattr(error, 'strerror', None) or 'no file can have this name'}"
        raise ReleaseFileError(msg) from None
    return digest(record)


def check_writable(path: Path, *, needed: int) -> None:
    """Raise ReleaseFileError unless a new file of `needed` bytes can be written; asked before anything is spent."""
    if os.path.lexists(path):  # a link that leads nowhere is there too, and would be found out after the charge
        raise _exists(path)
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        msg = f"cannot write {path}: {path.parent} is not a directory that can be written to"
        raise ReleaseFileError(msg)
    if shutil.disk_usage(path.parent).free < needed:
        msg = f"cannot write {path}: the release may take {in_words(needed)} and the disk has less free"
        raise ReleaseFileError(msg)


def check_domain(domain: Domain) -> None:
    """Raise DomainError if a file of this domain could not be read again; asked before anything is spent."""
    size = len(domain.dumps().encode())
    if size > LARGEST_DOMAIN:
        msg = f"the domain takes {in_words(size)} of text and a release holds {in_words(LARGEST_DOMAIN)}; shorten it"
        raise DomainError(msg)


def _exists(path: Path) -> ReleaseFileError:
    return ReleaseFileError(f"{path} exists, and a release never overwrites a file; choose another name")


def digest(record: Record) -> str:
    """Return the SHA-256 that identifies a release by its domain, its facts and everything measured."""
    domain, transcript, _ = record
    whole = hashlib.sha256(json.dumps(_facts(record), sort_keys=True).encode())
    whole.update(domain.dumps().encode())
    for columns in _tables(transcript).values():
        for name, column in columns.items():
            whole.update(f"\n{name} {column.size}\n".encode())
            whole.update(np.ascontiguousarray(column, "<i8").data)  # as it is, where it can be
    return whole.hexdigest()


def read(path: Path) -> Record:
    """Read a release file."""
    try:
        if is_special(path):
            msg = "it is not a regular file"
            raise ReleaseFileError(msg)
        with zipfile.ZipFile(path) as archive:
            return _record(archive)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or 'it is not a readable file'}"
        raise ReleaseFileError(msg) from None
    except MemoryLimitError:
        raise
    except Exception as error:  # bytes from anywhere: zipfile, json, tomllib and Arrow raise errors of a dozen kinds
        ours = isinstance(error, DomainError | ReleaseFileError)
        reason = _one_line(str(error)) if ours else "it is damaged or not a .dpcube file"
        remedy = (
            "install a newer dpcube" if isinstance(error, FutureFormatError) else "ask its publisher for a fresh copy"
        )
        msg = f"cannot read {path}: {reason}; {remedy}"
        raise ReleaseFileError(msg) from None


def _one_line(reason: str) -> str:
    """Return a reason fit for a terminal: it may quote a hostile file."""
    shown = "".join(character if character.isprintable() else " " for character in reason)
    return shown if len(shown) <= 300 else f"{shown[:300]}..."


def _members(record: Record) -> dict[str, bytes]:
    domain, transcript, _ = record
    tables = {name: _parquet(columns) for name, columns in _tables(transcript).items()}
    return {DOMAIN: domain.dumps().encode(), **tables}


def _tables(transcript: Transcript) -> dict[str, dict[str, NDArray[np.int64]]]:
    tables = {}
    if transcript.cells is not None:
        tables[CELLS] = {"noisy_count": transcript.cells.counts.reshape(-1)}
    if transcript.boxes is not None:
        tree, axes = transcript.boxes.tree, range(len(transcript.shape))
        bounds = {f"lower_{j}": tree.lower[:, j] for j in axes} | {f"upper_{j}": tree.upper[:, j] for j in axes}
        tables[TREE] = {"parent": tree.parent, **bounds}
        boxes = transcript.boxes
        tables[BOXES] = {"node": boxes.node, "noisy_count": boxes.counts, "units": boxes.units}
    return tables


def _parquet(columns: dict[str, NDArray[np.int64]]) -> bytes:
    sink, rows = io.BytesIO(), len(next(iter(columns.values())))
    # Signed counts and sorted bounds pack well as differences, and need no dictionary.
    schema, packed = pa.schema([(name, pa.int64()) for name in columns]), "DELTA_BINARY_PACKED"
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=False, column_encoding=packed) as writer:
        for start in range(0, rows, ROWS_AT_A_TIME):  # Arrow copies what it is given of a tree's bounds
            some = {name: column[start : start + ROWS_AT_A_TIME] for name, column in columns.items()}
            writer.write_table(pa.table(some, schema=schema))
    return sink.getvalue()


def _manifest(record: Record, members: dict[str, bytes]) -> bytes:
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    return json.dumps({**_facts(record), "members": hashes}, indent=1, ensure_ascii=False).encode()


def _facts(record: Record) -> dict[str, object]:
    _, transcript, provenance = record
    return {
        "format": FORMAT,
        "library": provenance.library,
        "private": provenance.private,
        "strategy": {"name": provenance.strategy, "parameters": dict(provenance.parameters)},
        "privacy": {
            "epsilon": str(provenance.epsilon),
            "neighbours": "tables that differ by adding or removing one unit",
            "unit": provenance.unit,
            "max_rows": provenance.max_rows,
            "period": provenance.period,
            "ledger": provenance.ledger,
            "spent": spent(transcript, provenance),
        },
        "noise": {
            "law": "two-sided geometric: P(z) proportional to exp(-units * grain * |z|)",
            "grain": str(transcript.epsilon_per_unit),
            "cell_units": 0 if transcript.cells is None else transcript.cells.units,
        },
    }


def spent(transcript: Transcript, provenance: Provenance) -> dict[str, str]:
    """Return the largest epsilon that any cell was charged in each phase."""
    cell_units = 0 if transcript.cells is None else transcript.cells.units
    spent = {"cells": provenance.epsilon * Fraction(cell_units, BUDGET_UNITS)}
    if transcript.boxes is not None:
        spent["boxes"] = provenance.epsilon * Fraction(transcript.boxes.deepest_units(), BUDGET_UNITS)
    return {phase: str(amount) for phase, amount in spent.items() if amount}


def _record(archive: zipfile.ZipFile) -> Record:
    manifest = json.loads(_member(archive, MANIFEST, LARGEST_MANIFEST))
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int or manifest["format"] < 1:
        msg = "it has no format version"
        raise ReleaseFileError(msg)
    if manifest["format"] > FORMAT:
        msg = f"its format is {manifest['format']} and this dpcube reads up to {FORMAT}"
        raise FutureFormatError(msg)
    content = _checked_members(archive, _value(manifest, "members", dict))
    noise = _value(manifest, "noise", dict)
    cell_units = _value(noise, "cell_units", int)
    if (CELLS in content) != (cell_units != 0) or (TREE in content) != (BOXES in content):
        msg = "its members are not those its manifest speaks of"
        raise ReleaseFileError(msg)
    domain = Domain.loads(content[DOMAIN].decode())
    check_memory(16 * domain.size, what=f"a cube of {domain.size:,} cells", remedy="open it on a larger machine")
    cells = boxes = None
    if CELLS in content:
        columns = _columns(content[CELLS], ("noisy_count",), least=domain.size, most=domain.size)
        cells = CellCounts(columns["noisy_count"].reshape(domain.shape), cell_units)
    if BOXES in content:
        boxes = _boxes(content, domain)
    transcript, provenance = Transcript(domain.shape, _rational(noise, "grain"), cells, boxes), _provenance(manifest)
    _check_claim(transcript, provenance)
    return domain, transcript, provenance


def _check_claim(transcript: Transcript, provenance: Provenance) -> None:
    """Refuse a file whose measurements cost more than the epsilon it claims, or than can be added up."""
    units = 0 if transcript.cells is None else transcript.cells.units
    units += 0 if transcript.boxes is None else transcript.boxes.deepest_units()
    if units >= MOST_UNITS or units * transcript.epsilon_per_unit * provenance.max_rows > provenance.epsilon:
        msg = f"what it measured costs more than the epsilon {provenance.epsilon} it claims"
        raise ReleaseFileError(msg)


def _checked_members(archive: zipfile.ZipFile, listed: dict[str, str]) -> dict[str, bytes]:
    names = archive.namelist()
    if sorted(names) != sorted([MANIFEST, *listed]) or not set(listed) <= {DOMAIN, CELLS, TREE, BOXES}:
        msg = "its members are not those its manifest lists"
        raise ReleaseFileError(msg)
    content = {}
    for name, sha256 in listed.items():
        content[name] = _member(archive, name, LARGEST_DOMAIN if name == DOMAIN else None)
        if hashlib.sha256(content[name]).hexdigest() != sha256:
            msg = f"its member {name} is not what its manifest says"
            raise ReleaseFileError(msg)
    return content


def _member(archive: zipfile.ZipFile, name: str, largest: int | None) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or (largest and info.file_size > largest):
        msg = f"its member {name} is too large, compressed or encrypted"
        raise ReleaseFileError(msg)
    return archive.read(name)


def _boxes(content: dict[str, bytes], domain: Domain) -> BoxCounts:
    axes = range(len(domain.shape))
    lower, upper = [f"lower_{j}" for j in axes], [f"upper_{j}" for j in axes]
    nodes = _columns(content[TREE], ("parent", *lower, *upper), most=2 * domain.size)
    measured = _columns(content[BOXES], ("node", "noisy_count", "units"), most=64 * domain.size)
    bounds = [np.stack([nodes[name] for name in names], axis=1) for names in (lower, upper)]
    tree = BoxTree(domain.shape, bounds[0], bounds[1], nodes["parent"])
    return BoxCounts(tree, measured["node"], measured["noisy_count"], measured["units"])


def _columns(content: bytes, names: tuple[str, ...], *, least: int = 0, most: int) -> dict[str, NDArray[np.int64]]:
    """Return the columns of a Parquet member after checking its schema and number of rows against the domain."""
    # Counted before anything is read: a few bytes can declare, and unpack to, any number of rows.
    rows = checked_rows(content)
    if not least <= rows <= most:
        msg = "one of its tables does not have the rows it should"
        raise ReleaseFileError(msg)
    needed = 24 * rows * len(names)  # Arrow's table, NumPy's copy of it, and what becomes of it
    check_memory(needed, what=f"a table of {rows:,} rows", remedy="open it on a larger machine")
    file = pq.ParquetFile(io.BytesIO(content))
    if not file.schema_arrow.equals(pa.schema([(name, pa.int64()) for name in names])):
        msg = "one of its tables does not have the columns it should"
        raise ReleaseFileError(msg)
    table = file.read()
    if table.num_rows != rows or any(column.null_count for column in table.columns):
        msg = "one of its tables does not have the rows it should"
        raise ReleaseFileError(msg)
    return {name: np.ascontiguousarray(table[name].to_numpy()) for name in names}


def _provenance(manifest: dict[str, object]) -> Provenance:
    privacy, strategy = _value(manifest, "privacy", dict), _value(manifest, "strategy", dict)
    return Provenance(
        strategy=_value(strategy, "name", str),
        epsilon=_rational(privacy, "epsilon"),
        library=_value(manifest, "library", str),
        parameters=_parameters(strategy),
        unit=None if privacy["unit"] is None else _value(privacy, "unit", str),
        max_rows=_value(privacy, "max_rows", int),
        period=None if privacy["period"] is None else _value(privacy, "period", str),
        ledger=_value(privacy, "ledger", bool),
        private=_value(manifest, "private", bool),
    )


def _parameters(strategy: Mapping[str, object]) -> dict[str, object]:
    """Return a strategy's parameters, each of them one plain value."""
    parameters = _value(strategy, "parameters", dict)
    for name, value in parameters.items():
        plain = value is None or type(value) in (bool, int) or (type(value) is float and math.isfinite(value))
        if not is_text(name) or not (plain or is_text(value)):
            msg = "its manifest's parameters are not what they should be"
            raise ReleaseFileError(msg)
    return parameters


def _value(table: Mapping[str, object], key: str, kind: type[T]) -> T:
    value = table[key]
    # Not isinstance: true is no number. Half of a surrogate pair is no text that could be shown.
    if type(value) is not kind or (kind is str and not is_text(value)):
        msg = f"its manifest's {key} is not what it should be"
        raise ReleaseFileError(msg)
    return value


def _rational(table: Mapping[str, object], key: str) -> Fraction:
    """Return a rational that `str` wrote; a short text such as 1e-999999999 would stand for a very long number."""
    text = _value(table, key, str)
    if not _RATIONAL.fullmatch(text):
        msg = f"its manifest's {key} is not what it should be"
        raise ReleaseFileError(msg)
    return Fraction(text)
