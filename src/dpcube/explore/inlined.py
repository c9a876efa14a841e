"""The page as one file: its modules, its style and its contents enter; HTML that needs nothing else leaves.

There is nothing to build. The modules are written for a browser that imports them; here each becomes a function that
returns what it exports, called in the order below, and what it imports is taken from the modules before it. What may
run is told by a policy in the page: this very script and style by their digests, no network, no `eval`.
"""

import base64
import hashlib
import re
from html import escape
from importlib.resources import files

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
    "remote",
    "results",
    "sqlbox",
    "synthetic",
    "main",
)
"""The modules of the page, each below those that it imports."""
IMPORTED = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORTED = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def explorer_page(contents: bytes | None, *, title: str, key: str = "") -> str:
    """Return the page, with its contents inside; without any it asks the server that gave it, with a key."""
    embedded = "" if contents is None else base64.b64encode(contents).decode()
    parts = {"policy": page_policy(served=contents is None), "title": escape(title), "key": key}
    parts |= {"style": _part("page.css"), "contents": embedded, "script": _script()}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def page_policy(*, served: bool) -> str:
    """Return what the page may load and run: its own script and style, and from where it was served, if it was."""
    connect = " connect-src 'self';" if served else ""
    return (
        f"default-src 'none'; script-src '{_digest(_script())}'; style-src '{_digest(_part('page.css'))}';{connect} "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _script() -> str:
    return '"use strict";\n(() => {\nconst modules = {};\n' + "\n".join(map(_as_function, MODULES)) + "\n})();\n"


def _as_function(name: str) -> str:
    text = _part(f"{name}.js")
    exported = ", ".join(found[2] for found in EXPORTED.finditer(text))
    body = EXPORTED.sub(r"\1 \2", IMPORTED.sub(r"const \1 = modules.\2;", text))
    return f"modules.{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


def _part(name: str) -> str:
    return (files("dpcube.explore") / "page" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the digest by which a policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
