"""Errors of counts, sums and averages: which rows each result came from enters; standard errors and intervals leave.

A count or sum is the sum of f_r times the count of row r. When f is a product of one factor for each attribute, the
estimate states its noise and its error within boxes exactly as `Release.count` does. Otherwise it is split into such
products, and their standard errors are added up, which is at least the standard error of the sum. The error of an
average S/N is that of the sum of (x - S/N)/N: the delta method, good when N is many times its own standard error.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.analyst.answer import Answers
from dpcube.analyst.sql.products import Factors, Products, products_of
from dpcube.analyst.sql.relation import Relation
from dpcube.estimate import EqualNoises, Errors
from dpcube.query import CountingQueries, Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

ASKED_AT_ONCE = 2**21
"""Weights of cells along axes that are laid out at a time."""


def error_columns(
    relation: Relation, values: pa.Array, parts: pa.Array, *, kind: str, confidence: float
) -> dict[str, pa.Array]:
    """Return stderr, within, low and high of each value; null where the value is."""
    value = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    answers = _answers(relation, value, products_of(relation, *_functional(relation, value, parts, kind)), kind)
    if kind == "count":
        low, high = answers.interval(confidence)
    else:  # sums and averages may be below zero
        reach = answers.reach(confidence)
        low, high = value - reach, value + reach
    found = {"stderr": answers.stderrs, "within": answers.withins, "low": low, "high": high}
    return {name: pa.array(column, mask=np.isnan(value)) for name, column in found.items()}


def _functional(relation: Relation, value: Floats, parts: pa.Array, kind: str) -> tuple[Ints, Ints, Floats]:
    """Return for each row that enters a result: the result, the row, and what the row's count is multiplied by."""
    lengths, content = parts.value_lengths().fill_null(0).to_numpy(), parts.flatten()
    result = np.repeat(np.arange(len(value)), lengths)
    rows = content.field("i").to_numpy(zero_copy_only=False).astype(np.intp)
    factor = content.field("f").cast(pa.float64()).to_numpy(zero_copy_only=False)
    known = ~np.isnan(value[result])
    result, rows, factor = result[known], rows[known], factor[known]
    if kind == "avg":
        total = np.bincount(result, relation.weights[rows], minlength=len(value))
        factor = (factor - value[result]) / total[result]
    return result, rows, factor


def _answers(relation: Relation, value: Floats, products: Products, kind: str) -> Answers:
    """Return each result with its error: that of its one product, or the sum of those of several."""
    errors, size = _errors(relation, products), np.abs(products.scale)

    def summed(of_products: Floats) -> Floats:
        return np.bincount(products.result, of_products, minlength=len(value)).astype(np.float64)

    stderr, within = summed(size * np.sqrt(errors.variances)), summed(size * np.sqrt(errors.withins))
    noises = None
    if errors.noises is not None and kind != "avg":  # the law of an average is known in the limit only
        numbers = np.where(summed(np.ones(len(products))) == 1, summed(errors.noises.numbers.astype(np.float64)), 0)
        noises = EqualNoises(errors.noises.alpha, numbers.astype(np.int64))
    return Answers(value, stderr, within, noises)


def _errors(relation: Relation, products: Products) -> Errors:
    """Return what the errors of products are made of, their scales left out: ranges are asked as such."""
    number, axes = len(products), len(relation.domain.shape)
    lower, upper = np.zeros((number, axes), np.int64), np.tile(relation.domain.shape, (number, 1))
    is_range = np.ones(number, np.bool_)
    for axis, line in products.factors.items():
        lower[:, axis], upper[:, axis], whole = _bounds(relation, axis, line, number)
        is_range &= whole
    workload = Workload(relation.domain.shape, lower[is_range], upper[is_range])
    found = [relation.estimate.range_errors(workload)]
    others = np.flatnonzero(~is_range)
    found += [relation.estimate.answers(asked)[1] for asked in _queries(relation, products, others)]
    back = np.argsort(np.concatenate([np.flatnonzero(is_range), others]))
    variances, withins = (np.concatenate([part[column] for part in found])[back] for column in (0, 1))
    laws = [part.noises for part in found if part.noises is not None]
    if not laws:
        return Errors(variances, withins)
    return Errors(variances, withins, EqualNoises(laws[0].alpha, np.concatenate([law.numbers for law in laws])[back]))


def _bounds(relation: Relation, axis: int, line: Factors, number: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return the first cell and one past the last that products take along an axis, and whether they take it whole."""
    pieces = relation.pieces[axis]
    starts = np.searchsorted(line.product, np.arange(number))
    low, high = pieces.lower[line.piece], pieces.upper[line.piece]
    if number == 0:
        return low, high, np.zeros(0, np.bool_)
    first, last = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    whole = np.logical_and.reduceat(line.factor * pieces.share[line.piece] == 1, starts)
    return first, last, whole & (np.add.reduceat(high - low, starts) == last - first)


def _queries(relation: Relation, products: Products, chosen: Ints) -> Iterator[CountingQueries]:
    """Return some of the products as counting queries, so many at a time."""
    shape = relation.domain.shape
    at_once = max(1, ASKED_AT_ONCE // max(1, sum(shape[axis] for axis in products.factors)))
    for start in range(0, len(chosen), at_once):
        asked = chosen[start : start + at_once]
        weights, taken = [np.ones((1, extent)) for extent in shape], np.zeros((len(asked), len(shape)), np.int64)
        for axis, line in products.factors.items():
            weights[axis], taken[:, axis] = _on_cells(relation, axis, line, asked), np.arange(len(asked))
        yield CountingQueries(tuple(weights), taken)


def _on_cells(relation: Relation, axis: int, line: Factors, asked: Ints) -> Floats:
    """Spread the factors of some products over the cells of their pieces; parts of one cell add up."""
    pieces, place = relation.pieces[axis], np.searchsorted(asked, line.product)
    there = asked[np.minimum(place, len(asked) - 1)] == line.product
    place, piece = place[there], line.piece[there]
    lower, lengths = pieces.lower[piece], pieces.upper[piece] - pieces.lower[piece]
    cells = np.repeat(lower - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    weights = np.zeros((len(asked), relation.domain.shape[axis]))
    np.add.at(weights, (np.repeat(place, lengths), cells), np.repeat(line.factor[there] * pieces.share[piece], lengths))
    return weights
