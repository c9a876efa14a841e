"""Rows of made-up tables, for domains whose cells nobody could lay out: public facts enter, the cells of rows leave.

The characters are those of `stand_ins.py`. There attributes are independent but for the hills of `clustered`; of a wide
table it matters most how they hang together. So each follows an earlier one, drawn at random, as strongly as a draw has
it: rows have normal variables with such correlations, and each picks the cell at its quantile (a Gaussian copula).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from dpcube.core.arrays import Floats, Ints
from dpcube.core.exact import SparseRows
from dpcube.plan.axes import Axes, PlannedAxis, shape_of
from dpcube.plan.stand_ins import STAND_INS

STRONGEST_TIE = 0.9
MAX_SHAPED_BINS = 2**16
"""Bins of an attribute over which a character is laid out; inside each of them finer cells are alike."""


@dataclass(frozen=True)
class MadeUpRows:
    """Rows of a made-up table: the cell of each on every axis, shape (rows, axes), and for how many each stands."""

    shape: tuple[int, ...]
    cells: Ints
    alike: Ints

    @cached_property
    def total(self) -> int:
        """The number of rows."""
        return int(self.alike.sum())

    def exact(self) -> SparseRows:
        """Return the rows as the gate counts them."""
        return SparseRows(self.shape, self.columns, self.alike)

    @cached_property
    def columns(self) -> list[Ints]:
        """The cells of all rows on each axis."""
        return [np.ascontiguousarray(column) for column in self.cells.T]


def rows_made_up(name: str, axes: Axes, *, rows: int, most: int, seed: int) -> MadeUpRows:
    """Return a made-up table of so many rows; above `most`, each stands for several. A seed repeats it."""
    generator = np.random.default_rng([seed, list(STAND_INS).index(name)])
    shaped = tuple(_shaped(axis) for axis in axes)
    mixture = STAND_INS[name](shaped, generator)
    drawn = min(rows, most)
    ties = np.zeros(len(axes)) if name == "even" else generator.uniform(0, STRONGEST_TIE, len(axes))
    tied_to = [int(generator.integers(axis)) if axis else 0 for axis in range(len(axes))]
    parts = generator.multinomial(drawn, [weight for weight, _ in mixture])
    cells = np.empty((drawn, len(axes)), np.int64)
    first = 0
    for part, (_, marginals) in zip(parts.tolist(), mixture, strict=True):
        cells[first : first + part] = _drawn(marginals, part, ties, tied_to, generator)
        first += part
    for j, (axis, coarse) in enumerate(zip(axes, shaped, strict=True)):
        cells[:, j] = _finer(cells[:, j], axis, coarse, generator)
    alike = np.full(drawn, rows // drawn)
    alike[: rows % drawn] += 1
    return MadeUpRows(shape_of(axes), cells, generator.permutation(alike))


def _shaped(axis: PlannedAxis) -> PlannedAxis:
    return replace(axis, bins=min(axis.bins, MAX_SHAPED_BINS))


def _drawn(
    marginals: list[Floats], rows: int, ties: Floats, tied_to: list[int], generator: np.random.Generator
) -> Ints:
    normal = np.empty((rows, len(marginals)))
    cells = np.empty((rows, len(marginals)), np.int64)
    for j, (shares, tie) in enumerate(zip(marginals, ties.tolist(), strict=True)):
        own = generator.standard_normal(rows)
        normal[:, j] = own if j == 0 else tie * normal[:, tied_to[j]] + np.sqrt(1 - tie**2) * own
        ends = np.cumsum(shares)
        found = np.searchsorted(ends / ends[-1], ndtr(normal[:, j]), side="right")
        cells[:, j] = np.minimum(found, len(shares) - 1)
    return cells


def _finer(cells: Ints, axis: PlannedAxis, coarse: PlannedAxis, generator: np.random.Generator) -> Ints:
    """Return cells of the axis itself, anywhere in the coarser bins that rows are in."""
    if coarse.bins == axis.bins:
        return cells
    place = (cells + generator.random(len(cells))) / coarse.bins
    inside = np.minimum((place * axis.bins).astype(np.int64), axis.bins - 1)
    return np.where(cells < coarse.bins, inside, cells - coarse.bins + axis.bins)
