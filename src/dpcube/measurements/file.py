"""The `.dpcube` file: a zip of `manifest.json`, `domain.toml` and Parquet tables, self-describing and without pickle.

Enters: a domain, a transcript and its provenance. Leaves: a file written in one step, or the three of them again.
The manifest holds the SHA-256 of every other member. The digest of a release is of what it says, not of how Parquet
happens to encode it, so it is the same in memory and in any file. Members are stored without zip compression (Parquet
compresses), so the size of the file bounds what reading it can cost.
Format 1 has at most one measurement of cells and one of boxes, in members of fixed names; format 2 has a list of
measurements, each with members that bear its number, and the plan by which they were chosen, if there was one. What
format 1 can hold is still written as format 1.
A file that is damaged, truncated, hostile or of a future version gets one clear ReleaseFileError. Where memory or the
compiler fails, the error says so: nothing is wrong with the file then.
"""

import hashlib
import json
import math
import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpcube.core.compiled import COMPILER_REMEDY, raised_by_compiler
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Domain
from dpcube.core.domain.limits import MAX_DOMAIN_FILE
from dpcube.core.domain.text import is_text
from dpcube.core.errors import CompilerError, DomainError, DpcubeError, InputError, MemoryLimitError, ReleaseFileError
from dpcube.core.files import is_special, largest_file, new_file
from dpcube.core.memory import check_memory, in_words
from dpcube.measurements.cuboids import CuboidCounts
from dpcube.measurements.facts import FutureFormatError, rational, value
from dpcube.measurements.kinds import MEASUREMENT_KINDS
from dpcube.measurements.measurements import MOST_UNITS, BoxCounts, CellCounts, Columns, MarginalCounts, Measurement
from dpcube.measurements.provenance import Provenance
from dpcube.measurements.tables import BYTES_A_VALUE, columns_of, parquet_of, rows_of
from dpcube.measurements.transcript import MOST_MEASUREMENTS, PERIODS, TOTAL_UNITS, Transcript

LATEST_FORMAT = 2
MANIFEST = "manifest.json"
DOMAIN = "domain.toml"
LARGEST_MANIFEST = 2**20
LARGEST_HELD = 2**27
"""Cells of the largest cube that answers may hold as a whole; of one tree in a larger one they go down its boxes."""
FORMAT_1_KINDS = (CellCounts, BoxCounts)
"""What format 1 can hold, in its order, at most one of each. It is still written for these: digests stay the same."""
LOST_TOTAL_SHARE = Fraction(1, 20)
"""What releases spent on their total first before it was kept in the transcript; their digests hold it."""
FORMAT_1_LAW = "two-sided geometric: P(z) proportional to exp(-units * grain * |z|)"

Record = tuple[Domain, Transcript, Provenance]


class _Listed(NamedTuple):
    """A measurement that a manifest speaks of: its kind, what is said of it, the members that hold its tables."""

    kind: type[Measurement]
    facts: Mapping[str, object]
    members: Mapping[str, str]


def write_record(path: Path, record: Record, *, private: bool = False) -> str:
    """Write a release to a new file and return its digest; a file that is there already is never replaced."""
    check_domain(record[0])
    members = _members(record)
    manifest = _manifest(record, members)
    try:
        with new_file(path, private=private) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
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
    if (largest := largest_file()) is not None and largest < needed:
        msg = f"cannot write {path}: the release may take {in_words(needed)} and the limit of a file (ulimit -f) is "
        msg += in_words(largest)
        raise ReleaseFileError(msg)


def check_domain(domain: Domain) -> None:
    """Raise DomainError if a file of this domain could not be read again; asked before anything is spent."""
    size = len(domain.dumps().encode())
    if size > MAX_DOMAIN_FILE:
        msg = (
            f"the domain takes {in_words(size)} of text and a release holds {in_words(MAX_DOMAIN_FILE)}; shorten it"
        )
        raise DomainError(msg)


def check_parameters(parameters: Mapping[str, object]) -> None:
    """Raise InputError if a manifest with these parameters could not be read again; asked before anything is spent."""
    size, most = len(json.dumps(dict(parameters), ensure_ascii=False).encode()), LARGEST_MANIFEST // 2
    if size > most:
        msg = f"the strategy's parameters (the questions that it is made for) take {in_words(size)} of text, and a "
        msg += f"release holds {in_words(most)}; declare fewer questions"
        raise InputError(msg)


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


