"""Standard errors of linear functionals of rows: sums of f_r times the count of row r, as sums of products.

An estimate states the errors of counting queries, whose weights are products of one factor for each axis. The factor
of a row is the scale of a product times the factors of the row's pieces. A result whose factors form such a product
has the error that `Release.count` states. Any other is split: into one product for each axis if its factors are sums
of something along each, else into the products of its distinct slices. The standard errors of the products are added
up, which is at least the standard error of their sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Places
from dpcube.core.errors import QueryError
from dpcube.models import EqualNoises, ErrorParts
from dpcube.queries import CountingQueries, Workload
from dpcube.release.answer import Answers, slope_squares
from dpcube.release.sql.relation import Entering, Relation, by_chance

MAX_PRODUCTS = 256
ROUNDING, NOTHING = 1e-9, 1e-12  # of a factor, and of the largest factor of its result
MAX_WEIGHTS_AT_ONCE = 2**21
"""Weights of cells along axes that are in memory at a time."""


class TooManyProductsError(QueryError):
    """A result is a sum of more products than `MAX_PRODUCTS`."""


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """The factors of many products along one axis that are not 0, in the order of the products.

    All arrays have shape (factors,): the product that each belongs to, its piece of the axis, and the factor.
    """

    product: Places
    piece: Places
    factor: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Products that add up to results.

    `result` and `scale` have shape (products,): the result that each is part of, and its scale. `factors` are those of
    all products along each axis in use.
    """

    result: Places
    scale: Floats
    factors: dict[int, Factors]

    def __len__(self) -> int:
        return len(self.result)


def answers_of(relation: Relation, value: Floats, entering: Entering, kind: str) -> Answers:
    """Return each result with its error: that of its one product, or the sum of the errors of several."""
    products = products_of(relation, entering.result, entering.row, entering.factor)
    errors, size = _errors(relation, products, kind), np.abs(products.scale)

    def summed(of_products: Floats) -> Floats:
        return np.bincount(products.result, of_products, minlength=len(value)).astype(np.float64)

    stderr, within = (
        summed(size * np.sqrt(errors.noise_variances)),
        summed(size * np.sqrt(errors.nonuniformity_squares)),
    )
    within = np.hypot(within, np.sqrt(by_chance(relation, entering, len(value))))
    noises = None
    if errors.noises is not None and kind in ("count", "sum"):  # the law of others is known in the limit only
        numbers = np.where(summed(np.ones(len(products))) == 1, summed(errors.noises.numbers.astype(np.float64)), 0)
        noises = EqualNoises(errors.noises.alpha, numbers.astype(np.int64))
    modelled = None
    if errors.modelled is not None:
        modelled = summed(errors.modelled.astype(np.float64)) > 0
    return Answers(value, stderr, within, noises, modelled=modelled, signed=kind != "count")


def _errors(relation: Relation, products: Products, kind: str) -> ErrorParts:
    """Return the error parts of products, without their scales; ranges of cells are answered as such."""
    number, axes = len(products), len(relation.shape)
    lower, upper = np.zeros((number, axes), np.int64), np.tile(relation.shape, (number, 1))
    is_range = np.ones(number, np.bool_)
    for axis, line in products.factors.items():
        lower[:, axis], upper[:, axis], whole = _bounds(relation, axis, line, number)
        is_range &= whole
    workload = Workload(relation.shape, lower[is_range], upper[is_range])
    found = [relation.estimate.errors(workload)]
    others = np.flatnonzero(~is_range)
    found += [_query_errors(relation, asked, kind) for asked in _queries(relation, products, others)]
    back = np.argsort(np.concatenate([np.flatnonzero(is_range), others]))
    variances, withins = (np.concatenate([part[column] for part in found])[back] for column in (0, 1))
    laws = [part.noises for part in found if part.noises is not None]
    models = [part.modelled for part in found if part.modelled is not None]
    return ErrorParts(
        variances,
        withins,
        EqualNoises(laws[0].alpha, np.concatenate([law.numbers for law in laws])[back]) if laws else None,
        np.concatenate(models)[back] if models else None,
    )


def _query_errors(relation: Relation, asked: CountingQueries, kind: str) -> ErrorParts:
    errors = relation.estimate.errors(asked)
    if kind != "count":  # weights are no shares of cells
        return errors
    return errors._replace(
        nonuniformity_squares=errors.nonuniformity_squares + slope_squares(relation.domain, relation.estimate, asked)
    )


