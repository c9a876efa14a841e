"""When `make mutants` counts a fault as noticed: it must not take a test that fails by itself for a kill."""

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import planting
import pytest
from mutations import Mutant, kernel_lines, mutants_of
from planting import Plant, Told, differs, planted, when_loaded

MODULE = "src/toy.py"
SOURCE = """
from dataclasses import dataclass

LIMIT = 3


@compiled
def kernel(a):
    return a + 1


@dataclass
class Kept:
    most: int = 5

    def full(self, a: tuple[int, int] = (1, 2)) -> bool:
        return a[0] >= self.most
"""


def the_mutant(before: str, after: str, source: str = SOURCE) -> Mutant:
    [found] = [m for m in mutants_of(MODULE, source) if (m.before, m.after) == (before, after)]
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / MODULE).write_text(SOURCE)
    return tmp_path


class Played(Plant):
    """Runs what it is given in place of tests: once with the fault, once without."""

    how = "played"

    def __init__(self, copy: Path, faulty: Callable[[], int], right: Callable[[], int]) -> None:
        super().__init__(copy)
        self.faulty, self.right = faulty, right

    def run(self, mutant: Mutant | None, tests: Sequence[str]) -> int:
        with (self.copy / "log").open("a") as log:
            log.write(f"{'with' if mutant else 'without'} {' '.join(tests)}\n")
        self.told.test = "second"
        return self.faulty() if mutant else self.right()


def ends(code: int) -> Callable[[], int]:
    return lambda: code


def raises() -> int:
    raise RuntimeError


def sleeps() -> int:
    time.sleep(60)
    return 0


def works() -> int:
    while True:
        pass


def aborts() -> int:
    faulthandler.disable()
    os.abort()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faulty", "right", "outcome"),
    [
        (ends(0), ends(0), "survived"),
        (ends(0), ends(1), "survived"),
        (ends(1), ends(0), "killed"),
        (ends(1), ends(1), "no verdict"),
        (ends(2), ends(0), "killed at import"),
        (ends(2), ends(2), "no verdict"),
        (ends(4), ends(0), "killed at import"),
        (ends(4), ends(4), "no verdict"),
        (ends(3), ends(0), "no verdict"),
        (ends(5), ends(0), "no verdict"),
        (raises, ends(0), "no verdict"),
        (aborts, ends(0), "killed by a crash"),
        (aborts, aborts, "no verdict"),
        pytest.param(sleeps, ends(0), "killed by time", marks=pytest.mark.slow),
        pytest.param(sleeps, sleeps, "no verdict", marks=pytest.mark.slow),
        pytest.param(works, ends(0), "killed by time", marks=pytest.mark.slow),
        pytest.param(ends(1), sleeps, "no verdict", marks=pytest.mark.slow),
        (ends(planting.UNPLANTED), ends(0), "not planted"),
    ],
)
def test_a_failure_counts_only_if_the_same_tests_pass_without_the_fault(
    copy: Path, monkeypatch: pytest.MonkeyPatch, faulty: Callable[[], int], right: Callable[[], int], outcome: str
) -> None:
    monkeypatch.setattr(planting, "SPARE_SECONDS", 4.0)
    monkeypatch.setattr(planting, "BUSY", 100.0 if faulty is works else 1.0)
    trial = Played(copy, faulty, right).trial(the_mutant("3", "4"), ["first", "second", "third"], 0.0)
    assert trial.outcome == outcome


def test_the_run_without_the_fault_is_of_the_tests_up_to_the_failure_and_is_not_repeated(copy: Path) -> None:
    plant = Played(copy, ends(1), ends(0))
    for _ in range(2):
        assert plant.trial(the_mutant("3", "4"), ["first", "second", "third"], 1.0).test == "second"
    told = "with first second third\n"
    assert (copy / "log").read_text() == f"{told}without first second\n{told}"


def test_a_fault_that_no_test_reaches_is_not_a_kill(copy: Path) -> None:
    assert Played(copy, ends(1), ends(0)).trial(the_mutant("3", "4"), [], 1.0).outcome == "not reached"


def test_the_right_file_comes_back_with_its_time(copy: Path) -> None:
    before = (copy / MODULE).stat()
    mutant = the_mutant("3", "4")
    with suppress(KeyError), planted(mutant, copy):
        assert (copy / MODULE).read_text() == mutant.source
        raise KeyError
    after = (copy / MODULE).stat()
    assert (copy / MODULE).read_text() == SOURCE
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_what_runs_at_loading_is_told_from_what_runs_in_functions() -> None:
    loaded = [the_mutant("3", "4"), the_mutant("5", "6"), the_mutant("1, 2", "(2,)")]
    assert all(when_loaded(mutant, SOURCE) for mutant in loaded)
    assert not when_loaded(the_mutant("a[0] >= self.most", "a[0] > self.most"), SOURCE)


