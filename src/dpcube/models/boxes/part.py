"""Totals of boxes, uniform inside each: answers of queries, and the parts of their errors."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes
from dpcube.core.compiled import compiled
from dpcube.models.errors.axis_weights import AxisWeights, axis_weights, even_measure, everything, largest_weights
from dpcube.models.errors.box_tables import BoxTables, worthwhile
from dpcube.models.errors.nonuniformity import REACHED
from dpcube.models.errors.walks import VALUE, leaf_sums
from dpcube.queries import CountingQueries, Workload
from dpcube.trees.tree import BoxTree


class BoxSums(NamedTuple):
    """What the errors of queries are made of, as far as boxes go: arrays of shape (queries,), each a sum over boxes.

    Let a query give the n cells of a box weights of mean p and mean square q; of a range p = q is the part of the box
    that lies in it. `variance` sums p^2 times the variance of the box's total, the noise; `cut` sums n (q - p^2), which
    is 0 where no box is taken in part; `worst` sums how wrong the boxes that are taken in part can be (the end of
    `errors/nonuniformity.py`). `number` is how many boxes are taken if each is taken as a whole, with one size of
    weight for all of them; else 0.
    """

    variance: Floats
    cut: Floats
    worst: Floats
    number: Floats


@dataclass(frozen=True)
class BoxPart:
    """Totals of the leaves of a tree, spread evenly inside each, and the noise they carry.

    `totals` and `square`, shape (leaves,), are in the order of the tree's leaves; `square` is the variance of a total
    divided by the squared number of cells.
    """

    tree: BoxTree
    totals: Floats
    square: Floats

    @property
    def leaves(self) -> Boxes:
        """The boxes, in the order of `totals`."""
        return self.tree.leaf_boxes

    @cached_property
    def density(self) -> Floats:
        """Estimated count of each cell of each box, shape (leaves,)."""
        return self.totals / self.leaves.sizes

    @cached_property
    def variances(self) -> Floats:
        """Noise variance of the total of each box, shape (leaves,)."""
        return self.square * self.leaves.sizes.astype(np.float64) ** 2

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated count of each range, from the boxes alone."""
        return self._walked(self._everything.inside(workload))[:, VALUE]

    def range_sums(self, workload: Workload) -> BoxSums:
        """Return what the errors of ranges are made of: from tables for very many, else by a walk for each."""
        if worthwhile(BoxTables.numbers(self.tree.shape, len(BoxSums._fields)), len(workload)):
            return _settled(self._tables.sums(workload))
        return _box_sums(self._walked(self._everything.inside(workload)), np.ones(len(workload)))

    def query_sums(self, queries: CountingQueries) -> tuple[Floats, BoxSums]:
        """Return the estimated counts of queries, and what their errors are made of."""
        sums = self._walked(axis_weights(queries, *even_measure(self.tree.shape)))
        return sums[:, VALUE], _box_sums(sums, largest_weights(queries))

    def _walked(self, asked: AxisWeights) -> Floats:
        return leaf_sums(self.tree, self.below, asked)

    @cached_property
    def _everything(self) -> AxisWeights:
        return everything(self.tree.shape, *even_measure(self.tree.shape))

    @cached_property
    def below(self) -> Floats:
        """Totals, variances and numbers of the leaves of every subtree, shape (nodes, 3)."""
        of_node = np.zeros((len(self.tree), 3))
        of_node[self.tree.leaves] = np.stack([self.totals, self.variances, np.ones(len(self.totals))], axis=1)
        return _subtree_sums(self.tree.parent, of_node)

    @cached_property
    def _tables(self) -> BoxTables:
        """Tables of the four sums of `BoxSums`: what a leaf adds for its part, its squared part, and as a whole."""
        n, nothing, squares = self.leaves.sizes.astype(np.float64), np.zeros(len(self.totals)), self.totals**2
        terms = np.zeros((len(self.tree), 4, 3))
        terms[self.tree.leaves] = np.moveaxis(
            np.array(
                [
                    (nothing, self.variances, nothing),
                    (n, -n, nothing),
                    (squares, -REACHED * squares, (REACHED - 1) * squares),
                    (nothing + 1, nothing, nothing),
                ]
            ),
            2,
            0,
        )
        return BoxTables.from_terms(self.tree, terms)


def _box_sums(walked: Floats, largest_weight: Floats) -> BoxSums:
    """Return the sums of a walk, shape (queries, 6), given the largest size of a weight in each query."""
    _, variance, cut, linear, squared, number = walked.T
    return BoxSums(variance, cut, largest_weight * linear - REACHED * squared, number)


def _settled(sums: Floats) -> BoxSums:
    """Return the sums of tables, exact where a range cuts no box: tables leave what rounding makes of it.

    A box of n cells that is cut adds 1 - 1/n to the cut at least.
    """
    variance, cut, worst, number = sums.T
    is_cut = cut >= 1 / 4
    return BoxSums(variance, np.where(is_cut, cut, 0), np.where(is_cut, worst, 0), np.where(is_cut, 0, np.rint(number)))


@compiled
def _subtree_sums(parent: Ints, values: Floats) -> Floats:
    """Return, for every node in preorder and each column, the sum of `values` over itself and its descendants."""
    sums = values.copy()
    for node in range(len(parent) - 1, 0, -1):
        sums[parent[node]] += sums[node]
    return sums