def _bounds(relation: Relation, axis: int, line: Factors, number: int) -> tuple[Places, Places, NDArray[np.bool_]]:
    """Return the range of cells of products along an axis, and whether their factors are 1 all over it."""
    pieces = relation.pieces[axis]
    starts = np.searchsorted(line.product, np.arange(number))
    low, high = pieces.first_cell[line.piece], pieces.end_cell[line.piece]
    if number == 0:
        return low, high, np.zeros(0, np.bool_)
    first, last = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    whole = np.logical_and.reduceat(line.factor * pieces.share[line.piece] == 1, starts)
    return first, last, whole & (np.add.reduceat(high - low, starts) == last - first)


def _queries(relation: Relation, products: Products, chosen: Places) -> Iterator[CountingQueries]:
    """Yield some of the products as counting queries, in batches."""
    shape = relation.shape
    at_once = max(1, MAX_WEIGHTS_AT_ONCE // max(1, sum(shape[axis] for axis in products.factors)))
    for start in range(0, len(chosen), at_once):
        asked = chosen[start : start + at_once]
        weights, taken = [np.ones((1, extent)) for extent in shape], np.zeros((len(asked), len(shape)), np.int64)
        for axis, line in products.factors.items():
            weights[axis], taken[:, axis] = _on_cells(relation, axis, line, asked), np.arange(len(asked))
        yield CountingQueries(tuple(weights), taken)


def _on_cells(relation: Relation, axis: int, line: Factors, asked: Places) -> Floats:
    """Return the factors of some products on the cells of their pieces; parts of one cell add up."""
    pieces, place = relation.pieces[axis], np.searchsorted(asked, line.product)
    there = asked[np.minimum(place, len(asked) - 1)] == line.product
    place, piece = place[there], line.piece[there]
    lower, lengths = pieces.first_cell[piece], pieces.end_cell[piece] - pieces.first_cell[piece]
    cells = np.repeat(lower - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    weights = np.zeros((len(asked), relation.shape[axis]))
    np.add.at(weights, (np.repeat(place, lengths), cells), np.repeat(line.factor[there] * pieces.share[piece], lengths))
    return weights


def products_of(relation: Relation, result: Places, rows: Places, factor: Floats) -> Products:
    """Return products that add up, for each result, to the sum over its rows of a factor times the row's count.

    `result`, `rows` and `factor` have shape (entries,): a result, a row of `relation` that enters it, and what the
    count of the row is multiplied by.
    """
    order = np.lexsort((-np.abs(factor), result))
    result, rows, factor = result[order], rows[order], factor[order]
    results, pivot, group = np.unique(result, return_index=True, return_inverse=True)  # the largest factor comes first
    some = np.abs(factor) > NOTHING * np.abs(factor[pivot])[group]
    result, rows, factor, group = result[some], rows[some], factor[some], group[some]
    results, pivot, group = np.unique(result, return_index=True, return_inverse=True)
    places = {axis: relation.piece_of_row[axis][rows] for axis in relation.pieces}
    factors = {axis: _through(pivot, places, axis, factor, group) for axis in relation.pieces}
    alike = _are_products(relation, factors, places, factor, pivot, group)
    simple = Products(results, factor[pivot], factors)
    if alike.all():
        return simple
    weights = relation.weights[rows]
    split = [_split_result(places, factor, weights, group == at, int(results[at])) for at in np.flatnonzero(~alike)]
    return _joined([_kept(simple, alike), *split])


def _through(pivot: Places, places: dict[int, Places], axis: int, factor: Floats, group: Places) -> Factors:
    """Return the factors of each result along the line through its pivot, in units of the factor there.

    `pivot`, shape (results,), is the entry of each result with the largest factor; `group`, shape (entries,), the
    number of the result of each entry.
    """
    on_line = np.ones(len(factor), np.bool_)
    for other, place in places.items():
        if other != axis:
            on_line &= place == place[pivot][group]
    line = np.flatnonzero(on_line)
    return Factors(group[line], places[axis][line], factor[line] / factor[pivot][group[line]])


def _are_products(
    relation: Relation,
    factors: dict[int, Factors],
    places: dict[int, Places],
    factor: Floats,
    pivot: Places,
    group: Places,
) -> NDArray[np.bool_]:
    """Return which results are products: their rows are those that their lines span, with the products as factors."""
    scale = factor[pivot][group]
    expected, spanned = scale.copy(), np.ones(len(pivot))
    for axis, line in factors.items():
        pieces = len(relation.pieces[axis])
        codes = line.product * pieces + line.piece
        order = np.argsort(codes)
        asked = group * pieces + places[axis]
        found = order[np.minimum(np.searchsorted(codes, asked, sorter=order), len(codes) - 1)]
        expected *= np.where(codes[found] == asked, line.factor[found], 0.0)
        spanned *= np.bincount(line.product, minlength=len(pivot))
    good = np.abs(expected - factor) <= ROUNDING * np.abs(factor) + NOTHING * np.abs(scale)
    complete = spanned == np.bincount(group, minlength=len(pivot))
    return np.asarray(complete & (np.bincount(group[~good], minlength=len(pivot)) == 0))


def _split_result(
    places: dict[int, Places], factor: Floats, weights: Floats, of_result: NDArray[np.bool_], result: int
) -> Products:
    """Return the products of one result that is not a product itself."""
    found = [np.unique(place[of_result], return_inverse=True) for place in places.values()]
    grid, counts = np.zeros((2, *(len(used) for used, _ in found)))
    where = tuple(at for _, at in found)
    grid[where], counts[where] = factor[of_result], weights[of_result]
    made = _along_axes(grid, counts) or _split(grid)
    factors = {}
    for number, (axis, (used, _)) in enumerate(zip(places, found, strict=True)):
        along = np.stack([vectors[number] for _, vectors in made])
        product, at = np.nonzero(along)
        factors[axis] = Factors(product, used[at], along[product, at])
    return Products(np.full(len(made), result), np.array([scale for scale, _ in made]), factors)


def _along_axes(grid: Floats, counts: Floats) -> list[tuple[float, list[Floats]]]:
    """Return a product for each axis if the grid is a sum of something along each; nothing if it is not.

    The term of an axis is determined up to a constant. It is centred over the counts, so that a large number which
    two axes share, and which cancels in the grid, does not enter the errors of both.
    """
    rest, size, lines = float(grid[(0,) * grid.ndim]), np.abs(grid).max(), []
    summed = np.zeros_like(grid)
    for axis in range(grid.ndim):
        line = np.moveaxis(grid, axis, -1)[(0,) * (grid.ndim - 1)] - grid[(0,) * grid.ndim]
        along = np.moveaxis(counts, axis, -1).reshape(-1, len(line)).sum(axis=0)
        mean = float(along @ line / along.sum()) if along.sum() else 0.0
        lines.append(line - mean)
        rest += mean
        summed += np.expand_dims(lines[-1], tuple(other for other in range(grid.ndim) if other != axis))
    if not np.allclose(summed + rest, grid, rtol=0, atol=ROUNDING * size):
        return []
    ones = [np.ones(extent) for extent in grid.shape]
    made = [(1.0, [*ones[:axis], line, *ones[axis + 1 :]]) for axis, line in enumerate(lines)]
    return [(scale, parts) for scale, parts in [*made, (rest, ones)] if abs(scale) * _size(parts) > ROUNDING * size]


def _size(vectors: list[Floats]) -> float:
    return float(np.prod([np.abs(vector).max() for vector in vectors]))


def _split(grid: Floats) -> list[tuple[float, list[Floats]]]:
    """Return products that add up to the grid: one if it is a product, else those of its distinct slices."""
    pivot = tuple(map(int, np.unravel_index(int(np.argmax(np.abs(grid))), grid.shape)))
    scale = float(grid[pivot])
    if scale == 0:
        return []
    vectors = [np.moveaxis(grid, axis, -1)[pivot[:axis] + pivot[axis + 1 :]] / scale for axis in range(grid.ndim)]
    if np.allclose(reduce(np.multiply.outer, vectors) * scale, grid, rtol=ROUNDING, atol=NOTHING * abs(scale)):
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
            if len(made) > MAX_PRODUCTS:
                msg = (
                    f"the error of this result is unknown: its conditions are a sum of more than {MAX_PRODUCTS} "
                    "products of conditions on single attributes; join conditions by AND, or ask without errors"
                )
                raise TooManyProductsError(msg)
    return made


def _kept(products: Products, kept: NDArray[np.bool_]) -> Products:
    """Return some of the products, renumbered; `kept` has shape (products,)."""
    number = np.cumsum(kept) - 1
    factors = {}
    for axis, line in products.factors.items():
        there = kept[line.product]
        factors[axis] = Factors(number[line.product[there]], line.piece[there], line.factor[there])
    return Products(products.result[kept], products.scale[kept], factors)


def _joined(parts: list[Products]) -> Products:
    """Return all products of all parts, numbered in one sequence."""
    first = np.cumsum([0, *(len(part) for part in parts)])
    factors = {}
    for axis in parts[0].factors:
        lines = [part.factors[axis] for part in parts]
        product = np.concatenate([line.product + at for line, at in zip(lines, first, strict=False)])
        factors[axis] = Factors(
            product, np.concatenate([line.piece for line in lines]), np.concatenate([line.factor for line in lines])
        )
    return Products(
        np.concatenate([part.result for part in parts]), np.concatenate([part.scale for part in parts]), factors
    )
