"""An estimate by least squares over a whole tree: totals that add up, unbiased, with the exact variance of any answer.

Let s_u be the variance of what the counts in the subtree of u say of its total, and C_v the sum of s_u over the
children of v. Least squares gives a child h_u = z_u + (s_u/C_v)(h_v - sum of z), z what its subtree says. The error of
h_u is (s_u/C_v) times that of h_v, plus what is independent of everything above v and has covariance diag(s) - s s'/C_v
among the children. A question that takes the part g_u of each leaf's total takes g_v = sum of g_u s_u/C_v of an inner
node's error, and its variance is

    g_root^2 s_root + sum over inner nodes v of (sum over children of g_u^2 s_u - C_v g_v^2),

where nodes of which all cells are taken alike add nothing below themselves: a walk visits only what the question cuts.
Where a leaf of several cells is cut, no count says what lies inside. A posterior of the same counts does, with a mean m
and a variance s of the question: given the counts, an answer a errs by (a - m)^2 + s in the square, whatever made it.
Without a posterior the error is not known there (NaN): rows may lie anywhere in the leaf.

*Totals* of which every node is the sum of its children (consistency). Given are a measured count and its noise variance
for each node of a tree (infinite where an inner node was not measured), both of shape (nodes,); the result is a total
for each node, shape (nodes,). Upward pass: generalised least squares pools a node's own count with the sum of its
children's pooled counts. Downward pass: each parent's total is divided among its children, as closely to their pooled
counts as possible: without any falling below zero (`consistent_totals`), or wherever they fall, so that totals stay
linear in the counts and unbiased (`linear_totals` for trees of halves, `least_squares_totals` for any). A single
projection of all leaves at once is measurably worse than the first: it moves large ranges.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes, filled_boxes
from dpcube.core.compiled import compiled
from dpcube.models.boxes import BoxPart, written_tree
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import AxisWeights, axis_weights, even_measure, everything
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.errors.walks import common_weight, mean_weight
from dpcube.models.protocol import DENSE_CELLS, Arrays, Estimate, EstimateArrays, estimate_of_arrays, small_ints
from dpcube.queries import CountingQueries, Workload
from dpcube.trees.tree import BoxTree


def consistent_totals(tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the non-negative, consistent total of every node."""
    pooled, pooled_variance = pooled_counts(tree, measured, variance)
    return _divide_downwards(tree.end, pooled, pooled_variance)


def linear_totals(tree: BoxTree, measured: Floats, variance: Floats) -> Floats:
    """Return the least-squares total of every node of a binary tree: unbiased, linear, and below zero where it is."""
    pooled, pooled_variance = pooled_counts(tree, measured, variance)
    return _divide_linearly(tree.end, pooled, pooled_variance)


