"""Tables of many attributes of three values, each of which depends on another: most of their cells are empty."""

from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.gate import Gate
from dpcube.measurements import Transcript
from dpcube.queries.workload_model import WorkloadModel
from dpcube.strategies.partial_tree import ROOT, PartialTree
from dpcube.testing import SeededNoise
from dpcube.trees.halving import depth


def dependent_counts(attributes: int, rows: int, seed: int) -> Floats:
    """Return how many rows there are in each cell, shape (3,) * attributes."""
    random = np.random.default_rng(seed)
    values = np.zeros((rows, attributes), np.int64)
    values[:, 0] = random.choice(3, rows, p=[0.6, 0.3, 0.1])
    for axis in range(1, attributes):
        law = np.cumsum(random.dirichlet(np.full(3, 0.5), size=3), axis=1)[values[:, random.integers(axis)]]
        values[:, axis] = np.minimum((random.random(rows)[:, None] > law).sum(axis=1), 2)
    table = np.zeros((3,) * attributes)
    np.add.at(table, tuple(values.T), 1)
    return table


def all_cells(table: Floats, epsilon: int, seed: int) -> Transcript:
    """Every cell of a table, counted with the whole budget at the leaves of a tree."""
    shape = table.shape
    gate = Gate(table.astype(np.int64), Fraction(epsilon), noise=SeededNoise(seed))
    partial = PartialTree(gate, WorkloadModel(shape, ("mixed",) * len(shape)).cut_order())
    cells, _ = partial.below(ROOT, depth(shape))
    partial.count(cells, partial.left[cells])
    return Transcript(shape, gate.epsilon_per_unit, (partial.counts(),), plan="cells")
