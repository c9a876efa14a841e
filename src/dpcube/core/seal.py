"""Sanitised exceptions of code that handles exact numbers: an exception that leaves a sealed function shows none.

A traceback is an output: tools print the locals of every frame in it (rich, cgitb, Sentry, a debugger), and the frames
inside have rows and exact counts. So an exception from a sealed function has no frame of it, and no other exception
as its cause or context.

Proof. What leaves a sealed call is raised by its guard, outside of any handler, after the arguments are gone from the
guard's frame; its traceback starts there. It is either an error of ours, whose words name no value by the rules of
`errors.py`, with its traceback, cause, context and notes taken off, or a new object made of a type and a place in
the code alone. An interruption may come while a guard is at work, and then carries the frames that it was to take off;
so there are two guards, and the outer one takes them off what comes from the inner one. A call that returns shows
nothing: what it returns is in no local of a guard.
"""

import os
from collections.abc import Callable
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from dpcube.core.errors import DpcubeError, HiddenError

P = ParamSpec("P")
Result = TypeVar("Result")

HOME = str(Path(__file__).parents[1]) + os.sep


def sealed(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return the function with sanitised exceptions: none shows a value of its frames.

    >>> @sealed
    ... def divide(exact_count: int) -> float:
    ...     return exact_count / 0
    >>> divide(7654321)
    Traceback (most recent call last):
        ...
    dpcube.core.errors.HiddenError: internal error (ZeroDivisionError); this is a fault in dpcube, please report it
    """
    if isgeneratorfunction(function):
        message = "a generator cannot be sealed, because its body runs in the consumer's frames; seal its consumer"
        raise TypeError(message)
    return _guarded(_guarded(function))


def _guarded(function: Callable[P, Result]) -> Callable[P, Result]:
    @wraps(function)
    def guard(*given: P.args, **named: P.kwargs) -> Result:
        try:
            return function(*given, **named)
        except BaseException as error:
            shown = _shown(error)
        del given, named
        raise shown

    return guard


def _shown(error: BaseException) -> BaseException:
    """Return the exception as it may be shown."""
    if isinstance(error, DpcubeError):
        error.__cause__ = error.__context__ = error.__traceback__ = None
        error.__notes__ = []
        return error
    if isinstance(error, SystemExit):
        return SystemExit(error.code if isinstance(error.code, int | None) else 1)
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno))
    for kind in (KeyboardInterrupt, GeneratorExit, MemoryError):
        if isinstance(error, kind):
            return kind()
    return HiddenError(f"internal error ({_kind_and_place(error)}); this is a fault in dpcube, please report it")


def _kind_and_place(error: BaseException) -> str:
    """Return the kind of an error, and the innermost line of dpcube in its traceback."""
    place, at = "", error.__traceback__
    while isinstance(at, TracebackType):
        file = at.tb_frame.f_code.co_filename
        if file.startswith(HOME) and file != __file__:
            place = f" at {file.removeprefix(HOME)}:{at.tb_lineno}"
        at = at.tb_next
    return f"{type(error).__name__}{place}"
