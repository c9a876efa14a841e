"""The ledger among processes: killed at random points, racing for the last of a budget, racing to be the first.

A `Nursery` is one small process that imports the ledger and nothing heavy, and forks a worker for each order. What a
worker tells, it tells only after the ledger has returned: an acknowledgement that was heard must be on disk.
"""

import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest

from dpcube.core.errors import BudgetError
from dpcube.core.ledger.ledger import Ledger

SOURCE = Path(__file__).parents[2] / "src"
KILLS = 250
EPSILON = Fraction(1, 7)
HEAVY = ("numpy", "numba", "duckdb", "pyarrow", "scipy", "cryptography", "click")

NURSERY = """
import os, sys
from fractions import Fraction
from pathlib import Path
from dpcube.core.errors import BudgetError, LedgerError
from dpcube.core.ledger.ledger import Ledger

EPSILON = Fraction(1, 7)
# SABOTAGE


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # one write of a short line is never mixed up


def open_or_make(path, total):
    if not path.exists():
        try:
            ledger = Ledger.create(path, total=total)
            tell("made", path.name)
            return ledger
        except LedgerError:
            if not path.exists():
                raise
    return Ledger(path)


def work(path, total):
    ledger = open_or_make(path, total)
    while True:
        try:
            number = ledger.charge(EPSILON, strategy="cells", domain="d")
        except BudgetError:
            tell("refused", path.name)
            continue
        tell("charged", number)
        tell("drawn", number)
        ledger.complete(number, f"digest of {number}")
        tell("completed", number)


def race(path, total, tries):
    ledger = open_or_make(path, total)
    for _ in range(tries):
        try:
            tell("charged", ledger.charge(EPSILON, strategy="cells", domain="d"))
        except BudgetError:
            tell("refused", path.name)


def answer(order, path, total, *more):
    try:
        {"work": work, "race": race}[order](Path(path), Fraction(total), *map(int, more))
    except BaseException as error:
        tell("failed", type(error).__name__, str(error))
    os._exit(0)


tell("ready", " ".join(sys.modules))
for line in sys.stdin:
    if line.startswith("alone "):
        pid = os.fork()
        if not pid:
            answer(*line.split()[1:])
        tell("started", pid)
        os.waitpid(pid, 0)
    else:
        number, *order = line.split()
        gate, opened = os.pipe()
        workers = []
        for _ in range(int(number)):
            workers.append(os.fork())
            if not workers[-1]:
                os.close(opened)
                os.read(gate, 1)  # returns in all workers at once, when the gate is closed
                answer(*order)
        os.close(gate)
        os.close(opened)
        for pid in workers:
            os.waitpid(pid, 0)
    tell("over")
"""


class Nursery:
    """Forks workers, and hears what they tell."""

    def __init__(self, sabotage: str = "", **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", NURSERY.replace("# SABOTAGE", sabotage)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(SOURCE), **environment},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._told = self._process.stdin, self._process.stdout
        ready, *self.modules = self.hear().split()
        assert ready == "ready"

    def order(self, *words: object) -> None:
        self._orders.write((" ".join(map(str, words)) + "\n").encode())
        self._orders.flush()

    def hear(self, *, patience: float = 600) -> str:
        heard, _, _ = select.select([self._told], [], [], patience) if not self._told.peek() else (True, None, None)  # type: ignore[attr-defined]
        assert heard, f"the workers were silent for {patience} s"
        return str(self._told.readline().decode().rstrip("\n"))

    def hear_all(self) -> list[str]:
        """Everything until the order is over."""
        told = list(iter(self.hear, "over"))
        assert not [line for line in told if line.startswith("failed")], told
        return told

    def close(self) -> None:
        self._orders.close()
        self._process.wait(timeout=600)
        self._told.close()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with closing(Nursery()) as nursery:
        yield nursery


def test_the_ledger_imports_nothing_heavy(nursery: Nursery) -> None:
    imported = {name.partition(".")[0] for name in nursery.modules}
    assert "sqlite3" in imported
    assert not imported & set(HEAVY)


@dataclass
class Life:
    """A ledger's file, everything acknowledged about it so far, and how often its users were killed."""

    path: Path
    total: Fraction
    made: bool = False
    refused: bool = False
    charged: set[int] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)
    kills: int = 0

    def note(self, told: list[str]) -> None:
        for line in told:
            word, _, rest = line.partition(" ")
            self.made |= word in ("made", "charged", "refused")
            self.refused |= word == "refused"
            if word == "charged":
                assert int(rest) not in self.charged, "one charge was sold twice"
                self.charged.add(int(rest))
            elif word == "completed":
                self.completed.add(int(rest))

    def check(self) -> None:
        """What was acknowledged is there, and there is at most one more entry of each kind for every kill."""
        if not self.path.exists():
            assert not self.made
            return
        state = Ledger(self.path).statement()
        numbers = {charge.number for charge in state.charges}
        completed = {charge.number for charge in state.charges if charge.digest is not None}
        assert self.charged <= numbers
        assert self.completed <= completed
        assert len(numbers - self.charged) <= self.kills
        assert len(completed - self.completed) <= self.kills
        assert all(charge.digest in (None, f"digest of {charge.number}") for charge in state.charges)
        assert state.total == self.total
        assert state.spent == EPSILON * len(numbers) <= state.total  # completed or not
        if self.refused:
            assert state.spent + EPSILON > state.total


