"""Linking over a channel: both sides learn the same links, a peer with other plans is refused, and files are whole."""

import io
import json
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcube.core.arrays import Bools, Ints
from dpcube.core.domain import Domain, Integer
from dpcube.core.errors import InputError, LinkageError
from dpcube.core.limits import MAX_RECORD_TEXT
from dpcube.curator.publishing import count
from dpcube.link import linking
from dpcube.link.blocking import BlockFile
from dpcube.link.features import Side
from dpcube.link.linking import LinkResult, check_new_result, link_records, write_links
from dpcube.link.program import Program, matches
from dpcube.link.rules import MatchingRules
from dpcube.link.session import LinkSession, prepare_session
from dpcube.research.arrays import experiment
from dpcube.testing import SeededNoise

DOMAIN = Domain(Integer("year", 1950, 1999))
RULES = MatchingRules.loads(
    'threshold = 2\n[[compare]]\ncolumn = "name"\nkind = "exact"\n'
    '[[compare]]\ncolumn = "year"\nkind = "number"\ntolerance = 2'
)
PEOPLE = pa.table(
    {"id": [f"a{i}" for i in range(300)], "name": [f"n{i}" for i in range(300)], "year": 1950 + np.arange(300) % 46}
)
OTHERS = pa.table(
    {
        "id": [f"b{i}" for i in range(100, 400)],
        "name": [f"N-{i}" for i in range(100, 400)],
        "year": np.minimum(1999, 1950 + np.arange(100, 400) % 46 + np.arange(300) % 4),
    }
)
TRUE = {(f"a{i}", f"b{i}") for i in range(100, 300) if (i - 100) % 4 <= 2}


@pytest.fixture(scope="module")
def blocks() -> BlockFile:
    release = experiment(count(PEOPLE, DOMAIN), epsilon="1", domain=DOMAIN, noise=SeededNoise(1))
    made = BlockFile.planned(release, RULES, epsilon="3", rounds=0)
    assert len(made.plan) > 2
    return made


class Pipe:
    """One end of a channel in memory."""

    def __init__(self, out: "Queue[bytes]", back: "Queue[bytes]", spoil: dict[int, bytes]) -> None:
        self.bytes_sent = self.bytes_received = self._turn = 0
        self._out, self._in, self._spoil = out, back, spoil

    def exchange(self, message: bytes) -> bytes:
        message = self._spoil.get(self._turn, message)
        self._turn += 1
        self._out.put(message)
        told = self._in.get(timeout=600)
        self.bytes_sent, self.bytes_received = self.bytes_sent + len(message), self.bytes_received + len(told)
        return told


def in_the_clear(side: Side) -> Any:
    """A step that shows the peer everything, and computes what the secure one must."""

    def step(peer: Pipe, program: Program, own: list[Ints], candidates: Sequence[tuple[int, int]]) -> list[Bools]:
        sent = io.BytesIO()
        np.savez(sent, *own)
        told = np.load(io.BytesIO(peer.exchange(sent.getvalue())))
        other = [told[f"arr_{number}"] for number in range(len(own))]
        left, right = (own, other) if side == "listener" else (other, own)
        return [matches(program, left[i], right[j]) for i, j in candidates]

    return step


def linked(
    sessions: tuple[LinkSession, LinkSession],
    plans: tuple[BlockFile, BlockFile],
    rules: tuple[MatchingRules, MatchingRules] = (RULES, RULES),
    spoil: dict[int, bytes] | None = None,
) -> list[LinkResult | Exception]:
    """Run both sides in threads; `spoil` is what the second sends instead, by the number of its message."""
    there: Queue[bytes] = Queue()
    back: Queue[bytes] = Queue()
    ends = Pipe(there, back, {}), Pipe(back, there, spoil or {})
    sides: tuple[Side, Side] = ("listener", "connector")

    def run(place: int) -> LinkResult | Exception:
        @contextmanager
        def opened() -> Iterator[Pipe]:
            yield ends[place]

        channel: Any = opened
        try:
            step = in_the_clear(sides[place])
            return link_records(channel, sides[place], sessions[place], plans[place], rules[place], step)
        except (InputError, LinkageError) as error:
            return error

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(run, (0, 1)))


