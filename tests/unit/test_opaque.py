"""No traceback shows an exact count: an exception at any trusted line, and whatever a tool would print of it."""

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain
from dpcube.core import gate
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import CRITERIA, BestSplit, MedianCuts, TableDistances
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.domain import Integer
from dpcube.core.errors import DpcubeError, HiddenError, SourceError
from dpcube.core.exact import DenseCounts, SparseRows
from dpcube.core.gate import Gate
from dpcube.core.seal import sealed
from dpcube.core.sources import Rows
from dpcube.curator import publish
from dpcube.measurements import Marginal, Transcript
from tracebacks import MANY, ROWS, SECRET, Loud, Raiser, leaks, seen, texts

AGES = Domain((Integer(name="age", min=0, max=3),))
# An exception between two lines may leave a temporary directory to be removed by whoever collects it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "ExactNoise", Loud)


# The jobs: everything that handles exact numbers, on tables whose counts are easy to tell.

ARRAY = np.array([MANY, 0, 0, 0])  # any box that holds a row holds them all
ROW_BY_ROW = pa.table({"age": [3] * ROWS, "who": list(range(ROWS))})


SQUARE = np.array([[0, 0], [MANY, 0], [0, 0]])
AGES_TWICE = Domain((Integer(name="age", min=0, max=2), Integer(name="other", min=0, max=1)))


class Tables:
    """A strategy that counts tables over some axes."""

    name = "tables"

    def run(self, counter: NoisyCounter) -> Transcript:
        third = BUDGET_UNITS // 3
        counted = [Marginal(axes, counter.marginal(axes, third), third) for axes in ((0,), (1,), (0, 1))]
        return Transcript(counter.shape, counter.epsilon_per_unit, tuple(counted))


class Chooser:
    """A strategy that chooses by every kind of score, and counts cells so that there is something to tell."""

    name = "chooser"

    def run(self, counter: NoisyCounter) -> Transcript:
        units, two = BUDGET_UNITS // 16, np.ones(2, np.int64)
        whole = Boxes((3, 2), np.array([[0, 0]]), np.array([[3, 2]]))
        parts = Boxes((3, 2), np.array([[0, 0], [1, 0]]), np.array([[1, 2], [3, 2]]))
        counter.select(MedianCuts(whole, np.array([0])), units)
        counter.select(MedianCuts(parts, np.array([1, 0])), units)
        counter.select(TableDistances((3, 2), ((0,), (1,)), (np.arange(3), np.arange(2)), two, two), units)
        for criterion in CRITERIA:
            counter.select(BestSplit(whole, 1, (0,), criterion), units)
        cells = Marginal.from_cells(every_cell(counter, 8 * units), 8 * units)
        return Transcript(counter.shape, counter.epsilon_per_unit, (cells,))


@pytest.fixture
def jobs(tmp_path: Path) -> dict[str, Callable[[], object]]:
    path = tmp_path / "t.csv"
    path.write_text("age,who\n" + "".join(f"3,{i % 97}x\n" for i in range(ROWS)))
    given: dict[str, Any] = {"epsilon": "1/2", "ledger": None}
    return {
        "array, cells": lambda: publish(ARRAY, AGES, strategy="cells", **given),
        "array, boxes": lambda: publish(ARRAY, AGES, **given),
        "array, tables": lambda: publish(SQUARE, AGES_TWICE, strategy=Tables(), **given),
        "array, choices": lambda: publish(SQUARE, AGES_TWICE, strategy=Chooser(), **given),
        "frame by unit": lambda: publish(ROW_BY_ROW, AGES, unit="who", **given),
        "csv": lambda: publish(path, AGES, strategy="dpcube", epsilon="1/2", ledger=tmp_path / "l", total=50),
    }


PASSED = (ARRAY, SQUARE, ROW_BY_ROW)
JOBS = (*("array, cells", "array, boxes", "array, tables", "array, choices", "frame by unit", "csv"),)
SCORING = ("selection.py", "candidates.py")


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_an_exception_at_some_trusted_lines_shows_no_exact_count(
    name: str, jobs: dict[str, Callable[[], object]]
) -> None:
    assert leaks(jobs[name], PASSED, every=37) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("last", "twice"), [(False, False), (True, True)], ids=["first visit", "last visit, twice"])
