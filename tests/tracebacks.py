"""A checker of tracebacks: it raises at trusted lines, and tells where an exact count could be seen of it.

It raises at a line of `core/` or `curator/`, then looks at the exception, at those it leads to, and at the locals of
every frame, by repr and inside containers and attributes. What the caller passed is the caller's. `core/domain/` is
left out: domains are public, and no row comes near them.
"""

import gc
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dpcube
from dpcube.core import noise, seal

HOME = str(Path(dpcube.__file__).parent)
TRUSTED = tuple(f"{HOME}/{part}/" for part in ("core", "curator"))
PUBLIC = f"{HOME}/core/domain/"
MANY = 7654321
ROWS = next(rows for rows in (1997, 1999) if os.getpid() not in (rows, 3 * rows))  # which budgets show
SECRET = re.compile(rf"(?<![0-9A-Za-z])({MANY}|{ROWS}|{3 * ROWS})(\.0)?(?![0-9A-Za-z])")
TESTS = str(Path(__file__).parent)
CONTAINERS = (dict, list, tuple, set, frozenset)
LedgerLocation = tuple[str, int]


class Loud:
    """The noise as it is drawn, moved far away: a noisy count is never an exact one by chance."""

    private = True

    def draw(self, epsilon: Fraction, size: int) -> Any:
        return noise.ExactNoise().draw(epsilon, size) % 1000 + 10**12


class Raiser:
    """Runs something with an exception at the nth visit of a line, and another at the next line of the seal."""

    def __init__(
        self,
        at: LedgerLocation | None,
        nth: int = 1,
        *,
        error: BaseException | None = None,
        then: BaseException | None = None,
    ) -> None:
        self.at, self.nth, self.error, self.then = at, nth, error, then
        self.visited: Counter[LedgerLocation] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(TRUSTED) or file.startswith(PUBLIC):
            return None
        place = (file, frame.f_lineno)
        if event == "line":
            self.visited[place] += 1
            if place == self.at and self.visited[place] == self.nth and self.error is not None:
                error, self.error = self.error, None
                raise error
            if self.error is None and self.then is not None and file == seal.__file__:
                error, self.then = self.then, None
                raise error
        return self

    def run(self, job: Callable[[], object]) -> BaseException | None:
        before = sys.gettrace()
        threading.settrace(self)
        sys.settrace(self)
        try:
            job()
        except BaseException as error:  # noqa: BLE001, RUF100 (an interruption too)
            return error
        finally:
            sys.settrace(before)
            threading.settrace(before)
        return None


def seen(error: BaseException, passed: tuple[object, ...]) -> list[str]:
    """Where a tool that prints tracebacks would show an exact count."""
    found: list[str] = []
    errors, done = [error], set[int]()
    while errors:
        one = errors.pop()
        if id(one) in done:
            continue
        done.add(id(one))
        errors += [other for other in (one.__cause__, one.__context__) if other is not None]
        errors += getattr(one, "exceptions", ())
        found += [f"in {type(one).__name__}" for text in texts((one.args, vars(one)), passed) if SECRET.search(text)]
        at = one.__traceback__
        while at is not None:
            code = at.tb_frame.f_code
            if not code.co_filename.startswith(TESTS):
                for name, value in at.tb_frame.f_locals.items():
                    if any(map(SECRET.search, texts(value, passed))):
                        found.append(f"{name} in {code.co_filename.removeprefix(HOME)}:{at.tb_lineno}")
            at = at.tb_next
    return found


def texts(value: object, passed: tuple[object, ...], depth: int = 5) -> Iterator[str]:
    """What a value shows: its repr, and what is in it, as far as tools go."""
    if any(value is own for own in passed) or isinstance(value, BaseException):
        return
    if not isinstance(value, CONTAINERS):
        with suppress(Exception):  # an object that is half made
            yield repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if depth == 0 or isinstance(value, type) or callable(value):
        return
    inside: list[object] = []
    if isinstance(value, dict):
        inside += [*value.keys(), *value.values()]
    elif isinstance(value, CONTAINERS):
        inside += value
    elif str(type(value).__module__).startswith("dpcube"):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        inside += [getattr(value, name, None) for name in slots] + list(getattr(value, "__dict__", {}).values())
    for part in inside:
        yield from texts(part, passed, depth - 1)


KINDS: tuple[Callable[[], BaseException], ...] = (
    lambda: RuntimeError("a fault"),
    KeyboardInterrupt,
    MemoryError,
    lambda: SystemExit("text"),
    lambda: OSError(28, "No space", "name"),
)


def leaks(
    job: Callable[[], object],
    passed: tuple[object, ...],
    *,
    every: int,
    within: str = "",
    last: bool = False,
    twice: bool = False,
) -> dict[str, list[str]]:
    """What can be seen after an exception at the first or last visit of each trusted line of a job, or of some."""
    first = Raiser(None)
    assert first.run(job) is None
    assert len(first.visited) > 30
    found = {}
    visited = [(place, visits) for place, visits in first.visited.items() if place[0].endswith(within)]
    for turn, (place, visits) in enumerate(visited[::every]):
        then = KeyboardInterrupt() if twice else None
        raiser = Raiser(place, visits if last else 1, error=KINDS[turn % len(KINDS)](), then=then)
        error = raiser.run(job)
        if error is not None and (shown := seen(error, passed)):
            found[f"{place[0].removeprefix(HOME)}:{place[1]}"] = shown
        if "ledger" in place[0]:
            # An exception on the line that closes a connection leaves it to the garbage, with its lock on the ledger.
            del raiser, error
            gc.collect()
    return found