def least_squares_totals(tree: BoxTree, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the least-squares total of every node of any tree, and the variance of what its subtree says of it.

    This is Hay and others' consistency (2010), for any tree and any variances: each count weighs its precision.
    """
    pooled, pooled_variance = pooled_counts(tree, measured, variance)
    return _share_downwards(tree.parent, pooled, pooled_variance), pooled_variance


def pooled_counts(tree: BoxTree, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return what each node's own count and all below it say of it together, by precision, and the variance of that."""
    return _pool_upwards(tree.parent, tree.end, measured, variance)


@compiled
def _share_downwards(parent: Ints, pooled: Floats, pooled_variance: Floats) -> Floats:
    """Downward pass: give children what they miss of their parent's total, in proportion to their variances."""
    nodes = len(parent)
    missing, of_children = np.zeros(nodes), np.zeros(nodes)
    for node in range(1, nodes):
        missing[parent[node]] -= pooled[node]
        of_children[parent[node]] += pooled_variance[node]
    totals = np.zeros(nodes)
    totals[0] = pooled[0]
    missing[0] += totals[0]
    for node in range(1, nodes):
        above = parent[node]
        totals[node] = pooled[node] + missing[above] * pooled_variance[node] / of_children[above]
        missing[node] += totals[node]
    return totals


@compiled
def _pool_upwards(parent: Ints, end: Ints, measured: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Upward pass: combine each node's own count with the sum of its children's pooled counts, by precision.

    Return the pooled count of each node and its variance. Nodes are in preorder, so going backwards meets every child
    before its parent.
    """
    nodes = len(parent)
    pooled = np.zeros(nodes)
    pooled_variance = np.zeros(nodes)
    below = np.zeros(nodes)
    below_variance = np.zeros(nodes)
    for node in range(nodes - 1, -1, -1):
        if end[node] == node + 1:
            pooled[node], pooled_variance[node] = measured[node], variance[node]
        elif variance[node] == np.inf:
            pooled[node], pooled_variance[node] = below[node], below_variance[node]
        else:
            both = variance[node] + below_variance[node]
            pooled[node] = (measured[node] * below_variance[node] + below[node] * variance[node]) / both
            pooled_variance[node] = variance[node] * below_variance[node] / both
        if node > 0:
            below[parent[node]] += pooled[node]
            below_variance[parent[node]] += pooled_variance[node]
    return pooled, pooled_variance


@compiled
def _divide_downwards(end: Ints, pooled: Floats, pooled_variance: Floats) -> Floats:
    """Downward pass: divide each node's total among its children, none of them below zero."""
    totals = np.zeros(len(end))
    totals[0] = max(pooled[0], 0.0)
    for node in range(len(end)):
        if end[node] > node + 1:
            _divide(node, end, pooled, pooled_variance, totals)
    return totals


@compiled
def _divide(node: int, end: Ints, pooled: Floats, pooled_variance: Floats, totals: Floats) -> None:
    """Divide a node's total among its children: minimise sum (h - pooled)^2 / pooled_variance, h >= 0, sum h = total.

    The solution is h = max(0, pooled + pooled_variance * shift). Each pass solves for the shift over the children still
    above zero and drops those it makes negative; a pass that drops none is the answer, so there are at most as many
    passes as children (in floating point too: a pass that does not shrink the set ends the loop).
    """
    shift = 0.0
    active = -1
    while True:
        sum_pooled, sum_variance, count = 0.0, 0.0, 0
        child = node + 1
        while child < end[node]:
            if active < 0 or pooled[child] + pooled_variance[child] * shift > 0:
                sum_pooled += pooled[child]
                sum_variance += pooled_variance[child]
                count += 1
            child = end[child]
        if count == 0 or (active >= 0 and count >= active):
            break
        active = count
        shift = (totals[node] - sum_pooled) / sum_variance
    child = node + 1
    while child < end[node]:
        totals[child] = max(pooled[child] + pooled_variance[child] * shift, 0.0)
        child = end[child]


@compiled
def _divide_linearly(end: Ints, pooled: Floats, pooled_variance: Floats) -> Floats:
    """Downward pass: give two halves what they miss of their parent's total, in proportion to their variances."""
    total = np.zeros(len(end))
    total[0] = pooled[0]
    for node in range(len(end)):
        left = node + 1
        if end[node] > left:
            right = end[left]
            missing = total[node] - pooled[left] - pooled[right]
            total[left] = pooled[left] + missing * pooled_variance[left] / (
                pooled_variance[left] + pooled_variance[right]
            )
            total[right] = total[node] - total[left]
    return total


@dataclass(frozen=True)
class LeastSquaresTree(CellwiseEstimate):
    """Totals of the nodes of a tree that add up, and the variances s of what each subtree says: shape (nodes,)."""

    name: str
    tree: BoxTree
    totals: Floats
    subtree_variance: Floats
    posterior: Callable[[], Estimate] | None = field(default=None, kw_only=True)
    """What makes a posterior of the same counts, where there is one; it takes a while, and is made when asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.tree.shape

    @cached_property
    def boxes(self) -> BoxPart:
        """The totals of the leaves, spread evenly; the noise is stated here, for it is shared between leaves."""
        return BoxPart(self.tree, self.totals[self.tree.leaves], np.zeros(len(self.tree.leaves)))

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        return filled_boxes(self.boxes.leaves, self.boxes.density)

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        values, sums = self.boxes.query_sums(queries)
        asked = axis_weights(queries, *even_measure(self.shape))
        return values, self._errors(asked, sums.cut, values, lambda other: other.answers(queries))

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self.boxes.range_values(workload)
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        asked = everything(self.shape, *even_measure(self.shape)).inside(workload)

        def by_posterior(other: Estimate) -> tuple[Floats, ErrorParts]:
            return other.answers(workload)

        return self._errors(asked, self.boxes.range_sums(workload).cut, self.range_values(workload), by_posterior)

    def evenly_spread(self) -> tuple[Boxes, Floats]:
        """Return the leaves and their totals."""
        return self.boxes.leaves, self.boxes.totals

    def to_arrays(self) -> EstimateArrays:
        """Return the tree, its totals and variances, and the posterior of the same counts, if there is one."""
        tree = self.tree
        facts: dict[str, object] = {"name": self.name, "shape": list(self.shape), "posterior": None}
        bounds = {"end": tree.end, "lower": tree.lower, "upper": tree.upper}
        arrays: Arrays = {name: small_ints(of) for name, of in bounds.items()}
        arrays |= {"totals": self.totals, "subtree": self.subtree_variance}
        if self._posterior is not None:
            of_posterior = self._posterior.to_arrays()
            facts["posterior"] = [of_posterior.kind, of_posterior.facts]
            arrays |= {f"posterior {name}": array for name, array in of_posterior.arrays.items()}
        return EstimateArrays("least squares", facts, arrays)

    @cached_property
    def _posterior(self) -> Estimate | None:
        return None if self.posterior is None else self.posterior()

    def _errors(
        self, asked: AxisWeights, cut: Floats, values: Floats, by: Callable[[Estimate], tuple[Floats, ErrorParts]]
    ) -> ErrorParts:
        """Return the errors of answers, `by` the posterior's own where they cut a leaf."""
        noise = least_squares_variances(self.tree, self.subtree_variance, asked)
        if not (cut > 0).any():
            return ErrorParts(noise, np.zeros(len(cut)))
        if self._posterior is None:
            return ErrorParts(noise, np.where(cut > 0, np.nan, 0.0))
        mean, errors = by(self._posterior)
        squares = (values - mean) ** 2 + errors.noise_variances + errors.nonuniformity_squares
        return ErrorParts(noise, np.where(cut > 0, np.maximum(squares - noise, 0.0), 0.0))


def least_squares_variances(tree: BoxTree, subtree_variance: Floats, asked: AxisWeights) -> Floats:
    """Return the noise variance of each query, given the variance of what each subtree says of its total."""
    return _variances(tree.lower, tree.upper, tree.end, tree.parent, subtree_variance, asked)


@compiled
def _variances(lower: Ints, upper: Ints, end: Ints, parent: Ints, variance: Floats, asked: AxisWeights) -> Floats:
    """Return the variance of each query, as at the head of this module: down the tree once, and up again.

    `weighted` and `squared` hold, of each node that is cut, the sums of g s and of g^2 s over its children.
    """
    nodes = len(end)
    of_children, weighted, squared = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    for node in range(1, nodes):
        of_children[parent[node]] += variance[node]
    cut, found = np.empty(nodes, np.int64), np.zeros(len(asked.taken))
    for query in range(len(asked.taken)):
        met, node = 0, 0
        while node < nodes:
            taken, alike = common_weight(node, lower, upper, query, asked)
            if not alike and end[node] > node + 1:
                cut[met], met = node, met + 1
                weighted[node], squared[node] = 0.0, 0.0
                node += 1
                continue
            if not alike:
                taken = mean_weight(node, lower, upper, query, asked, 0)
            if node == 0:
                found[query] = taken * taken * variance[0]
            else:
                weighted[parent[node]] += taken * variance[node]
                squared[parent[node]] += taken * taken * variance[node]
            node = end[node]
        for place in range(met - 1, -1, -1):
            node = cut[place]
            taken = weighted[node] / of_children[node]
            found[query] += max(squared[node] - weighted[node] * taken, 0.0)
            if node == 0:
                found[query] += taken * taken * variance[0]
            else:
                weighted[parent[node]] += taken * variance[node]
                squared[parent[node]] += taken * taken * variance[node]
    return found


def stored_least_squares(written: EstimateArrays) -> LeastSquaresTree:
    """Return the least squares on a tree that was written, with the posterior beside it, if there is one."""
    facts: dict[str, Any] = written.facts
    tree = written_tree(written, tuple(map(int, facts["shape"])))
    totals, variance = (written.floats(name, len(tree)) for name in ("totals", "subtree"))
    posterior = None
    if facts["posterior"] is not None:
        kind, of = facts["posterior"]
        mark = "posterior "
        arrays = {name.removeprefix(mark): array for name, array in written.arrays.items() if name.startswith(mark)}
        made = estimate_of_arrays(EstimateArrays(kind, of, arrays))
        posterior = lambda: made  # noqa: E731 (a field)
    return LeastSquaresTree(str(facts["name"]), tree, totals, variance, posterior=posterior)
