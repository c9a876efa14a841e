"""The curator's page on loopback: HTTP enters, what the desk answers leaves, for whoever `entry` lets in.

Each request has a connection and a thread of its own; there are at most MOST_AT_ONCE, a request is short, and a client
that dawdles is dropped: what one client does cannot cost more than that.
"""

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dpcube.errors import DpcubeError
from dpcube.studio.desk import Desk, said_of_error
from dpcube.studio.entry import HEADERS, Doorkeeper

LARGEST_BODY = 2**20
MOST_AT_ONCE = 64
DAWDLE = 15  # seconds that a client may be silent in the middle of a request
PARTS = {
    "/": ("index.html", "text/html"),
    "/studio.js": ("studio.js", "text/javascript"),
    "/studio.css": ("studio.css", "text/css"),
}
ACTIONS = ("table", "look", "size", "plan", "check", "save", "prepare", "release")
CLOSED = "This page opens once, by the address that the terminal shows. Start dpcube studio again for a new one."


class NoRequestError(Exception):
    """What was sent is not what the page sends; `status` says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class StudioServer(ThreadingHTTPServer):
    """The server of one desk, on a port of 127.0.0.1; 0 is any that is free."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, desk: Desk, port: int = 0) -> None:
        self.desk = desk
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(("127.0.0.1", port), _Handler)
        self.entry = Doorkeeper(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for room before there is another thread."""
        self._room.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is no matter, and a traceback could show rows."""


class _Handler(BaseHTTPRequestHandler):
    server: StudioServer
    server_version, sys_version, timeout = "dpcube", "", DAWDLE

    def do_GET(self) -> None:
        """Give a part of the page; its address with the token gives it once, and the cookie and the key with it."""
        entry, asked = self.server.entry, urlsplit(self.path)
        if not entry.is_host(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of the page")
            return
        token = parse_qs(asked.query).get("token", [""])[0]
        if asked.path == "/" and token:
            if entry.use(token):
                self._part("/", key=entry.key, cookie=entry.cookie_header)
            else:
                self._refuse(HTTPStatus.FORBIDDEN, CLOSED)
        elif not entry.knows(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.FORBIDDEN, CLOSED)
        elif asked.path not in PARTS:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        else:
            self._part(asked.path)

    def do_POST(self) -> None:
        """Do what the page asks for, if it is the page that asks."""
        entry, action = self.server.entry, self.path.removeprefix("/do/")
        if not entry.is_host(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of the page")
        elif not entry.may_call(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.FORBIDDEN, CLOSED)
        elif action not in ACTIONS or not self.path.startswith("/do/"):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such action")
        else:
            self._do(getattr(self.server.desk, action))

    def _request(self) -> dict[str, Any]:
        """Return the JSON object that was sent, or raise."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise NoRequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if not (length.isascii() and length.isdigit() and len(length) < 10):
            raise NoRequestError(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > LARGEST_BODY:
            raise NoRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            request = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            raise NoRequestError(HTTPStatus.BAD_REQUEST)
        return request

    def _do(self, act: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        try:
            status, told = HTTPStatus.OK, act(self._request())
        except NoRequestError as refused:
            status, told = refused.status, {"error": f"a request is a JSON object of at most {LARGEST_BODY:,} bytes"}
        except DpcubeError as error:
            status, told = HTTPStatus.UNPROCESSABLE_ENTITY, {"error": said_of_error(error)}
        except Exception as error:  # noqa: BLE001, RUF100 (a traceback could show rows, so only the kind is named)
            status, told = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": said_of_error(error)}
        self._answer(status, json.dumps(told).encode(), "application/json")

    def _part(self, path: str, *, key: str = "", cookie: str | None = None) -> None:
        name, kind = PARTS[path]
        content = files("dpcube.studio").joinpath("page", name).read_bytes().replace(b"{{key}}", key.encode())
        self._answer(HTTPStatus.OK, content, kind, cookie=cookie)

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        self._answer(status, json.dumps({"error": words}).encode(), "application/json")

    def _answer(self, status: HTTPStatus, content: bytes, kind: str, *, cookie: str | None = None) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if cookie is not None:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse what is no request of ours, with the headers that every answer has."""
        self._refuse(HTTPStatus(code), "this is no request that the page makes")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002, RUF100 (the library's signature)
        """Keep no log: an address may hold the token."""

    def finish(self) -> None:
        """Let a client that goes away go."""
        try:
            super().finish()
        except (OSError, ValueError):
            self.connection.close()


def serve(server: StudioServer) -> None:
    """Serve until interrupted."""
    try:
        server.serve_forever()
    finally:
        server.server_close()