@pytest.mark.parametrize("name", JOBS)
def test_an_exception_at_every_trusted_line_shows_no_exact_count(
    name: str, jobs: dict[str, Callable[[], object]], *, last: bool, twice: bool
) -> None:
    assert leaks(jobs[name], PASSED, every=4 if twice else 1, last=last, twice=twice) == {}


@pytest.mark.parametrize("owner", [Gate, DenseCounts, SparseRows])
def test_whatever_handles_exact_counts_is_sealed_by_itself(owner: type) -> None:
    """One seal inside another hides what the other would show: none may lean on the next."""
    shows_nothing = {"check_selection", "_check_cells", "shape", "size", "private", "reveal", "__repr__", "__setattr__"}
    for name, made in vars(owner).items():
        if isinstance(made, FunctionType) and name not in shows_nothing:
            assert getattr(made, "__wrapped__", None) is not None, f"{owner.__name__}.{name} has no seal"


# The checker must be able to fail.


def bare(function: Any) -> Any:
    return function.__wrapped__.__wrapped__


PUBLISH = sys.modules["dpcube.curator.publishing"]


def test_sabotage_counting_without_the_seal_is_caught(
    jobs: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((Rows, "count_cells"), (PUBLISH, "count"), (PUBLISH, "_counted")):
        monkeypatch.setattr(owner, name, bare(getattr(owner, name)))
    assert leaks(jobs["csv"], PASSED, every=1, within="rows.py", last=True)


def test_sabotage_a_gate_without_the_seal_is_caught(
    jobs: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((Gate, "boxes"), (DenseCounts, "box_sums"), (DenseCounts, "__init__")):
        monkeypatch.setattr(owner, name, bare(getattr(owner, name)))
    assert leaks(jobs["array, boxes"], PASSED, every=1, within="exact.py", last=True)


def test_sabotage_tables_without_the_seal_are_caught(
    jobs: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((Gate, "marginal"), (DenseCounts, "marginal"), (DenseCounts, "__init__")):
        monkeypatch.setattr(owner, name, bare(getattr(owner, name)))
    assert leaks(jobs["array, tables"], PASSED, every=1, within="exact.py", last=True)


def test_a_table_is_summed_where_no_exact_count_shows(jobs: dict[str, Callable[[], object]]) -> None:
    """At every line of the gate and of what it holds, at the first visit and at the last."""
    for within in ("exact.py", "gate.py", "regions.py"):
        for last in (False, True):
            assert leaks(jobs["array, tables"], PASSED, every=1, within=within, last=last) == {}


@pytest.mark.slow
def test_sabotage_choices_without_the_seal_are_caught(
    jobs: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((Gate, "select"), (DenseCounts, "selected")):
        monkeypatch.setattr(owner, name, bare(getattr(owner, name)))
    for within in SCORING:
        found = [leaks(jobs["array, choices"], PASSED, every=1, within=within, last=last) for last in (False, True)]
        assert any(found), within


@pytest.mark.slow
def test_a_choice_is_scored_where_no_exact_count_shows(jobs: dict[str, Callable[[], object]]) -> None:
    for within in ("exact.py", "gate.py", "regions.py", *SCORING):
        for last in (False, True):
            assert leaks(jobs["array, choices"], PASSED, every=1, within=within, last=last) == {}


def test_sabotage_a_publish_that_holds_the_array_is_caught(
    jobs: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(strategy: Any, exact: Any, epsilon: Fraction, *, max_rows: int) -> object:
        return strategy.run(Gate(exact, epsilon, max_rows=max_rows))

    monkeypatch.setattr(PUBLISH, "_counted", PUBLISH.count)
    monkeypatch.setattr(PUBLISH, "_charged", lambda _, __, amount, **___: (amount, None))
    monkeypatch.setattr(PUBLISH, "_measured", measured)
    found = leaks(jobs["array, cells"], PASSED, every=1, within="publishing.py")
    assert any("exact in /curator/publishing.py" in shown for all_ in found.values() for shown in all_)


@sealed
def failing(exact_count: int) -> int:
    doubled = exact_count * 2
    return doubled // 0


def test_sabotage_one_guard_is_not_enough_where_an_interruption_meets_a_fault() -> None:
    def at_the_seal(function: Callable[[int], int]) -> list[str]:
        class Late(Raiser):
            def __call__(self, frame: FrameType, event: str, _: object) -> Any:
                if frame.f_code.co_name == "_shown" and event == "call" and self.then is not None:
                    error, self.then = self.then, None
                    raise error
                return self

        late = Late(None, then=KeyboardInterrupt())
        error = late.run(lambda: function(MANY))
        assert isinstance(error, KeyboardInterrupt)
        assert late.then is None
        chain = [error]
        while chain[-1].__context__ is not None:
            chain.append(chain[-1].__context__)  # type: ignore[arg-type]
        frames = []
        for one in chain:
            at = one.__traceback__
            while at is not None:
                frames.append(at.tb_frame.f_code.co_name)
                at = at.tb_next
        return frames

    assert "failing" in at_the_seal(failing.__wrapped__)  # type: ignore[attr-defined]
    assert "failing" not in at_the_seal(failing)


# The seal itself.


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (SourceError("a message of ours"), SourceError("a message of ours")),
        (KeyError(MANY), HiddenError("internal error (KeyError); this is a fault in dpcube, please report it")),
        (KeyboardInterrupt(MANY), KeyboardInterrupt()),
        (GeneratorExit(MANY), GeneratorExit()),
        (MemoryError(MANY), MemoryError()),
        (SystemExit(3), SystemExit(3)),
        (SystemExit(f"{MANY} rows"), SystemExit(1)),
        (FileNotFoundError(2, f"{MANY}", f"{MANY}"), FileNotFoundError(2, "No such file or directory")),
        (OSError(f"{MANY}"), HiddenError("internal error (OSError); this is a fault in dpcube, please report it")),
        (ExceptionGroup("many", [ValueError(MANY)]), None),
    ],
    ids=repr,
)
def test_what_is_raised_is_shown_without_what_it_held(raised: BaseException, shown: BaseException | None) -> None:
    @sealed
    def inner() -> None:
        try:
            raise ValueError(MANY)
        except ValueError as error:
            raised.add_note(f"{MANY}")
            raise raised from error

    with pytest.raises(BaseException) as caught:  # noqa: PT011
        inner()
    error = caught.value
    assert seen(error, ()) == []
    assert (error.__cause__, error.__context__) == (None, None)
    if shown is not None:
        assert (type(error), error.args) == (type(shown), shown.args)


def test_a_fault_is_told_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError(MANY)

    monkeypatch.setattr("dpcube.core.exact.box_sums", broken)
    with pytest.raises(HiddenError, match=r"^internal error \(ZeroDivisionError at core/exact\.py:\d+\); this") as e:
        publish(ARRAY, AGES, epsilon=1, ledger=None)
    assert "\n" not in str(e.value)


def test_a_seal_is_not_for_generators() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="seal its consumer"):
        sealed(numbers)


# The holder.


def test_exact_counts_show_nothing() -> None:
    held = DenseCounts(np.array([[MANY, 2]]))
    assert (held.shape, held.size) == ((1, 2), 2)
    for text in (repr(held), str(held), f"{held}", f"{held!r:>60}", repr(np.asarray(held)), repr([held])):
        assert "hidden" in text
        assert not SECRET.search(text)
    assert not any(map(SECRET.search, texts(held, ())))
    asks: tuple[Callable[[Any], object], ...] = (
        len,
        iter,
        list,
        int,
        float,
        lambda it: it[0],
        lambda it: it + 1,
        lambda it: it < held,
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        vars,
    )
    for ask in asks:
        with pytest.raises(TypeError):
            ask(held)
    with pytest.raises(AttributeError):
        held.shape = (2, 1)
    assert held != DenseCounts(held.reveal())


def test_exact_counts_are_one_array() -> None:
    counts = np.arange(6).reshape(2, 3)
    assert np.shares_memory(DenseCounts(counts).reveal(), counts)
    noisy = np.ones(6, np.int64)
    assert np.shares_memory(DenseCounts(counts).plus(noisy), noisy)
    assert noisy.tolist() == [1, 2, 3, 4, 5, 6]
    assert counts.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_errors_of_ours_keep_their_words() -> None:
    with pytest.raises(SourceError, match="the counts have the shape"):
        publish(ARRAY[:2], AGES, epsilon=1, ledger=None)
    with pytest.raises(DpcubeError, match="no column 'height'"):
        publish(ROW_BY_ROW, Domain((Integer(name="height", min=0, max=2),)), epsilon=1, ledger=None)
