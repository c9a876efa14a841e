"""Croissant 1.1 metadata of a release (mlcommons.org/croissant/1.1): JSON-LD that dataset search and loaders read.

It describes the release file, the attributes and their bins, the privacy parameters and, if one is given, a table that
was made of the release. The name, the publisher and the day are those of the registry record (`registry.py`), so the
two cannot differ. No row is read, and a licence or an address that nobody gave is left out.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpcube.core.domain import Attribute
from dpcube.core.errors import InputError
from dpcube.release.registry import rounded_up_epsilon
from dpcube.release.release import Release
from dpcube.release.trust import doubts, trust

JsonObject = dict[str, object]
VERSION = "http://mlcommons.org/croissant/1.1"
MAX_LISTED_BINS = 1000
"""Cells of the largest attribute whose bins are listed one by one."""
TABLE_FORMATS = {".csv": "text/csv", ".parquet": "application/x-parquet"}
_OF_CROISSANT = (
    *("annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract"),
    *("field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "readLines", "recordSet", "references", "regex", "repeated", "replace"),
    *("samplingRate", "sdVersion", "separator", "source", "subField", "transform", "unArchive", "value"),
)
CONTEXT: JsonObject = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _OF_CROISSANT},
}


def croissant(
    release: Release,
    path: Path,
    basic: Mapping[str, object],
    *,
    licence: str | None = None,
    url: str | None = None,
    table: Path | None = None,
) -> JsonObject:
    """Return the Croissant metadata of a release and its file, whose address is relative to that of the metadata.

    `basic` is the part of that name of its registry record, `licence` and `url` those of the release, and `table` a CSV
    or Parquet file that was made of the release by `dpcube export` or `dpcube synth`.
    """
    given = {key: text for key, text in (("license", licence), ("url", url)) if text}
    curators = basic["data_curators"]
    assert isinstance(curators, list)
    files = [_file(path, "application/zip", "The release: noisy counts, domain and privacy parameters.")]
    records = [_privacy(release), _attributes(release), _bins(release)]
    if table is not None:
        files.append(_file(table, _format(table), "A table made of the release."))
        records.append(_columns(release, table))
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        "name": basic["name"],
        "description": f"{basic['description']} {_protection(release)}",
        "creator": {"@type": "sc:Organization", "name": curators[0]["data_curator_name"]},
        "datePublished": basic["publication_date"],
        "version": "1.0.0",  # a release never changes
        "keywords": ["differential privacy", "histogram", "data cube"],
        **given,
        "rai:personalSensitiveInformation": _protection(release),
        "rai:dataLimitations": " ".join(["Counts are noisy.", doubts(trust(release))]).strip(),
        "prov:wasGeneratedBy": {"@type": "prov:Activity", "prov:label": f"Release by {release.provenance.library}"},
        "distribution": files,
        "recordSet": records,
    }


def missing_properties(metadata: Mapping[str, object]) -> list[str]:
    """Return the properties that Croissant requires and that nobody gave."""
    return [name for name in ("license", "url") if name not in metadata]


def check_table(table: Path) -> None:
    """Raise InputError unless a file can be described as a table."""
    _format(table)
    if not table.is_file():
        msg = f"there is no table {table}; make one with dpcube export or dpcube synth, or leave --table out"
        raise InputError(msg)


def _format(table: Path) -> str:
    found = TABLE_FORMATS.get(table.suffix.lower())
    if found is None:
        msg = f"the format of {table} is unknown; name a table that ends in {' or '.join(TABLE_FORMATS)}"
        raise InputError(msg)
    return found


def _protection(release: Release) -> str:
    made = release.provenance
    unit = "one row" if made.unit is None else f"all rows with the same {made.unit} (at most {made.max_rows} counted)"
    return f"It satisfies differential privacy with epsilon {made.epsilon} for {unit}, added or removed."


def _file(path: Path, media: str, words: str) -> JsonObject:
    content = path.read_bytes()
    return {
        "@type": "cr:FileObject",
        "@id": _name(path.name),
        "name": path.name,
        "description": words,
        "contentUrl": quote(path.name),
        "contentSize": f"{len(content)} B",
        "encodingFormat": media,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _privacy(release: Release) -> JsonObject:
    made = release.provenance
    record = {
        "epsilon": (
            "sc:Float",
            "Privacy parameter of the whole release, rounded up.",
            rounded_up_epsilon(made.epsilon),
        ),
        "epsilon_exact": ("sc:Text", "The same, as a decimal or a fraction.", str(made.epsilon)),
        "delta": ("sc:Float", "Zero: differential privacy is pure.", 0.0),
        "unit": ("sc:Text", "Column whose value names a privacy unit; empty if a unit is one row.", made.unit or ""),
        "max_rows": ("sc:Integer", "Largest number of rows of one unit that were counted.", made.max_rows or 1),
        "neighbours": ("sc:Text", "Tables that are alike up to noise.", "one unit added or removed"),
        "noise": ("sc:Text", "Law of the noise.", "two-sided geometric (discrete Laplace), exact"),
        "strategy": ("sc:Text", "What chose the counts that were measured.", made.strategy),
        "library": ("sc:Text", "Program that made the release.", made.library),
        "cells": ("sc:Integer", "Number of cells of the domain.", release.domain.size),
        "digest": ("sc:Text", "SHA-256 digest of the release.", release.digest),
    }
    fields = {name: (kind, words) for name, (kind, words, _) in record.items()}
    return _listed("privacy", "Privacy parameters.", fields, [{name: held for name, (*_, held) in record.items()}])


def _attributes(release: Release) -> JsonObject:
    fields = {
        "name": ("sc:Text", "Name of the attribute."),
        "kind": ("sc:Text", "Kind of its values."),
        "extent": ("sc:Text", "Values that it covers."),
        "cells": ("sc:Integer", "Number of its bins, with those of irregular values."),
    }
    rows = [
        {"name": one.name, "kind": one.kind, "extent": one.extent(), "cells": one.size}
        for one in release.domain.attributes
    ]
    return {**_listed("attributes", "Attributes of the domain.", fields, rows), "key": {"@id": "attributes/name"}}


def _bins(release: Release) -> JsonObject:
    fields = {
        "attribute": ("sc:Text", "Name of the attribute."),
        "cell": ("sc:Integer", "Number of the bin, from 0."),
        "label": ("sc:Text", "Values of the bin."),
    }
    rows = [
        {"attribute": one.name, "cell": cell, "label": label}
        for one in release.domain.attributes
        if one.size <= MAX_LISTED_BINS
        for cell, label in enumerate(one.labels())
    ]
    words = f"Bins of each attribute of at most {MAX_LISTED_BINS:,} of them."
    made = _listed("bins", words, fields, rows)
    first = made["field"]
    assert isinstance(first, list)
    first[0]["references"] = {"field": {"@id": "attributes/name"}}
    return made


def _listed(
    name: str, words: str, fields: Mapping[str, tuple[str, str]], rows: Sequence[Mapping[str, object]]
) -> JsonObject:
    """Return a record set whose records stand in the metadata."""
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": words,
        "field": [_field(f"{name}/{one}", one, text, kind) for one, (kind, text) in fields.items()],
        "data": [{f"{name}/{key}": held for key, held in row.items()} for row in rows],
    }


def _field(identity: str, name: str, words: str, kind: str) -> JsonObject:
    return {"@type": "cr:Field", "@id": identity, "name": name, "description": words, "dataType": kind}


def _columns(release: Release, table: Path) -> JsonObject:
    """Return the record set of the columns of a table, with the type that each has in the file."""
    try:
        schema = pq.read_schema(table) if table.suffix.lower() == ".parquet" else pacsv.open_csv(table).schema
    except (pa.ArrowException, OSError):
        msg = f"{table} cannot be read as a table; make it anew with dpcube export or dpcube synth"
        raise InputError(msg) from None
    attributes = {one.name: one for one in release.domain.attributes}
    fields = []
    for column in schema:
        field = _field(
            f"rows/{_name(column.name)}", column.name, _about(attributes.get(column.name)), _kind(column.type)
        )
        source = {"fileObject": {"@id": _name(table.name)}, "extract": {"column": column.name}}
        fields.append({**field, "source": source})
    return {
        "@type": "cr:RecordSet",
        "@id": "rows",
        "name": "rows",
        "description": f"Rows of {table.name}.",
        "field": fields,
    }


def _about(attribute: Attribute | None) -> str:
    return "Computed from the noisy counts." if attribute is None else f"{attribute.kind}, {attribute.extent()}"


def _kind(kind: pa.DataType) -> str:
    """Return the schema.org type of a column."""
    types = pa.types
    if types.is_integer(kind):
        return "sc:Integer"
    if types.is_floating(kind):
        return "sc:Float"
    if types.is_boolean(kind):
        return "sc:Boolean"
    return "sc:Date" if types.is_date(kind) else "sc:Text"


def _name(text: str) -> str:
    """Return a name as a part of an IRI."""
    return quote(text, safe="")
