"""What is spent once is spent once: budgets and gates under threads, forks, copies and pickles; words of many threads.

Each checker rejects a twin without the lock, or without the look at the process.
"""

import copy
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpcube.core import budget as budget_module
from dpcube.core.boxes import Boxes
from dpcube.core.budget import Account, CellBudget, CoarseBudget
from dpcube.core.counter import BUDGET_UNITS, every_cell
from dpcube.core.errors import BudgetError, SourceError
from dpcube.core.exact import DenseCounts, SparseRows
from dpcube.core.gate import Gate
from dpcube.core.noise import ExactNoise
from dpcube.core.randomness import RandomWords
from dpcube.core.sources import open_rows
from dpcube.core.unique import this_process
from dpcube.noise.law import DiscreteLaplace
from dpcube.testing import SilentNoise

THREADS, CHARGES = 8, 400
ONE = Fraction(1)
Charge = Callable[[], object]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def granted(charges: list[Charge], *, tries: int = CHARGES) -> int:
    """How many charges are granted to threads that all start at once, each with a charge of its own."""
    start = threading.Barrier(len(charges))

    def hammer(charge: Charge) -> int:
        start.wait()
        count = 0
        for _ in range(tries):
            with suppress(BudgetError):
                charge()
                count += 1
        return count

    with ThreadPoolExecutor(len(charges)) as pool:
        return sum(pool.map(hammer, charges))


def spend(budget: CellBudget) -> Charge:
    return lambda: budget.charge_all(1)


def budgets() -> tuple[CellBudget, list[Charge]]:
    root = CellBudget((2,), CHARGES)
    return root, [spend(root)] * THREADS


