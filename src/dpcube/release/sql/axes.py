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

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Attribute
from dpcube.core.errors import QueryError

MOST_QUERY_ROWS = 20_000_000


class Detail(IntEnum):
    """How finely a query needs an axis; each detail includes those before it.

    CUTS tells the sides of constants apart, BINS each bin as well, UNITS every whole number, day or listed value.
    """

    CUTS = 0
    BINS = 1
    UNITS = 2


@dataclass
class AxisUse:
    """How a query uses one attribute: the detail it needs, and the coordinates at which it cuts the axis.

    It cuts before the coordinates in `cuts`, and after the real numbers in `closed`.
    """

    detail: Detail = Detail.CUTS
    cuts: set[float] = field(default_factory=set)
    closed: set[float] = field(default_factory=set)


@dataclass(frozen=True)
class Pieces:
    """The pieces into which a query cuts the axis of one attribute.

    A piece covers the cells from `first_cell` to before `end_cell`, and holds the `share` of their rows: 1, or less
    for a part of one bin, which `is_part` tells: a part may be a single real number, which has no share. These four
    have shape (pieces,). Its values lie at coordinates from `start` to before `stop`; `low` and `high` are these as
    people say them: "above 2" starts at 2, and not at the next double. The four have one entry for each piece but the
    last ones, which are cells of their own (null, outside, ...) in the order of their cells and have no coordinates.
    `is_single`, shape (pieces,), are single real numbers that the query picks out, or leaves out.
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
        """A number for each piece: parts of one bin, which are neighbours, share theirs; others have their own."""
        return self._numbered(self.is_part)

    def _numbered(self, parts: Bools) -> Ints:
        return np.cumsum(np.append(0, (self.first_cell[1:] != self.first_cell[:-1]) | ~parts[1:])[: len(self)])

    @cached_property
    def is_unknown(self) -> Bools:
        """Which pieces are parts of a bin whose rows may lie anywhere in it.

        An even bin is one if a single number is picked out of it or left out: see `Attribute.parts`.
        """
        if not self.attribute.is_even:
            return self.is_part
        picked = np.bincount(self.bin_of_piece, self.is_single) > 0
        return np.asarray(self.is_part & picked[self.bin_of_piece])

    @cached_property
    def unknown_bin(self) -> Ints:
        """A number for each piece: those of one bin share theirs if `is_unknown`; others have their own."""
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
        if self.attribute.scale == "number" and not (self.high - self.low == 1).all():
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
    """Tell which pieces between points are one double that a query tells from those before it and from those after.

    At either end of the axis there are none to be told from.
    """
    start, is_one = points[:-1], points[1:] == np.nextafter(points[:-1], np.inf)
    before, behind = np.isin(start, [*use.cuts, points[0]]), np.isin(start, [*use.closed])
    behind[-1] |= is_one[-1]
    return np.asarray(is_one & before & behind)


def _around_cut_bins(edges: Floats, cuts: Floats) -> Floats:
    """Return the edges of the bins that a cut goes through: a part of a bin is never joined with other bins."""
    after = np.searchsorted(edges, cuts)
    through = after[edges[after] != cuts]
    return np.concatenate([edges[through - 1], edges[through]])


def _check_units(attribute: Attribute, units: float) -> None:
    if units > MOST_QUERY_ROWS:
        msg = (
            f"this use of '{attribute.name}' needs each of its {units:,.0f} values; at most {MOST_QUERY_ROWS:,} are "
            "told apart: group by the attribute itself, or compare it with constants"
        )
        raise QueryError(msg)
