"""The one way this package compiles a hot loop: Numba, cached on disk, without the interpreter lock.

Numba is imported when the first loop runs, not before: it takes longer to import than many a question to answer.
"""

from collections.abc import Callable
from functools import cache, update_wrapper
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])

COMPILER_REMEDY = "run `dpcube compile` as a user who may write to Numba's cache, or reinstall numba"
"""What helps where machine code cannot be made."""

_to_be_told: list[Callable[[], None]] = []


def compiled(function: F) -> F:
    """Compile `function` to machine code at its first call for each set of argument types."""
    return cast(F, _Compiled(function))


def tell_when_compiling(tell: Callable[[], None]) -> None:
    """Call `tell` whenever machine code is made anew, because the cache on disk has none that fits."""
    if tell not in _to_be_told:
        _to_be_told.append(tell)


class _Compiled:
    """A function that Numba compiles when it is called, or when a compiled function that calls it is."""

    def __init__(self, function: Callable[..., object]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._compiled: Callable[..., object] | None = None

    def __call__(self, *arguments: object) -> object:
        return (self._compiled or self.load())(*arguments)

    def load(self) -> Callable[..., object]:
        """Return the function as Numba knows it."""
        if self._compiled is None:
            self._compiled = _numba().njit(cache=True, nogil=True, error_model="numpy")(self._function)
        return self._compiled


@cache
def _numba() -> Any:
    """Return Numba, taught what these functions are where compiled ones call them, and to tell when it compiles."""
    import numba
    from numba.core import event
    from numba.extending import typeof_impl

    class Teller(event.Listener):
        def on_start(self, event: object) -> None:  # noqa: ARG002
            for tell in _to_be_told:
                tell()

        def on_end(self, event: object) -> None:
            pass

    typeof_impl.register(_Compiled, lambda function, context: typeof_impl(function.load(), context))
    event.register("numba:compile", Teller())  # type: ignore[no-untyped-call]
    return numba


def raised_by_compiler(error: BaseException) -> bool:
    """Return whether an exception comes from Numba or LLVM at work, and not from a loop or from what called it."""
    at = error.__traceback__
    while at is not None:
        if str(at.tb_frame.f_globals.get("__name__")).partition(".")[0] in ("numba", "llvmlite"):
            return True
        at = at.tb_next
    return False
