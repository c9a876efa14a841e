"""Audits beside those of the gate: sampled epsilons, units, files of several names, and what no audit of outputs sees.

*Sampled.* Where exact ratios would say nothing about the sampler, events are counted over many runs of both tables, and
Clopper and Pearson's exact bounds give an epsilon that the mechanism has at least, false with probability ALARM.

*By order and arithmetic.* What no audit of outputs sees (a budget kept in floats, a charge after the draw, noise that
repeats in another process) has exact tests at the end.

Each sabotage is caught by the same function that passes the honest code. The exact audits are those of `auditor.py`.
"""

import hashlib
import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from auditor import EPSILON, ReusesNoise, SilentWhereEmpty, Stretched, Witness, draws, job, loss
from checks import ALARM, Values, two_sided, union
from numpy.typing import NDArray
from scipy import stats

from dpcube import Category, Domain, Integer
from dpcube.core import noise as noise_module
from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS, every_cell
from dpcube.core.errors import BudgetError, SourceError
from dpcube.core.gate import Gate
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.noise import ExactNoise, two_sided_geometric
from dpcube.core.randomness import RandomWords
from dpcube.core.request import PrivacyUnit
from dpcube.core.sources import Rows
from dpcube.core.sources.aggregates import SelectedRows
from dpcube.curator import publish
from dpcube.curator.publishing import count
from dpcube.strategies import Cells

# Sampled: an epsilon that a mechanism has at least.


def at_least(more: NDArray[np.bool_], fewer: NDArray[np.bool_]) -> float:
    """A lower bound of log P(event | one table) / P(event | another), false with probability ALARM at most."""
    low = stats.beta.ppf(ALARM / 2, more.sum(), more.size - more.sum() + 1) if more.any() else 0.0
    high = stats.beta.isf(ALARM / 2, fewer.sum() + 1, fewer.size - fewer.sum()) if not fewer.all() else 1.0
    return float(np.log(low / high)) if low > 0 else -math.inf


def test_the_lower_bound_is_clopper_and_pearson_s() -> None:
    """Against their definition: the tails of the binomial law at each end are half of ALARM."""
    more, fewer = np.arange(1000) < 700, np.arange(1000) < 200
    bound = at_least(more, fewer)
    low = float(np.exp(bound)) * stats.beta.isf(ALARM / 2, 201, 800)
    assert stats.binom.sf(699, 1000, low) == pytest.approx(ALARM / 2, rel=1e-6)
    assert stats.binom.cdf(200, 1000, stats.beta.isf(ALARM / 2, 201, 800)) == pytest.approx(ALARM / 2, rel=1e-6)
    assert at_least(fewer, fewer) < 0 < bound < math.log(3.5)
    assert at_least(np.zeros(9, bool), fewer) == -math.inf


Audit = Callable[[Any, int], float]
# Enough to see a tenth too little noise at 6 standard deviations; what is gross is seen in fewer.
RUNS, FEW = 200_000, 4_000


def by_default(exact_counts: Values, epsilon: Fraction) -> Gate:
    return Gate(exact_counts, epsilon)


def gate_cells(make: Callable[[Values, Fraction], Gate], runs: int) -> float:
    """A cube of many cells is many cubes of one cell: with a row, and without."""
    rows, none = (every_cell(make(np.full(runs, exact), EPSILON), BUDGET_UNITS) >= 1 for exact in (1, 0))
    return max(at_least(rows, none), at_least(~none, ~rows))


