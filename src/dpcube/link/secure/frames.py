"""Messages as bytes and back: a kind and a payload enter, a frame leaves; anything else is refused as soon as it shows.

A frame is a header (version, kind, session, sequence number, length) and a payload of at most `LARGEST_PAYLOAD` bytes.
The channel below is TLS, which already keeps order and refuses what was altered; numbers and session are checked all
the same, so that a mistake there cannot pass for a message of this session. No more is held in memory than was fed and
the start of one frame.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from dpcube.core.errors import LinkageError

FRAME_VERSION = 1
LARGEST_PAYLOAD = 2**18
NO_SESSION = bytes(16)
_HEADER = struct.Struct(">HB16sQI")
_TOLD = struct.Struct(">HB")


class FrameKind(IntEnum):
    """What a frame is for."""

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
    """A kind and what it carries."""

    kind: FrameKind
    payload: bytes


class FrameWriter:
    """Makes the frames of one direction of a session, numbered from 0."""

    def __init__(self, session: bytes = NO_SESSION) -> None:
        self.session = session
        self._sequence = 0

    def frame(self, kind: FrameKind, payload: bytes = b"") -> bytes:
        """Return the next frame."""
        if len(payload) > LARGEST_PAYLOAD:
            msg = f"a frame carries at most {LARGEST_PAYLOAD} bytes"
            raise ValueError(msg)
        header = _HEADER.pack(FRAME_VERSION, kind, self.session, self._sequence, len(payload))
        self._sequence += 1
        return header + payload


class FrameReader:
    """Reads the frames of one direction of a session; the first fault ends it."""

    def __init__(self, session: bytes = NO_SESSION) -> None:
        self.session = session
        self._sequence = 0
        self._held = bytearray()

    def begin(self, session: bytes) -> None:
        """Go over to a session: what comes next is its first frame."""
        self.session, self._sequence = session, 0

    def take(self, received: bytes) -> None:
        """Take in what has come."""
        self._held += received

    def next(self) -> Frame | None:
        """Return the next frame, if it is here whole; a bad header is refused before its payload is awaited."""
        held = self._held
        if len(held) >= _TOLD.size:  # a peer of another kind is told from its first bytes
            version, number = _TOLD.unpack_from(held)
            if version != FRAME_VERSION or number not in FrameKind.__members__.values():
                self._refuse("is not of this protocol and version")
        if len(held) < _HEADER.size:
            return None
        _, number, session, sequence, length = _HEADER.unpack_from(held)
        if length > LARGEST_PAYLOAD:
            self._refuse(f"is longer than {LARGEST_PAYLOAD} bytes")
        if session != self.session:
            self._refuse("is of another session")
        if sequence != self._sequence:
            self._refuse("is repeated or out of order")
        end = _HEADER.size + length
        if len(held) < end:
            return None
        frame = Frame(FrameKind(number), bytes(held[_HEADER.size : end]))
        del held[:end]
        self._sequence += 1
        return frame

    def _refuse(self, fault: str) -> None:
        self._held.clear()
        self._sequence = -1  # no frame that follows can be the next one
        msg = f"the peer sent a message that {fault}; the session is over"
        raise LinkageError(msg)
