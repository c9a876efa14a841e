"""The posterior of a tree as it is stored: few questions are answered without a compiler, many by compiled loops."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.errors.axis_weights import axis_weights, ranges_by_weights
from dpcube.models.errors.biases import Biases
from dpcube.models.errors.level_walk import FEW, Walked, WalkedTree, walked
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.posterior.estimate import TreeEstimate
from dpcube.models.protocol import DamagedError, EstimateArrays, Queries
from dpcube.queries import CountingQueries, Workload
from dpcube.trees.tree import BoxTree, CutTree

MAX_NUMPY_CELLS = 2**20
"""Cells that are laid out by NumPy, in a few arrays as long; more are filled by a compiled loop."""


@dataclass(frozen=True, eq=False)
class StoredTree(TreeEstimate):
    """A tree with its totals and variances, as `TreeEstimate.to_arrays` writes it."""

    name: str
    cuts: CutTree
    totals: Floats
    variances: Floats
    columns_apart: Floats
    measure: Floats
    of_total: float
    biases: Biases | None
    unordered: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.cuts.shape

    @property
    def tree(self) -> BoxTree:
        """The tree, for compiled walks."""
        return self.cuts.boxes

    @cached_property
    def splits(self) -> Floats:
        """Variance of the split below each node; 0 for a leaf."""
        splits = self.variances.copy()
        splits[self.cuts.leaves] = 0.0
        return splits

    @cached_property
    def uneven(self) -> Floats:
        """Of each leaf what, times f (1 - f), is the variance of the count in a part f of it; else 0."""
        return np.asarray(self.variances - self.splits)

    def without_order(self, axes: tuple[int, ...]) -> "StoredTree":
        """Return the estimate for a cube on some of whose axes values have no order."""
        return replace(self, unordered=axes)

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        if np.prod(self.shape, dtype=float) > MAX_NUMPY_CELLS:
            return super().cells()
        return laid_out(self.cuts, self.totals, self.measure, self._starts)

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of counting queries and the parts of their errors."""
        if len(queries) > FEW:
            return super().weighed(queries)
        found = self._few(queries)
        return found.value, self._errors_of(queries, found)

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries."""
        return super().weighed_values(queries) if len(queries) > FEW else self._few(queries).value

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of ranges."""
        few = len(workload) <= FEW
        return self.weighed_values(ranges_by_weights(workload)) if few else super().range_values(workload)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of ranges."""
        few = len(workload) <= FEW
        return self.weighed(ranges_by_weights(workload))[1] if few else super().range_errors(workload)

    def own_squares(self, asked: Queries) -> Floats:
        """Return the squared errors that the posterior states by itself, without any bias."""
        if len(asked) > FEW:
            return super().own_squares(asked)
        found = self._few(ranges_by_weights(asked) if isinstance(asked, Workload) else asked)
        return np.asarray(found.variance + found.within)

    def errors_beside_own(self, queries: CountingQueries) -> tuple[ErrorParts, Floats]:
        """Return the parts of the errors of counting queries, and `own_squares`: by one walk."""
        if len(queries) > FEW:
            return super().errors_beside_own(queries)
        found = self._few(queries)
        return self._errors_of(queries, found), np.asarray(found.variance + found.within)

    def _errors_of(self, queries: CountingQueries, found: Walked) -> ErrorParts:
        variances = self._biased(queries, found.variance, found.within, found.apart)
        return ErrorParts(variances, found.within + found.hidden)

    def _few(self, queries: CountingQueries) -> Walked:
        return walked(self._walked_tree, axis_weights(queries, self.measure, self._starts))

    @cached_property
    def _walked_tree(self) -> WalkedTree:
        return WalkedTree(
            self.cuts, self.totals, self.variances, self.columns_apart, self.of_total, unordered=self.unordered
        )


def laid_out(tree: CutTree, totals: Floats, measure: Floats, starts: Ints) -> Floats:
    """Return every cell's part of the total of its leaf, in proportion to the product of the marginals."""
    lower, sides = tree.lower[tree.leaves], tree.upper[tree.leaves] - tree.lower[tree.leaves]
    sizes = sides.prod(axis=1)
    leaf = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(leaf)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    part, at = totals[tree.leaves][leaf], np.zeros(len(leaf), np.int64)
    for axis in reversed(range(len(tree.shape))):
        place, along = np.divmod(place, sides[leaf, axis])
        first = starts[axis] + lower[:, axis]
        cell = first[leaf] + along
        part = part * (measure[cell + 1] - measure[cell]) / (measure[first + sides[:, axis]] - measure[first])[leaf]
        at += (cell - starts[axis]) * math.prod(tree.shape[axis + 1 :])
    cells = np.empty(len(leaf))
    cells[at] = part
    return cells.reshape(tree.shape)


def stored_tree(written: EstimateArrays) -> StoredTree:
    """Return the tree that was written."""
    facts, shape = written.facts, tuple(map(int, written.facts["shape"]))
    cuts = CutTree(shape, *(written.ints(name) for name in ("end", "cutAxis", "cutPlace")))
    nodes, columns = len(cuts), int(facts["columns"])
    unordered = tuple(axis for axis in range(len(shape)) if axis in facts["unordered"])
    (of_total,) = written.floats("ofTotal", 1).tolist()
    return StoredTree(
        str(facts["name"]),
        cuts,
        written.floats("totals", nodes),
        written.floats("variances", nodes),
        written.floats("apart", nodes, columns),
        written.floats("measure", sum(shape) + len(shape)),
        of_total,
        _biases(facts["biases"]),
        unordered,
    )


def _biases(written: Any) -> Biases | None:
    if written is None:
        return None
    raised, beyond = (tuple(map(float, written[name])) for name in ("raised", "beyond"))
    if len(raised) != len(beyond) or not raised:
        raise DamagedError
    return Biases(float(written["least"]), raised, beyond, bool(written["of_total"]), bool(written["periods"]))
