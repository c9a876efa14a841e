"""`dpcube compare`: errors by hand, runs that go on, methods that fail, tables that are refused."""

import importlib
import math
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.queries import Workload
from dpcube.research.comparison import ComparisonRow, Subject, compare, comparison_rows, runs
from dpcube.research.comparison.rows import csv_text, not_measured, terminal_tables
from dpcube.research.comparison.subjects import at_scales, compared_questions, made_up_subjects, public_subject
from dpcube.research.processes import in_limited_processes
from dpcube.research.rivals import LISTED, Listed
from dpcube.research.tables import SHAPE_LAWS, SIDES, shape_shares
from dpcube.testing import SilentNoise

COUNTS = np.array([[1, 2, 0], [4, 0, 6]])
SMALL = Subject("small", Domain.of_shape(COUNTS.shape), COUNTS)


@dataclass
class OffBy:
    """A method whose every cell is off by a known number; below zero it fails."""

    off: float
    name: str = "off"
    privacy: str = "none at all"

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:  # noqa: ARG002 (no noise)
        if self.off < 0:
            msg = "cannot go below zero"
            raise ArithmeticError(msg)
        return np.asarray(counts, np.float64) + self.off


def _off_by(off: float, _: Workload) -> OffBy:
    return OffBy(off)


@pytest.fixture(autouse=True)
def _known_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, off in (("off", 2.0), ("broken", -1.0), ("nowhere", math.nan)):
        monkeypatch.setitem(LISTED, name, Listed(name, "here", partial(_off_by, off), privacy="none at all"))


def found(*methods: str, draws: int = 2, kept: Path | None = None) -> list[ComparisonRow]:
    return comparison_rows(compare([SMALL], methods, ["1"], draws=draws, questions=50, seed=0, kept=kept))


def test_errors_are_those_computed_by_hand() -> None:
    rows = {row.questions: row for row in found("off")}
    assert list(rows) == ["ranges", "prefixes", "1-way", "cells"]
    assert rows["cells"].mean_abs == 2
    assert rows["cells"].scaled_l2 == pytest.approx(2 * math.sqrt(6) / (6 * 13))
    assert rows["prefixes"].mean_abs == pytest.approx(2 * (1 + 2 + 3 + 2 + 4 + 6) / 6)
    assert rows["1-way"].mean_abs == pytest.approx((3 + 3 + 2 + 2 + 2) * 2 / 5)  # two rows of 3 cells, three of 2
    assert (rows["cells"].mean_abs_low, rows["cells"].mean_abs_high) == (2, 2)
    assert math.isnan(rows["cells"].coverage)
    assert rows["cells"].stated == 0
    assert {row.privacy for row in rows.values()} == {"none at all"}


def test_an_interval_of_the_mean_is_students() -> None:
    key = runs.ComparisonKey("t", "d", 0, "1", "off", 1, 0, 0)
    some = [
        runs.ComparisonRun(key._replace(draw=d), (runs.KindErrors("cells", error, error, 1, 2, 4),), d + 1.0, 10.0 * d)
        for d, error in enumerate((1.0, 2.0, 3.0))
    ]
    (row,) = comparison_rows(some)
    reach = 4.302652729911275 / math.sqrt(3)  # Student's 97.5% point with two degrees of freedom; deviation 1
    assert row.mean_abs == 2
    assert [row.mean_abs_high - 2, 2 - row.mean_abs_low] == pytest.approx([reach, reach])
    assert (row.coverage, row.stated, row.seconds, row.peak_bytes) == (0.5, 0.5, 2, 20)


def test_silent_noise_leaves_no_error_and_every_interval_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SeededNoise", lambda _: SilentNoise())
    rows = found("cells", "hb", draws=1)
    assert {(row.mean_abs, row.scaled_l2, row.coverage) for row in rows if row.method == "cells"} == {(0, 0, 1)}
    assert all(row.mean_abs == pytest.approx(0, abs=1e-9) for row in rows)
    ((title, header, lines),) = terminal_tables(rows[:4])
    assert title == "small, epsilon 1"
    assert header[:5] == ("method", "ranges", "prefixes", "1-way", "cells")
    assert lines[0][:7] == ("cells", "0", "0", "0", "0", "0.00e+00", "100.0%")
    assert lines[0][-1] == "epsilon-DP, add or remove one row"


