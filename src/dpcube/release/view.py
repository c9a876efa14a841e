"""The OLAP verbs: a view is a release with some cells selected and each attribute at a level of its hierarchy.

Views are values: each verb returns another view and computes nothing; `table` and the conversions use the release's one
estimate. A view starts with every attribute at its cells; an attribute rolled up past its coarsest level is at "all".

A row of a view is one group of cells of every axis; the groups follow from the selected cells and the level. Where all
groups of a row are runs of whole cells, the row is a range query; otherwise (a region of scattered countries, a bin cut
by a condition) it is a counting query.
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
from collections.abc import Mapping
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcube.core.domain import Scalar, ValueSet
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.hierarchy import TOTAL
from dpcube.core.errors import DomainError
from dpcube.queries import Condition
from dpcube.queries.counting import select
from dpcube.queries.expression import parse
from dpcube.release import frames

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View:
    """A view of a release: the selected cells of each attribute, and the level of its hierarchy by which it is grouped.

    `estimate` names the estimate that answers. `kept` has the selection of each attribute by name: all of it where a
    name is missing. `levels` are the numbers of the levels: 0, where a name is missing, is the cells; one past the last
    is "all", where the attribute is not grouped by.
    """

    release: "Release"
    estimate: str = "auto"
    kept: Mapping[str, ValueSet] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = [f"{name} by {level}" for name, level in self.grouping.items() if level != TOTAL]
        return f"<View of {', '.join(shown) or 'the total'}{'; diced' if self.kept else ''}>"

    def _repr_html_(self) -> str:
        from dpcube.release.notebook import view_html

        return view_html(self)

    @property
    def grouping(self) -> dict[str, str]:
        """The level of each attribute by name, `"all"` where it is rolled up."""
        return {a.name: _names(a)[self.levels.get(a.name, 0)] for a in self.release.domain.attributes}

    def slice(self, conditions: Mapping[str, Scalar] | None = None, /, **more: Scalar) -> "View":
        """Keep one member of each named attribute, a value or the name of a group, and leave the attribute out."""
        chosen = {**(conditions or {}), **more}
        for name, value in chosen.items():
            if isinstance(value, tuple | list | set | frozenset):
                msg = f"slice keeps one member of '{name}', got {value!r}; use dice for ranges and lists"
                raise QueryError(msg)
        return self.dice(chosen)._at({name: len(_names(self._attribute(name))) - 1 for name in chosen})

    def dice(self, question: str | Mapping[str, Condition] | None = None, /, **conditions: Condition) -> "View":
        """Keep the cells that meet every condition; as in `count`, and a value may be the name of a group."""
        chosen = {**question, **conditions} if isinstance(question, Mapping) else conditions
        met = {name: _selected(self._attribute(name), condition) for name, condition in chosen.items()}
        for name, selection in (parse(question, self.release.domain) if isinstance(question, str) else {}).items():
            met[name] = met[name] & selection if name in met else selection
        for name in met.keys() & self.kept.keys():
            met[name] = met[name] & self.kept[name]
        return replace(self, kept={**self.kept, **met})

    def roll_up(self, /, *names: str, **levels: str) -> "View":
        """Move each named attribute one level up, or to the level given, which must not be finer."""
        return self._moved(names, levels, step=1)

    def drill_down(self, /, *names: str, **levels: str) -> "View":
        """Move each named attribute one level down, or to the level given, which must not be coarser."""
        return self._moved(names, levels, step=-1)

    def group_by(self, /, *names: str, **levels: str) -> "View":
        """Tell apart exactly the named attributes, at their cells or at the level given; roll up all others."""
        everywhere = {a.name: len(_names(a)) - 1 for a in self.release.domain.attributes}
        finest = {self._attribute(name).name: 0 for name in names}
        return self._at({**everywhere, **finest, **{name: self._level(name, level) for name, level in levels.items()}})

    def pivot(
        self, rows: str, columns: str, *, measures: Sequence[str] = ("value", "stderr"), confidence: float = 0.95
    ) -> pa.Table:
        """Return a wide table: a row for each group of one attribute, columns for each group of another.

        Other attributes are rolled up. The column of a value has the name of its group; that of another measure
        (stderr, low, high) the group's and the measure's.
        """
        if rows == columns:
            msg = f"a pivot table needs two attributes, got '{rows}' twice"
            raise QueryError(msg)
        at = {name: self.grouping[self._attribute(name).name] for name in (rows, columns)}
        fine = [name for name, level in at.items() if level == TOTAL]
        shown = self.group_by(*fine, **{name: level for name, level in at.items() if level != TOTAL})
        return frames.pivot(shown, rows, measures=measures, confidence=confidence)

    def groups(self) -> list[AxisGroups]:
        """Return the groups along each axis."""
        axes = []
        for attribute in self.release.domain.attributes:
            kept = self.kept.get(attribute.name, attribute.everything())
            levels, at = attribute.levels(), self.levels.get(attribute.name, 0)
            level = levels[at] if at < len(levels) else None
            axes.append(AxisGroups(attribute, level, attribute.weights(kept), attribute.parts(kept)))
        return axes

    def table(self, *, errors: bool = True, confidence: float = 0.95) -> pa.Table:
        """Return a row for each combination of groups: their names, value, and with errors stderr, low and high."""
        return frames.table(self, errors=errors, confidence=confidence)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the table to any library that reads Arrow streams."""
        return self.table().__arrow_c_stream__(requested_schema)

    def to_pandas(self, *, errors: bool = True, confidence: float = 0.95) -> Any:
        """Return `table` as a pandas DataFrame."""
        return frames.to_pandas(self.table(errors=errors, confidence=confidence))

    def to_polars(self, *, errors: bool = True, confidence: float = 0.95) -> Any:
        """Return `table` as a Polars DataFrame."""
        return frames.to_polars(self.table(errors=errors, confidence=confidence))

    def to_xarray(self, *, errors: bool = True, confidence: float = 0.95) -> Any:
        """Return an xarray Dataset: a dimension for each attribute grouped by, the measures as variables."""
        return frames.to_xarray(self, errors=errors, confidence=confidence)

    def to_hist(self, *, errors: bool = True) -> Any:
        """Return a Scikit-HEP histogram; with errors, its variances are the squares of all expected error."""
        return frames.to_hist(self, errors=errors)

    def _moved(self, names: tuple[str, ...], levels: Mapping[str, str], *, step: int) -> "View":
        moved: dict[str, int] = {}
        for name in names:
            allowed, now = _names(self._attribute(name)), moved.get(name, self.levels.get(name, 0))
            moved[name] = now + step
            if not 0 <= moved[name] < len(allowed):
                msg = f"attribute '{name}' is at its {'coarsest' if step > 0 else 'finest'} level, '{allowed[now]}'"
                raise QueryError(msg)
        for name, level in levels.items():
            moved[name], now = self._level(name, level), self.levels.get(name, 0)
            if step * (moved[name] - now) < 0:
                other, finer = ("drill_down", "finer") if step > 0 else ("roll_up", "coarser")
                msg = f"level '{level}' of '{name}' is {finer} than '{self.grouping[name]}', where it is; use {other}"
                raise QueryError(msg)
        return self._at(moved)

    def _at(self, levels: Mapping[str, int]) -> "View":
        return replace(self, levels={**self.levels, **levels})

    def _level(self, name: str, level: str) -> int:
        allowed = _names(self._attribute(name))
        if level not in allowed:
            msg = f"attribute '{name}' has no level {level!r}; its levels are {listing(allowed)}"
            raise QueryError(msg)
        return allowed.index(level)

    def _attribute(self, name: str) -> Attribute:
        try:
            return self.release.domain[name]
        except DomainError as error:
            raise QueryError(str(error)) from None


def _names(attribute: Attribute) -> list[str]:
    return [*(level.name for level in attribute.levels()), TOTAL]


def _selected(attribute: Attribute, condition: Condition) -> ValueSet:
    """Return what a condition selects, where a text may name a group of any level."""
    if isinstance(condition, str):
        group = attribute.group_named(condition)
        return attribute.equal(condition) if group is None else group
    if isinstance(condition, list | set | frozenset) and condition:
        return reduce(ValueSet.__or__, (_selected(attribute, value) for value in condition))
    return select(attribute, condition)
