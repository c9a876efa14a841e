"""An authenticated channel to the peer: an address and credentials enter, messages go to and fro.

The socket never blocks: whoever waits, waits with a deadline. One thread uses a channel (an SSL object may not be used
by two at once), which is why reading, writing and the tunnel share one loop (`tunnel.py`).
"""

import hashlib
import secrets
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from dpcube.core.errors import LinkageError
from dpcube.link.secure.credentials import Credentials, Role
from dpcube.link.secure.frames import LARGEST_PAYLOAD, NO_SESSION, Frame, FrameKind, FrameReader, FrameWriter

HANDSHAKE_SECONDS = 10.0
BEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
LARGEST_MESSAGE = 2**28
_NONCE = 32
_AT_ONCE = 2**20
_OTHER: dict[Role, Role] = {"listener": "connector", "connector": "listener"}


class Channel:
    """A session with an authenticated peer. Messages larger than `LARGEST_MESSAGE` bytes are refused."""

    def __init__(self, stream: ssl.SSLSocket, role: Role) -> None:
        self.role = role
        self.bytes_sent = self.bytes_received = 0
        self._stream = stream
        stream.setblocking(False)
        self._writer, self._reader = FrameWriter(), FrameReader()
        self._unsent = bytearray()
        self._heard = self._beaten = time.monotonic()

    def greet(self) -> None:
        """Tell the peer one's role and agree on the name of the session, made of a random number of each."""
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
        """Send a message and return the one that the peer sends at the same place of the session."""
        self.send(message)
        received = self.receive(seconds=seconds)
        self.flush(seconds=seconds)  # the peer reads until it has our message, so this ends
        return received

    def send(self, message: bytes) -> None:
        """Queue a message of any size; it is sent while messages are awaited, and by `flush`."""
        for start in range(0, len(message), LARGEST_PAYLOAD):
            self.queue(FrameKind.MESSAGE, message[start : start + LARGEST_PAYLOAD])
        self.queue(FrameKind.END_OF_MESSAGE)

    def receive(self, *, seconds: float = SILENCE_SECONDS) -> bytes:
        """Return the next message of the peer; none for so long, or anything else, ends the session."""
        parts: list[bytes] = []
        while (frame := self.receive_frame(seconds)).kind != FrameKind.END_OF_MESSAGE:
            # Parts but the last are full, so a message has few of them and its time is bounded as its size is.
            is_due = frame.kind == FrameKind.MESSAGE and all(len(part) == LARGEST_PAYLOAD for part in parts[-1:])
            if not is_due or len(parts) * LARGEST_PAYLOAD >= LARGEST_MESSAGE:
                msg = f"the peer sent something else than a message of at most {LARGEST_MESSAGE} bytes, which is due"
                raise LinkageError(msg)
            parts.append(frame.payload)
        return b"".join(parts)

    def flush(self, *, seconds: float = SILENCE_SECONDS) -> None:
        """Send all that is queued."""
        deadline = time.monotonic() + seconds
        self.write_some()
        while self._unsent:
            self._wait(select.POLLOUT, deadline)
            self.write_some()

    def close(self, *, reason: bool = False) -> None:
        """End the session; with a reason, the peer is told that it ended too early."""
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
        """The name of the session, which both sides made of a random number of each."""
        return self._writer.session

    # What a loop over several sockets needs.

    def fileno(self) -> int:
        """Return what can be waited for."""
        return self._stream.fileno()

    @property
    def unsent(self) -> int:
        """How many bytes are queued."""
        return len(self._unsent)

    def queue(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Queue a frame, to be sent by `write_some`."""
        self._unsent += self._writer.frame(kind, payload)

    def write_some(self) -> None:
        """Send what the network takes now."""
        try:
            while self._unsent:
                sent = self._stream.send(bytes(self._unsent[:LARGEST_PAYLOAD]))
                self.bytes_sent += sent
                del self._unsent[:sent]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise _lost(error) from None

    def read_some(self) -> None:
        """Take in what has come, for `next_frame`; the end of the connection is an error."""
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
                break  # first what it said at last: it may tell why it went
            received += part
        self.bytes_received += len(received)
        self._reader.take(bytes(received))
        self._heard = time.monotonic() if received else self._heard

    def next_frame(self) -> Frame | None:
        """Return the next frame that has come whole, if any, but no beat; an abort of the peer is an error."""
        while (frame := self._reader.next()) is not None:
            if frame.kind == FrameKind.ABORT:
                msg = "the peer ended the session early; its own message says why"
                raise LinkageError(msg)
            if frame.kind != FrameKind.BEAT:
                return frame
        return None

    def beat(self, silence: float = SILENCE_SECONDS) -> None:
        """Let the peer hear from us now and then; a peer that was not heard for too long is gone."""
        now = time.monotonic()
        if now - self._heard > silence:
            msg = f"the peer has been silent for {silence:.0f} s; the session is over"
            raise LinkageError(msg)
        if now - self._beaten > BEAT_SECONDS:
            self._beaten = now
            self.queue(FrameKind.BEAT)

    def receive_frame(self, seconds: float = SILENCE_SECONDS) -> Frame:
        """Return the next frame, beats apart; send what is queued meanwhile."""
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
    """Return a socket that listens, for `await_peer`."""
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
    """Return a channel to the first peer that proves itself; others are refused, and `tell` is told so."""
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
    msg = f"no peer proved itself within {seconds:.0f} s{last}"
    raise LinkageError(msg)


def reach_peer(host: str, port: int, credentials: Credentials, *, seconds: float = 60.0) -> Channel:
    """Return a channel to the peer that listens at an address; it may begin to listen a little later."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            plain = socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() + 0.5 > deadline:
                msg = f"nobody listens at {host} port {port} ({error.strerror or error}); start the other side"
                raise LinkageError(msg) from None
            time.sleep(0.2)
    return _begin(plain, credentials, "connector", host)


def _begin(plain: socket.socket, credentials: Credentials, role: Role, peer: str) -> Channel:
    """Return the channel of an authenticated session, or refuse whoever is at the other end of a connection."""
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
        return "it does not hold our key or a certificate of our authority" if doubtful else "it does not speak our TLS"
    if isinstance(error, TimeoutError):
        return f"it did not prove itself within {HANDSHAKE_SECONDS:.0f} s"
    if isinstance(error, OSError | ConnectionLostError):
        return "it closed the connection before it had proved itself; both sides must hold the same key"
    return str(error)


class ConnectionLostError(LinkageError):
    """The peer's end of the connection is closed."""


def _lost(error: OSError | None) -> LinkageError:
    if isinstance(error, ssl.SSLError):
        return LinkageError(_fault(error))
    return ConnectionLostError("the peer closed the connection before the session was over; start both sides again")