def kill_one(nursery: Nursery, life: Life, delay: float) -> str:
    """Let a worker go on for a while, kill it, and check; return where it was caught."""
    nursery.order("alone", "work", life.path, life.total)
    word, pid = nursery.hear().split()
    while word != "started":  # a worker may be faster than its parent
        life.note([f"{word} {pid}"])
        word, pid = nursery.hear().split()
    time.sleep(delay)
    os.kill(int(pid), signal.SIGKILL)
    told = nursery.hear_all()
    life.kills += 1
    journal = Path(f"{life.path}-journal").exists()
    before = life.path.exists()
    life.note(told)
    life.check()
    if not before:
        return "making the file"
    return "inside a transaction" if journal else "between transactions"


def durations(path: Path) -> tuple[float, float]:
    """How long it takes here to make a ledger, and to charge one."""
    times = [time.perf_counter()]
    ledger = Ledger.create(path, total=Fraction(1))
    times.append(time.perf_counter())
    for _ in range(5):
        ledger.charge(EPSILON, strategy="cells", domain="d")
    return times[1] - times[0], (time.perf_counter() - times[1]) / 5


@pytest.mark.slow
def test_killed_at_random_points_it_loses_no_charge_and_never_overspends(nursery: Nursery, tmp_path: Path) -> None:
    """Each ledger lives through ten kills, the first ones while it is made and, if it is small, the last when spent."""
    chance = random.Random(20_260_101)  # of the delays; where a delay catches a process is up to the machine
    caught: Counter[str] = Counter()
    lives: list[Life] = []
    uncompleted = 0

    def has_met_everything() -> bool:
        every = min(caught[place] for place in ("inside a transaction", "between transactions", "making the file")) > 2
        return (
            every and caught["inside a transaction"] >= 20 and any(life.refused for life in lives) and uncompleted > 0
        )

    # A machine that syncs in no time, or is busy, may need more kills until enough of them have met a transaction.
    while caught.total() < KILLS or (not has_met_everything() and caught.total() < 40 * KILLS):
        life = Life(tmp_path / f"{len(lives)}.ledger", EPSILON * chance.choice([2, 100, 1000]))
        lives.append(life)
        making, charging = durations(tmp_path / f"{len(lives)}.durations")
        for turn in range(10):
            if turn == 3 and not life.path.exists():
                Ledger.create(life.path, total=life.total)
            longest = 8 * charging if life.path.exists() else 1.5 * making
            caught[kill_one(nursery, life, chance.uniform(0, longest))] += 1
        if life.path.exists():
            uncompleted += sum(charge.digest is None for charge in Ledger(life.path).statement().charges)
    assert has_met_everything()
    for life in lives:
        ledger = Ledger(life.path) if life.path.exists() else Ledger.create(life.path, total=life.total)
        if remaining := ledger.statement().remaining:
            ledger.charge(remaining, strategy="cells", domain="d")  # the rest is there to be spent, and no more
        with pytest.raises(BudgetError):
            ledger.charge(Fraction(1, 10**9), strategy="cells", domain="d")
    print(f"\n{caught.total()} kills: {dict(caught)}; {uncompleted} charges were left uncompleted")


