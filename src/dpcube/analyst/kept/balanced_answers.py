"""A balanced estimate in the form in which single questions are answered from it, and in which it is kept.

Enters: a posterior that was moved to noisy tables, or the bytes of what was made of it. Leaves: answers, by NumPy
alone: values from the moved cells, errors from the tree's, pooled with those of the tables as the estimate does it.
"""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcube.analyst.kept.tree_answers import DamagedError, TreeAnswers, headed
from dpcube.arrays import Floats
from dpcube.estimate.errors.parts import ErrorParts
from dpcube.estimate.marginals.balanced import pooled_errors, weight_sums
from dpcube.estimate.marginals.components import Components, TableAxes, subsets
from dpcube.query import CountingQueries

if TYPE_CHECKING:
    from dpcube.estimate.marginals import BalancedEstimate


@dataclass(frozen=True, slots=True, eq=False)
class BalancedAnswers:
    """The moved cells of a cube, its tree with both kinds of errors, how precisely tables were known, and `factors`.

    `apart` says whether the tables were measured apart from the tree.
    """

    tree: TreeAnswers
    cells: Floats
    precisions: dict[TableAxes, float]
    factors: dict[TableAxes, float]
    apart: bool

    @classmethod
    def of(cls, estimate: "BalancedEstimate") -> "BalancedAnswers":
        """Return what the answers of an estimate need."""
        tree = TreeAnswers.of(estimate.tree)
        return cls(tree, estimate.cells(), estimate.tables.precisions, estimate.factors, estimate.tables.apart)

    def to_bytes(self) -> bytes:
        """Return the tables' facts in a line, the cells, and the tree."""
        head = {
            "precisions": [[list(axes), precision] for axes, precision in self.precisions.items()],
            "factors": [[list(axes), factor] for axes, factor in self.factors.items()],
            "apart": self.apart,
        }
        cells = np.ascontiguousarray(self.cells, "<f8").tobytes()
        return b"".join([json.dumps(head).encode(), b"\n", cells, self.tree.to_bytes()])

    @classmethod
    def of_bytes(cls, content: bytes | memoryview, shape: tuple[int, ...]) -> "BalancedAnswers":
        """Return what `to_bytes` made for a cube of this shape; DamagedError if it is not that."""
        try:
            head, rest = headed(content)
            precisions, factors = (_by_axes(head[key], len(shape)) for key in ("precisions", "factors"))
            cells, apart = np.frombuffer(rest, "<f8", math.prod(shape)).reshape(shape), bool(head["apart"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise DamagedError from None
        tree = TreeAnswers.of_bytes(rest[cells.nbytes :], shape)
        known = all(subset in precisions for axes in precisions for subset in subsets(axes))
        if not known or min(precisions.values(), default=1.0) == 0:
            raise DamagedError
        return cls(tree, cells, precisions, factors, apart)

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the answers of counting queries and the parts of their errors, as an estimate does."""
        _, errors, own = self.tree.walked(queries)
        tables = Components(self.tree.shape, {}, self.precisions, self.apart)
        pooled = pooled_errors(errors, own, *weight_sums(queries), tables=tables, factors=self.factors)
        return np.array([self._value(queries, query) for query in range(len(queries))]), pooled

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