def test_the_lines_of_kernels_are_known() -> None:
    assert {the_mutant("a + 1", "a - 1").line} <= kernel_lines(SOURCE)
    assert the_mutant("3", "4").line not in kernel_lines(SOURCE)


def test_a_change_that_python_does_not_see_is_no_fault() -> None:
    source = "def f(a):\n    b: tuple[int, int] = a\n    return b\n"
    same = Mutant(MODULE, 2, "f", "", "", "", source.replace("tuple[int, int]", "tuple[int]"))
    assert not differs(same, source)
    assert differs(Mutant(MODULE, 3, "f", "", "", "", source.replace("return b", "return a")), source)


def test_the_last_test_begun_is_told_by_a_fork() -> None:
    told = Told()

    def run() -> int:
        told.pytest_runtest_logstart("tests/test_toy.py::test[é]")
        return 0

    assert planting.forked(run, 10.0) == 0
    assert told.test == "tests/test_toy.py::test[é]"


@pytest.mark.slow
def test_a_loop_without_an_end_is_told_from_a_lack_of_memory() -> None:
    """A process that uses up its time is killed at the hard limit, if it ignores the soft one."""

    def loop() -> int:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    def end() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert planting.forked(loop, 1.0) == planting.TIME
    assert planting.forked(end, 1.0) == -signal.SIGKILL


TOY = """
from functools import wraps


def kept(function):
    @wraps(function)
    def call(a):
        return function(a) * 2

    return call


@kept
def larger(a):
    return [b for b in range(a) if b > 1]


class Box:
    @property
    def size(self):
        return 3


def unused(a):
    return a + 1


def counted(a):
    while a < 9:
        a += 1
    return a


NAMES = ["a", "b"]
"""
TESTS = """
from toy import NAMES, Box, counted, larger, unused


def test_a():
    assert unused(0) in (-1, 1)


def test_b():
    assert larger(3) == [2, 2]
    assert Box().size == 3
    assert NAMES == ["a", "b"]


def test_c():
    assert counted(7) == 9
    assert NAMES
"""
SCRIPT = """
import sys
from pathlib import Path

import pytest
from mutations import mutants_of
from planting import Loaded, Swapped, options, settle

root, how = Path(sys.argv[1]), sys.argv[2]
seconds = 1.0 if how == "loaded" else 1e6  # where faults are swapped in, each test has its own
source = (root / "src" / "toy.py").read_text()
tests = [f"tests/test_toy.py::test_{name}" for name in "abc"]
told = sys.stdout.write


def try_all(plant):
    for mutant in mutants_of("src/toy.py", source):
        told(f"{mutant.before} -> {mutant.after}: {plant.trial(mutant, tests, seconds).outcome}\\n")


settle(root, root.with_name("copy"), ())
if how == "loaded":
    try_all(Loaded(root.with_name("copy")))
else:
    swapped = Swapped(root.with_name("copy"), try_all)
    pytest.main([*options(root.with_name("copy")), "-s", "tests"], plugins=[swapped, swapped.told])
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("how", ["loaded", "swapped"])
def test_faults_are_planted_in_functions_wrappers_and_properties(tmp_path: Path, how: str) -> None:
    for folder in ("src", "tests"):
        (tmp_path / "toy" / folder).mkdir(parents=True)
    (tmp_path / "toy" / "pyproject.toml").touch()
    (tmp_path / "toy" / MODULE).write_text(TOY)
    (tmp_path / "toy" / "tests" / "test_toy.py").write_text(TESTS)
    tools = str(Path(__file__).parents[2] / "tools")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "toy"), how]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": tools}, capture_output=True, text=True, check=True)
    fates = dict(line.rsplit(": ", 1) for line in run.stdout.splitlines() if " -> " in line)
    assert fates["function(a) * 2 -> function(a) // 2"] == "killed"
    assert fates["b > 1 -> b >= 1"] == "killed"
    assert fates["3 -> 4"] == "killed"
    assert fates["a + 1 -> a - 1"] == "survived"
    assert fates["a += 1 -> pass"] == "killed by time"
    assert fates["['a', 'b'] -> ['b']".replace("'", '"', 4)] == ("killed" if how == "loaded" else "not planted")
