"""Frames come out as they went in, whatever the pieces they arrive in; anything else is refused, and soon."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.core.errors import LinkageError
from dpcube.link.limits import MAX_PAYLOAD
from dpcube.link.secure.channel import Frame, FrameKind, FrameReader, FrameWriter

SESSION = bytes(range(16))
FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=40)), max_size=6)


def written(frames: list[tuple[FrameKind, bytes]], session: bytes = SESSION) -> list[bytes]:
    writer = FrameWriter(session)
    return [writer.frame(kind, payload) for kind, payload in frames]


def read(stream: bytes, *, cut: int = 2**30) -> list[Frame]:
    reader, found = FrameReader(SESSION), []
    for start in range(0, len(stream), cut):
        reader.take(stream[start : start + cut])
        while (frame := reader.next()) is not None:
            found.append(frame)
    return found


@given(FRAMES, st.integers(1, 64))
def test_frames_come_out_as_they_went_in(frames: list[tuple[FrameKind, bytes]], cut: int) -> None:
    assert read(b"".join(written(frames)), cut=cut) == frames


@given(FRAMES, st.data())
def test_a_replayed_frame_is_refused(frames: list[tuple[FrameKind, bytes]], data: st.DataObject) -> None:
    sent = written([*frames, (FrameKind.BEAT, b"")])
    again = data.draw(st.sampled_from(sent))
    with pytest.raises(LinkageError, match="repeated or out of order"):
        read(b"".join([*sent, again]))


@given(FRAMES.filter(lambda frames: len(frames) > 1), st.data())
def test_a_missing_frame_is_noticed(frames: list[tuple[FrameKind, bytes]], data: st.DataObject) -> None:
    sent = written(frames)
    del sent[data.draw(st.integers(0, len(sent) - 2))]
    with pytest.raises(LinkageError, match="repeated or out of order"):
        read(b"".join(sent))


@given(FRAMES.filter(bool), st.binary(min_size=16, max_size=16).filter(lambda other: other != SESSION))
def test_a_frame_of_another_session_is_refused(frames: list[tuple[FrameKind, bytes]], other: bytes) -> None:
    with pytest.raises(LinkageError, match="another session"):
        read(b"".join(written(frames, other)))


@given(FRAMES, st.data())
def test_a_changed_header_is_refused(frames: list[tuple[FrameKind, bytes]], data: st.DataObject) -> None:
    """Of a header only the kind and the length can be others and still be a header; then other frames come out."""
    sent = bytearray(b"".join(written([*frames, (FrameKind.DATA, b"end")])))
    sent[data.draw(st.integers(0, 30))] ^= data.draw(st.integers(1, 255))
    try:
        assert read(bytes(sent)) != [*frames, (FrameKind.DATA, b"end")]
    except LinkageError as error:
        assert str(error).startswith("the peer sent a message that is ")  # noqa: PT017 (the other way is allowed too)


@given(st.binary(min_size=3))
def test_noise_is_never_more_than_a_refusal(noise: bytes) -> None:
    try:
        found = read(noise)
    except LinkageError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert found == []


def test_an_oversized_frame_is_refused_before_it_is_awaited() -> None:
    reader = FrameReader(SESSION)
    reader.take(struct.pack(">HB16sQI", 1, FrameKind.DATA, SESSION, 0, MAX_PAYLOAD + 1))
    with pytest.raises(LinkageError, match=f"longer than {MAX_PAYLOAD}"):
        reader.next()
    with pytest.raises(ValueError, match="at most"):
        FrameWriter(SESSION).frame(FrameKind.DATA, bytes(MAX_PAYLOAD + 1))


def test_a_peer_that_speaks_otherwise_is_told_from_its_first_bytes() -> None:
    reader = FrameReader(SESSION)
    reader.take(b"GET")
    with pytest.raises(LinkageError, match="protocol and version"):
        reader.next()


def test_nothing_passes_after_a_fault() -> None:
    frames = written([(FrameKind.BEAT, b""), (FrameKind.DATA, b"x")])
    reader = FrameReader(SESSION)
    reader.take(frames[1])
    with pytest.raises(LinkageError):
        reader.next()
    reader.take(frames[0])
    with pytest.raises(LinkageError):
        reader.next()
