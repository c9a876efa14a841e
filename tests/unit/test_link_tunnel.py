"""What one engine sends comes out at the other, whatever opens first; a peer cannot open what it should not."""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from dpcube.core.errors import LinkageError
from dpcube.link.limits import MAX_STREAMS
from dpcube.link.secure.channel import Channel, Frame, FrameKind, await_peer, open_listener, reach_peer
from dpcube.link.secure.credentials import Credentials, shared_key, write_shared_key
from dpcube.link.secure.engine import Tunnel


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    path = tmp_path_factory.mktemp("key") / "key"
    write_shared_key(path)
    return shared_key(path)


@pytest.fixture
def ends(key: Credentials) -> Iterator[tuple[Channel, Channel]]:
    with open_listener("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(await_peer, listener, key, seconds=20)
        connector = reach_peer("127.0.0.1", listener.getsockname()[1], key)
        with awaited.result() as made, connector:
            yield made, connector


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="dpcube-") as made:  # a short name, as sockets need
        yield Path(made)


@contextlib.contextmanager
def carried(ends: tuple[Channel, Channel], folder: Path) -> Iterator[None]:
    """Both ends of a tunnel at work, between sockets `a`, `to-b` on one side and `b`, `to-a` on the other."""
    stop = threading.Event()

    def carry(tunnel: Tunnel) -> None:
        while not stop.is_set():
            poller = select.poll()
            for descriptor, events in tunnel.watched().items():
                poller.register(descriptor, events)
            assert tunnel.turn(dict(poller.poll(20))) is None

    sides = [("to-b", "a"), ("to-a", "b")]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        tunnels = [
            stack.enter_context(Tunnel(end, doorway=folder / door, engine=folder / own))
            for end, (door, own) in zip(ends, sides, strict=True)
        ]
        running = [pool.submit(carry, tunnel) for tunnel in tunnels]
        try:
            yield
        finally:
            stop.set()
            for one in running:
                one.result()


def local(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(300)
    made.connect(str(path))
    return made


def read_all(one: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size and (part := one.recv(2**16)):
        received += part
    return bytes(received)


def served(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(300)
    made.bind(str(path))
    made.listen()
    return made


@pytest.mark.parametrize("is_early", [True, False])
def test_bytes_go_to_and_fro_even_before_the_other_engine_listens(
    ends: tuple[Channel, Channel], folder: Path, *, is_early: bool
) -> None:
    there, back = (np.random.default_rng(seed).bytes(3_000_000) for seed in (1, 2))
    with contextlib.ExitStack() as stack:
        late = None if is_early else stack.enter_context(served(folder / "b"))
        stack.enter_context(carried(ends, folder))
        ours = stack.enter_context(local(folder / "to-b"))
        with ThreadPoolExecutor(2) as pool:
            sending = pool.submit(ours.sendall, there)
            time.sleep(0.1)
            server = late or stack.enter_context(served(folder / "b"))
            theirs = stack.enter_context(server.accept()[0])
            theirs.settimeout(300)
            answering = pool.submit(theirs.sendall, back)
            reading = pool.submit(read_all, theirs, len(there)) if is_early else None
            assert read_all(ours, len(back)) == back
            assert (reading.result() if reading else read_all(theirs, len(there))) == there
            assert sending.result() is answering.result() is None
        ours.close()
        assert theirs.recv(1) == b""


def refused(ends: tuple[Channel, Channel], folder: Path, send: Callable[[Channel], None]) -> str:
    send(ends[1])
    ends[1].flush()
    with Tunnel(ends[0], doorway=folder / "door", engine=folder / "own") as tunnel:
        until = time.monotonic() + 300
        try:
            while time.monotonic() < until:
                tunnel.turn({ends[0].fileno(): select.POLLIN})
        except LinkageError as error:
            return str(error)
    return "not refused"


def opens(*numbers: int) -> Callable[[Channel], None]:
    def send(end: Channel) -> None:
        for number in numbers:
            end.queue(FrameKind.OPEN, struct.pack(">I", number))

    return send


@pytest.mark.parametrize("numbers", [(0,), (1, 1), tuple(range(1, 2 * MAX_STREAMS + 2, 2))])
def test_streams_that_cannot_be_are_refused(
    ends: tuple[Channel, Channel], folder: Path, numbers: tuple[int, ...]
) -> None:
    """Of our own numbers, twice the same, or too many."""
    assert "invalid stream" in refused(ends, folder, opens(*numbers))


def test_a_frame_that_names_no_stream_is_refused(ends: tuple[Channel, Channel], folder: Path) -> None:
    assert "without a stream number" in refused(ends, folder, lambda end: end.queue(FrameKind.DATA, b"abc"))


def test_what_comes_for_a_closed_stream_is_dropped(ends: tuple[Channel, Channel], folder: Path) -> None:
    ends[1].queue(FrameKind.DATA, struct.pack(">I", 7) + b"late")
    ends[1].queue(FrameKind.CLOSE, struct.pack(">I", 7))
    ends[1].queue(FrameKind.DONE)
    ends[1].send(b"what follows is left")
    ends[1].flush()
    with Tunnel(ends[0], doorway=folder / "door", engine=folder / "own") as tunnel:
        frame: Frame | None = None
        until = time.monotonic() + 300
        while frame is None and time.monotonic() < until:
            frame = tunnel.turn({ends[0].fileno(): select.POLLIN})
    assert frame == (FrameKind.DONE, b"")
    assert ends[0].receive() == b"what follows is left"


def test_a_folder_of_too_long_a_name_is_told(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(LinkageError, match="TMPDIR"):
        Tunnel(ends[0], doorway=deep / "door", engine=deep / "own")
