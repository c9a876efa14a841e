"""Kinds of questions that a plan can be made for, as workloads."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.strategies.strategy import WorkloadKind

QueryKind = Literal["ranges", "cells", "marginals", "total", "pairs"]
ALL_KINDS: tuple[QueryKind, ...] = get_args(QueryKind)
QUERY_KINDS: tuple[QueryKind, ...] = ALL_KINDS[:-1]
"""The workload of a cube."""
KINDS_OF: dict[WorkloadKind, tuple[QueryKind, ...]] = {
    "cube": QUERY_KINDS,
    "wide": ("ranges", "marginals", "pairs", "total"),
    "grid": ("ranges", "total"),
}
"""The kinds of questions that a plan evaluates, by the kind of table that a strategy is made for.

For a wide table: ranges of up to three attributes, and no single cells, which are nearly all empty.
"""
IN_WORDS: dict[QueryKind, str] = {
    "ranges": "a random range",
    "cells": "a single cell",
    "marginals": "a group of a one-way GROUP BY",
    "total": "the number of rows",
    "pairs": "a group of a two-way GROUP BY",
}

QUESTIONS = 1000
"""Questions of each kind, at most (of marginals, for each attribute)."""


def workload_of(kind: QueryKind, shape: tuple[int, ...], *, seed: int) -> Workload:
    """Return a workload of one kind; a seed repeats those drawn at random."""
    if kind == "ranges":
        return random_ranges(shape, QUESTIONS, seed=seed)
    if kind == "cells":
        cells = np.random.default_rng(seed).integers(0, np.array(shape), size=(QUESTIONS, len(shape)))
        return Workload(shape, cells, cells + 1)
    whole = Workload(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))
    return whole if kind == "total" else _marginals(whole)


def _marginals(whole: Workload) -> Workload:
    """Return every group of every one-way marginal, or of a long one some groups evenly spaced."""
    lower: list[NDArray[np.int64]] = []
    upper: list[NDArray[np.int64]] = []
    for axis, size in enumerate(whole.shape):
        groups = np.unique(np.linspace(0, size - 1, min(size, QUESTIONS)).astype(np.int64))
        lower.append(np.repeat(whole.lower, len(groups), axis=0))
        upper.append(np.repeat(whole.upper, len(groups), axis=0))
        lower[-1][:, axis], upper[-1][:, axis] = groups, groups + 1
    return Workload(whole.shape, np.concatenate(lower), np.concatenate(upper))
