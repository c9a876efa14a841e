"""What a hostile peer of record linkage may send: frames that are cut, changed, repeated or out of order, and messages
of any content at every place of a session. Each is taken for what it is, or refused in one line."""

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from hypothesis import strategies as st

from dpcube.core.errors import DpcubeError, LinkageError
from dpcube.link.limits import MAX_PAYLOAD
from dpcube.link.linking import _ids_of_peer
from dpcube.link.program import Comparison, Program
from dpcube.link.secure.agreement import agree
from dpcube.link.secure.channel import Channel, Frame, FrameKind, FrameReader, FrameWriter
from dpcube.link.secure.intersection import _rows

SESSION = bytes(range(16))
PROGRAM = Program((Comparison("exact", 1, 1), Comparison("number", 1, 1, tolerance=2)), threshold=2)
SENT = [
    (FrameKind.MESSAGE, b"one"),
    (FrameKind.END_OF_MESSAGE, b""),
    (FrameKind.DATA, bytes(300)),
    (FrameKind.DONE, b""),
]
SIZES = (3, 4)
ECHO = "what was said to it"
_HEADER = struct.Struct(">HB16sQI")


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Draw the pieces of a stream of frames, some of which were dropped, repeated, moved, changed or made up."""
    writer = FrameWriter(SESSION)
    frames = [writer.frame(*one) for one in SENT]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(frames) - 1))
        fault = draw(st.sampled_from(["drop", "repeat", "swap", "change", "cut", "forge"]))
        if fault == "repeat":
            frames.insert(place, frames[draw(st.integers(0, place))])
        elif fault == "swap":
            frames[place], frames[0] = frames[0], frames[place]
        elif fault == "change" and frames[place]:
            bad = bytearray(frames[place])
            bad[draw(st.integers(0, len(bad) - 1))] ^= draw(st.integers(1, 255))
            frames[place] = bytes(bad)
        elif fault == "cut":
            frames[place] = frames[place][: draw(st.integers(0, len(frames[place])))]
        elif fault == "forge":
            size = draw(st.sampled_from([0, 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 2**32 - 1]))
            session = draw(st.sampled_from([SESSION, bytes(16)]))
            number = draw(st.sampled_from([0, place, 2**64 - 1]))
            frames[place] = _HEADER.pack(draw(st.integers(0, 2)), draw(st.integers(0, 11)), session, number, size)
        elif len(frames) > 1:
            del frames[place]
    whole = b"".join(frames)
    cut = draw(st.integers(1, max(1, len(whole))))
    return [whole[start : start + cut] for start in range(0, len(whole), cut)]


def examine_stream(pieces: list[bytes]) -> list[Frame]:
    """Read a stream: numbers go up by one from 0, so that frames come out as they stand in it, or it is refused."""
    reader, found, whole = FrameReader(SESSION), [], b"".join(pieces)
    with suppress(LinkageError):
        for piece in pieces:
            reader.take(piece)
            while (frame := reader.next()) is not None:
                found.append(frame)
    start = 0
    for number, frame in enumerate(found):
        header = _HEADER.pack(1, frame.kind, SESSION, number, len(frame.payload))
        assert whole[start:].startswith(header + frame.payload)
        start += len(header) + len(frame.payload)
    return found


class ScriptedPeer:
    """A channel to a peer that sends what it is told to, whatever it hears."""

    role = "listener"
    session = SESSION

    def __init__(self, messages: list[object]) -> None:
        self._messages: Iterator[object] = iter(messages)

    def exchange(self, message: bytes, **_: object) -> bytes:
        told = next(self._messages, b"")
        return message if told == ECHO else cast(bytes, told)


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
contents = st.one_of(
    st.binary(max_size=40),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.lists(st.text(max_size=4), min_size=2, max_size=2).map(lambda ids: json.dumps(ids).encode()),
    st.lists(st.sampled_from([0, 1, 2, 3, 2**20, 2**20 + 1, 2**32 - 1]), max_size=6).map(
        lambda numbers: struct.pack(f">{len(numbers)}I", *numbers)
    ),
    st.just(b"[" * 100_000),
    st.just(bytes(4 * (2**20 + 1))),
)
places = st.sampled_from(["digests", "sizes", "ids", "rows"])


def examine_message(drawn: tuple[str, bytes]) -> None:
    """Bring a message to its place in a session: what is taken has the form that is due, and no other."""
    said = ""
    try:
        _examine_at(*drawn)
    except DpcubeError as refused:
        said = str(refused)
    assert said.isprintable()
    assert len(said) < 300


def _examine_at(place: str, content: bytes) -> None:
    if place == "digests":
        agree(cast(Channel, ScriptedPeer([content])), PROGRAM, [(0, 0)], SIZES, engine="e")
        raise AssertionError(content)  # no content is our own digests
    if place == "sizes":
        made = agree(cast(Channel, ScriptedPeer([ECHO, content])), PROGRAM, [(0, 0)], SIZES, engine="e")
        assert made.listener_sizes == SIZES
        assert struct.pack(f">{len(made.connector_sizes)}I", *made.connector_sizes) == content
        assert made.connector_sizes
    elif place == "ids":
        ids = _ids_of_peer(content, 2)
        assert len(ids) == 2
        assert json.loads(content) == ids
    else:
        for rows, limit in zip(_rows(content, SIZES), SIZES, strict=True):
            assert len(set(rows)) == len(rows) > 0
            assert max(rows) < limit
