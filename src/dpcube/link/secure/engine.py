"""Secure-computation engine in a child process, with its watchdog and the tunnel to the peer's engine.

The engine ends its own process when its peer dies, and waits for ever for one that is silent. So it runs in a child
process, which is killed when the peer is gone or silent, when it makes no progress, or when this process is done.

**Tunnel.** The engine has no access to the network. It listens on and connects to sockets in a folder that only its
user may enter; its data travels as frames through the authenticated channel. So there is only one port and one TLS
setting. The engine's own server answers anybody and shows pages about itself; only the peer's engine can reach it.
"""

import io
import json
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import LinkageError
from dpcube.link.limits import MAX_STREAMS
from dpcube.link.secure import worker
from dpcube.link.secure.agreement import Agreement
from dpcube.link.secure.channel import SILENCE_SECONDS, Channel, Frame, FrameKind
from dpcube.link.secure.terms import public_program, side_terms

_HELD_BACK = 2**23
_READ_AT_ONCE = 2**17
_ID = struct.Struct(">I")


class Stream:
    """Connection of an engine: its local end, if connected, and the bytes still to be written to it."""

    def __init__(self, local: socket.socket | None) -> None:
        self.local = local
        self.unwritten = bytearray()
        if local is not None:
            local.setblocking(False)


class Tunnel:
    """Connections of both engines; our engine connects to its peer at `doorway`, and listens at `engine`."""

    def __init__(self, channel: Channel, *, doorway: Path, engine: Path) -> None:
        self._channel, self._engine = channel, engine
        self._streams: dict[int, Stream] = {}
        self._next = 0 if channel.role == "listener" else 1
        self._door = socket.socket(socket.AF_UNIX)
        try:
            self._door.bind(str(doorway))
        except OSError as error:  # a name of more than about 100 bytes, most often
            self._door.close()
            msg = f"no socket can be made at {doorway} ({error}); set TMPDIR to a short path"
            raise LinkageError(msg) from None
        self._door.listen(MAX_STREAMS)
        self._door.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        for stream in self._streams.values():
            if stream.local is not None:
                stream.local.close()

    def watched(self) -> dict[int, int]:
        """Return the descriptors to poll. Data is read only if it can be passed on soon, so that buffers stay small."""
        local = {one.local.fileno(): one for one in self._streams.values() if one.local is not None}
        reads = select.POLLIN if self._channel.unsent < _HELD_BACK else 0
        events = {fd: reads | (select.POLLOUT if one.unwritten else 0) for fd, one in local.items()}
        is_full = any(len(one.unwritten) > _HELD_BACK for one in self._streams.values())
        events[self._channel.fileno()] = (0 if is_full else select.POLLIN) | (
            select.POLLOUT if self._channel.unsent else 0
        )
        return {**events, self._door.fileno(): select.POLLIN}

    def turn(self, ready: dict[int, int]) -> Frame | None:
        """Transfer available data, and return the next frame that is not the tunnel's; later frames stay queued."""
        if self._door.fileno() in ready:
            self._accept()
        for number, stream in list(self._streams.items()):
            self._join(stream)
            if stream.local is not None and stream.local.fileno() in ready:
                self._read(number, stream)
            self._write(number, stream)
        if ready.get(self._channel.fileno(), 0) & ~select.POLLOUT:
            self._channel.read_some()
        while (frame := self._channel.next_frame()) is not None and self._takes(frame):
            pass
        self._channel.write_some()
        return frame

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            local, _ = self._door.accept()
            if len(self._streams) >= MAX_STREAMS:
                local.close()
                return
            self._streams[self._next] = Stream(local)
            self._channel.queue(FrameKind.OPEN, _ID.pack(self._next))
            self._next += 2

    def _join(self, stream: Stream) -> None:
        """Connect a stream of the peer to our engine, once that listens."""
        if stream.local is None:
            local = socket.socket(socket.AF_UNIX)
            try:
                local.connect(str(self._engine))
            except OSError:
                local.close()
                return
            local.setblocking(False)
            stream.local = local

    def _read(self, number: int, stream: Stream) -> None:
        assert stream.local is not None
        try:
            part = stream.local.recv(_READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if part:
            self._channel.queue(FrameKind.DATA, _ID.pack(number) + part)
        else:
            self._close(number)
            self._channel.queue(FrameKind.CLOSE, _ID.pack(number))

    def _write(self, number: int, stream: Stream) -> None:
        if stream.local is None or number not in self._streams:
            return
        try:
            while stream.unwritten:
                del stream.unwritten[: stream.local.send(bytes(stream.unwritten[:_READ_AT_ONCE]))]
        except BlockingIOError:
            return
        except OSError:
            self._close(number)
            self._channel.queue(FrameKind.CLOSE, _ID.pack(number))

    def _takes(self, frame: Frame) -> bool:
        if frame.kind not in (FrameKind.OPEN, FrameKind.DATA, FrameKind.CLOSE):
            return False
        if len(frame.payload) < _ID.size:
            msg = "the peer sent a frame without a stream number; the session is over"
            raise LinkageError(msg)
        (number,), rest = _ID.unpack_from(frame.payload), frame.payload[_ID.size :]
        if frame.kind == FrameKind.OPEN:
            self._open(number)
        elif number in self._streams and frame.kind == FrameKind.DATA:
            self._streams[number].unwritten += rest
            self._write(number, self._streams[number])
        elif number in self._streams:
            self._close(number)
        return True  # data for a stream that we have closed was already under way

    def _open(self, number: int) -> None:
        if number in self._streams or number % 2 == self._next % 2 or len(self._streams) >= MAX_STREAMS:
            msg = "the peer opened an invalid stream; the session is over"
            raise LinkageError(msg)
        self._streams[number] = Stream(None)

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number)
        if stream.local is not None:
            stream.local.close()


