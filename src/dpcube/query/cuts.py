"""Bins that questions cut: counting queries enter; the least and the most that each can mean leave.

A weight strictly between 0 and 1 is a bin taken in part. Where the domain does not declare the bin even, any number of
its rows may lie in that part, so the true count lies between that of the query with such weights put to 0 and that
with them put to 1. Both are products of weights again, so they are answered like any other query. Weights of axes
declared even stay what they are: rows fall into such a part by chance, each with the part's weight.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.domain import Attribute, Domain
from dpcube.query.counting import CountingQueries

MOST_NAMED = 3
"""Bins of one attribute that words name."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CutQueries:
    """Of some queries those that cut bins, by place; the least and the most each can mean; which bins it cuts."""

    at: NDArray[np.int64]
    least: CountingQueries
    most: CountingQueries
    words: tuple[str, ...]


def cut_queries(domain: Domain, queries: CountingQueries) -> CutQueries | None:
    """Return the queries that cut a bin of which nothing is known inside, or None; weights are shares of cells."""
    cut = [_unknown(a, weights) for a, weights in zip(domain.attributes, queries.weights, strict=True)]
    is_cut = [np.asarray(rows.any(axis=1))[queries.chosen[:, axis]] for axis, rows in enumerate(cut)]
    at = np.flatnonzero(np.stack(is_cut).any(axis=0))
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


def _unknown(attribute: Attribute, weights: NDArray[np.float64]) -> Bools:
    return np.zeros(weights.shape, np.bool_) if attribute.is_even else attribute.cut_bins(weights)


def squared_where_even(domain: Domain, queries: CountingQueries) -> CountingQueries | None:
    """Return the queries with weights of axes declared even squared, or None if they cut no bin of such an axis.

    With N rows in a cell and each in the part by chance f, the count in the part has variance N f - N f^2.
    """
    even = [a.is_even and bool(a.cut_bins(w).any()) for a, w in zip(domain.attributes, queries.weights, strict=True)]
    if not any(even):
        return None
    weights = tuple(w**2 if squared else w for w, squared in zip(queries.weights, even, strict=True))
    return CountingQueries(weights, queries.chosen)


def cut_words(attribute: Attribute, bins: NDArray[np.intp]) -> str:
    """Say which bins of an attribute are cut; nothing if none is.

    >>> from dpcube.domain import Integer
    >>> cut_words(Integer(name="age", min=0, max=99, width=5), np.array([1, 8]))
    'cuts the bins 5-9, 40-44 of age'
    """
    if len(bins) == 0:
        return ""
    edges = attribute.bin_edges()
    named = ", ".join(attribute.bin_label(edges[k], edges[k + 1]) for k in bins[:MOST_NAMED].tolist())
    more = f" and {len(bins) - MOST_NAMED} more" if len(bins) > MOST_NAMED else ""
    return f"cuts the bin{'s' if len(bins) > 1 else ''} {named}{more} of {attribute.name}"
