"""Equality by set intersection gives the match bits of the clear; a peer cannot make it say more."""

import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import InputError, LinkageError
from dpcube.link.program import Comparison, Program, matches
from dpcube.link.secure import step
from dpcube.link.secure.agreement import Agreement
from dpcube.link.secure.channel import Channel, await_peer, open_listener, reach_peer
from dpcube.link.secure.credentials import Credentials, shared_key, write_shared_key
from dpcube.link.secure.intersection import ITEM_BYTES, Intersect, intersection_matches
from dpcube.link.secure.step import OPENMINED, secure_matches, usable_engines

PROGRAM = Program((Comparison("exact", 1, 1), Comparison("exact", 1, 1)), 2)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    path = tmp_path_factory.mktemp("key") / "key"
    write_shared_key(path)
    return shared_key(path)


@contextmanager
def session(key: Credentials) -> Iterator[tuple[Channel, Channel]]:
    with open_listener("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(await_peer, listener, key, seconds=20)
        connector = reach_peer("127.0.0.1", listener.getsockname()[1], key)
        with awaited.result() as made, connector:
            yield made, connector


def closing(end: Channel, task: Callable[[], Any]) -> Any:
    """Do a task; if it fails, the other side shall not wait."""
    try:
        return task()
    except BaseException:
        end.close()
        raise


def both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return [done.exception() or done.result() for done in (pool.submit(first), pool.submit(second))]


def in_the_clear(channel: Channel, sizes: list[int]) -> Intersect:
    """An intersection that hides nothing, and notes how many items there were."""

    def intersect(items: Sequence[bytes], peers: int) -> set[bytes]:
        assert len(set(items)) == len(items)
        told = channel.exchange(b"".join(items))
        assert len(told) == ITEM_BYTES * peers
        sizes.append(len(items))
        return set(items) & {told[start : start + ITEM_BYTES] for start in range(0, len(told), ITEM_BYTES)}

    return intersect


BLOCKS = st.lists(st.lists(st.tuples(*[st.integers(0, 1)] * 3), max_size=5), min_size=2, max_size=2)


def features(blocks: list[list[tuple[int, int, int]]]) -> list[Ints]:
    return [np.array(block, np.int64).reshape(len(block), 3) for block in blocks]


def wanted(agreement: Agreement, left: list[Ints], right: list[Ints]) -> list[Bools]:
    return [matches(PROGRAM, left[i], right[j]) for i, j in agreement.candidates]


@given(BLOCKS, BLOCKS, st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), unique=True, max_size=4))
@settings(max_examples=30)
def test_match_bits_are_those_of_the_clear_and_sets_are_of_the_padded_size(
    key: Credentials, first: Any, second: Any, candidates: list[tuple[int, int]]
) -> None:
    left, right = features(first), features(second)
    sizes = [tuple(len(block) for block in side) for side in (left, right)]
    agreement = Agreement(PROGRAM, tuple(candidates), sizes[0], sizes[1])
    used: tuple[list[int], list[int]] = ([], [])
    with session(key) as ends:
        clear = [in_the_clear(end, sizes_used) for end, sizes_used in zip(ends, used, strict=True)]
        found = both(
            lambda: closing(ends[0], lambda: intersection_matches(ends[0], agreement, left, clear[0])),
            lambda: closing(ends[1], lambda: intersection_matches(ends[1], agreement, right, clear[1])),
        )
    for bits in found:
        assert isinstance(bits, list), bits
        for one, want in zip(bits, wanted(agreement, left, right), strict=True):
            assert np.array_equal(one, want)
    totals = [sum(sizes[0][i] for i, _ in candidates), sum(sizes[1][j] for _, j in candidates)]
    assert [used[0], used[1]] == [[totals[0]], [totals[1]]] or 0 in totals


def rows_told(key: Credentials, answer: Callable[[bytes], bytes]) -> Any:
    """What becomes of an honest side whose peer, after an intersection, names other rows than it should."""
    rows = np.array([[1, 4, 4], [1, 5, 5], [1, 5, 5]], np.int64)
    agreement = Agreement(PROGRAM, ((0, 0),), (3,), (3,))

    class Liar:
        """An end of a channel that sends something else than rows."""

        role, session = "connector", b""

        def __init__(self, end: Channel) -> None:
            self.end, self.session = end, end.session

        def exchange(self, message: bytes) -> bytes:
            return self.end.exchange(answer(message))

    with session(key) as ends:
        liar: Any = Liar(ends[1])
        return both(
            lambda: intersection_matches(ends[0], agreement, [rows], in_the_clear(ends[0], [])),
            lambda: intersection_matches(liar, agreement, [rows], in_the_clear(ends[1], [])),
        )[0]


