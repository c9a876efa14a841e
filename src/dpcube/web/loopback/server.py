"""A page on loopback: HTTP enters, what its site answers leaves, for whoever `entry` lets in.

Each request has a connection and a thread of its own. There are at most MOST_AT_ONCE, a request is short and must have
arrived in time, and where there is no room the one that has been arriving for longest is dropped: what one client does
cannot cost more than that, nor keep others out.
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
from dpcube.web.loopback.entry import HEADERS, Doorkeeper

LARGEST_BODY = 2**20
MOST_AT_ONCE = 64
ARRIVING = 15.0  # seconds within which a request must have arrived, or a piece of an answer must have been taken
GRACE = 2.0  # seconds for which a request may be arriving while others wait for room
PIECE = 2**20


class Download(NamedTuple):
    """An answer that is a file: what it holds, how many bytes, of which kind. It is closed when it was sent."""

    content: BinaryIO
    length: int
    kind: str


SiteAnswer = dict[str, Any] | bytes | Download
"""An answer: facts, JSON that is written already, or a file."""
JSON = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Site:
    """What is served: parts of a page by their paths, what it can ask for, and what the page may load.

    A part is told the key of its page, or "" where it must not be given, and is told as bytes, of a kind.
    """

    command: str
    policy: str
    parts: Mapping[str, tuple[Callable[[str], bytes], str]]
    actions: Mapping[str, Callable[[dict[str, Any]], SiteAnswer]]

    @property
    def closed(self) -> str:
        """What is said to whoever is not let in."""
        return (
            f"This page opens once, by the address that the terminal shows. Start {self.command} again for a new one."
        )


class NoRequestError(Exception):
    """What was sent is not what the page sends; `status` says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class LoopbackServer(ThreadingHTTPServer):
    """The server of one site, on a port of 127.0.0.1; 0 is any that is free."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, site: Site, port: int = 0) -> None:
        self.site = site
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._lock, self._arriving = threading.Lock(), dict[socket.socket, float]()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError:
            msg = f"port {port} of 127.0.0.1 is taken or not allowed; choose another, or none (--port 0)"
            raise InputError(msg) from None
        self.entry = Doorkeeper(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for room before there is another thread; who has been arriving for long makes room."""
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
        """Answer one request in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_arrived(request)
            self._room.release()

    def has_arrived(self, request: socket.socket) -> None:
        """Note that a request was read, or given up: it makes room for nobody any more."""
        with self._lock:
            self._arriving.pop(request, None)

    def _drop_slowest(self) -> None:
        with self._lock:
            slowest = next(iter(self._arriving), None)  # the first that came
            if slowest is not None and time.monotonic() - self._arriving[slowest] > GRACE:
                del self._arriving[slowest]
                with suppress(OSError):
                    slowest.shutdown(socket.SHUT_RDWR)  # whoever reads from it is told that it ended

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is no matter, and a traceback could show rows."""


class _Arriving(RawIOBase):
    """What a client sends, until its time is up: a byte now and then does not prolong it."""

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
        """Read no longer than a request may take."""
        super().setup()
        self.rfile.close()
        self.rfile = BufferedReader(_Arriving(self.connection))

    def do_GET(self) -> None:
        """Give a part of the page; its address with the token gives it once, and the cookie and the key with it."""
        entry, asked = self.server.entry, urlsplit(self.path)
        self.server.has_arrived(self.connection)
        if not entry.is_host(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of the page")
            return
        token = parse_qs(asked.query).get("token", [""])[0]
        if asked.path == "/" and token:
            if entry.use(token):
                self._part("/", key=entry.key, cookie=entry.cookie_header)
            else:
                self._refuse(HTTPStatus.FORBIDDEN, self.server.site.closed)
        elif not entry.knows(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.FORBIDDEN, self.server.site.closed)
        elif asked.path not in self.server.site.parts:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        else:
            self._part(asked.path)

    def do_POST(self) -> None:
        """Do what the page asks for, if it is the page that asks."""
        entry, site, action = self.server.entry, self.server.site, self.path.removeprefix("/do/")
        if not entry.is_host(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of the page")
        elif not entry.may_call(self.headers):  # type: ignore[arg-type]
            self._refuse(HTTPStatus.FORBIDDEN, site.closed)
        elif action not in site.actions or not self.path.startswith("/do/"):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such action")
        else:
            self._do(site.actions[action])

    def _request(self) -> dict[str, Any]:
        """Return the JSON object that was sent, or raise."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise NoRequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if not (length.isascii() and length.isdigit()):
            raise NoRequestError(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:
            raise NoRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            request = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            request = None
        self.server.has_arrived(self.connection)
        if not isinstance(request, dict):
            raise NoRequestError(HTTPStatus.BAD_REQUEST)
        return request

    def _do(self, act: Callable[[dict[str, Any]], SiteAnswer]) -> None:
        try:
            request = self._request()
        except NoRequestError as refused:
            self._refuse(refused.status, f"a request is a JSON object of at most {LARGEST_BODY:,} bytes")
            return
        try:
            told = act(request)
        except DpcubeError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, said_of_error(error))
        except Exception as error:  # noqa: BLE001, RUF100 (a traceback could show rows, so only the kind is named)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, said_of_error(error))
        else:
            self._tell(told)

    def _tell(self, told: SiteAnswer) -> None:
        if isinstance(told, Download):
            self._send(told)
        else:
            content = told if isinstance(told, bytes) else json.dumps(told).encode()
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


def said_of_error(error: Exception) -> str:
    """Return what is said of an error: ours as it is, and of others only the kind, for they may quote rows."""
    if isinstance(error, DpcubeError):
        return " ".join(str(error).split())
    return f"internal error ({type(error).__name__}); this is a fault in dpcube, please report it"


def serve(server: LoopbackServer) -> None:
    """Serve until interrupted."""
    try:
        server.serve_forever()
    finally:
        server.server_close()