def coarser() -> tuple[CellBudget, list[Charge]]:
    """Threads in pairs on coarser cubes of coarser cubes of one budget: all must add up."""
    root = CellBudget((2,), CHARGES)
    parts = [CoarseBudget(CoarseBudget(root, (2,), by_cells=True), (1,), by_cells=True) for _ in range(THREADS // 2)]
    return root, [spend(part) for part in parts for _ in range(2)]


def by_regions() -> tuple[CellBudget, list[Charge]]:
    """Threads that charge boxes of a cube too large to materialise."""
    root = CellBudget((2,), CHARGES, by_cells=False)
    box = Boxes((2,), np.array([[1]]), np.array([[2]]))
    return root, [lambda: root.charge(box, np.array([1]))] * THREADS


class Unlocked(Account):
    """An account that lets everybody in at once."""

    def mine(self) -> AbstractContextManager[object]:
        return nullcontext()


MAKES = [budgets, coarser, by_regions]


@pytest.mark.parametrize("make", MAKES)
def test_threads_are_granted_what_there_is_and_no_more(make: Callable[[], Any], hasty: None) -> None:
    root, charges = make()
    assert granted(charges) == CHARGES
    assert root.most_charged() == CHARGES


def test_sabotage_a_budget_without_its_lock_overspends(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "Account", Unlocked)
    assert any(granted(budgets()[1]) > CHARGES for _ in range(100))


def gate_charges(gate: Gate, units: int) -> list[Charge]:
    whole = Boxes((2,), np.array([[0]]), np.array([[2]]))
    cells: list[Charge] = [lambda: every_cell(gate, units)] * (THREADS // 2)
    return [*cells, *[lambda: gate.boxes(whole, np.array([units]))] * (THREADS // 2)]


def test_a_gate_grants_threads_its_epsilon_and_no_more(hasty: None) -> None:
    gate = Gate(np.array([1, 2]), ONE, noise=SilentNoise())
    assert granted(gate_charges(gate, BUDGET_UNITS // 64), tries=64) == 64


def test_sabotage_a_gate_without_its_lock_overspends(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.budget.Account", Unlocked)

    def once() -> int:
        return granted(gate_charges(Gate(np.array([1, 2]), ONE, noise=SilentNoise()), BUDGET_UNITS // 64), tries=64)

    assert any(once() > 64 for _ in range(100))


def test_units_changed_by_another_holder_of_the_array_do_not_change_the_noise() -> None:
    """What is drawn is what was charged, though the caller's array has become another meanwhile."""
    units = np.array([1, 1])
    drawn: list[Fraction] = []

    class Watching(SilentNoise):
        def draw(self, epsilon: Fraction, size: int) -> Any:
            drawn.append(epsilon)
            return super().draw(epsilon, size)

    gate = Gate(np.array([1, 2]), ONE, noise=Watching())
    charge = gate._budget.charge

    def charge_then_change(boxes: Boxes, asked: Any) -> None:
        charge(boxes, asked)
        units[:] = BUDGET_UNITS

    gate._budget.charge = charge_then_change  # type: ignore[method-assign,assignment]
    gate.boxes(Boxes((2,), np.array([[0], [1]]), np.array([[1], [2]])), units)
    assert drawn == [gate.epsilon_per_unit]


# Copies and pickles.


def things() -> dict[str, object]:
    root = CellBudget((2,), BUDGET_UNITS)
    return {
        "budget": root,
        "budget of a coarser cube": CoarseBudget(root, (1,), by_cells=True),
        "regions": CellBudget((2,), BUDGET_UNITS, by_cells=False),
        "account": Account(),
        "counts": DenseCounts(np.array([1, 2])),
        "rows": SparseRows((2,), [np.array([1])], np.array([3])),
        "gate": Gate(np.array([1, 2]), ONE),
        "words": RandomWords(),
    }


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps, lambda it: copy.deepcopy([{"in": it}])])
@pytest.mark.parametrize("name", things())
def test_what_is_spent_or_drawn_is_never_copied(name: str, copied: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="never copied or pickled"):
        copied(things()[name])


# Other processes.

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
may_fork = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_a_child(ask: Charge) -> str:
    """Ask in a forked process, and return what it was told."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ask()
            os.write(sending, b"granted")
        except BaseException as error:  # noqa: BLE001, RUF100 (whatever it is, it is told)
            os.write(sending, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(sending)
    os.waitpid(child, 0)
    with os.fdopen(receiving) as pipe:
        return pipe.read()


def asks() -> dict[str, Charge]:
    root = CellBudget((2,), 1)
    coarse = CoarseBudget(CellBudget((2,), 1), (1,), by_cells=True)
    gate, rows = Gate(np.array([1, 2]), ONE), Gate(SparseRows((2,), [np.array([1])], np.array([3])), ONE)
    whole = Boxes((2,), np.array([[0]]), np.array([[2]]))
    return {
        "budget": lambda: root.charge_all(1),
        "coarser": lambda: coarse.charge_all(1),
        "charged": root.most_charged,
        "boxes of rows": lambda: rows.boxes(whole, np.array([BUDGET_UNITS])),
        "cells": lambda: every_cell(gate, BUDGET_UNITS),
        "boxes": lambda: gate.boxes(whole, np.array([BUDGET_UNITS])),
    }


@needs_fork
@may_fork
@pytest.mark.parametrize("number", [os.getpid, lambda: 1], ids=["its own number", "its parent's number"])
@pytest.mark.parametrize("name", asks())
def test_a_forked_process_spends_nothing(name: str, number: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", number)
    ask = asks()[name]
    assert in_a_child(ask).startswith("BudgetError: a budget can be spent only in the process that created it")
    ask()  # here it still may


def test_a_process_is_told_by_its_number_too() -> None:
    """A fork that Python does not hear of is another process all the same."""
    assert this_process()[0] == os.getpid()


def test_what_was_made_in_another_process_spends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same refusal without a fork, for tools that see one process only."""
    account, cells, regions = Account(), CellBudget((2,), 10), CellBudget((2,), 10, by_cells=False)
    coarse, whole = CoarseBudget(cells, (1,), by_cells=True), Boxes((2,), np.array([[0]]), np.array([[2]]))
    monkeypatch.setattr(budget_module, "this_process", lambda: (0, 0))
    asked: list[Charge] = [account.mine, lambda: cells.charge_all(1), cells.most_charged]
    asked += [lambda: coarse.charge_all(1), lambda: regions.charge(whole, np.array([1]))]
    for ask in asked:
        with pytest.raises(BudgetError, match="in the process that created it"):
            ask()
    monkeypatch.undo()
    for budget in (cells, regions):
        budget.charge_all(10)


@needs_fork
@may_fork
def test_sabotage_a_budget_that_ignores_forks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "this_process", lambda: (1, 0))
    assert in_a_child(asks()["budget"]) == "granted"


@needs_fork
@may_fork
def test_a_fork_while_another_thread_holds_the_lock_is_refused_and_does_not_wait() -> None:
    root = CellBudget((2,), 1)
    holding, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with root._account.mine():
            holding.set()
            enough.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    told = in_a_child(lambda: root.charge_all(1))
    enough.set()
    thread.join()
    assert told.startswith("BudgetError")


def _charge(gate: Gate) -> None:
    every_cell(gate, BUDGET_UNITS)


@pytest.mark.slow
@may_fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_spend_nothing(method: str) -> None:
    gate = Gate(np.array([1, 2]), ONE)
    context: Any = multiprocessing.get_context(method)
    worker = context.Process(target=_charge, args=(gate,))
    if method == "spawn":
        with pytest.raises(TypeError, match="never copied or pickled"):
            worker.start()
    else:
        worker.start()
        worker.join()
        assert worker.exitcode == 1
    assert gate._budget.most_charged() == 0


# Words and noise.


def words_of_threads(stream: RandomWords) -> np.ndarray[Any, Any]:
    """The words that many threads are given by one stream."""
    start = threading.Barrier(THREADS)

    def draw(_: int) -> np.ndarray[Any, Any]:
        words = np.empty((200, 64), np.uint64)
        start.wait()
        for row in words:
            stream.fill(row)
        return words

    with ThreadPoolExecutor(THREADS) as pool:
        return np.concatenate(list(pool.map(draw, range(THREADS))))


class OneState:
    """A stream whose place is read and written by all threads alike."""

    def __init__(self) -> None:
        self.place = 0

    def fill(self, words: Any, /) -> None:
        place = self.place
        words[:] = np.arange(place, place + words.size)
        self.place = place + words.size


def test_threads_never_get_the_same_words(hasty: None) -> None:
    words = words_of_threads(RandomWords())
    assert len(np.unique(words)) == words.size  # of 100,000 words of 64 bits two are equal with probability 3e-10


def test_each_thread_has_a_key_of_its_own() -> None:
    """Whether a cipher that is shared would be torn is for its library to say, and for the interpreter's lock."""
    stream = RandomWords()
    with ThreadPoolExecutor(1) as pool:
        theirs, left = pool.submit(lambda: (stream._cipher, stream._left)).result()
    stream.fill(np.empty(8, np.uint64))
    assert theirs is not stream._cipher
    assert left == stream._left + 64


def test_sabotage_a_stream_with_one_state_for_all_threads_is_caught(hasty: None) -> None:
    def repeated() -> bool:
        words = words_of_threads(OneState())  # type: ignore[arg-type]
        return len(np.unique(words)) < words.size

    assert any(repeated() for _ in range(100))


def test_noise_that_threads_draw_at_once_has_its_law(hasty: None) -> None:
    epsilon, noise = Fraction(1, 2), ExactNoise()
    with ThreadPoolExecutor(THREADS) as pool:
        drawn = np.concatenate(list(pool.map(lambda _: noise.draw(epsilon, 5000), range(THREADS))))
    law = DiscreteLaplace(epsilon)
    values = np.arange(-8, 9)
    seen = np.array([(drawn == z).sum() for z in values] + [(np.abs(drawn) > 8).sum()])
    expected = np.append(law.pmf(values), 1 - law.pmf(values).sum()) * drawn.size
    assert stats.chisquare(seen, expected).pvalue > 1e-6


# A stream of rows is read once, whoever asks first.


def test_one_of_many_threads_reads_a_stream(hasty: None) -> None:
    for _ in range(5):
        table = pa.table({"age": list(range(100))})
        rows = open_rows(pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))
        start = threading.Barrier(4)

        def read(_: int, rows: Any = rows, start: threading.Barrier = start) -> int | None:
            start.wait()
            with suppress(SourceError):
                return int(rows.count())
            return None

        with ThreadPoolExecutor(4) as pool:
            answers = [answer for answer in pool.map(read, range(4)) if answer is not None]
        assert answers == [100]
