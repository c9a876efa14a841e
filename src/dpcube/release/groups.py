"""Groups of cells along an axis, and the answers for rows of groups.

The groups follow from what is kept of each attribute, and its level. A row of a view is one group of every axis. Where
all its groups are runs of whole cells it is asked as a range; otherwise (a region of scattered countries, a bin cut by
a question) as a counting query.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Attribute, Level
from dpcube.core.errors import QueryError
from dpcube.models import Estimate
from dpcube.queries import CountingQueries, Workload
from dpcube.release.answer import Answers

if TYPE_CHECKING:
    from dpcube.release.release import Release

MAX_VIEW_ROWS = 2**24
MAX_SINGLE_ANSWERS = 20_000


@dataclass(frozen=True, eq=False)
class AxisGroups:
    """The groups along one axis, numbered in the order of the level; `level` is None where all cells are one group.

    `weights` is the share of each cell that is kept, shape (cells,), and `parts` marks those kept in part that have
    no inner distribution: a single real number has no share. A group of which nothing is kept is left out.
    """

    attribute: Attribute
    level: Level | None
    weights: Floats
    parts: Bools

    @cached_property
    def _used(self) -> Ints:
        """Cells of which something is kept, those of each group side by side; where all are one group, every cell."""
        if self.level is None:
            return np.arange(len(self.weights))
        used = np.flatnonzero((self.weights > 0) | self.parts)
        return used[np.argsort(self.level.group[used], kind="stable")]

    @cached_property
    def _starts(self) -> Ints:
        """Where each group starts in `_used`."""
        if self.level is None:
            return np.zeros(1, np.int64)
        return np.unique(self.level.group[self._used], return_index=True)[1].astype(np.int64)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def labels(self) -> list[str]:
        """Names of the groups; where all cells are one group it has none to show."""
        assert self.level is not None
        return [self.level.labels[self.level.group[cell]] for cell in self._used[self._starts]]

    @cached_property
    def lower(self) -> Ints:
        """First cell of each group."""
        return self._used[self._starts]

    @cached_property
    def upper(self) -> Ints:
        """One past the last cell of each group."""
        last = np.append(self._starts, len(self._used))[1:] - 1
        return np.asarray(self._used[last] + 1, np.int64)

    @cached_property
    def is_range(self) -> NDArray[np.bool_]:
        """Whether each group is a run of whole cells."""
        cells = np.diff(np.append(self._starts, len(self._used)))
        whole = np.logical_and.reduceat((self.weights == 1)[self._used] & ~self.parts[self._used], self._starts)
        return np.asarray(whole & (cells == self.upper - self.lower))

    def group_weights(self, groups: Ints) -> tuple[Floats, Bools]:
        """Return the weights and the parts of some groups, shape (number of groups given, cells of the axis)."""
        row = np.full(len(self), -1)
        row[groups] = np.arange(len(groups))
        row_of_used = np.repeat(row, np.diff(np.append(self._starts, len(self._used))))
        asked = row_of_used >= 0
        inside = np.zeros((len(groups), len(self.weights)), np.bool_)
        inside[row_of_used[asked], self._used[asked]] = True
        return inside * self.weights, inside & self.parts

    def sum_groups(self, cells: Floats, axis: int) -> Floats:
        """Return the array `cells` with the kept shares of each group's cells along `axis` added up."""
        shape = [-1 if j == axis else 1 for j in range(cells.ndim)]
        weighted = np.take(cells, self._used, axis) * self.weights[self._used].reshape(shape)
        return np.asarray(np.add.reduceat(weighted, self._starts, axis))


def check_rows(axes: Sequence[AxisGroups]) -> int:
    """Return how many rows the groups of these axes make, refusing more than a frame should have."""
    rows = int(np.prod([len(axis) for axis in axes], dtype=object))
    if rows > MAX_VIEW_ROWS:
        msg = f"this view has {rows:,} rows; at most {MAX_VIEW_ROWS:,} are laid out: roll up or dice it first"
        raise QueryError(msg)
    return rows


