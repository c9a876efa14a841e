"""Threaded HTTP server of one site on 127.0.0.1, for authenticated requests (`access`).

Each request has its own connection and thread. At most MAX_REQUESTS are served at a time, each of limited size, and
each must arrive within a limit of time. At the maximum, the request that has been arriving longest is dropped, so that
no client can exhaust the server or keep others out.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import parse_qs, urlsplit

from dpcube.core.errors import DpcubeError, InputError
from dpcube.web.loopback.access import HEADERS, AccessControl

MAX_BODY = 2**20
MAX_REQUESTS = 64
ARRIVING = 15.0  # seconds within which a request must arrive, and a piece of a response must be received
GRACE = 2.0  # seconds for which a request may be arriving while others wait
PIECE = 2**20


class Download(NamedTuple):
    """A response that is a file: content, length in bytes, media type. The content is closed after sending."""

    content: BinaryIO
    length: int
    kind: str


SiteResponse = dict[str, Any] | bytes | Download
"""A response: an object to serialise, serialised JSON, or a file."""
JSON = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Site:
    """A served site: the resources of its page by path, its actions by name, and its Content-Security-Policy.

    A resource is a function of the page's key, or of "" where the key must not be sent, with its media type.
    """

    command: str
    policy: str
    parts: Mapping[str, tuple[Callable[[str], bytes], str]]
    actions: Mapping[str, Callable[[dict[str, Any]], SiteResponse]]

    @property
    def closed(self) -> str:
        """The response to requests that are not authenticated."""
        return (
            f"This page opens once, at the address shown in the terminal. Start {self.command} again for a new address."
        )


class BadRequestError(Exception):
    """A request that the page does not make; `status` is the reason."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class LoopbackServer(ThreadingHTTPServer):
    """The server of one site, on a port of 127.0.0.1; 0 is any that is free."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, site: Site, port: int = 0) -> None:
        self.site = site
        self._room = threading.BoundedSemaphore(MAX_REQUESTS)
        self._lock, self._arriving = threading.Lock(), dict[socket.socket, float]()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError:
            msg = f"port {port} of 127.0.0.1 is taken or not allowed; choose another one, or any free one (--port 0)"
            raise InputError(msg) from None
        self.access = AccessControl(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for a free slot before starting another thread; drop slow requests meanwhile."""
        while not self._room.acquire(timeout=0.1):
            self._drop_slowest()
        with self._lock:
            self._arriving[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.has_arrived(request)
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one request in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_arrived(request)
            self._room.release()

    def has_arrived(self, request: socket.socket) -> None:
        """Record that a request was read or abandoned, and is not dropped any more."""
        with self._lock:
            self._arriving.pop(request, None)

    def _drop_slowest(self) -> None:
        with self._lock:
            slowest = next(iter(self._arriving), None)  # the first that came
            if slowest is not None and time.monotonic() - self._arriving[slowest] > GRACE:
                del self._arriving[slowest]
                with suppress(OSError):
                    slowest.shutdown(socket.SHUT_RDWR)  # its reader gets the end of the stream

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client may disconnect, and a traceback could show rows."""


class _Arriving(RawIOBase):
    """Input stream of a connection with one deadline, which slow sending does not extend."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, time.monotonic() + ARRIVING

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer
    server_version, sys_version = "dpcube", ""

    def setup(self) -> None:
        """Read through a stream with a deadline."""
        super().setup()
        self.rfile.close()
        self.rfile = BufferedReader(_Arriving(self.connection))

    def do_GET(self) -> None:
        """Send a resource of the page; the token gives the page once, with the cookie and the key."""
        access, asked = self.server.access, urlsplit(self.path)
        self.server.has_arrived(self.connection)
        if not access.is_host(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of the page")
            return
        token = parse_qs(asked.query).get("token", [""])[0]
        if asked.path == "/" and token:
            if access.use(token):
                self._part("/", key=access.key, cookie=access.cookie_header)
            else:
                self._refuse(HTTPStatus.FORBIDDEN, self.server.site.closed)
        elif not access.is_authenticated(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.FORBIDDEN, self.server.site.closed)
        elif asked.path not in self.server.site.parts:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        else:
            self._part(asked.path)

    def do_POST(self) -> None:
        """Run an action, if the page itself calls it."""
        access, site, action = self.server.access, self.server.site, self.path.removeprefix("/do/")
        if not access.is_host(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of the page")
        elif not access.may_call(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.FORBIDDEN, site.closed)
        elif action not in site.actions or not self.path.startswith("/do/"):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such action")
        else:
            self._do(site.actions[action])

    def _request(self) -> dict[str, Any]:
        """Return the JSON object that was sent, or raise."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise BadRequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if not (length.isascii() and length.isdigit()):
            raise BadRequestError(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            raise BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            request = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            request = None
        self.server.has_arrived(self.connection)
        if not isinstance(request, dict):
            raise BadRequestError(HTTPStatus.BAD_REQUEST)
        return request

    def _do(self, act: Callable[[dict[str, Any]], SiteResponse]) -> None:
        try:
            request = self._request()
        except BadRequestError as refused:
            self._refuse(refused.status, f"a request is a JSON object of at most {MAX_BODY:,} bytes")
            return
        try:
            response = act(request)
        except DpcubeError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, error_text(error))
        except Exception as error:  # noqa: BLE001, RUF100 (a traceback could show rows, so only the kind is named)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, error_text(error))
        else:
            self._respond(response)

    def _respond(self, response: SiteResponse) -> None:
        if isinstance(response, Download):
            self._send(response)
        else:
            content = response if isinstance(response, bytes) else json.dumps(response).encode()
            self._answer(HTTPStatus.OK, content, JSON)

    def _part(self, path: str, *, key: str = "", cookie: str | None = None) -> None:
        made, kind = self.server.site.parts[path]
        self._answer(HTTPStatus.OK, made(key), f"{kind}; charset=utf-8", cookie=cookie)

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        self._answer(status, json.dumps({"error": words}).encode(), JSON)

    def _answer(self, status: HTTPStatus, content: bytes, kind: str, *, cookie: str | None = None) -> None:
        self._begin(status, len(content), kind, cookie=cookie)
        for start in range(0, len(content), PIECE):
            self.wfile.write(memoryview(content)[start : start + PIECE])

    def _send(self, file: Download) -> None:
        with file.content as content:
            self._begin(HTTPStatus.OK, file.length, file.kind)
            while piece := content.read(PIECE):
                self.wfile.write(piece)

    def _begin(self, status: HTTPStatus, length: int, kind: str, *, cookie: str | None = None) -> None:
        self.server.has_arrived(self.connection)
        self.connection.settimeout(ARRIVING)
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", self.server.site.policy)
        if cookie is not None:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse a malformed request, with the headers of every response."""
        self._refuse(HTTPStatus(code), "the page makes no such request")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002, RUF100 (the library's signature)
        """Write no log: an address may contain the token."""

    def finish(self) -> None:
        """Close the connection, also of a client that has disconnected."""
        try:
            super().finish()
        except (OSError, ValueError):
            self.connection.close()


def error_text(error: Exception) -> str:
    """Return the text of an error; of foreign ones only the type, because their messages may quote rows."""
    if isinstance(error, DpcubeError):
        return " ".join(str(error).split())
    return f"internal error ({type(error).__name__}); this is a fault in dpcube, please report it"


def serve(server: LoopbackServer) -> None:
    """Serve until interrupted.

    This thread only waits. One that answers may be interrupted inside a callback, where Python drops the exception, and
    would then serve on.
    """
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        serving.join()
    finally:
        server.shutdown()
        server.server_close()
