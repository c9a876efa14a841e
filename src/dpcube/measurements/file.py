"""The `.dpcube` file: a zip of `manifest.json`, `domain.toml` and `.npy` arrays of whole numbers, without pickle.

Every measurement has its arrays in members of its own (`3.counts.npy`), of the narrowest integer type that fits;
the groups of which marginals of a wide table are stand once (`groups.npy`). `numpy.load` reads them all. The manifest
has the SHA-256 of every other member, and the type and shape of each array. The digest of a release is of its content,
not of its compression, so it is the same in memory and in any file.

Reading takes no more memory than declared: shapes are checked against the domain, their sum against the free memory,
and a member's size and header against its shape, before a byte of it is unpacked. A file that is damaged,
truncated, hostile or of a future version gets one clear ReleaseFileError. If memory or the compiler fails, the error
says so instead of blaming the file.
"""

import hashlib
import json
import math
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.compiled import COMPILER_REMEDY, raised_by_compiler
from dpcube.core.domain import Domain
from dpcube.core.errors import CompilerError, DomainError, DpcubeError, MemoryLimitError, ReleaseFileError
from dpcube.core.files import is_special, largest_file, new_file
from dpcube.core.limits import MAX_DOMAIN_FILE
from dpcube.core.memory import check_memory, in_words
from dpcube.measurements.manifest import (
    MAX_MANIFEST_BYTES,
    Contents,
    Record,
    contents,
    facts_of,
    parsed,
    provenance_of,
)
from dpcube.measurements.measurement import (
    CellGroups,
    Facts,
    Form,
    FutureFormatError,
    exactly,
    value,
    whole_number_list,
)
from dpcube.measurements.measurements import MAX_SUMMED_UNITS, BoxCounts, Marginal
from dpcube.measurements.transcript import Provenance, Transcript

SUFFIX = ".dpcube"
MANIFEST, DOMAIN, GROUPS = "manifest.json", "domain.toml", "groups.npy"
MAX_DENSE_CELLS = 2**27
"""Cells of the largest cube that answers may materialise; in a larger one they go down the boxes of one tree."""
TYPES = ("|i1", "<i2", "<i4", "<i8")
"""Types of arrays, narrowest first."""
BYTES_A_NUMBER = 24  # as it is stored, as a 64-bit integer, and what becomes of it
NUMBERS_AT_A_TIME = 2**20


