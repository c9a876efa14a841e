"""The `Estimate` protocol: an estimated cube that answers queries, marginalises, draws rows and can be written down.

Every estimator returns one. Whatever uses a release (answers, SQL, views, plots, synthetic rows, classifiers, pages,
the cache) uses this protocol alone, and never asks which estimator made it. `dpcube.testing.check_estimate` is the
conformance check for implementations.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from dpcube.core.arrays import Floats, Ints, Places
from dpcube.models.arrays import EstimateArrays
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.marginal_model import MarginalModel
from dpcube.models.sampling import Generator
from dpcube.queries import CountingQueries, Workload

DENSE_CELLS = 2**27
"""Cubes up to this size are answered from a table of every cell (1 GiB); larger ones from their boxes if they can."""
Queries = CountingQueries | Workload
"""Queries about cells: products of weights along the axes, or ranges."""


class Estimate(Protocol):
    """An estimate of the whole cube."""

    @property
    def name(self) -> str:
        """Name of the estimator."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    @property
    def is_materialisable(self) -> bool:
        """Whether `cells` can lay out every cell."""
        ...

    @property
    def is_inferred(self) -> bool:
        """Whether it takes long to make and is therefore cached (`to_arrays`)."""
        ...

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube; QueryError if these are too many."""
        ...

    def values(self, queries: Queries) -> Floats:
        """Return the estimated answers, shape (queries,)."""
        ...

    def errors(self, queries: Queries) -> ErrorParts:
        """Return the parts of the errors of the answers, each of shape (queries,)."""
        ...

    def answers(self, queries: Queries) -> tuple[Floats, ErrorParts]:
        """Return `values` and `errors` at once: where one walk down a tree gives both it is taken once."""
        ...

    def marginal(self, axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Floats:
        """Return the estimated table over some axes, ascending; the others are summed out.

        `starts` coarsens the table: for each of these axes it has the first cells, ascending, of the runs of cells that
        are put together. A first cell may be repeated; a run that ends where it starts stands for that single cell.
        """
        ...

    def draw(self, rows: int | None, generator: Generator, *, batch: int | None = None) -> Iterator[tuple[Places, ...]]:
        """Return the cells of synthetic rows on every axis, in batches; as many as are estimated if `rows` is None.

        The sample is stratified (`models/sampling.py`). A QueryError says if so many cannot be drawn.
        """
        ...

    def without_order(self, axes: tuple[int, ...]) -> "Estimate":
        """Return the estimate for a cube on some of whose axes values have no order: neighbours may differ there."""
        ...

    @property
    def marginal_model(self) -> MarginalModel | None:
        """The model of noisy marginals that it is, with their groups and errors; None if it estimates every cell."""
        ...

    def to_arrays(self) -> EstimateArrays:
        """Return all that answers need as plain arrays: see `models/arrays.py`, which has the inverse."""
        ...


def run_ends(starts: Ints, extent: int) -> Ints:
    """Return one past the last cell of each run of cells along an axis, by the first cells of `Estimate.marginal`.

    >>> run_ends(np.array([0, 3, 3, 4]), 9)
    array([3, 4, 4, 9])
    """
    return np.asarray(np.maximum(np.append(starts[1:], extent), starts + 1), np.int64)


def marginal_cells(shape: Sequence[int], axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Workload:
    """Return the cells of the marginal over some axes as ranges of the cube, the last axis fastest."""
    firsts = [np.arange(shape[axis]) for axis in axes] if starts is None else list(starts)
    lasts = [run_ends(first, shape[axis]) for first, axis in zip(firsts, axes, strict=True)]
    grid = np.meshgrid(*(np.arange(len(first)) for first in firsts), indexing="ij")
    number = int(np.prod([len(first) for first in firsts], dtype=np.int64))
    lower, upper = np.zeros((number, len(shape)), np.int64), np.tile(np.array(shape, np.int64), (number, 1))
    for axis, first, last, at in zip(axes, firsts, lasts, grid, strict=True):
        lower[:, axis], upper[:, axis] = first[at.reshape(-1)], last[at.reshape(-1)]
    return Workload(tuple(shape), lower, upper)
