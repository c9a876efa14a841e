"""Mean absolute errors of an estimate of a wide table or of a fine grid, on rows of a simulated or public table.

There is one error for each kind of question and one for each of its parts. The questions are the same for every table
of a domain, except for ranges around rows.
"""

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.models import Estimate
from dpcube.models.cuboids import CuboidsEstimate
from dpcube.plan.queries import QueryKind
from dpcube.plan.simulated_rows import SimulatedRows
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.strategies.strategy import WorkloadKind

RANGES, MAX_PAIRS_ASKED, MAX_CELLS_ASKED = 300, 60, 2**14
MAX_RANGE_CELLS = 2**25
"""Cells of an attribute, times ranges: an estimate of cuboids materialises the weights of each."""
MAX_ATTRIBUTES_ASKED = 3
SHARES_OF_A_GRID = (0.25, 0.05, 0.01, 1e-4, 1e-6)
"""Sizes of ranges of a grid, half of them around rows."""

Asked = tuple[QueryKind, str]
"""A kind of question and a part of it (an attribute, counted pairs, ranges of a size); the empty part is all of it."""
Found = dict[Asked, tuple[float, float]]
"""The mean error, and the mean answer as a share of all rows under a uniform distribution."""


def errors_of_cuboids(found: Estimate, table: SimulatedRows, names: tuple[str, ...]) -> Found:
    """Return the mean errors of a wide release: of ranges, of attributes, of pairs and of the total."""
    assert isinstance(found, CuboidsEstimate)  # the default estimate of cuboids
    generator = np.random.default_rng(0)
    axes = [axis for axis, side in enumerate(table.shape) if side > 1]
    ones = {axis: _errors_of_table(found, table, (axis,), generator) for axis in axes}
    counted, modelled = _errors_of_pairs(found, table, axes, generator)
    errors: Found = {("ranges", ""): _errors_of_ranges(found, table, ranges_of_few(table.shape))}
    if axes:
        together = np.concatenate(list(ones.values()))
        errors["marginals", ""] = float(together.mean()), len(axes) / sum(table.shape[axis] for axis in axes)
    if len(axes) > 1:
        errors["pairs", ""] = _mean(counted + modelled)
    errors["total", ""] = abs(found.beliefs.total - table.total), 1.0
    for part, of_pairs in (("counted", counted), ("modelled", modelled)):
        if of_pairs:
            errors["pairs", part] = _mean(of_pairs)
    for axis, wrong in ones.items():
        errors["marginals", names[axis]] = float(wrong.mean()), 1 / table.shape[axis]
    return errors


def errors_of_grid(found: Estimate, table: SimulatedRows, names: tuple[str, ...] = ()) -> Found:  # noqa: ARG001 (as above)
    """Return the mean errors of a release of a grid: of ranges with both ends at random, of each size, of the total."""
    errors: Found = {("ranges", ""): _errors_of_ranges(found, table, random_ranges(table.shape, RANGES, seed=0))}
    whole = Workload(table.shape, np.zeros((1, len(table.shape)), np.int64), np.array([table.shape]))
    errors["total", ""] = _errors_of_ranges(found, table, whole)
    for share in SHARES_OF_A_GRID:
        if share * math.prod(table.shape) >= 1:
            workload = ranges_of_share(table, share)
            errors["ranges", f"{100 * share:g}% of the grid"] = _errors_of_ranges(found, table, workload)
    return errors


ERRORS: dict[WorkloadKind, Callable[[Estimate, SimulatedRows, tuple[str, ...]], Found]] = {
    "wide": errors_of_cuboids,
    "grid": errors_of_grid,
}
"""The errors of an estimate of rows, by the kind of table."""


