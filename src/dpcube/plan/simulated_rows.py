"""Rows of simulated tables, for cubes too large to materialise, from public facts only.

The marginals are those of `distributions.py`, where attributes are independent but for the peaks of `clustered`. The
errors of a wide release depend most on correlations, so each attribute is correlated with an earlier one, both drawn at
random, by a Gaussian copula: rows have correlated normal variables, and each picks the cell at its quantile.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.exact import SparseRows
from dpcube.noise.special import normal_cdf
from dpcube.plan.axes import Axes, PlannedAxis, shape_of
from dpcube.plan.distributions import DISTRIBUTIONS

MAX_CORRELATION = 0.9
MAX_SHAPED_BINS = 2**16
"""Bins of an attribute on which a distribution is evaluated; it is uniform over the finer cells inside each."""


@dataclass(frozen=True)
class SimulatedRows:
    """Rows of a simulated table: the cell of each on every axis, shape (rows, axes), and how often each is repeated."""

    shape: tuple[int, ...]
    cells: Ints
    repeats: Ints

    @cached_property
    def total(self) -> int:
        """The number of rows."""
        return int(self.repeats.sum())

    def exact(self) -> SparseRows:
        """Return the rows as exact data of a gate."""
        return SparseRows(self.shape, self.columns, self.repeats)

    @cached_property
    def columns(self) -> list[Ints]:
        """The cells of all rows on each axis."""
        return [np.ascontiguousarray(column) for column in self.cells.T]


def simulated_rows(name: str, axes: Axes, *, rows: int, most: int, seed: int) -> SimulatedRows:
    """Return a simulated table of so many rows; above `most`, rows are repeated. A seed repeats the table."""
    generator = np.random.default_rng([seed, list(DISTRIBUTIONS).index(name)])
    shaped = tuple(_shaped(axis) for axis in axes)
    mixture = DISTRIBUTIONS[name](shaped, generator)
    drawn = min(rows, most)
    correlations = np.zeros(len(axes)) if name == "even" else generator.uniform(0, MAX_CORRELATION, len(axes))
    parents = [int(generator.integers(axis)) if axis else 0 for axis in range(len(axes))]
    parts = generator.multinomial(drawn, [weight for weight, _ in mixture])
    cells = np.empty((drawn, len(axes)), np.int64)
    first = 0
    for part, (_, marginals) in zip(parts.tolist(), mixture, strict=True):
        cells[first : first + part] = _drawn(marginals, part, correlations, parents, generator)
        first += part
    for j, (axis, coarse) in enumerate(zip(axes, shaped, strict=True)):
        cells[:, j] = _finer(cells[:, j], axis, coarse, generator)
    repeats = np.full(drawn, rows // drawn)
    repeats[: rows % drawn] += 1
    return SimulatedRows(shape_of(axes), cells, generator.permutation(repeats))


def _shaped(axis: PlannedAxis) -> PlannedAxis:
    return replace(axis, bins=min(axis.bins, MAX_SHAPED_BINS))


def _drawn(
    marginals: list[Floats], rows: int, correlations: Floats, parents: list[int], generator: np.random.Generator
) -> Ints:
    normal = np.empty((rows, len(marginals)))
    cells = np.empty((rows, len(marginals)), np.int64)
    for j, (shares, correlation) in enumerate(zip(marginals, correlations.tolist(), strict=True)):
        own = generator.standard_normal(rows)
        normal[:, j] = own if j == 0 else correlation * normal[:, parents[j]] + np.sqrt(1 - correlation**2) * own
        ends = np.cumsum(shares)
        found = np.searchsorted(ends / ends[-1], normal_cdf(normal[:, j]), side="right")
        cells[:, j] = np.minimum(found, len(shares) - 1)
    return cells


def _finer(cells: Ints, axis: PlannedAxis, coarse: PlannedAxis, generator: np.random.Generator) -> Ints:
    """Return cells of the axis itself, uniformly drawn in the coarser bins that rows are in."""
    if coarse.bins == axis.bins:
        return cells
    place = (cells + generator.random(len(cells))) / coarse.bins
    inside = np.minimum((place * axis.bins).astype(np.int64), axis.bins - 1)
    return np.where(cells < coarse.bins, inside, cells - coarse.bins + axis.bins)
