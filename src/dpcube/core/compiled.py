"""The one way this package compiles a hot loop: Numba, cached on disk, without the interpreter lock.

Numba is imported when the first loop runs, not before: it takes longer to import than many a question to answer.

The cache is a convenience. It is in the package's own folder, or in the user's cache directory if that folder cannot be
written to. Where neither can be, loops that were compiled ahead are read from the package's folder, and others are
compiled in memory. A cache that is damaged or on a full disk is passed over: no loop fails for it, least of all one
that runs after a budget was charged.
"""

from collections.abc import Callable
from contextlib import suppress
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
            made = _numba().njit(nogil=True, error_model="numpy")(self._function)
            with suppress(OSError, RuntimeError):  # no folder that could hold a cache
                made._cache = _cache_class()(self._function)
            self._compiled = made
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


@cache
def _cache_class() -> Any:
    """Return Numba's cache of a function on disk, which never fails the function."""
    from numba.core.caching import CompileResultCacheImpl, FunctionCache

    usual = CompileResultCacheImpl._locator_classes
    in_tree = next(locator for locator in usual if locator.__name__.endswith("InTreeCacheLocator"))

    class CompiledAhead(in_tree):  # type: ignore[misc, valid-type]
        """The package's own folder, which is read and cannot be written to."""

        def ensure_cache_path(self) -> None:
            """Ask for nothing: what is not there is compiled."""

    class Locators(CompileResultCacheImpl):
        _locator_classes = [*usual, CompiledAhead]  # noqa: RUF012 (as its base has it)

    class NeverFailing(FunctionCache):
        _impl_class = Locators

        def load_overload(self, sig: object, target_context: object) -> object:
            """Return the compiled loop, or None if there is none that can be read."""
            try:
                return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except Exception:  # noqa: BLE001, RUF100 (a damaged file raises whatever its bytes bring about)
                return None

        def save_overload(self, sig: object, data: object) -> None:
            """Keep a compiled loop, if that can be done."""
            with suppress(Exception):
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    return NeverFailing