@pytest.fixture(scope="module")
def sessions(blocks: BlockFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[LinkSession, LinkSession]:
    folder = tmp_path_factory.mktemp("sessions")
    made = [
        prepare_session(table, blocks, RULES, folder / name, id_column="id", ledger=None)
        for name, table in (("a", PEOPLE), ("b", OTHERS))
    ]
    return made[0], made[1]


def test_both_sides_learn_the_same_links_each_with_its_own_id_first(
    sessions: tuple[LinkSession, LinkSession], blocks: BlockFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "time", SimpleNamespace(monotonic=lambda: 1e9))
    ours, theirs = linked(sessions, (blocks, blocks))
    assert isinstance(ours, LinkResult)
    assert isinstance(theirs, LinkResult)
    assert set(ours.links) == TRUE
    assert len(ours.links) == len(TRUE)
    assert [(b, a) for a, b in ours.links] == list(theirs.links)
    assert ours.cost.pairs == theirs.cost.pairs < ours.cost.pairs_without
    assert "a1" not in repr(ours)
    shift, sizes = sessions[0].facts.shift, [session.sizes.tolist() for session in sessions]
    without = [max(shift, sum(one) - (len(one) - 1) * shift) for one in sizes]
    for found in (ours, theirs):
        assert found.cost.pairs_without == without[0] * without[1]
        assert found.cost.seconds == 0  # the clock stands still here
    assert ours.cost.sent_bytes == theirs.cost.sent_bytes > 10_000


def test_a_restart_finds_the_same(sessions: tuple[LinkSession, LinkSession], blocks: BlockFile) -> None:
    first, second = (linked(sessions, (blocks, blocks))[0] for _ in range(2))
    assert isinstance(first, LinkResult)
    assert isinstance(second, LinkResult)
    assert first.links == second.links
    assert first.cost.pairs == second.cost.pairs


def test_a_peer_of_other_rules_or_blocks_is_refused_by_name(
    sessions: tuple[LinkSession, LinkSession], blocks: BlockFile
) -> None:
    other = MatchingRules(RULES.rules, 1)
    for found in linked(sessions, (blocks, blocks), (RULES, other)):
        assert isinstance(found, LinkageError)
        assert "the peer has different rules;" in str(found)
    release = experiment(count(PEOPLE, DOMAIN), epsilon="1", domain=DOMAIN, noise=SeededNoise(2))
    for found in linked(sessions, (blocks, BlockFile.planned(release, RULES, epsilon="3", rounds=0))):
        assert isinstance(found, LinkageError)
        assert "the peer has different blocks;" in str(found)


@pytest.mark.parametrize("message", [b"", b"[]", b"[" * 100_000, b"\xff", b'{"rules": 1}', b"3"])
def test_a_malformed_greeting_is_refused(
    sessions: tuple[LinkSession, LinkSession], blocks: BlockFile, message: bytes
) -> None:
    ours = _with_hasty_peer(sessions[0], blocks, [message])
    assert isinstance(ours, LinkageError)
    assert "the peer has different format and rules and blocks" in str(ours)


@pytest.mark.parametrize(
    "ids",
    [[], ["x"] * (len(TRUE) + 1), ["x"] * (len(TRUE) - 1), [1] * len(TRUE), ["x" * 201] * len(TRUE), "x", {"a": 1}],
)
def test_ids_that_are_not_one_short_text_for_each_match_are_refused(
    sessions: tuple[LinkSession, LinkSession], blocks: BlockFile, ids: object
) -> None:
    ours, _ = linked(sessions, (blocks, blocks), spoil={2: json.dumps(ids).encode()})
    assert isinstance(ours, LinkageError)
    assert "one id for each match" in str(ours)


def _with_hasty_peer(session: LinkSession, blocks: BlockFile, messages: list[bytes]) -> LinkResult | Exception:
    back: Queue[bytes] = Queue()
    for message in messages:
        back.put(message)

    @contextmanager
    def opened() -> Iterator[Pipe]:
        yield Pipe(Queue(), back, {})

    channel: Any = opened
    try:
        return link_records(channel, "listener", session, blocks, RULES, in_the_clear("listener"))
    except LinkageError as error:
        return error


def test_a_matched_dummy_is_a_fault_and_nothing_is_told(
    sessions: tuple[LinkSession, LinkSession], blocks: BlockFile
) -> None:
    sent: list[bytes] = []

    class Greeting(Pipe):
        def exchange(self, message: bytes) -> bytes:
            sent.append(message)
            return message

    @contextmanager
    def opened() -> Iterator[Pipe]:
        yield Greeting(Queue(), Queue(), {})

    def everything(_: object, __: Program, own: list[Ints], candidates: list[tuple[int, int]]) -> list[Bools]:
        return [np.ones((len(own[i]), 3), np.bool_) for i, _ in candidates]

    channel: Any = opened
    with pytest.raises(LinkageError, match="a dummy was matched"):
        link_records(channel, "listener", sessions[0], blocks, RULES, everything)
    assert len(sent) == 1  # the digests alone


def test_links_are_written_whole_and_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    check_new_result(path)
    write_links(path, [("a1", "b1"), ('x,"y', "=1"), ("=1", "-1"), ("+a", "+a")])  # the peer's text is foreign
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == 'own_id,peer_id\na1,b1\n"x,""y",\'=1\n=1,-1\n+a,\'+a\n'
    for wrong in (path, tmp_path / "no" / "links.csv"):
        with pytest.raises(InputError, match="choose another name"):
            check_new_result(wrong)
    with pytest.raises(FileExistsError):
        write_links(path, [])


def test_what_fails_while_links_are_written_shows_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.open", lambda *_: os.close(-1))  # a disk that fails
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        write_links(tmp_path / "links.csv", [("Zebulon", "b1")])
    frames = [frame.frame.f_locals for frame in raised.traceback if frame.path != Path(__file__)]
    assert "Zebulon" not in repr(frames)
    assert raised.value.__context__ is None


BITS = [np.zeros((2, 3), np.bool_), np.zeros((2, 4), np.bool_), np.zeros((5, 4), np.bool_)]


def test_the_peers_sizes_are_those_of_the_other_side_of_the_bits() -> None:
    candidates = [(0, 1), (0, 2), (3, 2)]
    assert linking._peer_sizes("listener", candidates, BITS) == [3, 4]
    assert linking._peer_sizes("connector", candidates, BITS) == [2, 5]


def test_without_blocks_the_padding_is_there_once() -> None:
    assert linking._in_one_block([10, 12, 11], 5) == 23
    assert linking._in_one_block([7, 7], 7) == 7
    assert linking._in_one_block([3], 5) == 5


LONGEST = "x" * MAX_RECORD_TEXT


@pytest.mark.parametrize("ids", [[], ["a", ""], ["a", LONGEST], ["\u00e9", "\U0001f600"]])
def test_ids_of_a_peer_are_texts(ids: list[str]) -> None:
    assert linking._ids_of_peer(json.dumps(ids).encode(), len(ids)) == ids


@pytest.mark.parametrize(
    "told",
    [
        *(b"", b"\xff", b"[" * 100_000, b"null", b"2", b'{"a": 1, "b": 2}', b'"ab"', b'["a"]', b'["a", "b", "c"]'),
        *(b'["a", 1]', b'[1, "a"]', b'["a", null]', b'["a", ["b"]]', b'["a", "\\ud800"]'),
        json.dumps(["a", LONGEST + "x"]).encode(),
    ],
    ids=lambda told: str(told[:20]),
)
def test_what_is_no_list_of_two_ids_is_refused(told: bytes) -> None:
    with pytest.raises(LinkageError, match="one id for each match"):
        linking._ids_of_peer(told, 2)


def test_a_plan_is_told_in_one_order_of_its_parts(blocks: BlockFile) -> None:
    class Peer:
        bytes_sent = bytes_received = 0
        told = b""

        def exchange(self, message: bytes) -> bytes:
            self.told = message
            return message

    linking._compare_plans(peer := Peer(), blocks, RULES)
    told = json.loads(peer.told)
    assert list(told) == sorted(told) == ["blocks", "format", "rules"]
    assert (told["blocks"], told["rules"]) == (blocks.digest, RULES.digest)


def test_links_are_lines_that_end_alike_on_every_system(tmp_path: Path) -> None:
    write_links(tmp_path / "links", [("\u00e9", "b"), ('a"b', "c,d")])
    expected = 'own_id,peer_id\n\u00e9,b\n"a""b","c,d"\n'
    assert (tmp_path / "links").read_bytes() == expected.encode()
