"""DuckDB for the page: the parts it needs of a package that the user has, checked by digest.

The package is npm's `@duckdb/duckdb-wasm` (MIT), of one version. dpcube fetches nothing: the user names the archive, or
the folder it was unpacked to. What is not this very version is refused, for it will run wherever the page is read.
"""

import base64
import hashlib
import io
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpcube.core.errors import InputError

PACKAGE, PACKAGE_VERSION = "@duckdb/duckdb-wasm", "1.32.0"
ENGINE_PARTS = {
    "duckdb-browser-eh.worker.js": "f8ab72b6b90b3ad83077d47426d4a99d5d9a4c7e07cba1a2be37d655adc7c1ab",
    "duckdb-eh.wasm": "4c221bfa59c11f24dbd750e70c90b9252eca6eec5633936e6a2ec766e55fd879",
}
"""The files that a page needs, and their digests (SHA-256)."""
LARGEST_PART = 2**26
ENVELOPE_ROWS = 1024


class PageEngine(NamedTuple):
    """The parts of the engine, compressed by zlib."""

    worker: bytes
    program: bytes


def page_engine(package: Path | None) -> PageEngine:
    """Return the engine in a package's archive or folder, or an InputError that says how to get it."""
    if package is None:
        msg = f"--sql needs DuckDB for browsers: get {PACKAGE} {PACKAGE_VERSION} once (`npm pack {PACKAGE}@"
        msg += f"{PACKAGE_VERSION}`, or download that version's .tgz), and name the .tgz or its folder by --duckdb-wasm"
        raise InputError(msg)
    worker, program = (_checked(package, name, digest) for name, digest in ENGINE_PARTS.items())
    return PageEngine(zlib.compress(worker, 6), zlib.compress(program, 6))


def _checked(package: Path, name: str, digest: str) -> bytes:
    try:
        content = _read(package, name)
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        msg = f"--duckdb-wasm {package}: cannot be read ({type(error).__name__}); name the .tgz or folder of {PACKAGE}"
        raise InputError(msg) from None
    if content is None:
        msg = f"--duckdb-wasm {package}: there is no dist/{name} in it; name the .tgz or folder of {PACKAGE}"
        raise InputError(msg)
    if hashlib.sha256(content).hexdigest() != digest:
        msg = f"--duckdb-wasm {package}: {name} is not that of {PACKAGE} {PACKAGE_VERSION}; get that version"
        raise InputError(msg)
    return content


def _read(package: Path, name: str) -> bytes | None:
    """Return a file of the package, or nothing where it has none or one that is far too large."""
    if package.is_dir():
        places = (package / folder / name for folder in ("", "dist", "package/dist"))
        found = next((place for place in places if place.is_file()), None)
        return None if found is None or found.stat().st_size > LARGEST_PART else found.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(package.read_bytes()), mode="r:gz") as archive:
        for member in archive:
            if member.name == f"package/dist/{name}" and member.isfile() and member.size <= LARGEST_PART:
                part = archive.extractfile(member)
                return None if part is None else part.read()
    return None


def arrow_envelope() -> dict[str, object]:
    """Return the heads of an Arrow stream of two columns of doubles, x and y, in batches of so many rows.

    A page puts the numbers behind the head of each batch, and needs no library to write one.
    """
    import pyarrow as pa

    numbers = pa.array(np.zeros(ENVELOPE_ROWS))
    batch = pa.record_batch([numbers, numbers], names=["x", "y"])
    head = batch.serialize().to_pybytes()[: -16 * ENVELOPE_ROWS]
    parts = {"schema": batch.schema.serialize().to_pybytes(), "batch": head}
    return {name: base64.b64encode(part).decode() for name, part in parts.items()} | {"rows": ENVELOPE_ROWS}
