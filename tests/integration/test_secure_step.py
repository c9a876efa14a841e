"""The secure step between real processes on loopback: the same bits as in the clear, and a clear end when one dies."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube.core.arrays import Ints
from dpcube.link.limits import MAX_COMPARED
from dpcube.link.program import Comparison, Program, matches
from dpcube.link.secure import install_engine, write_shared_key
from dpcube.link.secure.environment import ENGINE_SWITCH
from nightly import at_night

pytestmark = pytest.mark.slow

PARTY = """
import json, os, sys
import numpy as np
from dpcube.core.errors import DpcubeError
from dpcube.link.program import Comparison, Program
from dpcube.link.secure import Channel, await_peer, open_listener, reach_peer, secure_matches, shared_key

sent, queue = [], Channel.queue
Channel.queue = lambda self, kind, payload=b"": (sent.append(payload), queue(self, kind, payload))[1]
beat = Channel.beat  # before its peer is frozen, a party that is slow is waited for
Channel.beat = lambda self, silence: beat(self, silence if os.path.exists(f"{folder}/frozen") else 1800.0)
role, port, folder, silence = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
told = json.load(open(f"{folder}/program.json"))
comparisons = [Comparison(one["kind"], one["columns"], one["weight"], one["tolerance"], tuple(one["dice"]))
               for one in told["comparisons"]]
program = Program(tuple(comparisons), told["threshold"])
blocks = [np.load(f"{folder}/{role}{k}.npy") for k in range(told[role])]
try:
    key = shared_key(f"{folder}/key")
    if role == "listener":
        channel = await_peer(open_listener("127.0.0.1", port), key, seconds=1800)
    else:
        channel = reach_peer("127.0.0.1", port, key)
    with channel:
        print("begun", flush=True)
        found = secure_matches(channel, program, blocks, [tuple(c) for c in told["candidates"]], silence=silence,
                               progress=lambda done: print(done, flush=True))
except DpcubeError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
np.savez(f"{folder}/{role}.npz", *found)
open(f"{folder}/{role}.sent", "wb").write(b"".join(sent))
"""

PROGRAMS = {
    "weights": Program(
        (
            Comparison("text", 24, 3, dice=(4, 5)),
            Comparison("number", 1, 2, tolerance=2),
            Comparison("exact", 2, 4),
            Comparison("number", 1, 1, tolerance=2**27),
        ),
        threshold=5,
    ),
    "all": Program((Comparison("text", 24, 1, dice=(1, 2)), Comparison("exact", 1, 1)), threshold=2),
    "number": Program((Comparison("number", 1, 1, tolerance=2),), threshold=1),
    "equal": Program((Comparison("exact", 2, 1),), threshold=1),  # by set intersection
}


@pytest.fixture(scope="session")
def engine() -> str:
    """The engine's Python, made once beside the one that runs the tests, unless DPCUBE_LINK_ENGINE names one."""
    return os.environ.get(ENGINE_SWITCH) or str(install_engine(Path(sys.prefix) / "link-engine"))


def rows(draw: np.random.Generator, program: Program, size: int) -> Ints:
    """Rows of few values, some at the edges, a text of no bits and a few dummies."""
    columns: list[Any] = [draw.integers(0, 5, size) > 0]
    for place, one in enumerate(program.comparisons):
        if one.kind == "text":
            bits = draw.random((size, one.columns)) < draw.choice([0, 0.5, 0.9], (size, 1))
            columns += list(bits.T)
        elif one.kind == "exact":
            columns += [draw.choice([-(2**63), SECRETS[0], SECRETS[1]], size) for _ in range(one.columns)]
        else:
            near = draw.integers(-3, 4, size)
            columns.append(near if place < 2 else near % 3 * MAX_COMPARED - MAX_COMPARED)
    return np.stack(columns, axis=1).astype(np.int64)


SECRETS = (0x1F3D5B79A2C4E688, -0x2E4C6A8091B3D5F7)
"""Values that can be told in a stream of bytes."""


