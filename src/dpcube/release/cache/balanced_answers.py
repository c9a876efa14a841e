"""A balanced estimate in the form in which single questions are answered from it, and in which it is kept.

Enters: a posterior that was moved to noisy tables, or the bytes of what was made of it. Leaves: answers, by NumPy
alone: values from the moved cells, errors from the tree's, pooled with those of the tables as the estimate does it.
"""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.marginals.components import Components, TableAxes, subsets
from dpcube.models.marginals.pooled import pooled_errors, values_taken, weight_sums, with_values
from dpcube.queries import CountingQueries
from dpcube.release.cache.tree_answers import DamagedError, TreeAnswers, headed

if TYPE_CHECKING:
    from dpcube.models.marginals import BalancedEstimate


@dataclass(frozen=True, slots=True, eq=False)
class BalancedAnswers:
    """The moved cells of a cube, its tree with both kinds of errors, how precisely tables were known, and `factors`.

    `of_tree` are the tables that were not measured apart from the tree, `of_values` the squared errors of the values of
    attributes whose marginals were.
    """

    tree: TreeAnswers
    cells: Floats
    precisions: dict[TableAxes, float]
    factors: dict[TableAxes, float]
    of_tree: frozenset[TableAxes]
    of_values: dict[int, Floats]

    @classmethod
    def of(cls, estimate: "BalancedEstimate") -> "BalancedAnswers":
        """Return what the answers of an estimate need."""
        tree, tables = TreeAnswers.of(estimate.tree), estimate.tables
        facts = (tables.precisions, estimate.factors, tables.of_tree, estimate.of_values)
        return cls(tree, estimate.cells(), *facts)

    def to_bytes(self) -> bytes:
        """Return the tables' facts in a line, the cells, and the tree."""
        head = {
            "precisions": [[list(axes), precision] for axes, precision in self.precisions.items()],
            "factors": [[list(axes), factor] for axes, factor in self.factors.items()],
            "of_tree": sorted(map(list, self.of_tree)),
            "of_values": list(self.of_values),
        }
        arrays = [np.ascontiguousarray(one, "<f8").tobytes() for one in (self.cells, *self.of_values.values())]
        return b"".join([json.dumps(head).encode(), b"\n", *arrays, self.tree.to_bytes()])

    @classmethod
    def of_bytes(cls, content: bytes | memoryview, shape: tuple[int, ...]) -> "BalancedAnswers":
        """Return what `to_bytes` made for a cube of this shape; DamagedError if it is not that."""
        try:
            head, rest = headed(content)
            precisions, factors = (_by_axes(head[key], len(shape)) for key in ("precisions", "factors"))
            of_tree = frozenset(_by_axes([(of, 1.0) for of in head["of_tree"]], len(shape)))
            cells = np.frombuffer(rest, "<f8", math.prod(shape)).reshape(shape)
            rest, of_values = rest[cells.nbytes :], {}
            for axis in sorted({*head["of_values"]} & {*range(len(shape))}):
                of_values[axis] = np.frombuffer(rest, "<f8", shape[axis])
                rest = rest[of_values[axis].nbytes :]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise DamagedError from None
        tree = TreeAnswers.of_bytes(rest, shape)
        known = all(subset in precisions for axes in precisions for subset in subsets(axes))
        if not known or min(precisions.values(), default=1.0) == 0:
            raise DamagedError
        return cls(tree, cells, precisions, factors, of_tree, of_values)

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the answers of counting queries and the parts of their errors, as an estimate does."""
        _, errors, own = self.tree.walked(queries)
        tables, asked = Components(self.tree.shape, {}, self.precisions, self.of_tree), weight_sums(queries)
        pooled = pooled_errors(errors, own, *asked, tables=tables, factors=self.factors)
        pooled = with_values(pooled, values_taken(self.of_values, queries), *asked, shape=self.tree.shape)
        return np.array([self._value(queries, query) for query in range(len(queries))]), pooled

    def values(self, queries: CountingQueries) -> Floats:
        """Return the answers alone."""
        return self.answers(queries)[0]

    def _value(self, queries: CountingQueries, query: int) -> float:
        """Return the sum of cells times weights, of the smallest sub-cube that holds all with a weight."""
        weights = [of_axis[queries.chosen[query, axis]] for axis, of_axis in enumerate(queries.weights)]
        used = [np.flatnonzero(of_axis) for of_axis in weights]
        if not all(map(len, used)):
            return 0.0
        taken = [slice(places[0], places[-1] + 1) for places in used]
        left = self.cells[tuple(taken)]
        for of_axis, places in zip(reversed(weights), reversed(taken), strict=True):
            left = left @ of_axis[places]
        return float(left)


def _by_axes(pairs: list[tuple[list[int], float]], axes: int) -> dict[TableAxes, float]:
    found = {tuple(map(int, of)): float(number) for of, number in pairs}
    if any(list(of) != sorted({*of} & {*range(axes)}) for of in found) or not all(n >= 0 for n in found.values()):
        raise ValueError
    return found
