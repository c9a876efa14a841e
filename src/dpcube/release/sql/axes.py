"""Discretisation of an attribute's axis into pieces that a query can tell apart, and the SQL values of each piece.

A piece is a run of whole cells, or a part of one bin that the query cuts. Rows are taken to be uniform inside a bin,
so a part of a bin holds that share of its rows. A query that only compares an attribute with constants needs just the
pieces between those constants, however many cells there are.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Attribute
from dpcube.core.errors import QueryError

MAX_QUERY_ROWS = 20_000_000


class Detail(IntEnum):
    """Resolution at which a query needs an axis; each includes those before it.

    CUTS separates the sides of constants, BINS each bin as well, UNITS every whole number, day or listed value.
    """

    CUTS = 0
    BINS = 1
    UNITS = 2


@dataclass(frozen=True, slots=True)
class AxisUse:
    """How a query uses one attribute: the detail it needs, and the coordinates at which it cuts the axis.

    It cuts before the coordinates in `cuts`, and after the real numbers in `closed`.
    """

    detail: Detail = Detail.CUTS
    cuts: frozenset[float] = frozenset()
    closed: frozenset[float] = frozenset()

    def and_(self, other: "AxisUse") -> "AxisUse":
        """Return the use that serves both: the finer detail, and the cuts of both."""
        return AxisUse(max(self.detail, other.detail), self.cuts | other.cuts, self.closed | other.closed)


@dataclass(frozen=True)
class Pieces:
    """The pieces into which a query cuts the axis of one attribute.

    A piece covers the cells from `first_cell` to before `end_cell`, and holds the `share` of their rows: 1, or less
    where it is part of one bin (`is_part`); a single real number is a part without a share. These four arrays have
    shape (pieces,). The values of a piece lie at coordinates from `start` to before `stop`; `low` and `high` are these
    as written in a query: "above 2" starts at 2, and not at the next double. These four have one entry for each piece
    but the last ones: cells of their own (null, outside, ...), in the order of their cells, have no coordinates.
    `is_single`, shape (pieces,), are single real numbers that the query selects or excludes.
    """

    attribute: Attribute
    first_cell: Ints
    end_cell: Ints
    share: Floats
    is_part: Bools
    start: Floats
    stop: Floats
    low: Floats
    high: Floats
    is_single: Bools

    def __len__(self) -> int:
        return len(self.first_cell)

    @cached_property
    def middle(self) -> Floats:
        """Mean coordinate of the values in each piece that has coordinates; it lies in the piece."""
        return np.clip((self.low + self.high - self.attribute.step) / 2, self.start, self.last)

    @property
    def last(self) -> Floats:
        """The last double of each piece that has coordinates."""
        return np.nextafter(self.stop, -np.inf)

    @cached_property
    def bin_of_piece(self) -> Ints:
        """A number for each piece, shared by the parts of one bin, which are neighbours."""
        return self._numbered(self.is_part)

    def _numbered(self, parts: Bools) -> Ints:
        return np.cumsum(np.append(0, (self.first_cell[1:] != self.first_cell[:-1]) | ~parts[1:])[: len(self)])

    @cached_property
    def is_unknown(self) -> Bools:
        """Which pieces are parts of a bin whose rows may lie anywhere in it: see `Attribute.parts`."""
        picked = np.bincount(self.bin_of_piece, self.is_single) > 0
        return self.attribute.unknown_parts(self.is_part, picked[self.bin_of_piece])

    @cached_property
    def unknown_bin(self) -> Ints:
        """A number for each piece, shared by the parts of one bin if they are `is_unknown`."""
        return self._numbered(self.is_unknown)

    @cached_property
    def pieces_per_unknown_bin(self) -> Ints:
        """How many pieces have each number of `unknown_bin`."""
        return np.bincount(self.unknown_bin)

    @property
    def is_cut(self) -> bool:
        """Whether some bin is cut whose rows may lie anywhere in it."""
        return bool(self.is_unknown.any())

    def column(self, role: str) -> pa.Array:
        """Return one SQL value for each piece.

        `role` says which: its cell's "label"; the kind of its "own" cell, null in bins; its mean coordinate ("place");
        its mean as an SQL value ("value"); its first whole number, day or listed value ("unit"); its bin's first value
        ("key") or name ("bin"); the "least" and the "most" coordinate, counted from the attribute's origin; or the
        "variance" of values spread evenly over it. Cells of their own have no value but their label and kind.
        """
        own = list(self.attribute.own_cells)
        if role == "label":
            return pa.array(self.attribute.labels()).take(pa.array(self.first_cell))
        if role == "own":
            return pa.array([None] * len(self.low) + own, pa.string())
        values = getattr(self, f"_{role}")()
        return pa.concat_arrays([values, pa.nulls(len(own), values.type)])

    def _place(self) -> pa.Array:
        return pa.array(self.middle)

    def _value(self) -> pa.Array:
        if self.attribute.is_numeric and not (self.high - self.low == 1).all():
            return pa.array(self.middle)
        return self._typed(self.middle)

    def _unit(self) -> pa.Array:
        """Return the first whole number, day or listed value of each piece; of real numbers the mean."""
        return self._typed(self.low if self.attribute.step else self.middle)

    def _key(self) -> pa.Array:
        return self._typed(self.attribute.bin_edges()[self.first_cell[: len(self.low)]])

    def _bin(self) -> pa.Array:
        return pa.array(self.attribute.labels()).take(pa.array(self.first_cell[: len(self.low)]))

    def _least(self) -> pa.Array:
        return pa.array(self.low - self.attribute.origin)

    def _most(self) -> pa.Array:
        return pa.array(self.high - self.attribute.step - self.attribute.origin)

    def _variance(self) -> pa.Array:
        """Return the variance of values spread evenly: (n^2 - 1)/12 for n whole numbers, width^2/12 for real ones."""
        return pa.array(((self.high - self.low) ** 2 - self.attribute.step**2) / 12)

    def _typed(self, coordinate: Floats) -> pa.Array:
        return pa.array(self.attribute.values_at(coordinate), self.attribute.arrow_type)


def pieces_of(attribute: Attribute, use: AxisUse) -> Pieces:
    """Return the pieces into which the axis of `attribute` is cut: as few as `use` allows."""
    edges, after = attribute.limits(), {attribute.after(value): value for value in use.closed}
    cuts = np.array(sorted(cut for cut in use.cuts | after.keys() if edges[0] < cut < edges[-1]), np.float64)
    if use.detail == Detail.UNITS and not attribute.is_continuous:
        _check_units(attribute, float(edges[-1] - edges[0]))
        points = np.arange(edges[0], edges[-1] + 1)
    elif use.detail >= Detail.BINS:
        points = np.union1d(edges, cuts)
    else:
        points = np.unique(np.concatenate([edges[[0, -1]], cuts, _around_cut_bins(edges, cuts)]))
    first = np.searchsorted(edges, points[:-1], side="right") - 1
    end = np.searchsorted(edges, points[1:], side="left")
    is_part = (points[:-1] != edges[first]) | (points[1:] != edges[end])
    said = points.copy()
    for place in np.intersect1d(np.setdiff1d(list(after), [*use.cuts]), cuts).tolist():
        if place not in edges:
            said[np.searchsorted(points, place)] = after[place]
    edges = attribute.bin_edges()
    said[-1] = edges[-1]
    share = np.diff(said) / (edges[end] - edges[first])
    own = np.arange(attribute.bins, attribute.size)
    return Pieces(
        attribute,
        np.concatenate([first, own]),
        np.concatenate([end, own + 1]),
        np.concatenate([share, np.ones(len(own))]),
        np.concatenate([is_part, np.zeros(len(own), np.bool_)]),
        points[:-1],
        points[1:],
        said[:-1],
        said[1:],
        np.concatenate([is_part & _single(points, use), np.zeros(len(own), np.bool_)]),
    )


def _single(points: Floats, use: AxisUse) -> Bools:
    """Return which pieces are one double that a query separates from the values before and from those after it.

    At either end of the axis there is nothing to separate from.
    """
    start, is_one = points[:-1], points[1:] == np.nextafter(points[:-1], np.inf)
    before, behind = np.isin(start, [*use.cuts, points[0]]), np.isin(start, [*use.closed])
    behind[-1] |= is_one[-1]
    return np.asarray(is_one & before & behind)


def _around_cut_bins(edges: Floats, cuts: Floats) -> Floats:
    """Return the edges of the bins that are split by a cut: a part of a bin is never merged with other bins."""
    after = np.searchsorted(edges, cuts)
    through = after[edges[after] != cuts]
    return np.concatenate([edges[through - 1], edges[through]])


def _check_units(attribute: Attribute, units: float) -> None:
    if units > MAX_QUERY_ROWS:
        msg = (
            f"this use of '{attribute.name}' needs each of its {units:,.0f} values, at most {MAX_QUERY_ROWS:,} are "
            "allowed; group by the attribute itself, or compare it with constants"
        )
        raise QueryError(msg)
