"""The server of pages on this machine: what slow, large and greedy clients can do to it, which is little."""

import json
import queue
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from test_studio import Client

from dpcube.core.errors import InputError
from dpcube.web.loopback import Download, LoopbackServer, Site, server

LARGE = 64 * 2**20
GIVE_UP = 300.0
"""Seconds after which what is waited for will not come; how soon it comes is the machine's matter."""
Started = Callable[[], LoopbackServer]


def site() -> Site:
    actions: dict[str, Any] = {
        "echo": lambda request: request,
        "large": lambda _: Download(BytesIO(bytes(LARGE)), LARGE, "application/octet-stream"),
        "fail": lambda _: 1 / 0,
    }
    return Site("dpcube test", "default-src 'none'", {"/": (lambda key: f"key {key}".encode(), "text/html")}, actions)


@pytest.fixture
def start() -> Iterator[Started]:
    """Starts servers, with the limits of the module as they are by then."""
    running = []

    def started() -> LoopbackServer:
        made = LoopbackServer(site())
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        running.append((made, thread))
        return made

    yield started
    for made, thread in running:
        made.shutdown()
        thread.join()
        made.server_close()


def request_head(client: Client, length: int, **change: str) -> bytes:
    lines = [f"{name}: {value}" for name, value in (client.calling | change).items()]
    return "\r\n".join(["POST /do/echo HTTP/1.1", *lines, f"Content-Length: {length}", "", ""]).encode()


