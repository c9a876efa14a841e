"""Counting queries: linear queries whose weight on each cell is a product of one weight per axis."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Bools
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
