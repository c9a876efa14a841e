"""Validation of numeric arguments, as float arrays.

Every function of `dpcube.theory` broadcasts as NumPy does, and returns a NumPy scalar for scalar arguments.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError

NoiseLaw = Literal["laplace", "discrete"]


def numbers(name: str, value: ArrayLike) -> Floats:
    """Return finite numbers as floats."""
    return checked(name, value, np.isfinite, "a finite number")


def positive(name: str, value: ArrayLike) -> Floats:
    """Return numbers above zero as floats."""
    return checked(name, value, lambda v: np.isfinite(v) & (v > 0), "a number above 0")


def whole_numbers(name: str, value: ArrayLike, *, least: int = 1) -> Floats:
    """Return whole numbers of at least `least` as floats."""
    return checked(
        name, value, lambda v: np.isfinite(v) & (v >= least) & (v == np.floor(v)), f"a whole number, {least} or more"
    )


def fraction(name: str, value: ArrayLike) -> Floats:
    """Return numbers strictly between zero and one as floats."""
    return checked(name, value, lambda v: (v > 0) & (v < 1), "a number between 0 and 1")


def is_discrete(noise: str) -> bool:
    """Return whether the name of a noise law is that of the discrete one."""
    if noise not in ("laplace", "discrete"):
        message = f"noise is {noise!r}; it must be 'laplace' or 'discrete'"
        raise InputError(message)
    return noise == "discrete"


def plain(values: ArrayLike) -> Floats:
    """Return an array unchanged, and an array without axes as a NumPy scalar."""
    return np.asarray(values, dtype=np.float64)[()]


def each(function: Callable[..., float], *arguments: ArrayLike) -> Floats:
    """Return the values of a scalar function over broadcast arguments."""
    return plain(np.vectorize(function, otypes=[np.float64])(*arguments))


def checked(name: str, value: ArrayLike, holds: Callable[[Floats], NDArray[np.bool_]], wanted: str) -> Floats:
    """Return an argument as floats if the condition holds for all of them, or raise InputError."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        message = f"{name} is {value!r}; it must be {wanted}"
        raise InputError(message) from None
    good = holds(array)
    if not np.all(good):
        message = f"{name} is {array[~good].flat[0]:g}; it must be {wanted}"
        raise InputError(message)
    return array
