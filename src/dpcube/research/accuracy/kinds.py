"""Errors by kind of question: exact and estimated counts of one cube enter, a number for each kind leaves."""

import math
from itertools import combinations
from typing import Literal

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload

ErrorKind = Literal["ranges", "cells", "m1", "m2", "m3", "tv3"]
ERROR_KINDS: tuple[ErrorKind, ...] = ("ranges", "cells", "m1", "m2", "m3", "tv3")
ERROR_WORDS: dict[ErrorKind, str] = {
    "ranges": "ranges",
    "cells": "single cells",
    "m1": "1-way marginals",
    "m2": "2-way marginals",
    "m3": "3-way marginals",
    "tv3": "total variation of 3-way",
}


def errors_by_kind(exact_counts: Ints, estimated: Floats, asked: Workload) -> Floats:
    """Return mean absolute errors of ranges, cells and marginals, and the mean total variation of 3-way marginals.

    NaN where a cube has no such marginals, or where they are its cells; of three attributes, the total variation stays.
    """
    wrong = estimated - exact_counts
    found = [float(absolute_errors(exact_counts, estimated, asked).mean()), float(np.abs(wrong).mean())]
    found += [_marginal_error(wrong, ways) for ways in (1, 2, 3)]
    return np.array([*found, _total_variation(exact_counts, estimated)])


def _marginal_error(wrong: Floats, ways: int) -> float:
    """Return the mean absolute error of a cell of a marginal, averaged over all marginals of so many attributes."""
    if wrong.ndim <= ways:
        return math.nan
    return float(np.mean([np.abs(_marginal(wrong, axes)).mean() for axes in combinations(range(wrong.ndim), ways)]))


def _total_variation(exact_counts: Ints, estimated: Floats) -> float:
    if exact_counts.ndim < 3:
        return math.nan
    wrong = estimated / max(float(estimated.sum()), 1.0) - exact_counts / max(int(exact_counts.sum()), 1)
    return float(np.mean([np.abs(_marginal(wrong, axes)).sum() / 2 for axes in combinations(range(wrong.ndim), 3)]))


def _marginal(cells: Floats, axes: tuple[int, ...]) -> Floats:
    return np.asarray(cells.sum(axis=tuple(axis for axis in range(cells.ndim) if axis not in axes)))


def laplace_error(epsilon: float, tables: int = 1) -> float:
    """Return the mean absolute error of a cell where epsilon is split equally over so many tables.

    The noise is the two-sided geometric: its mean size is 2q / (1 - q^2) with q = exp(-epsilon / tables).

    >>> round(laplace_error(0.01, 3), 2)
    300.0
    """
    return 1 / math.sinh(epsilon / tables)