def read_record(path: Path) -> Record:
    """Read a release file."""
    try:
        if is_special(path):
            msg = "it is not a regular file"
            raise ReleaseFileError(msg)
        with zipfile.ZipFile(path) as archive:
            return _record(archive)
    except Exception as error:  # bytes from anywhere: zipfile, json, tomllib and Arrow raise errors of a dozen kinds
        raise _unread(path, error) from None


def _unread(path: Path, error: Exception) -> DpcubeError:
    """Return what to say of a file that was not read: that it is damaged only if nothing else stopped the reading."""
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


def _members(record: Record) -> dict[str, bytes]:
    domain, transcript, _ = record
    tables = {name: parquet_of(columns) for name, columns in _tables(transcript).items()}
    return {DOMAIN: domain.dumps().encode(), **tables}


def _tables(transcript: Transcript) -> dict[str, Columns]:
    """Return the columns of every table, by the member that holds them."""
    tables: dict[str, Columns] = {}
    for measurement, members in _placed(transcript):
        tables |= {members[name]: columns for name, columns in measurement.tables().items()}
    return tables


def _placed(transcript: Transcript) -> list[tuple[Measurement, dict[str, str]]]:
    """Return the measurements in the order of the file, each with the members that hold its tables, by table."""
    if _format_of(transcript) == 1:
        ordered = [kept for kind in FORMAT_1_KINDS if (kept := transcript.only(kind)) is not None]
        return [(kept, _member_names(type(kept))) for kept in ordered]
    return [(kept, _member_names(type(kept), number)) for number, kept in enumerate(transcript.measurements, start=1)]


def _member_names(kind: type[Measurement], number: int | None = None) -> dict[str, str]:
    """Return the members that hold a measurement, by table: 3-tree.parquet of the third, tree.parquet in format 1."""
    prefix = "" if number is None else f"{number}-"
    return {table: f"{prefix}{table}.parquet" for table in kind.table_names}


def _format_of(transcript: Transcript) -> int:
    """Return the oldest format that can hold a transcript."""
    kinds = [type(measurement) for measurement in transcript.measurements]
    in_its_order = kinds == [kind for kind in FORMAT_1_KINDS if kind in kinds]  # it keeps no other
    return 1 if in_its_order and transcript.plan is None else 2


def _manifest(record: Record, members: dict[str, bytes]) -> bytes:
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    return json.dumps({**_facts(record), "members": hashes}, indent=1, ensure_ascii=False).encode()


def _facts(record: Record) -> dict[str, object]:
    _, transcript, provenance = record
    return {
        "format": _format_of(transcript),
        "library": provenance.library,
        "private": provenance.private,
        "strategy": {"name": provenance.strategy, "parameters": dict(provenance.parameters)},
        "privacy": {
            "epsilon": str(provenance.epsilon),
            "neighbours": "tables that differ by adding or removing one unit",
            "unit": provenance.unit,
            "max_rows": provenance.max_rows,
            "period": provenance.period,
            **({} if provenance.reading is None else {"reading": provenance.reading}),
            "ledger": provenance.ledger,
            "spent": spent(transcript, provenance),
        },
        **_measured_facts(transcript),
    }


def _measured_facts(transcript: Transcript) -> dict[str, object]:
    epsilon_per_unit = str(transcript.epsilon_per_unit)
    if _format_of(transcript) == 1:
        cell_units = 0 if transcript.cells is None else transcript.cells.units
        return {"noise": {"law": FORMAT_1_LAW, "grain": epsilon_per_unit, "cell_units": cell_units}}
    listed = [
        {"kind": kept.kind, "law": kept.law, **kept.facts(), "members": list(members.values())}
        for kept, members in _placed(transcript)
    ]
    plan = {} if transcript.plan is None else {"plan": transcript.plan}
    return {"noise": {"epsilon_per_unit": epsilon_per_unit}, **plan, "measurements": listed}


