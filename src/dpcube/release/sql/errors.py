"""Errors of counts, sums and averages: which rows each result came from enters; standard errors and intervals leave.

A count or sum is the sum of f_r times the count of row r. When f is a product of one factor for each attribute, the
estimate states its noise and its non-uniformity error exactly as `Release.count` does. Otherwise it is split into such
products, and their standard errors are added up, which is at least the standard error of the sum. The error of an
average S/N is that of the sum of (x - S/N)/N: the delta method, good when N is many times its own standard error. So
are those of variances and standard deviations.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcube.core.arrays import Bools, Floats, Places
from dpcube.models import EqualNoises, ErrorParts
from dpcube.queries import CountingQueries, Workload
from dpcube.release.answer import Answers, CutAnswers, slope_squares
from dpcube.release.sql.cuts import Entering, ResultCells, by_chance, cells_of_results, extremes, farthest_values, words
from dpcube.release.sql.products import Factors, Products, products_of
from dpcube.release.sql.relation import Relation
from dpcube.release.sql.written import Written

SPREADS = ("var", "stddev")
"""How the names of variances and their roots begin."""
ASKED_AT_ONCE = 2**21
"""Weights of cells along axes that are laid out at a time."""


def error_columns(
    relation: Relation, values: pa.Array, parts: pa.Array, *, of: Written, confidence: float
) -> dict[str, pa.Array]:
    """Return stderr, within, low and high of each value, null where it is; and which bins it cuts if any can be cut."""
    value = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    entering = entering_of(value, parts)
    answers = answers_of(relation, value, functional(relation, value, entering, of.kind), of.kind)
    cut: list[str] = []
    if of.named or any(pieces.is_cut for pieces in relation.pieces.values()):
        answers, cut = _with_cuts(relation, answers, entering, of)
    low, high = answers.interval(confidence) if of.kind == "count" else _free_interval(answers, confidence)
    low = np.maximum(low, 0.0) if of.kind.startswith(SPREADS) else low
    found = {"stderr": answers.stderrs, "nonuniformity": answers.nonuniformities, "low": low, "high": high}
    made = {name: pa.array(column, mask=np.isnan(value), from_pandas=False) for name, column in found.items()}
    return made | modelled_column(answers, np.isnan(value)) | cut_column(cut, np.isnan(value))


def modelled_column(answers: Answers, mask: Bools) -> dict[str, pa.Array]:
    """Return which results are a model's (docs/wide.md), null where `mask` is; nothing if the estimate is no model."""
    return {} if answers.modelled is None else {"modelled": pa.array(answers.modelled, mask=mask)}


def cut_column(cut: list[str], mask: Bools) -> dict[str, pa.Array]:
    """Return which bins each result cuts, in words, null where `mask` is; nothing if none can be cut."""
    return {"cut": pa.array(cut, pa.string(), mask=mask)} if cut else {}


def scaled_errors(found: dict[str, pa.Array], *, scale: float, offset: float) -> dict[str, pa.Array]:
    """Return the columns of errors of `scale` times what they are of, plus `offset`."""
    if (scale, offset) == (1.0, 0.0):
        return found
    made = {name: pc.multiply(found[name], abs(scale)) for name in ("stderr", "nonuniformity")}
    low, high = ("low", "high") if scale >= 0 else ("high", "low")
    ends = {"low": found[low], "high": found[high]}
    made |= {name: pc.add(pc.multiply(column, scale), offset) for name, column in ends.items()}
    return found | made


def _free_interval(answers: Answers, confidence: float) -> tuple[Floats, Floats]:
    """Return intervals of sums and averages, which may be below zero."""
    half_width = answers.half_width(confidence)
    low, high = answers.values - half_width, answers.values + half_width
    if answers.cuts is not None:
        at, least, most = answers.cuts.at, answers.cuts.least, answers.cuts.most
        low[at] = np.minimum(least.values - least.half_width(confidence), answers.values[at])
        high[at] = np.maximum(most.values + most.half_width(confidence), answers.values[at])
    return low, high