class Parties:
    """Two processes, what they are given, and what became of them."""

    def __init__(self, folder: Path, engine: str, program: Program, sizes: dict[str, list[int]]) -> None:
        self.folder, self.engine, self.program = folder, engine, program
        draw = np.random.default_rng(8)
        self.blocks = {role: [rows(draw, program, size) for size in sizes[role]] for role in sizes}
        self.candidates = [(0, 0), (1, 0), (2, 1), (0, 1)]
        if not (folder / "key").exists():
            write_shared_key(folder / "key")
        told = json.loads(program.canonical())
        counts = {role: len(blocks) for role, blocks in self.blocks.items()}
        (folder / "program.json").write_text(
            json.dumps({"comparisons": told[1], "threshold": told[2], "candidates": self.candidates, **counts})
        )
        for role, blocks in self.blocks.items():
            for number, block in enumerate(blocks):
                np.save(folder / f"{role}{number}.npy", block)

    def start(self, *, silence: float = 300) -> dict[str, "subprocess.Popen[str]"]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        return {
            role: subprocess.Popen(
                [sys.executable, "-c", PARTY, role, str(port), str(self.folder), str(silence)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, ENGINE_SWITCH: self.engine},
            )
            for role in ("listener", "connector")
        }

    def check(self, running: dict[str, "subprocess.Popen[str]"]) -> None:
        """Both end well, with the bits of the clear."""
        for role, process in running.items():
            _, errors = process.communicate(timeout=1800)
            assert (process.returncode, errors) == (0, ""), role
            found = np.load(self.folder / f"{role}.npz")
            wanted = [
                matches(self.program, self.blocks["listener"][i], self.blocks["connector"][j])
                for i, j in self.candidates
            ]
            assert [found[name].shape for name in found.files] == [want.shape for want in wanted]
            for name, want in zip(found.files, wanted, strict=True):
                assert np.array_equal(found[name], want), role
            assert any(want.any() for want in wanted)
            sent = (self.folder / f"{role}.sent").read_bytes()
            assert len(sent) > 10_000
            for secret in SECRETS:  # no value goes over in the clear, nor what the other side would have to add to it
                for told in (secret, -secret):
                    assert struct.pack("<q", told) not in sent
                    assert struct.pack(">q", told) not in sent


SIZES = {"listener": [7, 0, 70], "connector": [33, 36]}


@pytest.fixture
def ended() -> Iterator[list[Any]]:
    """Processes that are gone after the test, whatever became of it."""
    started: list[Any] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            pipe.close()


@pytest.mark.parametrize("name", ["weights", "all", "equal"])
def test_both_sides_get_the_bits_of_the_clear(tmp_path: Path, engine: str, ended: list[Any], name: str) -> None:
    parties = Parties(tmp_path, engine, PROGRAMS[name], SIZES)
    running = parties.start()
    ended += running.values()
    parties.check(running)


def children(process: "subprocess.Popen[str]") -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in listed.read_text().split()] if listed.exists() else []


def wait_for(condition: Any, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)
    return bool(condition())


@pytest.mark.parametrize("victim", [at_night("party"), "engine", "frozen"])
def test_a_death_half_way_is_told_and_a_new_start_succeeds(
    tmp_path: Path, engine: str, ended: list[Any], victim: str
) -> None:
    """A party dies, its engine dies, or it is there and silent: the other ends with a line, no engine stays."""
    parties = Parties(tmp_path, engine, PROGRAMS["number"], {"listener": [7, 0, 700], "connector": [33, 700]})
    running = parties.start(silence=8 if victim == "frozen" else 300.0)
    ended += running.values()
    left, right = running["listener"], running["connector"]
    assert left.stdout is not None
    assert wait_for(lambda: children(left) and children(right), 300)
    engines = children(left) + children(right)
    assert left.stdout.readline() == "begun\n"
    assert left.stdout.readline() in (
        "1\n",
        "2\n",
    )  # of four, the second empty; the third is decided in two goes
    if victim == "engine":
        os.kill(children(right)[0], signal.SIGKILL)
    else:
        right.send_signal(signal.SIGKILL if victim == "party" else signal.SIGSTOP)
    if victim == "frozen":
        (tmp_path / "frozen").touch()
    _, told = left.communicate(timeout=1800)
    right.send_signal(signal.SIGKILL if victim == "frozen" else signal.SIGCONT)
    assert left.returncode == 1
    assert told.count("\n") == 1
    expected = {"party": "closed the connection", "engine": "ended the session early", "frozen": "silent for 8 s"}
    assert expected[victim] in told
    if victim == "engine":
        assert "the engine stopped before its work was done" in right.communicate(timeout=1800)[1]
    assert wait_for(lambda: not any(Path(f"/proc/{number}/exe").exists() for number in engines), 300)
    assert not list(tmp_path.glob("*.npz"))
    if victim == "party":
        again = parties.start()
        ended += again.values()
        parties.check(again)