@pytest.mark.slow
@pytest.mark.parametrize("affordable", [1, 5, 7, 12])
def test_of_eight_racing_processes_exactly_as_many_succeed_as_can_be_paid(
    affordable: int, nursery: Nursery, tmp_path: Path
) -> None:
    for turn in range(5):
        total = EPSILON * affordable + Fraction(1, 1000)  # what is over pays for nothing
        path = tmp_path / f"{turn}.ledger"
        Ledger.create(path, total=total)
        nursery.order(8, "race", path, total, 2)
        told = nursery.hear_all()
        charged = [int(line.split()[1]) for line in told if line.startswith("charged")]
        assert len(charged) == len(set(charged)) == affordable
        assert sum(line.startswith("refused") for line in told) == 16 - affordable
        state = Ledger(path).statement()
        assert {charge.number for charge in state.charges} == set(charged)
        assert state.remaining == Fraction(1, 1000)


def test_of_eight_processes_that_make_one_ledger_one_does(nursery: Nursery, tmp_path: Path) -> None:
    for turn in range(6):
        path = tmp_path / f"{turn}.ledger"
        nursery.order(8, "race", path, EPSILON * 3, 1)
        told = nursery.hear_all()
        assert sum(line.startswith("made") for line in told) == 1
        assert sum(line.startswith("charged") for line in told) == 3
        assert sum(line.startswith("refused") for line in told) == 5
        state = Ledger(path).statement()
        assert (state.spent, len(state.totals)) == (EPSILON * 3, 1)
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{turn}.ledger" for turn in range(6)]


UNLOCKED = """
import time
from contextlib import contextmanager
from dpcube.core.ledger import ledger as module

honest, here = module._statement, Path(os.environ["MARKS"])

def marks(kind):
    return sorted(path.name for path in here.glob(kind + "*"))

def wait_for(condition):
    while not condition():
        time.sleep(0.01)

@contextmanager
def unlocked(ledger):
    (here / f"began {os.getpid()}").touch()
    try:
        with ledger._connection() as connection:
            yield connection
    finally:
        (here / f"wrote {os.getpid()}").touch()

def slow(connection):
    state = honest(connection)
    if not (here / f"began {os.getpid()}").exists():
        return state
    (here / f"read {os.getpid()}").touch()
    wait_for(lambda: len(marks("read")) == 8)  # all have read the balance before the first writes
    turn = marks("read").index(f"read {os.getpid()}")
    wait_for(lambda: len(marks("wrote")) == turn)  # and one writes after the other
    return state

Ledger._transaction, module._statement = unlocked, slow
"""


@pytest.mark.slow
def test_sabotage_a_ledger_that_decides_without_a_lock_oversells(tmp_path: Path) -> None:
    """The race must be able to fail."""
    path = tmp_path / "t.ledger"
    Ledger.create(path, total=EPSILON)
    (tmp_path / "marks").mkdir()
    with closing(Nursery(UNLOCKED, MARKS=str(tmp_path / "marks"))) as nursery:
        nursery.order(8, "race", path, EPSILON, 1)
        told = list(iter(nursery.hear, "over"))
    assert sum(line.startswith("charged") for line in told) == 8


LAZY = """
charge, complete = Ledger.charge, Ledger.complete

def promise(ledger, epsilon, **more):
    return 2 + 2 * len(ledger.statement().charges)

def keep(ledger, number, digest):
    complete(ledger, charge(ledger, EPSILON, strategy="cells", domain="d"), digest)

Ledger.charge, Ledger.complete = promise, keep
"""


