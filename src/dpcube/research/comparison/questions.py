"""What is asked of every method: a domain enters, ranges of each kind leave, all of them from a seed.

A cell of a marginal is a range that is one cell wide on some axes and whole on the others, so that one measure of
errors and of intervals serves every kind.
"""

import math
from itertools import combinations

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.domain import Domain
from dpcube.queries import Workload
from dpcube.research.accuracy.cases import asked_ranges

QUESTION_KINDS = ("ranges", "prefixes", "1-way", "2-way", "3-way", "cells")


def compared_questions(domain: Domain, number: int, *, seed: int) -> dict[str, Workload]:
    """Return at most about so many questions of each kind that the domain has; marginals of all axes are its cells.

    Where there are more prefixes or cells than that, some are drawn; so of each marginal, an equal number if it has it.
    """
    shape, random = domain.shape, np.random.default_rng(seed)
    asked = {"ranges": asked_ranges(domain, number, seed=seed)}
    ends = _some_cells(shape, tuple(range(len(shape))), number, random)
    asked["prefixes"] = Workload(shape, np.zeros_like(ends), ends + 1)
    for ways in range(1, min(len(shape), 4)):
        chosen = list(combinations(range(len(shape)), ways))
        each = math.ceil(number / len(chosen))
        tables = [_of_marginal(shape, axes, _some_cells(shape, axes, each, random)) for axes in chosen]
        lower, upper = (np.concatenate(ends) for ends in zip(*tables, strict=True))
        asked[f"{ways}-way"] = Workload(shape, lower, upper)
    cells = _some_cells(shape, tuple(range(len(shape))), number, random)
    asked["cells"] = Workload(shape, cells, cells + 1)
    return {kind: asked[kind] for kind in QUESTION_KINDS if kind in asked}


def _some_cells(shape: tuple[int, ...], axes: tuple[int, ...], number: int, random: np.random.Generator) -> Ints:
    """Return the indices of all cells of a marginal, or of so many of them, each at most once."""
    sides = tuple(shape[axis] for axis in axes)
    size = math.prod(sides)
    flat = np.arange(size) if size <= number else np.sort(random.choice(size, number, replace=False))
    return np.stack(np.unravel_index(flat, sides), axis=1).astype(np.int64)


def _of_marginal(shape: tuple[int, ...], axes: tuple[int, ...], cells: Ints) -> tuple[Ints, Ints]:
    lower = np.zeros((len(cells), len(shape)), np.int64)
    upper = np.tile(np.array(shape, np.int64), (len(cells), 1))
    lower[:, axes], upper[:, axes] = cells, cells + 1
    return lower, upper
