"""Authenticated channel to the peer: framed messages over mutual TLS.

The socket never blocks: every wait has a deadline. One thread uses a channel (an SSL object may not be used by two at
once), which is why reading, writing and the tunnel share one loop (`engine.py`).

**Frames.** A frame is a header (version, kind, session, sequence number, length) and a payload of at most `MAX_PAYLOAD`
bytes. The channel below is TLS, which already keeps the order and refuses what was altered. Sequence numbers and
sessions are checked all the same, so that a mistake there cannot pass for a message of this session. A frame is refused
as soon as its header is invalid. Memory use is bounded by the bytes received and the start of one frame.
"""

import hashlib
import secrets
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple, Self

from dpcube.core.errors import LinkageError
from dpcube.link.limits import MAX_MESSAGE, MAX_PAYLOAD
from dpcube.link.secure.credentials import Credentials, Role

FRAME_VERSION = 1
NO_SESSION = bytes(16)
_HEADER = struct.Struct(">HB16sQI")
_PREFIX = struct.Struct(">HB")


class FrameKind(IntEnum):
    """Kind of a frame."""

    HELLO = 1
    MESSAGE = 2
    END_OF_MESSAGE = 3
    OPEN = 4
    DATA = 5
    CLOSE = 6
    BEAT = 7
    DONE = 8
    ABORT = 9


class Frame(NamedTuple):
    """Frame: its kind and payload."""

    kind: FrameKind
    payload: bytes


class FrameWriter:
    """Writer of the frames of one direction of a session, numbered from 0."""

    def __init__(self, session: bytes = NO_SESSION) -> None:
        self.session = session
        self._sequence = 0

    def frame(self, kind: FrameKind, payload: bytes = b"") -> bytes:
        """Return the next frame."""
        if len(payload) > MAX_PAYLOAD:
            msg = f"the payload of a frame has at most {MAX_PAYLOAD} bytes, got {len(payload)}"
            raise ValueError(msg)
        header = _HEADER.pack(FRAME_VERSION, kind, self.session, self._sequence, len(payload))
        self._sequence += 1
        return header + payload


class FrameReader:
    """Reader of the frames of one direction of a session; the first fault ends it."""

    def __init__(self, session: bytes = NO_SESSION) -> None:
        self.session = session
        self._sequence = 0
        self._buffer = bytearray()

    def begin(self, session: bytes) -> None:
        """Begin a session: the next bytes are its first frame."""
        self.session, self._sequence = session, 0

    def take(self, received: bytes) -> None:
        """Append received bytes."""
        self._buffer += received

    def next(self) -> Frame | None:
        """Return the next frame if it is complete; an invalid header is refused before its payload arrives."""
        buffer = self._buffer
        if len(buffer) >= _PREFIX.size:  # the first bytes identify another protocol
            version, number = _PREFIX.unpack_from(buffer)
            if version != FRAME_VERSION or number not in FrameKind.__members__.values():
                self._refuse("is not of this protocol and version")
        if len(buffer) < _HEADER.size:
            return None
        _, number, session, sequence, length = _HEADER.unpack_from(buffer)
        if length > MAX_PAYLOAD:
            self._refuse(f"is longer than {MAX_PAYLOAD} bytes")
        if session != self.session:
            self._refuse("is of another session")
        if sequence != self._sequence:
            self._refuse("is repeated or out of order")
        end = _HEADER.size + length
        if len(buffer) < end:
            return None
        frame = Frame(FrameKind(number), bytes(buffer[_HEADER.size : end]))
        del buffer[:end]
        self._sequence += 1
        return frame

    def _refuse(self, fault: str) -> None:
        self._buffer.clear()
        self._sequence = -1  # no frame that follows can be the next one
        msg = f"the peer sent a message that {fault}; the session is over"
        raise LinkageError(msg)


HANDSHAKE_SECONDS = 10.0
BEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
_NONCE = 32
_AT_ONCE = 2**20
_OTHER: dict[Role, Role] = {"listener": "connector", "connector": "listener"}


