"""The OLAP verbs: a view is a release with some cells kept and each attribute at a level of its hierarchy.

Views are values: each verb returns another view and computes nothing; `table` and the conversions use the release's one
estimate. A view starts with every attribute at its cells; an attribute rolled up past its coarsest level is at "all".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcube.core.domain import Attribute, Scalar, ValueSet
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.hierarchy import TOTAL
from dpcube.core.errors import DomainError, QueryError
from dpcube.queries import Condition
from dpcube.queries.counting import select
from dpcube.queries.expression import parse
from dpcube.release import frames
from dpcube.release.groups import AxisGroups

if TYPE_CHECKING:
    from dpcube.release.release import Release


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