def ranges_of_few(shape: tuple[int, ...]) -> Workload:
    """Return ranges of one to three attributes, both ends of each at random; of the others every cell counts."""
    many = max(min(RANGES, MAX_RANGE_CELLS // max(shape)), 1)
    drawn = random_ranges(shape, many, seed=0)
    generator = np.random.default_rng(0)
    turns = generator.permuted(np.tile(np.arange(len(shape)), (many, 1)), axis=1)
    asked: Bools = turns <= (np.arange(many) % MAX_ATTRIBUTES_ASKED)[:, None]
    return Workload(shape, np.where(asked, drawn.lower, 0), np.where(asked, drawn.upper, np.array(shape)))


def ranges_of_share(table: SimulatedRows, share: float) -> Workload:
    """Return ranges that cover a share of a grid, of random aspect ratios; every other one is around a row."""
    generator, sides = np.random.default_rng(0), np.array(table.shape)
    long = np.flatnonzero(sides > 1)
    lengths = np.ones((RANGES, len(sides)))
    drawn = np.exp(0.5 * generator.standard_normal((RANGES, len(long))))
    drawn *= (share / drawn.prod(axis=1, keepdims=True)) ** (1 / len(long))
    lengths[:, long] = np.clip(np.rint(drawn * sides[long]), 1, sides[long])
    rows = table.cells[generator.integers(len(table.cells), size=RANGES)]
    inside = rows - np.floor(generator.random(lengths.shape) * lengths)
    anywhere = np.floor(generator.random(lengths.shape) * (sides - lengths + 1))
    lower = np.where(np.arange(RANGES)[:, None] % 2, inside, anywhere)
    lower = np.clip(lower, 0, sides - lengths).astype(np.int64)
    return Workload(table.shape, lower, lower + lengths.astype(np.int64))


def counts_in_ranges(table: SimulatedRows, asked: Workload) -> Ints:
    """Return the number of rows in each range."""
    order = np.argsort(table.cells[:, 0], kind="stable")
    columns, repeats = [column[order] for column in table.columns], table.repeats[order]
    found = np.empty(len(asked), np.int64)
    for number, (low, high) in enumerate(zip(asked.lower.tolist(), asked.upper.tolist(), strict=True)):
        first, last = np.searchsorted(columns[0], [low[0], high[0]])
        inside = np.ones(last - first, np.bool_)
        for axis in range(1, len(columns)):
            if (low[axis], high[axis]) != (0, table.shape[axis]):
                column = columns[axis][first:last]
                inside &= (column >= low[axis]) & (column < high[axis])
        found[number] = repeats[first:last][inside].sum()
    return found


def _errors_of_ranges(found: Estimate, table: SimulatedRows, asked: Workload) -> tuple[float, float]:
    wrong = np.abs(found.values(asked) - counts_in_ranges(table, asked))
    shares = ((asked.upper - asked.lower) / np.array(table.shape)).prod(axis=1)
    return float(wrong.mean()), float(shares.mean())


def _errors_of_pairs(
    found: CuboidsEstimate, table: SimulatedRows, axes: list[int], generator: np.random.Generator
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the mean error of some pairs that were counted together, and of some that only the model estimates."""
    pairs, together = list(combinations(axes, 2)), [set(one.axes) for one in found.cuboids]
    counted: list[tuple[float, float]] = []
    modelled: list[tuple[float, float]] = []
    for place in generator.permutation(len(pairs)).tolist():
        pair = pairs[place]
        kept = counted if any(set(pair) <= one for one in together) else modelled
        if len(kept) < MAX_PAIRS_ASKED:
            wrong = _errors_of_table(found, table, pair, generator)
            kept.append((float(wrong.mean()), 1 / math.prod(table.shape[axis] for axis in pair)))
    return counted, modelled


def _errors_of_table(
    found: CuboidsEstimate, table: SimulatedRows, axes: tuple[int, ...], generator: np.random.Generator
) -> Floats:
    """Return the error of each cell of a marginal; if there are very many cells, of a random sample of them."""
    sides = tuple(table.shape[axis] for axis in axes)
    many = math.prod(sides)
    asked = np.arange(many) if many <= MAX_CELLS_ASKED else generator.integers(many, size=MAX_CELLS_ASKED)
    occupied, which = np.unique(
        np.ravel_multi_index([table.columns[axis] for axis in axes], sides), return_inverse=True
    )
    counts = np.bincount(which, weights=table.repeats)
    place = np.minimum(np.searchsorted(occupied, asked), len(occupied) - 1)
    truth = np.where(occupied[place] == asked, counts[place], 0.0)
    cells = np.unravel_index(asked, sides)
    groups = tuple(found.groups[axis][of] for axis, of in zip(axes, cells, strict=True))
    modelled_counts = found.beliefs.marginal(axes)[groups]
    for axis, of in zip(axes, cells, strict=True):
        modelled_counts = modelled_counts * found.shares[axis][of]
    return np.asarray(np.abs(modelled_counts - truth), np.float64)


def _mean(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    error, share = np.mean(pairs, axis=0).tolist()
    return error, share