def gate_phases(make: Callable[[Values, Fraction], Gate], runs: int) -> float:
    """Half on the cells, then half on boxes of two cells, of which the second has a row or none."""
    lower = np.stack([np.arange(runs), np.zeros(runs, np.int64)], axis=1)
    boxes = Boxes((runs, 2), lower, lower + np.array([1, 2]))
    both, apart = [], []
    for exact in (1, 0):
        gate = make(np.tile([0, exact], (runs, 1)), EPSILON)
        cells, pairs = every_cell(gate, BUDGET_UNITS // 2), gate.boxes(boxes, np.full(runs, BUDGET_UNITS // 2))
        both.append((cells[:, 1] >= 1) & (pairs >= 1))
        apart.append(pairs - cells[:, 0] >= 1)  # exact, if a box has the noise of its first cell
    return max(at_least(*both), at_least(*apart))


AUDITS: dict[str, tuple[Audit, Any, int]] = {
    "cells of the gate": (gate_cells, by_default, RUNS),
    "phases of the gate": (gate_phases, by_default, RUNS),
}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", AUDITS)
def test_no_mechanism_has_more_than_its_epsilon(mechanism: str) -> None:
    audit, honest, calls = AUDITS[mechanism]
    found = audit(honest, calls)
    assert found <= EPSILON
    assert found > 0.85 * EPSILON  # an audit that finds little would let much pass


def quieter(exact_counts: Values, epsilon: Fraction) -> Gate:
    return Gate(exact_counts, epsilon, noise=Stretched(ExactNoise(), Fraction(10, 9)))


SEEN_BY_SAMPLING: dict[str, tuple[Audit, Any, int]] = {
    "noise scale x 0.9: cells": (gate_cells, quieter, RUNS),
    "noise scale x 0.9: phases": (gate_phases, quieter, RUNS),
    "noise reused between phases": (gate_phases, ReusesNoise, FEW),
    "empty cells without noise": (gate_cells, SilentWhereEmpty, FEW),
}


@pytest.mark.slow
@pytest.mark.parametrize("sabotage", SEEN_BY_SAMPLING)
def test_sabotage_has_provably_more_than_its_epsilon(sabotage: str) -> None:
    audit, broken, calls = SEEN_BY_SAMPLING[sabotage]
    assert audit(broken, calls) > EPSILON


# The unit: of whom how many rows are counted, and which.

AGE = Domain((Integer(name="age", min=0, max=5),))
MOST = 3
PATIENTS = pa.table({"who": ["a", "a", "b", "c", "c", "c", None], "age": [0, 1, 1, 5, 5, 2, 4]})
PROTECTED = PrivacyUnit("who", MOST)


def patient(rows: int) -> pa.Table:
    return pa.concat_tables([PATIENTS, pa.table({"who": ["new"] * rows, "age": [i % 6 for i in range(rows)]})])


def unit_loss() -> Fraction:
    """The largest loss of a patient with up to seven rows, of whom three are declared to count."""
    run, exact = job(Cells(), max_rows=MOST), count(PATIENTS, AGE, unit=PROTECTED)
    assert exact.tolist() == [1, 2, 1, 0, 0, 2]  # nobody here has more than three, and null is dropped
    others = [count(patient(rows), AGE, unit=PROTECTED) for rows in (1, 3, 4, 7)]
    return max(abs(loss(run, exact, other, draw)) for draw in draws() for other in others)


def test_a_patient_of_any_number_of_rows_loses_at_most_epsilon() -> None:
    assert unit_loss() == EPSILON


def test_sabotage_rows_of_a_unit_that_are_not_limited_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gate declares is not enforced: the row without a patient is counted too, so it is taken out here."""
    monkeypatch.setattr(Rows, "limit", lambda rows, *_, **__: rows.restrict(WHO, range(4)))
    assert unit_loss() == EPSILON * Fraction(7, 3)


WHO = Category(name="who", values=("a", "b", "c", "new"))


def chosen_evenly() -> float:
    """One of three rows is counted of each of many units: any of them, alike, whatever the others' turn out to be."""
    units = 3000
    table = pa.table({"who": np.repeat(np.arange(units), 3), "age": np.tile([0, 1, 2], units)})
    exact = count(table, AGE, unit=PrivacyUnit("who", 1))
    assert exact.sum() == units
    return union(two_sided(stats.binom(units, 1 / 3), exact[:3]))


def test_the_rows_of_a_unit_that_count_are_chosen_at_random() -> None:
    assert chosen_evenly() > ALARM


def chosen_anew() -> bool:
    """Whether two counts choose other rows: each unit has two, in cells of its own, and all choices agree by chance
    with probability 2^-200."""
    one_each = Domain((Integer(name="age", min=0, max=399),))
    table = pa.table({"who": np.repeat(np.arange(200), 2), "age": np.arange(400)})
    first, second = (count(table, one_each, unit=PrivacyUnit("who", 1)) for _ in range(2))
    return not np.array_equal(first, second)


def test_the_rows_of_a_unit_that_count_are_chosen_anew_each_time() -> None:
    assert chosen_anew()


def test_sabotage_rows_that_are_not_chosen_at_random_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SelectedRows._limited
    monkeypatch.setattr(SelectedRows, "_limited", lambda *given: honest(*given).replace("random()", "c1"))
    assert chosen_evenly() < ALARM
    assert not chosen_anew()


# A row in a file of several names.

HALF = Fraction(1, 2)
PATTERNS = ["t/a/b/c/x.{}", "t/a/b/c", "t/a/b/c/*", "t/**/*.{}", "t/**/**/*.{}", "t/**/**/**/*.{}", "t/*/*/c*/*.{}"]
Opened = Callable[[Path], object]


def linked(folder: Path, ending: str, *, rows: int) -> Path:
    """A file below t/a/b/c with second names of every kind: links to it, to its directory and back, and hard links."""
    deep = folder / "t" / "a" / "b" / "c"
    deep.mkdir(parents=True)
    table = pa.table({"n": pa.array([1] * rows, pa.int64())})
    if ending == "parquet":
        pq.write_table(table, deep / "x.parquet")
    else:
        pacsv.write_csv(table, deep / "x.csv")
    (deep / f"latest.{ending}").symlink_to(f"x.{ending}")
    (deep / f"y.{ending}").hardlink_to(deep / f"x.{ending}")
    (deep.parent / "current").symlink_to("c")
    (folder / "t" / "self").symlink_to(".")
    return folder


def rows_lost(folder: Path, ending: str, opened: Opened) -> Fraction:
    """The largest loss, at epsilon 1/2, of the one row of the file; 0 if the table is refused whatever is in it."""
    exact: list[Values] = []
    refused: list[str] = []
    for rows in (0, 1):
        place = linked(folder / f"{rows}", ending, rows=rows)
        try:
            exact.append(count(opened(place), Domain((Integer(name="n", min=0, max=1),))))
        except SourceError as error:
            refused.append(str(error).replace(f"{place}", ""))
    assert len(refused) in (0, 2)  # one row does not decide it
    assert len(set(refused)) <= 1
    if refused:
        return Fraction(0)
    return HALF / EPSILON * max(abs(loss(job(Cells()), exact[0], exact[1], draw)) for draw in draws())


def at(pattern: str, scheme: str = "") -> Opened:
    return lambda folder: f"{scheme}{folder}/{pattern}"


FILES: dict[str, tuple[str, Opened, Fraction]] = {
    f"{ending}: {pattern}": (ending, at(pattern.format(ending)), HALF)
    for ending in ("csv", "parquet")
    for pattern in PATTERNS
} | {
    "dataset of a file": ("parquet", lambda d: pads.dataset(d / "t/a/b/c/x.parquet"), HALF),
    "dataset of a directory": ("parquet", lambda d: pads.dataset(d / "t/a/b/c"), Fraction(0)),
    "dataset of a file twice": ("parquet", lambda d: pads.dataset([str(d / "t/a/b/c/x.parquet")] * 2), Fraction(0)),
    "dataset of two datasets": (
        "csv",
        lambda d: pads.dataset([pads.dataset(d / f"t/a/b/c/{name}.csv", format="csv") for name in "xy"]),
        Fraction(0),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_row_in_a_file_of_several_names_loses_epsilon(name: str, tmp_path: Path) -> None:
    ending, opened, lost = FILES[name]
    assert rows_lost(tmp_path, ending, opened) == lost


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_row_in_a_file_of_several_names_that_spark_reads_loses_epsilon(spark: Any, tmp_path: Path) -> None:
    once = ["c/x.parquet", "c/{x,x}.parquet", "{c,c}/x*"]
    for number, name in enumerate([*once, "c", "c/*", "c/{x,y}.parquet", "*/x.parquet", ""]):
        lost = rows_lost(tmp_path / f"{number}", "parquet", at(f"t/a/b/{name}", "spark:"))
        assert lost == (HALF if name in once else 0), name

    def frame(*parts: str) -> Opened:
        return lambda d: spark.read.parquet(*(f"{d}/t/a/b/{part}" for part in parts))

    assert rows_lost(tmp_path / "frame", "parquet", frame("c/x.parquet")) == HALF
    assert rows_lost(tmp_path / "frames", "parquet", frame("c/x.parquet", "c/y.parquet")) == 0


def test_sabotage_a_file_by_each_of_its_names_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name a file of its own: x, latest and y, and all three once more through the link to their directory."""
    turn = itertools.count(1)
    monkeypatch.setattr("dpcube.core.sources.names.identity", lambda _: (0, next(turn)))
    lost = {name: rows_lost(tmp_path / f"{len(name)}", "csv", at(f"t/a/b/{name}")) for name in ("c", "*/*.csv")}
    assert lost == {"c": 3 * HALF, "*/*.csv": 6 * HALF}


# What no audit sees: arithmetic.


class LedgerAgent:
    """A ledger as something that can be asked to spend."""

    def __init__(self, path: Path, total: Fraction) -> None:
        self._ledger = Ledger.create(path, total=total)

    def charge(self, epsilon: Fraction) -> None:
        self._ledger.charge(epsilon, strategy="cells", domain="d")


def spends_exactly(make: Callable[[Fraction], LedgerAgent]) -> bool:
    """Whether tenths add up to what they should, neither more nor less, by being charged and refused."""
    three, ten = make(Fraction(3, 10)), make(Fraction(1))
    try:
        three.charge(Fraction(1, 10))
        three.charge(Fraction(2, 10))
        for _ in range(10):
            ten.charge(Fraction(1, 10))
    except BudgetError:
        return False
    for agent in (three, ten):
        try:
            agent.charge(Fraction(1, 10**17))
        except BudgetError:
            continue
        return False
    return True


def test_budgets_add_up_exactly(tmp_path: Path) -> None:
    names = iter("ab")
    assert spends_exactly(lambda total: LedgerAgent(tmp_path / next(names), total))


def test_sabotage_a_budget_in_floats_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.ledger.ledger.composed_loss", lambda charges, _: sum(float(e) for e, _ in charges))
    names = iter("ab")
    assert not spends_exactly(lambda total: LedgerAgent(tmp_path / next(names), total))


# What no audit sees: the order of charge and draw.


def publish_pays_first(path: Path) -> bool:
    """At every draw the charge is in the file, whole, for another process to see."""
    noise = Witness(lambda: path.exists() and Ledger(path).statement().spent == EPSILON)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpcube.core.gate.ExactNoise", lambda: noise)
        publish(np.arange(6), AGE, epsilon=EPSILON, ledger=path)
    return len(noise.draws) > 1 and all(noise.draws)


def test_every_charge_comes_before_its_draw(tmp_path: Path) -> None:
    assert publish_pays_first(tmp_path / "t.ledger")


def test_sabotage_a_charge_after_the_draw_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charge, complete = Ledger.charge_parts, Ledger.complete_parts
    asked: dict[str, Any] = {}

    def late(ledger: Ledger, _: list[int], digest: str) -> None:
        complete(ledger, charge(ledger, **asked), digest)

    monkeypatch.setattr(Ledger, "charge_parts", lambda _, parts, **more: asked.update(more, parts=parts) or [2])
    monkeypatch.setattr(Ledger, "complete_parts", late)
    assert not publish_pays_first(tmp_path / "t.ledger")
    assert Ledger(tmp_path / "t.ledger").statement().spent == EPSILON  # nothing in the file tells that it came late


# What no audit sees: noise that somebody else has too.

FAMILY = """
import os, sys
from fractions import Fraction
from dpcube.core.noise import ExactNoise
from dpcube.testing import SeededNoise
noise = {"exact": ExactNoise, "seeded": lambda: SeededNoise(7)}[sys.argv[1]]()
kept = []

def tell():
    os.write(1, (noise.draw(Fraction(1, 1000), 16).tobytes().hex() + "\\n").encode())

before = noise.draw(Fraction(1, 1000), 16) if sys.argv[2] == "used" else None
for _ in range(3):
    if (child := os.fork()) == 0:
        tell()
        if os.fork() == 0:
            tell()
            os._exit(0)
        os.wait()
        os._exit(0)
    os.waitpid(child, 0)
tell()
"""


def repeats(kind: str) -> int:
    """How many draws of sixteen values at scale 1000 occur twice in two families of processes; by chance, none."""
    lines: list[str] = []
    for state in ("fresh", "used"):
        ran = subprocess.run([sys.executable, "-c", FAMILY, kind, state], capture_output=True, text=True, check=True)
        lines += ran.stdout.split()
    assert len(lines) == 14
    return len(lines) - len({hashlib.sha256(line.encode()).digest() for line in lines})


@pytest.mark.slow
def test_no_process_and_no_fork_shares_noise() -> None:
    assert repeats("exact") == 0


@pytest.mark.slow
def test_sabotage_seeded_noise_is_shared() -> None:
    assert repeats("seeded") > 0


# The work of a draw does not depend on what is drawn.


@dataclass
class Words:
    """A source of two words, one for the number that is added and one for the number that is taken away."""

    plus: int
    minus: int = 2**32 - 1  # below no threshold: the number is 0
    asked: list[int] = field(default_factory=list)

    def fill(self, words: NDArray[np.uint32], /) -> None:
        self.asked.append(words.size)
        words[: -(-len(words) // 2)] = self.plus
        words[-(-len(words) // 2) :] = self.minus


class Mixed(Words):
    """A source of words of all sizes, from a seed with which none of them ties."""

    def fill(self, words: NDArray[np.uint32], /) -> None:
        self.asked.append(words.size)
        words[...] = np.random.default_rng(3).integers(2, 2**32 - 1, words.shape)


def naive(source: Any, epsilon: Fraction, *, size: int) -> Values:
    """A geometric variable by counting successes until the first failure: the work is the value."""
    word, threshold = np.empty(1, np.uint32), math.exp(-float(epsilon)) * 2**32
    values = np.zeros(size, np.int64)
    for i in range(size):
        source.fill(word)
        while word[0] < threshold and values[i] < 500:
            values[i] += 1
            source.fill(word)
    return values


def work(sampler: Callable[..., Values], epsilon: Fraction, size: int) -> set[tuple[int, ...]]:
    """What a sampler asks of its source, for words that make values 0, the largest without a tie, and mixed."""
    sources = [Words(2**32 - 1), Words(1), Words(2**32 - 1, 1), Mixed(0)]
    drawn = [sampler(source, epsilon, size=size) for source in sources]
    assert len({values.tobytes() for values in drawn}) > 1
    return {tuple(source.asked) for source in sources}


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(7)], ids=str)
def test_a_draw_asks_for_as_many_words_whatever_it_draws(epsilon: Fraction) -> None:
    digits = next(j for j in itertools.count() if epsilon * 2**j >= 23)
    (asked,) = work(two_sided_geometric, epsilon, 777)
    assert sum(asked) == 777 * 2 * (digits + 1)


def test_sabotage_a_sampler_that_counts_is_caught() -> None:
    assert len(work(naive, Fraction(1), 20)) > 1


def words_of_a_job(exact: Values, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []

    class Counting(RandomWords):
        def fill(self, words: Any, /) -> None:
            sizes.append(words.size)
            super().fill(words)

    monkeypatch.setattr(noise_module, "RandomWords", Counting)
    Cells().run(Gate(exact, Fraction(1, 10)))
    return sizes


def test_a_job_asks_for_as_many_words_whatever_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five thousand words tie with probability 1e-6, and only then is there one more."""
    tables = [np.zeros((5, 7), np.int64), np.full((5, 7), 2**40), np.arange(35).reshape(5, 7)]
    sizes = [words_of_a_job(exact, monkeypatch) for exact in tables]
    assert sizes[0] == sizes[1] == sizes[2]
    assert sum(sizes[0]) == 35 * 2 * 9


def steps(sampler: Callable[..., Values], source: Words, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many operations of Python a draw of five values takes, its kernel run by Python too.

    No clock: how long the compiled kernel takes is measured by `benchmarks/noise.py`, for large values and for zeros.
    """
    kernel = noise_module._compare
    monkeypatch.setattr(noise_module, "_compare", getattr(kernel, "__wrapped__", kernel))
    sampler(Words(2**32 - 1), Fraction(1, 100), size=5)  # what is remembered of an epsilon is made
    number = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal number
        if frame.f_code.co_filename not in (noise_module.__file__, __file__) or frame.f_code.co_name == "fill":
            return None  # the source's own work, and that of libraries
        frame.f_trace_opcodes = True
        number += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        sampler(source, Fraction(1, 100), size=5)
    finally:
        sys.settrace(before)
    return number


def test_a_draw_takes_as_many_steps_whatever_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [Words(2**32 - 1), Words(1), Words(2**32 - 1, 1), Mixed(0)]
    taken = {steps(two_sided_geometric, source, monkeypatch) for source in sources}
    assert len(taken) == 1
    assert min(taken) > 5 * 2 * 12  # each of the digits is compared


def skipping(words: NDArray[np.uint32], first_words: NDArray[np.uint32], values: Values) -> int:
    """A kernel that adds only where there is something to add."""
    digits = first_words.size - 1
    values[:] = 0
    for row in range(digits):
        for i in range(values.size):
            if words[row, i] < first_words[row]:
                values[i] += 1 << row
            if words[row + digits + 1, i] < first_words[row]:
                values[i] -= 1 << row
    return 0


def test_sabotage_a_draw_that_takes_more_steps_for_large_values_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps(naive, Words(1), monkeypatch) > steps(naive, Words(2**32 - 1), monkeypatch)
    monkeypatch.setattr(noise_module, "_compare", skipping)
    drawn = [steps(two_sided_geometric, Words(word), monkeypatch) for word in (1, 2**32 - 1)]
    assert drawn[0] > drawn[1]
