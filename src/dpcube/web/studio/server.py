"""The curator's page as a site on loopback: a desk enters, a server of its page and its actions leaves."""

from collections.abc import Callable
from importlib.resources import files

from dpcube.web.loopback import LoopbackServer, Site
from dpcube.web.studio.desk import Desk

PARTS = {
    "/": ("index.html", "text/html"),
    "/studio.js": ("studio.js", "text/javascript"),
    "/studio.css": ("studio.css", "text/css"),
}
ACTIONS = ("table", "look", "size", "plan", "check", "save", "prepare", "release")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class StudioServer(LoopbackServer):
    """The server of one desk, on a port of 127.0.0.1; 0 is any that is free."""

    def __init__(self, desk: Desk, port: int = 0) -> None:
        self.desk = desk
        parts = {path: (_part(name), kind) for path, (name, kind) in PARTS.items()}
        actions = {name: getattr(desk, name) for name in ACTIONS}
        super().__init__(Site("dpcube studio", POLICY, parts, actions), port)


def _part(name: str) -> Callable[[str], bytes]:
    content = files("dpcube.web.studio").joinpath("page", name).read_bytes()
    return lambda key: content.replace(b"{{key}}", key.encode())
