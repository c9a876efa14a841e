"""Counting queries: linear queries whose weight on each cell is a product of one weight per axis.

*Cut bins*, of which a query takes a part, have bounds. Unless the domain declares an attribute even, any number of a
bin's rows may lie in the part that a query takes. So the true count lies between that of the query with the weights of
such bins set to 0 and that with them set to 1. Both bounds are products of weights again, so they are answered like any
other query. A part may be a single real number: `dose <= 2` takes 2 out of a bin [2, 3), which adds nothing to the
estimate, and up to the whole bin to the upper bound.

Weights of axes declared even keep their values: each row falls into a part with the part's weight as its probability,
and the density may have a slope inside the bin, estimated from its neighbours. Only a single real number that a query
selects from an even bin, or excludes from it, cuts the bin all the same: its weight of 0 would claim that no row is
there. `Attribute.unknown_parts` is this rule, and SQL bounds its aggregates by it too (`release/sql/relation.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Bools, Floats
from dpcube.core.domain import Attribute, Domain, Scalar, ValueSet
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.text import spelling_hint
from dpcube.core.errors import QueryError
from dpcube.queries.expression import parse

Condition = Scalar | tuple[Scalar | None, Scalar | None] | list[Scalar] | set[Scalar] | frozenset[Scalar]


@dataclass(frozen=True, slots=True, eq=False)
class CountingQuery:
    """A counting query: the share of each cell that is counted, as the product of one weight in [0, 1] per axis.

    A weight strictly between 0 and 1 is a bin that the query cuts, whose rows are taken to be uniform in it. `parts`
    are, for each axis, the bins whose rows may lie anywhere in them (`Attribute.parts`); without them `cut_queries`
    infers them from the weights.
    """

    weights: tuple[NDArray[np.float64], ...]
    parts: tuple[Bools, ...] = ()

    def __post_init__(self) -> None:
        for along in (*self.weights, *self.parts):
            along.setflags(write=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cubes that the query applies to."""
        return tuple(len(axis_weights) for axis_weights in self.weights)

    def dense(self) -> NDArray[np.float64]:
        """Return the row of the query matrix: one weight per cell, in the shape of the cube."""
        return reduce(np.multiply.outer, self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class CountingQueries:
    """A batch of counting queries: distinct weights along each axis, one row each, and the row of each query.

    Query k weights cells by the product of `weights[axis][chosen[k, axis]]` over the axes. Weights may be any numbers.
    `parts` has a row for each row of weights, as in `CountingQuery`.
    """

    weights: tuple[NDArray[np.float64], ...]
    chosen: NDArray[np.int64]
    parts: tuple[Bools, ...] = ()

    @classmethod
    def of(cls, asked: CountingQuery) -> "CountingQueries":
        """Return a batch of one query."""
        weights, parts = tuple(w[None] for w in asked.weights), tuple(p[None] for p in asked.parts)
        return cls(weights, np.zeros((1, len(weights)), np.int64), parts)

    def __len__(self) -> int:
        return len(self.chosen)


def query(domain: Domain, expression: str | None = None, /, **conditions: Condition) -> CountingQuery:
    """Return the query that counts rows meeting the expression and every condition.

    A condition is a value, a pair (low, high) that includes both ends (None is no bound), or a list of values.
    """
    return query_of(domain, {} if expression is None else parse(expression, domain), conditions)


def query_of(domain: Domain, parsed: Mapping[str, ValueSet], conditions: Mapping[str, Condition]) -> CountingQuery:
    """Return the query of selections and conditions by attribute name."""
    for name in conditions:
        if name not in domain.names:
            msg = f"there is no attribute '{name}'; the attributes are {listing(domain.names, most=30)}"
            msg += spelling_hint(name, domain.names)
            raise QueryError(msg)
    weights, parts = [], []
    for attribute in domain.attributes:
        chosen = parsed[attribute.name] if attribute.name in parsed else attribute.everything()
        if attribute.name in conditions:
            chosen &= select(attribute, conditions[attribute.name])
        weights.append(attribute.weights(chosen))
        parts.append(attribute.parts(chosen))
    return CountingQuery(tuple(weights), tuple(parts))


def select(attribute: Attribute, condition: Condition) -> ValueSet:
    """Return the values of an attribute that meet a condition."""
    if isinstance(condition, tuple):
        if len(condition) != 2:
            msg = f"attribute '{attribute.name}': a range is a pair (low, high), got {condition!r}; values go in a list"
            raise QueryError(msg)
        return attribute.range(*condition)
    if isinstance(condition, list | set | frozenset):
        if not condition:
            msg = f"attribute '{attribute.name}': the list of values is empty; leave the attribute out to count all"
            raise QueryError(msg)
        return reduce(ValueSet.__or__, (attribute.equal(value) for value in condition))
    if condition is None:
        msg = f"attribute '{attribute.name}' cannot equal None; use '(null)' if nulls have a cell of their own"
        raise QueryError(msg)
    return attribute.equal(condition)


MAX_BINS_NAMED = 3
"""Cut bins of one attribute that a text names."""


@dataclass(frozen=True, slots=True, eq=False)
class CutQueries:
    """The queries of a batch that cut bins, by place; the lower and upper bound of each; the text on its bins."""

    at: NDArray[np.int64]
    least: CountingQueries
    most: CountingQueries
    words: tuple[str, ...]


def cut_queries(domain: Domain, queries: CountingQueries) -> CutQueries | None:
    """Return the queries that cut a bin of unknown distribution, or None; weights are shares of cells."""
    cut = queries.parts or [
        a.unknown_parts((weights > 0) & (weights < 1), np.zeros_like(weights, np.bool_))
        for a, weights in zip(domain.attributes, queries.weights, strict=True)
    ]
    is_cut = [np.asarray(rows.any(axis=1))[queries.chosen[:, axis]] for axis, rows in enumerate(cut)]
    takes_some = [(w != 0).any(axis=1) | rows.any(axis=1) for w, rows in zip(queries.weights, cut, strict=True)]
    is_some = [np.asarray(some)[queries.chosen[:, axis]] for axis, some in enumerate(takes_some)]
    at = np.flatnonzero(np.stack(is_cut).any(axis=0) & np.stack(is_some).all(axis=0))  # no part of nothing is cut
    if len(at) == 0:
        return None
    least, most = (
        CountingQueries(
            tuple(np.where(rows, end, weights) for rows, weights in zip(cut, queries.weights, strict=True)),
            queries.chosen[at],
        )
        for end in (0.0, 1.0)
    )
    named = [
        [cut_words(a, np.flatnonzero(row)) for row in rows] for a, rows in zip(domain.attributes, cut, strict=True)
    ]
    words = tuple("; ".join(filter(None, map(list.__getitem__, named, row))) for row in queries.chosen[at].tolist())
    return CutQueries(at, least, most, words)


def squared_where_even(domain: Domain, queries: CountingQueries) -> CountingQueries | None:
    """Return the queries with weights of axes declared even squared, or None if they cut no bin of such an axis.

    With N rows in a cell, each in the part with probability f, the count in the part has variance N f - N f^2.
    """
    even = [a.is_even and bool(a.cut_shares(w).any()) for a, w in zip(domain.attributes, queries.weights, strict=True)]
    if not any(even):
        return None
    weights = tuple(w**2 if squared else w for w, squared in zip(queries.weights, even, strict=True))
    return CountingQueries(weights, queries.chosen)


def slopes_where_even(domain: Domain, queries: CountingQueries) -> list[tuple[CountingQueries, CountingQueries]]:
    """Return two sets of queries for each axis declared even, whose larger answers bound the effect of slopes in bins.

    With N rows in a bin and a slope of half the difference D of its neighbours, the share f at one end is wrong by
    f (1 - f) D / 4. The weights do not determine which end it is. So the bins that a query cuts are added up with equal
    signs, and with alternating signs: of two bins, one of these is the worst case.
    """
    found = []
    for axis, attribute in enumerate(domain.attributes):
        weights = queries.weights[axis]
        cut = attribute.cut_shares(weights) if attribute.is_even and attribute.bins > 1 else np.zeros(1, np.bool_)
        if cut.any():
            off = np.where(cut, weights * (1 - weights) / 4, 0.0)
            signs = np.where(np.cumsum(cut, axis=1) % 2, 1.0, -1.0)
            made = [_differences(one, attribute.bins) for one in (off, off * signs)]
            first, second = (
                CountingQueries((*queries.weights[:axis], w, *queries.weights[axis + 1 :]), queries.chosen)
                for w in made
            )
            found.append((first, second))
    return found


def _differences(off: Floats, bins: int) -> Floats:
    """Return weights of the difference of each bin's neighbours times `off`; an end bin counts its neighbour twice."""
    weights = np.zeros_like(off)
    weights[:, 1:bins] += off[:, : bins - 1]
    weights[:, : bins - 1] -= off[:, 1:bins]
    weights[:, 1] += off[:, 0]
    weights[:, 0] -= 2 * off[:, 0]
    weights[:, bins - 2] -= off[:, bins - 1]
    weights[:, bins - 1] += 2 * off[:, bins - 1]
    return weights


def cut_words(attribute: Attribute, bins: NDArray[np.intp]) -> str:
    """Return the text on the cut bins of an attribute, empty if there are none.

    >>> from dpcube.core.domain import Integer
    >>> cut_words(Integer(name="age", min=0, max=99, width=5), np.array([1, 8]))
    'cuts the bins 5-9, 40-44 of age'
    """
    if len(bins) == 0:
        return ""
    edges = attribute.bin_edges()
    named = ", ".join(attribute.bin_label(edges[k], edges[k + 1]) for k in bins[:MAX_BINS_NAMED].tolist())
    more = f" and {len(bins) - MAX_BINS_NAMED} more" if len(bins) > MAX_BINS_NAMED else ""
    return f"cuts the bin{'s' if len(bins) > 1 else ''} {named}{more} of {attribute.name}"
