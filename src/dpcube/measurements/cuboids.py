"""Tables over few attributes of a wide table, counted in groups of cells, and the private choices that led to them.

Enters: the groups of every attribute's cells, the noisy tables in their order. Leaves: one measurement. A wide table's
cube is too large to hold, so a release of it is its tables over one attribute each (`MarginalCounts`) and one of these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.counter import MOST_TABLE_CELLS
from dpcube.core.errors import DomainError
from dpcube.measurements.facts import value, whole_number_list
from dpcube.measurements.measurements import (
    TWO_SIDED_GEOMETRIC,
    Columns,
    CountsAlike,
    Measurement,
    TableForm,
    check_counts,
    check_spent_units,
    kept,
)

MOST_CUBOIDS = 1024
SPREAD = 2
"""Of the scores by which a cuboid is chosen: distances of tables from what was predicted, each of weight 1."""


class Cuboid(NamedTuple):
    """A noisy table over some attributes, and the units that it cost: to count it, and to choose it among others.

    What the others were is public, and so is what was predicted of them: it follows from the tables before.
    """

    axes: tuple[int, ...]
    counts: Ints
    units: int
    among: int = 1
    choice_units: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CuboidCounts(Measurement):
    """Noisy tables over some attributes each, in the order in which they were chosen and counted.

    `groups` has the group of every cell of each attribute, numbered from 0: tables count groups, not cells. Every row
    is in one cell of every table, so a cell of the cube is charged the units of all of them.
    """

    kind: ClassVar[str] = "cuboids"
    table_names: ClassVar[tuple[str, ...]] = ("groups", "cuboids")
    law: ClassVar[str] = (
        f"{TWO_SIDED_GEOMETRIC}; choices by report-noisy-max: the first highest of score + g, P(g) proportional to "
        f"exp(-choice_units * epsilon_per_unit * g / {SPREAD}) for g = 0, 1, 2, ..."
    )
    groups: tuple[Ints, ...]
    cuboids: tuple[Cuboid, ...]

    def __post_init__(self) -> None:
        for of_axis in self.groups:
            check_counts(of_axis)
            if of_axis.ndim != 1 or not len(of_axis) or not np.array_equal(np.unique(of_axis), _numbers(of_axis)):
                msg = "the groups of an attribute's cells must be numbered from 0, without a gap"
                raise DomainError(msg)
        if len(self.cuboids) > MOST_CUBOIDS:
            msg = f"a release holds {MOST_CUBOIDS:,} cuboids at most, got {len(self.cuboids):,}"
            raise DomainError(msg)
        for cuboid in self.cuboids:
            self._check(cuboid)

    def _check(self, cuboid: Cuboid) -> None:
        check_counts(cuboid.counts)
        check_spent_units("a cuboid", cuboid.units)
        if cuboid.choice_units or cuboid.among != 1:
            check_spent_units("the choice of a cuboid", cuboid.choice_units)
        if type(cuboid.among) is not int or not 1 <= cuboid.among <= 2**31:
            msg = "a cuboid must be chosen among a whole number of them, 1 or more"
            raise DomainError(msg)
        if list(cuboid.axes) != sorted(cuboid.axes) or not cuboid.axes:
            msg = "the attributes of a cuboid must be one or more, ascending"
            raise DomainError(msg)
        if cuboid.counts.shape != kept(self.sides, cuboid.axes):
            msg = "a cuboid must have a count for each of its groups"
            raise DomainError(msg)

    @property
    def sides(self) -> tuple[int, ...]:
        """How many groups each attribute has: the shape of the coarser cube."""
        return tuple(int(of_axis.max()) + 1 for of_axis in self.groups)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless there is a group for each cell of every axis."""
        if tuple(map(len, self.groups)) != shape:
            msg = f"groups of {len(self.groups)} attributes do not fit a cube of {len(shape)}, or have other cells"
            raise DomainError(msg)

    def least_and_most_units(self) -> tuple[int, ...]:
        """Return the least and the most units of a table or of a choice, whose noise is for the spread."""
        spent = [cuboid.units for cuboid in self.cuboids]
        spent += [cuboid.choice_units // SPREAD for cuboid in self.cuboids if cuboid.choice_units]
        return (min(spent), max(spent)) if spent else ()

    def most_charged(self) -> int:
        """Return the units of all tables and choices: every cell is in all of them."""
        return sum(cuboid.units + cuboid.choice_units for cuboid in self.cuboids)

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:
        """Return the tables with the most counts by name, then those that are left, and the choices."""
        told = [
            CountsAlike(
                f"every cell of the table of {', '.join(names[axis] for axis in cuboid.axes)}",
                cuboid.counts.size,
                cuboid.units,
            )
            for cuboid in self.cuboids
        ]
        if len(told) > most:
            rest, told = told[most:], told[:most]
            more = "more" if most else "every cell of"
            told.append(CountsAlike(f"{more} {len(rest)} tables", sum(one.counts for one in rest), rest[0].units))
        chosen = [cuboid for cuboid in self.cuboids if cuboid.choice_units]
        if chosen:
            what = f"which of up to {max(one.among for one in chosen):,} tables departs most from its prediction"
            told.append(CountsAlike(what, len(chosen), chosen[0].choice_units, spread=SPREAD))
        return told

    def facts(self) -> dict[str, object]:
        """Return the units of all, the number of groups of each attribute, and what each table is."""
        listed = [
            {"axes": list(one.axes), "units": one.units, "among": one.among, "choice_units": one.choice_units}
            for one in self.cuboids
        ]
        return {"units": self.most_charged(), "sides": list(self.sides), "cuboids": listed}

    def tables(self) -> dict[str, Columns]:
        """Return the group of every cell, attribute after attribute, and the counts, table after table."""
        counts = [np.empty(0, np.int64), *(cuboid.counts.reshape(-1) for cuboid in self.cuboids)]
        return {"groups": {"group": np.concatenate(self.groups)}, "cuboids": {"noisy_count": np.concatenate(counts)}}

    @classmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Mapping[str, object]) -> dict[str, TableForm]:
        """Return the forms of one row for every cell of each attribute, and of one for each count."""
        sides = whole_number_list(facts, "sides")
        if len(sides) != len(shape) or not all(1 <= side <= cells for side, cells in zip(sides, shape, strict=True)):
            msg = "its groups are not as many as its attributes have cells"
            raise DomainError(msg)
        rows = 0
        for axes in _axes_of(facts):
            cells = math.prod(kept(sides, axes))
            if cells > MOST_TABLE_CELLS:
                msg = f"one of its cuboids has {cells:,} cells, and at most {MOST_TABLE_CELLS:,} are counted at once"
                raise DomainError(msg)
            rows += cells
        return {
            "groups": TableForm(("group",), sum(shape), sum(shape)),
            "cuboids": TableForm(("noisy_count",), rows, rows),
        }

    @classmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Mapping[str, object], tables: Mapping[str, Columns]) -> Self:
        """Return the cuboids of a file."""
        sides, listed = whole_number_list(facts, "sides"), _axes_of(facts)
        groups = tuple(np.split(tables["groups"]["group"], np.cumsum(shape)[:-1]))
        shapes = [kept(sides, axes) for axes in listed]
        flat = np.split(tables["cuboids"]["noisy_count"], np.cumsum([math.prod(one) for one in shapes])[:-1])
        made = []
        for one, axes, part, counted in zip(_entries(facts), listed, flat, shapes, strict=False):
            units, among, choice = (value(one, name, int) for name in ("units", "among", "choice_units"))
            made.append(Cuboid(axes, part.reshape(counted), units, among, choice))
        found = cls(groups, tuple(made))
        if found.sides != sides:
            msg = "its groups are not as many as its manifest says"
            raise DomainError(msg)
        return found


def _numbers(of_axis: Ints) -> Ints:
    # At most as many groups as cells: a number that is out of reach would make a long list.
    return np.arange(min(int(of_axis.max()) + 1, len(of_axis)))


def _entries(facts: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = value(facts, "cuboids", list)
    if len(listed) > MOST_CUBOIDS:
        msg = f"it lists {len(listed):,} cuboids, and a release holds {MOST_CUBOIDS:,} at most"
        raise DomainError(msg)
    return [value({"cuboids": one}, "cuboids", dict) for one in listed]


def _axes_of(facts: Mapping[str, object]) -> list[tuple[int, ...]]:
    return [whole_number_list(one, "axes") for one in _entries(facts)]
