"""Validation of arguments that only formulas have, beside those of `dpcube.noise.law`."""

import numpy as np
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.noise.law import checked, whole_numbers


def not_negative(name: str, value: ArrayLike) -> Floats:
    """Return numbers of at least zero as floats."""
    return checked(name, value, lambda v: np.isfinite(v) & (v >= 0), "a number of at least 0")


def box_and_query(n_p: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats]:
    """Return the size of a box and of a query inside it."""
    n, size = np.broadcast_arrays(whole_numbers("n_p", n_p), whole_numbers("s", s))
    if np.any(size > n):
        first = np.argmax(size > n)
        message = f"s is {size.flat[first]:g} but the box has n_p = {n.flat[first]:g} cells; give s from 1 to n_p"
        raise InputError(message)
    return n, size