def entering_of(value: Floats, parts: pa.Array) -> Entering:
    """Return the rows that enter each result that is known."""
    lengths, content = parts.value_lengths().fill_null(0).to_numpy(), parts.flatten()
    result = np.repeat(np.arange(len(value)), lengths)
    columns = (
        content.field(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in ("f", "low", "high", "even")
    )
    row = content.field("i").to_numpy(zero_copy_only=False).astype(np.intp)
    return Entering(result, row, *columns).kept(~np.isnan(value[result]))


def functional(relation: Relation, value: Floats, entering: Entering, kind: str) -> Entering:
    """Return the rows with what their counts are multiplied by in the error: of an average by the delta method."""
    if kind.startswith(SPREADS):
        return _of_spread(relation, value, entering, kind)
    if kind != "avg":
        return entering
    result = entering.result
    total = np.bincount(result, relation.weights[entering.row], minlength=len(value))[result]
    return entering._replace(factor=(entering.factor - value[result]) / total, even=entering.even / total)


def _of_spread(relation: Relation, value: Floats, entering: Entering, kind: str) -> Entering:
    """Return the same of a variance, which moves by ((x - mean)^2 - variance) / N with each row; a root by half of it.

    With N - 1 below the line it is N / (N - 1) times that.
    """
    result, weight, many = entering.result, relation.weights[entering.row], len(value)

    def mean(of: Floats) -> Floats:
        return (np.bincount(result, weight * of, minlength=many) / total)[result]

    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.bincount(result, weight, minlength=many)
        squares = (entering.factor - mean(entering.factor)) ** 2
        under = total - (0 if kind.endswith("_pop") else 1)
        factor = (squares - mean(squares)) / under[result]
        if kind.startswith("stddev"):
            factor /= 2 * value[result]
    return entering._replace(factor=factor, even=np.zeros_like(factor))


def _with_cuts(relation: Relation, answers: Answers, entering: Entering, of: Written) -> tuple[Answers, list[str]]:
    """Return the answers with the least and the most that those which cut bins can be, and which bins they cut."""
    results, cells = len(answers), cells_of_results(relation, entering)
    low, high = extremes(entering, cells)
    partial = np.bincount(cells.result[cells.is_partial], minlength=results) > 0
    varying = np.bincount(cells.result[(low < high) & ~cells.is_partial], minlength=results) > 0
    varying |= partial & bool(of.named)
    if not of.known:
        varying[:] = True
    at = np.flatnonzero(partial | varying)
    named = f"{', '.join(of.named)} known by bins" if of.named else ""
    said = zip(words(relation, entering, cells, results), varying.tolist(), strict=True)
    told = ["; ".join(filter(None, (cut, named if varies else ""))) for cut, varies in said]
    if not of.known:
        unknown = Answers(*np.full((3, len(at)), np.nan))
        return replace(answers, cuts=CutAnswers(at, unknown, unknown, tuple(told))), told
    settled = partial if of.kind == "avg" else np.zeros(results, np.bool_)
    ends = [
        _taken(end_of(relation, cells, extreme, np.where(settled, farthest, np.nan), of.kind), at)
        for extreme, farthest in zip((low, high), farthest_values(entering, results), strict=True)
    ]
    return replace(answers, cuts=CutAnswers(at, ends[0], ends[1], tuple(told[k] for k in at))), told


def end_of(relation: Relation, cells: ResultCells, extreme: Floats, settled: Floats, kind: str) -> Answers:
    """Return the answers of one end of what results can be, given the multiplier of each cell there.

    Of an average neither the sum nor the number is known where bins are cut; it is one of its values, so its farthest
    value is given as `settled`.
    """
    (cell, row), results = cells.siblings(), len(settled)
    factor, nothing = extreme[cell], np.zeros(len(cell))
    entering = Entering(cells.result[cell], row, factor, factor, factor, nothing)
    entering = entering.kept(np.isnan(settled)[entering.result])
    weight = relation.weights[entering.row]
    value: Floats = np.bincount(entering.result, weight * entering.factor, minlength=results).astype(np.float64)
    if kind == "avg":
        total = np.bincount(entering.result, weight, minlength=results)
        value = np.divide(value, total, out=np.full(results, np.nan), where=total != 0)
    value = np.where(np.isnan(settled), value, settled)
    return answers_of(relation, value, functional(relation, value, entering, kind), kind)


def _taken(answers: Answers, at: Places) -> Answers:
    noises = answers.noises and EqualNoises(answers.noises.alpha, answers.noises.numbers[at])
    modelled = None if answers.modelled is None else answers.modelled[at]
    return Answers(answers.values[at], answers.stderrs[at], answers.nonuniformities[at], noises, modelled=modelled)


def answers_of(relation: Relation, value: Floats, entering: Entering, kind: str) -> Answers:
    """Return each result with its error: that of its one product, or the sum of those of several."""
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
    return Answers(value, stderr, within, noises, modelled=modelled)


def _errors(relation: Relation, products: Products, kind: str) -> ErrorParts:
    """Return what the errors of products are made of, their scales left out: ranges are asked as such."""
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
    variances, nonuniformities = (np.concatenate([part[column] for part in found])[back] for column in (0, 1))
    laws = [part.noises for part in found if part.noises is not None]
    models = [part.modelled for part in found if part.modelled is not None]
    return ErrorParts(
        variances,
        nonuniformities,
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
    """Return the first cell and one past the last that products take along an axis, and whether they take it whole."""
    pieces = relation.pieces[axis]
    starts = np.searchsorted(line.product, np.arange(number))
    low, high = pieces.first_cell[line.piece], pieces.end_cell[line.piece]
    if number == 0:
        return low, high, np.zeros(0, np.bool_)
    first, last = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    whole = np.logical_and.reduceat(line.factor * pieces.share[line.piece] == 1, starts)
    return first, last, whole & (np.add.reduceat(high - low, starts) == last - first)


def _queries(relation: Relation, products: Products, chosen: Places) -> Iterator[CountingQueries]:
    """Return some of the products as counting queries, so many at a time."""
    shape = relation.shape
    at_once = max(1, ASKED_AT_ONCE // max(1, sum(shape[axis] for axis in products.factors)))
    for start in range(0, len(chosen), at_once):
        asked = chosen[start : start + at_once]
        weights, taken = [np.ones((1, extent)) for extent in shape], np.zeros((len(asked), len(shape)), np.int64)
        for axis, line in products.factors.items():
            weights[axis], taken[:, axis] = _on_cells(relation, axis, line, asked), np.arange(len(asked))
        yield CountingQueries(tuple(weights), taken)


def _on_cells(relation: Relation, axis: int, line: Factors, asked: Places) -> Floats:
    """Spread the factors of some products over the cells of their pieces; parts of one cell add up."""
    pieces, place = relation.pieces[axis], np.searchsorted(asked, line.product)
    there = asked[np.minimum(place, len(asked) - 1)] == line.product
    place, piece = place[there], line.piece[there]
    lower, lengths = pieces.first_cell[piece], pieces.end_cell[piece] - pieces.first_cell[piece]
    cells = np.repeat(lower - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    weights = np.zeros((len(asked), relation.shape[axis]))
    np.add.at(weights, (np.repeat(place, lengths), cells), np.repeat(line.factor[there] * pieces.share[piece], lengths))
    return weights
