"""Bins that questions cut: counting queries enter; the least and the most that each can mean leave.

A query says which bins it takes in part. Where the domain does not declare a bin even, any number of its rows may lie
in that part, so the true count lies between that of the query with the weights of such bins put to 0 and that with them
put to 1. A part may be a single real number: `dose <= 2` takes that much of a bin [2, 3), which adds nothing to the
estimate, and to the most all that may heap at 2. Both ends are products of weights again, so they are answered like any
other query. Weights of axes declared even stay what they are: rows fall into such a part by chance, each with the
part's weight, and the density may have a slope inside the bin, as it has from bin to bin. Only a single real number
that a question picks out of an even bin, or leaves out of it, cuts the bin all the same: its weight of 0, or of 1 for
the rest, would claim that no row is there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.domain import Attribute, Domain
from dpcube.queries.counting import CountingQueries

MOST_NAMED = 3
"""Bins of one attribute that words name."""


@dataclass(frozen=True, slots=True, eq=False)
class CutQueries:
    """Of some queries those that cut bins, by place; the least and the most each can mean; which bins it cuts."""

    at: NDArray[np.int64]
    least: CountingQueries
    most: CountingQueries
    words: tuple[str, ...]


def cut_queries(domain: Domain, queries: CountingQueries) -> CutQueries | None:
    """Return the queries that cut a bin of which nothing is known inside, or None; weights are shares of cells."""
    cut = [
        parts & ((weights == 0) | (weights == 1)) if a.is_even else parts
        for a, parts, weights in zip(domain.attributes, queries.parts, queries.weights, strict=True)
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

    With N rows in a cell and each in the part by chance f, the count in the part has variance N f - N f^2.
    """
    even = [a.is_even and bool(a.cut_shares(w).any()) for a, w in zip(domain.attributes, queries.weights, strict=True)]
    if not any(even):
        return None
    weights = tuple(w**2 if squared else w for w, squared in zip(queries.weights, even, strict=True))
    return CountingQueries(weights, queries.chosen)


def slopes_where_even(domain: Domain, queries: CountingQueries) -> list[tuple[CountingQueries, CountingQueries]]:
    """Return for each axis declared even two sets of queries, whose larger answers are what slopes inside bins add.

    With N rows in a bin and a slope of half the difference D of its neighbours, a part f at one end is off by
    f (1 - f) D / 4. Which end it is the weights do not say, so that the bins that a query cuts are added up with one
    sign, and with signs that alternate: of two, one of these is the worst.
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
    """Return weights that multiply the difference of each bin's neighbours by `off`; at an end, of the one, twice."""
    weights = np.zeros_like(off)
    weights[:, 1:bins] += off[:, : bins - 1]
    weights[:, : bins - 1] -= off[:, 1:bins]
    weights[:, 1] += off[:, 0]
    weights[:, 0] -= 2 * off[:, 0]
    weights[:, bins - 2] -= off[:, bins - 1]
    weights[:, bins - 1] += 2 * off[:, bins - 1]
    return weights


def cut_words(attribute: Attribute, bins: NDArray[np.intp]) -> str:
    """Say which bins of an attribute are cut; nothing if none is.

    >>> from dpcube.core.domain import Integer
    >>> cut_words(Integer(name="age", min=0, max=99, width=5), np.array([1, 8]))
    'cuts the bins 5-9, 40-44 of age'
    """
    if len(bins) == 0:
        return ""
    edges = attribute.bin_edges()
    named = ", ".join(attribute.bin_label(edges[k], edges[k + 1]) for k in bins[:MOST_NAMED].tolist())
    more = f" and {len(bins) - MOST_NAMED} more" if len(bins) > MOST_NAMED else ""
    return f"cuts the bin{'s' if len(bins) > 1 else ''} {named}{more} of {attribute.name}"