def spent(transcript: Transcript, provenance: Provenance) -> dict[str, str]:
    """Return the largest epsilon that any cell was charged by each measurement; those of one kind are numbered.

    What a release spent on its total before anything else (`core/total_first.py`) comes first.
    """
    whole = transcript.epsilon_per_unit * provenance.max_rows * BUDGET_UNITS
    first, lost = whole * Fraction(TOTAL_UNITS, BUDGET_UNITS), provenance.epsilon * LOST_TOTAL_SHARE
    placed, amounts = [kept for kept, _ in _placed(transcript)], dict[str, str]()
    if transcript.totals and whole + first == provenance.epsilon:
        placed.remove(transcript.totals[0])
        amounts["total"] = str(first)
    elif whole + lost == provenance.epsilon:
        amounts["total"] = str(lost)
    else:  # of a unit in several periods epsilons add up, and those of measurements with them
        charged = max(BUDGET_UNITS, transcript.most_charged()) if transcript.plan == PERIODS else BUDGET_UNITS
        whole = provenance.epsilon * Fraction(BUDGET_UNITS, charged)
    kinds, before = Counter(kept.kind for kept in placed), Counter[str]()
    for kept in placed:
        before[kept.kind] += 1
        name = kept.kind if kinds[kept.kind] == 1 else f"{kept.kind} {before[kept.kind]}"
        if units := kept.most_charged():
            amounts[name] = str(whole * Fraction(units, BUDGET_UNITS))
    return amounts


def _record(archive: zipfile.ZipFile) -> Record:
    manifest = json.loads(_member(archive, MANIFEST, LARGEST_MANIFEST))
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int or manifest["format"] < 1:
        msg = "it has no format version"
        raise ReleaseFileError(msg)
    if manifest["format"] > LATEST_FORMAT:
        msg = f"its format is {manifest['format']} and this dpcube reads up to {LATEST_FORMAT}"
        raise FutureFormatError(msg)
    old = manifest["format"] == 1
    noise, members = value(manifest, "noise", dict), value(manifest, "members", dict)
    listed = _listed_by_format_1(noise, members) if old else _listed(value(manifest, "measurements", list))
    content = _checked_members(archive, members, {DOMAIN, *(name for kept in listed for name in kept.members.values())})
    domain = Domain.loads(content[DOMAIN].decode())
    kinds = [kept.kind for kept in listed]
    if CuboidCounts not in kinds:  # whose tables are all small, see `_measurements`
        needed = 16 * domain.size
        if [kept.kind for kept in listed if not _is_total(kept)] == [BoxCounts] and domain.size > LARGEST_HELD:
            needed = min(needed, 200 * sum(domain.shape))  # a question has weights along each axis
        check_memory(needed, what=f"a cube of {domain.size:,} cells", remedy="open it on a larger machine")
    epsilon_per_unit = rational(noise, "grain" if old else "epsilon_per_unit")
    plan = value(manifest, "plan", str) if "plan" in manifest and not old else None
    transcript = Transcript(domain.shape, epsilon_per_unit, _measurements(listed, content, domain), plan)
    provenance = _provenance(manifest)
    _check_claim(transcript, provenance)
    return domain, transcript, provenance


def _is_total(listed: _Listed) -> bool:
    return listed.kind is MarginalCounts and not value(listed.facts, "axes", list)


def _listed_by_format_1(noise: Mapping[str, object], members: Mapping[str, object]) -> list[_Listed]:
    """Return the measurements that a manifest of format 1 speaks of: it has no list of them, and no units of boxes."""
    units = value(noise, "cell_units", int)
    listed = []
    for kind in FORMAT_1_KINDS:
        names = _member_names(kind)
        if set(names.values()) & set(members):
            listed.append(_Listed(kind, {"units": units} if kind is CellCounts else {}, names))
    if any(kept.kind is CellCounts for kept in listed) != (units != 0):
        msg = "its members are not those its manifest speaks of"
        raise ReleaseFileError(msg)
    return listed


def _listed(entries: list[object]) -> list[_Listed]:
    """Return the measurements that a manifest of format 2 lists."""
    if not 1 <= len(entries) <= MOST_MEASUREMENTS:
        msg = f"it lists {len(entries):,} measurements, and a release has 1 to {MOST_MEASUREMENTS:,}"
        raise ReleaseFileError(msg)
    return [_entry(number, entry) for number, entry in enumerate(entries, start=1)]


