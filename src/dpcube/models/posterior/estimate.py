"""An estimate of the whole cube by the posterior of its tree: answers, and what their errors are made of."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.axis_weights import (
    AxisWeights,
    axis_weights,
    cells_taken_of_first,
    everything,
    largest_weights,
    number_asked,
)
from dpcube.models.errors.biases import Biases
from dpcube.models.errors.box_tables import worthwhile
from dpcube.models.errors.halving_table import HalvingTable
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.errors.walks import hidden_squares, node_sums, split_sums
from dpcube.models.posterior.calibrated import calibrated_splits
from dpcube.models.posterior.cells import fill_cells
from dpcube.models.posterior.inference import Posterior
from dpcube.models.posterior.of_attributes import learnt_biases
from dpcube.models.posterior.probes import Probes, probed
from dpcube.models.posterior.whole import Whole
from dpcube.models.protocol import DENSE_CELLS
from dpcube.queries import CountingQueries, Workload

MOST_PROBED = 2**22
"""In cubes up to so many cells every answer is held against its counts; in larger ones none is, for that takes a table
of every cell for each probe."""


@dataclass(frozen=True)
class PosteriorEstimate(CellwiseEstimate):
    """An estimate of the whole cube by a posterior, inferred from the counts `measured` and their noise `variance`.

    The first error asked of it takes a while, as inference runs again to see how noise moves it: see `probed`.
    """

    name: str
    posterior: Posterior
    measured: Floats
    variance: Floats
    whole: Whole | None = None
    """The count of the whole table that is the posterior's total, if one was given."""
    doubting: bool = False
    """Whether the bias of each answer is judged (`errors/biases.py`); as old files were released, all errors were
    raised alike instead (`calibrated.py`)."""
    unordered: tuple[int, ...] = ()
    """Axes of attributes whose values have no order: any one of them may have all rows of a box that was not cut."""
    periods: bool = False
    """Whether it is of releases that were put together, and its first attribute their period."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.posterior.tree.shape

    @cached_property
    def _table(self) -> Floats:
        return summed_area_table(self.cells())

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        return self._spread(self.posterior.totals)

    def _spread(self, totals: Floats) -> Floats:
        """Return totals of the nodes, spread over the cells of the leaves as the posterior spreads its own."""
        posterior, leaves = self.posterior, self.posterior.tree.leaves
        cells = np.zeros(self.shape)
        strides = np.array(cells.strides, np.int64) // cells.itemsize
        lower, upper = posterior.tree.lower[leaves], posterior.tree.upper[leaves]
        fill_cells(cells.reshape(-1), strides, lower, upper, totals[leaves], posterior.prefix, posterior.start)
        return cells

    def weighed(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries and the parts of their errors."""
        asked = axis_weights(queries, self.posterior.prefix, self.posterior.start)
        values, variances, within_squares = self._walked(asked, self._stated_splits).T
        if self.biases is not None:
            variances = self.biases.added(
                variances,
                within_squares,
                self._apart(asked),
                asked=number_asked(queries),
                periods=cells_taken_of_first(queries),
                largest=largest_weights(queries),
            )
        return values, ErrorParts(variances, within_squares + self._hidden(asked))

    def weighed_values(self, queries: CountingQueries) -> Floats:
        """Return the estimated answers of counting queries, which take no probes."""
        asked = axis_weights(queries, self.posterior.prefix, self.posterior.start)
        return self._walked(asked, self.posterior.splits)[:, 0]

    def without_order(self, axes: tuple[int, ...]) -> "PosteriorEstimate":
        """Return the estimate for a cube on some of whose axes values have no order."""
        return replace(self, unordered=axes)

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges."""
        if np.prod(self.shape, dtype=float) > DENSE_CELLS:
            return self._walked(self._everything.inside(workload), self.posterior.splits)[:, 0]
        return range_sums(self._table, workload.lower, workload.upper)

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges: from a table for very many, else by a walk for each."""
        if self.posterior.tree.is_halved and worthwhile(HalvingTable.numbers(self.shape), len(workload)):
            variances, within_squares = self._error_table.variances(workload)
            return self._with_biases(variances, within_squares, lambda: self._many_apart(workload), workload)
        asked = self._everything.inside(workload)
        _, variances, within_squares = self._walked(asked, self._stated_splits).T
        return self._with_biases(variances, within_squares, lambda: self._apart(asked), workload)

    def own_squares(self, asked: CountingQueries | Workload) -> Floats:
        """Return the squared errors that the posterior states by itself, without any bias."""
        if isinstance(asked, Workload):
            taken = self._everything.inside(asked)
        else:
            taken = axis_weights(asked, self.posterior.prefix, self.posterior.start)
        squares: Floats = self._walked(taken, self.posterior.splits)[:, 1:].sum(axis=1)
        return squares

    @cached_property
    def _probes(self) -> Probes:
        """What `probed` returns: computed for the first error that is asked for, and kept. Values never need it."""
        return probed(self.posterior, self.measured, self.variance, self.whole)

    @cached_property
    def _stated_splits(self) -> Floats:
        return self.posterior.splits if self.doubting else calibrated_splits(self.posterior, self._probes)

    @property
    def columns_apart(self) -> Floats:
        """Totals of the nodes by which biases are judged, `Probes.columns`; none of a cube that is too large."""
        probed = self.doubting and math.prod(self.shape) <= MOST_PROBED
        return self._probes.columns if probed else np.zeros((len(self.posterior.tree), 0))

    @cached_property
    def biases(self) -> Biases | None:
        """How biases are judged, if they are."""
        if not self.doubting:
            return None
        least = float(self.variance.min())
        found = Biases(least)
        if self.columns_apart.shape[1] > 0:
            found = learnt_biases(self.shape, least, self._taken_by_tables, self.own_squares)
        return replace(found, of_total=self.whole is None, periods=self.periods)

    def _taken_by_tables(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return what ranges take of the columns apart, and how far probes move the posterior's answers to them."""
        columns = np.column_stack([self.columns_apart, self._probes.posterior_moves])
        taken = node_sums(self.posterior.tree, columns, self._everything.inside(workload))
        return taken[:, : self.columns_apart.shape[1]], taken[:, self.columns_apart.shape[1] :]

    def _with_biases(
        self, variances: Floats, within_squares: Floats, apart: Callable[[], Floats], workload: Workload
    ) -> ErrorParts:
        """Return the parts of the errors of ranges, biases among the noise, given what is apart."""
        if self.biases is not None:
            taken = workload.upper - workload.lower
            asked: Ints = np.sum(taken != self.shape, axis=1)
            periods = np.maximum(taken[:, 0], 1).astype(np.float64)
            variances = self.biases.added(variances, within_squares, apart(), asked=asked, periods=periods)
        return ErrorParts(variances, within_squares + self._hidden(self._everything.inside(workload)))

    def _hidden(self, asked: AxisWeights) -> Floats:
        """Return what squared errors within leaves have beyond those of the prior, where values have no order."""
        posterior = self.posterior
        if not self.unordered:
            return np.zeros(len(asked.taken))
        return hidden_squares(posterior.tree, posterior.totals, posterior.uneven, asked, unordered=self.unordered)

    def _apart(self, asked: AxisWeights) -> Floats:
        """Return what each question takes of the columns apart, by a walk for each."""
        return node_sums(self.posterior.tree, self.columns_apart, asked)

    def _many_apart(self, workload: Workload) -> Floats:
        """Return the same for very many ranges, from tables of every cell."""
        sums = [range_sums(table, workload.lower, workload.upper) for table in self._tables_apart]
        return np.stack(sums, axis=1) if sums else np.zeros((len(workload), 0))

    @cached_property
    def _tables_apart(self) -> list[Floats]:
        return [summed_area_table(self._spread(totals)) for totals in self.columns_apart.T]

    @cached_property
    def _error_table(self) -> HalvingTable:
        posterior = self.posterior
        variance, of_total = self._stated_splits + posterior.uneven, float(posterior.variances[0])
        return HalvingTable.of(posterior.tree, variance, posterior.prefix, posterior.start, of_total=of_total)

    @cached_property
    def _everything(self) -> AxisWeights:
        return everything(self.shape, self.posterior.prefix, self.posterior.start)

    def _walked(self, asked: AxisWeights, splits: Floats) -> Floats:
        posterior, of_total = self.posterior, float(self.posterior.variances[0])
        return split_sums(posterior.tree, posterior.totals, splits, posterior.uneven, asked, of_total=of_total)