def test_sabotage_a_ledger_that_acknowledges_before_it_writes_is_caught(tmp_path: Path) -> None:
    """The crash test must be able to fail."""
    making, charging = durations(tmp_path / "durations.ledger")
    life = Life(tmp_path / "t.ledger", Fraction(1000))

    def kill_many(nursery: Nursery) -> None:
        for turn in range(4000):  # a machine that is busy may need more than one turn
            kill_one(nursery, life, making + charging * (1 + turn % 16) / 4)

    with closing(Nursery(LAZY)) as nursery, pytest.raises(AssertionError):
        kill_many(nursery)


KILLED_RELEASE = """
import os, signal, sys
import pyarrow as pa
from dpcube import Domain, Integer
from dpcube.core import gate
from dpcube.curator import publish

class Killed:
    private = True

    def draw(self, epsilon, size):
        os.kill(os.getpid(), signal.SIGKILL)

gate.ExactNoise = Killed
publish(pa.table({"age": [31, 42]}), Domain((Integer(name="age", min=0, max=99),)), epsilon="1/3", ledger=sys.argv[1])
"""


def test_a_release_killed_as_it_draws_stays_paid_for(tmp_path: Path) -> None:
    path = tmp_path / "t.ledger"
    ran = subprocess.run([sys.executable, "-c", KILLED_RELEASE, path], capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    state = Ledger(path).statement()
    assert (state.spent, state.remaining) == (Fraction(1, 3), Fraction(0))
    assert [charge.digest for charge in state.charges] == [None]


RACING_RELEASES = """
import os, sys
from fractions import Fraction
import numpy as np
from dpcube import Domain
from dpcube.curator import publish, publishing
from dpcube.core.errors import BudgetError

honest, place = publishing.draw_total, sys.argv[1]


def drawn_when_all_were_charged_or_refused(*given, **more):
    print("charged", flush=True)
    sys.stdin.readline()
    return honest(*given, **more)


publishing.draw_total = drawn_when_all_were_charged_or_refused
domain = Domain.of_shape((2, 3))


def race():
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        publish(np.full((2, 3), 10_000), domain, epsilon="1/5", strategy="cells", ledger=place, even_if_empty=False)
        print("made", flush=True)
    except BudgetError:
        print("refused", flush=True)


racing = []
for number in map(int, sys.argv[2:]):
    racing.append(os.fork())
    if not racing[-1]:
        os.dup2(number, 0)
        os.dup2(number, 1)
        race()
        os._exit(0)
for one in racing:
    os.waitpid(one, 0)
"""


def race_of_releases(path: Path) -> Counter[str]:
    """Eight processes release a fifth of a total each; nobody draws a total before all were charged or refused."""
    Ledger.create(path, total=Fraction(1))
    pairs = [socket.socketpair() for _ in range(8)]
    numbers = [theirs.fileno() for _, theirs in pairs]
    command = [sys.executable, "-c", RACING_RELEASES, str(path), *map(str, numbers)]
    with ExitStack() as open_ends, subprocess.Popen(command, pass_fds=numbers):
        for _, theirs in pairs:
            theirs.close()
        racing = [open_ends.enter_context(ours) for ours, _ in pairs]
        lines = [open_ends.enter_context(ours.makefile()) for ours in racing]

        def hear() -> list[str]:
            return [line.readline().strip() for line in lines]

        assert hear() == ["ready"] * 8
        for ours in racing:
            ours.sendall(b"go\n")
        heard = hear()
        charged = [place for place, word in enumerate(heard) if word == "charged"]
        for place in charged:
            racing[place].sendall(b"go\n")
        return Counter(
            [word for word in heard if word != "charged"] + [lines[place].readline().strip() for place in charged]
        )


@pytest.mark.slow
def test_of_eight_racing_releases_as_many_are_made_as_can_be_paid_and_nothing_is_lost(tmp_path: Path) -> None:
    """Each draws its total first. One that was charged for its total alone could lose it to those that came between."""
    assert race_of_releases(tmp_path / "t.ledger") == {"made": 5, "refused": 3}
    state = Ledger(tmp_path / "t.ledger").statement()
    assert (state.spent, len(state.charges)) == (Fraction(1), 10)
    assert len({charge.digest for charge in state.charges} - {None}) == 5
