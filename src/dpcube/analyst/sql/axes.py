"""How finely a query looks at one attribute: pieces of its axis, and the SQL values of each piece.

A piece is a run of whole cells, or a part of one bin that the query cuts. Rows of a bin are spread evenly over it, so
a part of a bin holds that share of its rows. A query that only compares an attribute with constants needs just the
pieces between those constants, however many cells there are.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.arrays import Floats, Ints
from dpcube.domain import Attribute
from dpcube.errors import QueryError

MOST_ROWS = 20_000_000


class Detail(IntEnum):
    """What a query must tell apart: sides of constants, bins, or every whole number or day."""

    CUTS = 0
    BINS = 1
    UNITS = 2


@dataclass
class Use:
    """How a query uses one attribute: the detail it needs and the constants it compares with."""

    detail: Detail = Detail.CUTS
    cuts: set[float] = field(default_factory=set)


@dataclass(frozen=True)
class Pieces:
    """The pieces of one axis: cells `lower` to `upper` (half-open), the share of them, and coordinates `low`, `high`.

    Cells of their own (null, outside, ...) are the last pieces, in the order of their cells.
    """

    attribute: Attribute
    lower: Ints
    upper: Ints
    share: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.lower)

    @cached_property
    def middle(self) -> Floats:
        """Mean coordinate of the values of each piece that is not a cell of its own."""
        return (self.low + self.high - self.attribute.step) / 2

    @cached_property
    def bins(self) -> Ints:
        """Number of the bin of each piece: the parts of a bin that is cut are beside one another and share it."""
        return np.cumsum(np.append(0, (self.lower[1:] != self.lower[:-1]) | ~self.is_part[1:])[: len(self)])

    @cached_property
    def is_part(self) -> NDArray[np.bool_]:
        """Whether each piece is a part of a bin, and more than rounding made."""
        return self.attribute.cut_bins(self.share, self.lower)

    @cached_property
    def parts(self) -> Ints:
        """How many pieces each bin has."""
        return np.bincount(self.bins)

    @property
    def is_cut(self) -> bool:
        """Whether a bin is cut of which nothing is known inside."""
        return not self.attribute.is_even and bool(self.is_part.any())

    def column(self, role: str) -> pa.Array:
        """Return one SQL value for each piece; cells of their own have none but their label and kind."""
        own = list(self.attribute.own_cells)
        if role == "label":
            return pa.array(self.attribute.labels()).take(pa.array(self.lower))
        if role == "own":
            return pa.array([None] * len(self.low) + own, pa.string())
        values = getattr(self, f"_{role}")()
        return pa.concat_arrays([values, pa.nulls(len(own), values.type)])

    def _place(self) -> pa.Array:
        return pa.array(self.middle)

    def _value(self) -> pa.Array:
        if self.attribute.scale == "number" and not (self.high - self.low == 1).all():
            return pa.array(self.middle)
        return self._typed(self.middle)

    def _unit(self) -> pa.Array:
        """Return the first whole number, day or value of the piece; of real numbers the middle."""
        return self._typed(self.low if self.attribute.step else self.middle)

    def _key(self) -> pa.Array:
        return self._typed(self.attribute.bin_edges()[self.lower[: len(self.low)]])

    def _bin(self) -> pa.Array:
        return pa.array(self.attribute.labels()).take(pa.array(self.lower[: len(self.low)]))

    def _least(self) -> pa.Array:
        return pa.array(self.low - self.attribute.origin)

    def _most(self) -> pa.Array:
        return pa.array(self.high - self.attribute.step - self.attribute.origin)

    def _spread(self) -> pa.Array:
        """Variance of values spread evenly over the piece: (n^2 - 1)/12 for n whole numbers, width^2/12 otherwise."""
        return pa.array(((self.high - self.low) ** 2 - self.attribute.step**2) / 12)

    def _typed(self, coordinate: Floats) -> pa.Array:
        return pa.array(self.attribute.values_at(coordinate), self.attribute.arrow_type)


def pieces_of(attribute: Attribute, use: Use) -> Pieces:
    """Cut an axis as finely as its use needs."""
    edges = attribute.bin_edges()
    cuts = np.array(sorted(cut for cut in use.cuts if edges[0] < cut < edges[-1]), np.float64)
    if use.detail == Detail.UNITS and not attribute.is_continuous:
        _check_units(attribute, float(edges[-1] - edges[0]))
        points = np.arange(edges[0], edges[-1] + 1)
    elif use.detail >= Detail.BINS:
        points = np.union1d(edges, cuts)
    else:
        after = np.searchsorted(edges, cuts)
        points = np.unique(np.concatenate([edges[[0, -1]], cuts, _around_cut_bins(edges, cuts, after)]))
    lower = np.searchsorted(edges, points[:-1], side="right") - 1
    upper = np.searchsorted(edges, points[1:], side="left")
    share = np.diff(points) / (edges[upper] - edges[lower])
    own = np.arange(attribute.bins, attribute.size)
    return Pieces(
        attribute,
        np.concatenate([lower, own]),
        np.concatenate([upper, own + 1]),
        np.concatenate([share, np.ones(len(own))]),
        points[:-1],
        points[1:],
    )


def _around_cut_bins(edges: Floats, cuts: Floats, after: NDArray[np.intp]) -> Floats:
    """Return the edges of the bins that a cut goes through: a part of a bin is never joined with other bins."""
    through = after[edges[after] != cuts]
    return np.concatenate([edges[through - 1], edges[through]])


def _check_units(attribute: Attribute, units: float) -> None:
    if units > MOST_ROWS:
        msg = (
            f"this use of '{attribute.name}' needs each of its {units:,.0f} values; at most {MOST_ROWS:,} are told "
            "apart: group by the attribute itself, or compare it with constants"
        )
        raise QueryError(msg)
