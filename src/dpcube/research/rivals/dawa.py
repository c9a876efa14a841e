"""DAWA (Li, Hay, Miklau, Wang, "A data- and workload-aware algorithm for range queries", PVLDB 2014).

Cells stand in a row (in several dimensions along a Hilbert curve, of which places outside of the table are passed over:
the public code has zeros there, which in five dimensions are thousands for each cell), are parted into buckets by noisy
deviations with a share of epsilon (`interval_partition.py`, with the proof), and the counts of the buckets are
measured by a tree weighted for the workload with the rest (`greedy_h.py`); inside a bucket they are spread evenly.

It needs noisy deviations, and a choice of buckets proved as a whole, so it is research code.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.models.tree_totals import least_squares_totals
from dpcube.queries import Workload
from dpcube.research.rivals.greedy_h import greedy_tree
from dpcube.research.rivals.interval_partition import cheapest_buckets, deviations_of_runs
from dpcube.research.rivals.rival import PURE, checked
from dpcube.research.strategies.hilbert import hilbert_places


@dataclass(frozen=True, slots=True)
class Dawa:
    """Both stages of DAWA for a workload; `share` of epsilon goes to the first.

    Unless given, the share is 1/4, and 1/2 in one dimension, as in the public code. Every bucket costs `penalty` times
    the largest scale of the noise besides: without a floor under noisy costs, which would break the proof, the cheapest
    cover is else made of many small runs whose noise is far below zero. It depends on nothing but public numbers.
    """

    workload: Workload
    name: str = "dawa"
    share: float | None = None
    penalty: float = 2.0
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated counts."""
        exact = checked(counts, epsilon)
        share = self.share if self.share is not None else (0.5 if exact.ndim == 1 else 0.25)
        first, rest = share * epsilon, (1 - share) * epsilon
        place = row_of(exact.shape)
        row = np.empty(exact.size)
        row[place.reshape(-1)] = exact.reshape(-1)
        begin = cheapest_buckets(self.noisy_costs(row, first, rest, rng))
        totals = self._totals(row, place, begin, rest, rng)
        length = np.diff(np.append(begin, len(row)))
        return np.repeat(totals / length, length)[place]

    def noisy_costs(self, row: Floats, first: float, rest: float, rng: np.random.Generator) -> Floats:
        """Return the noisy cost of every run of 1, 2, 4 ... cells, laid out as `deviations_of_runs`: see the proof."""
        costs = deviations_of_runs(row) + 1 / rest
        length = 2.0 ** np.arange(len(costs))[:, None]
        scale = 2 * (2 - 1 / length - 1 / len(row)) / first
        noisy: Floats = costs + self.penalty * scale.max() + scale * rng.laplace(size=costs.shape)
        return noisy

    def questions_of(self, place: Ints, begin: Ints, cells: int) -> Floats:
        """Return the questions for which the tree is weighted, a row each, over the buckets."""
        return mean_weights(self.workload, place, begin, cells)

    def _totals(self, row: Floats, place: Ints, begin: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the least-squares totals of the buckets from noisy counts of a weighted tree over them."""
        tree, weight = greedy_tree(self.questions_of(place, begin, len(row)))
        sums = np.concatenate([[0.0], np.cumsum(np.add.reduceat(row, begin))])
        with np.errstate(divide="ignore"):
            scale = 1 / (weight * epsilon)
        measured = weight > 0
        noisy = sums[tree.upper[:, 0]] - sums[tree.lower[:, 0]]
        noisy[measured] += scale[measured] * rng.laplace(size=int(measured.sum()))
        found, _ = least_squares_totals(tree, np.where(measured, noisy, 0.0), 2 * scale**2)
        leaves = tree.leaves
        return np.repeat(found[leaves] / tree.sizes[leaves], tree.sizes[leaves])


def row_of(shape: tuple[int, ...]) -> Ints:
    """Return the place of every cell in the row: itself in 1-D, else its rank along the Hilbert curve.

    >>> row_of((2, 2)).tolist()
    [[0, 1], [3, 2]]
    """
    if len(shape) == 1:
        return np.arange(shape[0])
    rank = np.empty(math.prod(shape), np.int64)
    rank[np.argsort(hilbert_places(shape).reshape(-1))] = np.arange(len(rank))
    return rank.reshape(shape)


def mean_weights(workload: Workload, place: Ints, begin: Ints, cells: int) -> Floats:
    """Return the mean weight that each question gives the cells of each bucket: shape (questions, buckets)."""
    bucket = np.searchsorted(begin, place.reshape(-1), side="right") - 1
    taken = np.zeros((len(workload), len(begin)))
    _count_cells(taken, bucket, np.array(workload.shape), workload.lower, workload.upper)
    return taken / np.diff(np.append(begin, cells))


@compiled
def _count_cells(taken: Floats, bucket: Ints, shape: Ints, lower: Ints, upper: Ints) -> None:
    """Add to `taken` how many cells of each bucket each range holds; `bucket` is that of each cell, row-major."""
    axes = len(shape)
    index = np.empty(axes, np.int64)
    for query in range(len(lower)):
        index[:] = lower[query]
        while True:
            start = 0
            for axis in range(axes):
                start = start * shape[axis] + index[axis]
            for cell in range(start, start + upper[query, axes - 1] - lower[query, axes - 1]):
                taken[query, bucket[cell]] += 1.0
            axis = axes - 2
            while axis >= 0:
                index[axis] += 1
                if index[axis] < upper[query, axis]:
                    break
                index[axis] = lower[query, axis]
                axis -= 1
            if axis < 0:
                break