class Channel:
    """Session with an authenticated peer. Messages larger than `MAX_MESSAGE` bytes are refused."""

    def __init__(self, stream: ssl.SSLSocket, role: Role) -> None:
        self.role = role
        self.bytes_sent = self.bytes_received = 0
        self._stream = stream
        stream.setblocking(False)
        self._writer, self._reader = FrameWriter(), FrameReader()
        self._unsent = bytearray()
        self._heard = self._beaten = time.monotonic()

    def greet(self) -> None:
        """Exchange roles and agree on the session id, derived from a random nonce of each side."""
        own = self.role.encode().ljust(16) + secrets.token_bytes(_NONCE)
        self.queue(FrameKind.HELLO, own)
        frame = self.receive_frame(HANDSHAKE_SECONDS)
        expected = _OTHER[self.role].encode().ljust(16)
        if frame.kind != FrameKind.HELLO or len(frame.payload) != len(own) or frame.payload[:16] != expected:
            msg = f"the peer is not a {_OTHER[self.role]} of dpcube; one side listens and the other connects"
            raise LinkageError(msg)
        hellos = own + frame.payload if self.role == "listener" else frame.payload + own
        session = hashlib.sha256(b"dpcube link session 1" + hellos).digest()[: len(NO_SESSION)]
        self._writer = FrameWriter(session)
        self._reader.begin(session)

    def exchange(self, message: bytes, *, seconds: float = SILENCE_SECONDS) -> bytes:
        """Send a message and return the one that the peer sends at the same point of the session."""
        self.send(message)
        received = self.receive(seconds=seconds)
        self.flush(seconds=seconds)  # the peer reads until it has our message, so this ends
        return received

    def send(self, message: bytes) -> None:
        """Queue a message of any size; it is sent while waiting for messages, and by `flush`."""
        for start in range(0, len(message), MAX_PAYLOAD):
            self.queue(FrameKind.MESSAGE, message[start : start + MAX_PAYLOAD])
        self.queue(FrameKind.END_OF_MESSAGE)

    def receive(self, *, seconds: float = SILENCE_SECONDS) -> bytes:
        """Return the next message of the peer; a timeout, or any other frame, ends the session."""
        parts: list[bytes] = []
        while (frame := self.receive_frame(seconds)).kind != FrameKind.END_OF_MESSAGE:
            # All parts but the last are full, so a message has few parts, and its time is bounded by its size.
            is_due = frame.kind == FrameKind.MESSAGE and all(len(part) == MAX_PAYLOAD for part in parts[-1:])
            if not is_due or len(parts) * MAX_PAYLOAD >= MAX_MESSAGE:
                msg = f"the peer sent something other than the expected message of at most {MAX_MESSAGE} bytes"
                raise LinkageError(msg)
            parts.append(frame.payload)
        return b"".join(parts)

    def flush(self, *, seconds: float = SILENCE_SECONDS) -> None:
        """Send all queued frames."""
        deadline = time.monotonic() + seconds
        self.write_some()
        while self._unsent:
            self._wait(select.POLLOUT, deadline)
            self.write_some()

    def close(self, *, reason: bool = False) -> None:
        """End the session; with a reason, notify the peer that it ended early."""
        with suppress(OSError, LinkageError, ValueError):
            if reason:
                self.queue(FrameKind.ABORT)
                self.flush(seconds=1)
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(reason=kind is not None)

    @property
    def session(self) -> bytes:
        """Session id, derived from a random nonce of each side."""
        return self._writer.session

    # Interface for a loop over several sockets.

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._stream.fileno()

    @property
    def unsent(self) -> int:
        """Number of queued bytes."""
        return len(self._unsent)

    def queue(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Queue a frame, to be sent by `write_some`."""
        self._unsent += self._writer.frame(kind, payload)

    def write_some(self) -> None:
        """Send as much as the network accepts now."""
        try:
            while self._unsent:
                sent = self._stream.send(bytes(self._unsent[:MAX_PAYLOAD]))
                self.bytes_sent += sent
                del self._unsent[:sent]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise _lost(error) from None

    def read_some(self) -> None:
        """Receive available bytes for `next_frame`; the end of the connection is an error."""
        received = bytearray()
        while len(received) < _AT_ONCE or self._stream.pending():
            try:
                part = self._stream.recv(_AT_ONCE)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                part, lost = b"", _lost(error)
            else:
                lost = _lost(None)
            if not part and not received:
                raise lost
            if not part:
                break  # process its last frames first: they may say why it left
            received += part
        self.bytes_received += len(received)
        self._reader.take(bytes(received))
        self._heard = time.monotonic() if received else self._heard

    def next_frame(self) -> Frame | None:
        """Return the next complete frame, if any, except heartbeats; an abort of the peer is an error."""
        while (frame := self._reader.next()) is not None:
            if frame.kind == FrameKind.ABORT:
                msg = "the peer ended the session early; its own message says why"
                raise LinkageError(msg)
            if frame.kind != FrameKind.BEAT:
                return frame
        return None

    def beat(self, silence: float = SILENCE_SECONDS) -> None:
        """Send heartbeats to the peer, and end the session if the peer was silent for too long."""
        now = time.monotonic()
        if now - self._heard > silence:
            msg = f"the peer has been silent for {silence:.0f} s; the session is over"
            raise LinkageError(msg)
        if now - self._beaten > BEAT_SECONDS:
            self._beaten = now
            self.queue(FrameKind.BEAT)

    def receive_frame(self, seconds: float = SILENCE_SECONDS) -> Frame:
        """Return the next frame, except heartbeats; send queued frames meanwhile."""
        deadline = time.monotonic() + seconds
        self.write_some()
        while (frame := self.next_frame()) is None:
            self._wait(select.POLLIN | (select.POLLOUT if self._unsent else 0), deadline)
            self.write_some()
            self.read_some()
        return frame

    def _wait(self, events: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        poller = select.poll()
        poller.register(self._stream, events)
        if left <= 0 or not poller.poll(left * 1000):
            msg = "the peer did not answer in time; the session is over"
            raise LinkageError(msg)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket for `await_peer`."""
    try:
        return socket.create_server((host, port), backlog=4)
    except OSError as error:
        msg = f"cannot listen on {host} port {port}: {error.strerror}"
        raise LinkageError(msg) from None


def await_peer(
    listener: socket.socket,
    credentials: Credentials,
    *,
    seconds: float = 600.0,
    tell: Callable[[str], None] = lambda _: None,
) -> Channel:
    """Return a channel to the first peer that authenticates; others are refused and reported to `tell`."""
    deadline = time.monotonic() + seconds
    last = ""
    while (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            plain, address = listener.accept()
        except TimeoutError:
            break
        try:
            return _begin(plain, credentials, "listener", str(address[0]))
        except LinkageError as error:
            last = f"; {error}"
            tell(str(error))
    msg = f"no peer authenticated within {seconds:.0f} s{last}"
    raise LinkageError(msg)


def reach_peer(host: str, port: int, credentials: Credentials, *, seconds: float = 60.0) -> Channel:
    """Return a channel to the peer that listens at an address; retry until it listens or the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            plain = socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() + 0.5 > deadline:
                msg = f"no party listens at {host} port {port} ({error.strerror or error}); start the other side"
                raise LinkageError(msg) from None
            time.sleep(0.2)
    return _begin(plain, credentials, "connector", host)


def _begin(plain: socket.socket, credentials: Credentials, role: Role, peer: str) -> Channel:
    """Return the channel of an authenticated session, or refuse the peer of a connection."""
    plain.settimeout(HANDSHAKE_SECONDS)
    channel = None
    try:
        stream = credentials.context(role).wrap_socket(plain, server_side=role == "listener")
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = Channel(stream, role)
        channel.greet()
    except (OSError, LinkageError) as error:
        plain.close()
        if channel is not None:
            channel.close()
        msg = f"the peer at {peer} was refused: {_fault(error)}"
        raise LinkageError(msg) from None
    return channel


def _fault(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        doubtful = isinstance(error, ssl.SSLCertVerificationError) or "ALERT" in (error.reason or "")
        return "it has neither our key nor a certificate of our authority" if doubtful else "it does not use our TLS"
    if isinstance(error, TimeoutError):
        return f"it did not authenticate within {HANDSHAKE_SECONDS:.0f} s"
    if isinstance(error, OSError | ConnectionLostError):
        return "it closed the connection before authenticating; both sides must have the same key"
    return str(error)


class ConnectionLostError(LinkageError):
    """Raised when the peer has closed the connection."""


def _lost(error: OSError | None) -> LinkageError:
    if isinstance(error, ssl.SSLError):
        return LinkageError(_fault(error))
    return ConnectionLostError("the peer closed the connection before the session was over; start both sides again")
