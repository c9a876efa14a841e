"""The one way this package compiles a hot loop: Numba, cached on disk, without the interpreter lock."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile `function` to machine code at its first call for each set of argument types."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
