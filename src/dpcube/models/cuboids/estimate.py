"""Estimate of a wide table by a maximum-entropy model of its noisy marginals, with errors of its answers.

A question is inside a cuboid if it asks about that cuboid's attributes only, in whole groups of their cells, or about
one attribute. The error of its answer is then that of the counts, and how far the model departs from them. Of any other
question the model goes beyond the measurements: the answer is modelled, and its error is estimated from held-out
marginals.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints, Places
from dpcube.core.errors import QueryError
from dpcube.models.cell_sums import few_weighted_sums, weighted_sums
from dpcube.models.cuboids.beliefs import Beliefs, spread
from dpcube.models.cuboids.departures import Departure, departure_from, departure_of
from dpcube.models.cuboids.first_tables import (
    counted_table,
    counts_of_whole,
    first_tables,
    in_groups,
    modelled_axes,
    pilot_tables,
    tables_of_one,
)
from dpcube.models.cuboids.fitting import CountedTable, fit, variance_of_total
from dpcube.models.cuboids.junction import CliqueAxes, model_cells, table_cells
from dpcube.models.cuboids.shares import shares_of_cells
from dpcube.models.errors.axis_weights import ranges_by_weights
from dpcube.models.errors.level_walk import FEW
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.protocol import EstimateArrays, Queries, marginal_cells
from dpcube.models.sampling import BATCH_ROWS, Generator, modelled_cells, rows_to_draw
from dpcube.queries import CountingQueries, Workload

if TYPE_CHECKING:
    from dpcube.measurements import Transcript

MAX_MODEL_CELLS = 2**20
"""Cells of all cliques of a model that is fitted; strategies stay far below it."""
MAX_JOINT_CELLS = 2**20
"""Cells of a table over the attributes of many questions; larger ones are evaluated one by one."""
Way = Literal["weighed", "taken", "squared"]
WAYS: tuple[Way, ...] = ("weighed", "taken", "squared")
"""How rows add up: by a query's weights, each that has one as 1, or by the squares of weights."""
DENSE_MODELLED = 2**24
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class CuboidsEstimate:
    """An estimate of a wide cube: a model of groups, and the share of each cell in its group."""

    name: str
    shape: tuple[int, ...]
    groups: tuple[Ints, ...]
    firsts: tuple[CountedTable, ...]
    """Noisy tables of cells, over each attribute or over each and a target."""
    chosen: tuple[CountedTable, ...]
    """Noisy tables over groups."""
    wholes: tuple[CountedTable, ...] = ()
    """Noisy counts of the whole by themselves: tables over no axes."""
    selected: bool = True
    """Whether the tables over groups were selected by how far they depart from the model, and not named."""
    pilots: tuple[CountedTable, ...] = ()
    """Noisy tables of cells over several attributes that are held out of the model, to tell its errors."""

    is_inferred = True

    @classmethod
    def from_transcript(cls, name: str, transcript: "Transcript") -> "CuboidsEstimate":
        """Return the estimate of a transcript of cuboids."""
        counted = [counted_table(transcript, one) for one in transcript.marginals if one.groups is not None]
        firsts, wholes = first_tables(transcript), counts_of_whole(transcript)
        selected, groups = bool(transcript.selections), transcript.groups
        of_axis = tuple(map(np.arange, transcript.shape)) if groups is None else groups.of_axis
        held = tuple(pilot_tables(transcript))
        return cls(name, transcript.shape, of_axis, tuple(firsts), tuple(counted), tuple(wholes), selected, held)

    @cached_property
    def ones(self) -> tuple[CountedTable, ...]:
        """A noisy table over each attribute, of cells."""
        return tuple(tables_of_one(list(self.firsts)))

    @cached_property
    def cuboids(self) -> tuple[CountedTable, ...]:
        """Noisy tables over groups of two attributes or more."""
        return (*(table for table in self.grouped_firsts if len(table.axes) > 1), *self.chosen)

    @cached_property
    def beliefs(self) -> Beliefs:
        """The model of groups."""
        return fit(self.sides, self._tables).beliefs

    @property
    def _tables(self) -> list[CountedTable]:
        return [*self.wholes, *self.grouped_firsts, *self.chosen]

    @cached_property
    def shares(self) -> tuple[Floats, ...]:
        """The share of each cell of every attribute in its group."""
        return tuple(
            shares_of_cells(one.counts, one.variance, groups, self.beliefs.marginal(one.axes))
            for one, groups in zip(self.ones, self.groups, strict=True)
        )

    @property
    def sides(self) -> tuple[int, ...]:
        """Shape of the cube of groups."""
        return tuple(int(groups.max()) + 1 for groups in self.groups)

    @cached_property
    def grouped_firsts(self) -> list[CountedTable]:
        """The first tables, of groups."""
        return [in_groups(table, self.groups) for table in self.firsts]

    def cells(self) -> Floats:
        """Return the estimated count of every cell, if they fit in memory."""
        if not self.is_materialisable:
            msg = "this release is of a wide table, of more cells than can be laid out; ask for fewer attributes: "
            msg += "group_by, dice or SQL"
            raise QueryError(msg)
        return self.marginal(range(len(self.shape)))

    @property
    def is_materialisable(self) -> bool:
        """Whether every cell can be laid out."""
        return math.prod(self.shape) <= DENSE_MODELLED

    def marginal(self, axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Floats:
        """Return the table over some axes: that of groups, shared out among their cells; ranges if it is large."""
        sides = [self.shape[axis] for axis in axes] if starts is None else list(map(len, starts))
        if max(table_cells(self.sides, axes), math.prod(sides)) > DENSE_MODELLED:
            return self.values(marginal_cells(self.shape, axes, starts)).reshape(sides)
        table = self.beliefs.marginal(tuple(axes))
        for place, axis in enumerate(axes):
            groups, shares = self.groups[axis], self.shares[axis]
            if starts is None:
                table = np.take(table, groups, axis=place) * spread(shares, (place,), tuple(range(table.ndim)))
            else:
                shared = np.where(groups[:, None] == np.arange(self.sides[axis]), shares[:, None], 0.0)
                runs = np.add.reduceat(shared, starts[place], axis=0)
                table = np.moveaxis(np.tensordot(runs, table, axes=([1], [place])), 0, place)
        return table

    def draw(self, rows: int | None, generator: Generator, *, batch: int | None = None) -> Iterator[tuple[Places, ...]]:
        """Return the cells of synthetic rows, drawn from the model."""
        count, at_once = rows_to_draw(rows, self.beliefs.total), batch or BATCH_ROWS
        return (
            modelled_cells(self.beliefs, self.groups, self.shares, min(at_once, count - start), generator)
            for start in range(0, count, at_once)
        )

    def without_order(self, axes: tuple[int, ...]) -> "CuboidsEstimate":  # noqa: ARG002 (the same for any order)
        """Return the estimate itself: groups say which values are alike."""
        return self

    def to_arrays(self) -> EstimateArrays:
        """Return the cliques of the model, the shares of cells, the noisy tables, and how far it departs from them."""
        from dpcube.models.cuboids.stored import written_cuboids

        return written_cuboids(self)

    @property
    def marginal_model(self) -> "CuboidsEstimate":
        """The model itself."""
        return self

    def answers(self, queries: Queries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many queries and the parts of their errors."""
        queries = _weights(queries)
        values, asked = np.empty(len(queries)), _Asked.from_queries(queries, self)
        noise, within, modelled = np.empty(len(queries)), np.zeros(len(queries)), np.zeros(len(queries), np.bool_)
        for axes, at in asked.patterns():
            values[at] = self._values(axes, asked, at)
            noise[at], within[at], modelled[at] = self._errors(axes, asked, at, values[at])
        return values, ErrorParts(noise, within, modelled=modelled)

    def values(self, queries: Queries) -> Floats:
        """Return the estimated answers of many queries."""
        values, asked = np.empty(len(queries)), _Asked.from_queries(_weights(queries), self)
        for axes, at in asked.patterns():
            values[at] = self._values(axes, asked, at)
        return values

    def errors(self, queries: Queries) -> ErrorParts:
        """Return the parts of the errors of many queries."""
        return self.answers(queries)[1]

    def _values(self, axes: CliqueAxes, asked: "_Asked", at: Ints, way: Way = "weighed") -> Floats:
        """Return the answers of queries about some axes."""
        if table_cells(self.sides, axes) <= MAX_JOINT_CELLS:
            return asked.sums(self.beliefs.marginal(axes), axes, at, way)
        weights = asked.folded[way]
        one_by_one = [
            float(self.beliefs.marginal((), {axis: weights[axis][asked.chosen[k, axis]] for axis in axes})) for k in at
        ]
        return np.array(one_by_one)

    def _errors(self, axes: CliqueAxes, asked: "_Asked", at: Ints, values: Floats) -> tuple[Floats, Floats, Bools]:
        """Return noise variances, other squared errors, and which of these answers are modelled."""
        if not axes:
            nothing = np.zeros(len(at))
            return np.full(len(at), variance_of_total(self._tables)), nothing, nothing > 0
        best, apart = np.full(len(at), np.inf), np.zeros(len(at))
        for table in self._holding(axes):
            counts, squares = asked.counted(table, axes, at)
            better = squares * table.variance < best
            best = np.where(better, squares * table.variance, best)
            apart = np.where(better, values - counts, apart)
        whole = asked.whole(axes, at)
        for table in self._of_cells(axes):
            counts, squares = asked.counted_cells(table, at)
            squares *= table.variance
            better = ~whole | (squares < best)
            best, apart, whole = np.where(better, squares, best), np.where(better, values - counts, apart), whole | True
        modelled = ~whole | ~np.isfinite(best)
        within = np.maximum(apart**2 - best, 0.0, where=~modelled, out=np.zeros(len(at)))
        if modelled.any():
            weighed, rows = self._values(axes, asked, at, "squared"), self._values(axes, asked, at, "taken")
            best = np.where(modelled, self._noise_of_ones(axes, asked, at, weighed, rows), best)
            if self.departure is None:
                departed = self._furthest(axes, asked, at, rows) ** 2 * weighed / np.maximum(rows, TINY)
            else:
                many = max(math.comb(len(axes), 2), 1)  # pairs, whose departures are partly the same rows
                departed = math.sqrt(many) * self.departure.squares(values, weighed, rows, self.beliefs.total)
            within = np.where(modelled, departed, within)
        return best, within, modelled

    def _furthest(self, axes: CliqueAxes, asked: "_Asked", at: Ints, rows: Floats) -> Floats:
        """Return half of how far the rows that a question takes can be from the model's (Frechet's bounds).

        Half, for two standard errors and more make an interval of 95%. They are no more than the rows that any of its
        attributes takes by itself, and no fewer than what the others cannot leave out.
        """
        alone = [self._values((axis,), asked, at, "taken") for axis in axes]
        most = np.min(alone, axis=0)
        least = np.maximum(np.sum(alone, axis=0) - (len(axes) - 1) * self.beliefs.total, 0.0)
        return np.asarray(np.maximum(most - rows, rows - least) / 2)

    def _holding(self, axes: CliqueAxes) -> list[CountedTable]:
        """Return the cuboids that contain some axes."""
        return [table for table in self.chosen if set(axes) <= set(table.axes)]

    def _of_cells(self, axes: CliqueAxes) -> list[CountedTable]:
        """Return the tables that count cells of just these axes, not groups."""
        if len(axes) == 1:
            return [self.ones[axes[0]]]
        return [table for table in self.firsts if table.axes == axes]

    def _noise_of_ones(self, axes: CliqueAxes, asked: "_Asked", at: Ints, weighed: Floats, rows: Floats) -> Floats:
        """Return what the noise of each attribute's own table leaves in modelled sums, attributes independent.

        A count of an attribute's cell is in a sum with the share of its rows that the other attributes take, and the
        mean of their squared weights: `rows` and `weighed`, over those of the attribute by itself. Cells that the model
        leaves empty, or nearly, may hold as many rows as the noise hides: of these the other attributes take what they
        take of all rows. So what a group's cells are is never known better than the noise of their own table allows.
        """
        squares, total = np.zeros(len(at)), self.beliefs.total
        for axis in axes:
            weights, variance = asked.queries.weights[axis][asked.chosen[at, axis]], self.ones[axis].variance
            noise, cells = (weights**2).sum(axis=1) * variance, np.maximum((weights != 0).sum(axis=1), 1)
            others = tuple(other for other in axes if other != axis)
            share = np.ones(len(at))
            # As rows, and as rows by the squares of their weights; those that noise hides weigh like the others.
            for found, way, hidden in zip(
                (rows, weighed), WAYS[1:], (np.sqrt(cells * variance), noise / np.sqrt(cells * variance)), strict=True
            ):
                own, besides = (self._values(of, asked, at, way) for of in ((axis,), others))
                share *= (np.maximum(found, 0) + hidden * besides / total) / np.maximum(own + hidden, TINY)
            squares += noise * share
        return squares

    @cached_property
    def departure(self) -> Departure | None:
        """How far what was not counted departs from the model, estimated from held-out marginals, if there are any."""
        unseen = [table for table in self.pilots if not self._holding(table.axes)]
        last = departure_of(self.sides, self.grouped_firsts, list(self.chosen), selected=self.selected)
        if not unseen:
            return last
        found = departure_from([(table, self.marginal(table.axes)) for table in unseen], self.beliefs.total)
        return found if last is None else found.least_with(last)


@dataclass(frozen=True)
class _Asked:
    """Queries, and their weights on the groups of each axis."""

    queries: CountingQueries
    folded: Mapping[Way, tuple[Floats, ...]]
    plain: tuple[Bools, ...]
    """Which rows of weights take every cell whole: they ask nothing about the axis."""
    in_groups: tuple[Bools, ...]
    """Which rows of weights are the same for all cells of any group."""

    @classmethod
    def from_queries(cls, queries: CountingQueries, estimate: CuboidsEstimate) -> "_Asked":
        plain, in_groups = [], []
        folded: dict[Way, list[Floats]] = {way: [] for way in WAYS}
        for axis, weights in enumerate(queries.weights):
            groups, side = estimate.groups[axis], estimate.sides[axis]
            plain.append((weights == 1).all(axis=1))
            if plain[-1].all():
                for way in WAYS:
                    folded[way].append(np.ones((len(weights), side)))
                in_groups.append(plain[-1])
                continue
            shares = estimate.shares[axis]
            for way, taken in zip(WAYS, (weights, weights != 0, weights**2), strict=True):
                rows = [np.bincount(groups, weights=row * shares, minlength=side) for row in taken]
                folded[way].append(np.stack(rows))
            first = np.unique(groups, return_index=True)[1]
            in_groups.append((weights == weights[:, first][:, groups]).all(axis=1))
        return cls(queries, {way: tuple(made) for way, made in folded.items()}, tuple(plain), tuple(in_groups))

    @property
    def chosen(self) -> Ints:
        return self.queries.chosen

    def patterns(self) -> Iterator[tuple[CliqueAxes, Ints]]:
        """Yield the axes that queries ask about, and which queries do."""
        asks = np.stack([~plain[self.chosen[:, axis]] for axis, plain in enumerate(self.plain)], axis=1)
        found, which = np.unique(asks, axis=0, return_inverse=True)
        for number, pattern in enumerate(found):
            yield tuple(np.flatnonzero(pattern).tolist()), np.flatnonzero(which.reshape(-1) == number)

    def whole(self, axes: CliqueAxes, at: Ints) -> Bools:
        """Say which queries take whole groups, or equal parts of all their cells."""
        found = np.ones(len(at), np.bool_)
        for axis in axes:
            found &= self.in_groups[axis][self.chosen[at, axis]]
        return found

    def sums(self, table: Floats, axes: CliqueAxes, at: Ints, way: Way = "weighed") -> Floats:
        """Return the sums of a table over these axes by the queries' weights on groups."""
        if not axes:
            return np.full(len(at), float(table))
        weights = tuple(self.folded[way][axis] for axis in axes)
        queries = CountingQueries(weights, self.chosen[np.ix_(at, np.array(axes))])
        return few_weighted_sums(table, queries) if len(at) <= FEW else weighted_sums(table, queries)

    def counted(self, table: CountedTable, axes: CliqueAxes, at: Ints) -> tuple[Floats, Floats]:
        """Return what a noisy table counts of queries about some of its axes, and the sums of squared weights."""
        others = tuple(j for j, axis in enumerate(table.axes) if axis not in axes)
        counts = np.asarray(table.counts.sum(axis=others))
        cells = float(np.prod([table.counts.shape[j] for j in others]))
        return self.sums(counts, axes, at), self.sums(np.ones_like(counts), axes, at, "squared") * cells

    def counted_cells(self, table: CountedTable, at: Ints) -> tuple[Floats, Floats]:
        """Return what a noisy table of cells counts of queries about all of its axes, and sums of squared weights."""
        rows = [self.queries.weights[axis][self.chosen[at, axis]] for axis in table.axes]
        counts = self.queries.weights[table.axes[0]] @ table.counts.reshape(len(table.counts), -1)
        counts = counts[self.chosen[at, table.axes[0]]]
        for more in rows[1:]:
            counts = (counts.reshape(len(at), more.shape[1], -1) * more[:, :, None]).sum(axis=1)
        squares = np.prod([(weights**2).sum(axis=1) for weights in rows], axis=0)
        return counts.reshape(-1), np.asarray(squares, np.float64)


def makes_a_small_model(transcript: "Transcript") -> bool:
    """Return whether the model of the cuboids stays within its size."""
    sides = transcript.shape if transcript.groups is None else transcript.groups.sides
    return model_cells(sides, modelled_axes(transcript)) <= MAX_MODEL_CELLS


def _weights(queries: Queries) -> CountingQueries:
    """Return queries as weights along axes, ranges too."""
    return ranges_by_weights(queries) if isinstance(queries, Workload) else queries
