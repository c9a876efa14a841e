"""An estimate of every cell, in a form that answers questions without building every cell.

The estimate of a cell is its box's total spread evenly, plus a detail of its own; either part may be absent. Its noise
variance for a query with cell weights w is, given the boxes,

    cell_variance * sum of w_i^2  +  sum over boxes of box_square * (sum of w_i in the box)^2,

which holds with the right coefficients for every linear estimator here: noise of a box is shared by its cells, noise
of a cell is its own, and least squares moves a cell's noise into its whole box.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes, filled_boxes
from dpcube.core.compiled import compiled
from dpcube.core.errors import DpcubeError
from dpcube.models.cell_sums import range_sums, summed_area_table, weighted_sums
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import (
    AxisWeights,
    axis_weights,
    equal_weights,
    even_measure,
    everything,
    largest_weights,
    squared_weights,
)
from dpcube.models.errors.box_tables import BoxTables, worthwhile
from dpcube.models.errors.nonuniformity import REACHED, NonUniformity, Ratio
from dpcube.models.errors.parts import EqualNoises, ErrorParts
from dpcube.models.errors.walks import VALUE, leaf_sums
from dpcube.models.protocol import DENSE_CELLS, Arrays, DamagedError, EstimateArrays, small_ints
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


@dataclass(frozen=True)
class BoxEstimate(CellwiseEstimate):
    """An estimate by totals of boxes and details of cells, each linear in what was measured."""

    name: str
    shape: tuple[int, ...]
    boxes: BoxPart | None = None
    detail: Floats | None = None
    """What is added to each cell, in the shape of the cube."""
    cell_variance: float = 0.0
    within: NonUniformity | None = None
    """Evidence on the non-uniformity error of the boxes, if there is any."""
    alpha: float | None = None
    """Of the noise, where the estimate is one kind of counts, each measured once and alike: cells, or boxes."""

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        if self.boxes is None:
            assert self.detail is not None
            return self.detail.copy()
        cells = filled_boxes(self.boxes.leaves, self.boxes.density)
        return cells if self.detail is None else cells + self.detail

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        values = np.zeros(len(queries)) if self.detail is None else weighted_sums(self.detail, queries)
        cell_noise = self.cell_variance * squared_weights(queries)
        if self.boxes is None:
            return values, self._cell_errors(cell_noise, equal_weights(queries))
        of_boxes, sums = self.boxes.query_sums(queries)
        return values + of_boxes, self._box_errors(cell_noise, sums, lambda within: within.query_guesses(queries))

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if self.boxes is not None and self.detail is None and np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self.boxes.range_values(workload)
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        cell_noise: Floats = np.multiply(self.cell_variance, workload.sizes, dtype=np.float64)
        if self.boxes is None:
            return self._cell_errors(cell_noise, workload.sizes)
        sums = self.boxes.range_sums(workload)
        return self._box_errors(cell_noise, sums, lambda within: within.range_guesses(workload))

    def evenly_spread(self) -> tuple[Boxes, Floats] | None:
        """Return the boxes and their totals, where cells have no details of their own."""
        return None if self.boxes is None or self.detail is not None else (self.boxes.leaves, self.boxes.totals)

    def to_arrays(self) -> EstimateArrays:
        """Return totals of boxes, details of cells, and evidence on the non-uniformity of boxes, if there are any."""
        facts = {"name": self.name, "shape": list(self.shape), "alpha": self.alpha}
        arrays: Arrays = {"cellVariance": np.array([float(self.cell_variance)])}
        if self.detail is not None:
            arrays["detail"] = self.detail.reshape(-1)
        if self.boxes is not None:
            tree = self.boxes.tree
            bounds = {"end": tree.end, "lower": tree.lower, "upper": tree.upper}
            arrays |= {name: small_ints(of) for name, of in bounds.items()}
            arrays["below"] = self.boxes.below.reshape(-1)
        if self.within is not None:
            ratio = self.within.ratio
            arrays["ratio"] = np.array([self.within.cell_variance, ratio.least, ratio.low, ratio.power])
            arrays["deviation"] = self.within.deviation.reshape(-1)
        return EstimateArrays("boxes", facts, arrays)

    def _cell_errors(self, cell_noise: Floats, numbers: NDArray[np.int64]) -> ErrorParts:
        """Return the errors of sums of noisy cells: noise alone."""
        return ErrorParts(cell_noise, np.zeros(len(cell_noise)), self._equal(numbers))

    def _box_errors(self, cell_noise: Floats, sums: BoxSums, guesses: Callable[[NonUniformity], Floats]) -> ErrorParts:
        """Return the errors of what is taken of boxes: noise, and where boxes are cut the non-uniformity error.

        That one is 0 if cells have details of their own; without details it is expected from the noisy cells, if there
        are any, and else unknown.
        """
        nonuniformity_squares = np.zeros(len(cell_noise))
        if self.within is not None:
            nonuniformity_squares = self.within.expected_square(guesses(self.within), sums.cut, sums.worst)
        elif self.detail is None:
            nonuniformity_squares = np.where(sums.cut > 0, np.nan, 0.0)
        return ErrorParts(np.maximum(cell_noise + sums.variance, 0.0), nonuniformity_squares, self._equal(sums.number))

    def _equal(self, numbers: NDArray[np.int64] | Floats) -> EqualNoises | None:
        return None if self.alpha is None else EqualNoises(self.alpha, numbers.astype(np.int64))


def stored_boxes(written: EstimateArrays) -> BoxEstimate:
    """Return the estimate by boxes and details that was written."""
    facts, arrays = written.facts, written.arrays
    shape = tuple(map(int, facts["shape"]))
    (cell_variance,) = written.floats("cellVariance", 1).tolist()
    boxes = detail = within = None
    if "end" in arrays:
        tree = written_tree(written, shape)
        below = written.floats("below", len(tree), 3)[tree.leaves]
        boxes = BoxPart(tree, below[:, 0], below[:, 1] / tree.leaf_boxes.sizes.astype(np.float64) ** 2)
    if "detail" in arrays:
        detail = written.floats("detail", *shape)
    if "ratio" in arrays:
        assert boxes is not None
        noise, *ratio = written.floats("ratio", 1 + len(fields(Ratio))).tolist()
        within = NonUniformity(np.zeros(shape, np.int64), boxes.tree, noise)
        within.__dict__.update(ratio=Ratio(*ratio), deviation=written.floats("deviation", *shape))
    alpha = None if facts["alpha"] is None else float(facts["alpha"])
    return BoxEstimate(str(facts["name"]), shape, boxes, detail, cell_variance, within, alpha)


def written_tree(written: EstimateArrays, shape: tuple[int, ...]) -> BoxTree:
    """Return the tree of boxes that was written."""
    end = written.ints("end")
    lower, upper = (written.ints(name, len(end), len(shape)) for name in ("lower", "upper"))
    try:
        return BoxTree(shape, lower, upper, _parents(end))
    except DpcubeError:
        raise DamagedError from None


def _parents(end: Ints) -> Ints:
    """Return the parent of each node in preorder, -1 for the first."""
    parents, above = [], [-1]
    ends = end.tolist()
    for node in range(len(ends)):
        while len(above) > 1 and ends[above[-1]] <= node:
            above.pop()
        parents.append(above[-1])
        above.append(node)
    return np.array(parents, np.int64)
