"""Bounds on linear functionals of rows that take parts of bins, by the rules of `queries/cuts.py`.

A counting query multiplies each part of a bin by 0 or 1, so its bounds are found axis by axis. The coefficients of an
aggregate may be any numbers, and its conditions need not be a product. So the rows of each result, of which the parts
of one bin are adjacent ones, are grouped into cells of such bins. A cell adds to a result its count times a number
between the least and the greatest coefficient in it, which is 0 for parts that do not enter.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.queries.cuts import cut_words
from dpcube.release.sql.relation import Relation


class Entering(NamedTuple):
    """Linear functionals of rows: the rows that enter each result, with the coefficients of their counts.

    `low` and `high` are the extremes of the coefficient inside the row's bins of unknown distribution, and `even` is
    the range of the coefficient inside bins declared even.
    """

    result: Places
    row: Places
    factor: Floats
    low: Floats
    high: Floats
    even: Floats

    def kept(self, some: Bools) -> "Entering":
        """Return the functionals restricted to some of the rows."""
        result, row, factor, low, high, even = self
        return Entering(result[some], row[some], factor[some], low[some], high[some], even[some])


@dataclass(frozen=True, slots=True, eq=False)
class ResultCells:
    """The rows of each result grouped into cells of whole bins: the cell of each row, result and bins of each cell."""

    relation: Relation
    cell: Places
    result: Places
    bins: dict[int, Places]
    is_partial: Bools
    """Whether some parts of a cell do not enter its result."""

    def __len__(self) -> int:
        return len(self.result)

    def siblings(self) -> tuple[Places, Places]:
        """Return all rows of all cells, also those that do not enter: the cell of each and the row."""
        cell, row = np.arange(len(self)), np.zeros(len(self), np.int64)
        for axis, pieces in self.relation.pieces.items():
            bins = self.bins[axis][cell]
            number, first = pieces.pieces_per_unknown_bin[bins], np.searchsorted(pieces.unknown_bin, bins)
            again = np.repeat(np.arange(len(cell)), number)
            place = np.arange(len(again)) - np.repeat(np.cumsum(number) - number, number)
            cell, row = cell[again], row[again] * len(pieces) + first[again] + place
        return cell, row


def cells_of_results(relation: Relation, entering: Entering) -> ResultCells:
    """Group the rows that are parts of one bin of unknown distribution."""
    code, whole = entering.result, np.ones(len(entering.result))
    bins = {}
    for axis, pieces in relation.pieces.items():
        bins[axis] = pieces.unknown_bin[relation.piece_of_row[axis][entering.row]]
        whole = whole * pieces.pieces_per_unknown_bin[bins[axis]]
        code = code * len(pieces) + bins[axis]
    _, first, cell = np.unique(code, return_index=True, return_inverse=True)
    partial = np.bincount(cell, minlength=len(first)) < whole[first]
    return ResultCells(relation, cell, entering.result[first], {a: of[first] for a, of in bins.items()}, partial)


def extremes(entering: Entering, cells: ResultCells) -> tuple[Floats, Floats]:
    """Return the least and the greatest coefficient in each cell."""
    low, high = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    np.minimum.at(low, cells.cell, entering.low)
    np.maximum.at(high, cells.cell, entering.high)
    low[cells.is_partial] = np.minimum(low[cells.is_partial], 0.0)
    high[cells.is_partial] = np.maximum(high[cells.is_partial], 0.0)
    return low, high


def farthest_values(entering: Entering, results: int) -> tuple[Floats, Floats]:
    """Return the least and the greatest coefficient of each result's rows; NaN where one is unknown."""
    low, high = np.full(results, np.inf), np.full(results, -np.inf)
    np.minimum.at(low, entering.result, entering.low)
    np.maximum.at(high, entering.result, entering.high)
    return low, high


def words(relation: Relation, entering: Entering, cells: ResultCells, results: int) -> list[str]:
    """Return the text on the bins that each result cuts."""
    said: list[list[str]] = [[] for _ in range(results)]
    for axis, pieces in relation.pieces.items():
        if not pieces.is_cut:
            continue
        blamed = cells.is_partial & ~_taken_alike(relation, entering, cells, axis)
        there = np.unique(np.stack([cells.result[blamed], cells.bins[axis][blamed]]), axis=1)
        lowest = pieces.first_cell[np.searchsorted(pieces.unknown_bin, there[1])]
        for result in np.unique(there[0]).tolist():
            said[result].append(cut_words(pieces.attribute, lowest[there[0] == result]))
    return ["; ".join(parts) for parts in said]


def _taken_alike(relation: Relation, entering: Entering, cells: ResultCells, axis: int) -> Bools:
    """Return which cells are whole along an axis: with any part on the other axes, all parts on this one enter."""
    code = cells.cell
    for other, pieces in relation.pieces.items():
        if other != axis:
            code = code * len(pieces) + relation.piece_of_row[other][entering.row]
    first = np.unique(code, return_index=True)[1]
    lines = np.bincount(cells.cell[first], minlength=len(cells))
    parts = relation.pieces[axis].pieces_per_unknown_bin[cells.bins[axis]]
    return np.asarray(lines * parts == np.bincount(cells.cell, minlength=len(cells)))


def by_chance(relation: Relation, entering: Entering, results: int) -> Floats:
    """Return the variance of results from the random positions of rows in bins declared even.

    N rows with coefficient f, of mean m over the cell, add N times the mean of (f - m)^2. The variance of a coefficient
    that varies inside a part is at most a quarter of its squared range.
    """
    even = [axis for axis, pieces in relation.pieces.items() if pieces.attribute.is_even and pieces.is_part.any()]
    weight = relation.weights[entering.row]
    variance = np.bincount(entering.result, weight * entering.even**2 / 4, minlength=results)
    if even:
        shape = [len(pieces) for pieces in relation.pieces.values()]
        code, of_row = entering.result, np.zeros(len(relation.weights), np.int64)
        for number, (axis, pieces) in enumerate(relation.pieces.items()):
            bins = pieces.bin_of_piece if axis in even else np.arange(len(pieces))
            code = code * shape[number] + bins[relation.piece_of_row[axis][entering.row]]
            of_row = of_row * shape[number] + bins[relation.piece_of_row[axis]]
        rows = np.bincount(of_row, relation.weights)[of_row]  # of each row, those of its whole cell
        _, first, cell = np.unique(code, return_index=True, return_inverse=True)
        sums = np.bincount(cell, weight * entering.factor)
        whole = rows[entering.row[first]]
        together = np.divide(sums**2, whole, out=np.zeros_like(sums), where=whole != 0)
        variance = variance + np.bincount(entering.result, weight * entering.factor**2, minlength=results)
        variance = variance - np.bincount(entering.result[first], together, minlength=results)
    return np.maximum(variance, 0.0)
