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
from dpcube.curator.gate import Gate
from dpcube.strategy import TwoPhase
from dpcube.testing import SeededNoise
from dpcube.transcript import Provenance

DOMAIN = Domain((Integer(name="age", min=20, max=24), Category(name="sex", values=("F", "M", "X"), null="cell")))
PARAMETERS = TwoPhase().parameters()

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]


def make_release(*, seed: int = 1) -> Release:
    """A small release of cells and boxes, with seeded noise."""
    exact = np.arange(20).reshape(5, 4) ** 2 % 37
    transcript = TwoPhase(slack=0, noise_corrected=False).run(Gate(exact, Fraction(1, 2), noise=SeededNoise(seed)))
    return Release(DOMAIN, transcript, Provenance("dpcube", Fraction(1, 2), "dpcube test", PARAMETERS, private=False))


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
