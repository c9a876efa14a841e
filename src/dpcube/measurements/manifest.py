"""The manifest of a release file: its facts as JSON, written from a release and read again with every value checked."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Domain
from dpcube.core.domain.text import is_text
from dpcube.core.errors import InputError, ReleaseFileError
from dpcube.core.memory import in_words
from dpcube.measurements.measurement import Facts, FutureFormatError, Measurement, rational, value, whole_number_list
from dpcube.measurements.measurements import MEASUREMENT_KINDS
from dpcube.measurements.transcript import LAYOUTS, MAX_MEASUREMENTS, TOTAL_UNITS, Layout, Provenance, Transcript

RELEASE_FORMAT = 1
MAX_MANIFEST_BYTES = 2**20

Record = tuple[Domain, Transcript, Provenance]


class ListedMeasurement(NamedTuple):
    """A measurement that a manifest lists: its kind and its facts."""

    kind: type[Measurement]
    facts: Facts


class Contents(NamedTuple):
    """The content of a manifest on the transcript, without the arrays."""

    listed: list[ListedMeasurement]
    sides: tuple[int, ...]
    """Number of groups of each attribute, of which marginals are; empty if there are none."""
    epsilon_per_unit: Fraction
    plan: str | None
    layout: Layout


def facts_of(record: Record) -> dict[str, object]:
    """Return the facts of a release: all of the manifest but the list of members."""
    _, transcript, provenance = record
    kinds = dict.fromkeys(kept.kind for kept in transcript.measurements)
    return {
        "format": RELEASE_FORMAT,
        "library": provenance.library,
        "private": provenance.private,
        "strategy": {"name": provenance.strategy, "parameters": dict(provenance.parameters)},
        "privacy": {
            "epsilon": str(provenance.epsilon),
            "neighbours": "tables that differ by adding or removing one unit",
            "unit": provenance.unit,
            "max_rows": provenance.max_rows,
            "period": provenance.period,
            "reading": provenance.reading,
            "ledger": provenance.ledger,
            "spent": spent(transcript, provenance),
        },
        "noise": {
            "epsilon_per_unit": str(transcript.epsilon_per_unit),
            "laws": {kind: MEASUREMENT_KINDS[kind].law for kind in kinds},
        },
        "plan": transcript.plan,
        "layout": transcript.layout,
        "groups": [] if transcript.groups is None else list(transcript.groups.sides),
        "measurements": [{"kind": kept.kind, **kept.facts()} for kept in transcript.measurements],
    }


def check_parameters(parameters: Mapping[str, object]) -> None:
    """Raise InputError if a manifest with these parameters could not be read again; asked before anything is spent."""
    size, most = len(json.dumps(dict(parameters), ensure_ascii=False).encode()), MAX_MANIFEST_BYTES // 2
    if size > most:
        msg = f"the strategy's parameters (the questions that it is made for) take {in_words(size)} of text, and a "
        msg += f"release file allows {in_words(most)}; declare fewer questions"
        raise InputError(msg)


def spent(transcript: Transcript, provenance: Provenance) -> dict[str, str]:
    """Return the largest epsilon that any cell was charged by each measurement; those of one kind are numbered.

    What a release spent on its total before anything else (`curator/total_first.py`) comes first.
    """
    whole = transcript.epsilon_per_unit * provenance.max_rows * BUDGET_UNITS
    first = whole * Fraction(TOTAL_UNITS, BUDGET_UNITS)
    listed, amounts = list(transcript.measurements), dict[str, str]()
    if transcript.totals and whole + first == provenance.epsilon:
        listed.remove(transcript.totals[0])
        amounts["total"] = str(first)
    else:  # of a unit in several periods epsilons add up, and those of measurements with them
        charged = max(BUDGET_UNITS, transcript.most_charged()) if transcript.layout == "periods" else BUDGET_UNITS
        whole = provenance.epsilon * Fraction(BUDGET_UNITS, charged)
    names = ["cells" if kept is transcript.cells else kept.kind for kept in listed]
    kinds, before = Counter(names), Counter[str]()
    for kept, kind in zip(listed, names, strict=True):
        before[kind] += 1
        name = kind if kinds[kind] == 1 else f"{kind} {before[kind]}"
        if units := kept.most_charged():
            amounts[name] = str(whole * Fraction(units, BUDGET_UNITS))
    return amounts


def parsed(text: bytes) -> Mapping[str, object]:
    """Return the manifest of a file of this format."""
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int or manifest["format"] < 1:
        msg = "it has no format version"
        raise ReleaseFileError(msg)
    if manifest["format"] > RELEASE_FORMAT:
        msg = f"its format is {manifest['format']} and this dpcube reads up to {RELEASE_FORMAT}"
        raise FutureFormatError(msg)
    return manifest


def contents(manifest: Mapping[str, object]) -> Contents:
    """Return the content of a manifest on the transcript."""
    noise, entries = value(manifest, "noise", dict), value(manifest, "measurements", list)
    if not 1 <= len(entries) <= MAX_MEASUREMENTS:
        msg = f"it lists {len(entries):,} measurements, and a release has 1 to {MAX_MEASUREMENTS:,}"
        raise ReleaseFileError(msg)
    laws = value(noise, "laws", dict)
    listed = [_listed(entry, laws) for entry in entries]
    layout = value(manifest, "layout", str)
    if layout not in LAYOUTS:
        msg = f"its layout is '{layout}', which this version does not support"
        raise FutureFormatError(msg)
    plan = None if manifest["plan"] is None else value(manifest, "plan", str)
    sides = whole_number_list(manifest, "groups")
    return Contents(listed, sides, rational(noise, "epsilon_per_unit"), plan, layout)


def _listed(entry: object, laws: Mapping[str, object]) -> ListedMeasurement:
    facts = value({"measurements": entry}, "measurements", dict)
    name = value(facts, "kind", str)
    law = value(laws, name, str) if name in laws else "none"
    if name not in MEASUREMENT_KINDS or law != MEASUREMENT_KINDS[name].law:
        msg = f"it has a measurement of kind '{name}' and law '{law}', which this version does not support"
        raise FutureFormatError(msg)
    value(facts, "units", int)
    return ListedMeasurement(MEASUREMENT_KINDS[name], facts)


def provenance_of(manifest: Mapping[str, object]) -> Provenance:
    """Return the provenance of a release from its manifest."""
    privacy, strategy = value(manifest, "privacy", dict), value(manifest, "strategy", dict)
    unit, period, reading = (
        None if privacy[key] is None else value(privacy, key, str) for key in ("unit", "period", "reading")
    )
    return Provenance(
        strategy=value(strategy, "name", str),
        epsilon=rational(privacy, "epsilon"),
        library=value(manifest, "library", str),
        parameters=_parameters(strategy),
        unit=unit,
        max_rows=value(privacy, "max_rows", int),
        period=period,
        reading=reading,
        ledger=value(privacy, "ledger", bool),
        private=value(manifest, "private", bool),
    )


def _parameters(strategy: Mapping[str, object]) -> dict[str, object]:
    """Return a strategy's parameters, each of them one plain value."""
    parameters = value(strategy, "parameters", dict)
    for name, given in parameters.items():
        plain = given is None or type(given) in (bool, int) or (type(given) is float and math.isfinite(given))
        if not is_text(name) or not (plain or is_text(given)):
            msg = "its manifest has invalid parameters of the strategy"
            raise ReleaseFileError(msg)
    return parameters