def test_a_method_that_fails_is_a_row() -> None:
    rows = found("broken", "nowhere", "off")
    broken, nowhere, *others = rows
    assert broken.outcome == "failed: ArithmeticError: cannot go below zero (2 of 2 draws missing)"
    assert "no finite count" in nowhere.outcome
    assert math.isnan(broken.mean_abs)
    assert {row.outcome for row in others} == {"measured"}
    lines = csv_text(rows).splitlines()
    assert len(lines) == 1 + len(rows)
    assert "failed: ArithmeticError" in lines[1]
    assert all(line.endswith(",False") for line in lines[1:])


def test_what_was_kept_is_not_run_again_and_failures_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    first = found("off", "cells", "broken", kept=kept)
    ran: list[str] = []
    real = runs.run_method

    def watched(subject: Subject, keys: Sequence[runs.ComparisonKey]) -> Iterator[runs.ComparisonRun]:
        ran.append(keys[0].method)
        return real(subject, keys)

    monkeypatch.setattr(runs, "run_method", watched)
    assert csv_text(found("off", "cells", "broken", kept=kept)) == csv_text(first)
    assert ran == ["broken"]
    found("cells", draws=3, kept=kept)
    assert ran == ["broken", "cells"]
    other = Subject("small", SMALL.domain, COUNTS + 1)  # of the same name
    compare([other], ["off"], ["1"], draws=2, questions=50, seed=0, kept=kept)
    assert ran == ["broken", "cells", "off"]


def test_nothing_is_added_to_a_file_of_something_else(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("age\n3\n")
    with pytest.raises(InputError, match="no file of kept runs"):
        found("off", kept=table)
    assert table.read_text() == "age\n3\n"


def test_a_table_must_be_said_to_be_public_and_have_no_ledger(tmp_path: Path) -> None:
    array = tmp_path / "counts.npy"
    np.save(array, COUNTS)
    for nobody in (None, "", "  "):
        with pytest.raises(InputError, match="--public"):
            public_subject(array, None, public=nobody)
    subject = public_subject(array, None, public="Ann")
    assert (subject.sample(0, seed=0) == COUNTS).all()
    (tmp_path / "link.npy").symlink_to(array)
    (tmp_path / "counts.ledger").touch()
    for path in (array, tmp_path / "link.npy"):
        with pytest.raises(InputError, match="has the ledger"):
            public_subject(path, None, public="Ann")


def test_a_table_below_a_directory_with_a_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "may.csv").write_text("age\n3\n")
    np.save(tmp_path / "visits" / "june.npy", COUNTS)
    (tmp_path / "visits.ledger").touch()
    for name in ("may.csv", "june.npy"):
        with pytest.raises(InputError, match=r"has the ledger .*visits\.ledger"):
            public_subject(tmp_path / "visits" / name, None, public="Ann")


def test_an_array_with_a_second_name_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", COUNTS)
    (tmp_path / "other.npy").hardlink_to(tmp_path / "counts.npy")
    with pytest.raises(InputError, match="a name elsewhere"):
        public_subject(tmp_path / "counts.npy", None, public="Ann")


def test_arrays_of_anything_but_counts_are_refused(tmp_path: Path) -> None:
    for name, array in (("real", np.ones(3)), ("below", np.array([-1])), ("none", np.array(3))):
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(InputError):
            public_subject(tmp_path / f"{name}.npy", None, public="Ann")


