"""Trying one fault: a mutant and the tests that reach it enter, what became of it leaves.

Every trial is a process forked from one that has done the slow work already. A fault inside a function is planted by
giving the function, in a process that has loaded and collected everything, the code of the faulty one (`Swapped`). If
the function is a kernel, which Numba has compiled before, the kernels of its module are then run by Python, with the
fault and without; kernels of other modules keep what they have compiled. A fault in what runs when a module is loaded
is planted in the file of a copy of the repository, which a process that has not yet loaded the package then loads
(`Loaded`). In either case the faulty file lies in the copy while the tests run, for the processes that they start.

When a mutant is killed. A trial that fails is tried without the fault too: the same tests in the same order, up to the
one that failed (`Loaded`: before it, all of them). Only if they pass does the failure count; otherwise there is no
verdict. What has passed once, in this process, is not run again. Of pytest's exit codes 1 (a test failed) is a kill. So
are 2 and 4 (the tests could not be collected: the fault breaks the import), the death of the process by a fault of
memory, and time: `SPARE_SECONDS` and `SLOWER` times what the tests took when they were measured, if without the fault
they end in half of that; where a fault is swapped in, each test has so much for itself, for loops without an end would
take most of a run. It is the processor's time, so that others on the machine do not matter; what waits for ever is
ended after `BUSY` times as much of the clock's. Everything else (internal errors, no tests) is no verdict.
"""

import gc
import math
import mmap
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from inspect import CO_OPTIMIZED
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_CPU, RUSAGE_SELF, getrlimit, getrusage, setrlimit
from types import CodeType, FunctionType
from typing import Any

import pytest
from mutations import Mutant, kernel_lines

SPARE_SECONDS, SLOWER, BUSY = 5.0, 5.0, 8.0
COMPILING_SECONDS = 16.0  # that a single test may take besides: it may be the first that needs a kernel
PASSED, FAILED, INTERRUPTED, INTERNAL, USAGE = 0, 1, 2, 3, 4  # pytest's exit codes
TIME, UNPLANTED = 100, 101  # ours
CRASHES = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL}
KILLS = {FAILED: "killed", TIME: "killed by time", INTERRUPTED: "killed at import", USAGE: "killed at import"}
KILLS |= dict.fromkeys(CRASHES, "killed by a crash")
REMEMBERS = type(lru_cache(int))
# What takes long to load and is not ours; none of it starts threads until it is used.
FOREIGN = (
    *("numpy", "numba", "scipy.stats", "pandas", "polars", "pyarrow.dataset", "pyarrow.parquet", "duckdb"),
    *("hypothesis", "sqlglot", "ibis", "click", "cryptography.hazmat.primitives.ciphers", "matplotlib"),
)


@dataclass(frozen=True)
class Trial:
    """What became of a mutant, after which test, and how it was planted."""

    outcome: str
    test: str = ""
    planted: str = ""


