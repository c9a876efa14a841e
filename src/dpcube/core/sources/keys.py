"""The cell of a row as one number, or as several where one would not fit 64 bits.

Enters: the shape of a domain. Leaves: runs of its axes, each of which makes one key, and the cells that keys stand for.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_KEY = 2**62


def key_runs(shape: tuple[int, ...]) -> list[range]:
    """Return the axes in runs, the cells of each of which are numbered in 64 bits.

    >>> key_runs((4, 2**40, 2**30, 2))
    [range(0, 2), range(2, 4)]
    """
    starts, size = [0], 1
    for axis, side in enumerate(shape):
        size *= side
        if size > LARGEST_KEY:
            starts.append(axis)
            size = side
    return [range(*ends) for ends in pairwise([*starts, len(shape)])]


def key_name(number: int) -> str:
    """Return the name of a run's key in a query: `cell` of the first."""
    return f"cell{number or ''}"


def coded(answer: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Return the cell on every axis of each row of an answer, and the answer; rows that have no cell are left out."""
    rows, codes = np.asarray(answer["answer"]).astype(np.int64), []
    counted = np.ones(len(rows), np.bool_)
    for number, axes in enumerate(key_runs(shape)):
        rest = np.asarray(answer[key_name(number)]).astype(np.int64)
        counted &= rest < math.prod(shape[axis] for axis in axes)
        places = []
        for axis in reversed(axes):
            rest, place = np.divmod(rest, shape[axis])
            places.append(place.astype(np.min_scalar_type(shape[axis] - 1)))
        codes += reversed(places)
    return [code[counted] for code in codes], rows[counted]
