"""A balanced estimate as it is stored: its moved cells, its tree, and the precisions of its tables."""

import math
from typing import Any

from dpcube.core.arrays import Floats
from dpcube.models.arrays import DamagedError, EstimateArrays
from dpcube.models.cell_sums import few_weighted_sums
from dpcube.models.errors.axis_weights import ranges_by_weights
from dpcube.models.errors.level_walk import FEW
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.marginals.balanced import BalancedEstimate, MovedCells
from dpcube.models.marginals.components import Components, TableAxes, subsets
from dpcube.models.posterior.stored import stored_tree
from dpcube.queries import CountingQueries, Workload


class StoredBalanced(BalancedEstimate):
    """A balanced estimate that answers few questions without a compiler."""

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return few_weighted_sums(self._moved.cells, queries) if len(queries) <= FEW else super().weighed_values(queries)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of ranges."""
        few = len(workload) <= FEW
        return self.weighed_values(ranges_by_weights(workload)) if few else super().range_values(workload)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of ranges."""
        few = len(workload) <= FEW
        return self.weighed(ranges_by_weights(workload))[1] if few else super().range_errors(workload)


def stored_balanced(written: EstimateArrays) -> StoredBalanced:
    """Return the balanced estimate that was written."""
    facts, tree = written.facts, stored_tree(written)
    shape = tree.shape
    precisions, factors = (_by_axes(facts[key], len(shape)) for key in ("precisions", "factors"))
    of_tree = frozenset(_by_axes([(of, 1.0) for of in facts["ofTree"]], len(shape)))
    of_values = {axis: written.floats(f"values{axis}", shape[axis]) for axis in map(int, facts["values"])}
    known = all(subset in precisions for axes in precisions for subset in subsets(axes))
    if not known or min(precisions.values(), default=1.0) == 0:
        raise DamagedError
    made = StoredBalanced(tree.name, tree, Components(shape, {}, precisions, of_tree), tree.unordered)
    cells = written.floats("cells", math.prod(shape)).reshape(shape)
    made.__dict__["_moved"] = MovedCells(cells, factors, of_values)
    return made


def _by_axes(pairs: Any, axes: int) -> dict[TableAxes, float]:
    found = {tuple(map(int, of)): float(number) for of, number in pairs}
    if any(list(of) != sorted({*of} & {*range(axes)}) for of in found) or not all(n >= 0 for n in found.values()):
        raise DamagedError
    return found