@pytest.mark.parametrize("law", SHAPE_LAWS)
@pytest.mark.parametrize("dims", SIDES)
def test_shapes_are_shares_that_follow_from_the_seed(law: str, dims: int) -> None:
    shares = shape_shares(law, SIDES[dims], seed=3)
    assert shares.shape == SIDES[dims]
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1)
    assert (shares == shape_shares(law, SIDES[dims], seed=3)).all()
    assert law == "uniform" or (shares != shape_shares(law, SIDES[dims], seed=4)).any()


def test_shapes_are_what_their_names_say() -> None:
    shares = {law: shape_shares(law, (64, 64), seed=0) for law in SHAPE_LAWS}
    assert (shares["sparse"] > 0).mean() == pytest.approx(0.02, abs=0.001)
    assert (np.ptp(shares["striped"], axis=1) == 0).all()
    assert (shares["striped"].sum(axis=1) > 0).mean() == 0.25
    assert shares["spiky"].max() > 0.1
    steps = {law: np.abs(np.diff(one, axis=0)).sum() for law, one in shares.items()}
    assert steps["uniform"] == 0
    assert steps["smooth"] < steps["clumped"] < steps["spiky"]


def test_rows_are_drawn_afresh_and_alike_for_every_method() -> None:
    (subject,) = at_scales(made_up_subjects(["spiky"], [(8, 8)], seed=0), [5000])
    samples = [subject.sample(draw, seed=1) for draw in (0, 0, 1)]
    assert {int(sample.sum()) for sample in samples} == {5000}
    assert (samples[0] == samples[1]).all()
    assert (samples[0] != samples[2]).any()
    with pytest.raises(InputError, match="no rows"):
        at_scales([Subject("empty", SMALL.domain, np.zeros((2, 3), np.int64))], [10])


def test_questions_of_every_kind_are_drawn_without_repeats() -> None:
    asked = compared_questions(Domain.of_shape((6, 5, 4, 3)), 40, seed=0)
    assert list(asked) == ["ranges", "prefixes", "1-way", "2-way", "3-way", "cells"]
    assert [len(one) for one in asked.values()] == [40, 40, 18, 42, 40, 40]
    for ways in (1, 2, 3):
        one = asked[f"{ways}-way"]
        whole = one.upper - one.lower == np.array(one.shape)
        assert (whole.sum(axis=1) == 4 - ways).all()
        assert len(np.unique(np.hstack([one.lower, one.upper]), axis=0)) == len(one)


def test_empty_questions_are_not_counted_as_held() -> None:
    (run,) = compare([SMALL], ["cells"], ["1"], draws=1, questions=50, seed=0)
    (cells,) = [one for one in run.kinds if one.kind == "cells"]
    assert (cells.stated, cells.asked) == (4, 4)  # of six cells two are empty


@pytest.mark.parametrize("sides", [(0, 3), (1,), (2,) * 7, (5000, 5000)])
def test_sides_that_no_shape_has_are_refused(sides: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="a shape has 1 to 6 sides of 2 cells or more"):
        made_up_subjects(["uniform"], [sides], seed=0)


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InputError, match="name one method at least"):
        found()
    with pytest.raises(InputError, match="name one epsilon at least"):
        compare([SMALL], ["off"], [], draws=1, questions=1, seed=0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_time_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="seconds above 0"):
        compare([SMALL], ["off"], ["1"], draws=1, questions=1, seed=0, time_limit=seconds)


def test_a_method_that_is_not_there_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="there is no rival 'best'; there are"):
        found("off", "best")


COMPILING = "compiling what this machine has not run yet"
OWN_METHODS = '''
"""Strategies that never end, die, or are quick."""

import os
import time
from dataclasses import dataclass

from dpcube.strategies.cells import Cells

started = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless(Cells):
    def run(self, counter):
        while True:
            time.sleep(0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndlessLater(Cells):
    def run(self, counter):
        global started
        started += 1
        while started > 2:  # once to warm up, and one draw
            time.sleep(0.05)
        return Cells.run(self, counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dying(Cells):
    def run(self, counter):
        os._exit(7)
'''


