"""The page as one HTML file: its modules, its style, its contents and DuckDB inlined.

There is nothing to build. The modules are written for a browser that imports them; here each becomes a function that
returns what it exports, called in the order below, and what it imports is taken from the modules before it. A policy in
the page states what may run: this very script and style by their digests, no network, no `eval`.

DuckDB is npm's package `@duckdb/duckdb-wasm` (MIT), of one version. dpcube fetches nothing: the user names the archive,
or the folder it was unpacked to. What is not this very version, by its digest, is refused, for it will run wherever the
page is read.
"""

import base64
import hashlib
import io
import re
import tarfile
import zlib
from html import escape
from importlib.resources import files
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


MODULES = (
    "source",
    "weights",
    "marginals",
    "walks",
    "estimates",
    "answers",
    "questions",
    "shown",
    "drawing",
    "bars",
    "heatmap",
    "headline",
    "saving",
    "state",
    "cards",
    "maps",
    "elsewhere",
    "engine",
    "statement",
    "ownsql",
    "remote",
    "results",
    "sqlbox",
    "synthetic",
    "main",
)
"""The modules of the page, each below those that it imports."""
IMPORTED = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORTED = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def explorer_page(contents: bytes | None, *, title: str, key: str = "", engine: PageEngine | None = None) -> str:
    """Return the page, with its contents inside, and an engine for SQL if one is given.

    Without contents it asks the server that gave it, with a key.
    """
    embedded = "" if contents is None else base64.b64encode(contents).decode()
    policy = page_policy(served=contents is None, engine=engine is not None)
    parts = {"policy": policy, "title": escape(title), "key": key, "engine": _embedded(engine)}
    parts |= {"style": _part("page.css"), "contents": embedded, "script": _script()}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def page_policy(*, served: bool, engine: bool = False) -> str:
    """Return what the page may load and run: its own script and style, and from where it was served, if it was.

    An engine is a worker and a program that travel inside: the one is a blob, the other a data: address.
    """
    connect = " connect-src 'self';" if served else " connect-src data:; worker-src blob:;" if engine else ""
    program = " 'wasm-unsafe-eval'" if engine else ""
    return (
        f"default-src 'none'; script-src '{_digest(_script())}'{program}; "
        f"style-src '{_digest(_part('page.css'))}';{connect} "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _embedded(engine: PageEngine | None) -> str:
    if engine is None:
        return ""
    parts = {"engine-worker": engine.worker, "engine": engine.program}
    return "".join(
        f'<script type="application/octet-stream" id="{name}">{base64.b64encode(part).decode()}</script>\n'
        for name, part in parts.items()
    )


def _script() -> str:
    return '"use strict";\n(() => {\nconst modules = {};\n' + "\n".join(map(_as_function, MODULES)) + "\n})();\n"


def _as_function(name: str) -> str:
    text = _part(f"{name}.js")
    exported = ", ".join(found[2] for found in EXPORTED.finditer(text))
    body = EXPORTED.sub(r"\1 \2", IMPORTED.sub(r"const \1 = modules.\2;", text))
    return f"modules.{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


def _part(name: str) -> str:
    return (files("dpcube.web.explorer") / "page" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the digest by which a policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