def group_values(axes: Sequence[AxisGroups], cells: Floats) -> Floats:
    """Return the estimated count of every row, shape (rows,), from the estimated cube `cells`; without errors."""
    for axis, groups in enumerate(axes):
        if len(groups) == 0:
            return np.zeros(0)
        cells = groups.sum_groups(cells, axis)
    return cells.reshape(-1)


def first_places(axes: Sequence[AxisGroups], most: int) -> Ints:
    """Return the group of each axis of the first rows, at most so many: shape (rows, axes).

    There may be more rows in all than 64 bits count.
    """
    lengths = [len(axis) for axis in axes]
    places = np.zeros((min(most, math.prod(lengths)), len(axes)), np.int64)
    rest = np.arange(len(places))
    for axis in reversed(range(len(axes) if len(places) else 0)):
        rest, places[:, axis] = np.divmod(rest, lengths[axis])
    return places


def group_answers(
    axes: Sequence[AxisGroups], release: "Release", estimate: str, *, places: Ints | None = None
) -> Answers:
    """Return the estimated count of every row and what its error is made of, by the named estimate of `release`.

    `places` has the group of each axis of the rows that are wanted, shape (rows, axes): all rows unless given.
    """
    places = first_places(axes, check_rows(axes)) if places is None else places
    if len(places) == 0:
        return Answers(*np.zeros((3, 0)))
    ranges = np.logical_and.reduce([axis.is_range[places[:, j]] for j, axis in enumerate(axes)])
    if ranges.all():
        return release.answer(_ranges(axes, places), estimate=estimate)
    if not ranges.any():
        return _query_answers(axes, places, release, estimate)
    as_ranges = release.answer(_ranges(axes, places[ranges]), estimate=estimate)
    return as_ranges.beside(_query_answers(axes, places[~ranges], release, estimate), where=ranges)


def row_values(axes: Sequence[AxisGroups], estimate: Estimate) -> Floats:
    """Return the estimated count of every row, asked row by row; without errors."""
    places = first_places(axes, check_rows(axes))
    values = np.zeros(len(places))
    ranges = np.logical_and.reduce([axis.is_range[places[:, j]] for j, axis in enumerate(axes)])
    if ranges.any():
        values[ranges] = estimate.values(_ranges(axes, places[ranges]))
    if len(places) and not ranges.all():
        values[~ranges] = estimate.values(_queries(axes, places[~ranges]))
    return values


def _ranges(axes: Sequence[AxisGroups], places: Ints) -> Workload:
    lower = np.stack([axis.lower[places[:, j]] for j, axis in enumerate(axes)], axis=1)
    upper = np.stack([axis.upper[places[:, j]] for j, axis in enumerate(axes)], axis=1)
    return Workload(tuple(len(axis.weights) for axis in axes), lower, upper)


def _query_answers(axes: Sequence[AxisGroups], places: Ints, release: "Release", estimate: str) -> Answers:
    if len(places) > MAX_SINGLE_ANSWERS:
        msg = f"{len(places):,} rows of this view are no ranges of whole cells, and the errors of at most "
        msg += f"{MAX_SINGLE_ANSWERS:,} such rows are worked out; roll up or dice it first, or ask for errors=False"
        raise QueryError(msg)
    return Answers.asked(release.domain, release.estimate(estimate), _queries(axes, places))


def _queries(axes: Sequence[AxisGroups], places: Ints) -> CountingQueries:
    used = [np.unique(places[:, j], return_inverse=True) for j in range(len(axes))]
    made = [axis.group_weights(groups) for axis, (groups, _) in zip(axes, used, strict=True)]
    weights, parts = zip(*made, strict=True)
    return CountingQueries(weights, np.stack([chosen for _, chosen in used], axis=1), parts)