def _entry(number: int, entry: object) -> _Listed:
    facts = value({"measurements": entry}, "measurements", dict)
    name, law = value(facts, "kind", str), value(facts, "law", str)
    if name not in MEASUREMENT_KINDS or law != MEASUREMENT_KINDS[name].law:
        msg = f"it holds a measurement of kind '{name}' and law '{law}', which this dpcube does not know"
        raise FutureFormatError(msg)
    value(facts, "units", int)
    names = _member_names(MEASUREMENT_KINDS[name], number)
    if value(facts, "members", list) != list(names.values()):
        msg = f"the members of its measurement {number} are not {', '.join(names.values())}"
        raise ReleaseFileError(msg)
    return _Listed(MEASUREMENT_KINDS[name], facts, names)


def _measurements(listed: list[_Listed], content: Mapping[str, bytes], domain: Domain) -> tuple[Measurement, ...]:
    """Read every table, once all are known to have the rows they should and to fit into memory together."""
    forms, rows = {}, {}  # by member
    for kept in listed:
        for table, form in kept.kind.table_forms(domain.shape, kept.facts).items():
            member = kept.members[table]
            forms[member], rows[member] = form, rows_of(content[member], form)
    needed = sum(BYTES_A_VALUE * rows[member] * len(form.columns) for member, form in forms.items())
    check_memory(
        needed, what=f"a release with tables of {sum(rows.values()):,} rows", remedy="open it on a larger machine"
    )
    measurements = []
    for kept in listed:
        tables = {
            table: columns_of(content[member], forms[member], rows=rows[member])
            for table, member in kept.members.items()
        }
        measurements.append(_checked(kept, kept.kind.of_tables(domain.shape, kept.facts, tables)))
    return tuple(measurements)


def _checked(listed: _Listed, measurement: Measurement) -> Measurement:
    """Return a measurement that cost what its manifest says; format 1 says nothing of the cost of boxes."""
    if listed.facts.get("units", measurement.most_charged()) != measurement.most_charged():
        msg = f"its measurement of {measurement.kind} has other units than its manifest says"
        raise ReleaseFileError(msg)
    return measurement


def _check_claim(transcript: Transcript, provenance: Provenance) -> None:
    """Refuse a file whose measurements cost more than the epsilon it claims, or than can be added up."""
    units = transcript.most_charged()
    if units >= MOST_UNITS or units * transcript.epsilon_per_unit * provenance.max_rows > provenance.epsilon:
        msg = f"what it measured costs more than the epsilon {provenance.epsilon} it claims"
        raise ReleaseFileError(msg)


def _checked_members(archive: zipfile.ZipFile, listed: dict[str, str], wanted: set[str]) -> dict[str, bytes]:
    """Return the members by name: those that the manifest lists, which are those that its measurements need."""
    if sorted(archive.namelist()) != sorted([MANIFEST, *listed]) or set(listed) != wanted:
        msg = "its members are not those its manifest lists"
        raise ReleaseFileError(msg)
    content = {}
    for name, sha256 in listed.items():
        content[name] = _member(archive, name, MAX_DOMAIN_FILE if name == DOMAIN else None)
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


def _provenance(manifest: dict[str, object]) -> Provenance:
    privacy, strategy = value(manifest, "privacy", dict), value(manifest, "strategy", dict)
    return Provenance(
        strategy=value(strategy, "name", str),
        epsilon=rational(privacy, "epsilon"),
        library=value(manifest, "library", str),
        parameters=_parameters(strategy),
        unit=None if privacy["unit"] is None else value(privacy, "unit", str),
        max_rows=value(privacy, "max_rows", int),
        period=None if privacy["period"] is None else value(privacy, "period", str),
        reading=None if privacy.get("reading") is None else value(privacy, "reading", str),
        ledger=value(privacy, "ledger", bool),
        private=value(manifest, "private", bool),
    )


def _parameters(strategy: Mapping[str, object]) -> dict[str, object]:
    """Return a strategy's parameters, each of them one plain value."""
    parameters = value(strategy, "parameters", dict)
    for name, given in parameters.items():
        plain = given is None or type(given) in (bool, int) or (type(given) is float and math.isfinite(given))
        if not is_text(name) or not (plain or is_text(given)):
            msg = "its manifest's parameters are not what they should be"
            raise ReleaseFileError(msg)
    return parameters
