"""`dpcube link` killed half-way and started again with the same session: nothing new is shown, charged or lost."""

import csv
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcube.core.ledger.ledger import Ledger
from dpcube.link.secure import install_engine
from dpcube.link.secure.environment import ENGINE_SWITCH
from forked import dpcube
from nightly import at_night

pytestmark = pytest.mark.slow

RULES = """
threshold = 2
[[compare]]
column = "name"
kind = "text"
similar = 0.9
bits = 64
[[compare]]
column = "year"
kind = "number"
tolerance = 1
"""
DOMAIN = 'format = 1\n[[attribute]]\nname = "year"\ntype = "integer"\nmin = 1950\nmax = 1959\n'
NAMES = ("anna", "bruno", "clara", "dirk", "elena", "fritz", "greta", "hugo", "ingrid", "jonas")
ROLES = ("a", "b")
GIVE_UP = 1800.0
"""Seconds after which what is waited for will not come; how soon it comes is the machine's matter."""
DELTA = Fraction(1, 10**6)


def person(name: str, number: int) -> str:
    return f"{name}{number},{NAMES[number % 10]} {NAMES[number // 10]} {number},{1950 + number % 10}"


@pytest.fixture(scope="module")
def engine() -> str:
    return os.environ.get(ENGINE_SWITCH) or str(install_engine(Path(sys.prefix) / "link-engine"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small tables, each with a ledger that allows a delta, rules, blocks and a key."""
    tmp_path = tmp_path_factory.mktemp("restart")
    for name, first in (("a", 0), ("b", 30)):
        rows = [person(name, number) for number in range(first, first + 60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,name,year", *rows, ""]))
        Ledger.create(tmp_path / f"{name}.ledger", total=Fraction(10), delta=100 * DELTA)
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "domain.toml").write_text(DOMAIN)
    release = ("release", "a.csv", "--domain", "domain.toml", "--epsilon", "4", "-o", "r.dpcube")
    for words in (release, ("block", "r.dpcube", "--rules", "rules.toml", "--epsilon", "3", "-o", "blocks.json")):
        assert dpcube(*words, cwd=tmp_path).returncode == 0
    assert dpcube("link", "--new-key", "key", cwd=tmp_path).returncode == 0
    return tmp_path


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared, tmp_path / "parties")


def words_of(name: str, *more: str) -> list[str]:
    return ["link", f"{name}.csv", "--id", "id", *session_of(name), *more]


def session_of(name: str) -> list[str]:
    return ["--blocks", "blocks.json", "--rules", "rules.toml", "--session", f"{name}.session"]


@pytest.fixture
def started(folder: Path, engine: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Start both parties; whatever becomes of the test, they are gone after it."""
    every: list[Any] = []

    def start() -> dict[str, Any]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        where = {"a": ["--listen", str(port)], "b": ["--connect", f"127.0.0.1:{port}"]}
        running = {}
        for name in ROLES:
            words = words_of(
                name, *where[name], "--key", "key", "-o", f"{name}.links", "--json", "--wait", str(GIVE_UP)
            )
            running[name] = subprocess.Popen(
                [sys.executable, "-m", "dpcube", *words],
                cwd=folder,
                env={**os.environ, ENGINE_SWITCH: engine, "TMPDIR": "/tmp"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        every.extend(running.values())
        return running

    yield start
    for process in every:
        process.kill()
        process.communicate()


def children(process: Any) -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in listed.read_text().split()] if listed.exists() else []


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return bool(condition())


def is_alive(number: int) -> bool:
    return Path(f"/proc/{number}/exe").exists()


def has_stopped(number: int) -> bool:
    """Whether every thread of a process stands still."""
    states = [path.read_text().rpartition(") ")[2][0] for path in Path(f"/proc/{number}/task").glob("*/stat")]
    return set(states) == {"T"}


def is_half_way(party: Any) -> bool:
    """Whether a party's engine talks to the peer's: beside the doorway, its party holds sockets that came in by it."""
    return sum(name.endswith("/peer") for name in unix_names(party.pid)) > 1


def unix_names(number: int) -> list[str]:
    held = set()
    for one in Path(f"/proc/{number}/fd").glob("*"):
        try:
            held.add(one.readlink().name.removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [line[7] for line in lines if len(line) > 7 and line[6] in held]


def state(folder: Path) -> list[object]:
    """What must not change: each session's file, and what each ledger was charged."""
    sessions = [hashlib.sha256((folder / f"{name}.session").read_bytes()).hexdigest() for name in ROLES]
    books = [Ledger(folder / f"{name}.ledger").statement() for name in ROLES]
    return [*sessions, *((one.spent, one.spent_delta, len(one.charges)) for one in books)]


def shown_sizes(folder: Path) -> list[object]:
    """The padded sizes that a restart would show."""
    told = [json.loads(dpcube("link", *session_of(name), "--json", cwd=folder).stdout) for name in ROLES]
    assert not any(one["new"] for one in told)
    return [one["padded_sizes"] for one in told]


def links(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("victim", ["both", at_night("party"), at_night("engine")])
def test_a_run_that_is_killed_and_started_again_shows_and_costs_nothing_more(
    folder: Path, started: Callable[[], dict[str, Any]], victim: str
) -> None:
    first = started()
    assert wait_for(lambda: all(is_half_way(one) for one in first.values()), GIVE_UP)
    engines = {name: children(one)[0] for name, one in first.items()}
    before = state(folder)
    assert before[2:] == [(Fraction(7), DELTA, 3), (Fraction(3), DELTA, 1)]  # a release is charged in two parts
    if victim == "both":  # a party that saw its engine die before it is killed itself would say so
        first["b"].send_signal(signal.SIGSTOP)
        assert wait_for(lambda: has_stopped(first["b"].pid), GIVE_UP)
    if victim in ("engine", "both"):
        os.kill(engines["b"], signal.SIGKILL)
    if victim in ("party", "both"):
        first["b"].send_signal(signal.SIGKILL)
    for name, process in first.items():
        _, told = process.communicate(timeout=1800)
        was_killed = name == "b" and victim != "engine"
        assert process.returncode == (-signal.SIGKILL if was_killed else 1), told
        assert told.count("\n") == (0 if was_killed else 1)
    assert wait_for(lambda: not any(map(is_alive, engines.values())), GIVE_UP)
    assert not list(folder.glob("*.links"))
    assert state(folder) == before
    sizes = shown_sizes(folder)

    again = started()
    results = [json.loads(process.communicate(timeout=1800)[0]) for process in again.values()]
    assert [process.returncode for process in again.values()] == [0, 0]
    assert (state(folder), shown_sizes(folder)) == (before, sizes)
    found = links(folder / "a.links")
    assert set(found) == {(f"a{number}", f"b{number}") for number in range(30, 60)}
    assert links(folder / "b.links") == [(theirs, ours) for ours, theirs in found]
    assert results[0]["pairs"] == results[1]["pairs"]
