"""The engine's link, through the channel: connections of one side's engine come out at the other side's.

The engine never touches the network. It listens on and connects to sockets in a folder that only its user may enter;
what it sends goes as frames through the authenticated channel. So one port and one TLS setting are all there is, and
the engine's own server, which answers anybody and shows pages about itself, is reached by the peer's engine alone.
"""

import select
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Self

from dpcube.core.errors import LinkageError
from dpcube.link.secure.channel import Channel
from dpcube.link.secure.frames import Frame, FrameKind

MOST_STREAMS = 64
_HELD_BACK = 2**23
_AT_ONCE = 2**17
_ID = struct.Struct(">I")


class Stream:
    """One connection of an engine: its local end, once there is one, and what is still to be written to it."""

    def __init__(self, local: socket.socket | None) -> None:
        self.local = local
        self.unwritten = bytearray()
        if local is not None:
            local.setblocking(False)


class Tunnel:
    """The connections of both engines; `doorway` is where ours finds its peer, `engine` where ours listens."""

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
        self._door.listen(MOST_STREAMS)
        self._door.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        for stream in self._streams.values():
            if stream.local is not None:
                stream.local.close()

    def watched(self) -> dict[int, int]:
        """Return what to wait for. Nothing is read that could not be passed on soon, so little is ever held."""
        local = {one.local.fileno(): one for one in self._streams.values() if one.local is not None}
        reads = select.POLLIN if self._channel.unsent < _HELD_BACK else 0
        events = {fd: reads | (select.POLLOUT if one.unwritten else 0) for fd, one in local.items()}
        is_full = any(len(one.unwritten) > _HELD_BACK for one in self._streams.values())
        events[self._channel.fileno()] = (0 if is_full else select.POLLIN) | (
            select.POLLOUT if self._channel.unsent else 0
        )
        return {**events, self._door.fileno(): select.POLLIN}

    def turn(self, ready: dict[int, int]) -> Frame | None:
        """Move what can be moved, and return the next frame that is not the tunnel's; what follows it stays."""
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
            if len(self._streams) >= MOST_STREAMS:
                local.close()
                return
            self._streams[self._next] = Stream(local)
            self._channel.queue(FrameKind.OPEN, _ID.pack(self._next))
            self._next += 2

    def _join(self, stream: Stream) -> None:
        """Connect a stream of the peer to our engine, as soon as that listens."""
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
            part = stream.local.recv(_AT_ONCE)
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
                del stream.unwritten[: stream.local.send(bytes(stream.unwritten[:_AT_ONCE]))]
        except BlockingIOError:
            return
        except OSError:
            self._close(number)
            self._channel.queue(FrameKind.CLOSE, _ID.pack(number))

    def _takes(self, frame: Frame) -> bool:
        if frame.kind not in (FrameKind.OPEN, FrameKind.DATA, FrameKind.CLOSE):
            return False
        if len(frame.payload) < _ID.size:
            msg = "the peer sent a message that names no stream; the session is over"
            raise LinkageError(msg)
        (number,), rest = _ID.unpack_from(frame.payload), frame.payload[_ID.size :]
        if frame.kind == FrameKind.OPEN:
            self._open(number)
        elif number in self._streams and frame.kind == FrameKind.DATA:
            self._streams[number].unwritten += rest
            self._write(number, self._streams[number])
        elif number in self._streams:
            self._close(number)
        return True  # what comes for a stream that we have closed was on its way

    def _open(self, number: int) -> None:
        if number in self._streams or number % 2 == self._next % 2 or len(self._streams) >= MOST_STREAMS:
            msg = "the peer opened a stream that cannot be; the session is over"
            raise LinkageError(msg)
        self._streams[number] = Stream(None)

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number)
        if stream.local is not None:
            stream.local.close()