class Told:
    """What a forked process tells its parent: the test that it began last. It also keeps hypothesis from shrinking."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 4096)

    @property
    def test(self) -> str:
        """Return the test begun last."""
        return self._shared[:].rstrip(b"\0").decode()

    @test.setter
    def test(self, name: str) -> None:
        self._shared[:] = name.encode()[:4096].ljust(4096, b"\0")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile("mutants", deadline=None, database=None, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")


def forked(run: Callable[[], int], seconds: float) -> int:
    """Return how a forked process ended: its exit code, a signal below 0, or TIME."""
    child = os.fork()
    if child == 0:
        os.setsid()  # so that what it starts can be ended with it
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        setrlimit(RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
        try:
            code = run()
        except BaseException:
            code = INTERNAL
        os._exit(code)
    ended = os.pidfd_open(child)
    try:
        late = not select.select([ended], [], [], BUSY * seconds)[0]
        if late:
            os.killpg(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
    finally:
        os.close(ended)
    code = os.waitstatus_to_exitcode(status)
    spent = code == -signal.SIGKILL and used.ru_utime + used.ru_stime >= seconds  # the hard limit, not want of memory
    return TIME if late or spent or code in (-signal.SIGXCPU, -signal.SIGALRM) else code


def allow(seconds: float) -> None:
    """Let this process use so many more seconds of the processor, and BUSY times as many of the clock."""
    used, most = getrusage(RUSAGE_SELF), getrlimit(RLIMIT_CPU)[1]
    until = math.ceil(used.ru_utime + used.ru_stime + seconds)
    setrlimit(RLIMIT_CPU, (until if most == RLIM_INFINITY else min(until, most), most))
    signal.setitimer(signal.ITIMER_REAL, BUSY * seconds)


@contextmanager
def planted(mutant: Mutant, copy: Path) -> Iterator[None]:
    """Put the faulty file in the place of the right one, which keeps its time: caches of its code stay right."""
    path, aside = copy / mutant.module, copy / "aside.py"
    path.rename(aside)
    try:
        path.write_text(mutant.source, encoding="utf-8")
        yield
    finally:
        aside.replace(path)


class Plant:
    """The rules of a verdict; how tests are run, with a fault or without, is left to the two below."""

    how = ""
    control_first = False
    interpreted = ""  # the file whose kernels are run by Python

    def __init__(self, copy: Path) -> None:
        self.copy, self.told = copy, Told()
        self._passed: set[tuple[str, ...]] = set()  # after the file whose kernels were run by Python

    def run(self, mutant: Mutant | None, tests: Sequence[str]) -> int:
        """Run the tests in this process, which is a fork."""
        raise NotImplementedError

    def trial(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> Trial:
        """Run the tests with the fault and, if one of them fails, without it."""
        if not tests:
            return Trial("not reached")
        limit = SPARE_SECONDS + SLOWER * seconds
        if self.control_first and not self.passes(tests, 5 * limit):
            return Trial("no verdict", f"fails without the fault: {self.told.test}", self.how)
        self.told.test = tests[0]
        with planted(mutant, self.copy):
            code = forked(lambda: self.run(mutant, tests), limit)
        if code == PASSED:
            return Trial("survived", planted=self.how)
        if code not in KILLS:
            return Trial("not planted" if code == UNPLANTED else "no verdict", f"code {code}", self.how)
        test = self.told.test
        begun = tests[: tests.index(test) + 1] if test in tests else tests
        if not self.passes(begun, limit / 2):
            return Trial("no verdict", f"fails without the fault: {test}", self.how)
        return Trial(KILLS[code], test, self.how)

    def passes(self, tests: Sequence[str], seconds: float) -> bool:
        """Say whether the tests pass without a fault in this time; what has passed once is not asked again."""
        asked = (self.interpreted, *tests)
        if asked not in self._passed and forked(lambda: self.run(None, tests), seconds) == PASSED:
            self._passed |= {asked[:count] for count in range(2, len(asked) + 1)}
        return asked in self._passed


class Loaded(Plant):
    """Plants a fault before the package is loaded."""

    how = "loaded"
    control_first = True  # few lists of tests serve all these faults, and it compiles the kernels that they need

    def __init__(self, copy: Path) -> None:
        super().__init__(copy)
        for name in FOREIGN:
            import_module(name)

    def run(self, mutant: Mutant | None, tests: Sequence[str]) -> int:
        if mutant:  # kernels of other modules may hold the faulty one: nobody else shall find them
            cache = kernels(self.copy).with_name("kernels-of-a-mutant")
            shutil.rmtree(cache, ignore_errors=True)
            if kernels(self.copy).exists():
                shutil.copytree(kernels(self.copy), cache)
            os.environ["NUMBA_CACHE_DIR"] = str(cache)
            import_module("numba").config.reload_config()
        return int(pytest.main([*options(self.copy), "-x", *tests], plugins=[self.told]))


class Swapped(Plant):
    """Plants a fault in functions that are loaded already; a plugin of pytest that tries mutants in place of tests."""

    how = "swapped"

    def __init__(
        self, copy: Path, try_all: Callable[["Swapped"], None], cost: Callable[[str], float] = lambda _: 0.0
    ) -> None:
        super().__init__(copy)
        self._try_all, self._cost = try_all, cost
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[FunctionType]] = {}
        self._kernels: dict[str, list[Any]] = {}
        self._remembered: list[Any] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all mutants in place of running the tests."""
        self._items = {item.nodeid: item for item in session.items}
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                self._functions.setdefault(thing.__code__.co_filename, []).append(thing)
            elif type(thing) is REMEMBERS:
                self._remembered.append(thing)
            elif type(thing).__qualname__ == "_Compiled":
                self._kernels.setdefault(thing.__wrapped__.__code__.co_filename, []).append(thing)
        gc.freeze()
        self._try_all(self)
        return True

    def knows(self, test: str) -> bool:
        """Say whether a test was collected."""
        return test in self._items

    def trial(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> Trial:
        source = (self.copy / mutant.module).read_text(encoding="utf-8")
        self.interpreted = str(self.copy / mutant.module) if mutant.line in kernel_lines(source) else ""
        return super().trial(mutant, tests, seconds)

    def run(self, mutant: Mutant | None, tests: Sequence[str]) -> int:
        for kernel in self._kernels.get(self.interpreted, ()):
            kernel._compiled = kernel.__wrapped__
        if mutant and not self.swap(mutant):
            return UNPLANTED
        items = [self._items[test] for test in tests]
        share = 1.0 if mutant else 0.5
        for item, after in zip(items, [*items[1:], None], strict=True):
            allow(share * (COMPILING_SECONDS + SLOWER * self._cost(item.nodeid)))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if item.session.testsfailed:
                return FAILED
        return PASSED

    def swap(self, mutant: Mutant) -> bool:
        """Give the functions of a module their faulty code; say whether any has changed."""
        path = str(self.copy / mutant.module)
        right = codes(compile((self.copy / "aside.py").read_text(encoding="utf-8"), path, "exec"))
        faulty = codes(compile(mutant.source, path, "exec"))
        places = {(name, code.co_firstlineno): (name, i) for name in right for i, code in enumerate(right[name])}
        changed = False
        for remembered in self._remembered:
            remembered.cache_clear()  # of what was computed without the fault, when the tests were collected
        for function in self._functions.get(path, ()):
            name, i = places.get((function.__code__.co_qualname, function.__code__.co_firstlineno), ("", 0))
            others = faulty.get(name, [])
            if name and len(others) == len(right[name]) and not alike(others[i], function.__code__):
                function.__code__ = others[i]
                changed = True
        return changed


def codes(code: CodeType) -> dict[str, list[CodeType]]:
    """Return the codes inside a code by their names, in the order in which they stand."""
    found: dict[str, list[CodeType]] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found.setdefault(inner.co_qualname, []).append(inner)
            for name, deeper in codes(inner).items():
                found.setdefault(name, []).extend(deeper)
    return found


def alike(one: CodeType, other: CodeType, *, inside: bool = True) -> bool:
    """Say whether two codes do the same, wherever they stand; with or without the codes inside them."""
    parts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_exceptiontable")
    if any(getattr(one, part) != getattr(other, part) for part in parts) or len(one.co_consts) != len(other.co_consts):
        return False
    for mine, yours in zip(one.co_consts, other.co_consts, strict=True):
        both = isinstance(mine, CodeType) and isinstance(yours, CodeType)
        if both and inside and not alike(mine, yours):
            return False
        if not both and (type(mine) is not type(yours) or repr(mine) != repr(yours)):
            return False
    return True


def differs(mutant: Mutant, source: str) -> bool:
    """Say whether Python sees the fault at all; a changed annotation or a sum that it works out itself is none."""
    return not alike(_compiled(source, mutant.module), compile(mutant.source, mutant.module, "exec"))


def when_loaded(mutant: Mutant, source: str) -> bool:
    """Say whether the fault is in what runs when its module is loaded: the module's own code or that of a class."""

    def changed(right: CodeType, faulty: CodeType) -> bool:
        if not alike(right, faulty, inside=False):
            return True
        inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (right, faulty)]
        return any(changed(a, b) for a, b in zip(*inner, strict=True) if not a.co_flags & CO_OPTIMIZED)  # a class

    return changed(_compiled(source, mutant.module), compile(mutant.source, mutant.module, "exec"))


@cache
def _compiled(source: str, module: str) -> CodeType:
    return compile(source, module, "exec")


def options(copy: Path) -> list[str]:
    """Return what pytest is told in a copy of the repository."""
    quiet = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is loaded before pytest starts
    return [f"--rootdir={copy}", *quiet, "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist"]


def kernels(copy: Path) -> Path:
    """Return where Numba keeps the kernels of a copy; they are found again by a copy in the same place."""
    return copy.with_name("kernels")


def settle(root: Path, copy: Path, left_out: Sequence[str]) -> None:
    """Make a copy of the repository the place that Python and the processes it starts load the package from."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*left_out))
    sys.path.insert(0, str(copy / "src"))
    sys.dont_write_bytecode = True  # a faulty file may have the time and the size of the next
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["NUMBA_CACHE_DIR"] = str(kernels(copy))
    os.chdir(copy)
