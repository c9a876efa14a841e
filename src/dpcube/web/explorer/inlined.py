"""The page as one HTML file: its modules, its style and its contents inlined.

There is nothing to build. The modules are written for a browser that imports them; here each becomes a function that
returns what it exports, called in the order below, and what it imports is taken from the modules before it. What may
run is told by a policy in the page: this very script and style by their digests, no network, no `eval`.
"""

import base64
import hashlib
import re
from html import escape
from importlib.resources import files

from dpcube.web.explorer.engine_package import PageEngine

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