def test_an_honest_peer_is_believed(key: Credentials) -> None:
    (bits,) = rows_told(key, lambda told: told)
    assert bits.tolist() == [[True, False, False], [False, True, True], [False, True, True]]


@pytest.mark.parametrize(
    "numbers", [[], [1, 0], [1, 0, 3, 1, 2], [1, 3, 1, 1], [2, 1, 1, 1, 2], [0, 1, 1], [1, 0, 1, 1, 1], [2**32 - 1, 0]]
)
def test_rows_that_cannot_be_are_refused(key: Credentials, numbers: list[int]) -> None:
    error = rows_told(key, lambda _: struct.pack(f">{len(numbers)}I", *numbers))
    assert isinstance(error, LinkageError)
    assert "row numbers" in str(error)


def test_bytes_that_are_no_rows_are_refused(key: Credentials) -> None:
    assert isinstance(rows_told(key, lambda told: told + b"\0"), LinkageError)


# Which engine.


@pytest.fixture
def _no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("DPCUBE_CACHE", str(tmp_path))
    monkeypatch.delenv("DPCUBE_LINK_ENGINE", raising=False)


@pytest.mark.usefixtures("_no_engine")
def test_without_the_engine_only_equality_can_be_asked_for() -> None:
    pytest.importorskip("private_set_intersection.python")
    assert list(usable_engines(PROGRAM)) == [OPENMINED]
    with pytest.raises(InputError, match="--install-engine"):
        usable_engines(Program((Comparison("number", 1, 1),), 1))


@pytest.mark.usefixtures("_no_engine")
def test_openmined_finds_what_is_equal(key: Credentials) -> None:
    pytest.importorskip("private_set_intersection.python")
    draw = np.random.default_rng(3)
    kinds = np.array([2, 3, 3])
    left, right = ([draw.integers(0, kinds, (n, 3)) for n in sizes] for sizes in ([6, 0, 9], [5, 7]))
    candidates = [(0, 0), (1, 1), (2, 1)]
    with session(key) as ends:
        found = both(
            lambda: secure_matches(ends[0], PROGRAM, left, candidates),
            lambda: secure_matches(ends[1], PROGRAM, right, candidates),
        )
    want = [matches(PROGRAM, left[i], right[j]) for i, j in candidates]
    for bits in found:
        assert [one.tolist() for one in bits] == [one.tolist() for one in want]
    assert any(one.any() for one in want)


@pytest.mark.parametrize("told", [b"", b"[]", b"7", b'["another"]', b"[" * 100_000])
def test_no_engine_in_common_is_said(key: Credentials, monkeypatch: pytest.MonkeyPatch, told: bytes) -> None:
    monkeypatch.setattr(step, "usable_engines", lambda *_: {"one": socket})
    with session(key) as ends:
        ends[1].send(told)
        ends[1].flush()
        with pytest.raises(LinkageError, match="no engine in common; this side has one"):
            secure_matches(ends[0], PROGRAM, [], [])


def test_features_out_of_bounds_are_refused_before_the_peer_hears_of_them() -> None:
    nobody: Any = object()  # whose channel has nothing to send with
    with pytest.raises(InputError, match="columns of the program"):
        secure_matches(nobody, PROGRAM, [np.zeros((2, PROGRAM.width + 1), np.int64)], [])


def test_blocks_of_other_sizes_than_the_peer_has_published_are_refused(
    key: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "usable_engines", lambda *_: {OPENMINED: socket})
    blocks = [np.zeros((2, PROGRAM.width), np.int64)]
    with session(key) as ends:

        def refuses() -> None:
            with pytest.raises(LinkageError, match="other sizes than it has published"):
                secure_matches(ends[0], PROGRAM, blocks, [(0, 0)], peer_sizes=[3])
            ends[0].close(reason=True)

        def is_left() -> None:
            with suppress(LinkageError):
                secure_matches(ends[1], PROGRAM, blocks, [(0, 0)])

        assert both(refuses, is_left) == [None, None]