class Array(NamedTuple):
    """The type and shape of an array in a file."""

    type: str
    shape: tuple[int, ...]

    @classmethod
    def from_numbers(cls, array: Ints) -> "Array":
        """Return the narrowest type for the numbers of an array, and its shape."""
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        fits = (one for one in TYPES if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
        return cls(next(fits), array.shape)

    @property
    def header(self) -> bytes:
        """The header of the array in NumPy's format, version 1.0."""
        text = f"{{'descr': '{self.type}', 'fortran_order': False, 'shape': {self.shape}, }}"
        text += " " * (-(len(text) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

    @property
    def size(self) -> int:
        """Size of the member in bytes."""
        return len(self.header) + math.prod(self.shape) * np.dtype(self.type).itemsize


def write_record(path: Path, record: Record, *, private: bool = False) -> str:
    """Write a release to a new file and return its digest; a file that is there already is never replaced."""
    check_domain(record[0])
    try:
        with (
            new_file(path, private=private) as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            text = record[0].dumps().encode()
            members: dict[str, dict[str, object]] = {DOMAIN: {"sha256": _added(archive, DOMAIN, [text], len(text))}}
            for name, array in _arrays(record[1]):
                form = Array.from_numbers(array)
                sha256 = _added(archive, name, _encoded(array, form), form.size)
                members[name] = {"sha256": sha256, "type": form.type, "shape": list(form.shape)}
            manifest = json.dumps({**facts_of(record), "members": members}, indent=1, ensure_ascii=False).encode()
            _added(archive, MANIFEST, [manifest], len(manifest))
    except FileExistsError:
        raise _exists(path) from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        msg = f"cannot write {path}: {getattr(error, 'strerror', None) or 'no file can have this name'}"
        raise ReleaseFileError(msg) from None
    return digest(record)


def _added(archive: zipfile.ZipFile, name: str, parts: Iterator[bytes] | list[bytes], size: int) -> str:
    """Write a member part by part; return its SHA-256."""
    info, whole = zipfile.ZipInfo(name), hashlib.sha256()  # ZipInfo's fixed date keeps files reproducible
    info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, size
    with archive.open(info, "w") as member:
        for part in parts:
            member.write(part)
            whole.update(part)
    return whole.hexdigest()


def _encoded(array: Ints, form: Array) -> Iterator[bytes]:
    """Yield the bytes of the member of an array, part by part."""
    yield form.header
    flat = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, flat.size, NUMBERS_AT_A_TIME):
        yield flat[start : start + NUMBERS_AT_A_TIME].astype(form.type).tobytes()


def _arrays(transcript: Transcript) -> Iterator[tuple[str, Ints]]:
    """Yield every array of a transcript, by the name of its member."""
    if transcript.groups is not None:
        yield GROUPS, np.concatenate(transcript.groups.of_axis)
    for number, measurement in enumerate(transcript.measurements, start=1):
        for name, array in measurement.arrays().items():
            yield member_name(number, name), array


def member_name(number: int, array: str) -> str:
    """Return the name of the member of an array of a measurement, by the number of the measurement from 1."""
    return f"{number}.{array}.npy"


def check_writable(path: Path, *, needed: int) -> None:
    """Raise ReleaseFileError unless a new file of `needed` bytes can be written; asked before anything is spent."""
    if path.suffix != SUFFIX:
        msg = f"a release is a {SUFFIX} file, and '{path.name}' does not end in it; name it {path.stem}{SUFFIX}"
        msg += ", and write tables of it with dpcube export"
        raise ReleaseFileError(msg)
    if os.path.lexists(path):  # a link that leads nowhere is there too, and would be found out after the charge
        raise _exists(path)
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        msg = f"cannot write {path}: {path.parent} is not a directory that can be written to"
        raise ReleaseFileError(msg)
    if shutil.disk_usage(path.parent).free < needed:
        msg = f"cannot write {path}: the release may take {in_words(needed)} and the disk has less free"
        raise ReleaseFileError(msg)
    if (largest := largest_file()) is not None and largest < needed:
        msg = f"cannot write {path}: the release may take {in_words(needed)} and the limit of a file (ulimit -f) is "
        msg += in_words(largest)
        raise ReleaseFileError(msg)


def check_domain(domain: Domain) -> None:
    """Raise DomainError if a file of this domain could not be read again; asked before anything is spent."""
    size = len(domain.dumps().encode())
    if size > MAX_DOMAIN_FILE:
        msg = f"the domain takes {in_words(size)} of text, and a release file allows {in_words(MAX_DOMAIN_FILE)}; "
        msg += "shorten it"
        raise DomainError(msg)


def _exists(path: Path) -> ReleaseFileError:
    return ReleaseFileError(f"{path} exists, and a release never overwrites a file; choose another name")


def digest(record: Record) -> str:
    """Return the SHA-256 that identifies a release by its domain, its facts and everything measured."""
    domain, transcript, _ = record
    whole = hashlib.sha256(json.dumps(facts_of(record), sort_keys=True).encode())
    whole.update(domain.dumps().encode())
    for name, array in _arrays(transcript):
        whole.update(f"\n{name} {array.shape}\n".encode())
        whole.update(np.ascontiguousarray(array, "<i8").data)  # as it is, where it can be
    return whole.hexdigest()


def read_record(path: Path) -> Record:
    """Read a release file."""
    try:
        if is_special(path):
            msg = "it is not a regular file"
            raise ReleaseFileError(msg)
        with zipfile.ZipFile(path) as archive:
            return _record(archive)
    except Exception as error:  # bytes from anywhere: zipfile, json, tomllib and NumPy raise errors of a dozen kinds
        raise _unread(path, error) from None


def _unread(path: Path, error: Exception) -> DpcubeError:
    """Return the error for a file that was not read: damaged only if nothing else stopped the reading."""
    if isinstance(error, MemoryLimitError):
        return error
    if isinstance(error, MemoryError):
        return MemoryLimitError(
            f"cannot read {path}: memory ran out, the file may be whole; open it on a larger machine"
        )
    if raised_by_compiler(error):
        return CompilerError(
            f"cannot read {path}: the compiler of loops (Numba) failed with {type(error).__name__}, the file may be "
            f"whole; {COMPILER_REMEDY}"
        )
    if isinstance(error, OSError):
        return ReleaseFileError(f"cannot read {path}: {error.strerror or 'it is not a readable file'}")
    ours = isinstance(error, DomainError | ReleaseFileError)
    reason = _one_line(str(error)) if ours else "it is damaged or not a .dpcube file"
    remedy = "install a newer dpcube" if isinstance(error, FutureFormatError) else "ask its publisher for a fresh copy"
    return ReleaseFileError(f"cannot read {path}: {reason}; {remedy}")


def _one_line(reason: str) -> str:
    """Return a reason fit for a terminal: it may quote a hostile file."""
    shown = "".join(character if character.isprintable() else " " for character in reason)
    return shown if len(shown) <= 300 else f"{shown[:300]}..."


def _record(archive: zipfile.ZipFile) -> Record:
    manifest = parsed(_unpacked(archive, MANIFEST, MAX_MANIFEST_BYTES))
    listed, members = contents(manifest), value(manifest, "members", dict)
    if sorted(archive.namelist()) != sorted([MANIFEST, *members]) or DOMAIN not in members:
        raise _wrong_members()
    text = _unpacked(archive, DOMAIN, MAX_DOMAIN_FILE)
    _check_sha256(members, DOMAIN, text)
    domain = Domain.loads(text.decode())
    _check_cube(domain, listed)
    shape, forms = domain.shape, _forms(listed, domain.shape)
    arrays = _read_arrays(archive, members, forms)
    groups = _groups(arrays[GROUPS], listed.sides, shape) if listed.sides else None
    measurements = []
    for number, (kind, facts) in enumerate(listed.listed, start=1):
        own = {name: arrays[member_name(number, name)] for name in kind.forms(shape, listed.sides, facts)}
        measurement = kind.from_arrays(shape, groups, facts, own)
        if facts["units"] != measurement.most_charged():
            msg = f"its measurement of {measurement.kind} has other units than its manifest says"
            raise ReleaseFileError(msg)
        measurements.append(measurement)
    transcript = Transcript(shape, listed.epsilon_per_unit, tuple(measurements), listed.plan, listed.layout)
    provenance = provenance_of(manifest)
    _check_claim(transcript, provenance)
    return domain, transcript, provenance


def _check_cube(domain: Domain, listed: Contents) -> None:
    """Refuse a cube too large for memory if its measurements need all of it; other marginals take their own size."""
    apart = [one for one in listed.listed if not (one.kind is Marginal and not value(one.facts, "axes", list))]
    if not any(one.kind.lays_out(one.facts, len(domain.shape)) for one in apart):
        return
    needed = 16 * domain.size
    if [one.kind for one in apart] == [BoxCounts] and domain.size > MAX_DENSE_CELLS:
        needed = min(needed, 200 * sum(domain.shape))  # a question has weights along each axis
    check_memory(needed, what=f"a cube of {domain.size:,} cells", remedy="open it on a larger machine")


def _forms(listed: Contents, shape: tuple[int, ...]) -> dict[str, Form]:
    """Return the allowed shapes of every array of a file, by its member."""
    forms: dict[str, Form] = {}
    if listed.sides:
        if len(listed.sides) != len(shape) or not all(1 <= a <= b for a, b in zip(listed.sides, shape, strict=True)):
            msg = "its numbers of groups do not fit the numbers of cells of its attributes"
            raise DomainError(msg)
        forms[GROUPS] = exactly(sum(shape))
    for number, (kind, facts) in enumerate(listed.listed, start=1):
        own = kind.forms(shape, listed.sides, facts)
        forms |= {member_name(number, name): form for name, form in own.items()}
    return forms


def _groups(of_cells: Ints, sides: tuple[int, ...], shape: tuple[int, ...]) -> CellGroups:
    groups = CellGroups(tuple(np.split(of_cells, np.cumsum(shape)[:-1])))
    if groups.sides != sides:
        msg = "its groups are not as many as its manifest says"
        raise DomainError(msg)
    return groups


def _read_arrays(archive: zipfile.ZipFile, members: Facts, forms: Mapping[str, Form]) -> dict[str, Ints]:
    """Read every array, once all are known to have the shapes they should and to fit into memory together."""
    if set(members) != {DOMAIN, *forms}:
        raise _wrong_members()
    declared = {name: _declared(name, value(members, name, dict), form) for name, form in forms.items()}
    numbers = sum(math.prod(one.shape) for one in declared.values())
    needed = BYTES_A_NUMBER * numbers
    check_memory(needed, what=f"a release with arrays of {numbers:,} numbers", remedy="open it on a larger machine")
    return {name: _array(archive, members, name, one) for name, one in declared.items()}


def _declared(name: str, facts: Facts, form: Form) -> Array:
    """Return the type and the shape that a manifest declares of an array, if it may have them."""
    array = Array(value(facts, "type", str), whole_number_list(facts, "shape"))
    fits = len(array.shape) == len(form) and all(side in sides for side, sides in zip(array.shape, form, strict=True))
    if not fits or array.type not in TYPES:
        msg = f"its array {name} does not have the type and the shape it should"
        raise ReleaseFileError(msg)
    return array


def _array(archive: zipfile.ZipFile, members: Facts, name: str, declared: Array) -> Ints:
    content, header = _unpacked(archive, name, declared.size), declared.header
    _check_sha256(members, name, content)
    if len(content) != declared.size or not content.startswith(header):
        msg = f"its array {name} does not match its manifest"
        raise ReleaseFileError(msg)
    numbers = np.frombuffer(content, declared.type, offset=len(header))
    return numbers.astype(np.int64).reshape(declared.shape)


def _check_sha256(members: Facts, name: str, content: bytes) -> None:
    if hashlib.sha256(content).hexdigest() != value(value(members, name, dict), "sha256", str):
        msg = f"its member {name} does not match its manifest"
        raise ReleaseFileError(msg)


def _unpacked(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """Return a member, of which no more is unpacked than it may have."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_DEFLATED or info.flag_bits & 1 or info.file_size > largest:
        msg = f"its member {name} is too large, encrypted, or packed in another way"
        raise ReleaseFileError(msg)
    with archive.open(info) as member:
        return member.read(info.file_size)  # with a size it unpacks no more, and it checks the CRC at the end


def _check_claim(transcript: Transcript, provenance: Provenance) -> None:
    """Refuse a file whose measurements cost more than the epsilon it claims, or than can be added up."""
    units = transcript.most_charged()
    if units >= MAX_SUMMED_UNITS or units * transcript.epsilon_per_unit * provenance.max_rows > provenance.epsilon:
        msg = f"what it measured costs more than the epsilon {provenance.epsilon} it claims"
        raise ReleaseFileError(msg)


def _wrong_members() -> ReleaseFileError:
    return ReleaseFileError("its members are not those its manifest lists")