def ended(connection: socket.socket) -> bool:
    """Say whether the other side ends a connection, whatever it says before."""
    connection.settimeout(GIVE_UP)
    try:
        while connection.recv(2**16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


class Clock:
    """A clock of the server's that stands still unless it is moved: no test depends on how fast the machine is."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(server, "time", made := Clock())
    return made


def test_a_request_that_comes_byte_by_byte_is_dropped(
    start: Started, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes a second after the one before was read: none of them prolongs the time."""
    monkeypatch.setattr(server, "ARRIVING", 20.0)
    taken: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Watched(server._Arriving):
        def readinto(self, buffer: Any) -> int:
            try:
                number = super().readinto(buffer)
            except TimeoutError:
                taken.put("dropped")
                raise
            taken.put("read")
            return number

    monkeypatch.setattr(server, "_Arriving", Watched)
    client = Client(start())
    with socket.create_connection(("127.0.0.1", client.port)) as slow:
        said = []
        for byte in request_head(client, 2) + b"{}":
            with suppress(OSError):  # it was dropped, and that is told in a moment
                slow.send(bytes([byte]))
            said.append(taken.get(timeout=GIVE_UP))
            if said[-1] == "dropped":
                break
            clock.now += 1
        assert said == ["read"] * (len(said) - 1) + ["dropped"]
        assert len(said) <= 22
        assert ended(slow)
    assert client.call("echo", a=1)["a"] == 1


def test_a_body_that_does_not_come_is_not_waited_for(start: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ARRIVING", 0.5)
    client = Client(start())
    with socket.create_connection(("127.0.0.1", client.port)) as slow:
        with suppress(OSError):  # it may be dropped before all is sent
            slow.sendall(request_head(client, 100) + b"{")
        assert ended(slow)


def test_clients_who_dawdle_keep_nobody_out(start: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though none of them has used up its time, those that came first make room. Nobody waits behind the requests."""
    monkeypatch.setattr(server, "MAX_REQUESTS", 4)
    monkeypatch.setattr(server, "ARRIVING", 300.0)
    monkeypatch.setattr(server, "GRACE", 0.2)
    client = Client(start())
    slow = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(12)]
    for connection in slow:
        connection.sendall(b"POST /do/echo HTTP/1.1\r\nHost:")
    assert [client.call("echo", a=number)["a"] for number in range(3)] == [0, 1, 2]
    assert ended(slow[0])
    for connection in slow:
        connection.close()


def test_a_request_at_work_makes_room_for_nobody(start: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_REQUESTS", 1)
    monkeypatch.setattr(server, "GRACE", 0.05)
    made = start()
    at_work, go_on = threading.Event(), threading.Event()
    served = []  # in the order of the server: of two answers either may be read first

    def wait(request: dict[str, Any]) -> dict[str, Any]:
        at_work.set()
        assert go_on.wait(GIVE_UP)
        served.append(1)
        return request

    def echo(request: dict[str, Any]) -> dict[str, Any]:
        served.append(2)
        return request

    made.site.actions.update(wait=wait, echo=echo)  # type: ignore[attr-defined]
    told: list[dict[str, Any]] = []
    client = Client(made)
    first = threading.Thread(target=lambda: told.append(client.call("wait", a=1)))
    first.start()
    assert at_work.wait(GIVE_UP)
    second = threading.Thread(target=lambda: told.append(client.call("echo", a=2)))
    second.start()
    time.sleep(0.5)
    go_on.set()
    first.join()
    second.join()
    assert served == [1, 2]
    assert sorted(answer["a"] for answer in told) == [1, 2]


@pytest.mark.parametrize("length", [2**30, 10**12, 10**30])
def test_a_post_of_a_gigabyte_is_refused_unread(start: Started, length: int) -> None:
    client = Client(start())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(request_head(client, length))
        answer = connection.recv(2**16)
        assert answer.split(b" ")[1] == b"413"
        sent = 0
        try:
            while sent < 2**30:
                sent += connection.send(bytes(2**20))
        except OSError:
            pass
        assert sent < 2**28  # nobody reads it
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    assert client.call("echo", a=1)["a"] == 1


def test_a_body_without_a_length_is_refused(start: Started) -> None:
    client = Client(start())
    head = request_head(client, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(head + b"2\r\n{}\r\n0\r\n\r\n")
        assert connection.recv(2**16).split(b" ")[1] == b"411"


def test_who_does_not_take_an_answer_is_dropped(start: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the answer that is not taken has little time."""
    monkeypatch.setattr(server, "MAX_REQUESTS", 1)
    monkeypatch.setattr(server, "ARRIVING", GIVE_UP)
    made = start()

    def hurried(_: dict[str, Any]) -> Download:
        monkeypatch.setattr(server, "ARRIVING", 0.5)
        return Download(BytesIO(bytes(LARGE)), LARGE, "application/octet-stream")

    made.site.actions["hurried"] = hurried  # type: ignore[index]
    client = Client(made)
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(request_head(client, 2).replace(b"/do/echo", b"/do/hurried") + b"{}")
        assert connection.recv(1) == b"H"  # the answer has begun
        monkeypatch.setattr(server, "ARRIVING", GIVE_UP)
        assert client.call("echo", a=1)["a"] == 1
    status, headers, content = client.send("POST", "/do/large", client.calling, b"{}")
    assert (status, headers["Content-Type"], len(content)) == (200, "application/octet-stream", LARGE)


def test_a_fault_is_told_by_its_kind_alone(start: Started) -> None:
    told = Client(start()).call("fail")
    assert told["status"] == 500
    assert told["error"] == "internal error (ZeroDivisionError); this is a fault in dpcube, please report it"


def test_a_port_that_is_taken_is_said(start: Started) -> None:
    taken = start().server_address[1]
    with pytest.raises(InputError, match=f"port {taken} of 127.0.0.1 is taken or not allowed"):
        LoopbackServer(site(), taken)


def test_two_servers_have_cookies_of_their_own(start: Started) -> None:
    """A browser sends cookies to every port of a host: one name for all would log the first page out."""
    one, other = start(), start()
    assert one.access.cookie_name != other.access.cookie_name
    both = {"Cookie": "; ".join(s.access.cookie_header.partition(";")[0] for s in (one, other))}
    for made in (one, other):
        client = Client(made)
        status, _, content = client.send("GET", "/", client.let_in | both)
        assert (status, content) == (200, b"key ")  # the key is given with the token alone
        assert client.send("POST", "/do/echo", client.calling | both, json.dumps({}).encode())[0] == 200
