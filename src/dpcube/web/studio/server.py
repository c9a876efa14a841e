"""HTTP server of the curator's page."""

from collections.abc import Callable
from importlib.resources import files

from dpcube.web.loopback import LoopbackServer, Site
from dpcube.web.studio.session import StudioSession

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
    """The server of one session, on a port of 127.0.0.1; 0 is any free port."""

    def __init__(self, session: StudioSession, port: int = 0) -> None:
        self.session = session
        parts = {path: (_part(name), kind) for path, (name, kind) in PARTS.items()}
        actions = {name: getattr(session, name) for name in ACTIONS}
        super().__init__(Site("dpcube studio", POLICY, parts, actions), port)


def _part(name: str) -> Callable[[str], bytes]:
    content = files("dpcube.web.studio").joinpath("page", name).read_bytes()
    return lambda key: content.replace(b"{{key}}", key.encode())
