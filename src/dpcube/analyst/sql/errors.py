"""Errors of counts, sums and averages: which rows each result came from enters; standard errors and intervals leave.

A count or sum is the sum of f_r times the count of row r. When f is a product of one factor for each attribute, the
estimate states its noise and its error within boxes exactly as `Release.count` does. Otherwise it is split into such
products, and their standard errors are added up, which is at least the standard error of the sum. The error of an
average S/N is that of the sum of (x - S/N)/N: the delta method, good when N is many times its own standard error.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.analyst.answer import deviations_for, ends
from dpcube.analyst.sql.relation import Relation
from dpcube.errors import QueryError
from dpcube.query import CountingQuery, Workload

Floats = NDArray[np.float64]
MOST_PARTS = 256


@dataclass(frozen=True)
class Product:
    """A scale and one factor for each cell of each axis."""

    scale: float
    factors: tuple[Floats, ...]

    def bounds(self) -> tuple[list[int], list[int]] | None:
        """Return the range of cells that the factors are 1 in and 0 outside of, if they are."""
        used = [np.flatnonzero(factor) for factor in self.factors]
        if any(len(cells) == 0 or cells[-1] - cells[0] + 1 != len(cells) for cells in used):
            return None
        if any((factor[cells] != 1).any() for factor, cells in zip(self.factors, used, strict=True)):
            return None
        return [int(cells[0]) for cells in used], [int(cells[-1]) + 1 for cells in used]


def error_columns(
    relation: Relation, values: pa.Array, parts: pa.Array, *, kind: str, confidence: float
) -> dict[str, pa.Array]:
    """Return stderr, within, low and high of each value; null where the value is."""
    value = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    group, products = [], []
    for place, rows in enumerate(parts.to_numpy(zero_copy_only=False)):
        if rows is not None and not np.isnan(value[place]):
            made = products_of(relation, *_functional(relation, rows, value[place], kind))
            products += made
            group += [place] * len(made)
    noise, within = _errors(relation, products)
    stderr = np.bincount(group, noise, minlength=len(value))
    inside = np.bincount(group, within, minlength=len(value))
    reach = deviations_for(confidence) * np.hypot(stderr, inside)
    low, high = ends(value, reach) if kind == "count" else (value - reach, value + reach)
    found = {"stderr": stderr, "within": inside, "low": low, "high": high}
    return {name: pa.array(column, mask=np.isnan(value)) for name, column in found.items()}


def _functional(
    relation: Relation, rows: NDArray[np.object_], value: float, kind: str
) -> tuple[NDArray[np.intp], Floats]:
    at = np.array([row["i"] for row in rows], np.intp)
    factor = np.array([row["f"] for row in rows], np.float64)
    if kind == "avg":
        factor = (factor - value) / relation.weights[at].sum()
    return at, factor


def products_of(relation: Relation, rows: NDArray[np.intp], factor: Floats) -> list[Product]:
    """Split a sum over rows into products of one factor for each cell of each axis."""
    axes = list(relation.pieces)
    if not axes:
        return [Product(float(factor.sum()), tuple(np.ones(n) for n in relation.domain.shape))]
    used, places = zip(*(np.unique(relation.index[axis][rows], return_inverse=True) for axis in axes), strict=True)
    grid = np.zeros([len(pieces) for pieces in used])
    grid[places] = factor
    made = []
    for scale, vectors in _split(grid):
        factors = [np.ones(n) for n in relation.domain.shape]
        for axis, pieces, vector in zip(axes, used, vectors, strict=True):
            factors[axis] = _on_cells(relation, axis, pieces, vector)
        made.append(Product(scale, tuple(factors)))
    return made


def _on_cells(relation: Relation, axis: int, used: NDArray[np.intp], vector: Floats) -> Floats:
    """Spread the factor of each piece over its cells; parts of one cell add up."""
    pieces = relation.pieces[axis]
    lower, lengths = pieces.lower[used], pieces.upper[used] - pieces.lower[used]
    cells = np.repeat(lower - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(lengths.sum())
    factor = np.zeros(relation.domain.shape[axis])
    np.add.at(factor, cells, np.repeat(vector * pieces.share[used], lengths))
    return factor


def _split(grid: Floats) -> list[tuple[float, list[Floats]]]:
    """Return products that add up to the grid: one if it is a product, else those of its distinct slices."""
    pivot = tuple(map(int, np.unravel_index(int(np.argmax(np.abs(grid))), grid.shape)))
    scale = float(grid[pivot])
    if scale == 0:
        return []
    vectors = [np.moveaxis(grid, axis, -1)[pivot[:axis] + pivot[axis + 1 :]] / scale for axis in range(grid.ndim)]
    if np.allclose(reduce(np.multiply.outer, vectors) * scale, grid, rtol=1e-9, atol=1e-12 * abs(scale)):
        return [(scale, vectors)]
    slices = [
        np.unique(np.moveaxis(grid, axis, 0).reshape(n, -1), axis=0, return_inverse=True)
        for axis, n in enumerate(grid.shape)
    ]
    axis = int(np.argmin([len(distinct) for distinct, _ in slices]))
    distinct, which = slices[axis]
    rest = grid.shape[:axis] + grid.shape[axis + 1 :]
    made = []
    for number, content in enumerate(distinct):
        for part, others in _split(content.reshape(rest)):
            made.append((part, [*others[:axis], (which == number).astype(np.float64), *others[axis:]]))
            if len(made) > MOST_PARTS:
                msg = (
                    "the error of this result is not known: its conditions join attributes in too many ways; "
                    "join conditions on single attributes by AND, or ask without errors"
                )
                raise QueryError(msg)
    return made


def _errors(relation: Relation, products: list[Product]) -> tuple[Floats, Floats]:
    """Return the standard error of the noise of each product, and its expected error within boxes."""
    noise, within = np.zeros(len(products)), np.zeros(len(products))
    ranges = {place: bounds for place, product in enumerate(products) if (bounds := product.bounds()) is not None}
    if ranges:
        lower, upper = (np.array([bounds[end] for bounds in ranges.values()]) for end in (0, 1))
        found = relation.estimate.range_errors(Workload(relation.domain.shape, lower, upper))
        at = np.array(list(ranges))
        noise[at], within[at] = np.sqrt(found[0]), np.sqrt(found[1])
    for place, product in enumerate(products):
        if place not in ranges:
            estimated = relation.estimate.answer(CountingQuery(product.factors))
            noise[place], within[place] = np.sqrt(estimated.noise_variance), np.sqrt(estimated.within_square)
    scale = np.abs([product.scale for product in products])
    return scale * noise, scale * within