@pytest.mark.slow
def test_a_method_is_stopped_when_its_time_is_up_and_is_still_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_methods.py").write_text(OWN_METHODS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    said: list[str] = []
    named = ["own_methods:Endless", "cells", "own_methods:EndlessLater", "own_methods:Dying"]
    kept = tmp_path / "kept"
    how = {"draws": 2, "questions": 10, "seed": 0, "kept": kept, "progress": said.append, "time_limit": 3.0}
    rows = comparison_rows(compare([SMALL], named, ["1"], **how))  # type: ignore[arg-type]
    by_method = {row.method: row.outcome for row in rows}
    assert list(by_method) == named  # none is dropped, nor out of its place
    assert by_method["own_methods:Endless"] == "stopped after 3 s (2 of 2 draws missing)"
    assert by_method["own_methods:EndlessLater"] == "stopped after 3 s (1 of 2 draws missing)"
    assert by_method["own_methods:Dying"] == "failed: its process ended by itself (exit code 7) (2 of 2 draws missing)"
    assert by_method["cells"] == "measured"
    assert not_measured(rows)[0] == "own_methods:Endless on small, epsilon 1: stopped after 3 s (2 of 2 draws missing)"
    assert len(not_measured(rows)) == 3
    assert [words.split(" done")[0] for words in said] == [COMPILING, "comparing", *(f"{n} of 4" for n in range(1, 5))]
    assert said[-1].endswith("about 0 s left")
    kept_runs = [line for line in kept.read_text(encoding="utf-8").splitlines() if line]
    assert len(kept_runs) == 3  # two draws of cells, one of the method that was stopped in its second
    assert csv_text(rows).count("stopped after 3 s") == 2
    assert (
        csv_text(comparison_rows(compare([SMALL], ["cells"], ["1"], draws=2, questions=10, seed=0)))
        .splitlines()[1]
        .split(",")[:12]
        == next(line for line in csv_text(rows).splitlines() if ",cells,release" in line).split(",")[:12]
    )


def test_listed_methods_are_compiled_before_a_limit_is_set_and_own_ones_are_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A first run on a machine would else be stopped in the midst of compiling, our default before all others."""
    ran: list[tuple[str, tuple[int, ...]]] = []

    def run_method(subject: Subject, keys: Sequence[runs.ComparisonKey]) -> Iterator[runs.ComparisonRun]:
        ran.append((keys[0].method, subject.domain.shape))
        return iter(())

    monkeypatch.setattr(runs, "run_method", run_method)
    runs.compile_listed(["adaptive", "own_methods:Endless", "cells", "adaptive"], {3, 1})
    assert [(method, len(shape)) for method, shape in ran] == [
        ("adaptive", 1),
        ("cells", 1),
        ("adaptive", 3),
        ("cells", 3),
    ]


@pytest.mark.slow
def test_processes_that_are_stopped_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_tasks.py").write_text(
        "import time\ndef some(n):\n    yield n\n    time.sleep(60 * n)\n    yield 1 / (n + 1)\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    some = importlib.import_module("slow_tasks").some
    tasks = [(1,), (0,), (2,), (0,), ("no number",)]
    found = {one.task: one for one in in_limited_processes(some, tasks, jobs=2, seconds=2)}
    assert {task: one.parts for task, one in found.items()} == {0: [1], 1: [0, 1], 2: [2], 3: [0, 1], 4: ["no number"]}
    assert found[4].unfinished.startswith("failed: TypeError")
    assert {task for task, one in found.items() if one.unfinished == "stopped after 2 s"} == {0, 2}
    assert multiprocessing.active_children() == []
    unheeded = in_limited_processes(some, [(1,)], jobs=3, seconds=None)
    next_one = in_limited_processes(some, [(0,), (1,)], jobs=1, seconds=None)
    assert next(next_one).parts == [0, 1]
    next_one.close()  # as Ctrl-C does
    unheeded.close()
    assert multiprocessing.active_children() == []