STALLED_SECONDS = 900.0
TILE_EDGE = 256
ROWS_ALIKE = 4
PAIRS_ALIKE = 4096
_TURN_SECONDS = 0.5


def pairs_at_once(conditions: int) -> int:
    """Return the number of pairs decided at once: many, for rounds are expensive; few enough for about 2 GB."""
    return max(PAIRS_ALIKE, 2**19 // conditions // PAIRS_ALIKE * PAIRS_ALIKE)


@dataclass(frozen=True, slots=True)
class EngineWatch:
    """Settings of the engine: its Python, the timeouts of the peer and of progress, and a progress callback."""

    python: Path
    silence: float = SILENCE_SECONDS
    stalled: float = STALLED_SECONDS
    progress: Callable[[int], None] = lambda _: None


def engine_matches(channel: Channel, agreement: Agreement, blocks: Sequence[Ints], watch: EngineWatch) -> list[Bools]:
    """Return the match bits of each candidate pair of blocks, computed by both sides' engines."""
    program, role = agreement.program, channel.role
    needed = {pair[0 if role == "listener" else 1] for pair in agreement.candidates}
    terms: dict[str, Ints] = {}
    for number in sorted(needed):
        terms[f"bits{number}"], terms[f"added{number}"] = side_terms(program, blocks[number], role)
    public = public_program(program)
    job = {
        **public,
        "task": "compare",
        "sizes": [agreement.listener_sizes, agreement.connector_sizes],
        "candidates": agreement.candidates,
        "edge": TILE_EDGE,
        "rows_alike": ROWS_ALIKE,
        "pairs_at_once": pairs_at_once(sum(ge + eq for ge, eq, _ in public["forms"])),
        "pairs_alike": PAIRS_ALIKE,
    }
    packed = run_engine(channel, job, terms, watch)
    shapes = [(agreement.listener_sizes[i], agreement.connector_sizes[j]) for i, j in agreement.candidates]
    return [_bits(one, shape) for one, shape in zip(packed, shapes, strict=True)]


def run_engine(channel: Channel, job: dict[str, Any], arrays: Mapping[str, Any], watch: EngineWatch) -> list[bytes]:
    """Return the answers of a job that both sides' engines run, or raise an error that names what failed."""
    with TemporaryDirectory(prefix="dpcube-") as folder:  # 0700
        own, peer = Path(folder, "own"), Path(folder, "peer")
        rank = 0 if channel.role == "listener" else 1
        sockets = [str(path) for path in ((own, peer) if rank == 0 else (peer, own))]
        job = {**job, "folder": folder, "rank": rank, "sockets": sockets, "seconds": int(watch.stalled)}
        with Tunnel(channel, doorway=peer, engine=own) as tunnel, EngineProcess(watch.python, folder) as child:
            child.give(job, arrays)
            is_peer_done = False
            while not (child.is_done and is_peer_done):
                frame = tunnel.turn(_ready({**tunnel.watched(), child.fileno(): select.POLLIN}))
                if frame is not None and (is_peer_done or frame.kind != FrameKind.DONE):
                    msg = "the peer sent an unexpected frame; the session is over"
                    raise LinkageError(msg)
                is_peer_done = is_peer_done or frame is not None
                known = len(child.answers)
                if child.heed(stalled=watch.stalled):
                    channel.queue(FrameKind.DONE)
                if len(child.answers) > known:
                    watch.progress(len(child.answers))
                channel.beat(watch.silence)
            _end_tunnel(channel)
            return child.answers


def _end_tunnel(channel: Channel) -> None:
    """Announce the end of engine data, and skip data that the peer's engine had sent before its announcement."""
    channel.queue(FrameKind.DONE)
    while (frame := channel.receive_frame()).kind != FrameKind.DONE:
        if frame.kind not in (FrameKind.OPEN, FrameKind.DATA, FrameKind.CLOSE):
            msg = "the peer sent an unexpected frame; the session is over"
            raise LinkageError(msg)
    channel.flush()


class EngineProcess:
    """Child process that runs `worker.py` with the engine's Python in a folder, and its answers so far."""

    def __init__(self, python: Path, folder: str) -> None:
        self.answers: list[bytes] = []
        self.is_done = False
        self._buffer = bytearray()
        self._moved = time.monotonic()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [python, "-I", worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**kept, "JAX_PLATFORMS": "cpu", "TMPDIR": folder},  # set intersection leaves files where it can
                start_new_session=True,
            )
        except OSError as error:
            msg = f"the engine cannot be started with {python}: {error.strerror}; install it again "
            msg += "(dpcube link --install-engine)"
            raise LinkageError(msg) from None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        self._process.wait()

    def fileno(self) -> int:
        """Return the descriptor to poll for answers."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def give(self, job: dict[str, Any], arrays: Mapping[str, Any]) -> None:
        """Send the job; the child reads it before anything else."""
        payload = io.BytesIO()
        public = np.frombuffer(json.dumps(job).encode(), np.uint8)
        np.savez(payload, job=public, **arrays)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack(">Q", payload.tell()) + payload.getvalue())
            self._process.stdin.flush()
        except OSError:
            raise self._failed() from None

    def heed(self, *, stalled: float) -> bool:
        """Read available answers of the child, and return whether it has just finished."""
        assert self._process.stdout is not None
        was_done = self.is_done
        if part := self._process.stdout.read():
            self._moved = time.monotonic()
            self._buffer += part
            self._take()
        elif self._process.poll() is not None and not self.is_done:
            raise self._failed()
        elif time.monotonic() - self._moved > stalled and not self.is_done:
            msg = f"the engine made no progress for {stalled:.0f} s and was stopped; start both sides again"
            raise LinkageError(msg)
        return self.is_done and not was_done

    def _take(self) -> None:
        while len(self._buffer) >= 9:
            kind, (size,) = bytes(self._buffer[:1]), struct.unpack_from(">Q", self._buffer, 1)
            if len(self._buffer) < 9 + size:
                return
            payload = bytes(self._buffer[9 : 9 + size])
            del self._buffer[: 9 + size]
            if kind == worker.BLOCK:
                self.answers.append(payload)
            elif kind == worker.FAILED:
                raise self._failed(payload)
            self.is_done = self.is_done or kind == worker.DONE

    def _failed(self, kind: bytes = b"") -> LinkageError:
        named = f" ({kind.decode('ascii', 'replace')[:40]})" if kind else ""
        return LinkageError(f"the engine stopped before its work was done{named}; start both sides again")


def _ready(watched: dict[int, int]) -> dict[int, int]:
    poller = select.poll()
    for descriptor, events in watched.items():
        poller.register(descriptor, events)
    return dict(poller.poll(_TURN_SECONDS * 1000))


def _bits(packed: bytes, shape: tuple[int, int]) -> Bools:
    count = shape[0] * shape[1]
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).reshape(shape).astype(bool)
