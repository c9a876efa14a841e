"""What can be counted: noisy cells, noisy boxes of a tree, noisy tables over some attributes. One class each.

Enters: noisy counts and the units of budget that they cost. Leaves: a checked measurement that can tell its cost, its
account and its tables in a file. A new kind is one class and its place in `measurements/kinds.py`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import add_to_boxes
from dpcube.core.compiled import compiled
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DomainError
from dpcube.measurements.facts import value, whole_number_list
from dpcube.noise import noise_variances
from dpcube.trees.tree import BoxTree

MOST_UNITS = 2**61  # so that the sum of two such is a 64-bit integer
TWO_SIDED_GEOMETRIC = "two-sided geometric: P(z) proportional to exp(-units * epsilon_per_unit * |z|)"

Columns = dict[str, Ints]
"""The columns of a table of a file, by name, each of one number a row."""


class TableForm(NamedTuple):
    """What a table of a measurement must look like in a file: its columns, and its fewest and most rows."""

    columns: tuple[str, ...]
    least: int
    most: int


class CountsAlike(NamedTuple):
    """Counts of a measurement that were made with the same units: what they are of, how many, the units of each.

    Of choices there is a `spread` too, for which their noise is, and how much of a score makes `one` row or bit.
    """

    what: str
    counts: int
    units: int
    spread: int | None = None
    one: int = 1


class Measurement(ABC):
    """Something measured with noise, of which the transcript of a release holds a list."""

    __slots__ = ()
    kind: ClassVar[str]
    """Its name, in files and in `MEASUREMENT_KINDS` (`measurements/kinds.py`)."""
    table_names: ClassVar[tuple[str, ...]]
    """The names of its tables in a file."""
    law: ClassVar[str] = TWO_SIDED_GEOMETRIC
    """The law of its noise, in words; a file that states another is refused."""

    @property
    def charges_evenly(self) -> bool:
        """Whether it charges every cell of the cube the same units."""
        return True

    @abstractmethod
    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless it fits a cube of this shape."""

    @abstractmethod
    def least_and_most_units(self) -> tuple[int, ...]:
        """Return the least and the most units that any of its counts was measured with; nothing if it has no counts."""

    @abstractmethod
    def most_charged(self) -> int:
        """Return the most units that it charged any cell of the cube."""

    def add_charges(self, charges: Ints) -> None:
        """Add to each cell of an array of the cube's shape the units that it was charged, in place."""
        charges += self.most_charged()

    @abstractmethod
    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:
        """Return its counts by their units, for an account: the first `most` groups, and all others in one.

        `names` are those of the cube's attributes.
        """

    def facts(self) -> dict[str, object]:
        """Return what a file's manifest says of it, besides its kind, its law and its tables."""
        return {"units": self.most_charged()}

    @abstractmethod
    def tables(self) -> dict[str, Columns]:
        """Return its tables in a file, by `table_names`."""

    @classmethod
    @abstractmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Mapping[str, object]) -> dict[str, TableForm]:
        """Return what its tables must look like in a file of a cube of this shape, before any is read."""

    @classmethod
    @abstractmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Mapping[str, object], tables: Mapping[str, Columns]) -> Self:
        """Return the measurement that a file holds: what its manifest says and its tables."""


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts(Measurement):
    """A noisy count of every cell, each measured with the same units of budget (phase I)."""

    kind: ClassVar[str] = "cells"
    table_names: ClassVar[tuple[str, ...]] = ("cells",)
    counts: Ints
    units: int

    def __post_init__(self) -> None:
        check_counts(self.counts)
        check_spent_units("cells", self.units)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless there is one count for each cell of the shape."""
        if self.counts.shape != shape:
            msg = f"cells of shape {self.counts.shape} do not fit a cube of shape {shape}"
            raise DomainError(msg)

    def least_and_most_units(self) -> tuple[int, ...]:
        """Return the units of every count."""
        return (self.units,)

    def most_charged(self) -> int:
        """Return the units: every cell is in one count."""
        return self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:  # noqa: ARG002
        """Return all counts in one group."""
        return [CountsAlike("every cell", self.counts.size, self.units)]

    def tables(self) -> dict[str, Columns]:
        """Return the counts in the order of the cube's cells, the last attribute fastest."""
        return {"cells": {"noisy_count": self.counts.reshape(-1)}}

    @classmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Mapping[str, object]) -> dict[str, TableForm]:  # noqa: ARG003
        """Return the form of a table of one row for each cell."""
        return {"cells": TableForm(("noisy_count",), math.prod(shape), math.prod(shape))}

    @classmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Mapping[str, object], tables: Mapping[str, Columns]) -> Self:
        """Return the cells of a file."""
        return cls(tables["cells"]["noisy_count"].reshape(shape), value(facts, "units", int))


@dataclass(frozen=True, slots=True, eq=False)
class MarginalCounts(Measurement):
    """A noisy table over some attributes, each of its cells measured with the same units of budget.

    `axes` are the numbers of the attributes, ascending, and `counts` has one axis for each of them; no axes is the
    count of the whole table. Every cell of the cube is in exactly one cell of the table, and so is charged its units.
    """

    kind: ClassVar[str] = "marginal"
    table_names: ClassVar[tuple[str, ...]] = ("marginal",)
    axes: tuple[int, ...]
    counts: Ints
    units: int

    def __post_init__(self) -> None:
        check_counts(self.counts)
        check_spent_units("a marginal", self.units)
        plain = all(type(axis) is int and axis >= 0 for axis in self.axes)
        if not plain or sorted(set(self.axes)) != list(self.axes):
            msg = f"the axes of a marginal must be numbers of attributes from 0, ascending, got {self.axes!r:.50}"
            raise DomainError(msg)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless there is one count for each cell of the shape's axes."""
        wanted = tuple(shape[axis] for axis in self.axes if axis < len(shape))
        if len(wanted) != len(self.axes) or self.counts.shape != wanted:
            msg = f"a marginal of shape {self.counts.shape} over axes {self.axes} does not fit a cube of shape {shape}"
            raise DomainError(msg)

    def least_and_most_units(self) -> tuple[int, ...]:
        """Return the units of every count."""
        return (self.units,)

    def most_charged(self) -> int:
        """Return the units: every cell of the cube is in one count."""
        return self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:  # noqa: ARG002
        """Return all counts in one group."""
        what = f"every cell of the table of {', '.join(names[axis] for axis in self.axes)}"
        return [CountsAlike(what if self.axes else "the whole", self.counts.size, self.units)]

    def facts(self) -> dict[str, object]:
        """Return the axes and the units."""
        return {"axes": list(self.axes), "units": self.units}

    def tables(self) -> dict[str, Columns]:
        """Return the counts in the order of the table's cells, the last axis fastest."""
        return {"marginal": {"noisy_count": self.counts.reshape(-1)}}

    @classmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Mapping[str, object]) -> dict[str, TableForm]:
        """Return the form of a table of one row for each cell of the axes: no more than the cube has."""
        rows = math.prod(kept(shape, whole_number_list(facts, "axes")))
        return {"marginal": TableForm(("noisy_count",), rows, rows)}

    @classmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Mapping[str, object], tables: Mapping[str, Columns]) -> Self:
        """Return the marginal of a file."""
        axes = whole_number_list(facts, "axes")
        counts = tables["marginal"]["noisy_count"].reshape(kept(shape, axes))
        return cls(axes, counts, value(facts, "units", int))


def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of some axes of a cube; raise DomainError unless they are, and each named once."""
    if not set(axes) <= set(range(len(shape))) or len(set(axes)) != len(axes):
        msg = f"a marginal's axes must be among the {len(shape)} axes of the cube, each once"
        raise DomainError(msg)
    return tuple(shape[axis] for axis in axes)


@dataclass(frozen=True, slots=True, eq=False)
class BoxCounts(Measurement):
    """Noisy counts of nodes of a tree of boxes (phase II): row k says node `node[k]` was measured with `units[k]`."""

    kind: ClassVar[str] = "boxes"
    table_names: ClassVar[tuple[str, ...]] = ("tree", "boxes")
    tree: BoxTree
    node: Ints
    counts: Ints
    units: Ints

    def __post_init__(self) -> None:
        for column in (self.node, self.counts, self.units):
            check_counts(column)
            if column.shape != self.node.shape or column.ndim != 1:
                msg = "the columns of measured boxes must have one length"
                raise DomainError(msg)
        if len(self.node) and not (self.node.min() >= 0 and self.node.max() < len(self.tree.parent)):
            msg = f"measured boxes must be nodes 0 to {len(self.tree.parent) - 1} of the tree"
            raise DomainError(msg)
        if len(self.units) and not (self.units.min() > 0 and self.units.max() <= BUDGET_UNITS):
            msg = f"boxes must be measured with 1 to {BUDGET_UNITS} units"
            raise DomainError(msg)

    @property
    def charges_evenly(self) -> bool:
        """Boxes are charged each by its own units."""
        return False

    def by_node(self, epsilon_per_unit: Fraction) -> tuple[Floats, Floats]:
        """Return each node's measured count and its noise variance: repeated measurements pooled, none infinite."""
        precision = np.zeros(len(self.tree.parent))
        weighted = np.zeros(len(self.tree.parent))
        weight = 1 / noise_variances(self.units, epsilon_per_unit)
        np.add.at(precision, self.node, weight)
        np.add.at(weighted, self.node, weight * self.counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(precision > 0, weighted / precision, 0.0), 1 / precision

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless the tree divides a cube of this shape."""
        if self.tree.shape != shape:
            msg = f"boxes in shape {self.tree.shape} do not fit a cube of shape {shape}"
            raise DomainError(msg)

    def least_and_most_units(self) -> tuple[int, ...]:
        """Return the least and the most units of any row."""
        return (int(self.units.min()), int(self.units.max())) if len(self.units) else ()

    def most_charged(self) -> int:
        """Return the most units that any cell was charged: the largest sum along a path from the root to a leaf.

        A sum is exact up to 2^61, and then stays there.
        """
        return int(_path_sums(self.tree.parent, self.node, self.units).max())

    def add_charges(self, charges: Ints) -> None:
        """Add to each cell what the boxes around it were measured with: the sum from the root to its leaf."""
        leaves = self.tree.leaves
        add_to_boxes(charges, self.tree.boxes(leaves), _path_sums(self.tree.parent, self.node, self.units)[leaves])

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:  # noqa: ARG002
        """Return the counts by what was spent on each, in the order in which they were made."""
        level = self.tree.levels[self.node]
        distinct, first = np.unique(self.units, return_index=True)
        order = distinct[np.argsort(first)]
        found = []
        for units in order[:most].tolist():
            alike = self.units == units
            found.append(CountsAlike(_after_cuts(level[alike]), int(alike.sum()), units))
        if len(order) > most:
            rest = np.isin(self.units, order[most:])
            found.append(CountsAlike("other boxes, with at most", int(rest.sum()), int(self.units[rest].max())))
        return found

    def tables(self) -> dict[str, Columns]:
        """Return the nodes of the tree with their bounds, and the counts that were made of them."""
        tree, axes = self.tree, range(len(self.tree.shape))
        bounds = {f"lower_{j}": tree.lower[:, j] for j in axes} | {f"upper_{j}": tree.upper[:, j] for j in axes}
        counted = {"node": self.node, "noisy_count": self.counts, "units": self.units}
        return {"tree": {"parent": tree.parent, **bounds}, "boxes": counted}

    @classmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Mapping[str, object]) -> dict[str, TableForm]:  # noqa: ARG003
        """Return the forms of a tree, whose leaves are no more than the cells, and of rows about its nodes."""
        cells = math.prod(shape)
        return {
            "tree": TableForm(("parent", *_bounds("lower", shape), *_bounds("upper", shape)), 0, 2 * cells),
            "boxes": TableForm(("node", "noisy_count", "units"), 0, 64 * cells),
        }

    @classmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Mapping[str, object], tables: Mapping[str, Columns]) -> Self:  # noqa: ARG003
        """Return the boxes of a file."""
        nodes, counted = tables["tree"], tables["boxes"]
        lower, upper = (np.stack([nodes[name] for name in _bounds(end, shape)], axis=1) for end in ("lower", "upper"))
        tree = BoxTree(shape, lower, upper, nodes["parent"])
        return cls(tree, counted["node"], counted["noisy_count"], counted["units"])


def _bounds(end: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{end}_{axis}" for axis in range(len(shape))]


def _after_cuts(level: Ints) -> str:
    """Say after how many cuts of the whole boxes come."""
    low, high = int(level.min()), int(level.max())
    if high == 0:
        return "the whole"
    cuts = f"{low} to {high} cuts" if low < high else "1 cut" if low == 1 else f"{low} cuts"
    return f"boxes after {cuts}"


@compiled
def _path_sums(parent: Ints, node: Ints, units: Ints) -> Ints:
    """Return for each node of a tree the units spent on it and on all nodes above it."""
    charged = np.zeros(len(parent), np.int64)
    for row in range(len(node)):
        charged[node[row]] = min(charged[node[row]] + units[row], MOST_UNITS)
    for child in range(1, len(parent)):
        charged[child] = min(charged[child] + charged[parent[child]], MOST_UNITS)
    return charged


def check_counts(counts: Ints) -> None:
    """Raise DomainError unless these are 64-bit integers; nobody can change them from here on."""
    if counts.dtype != np.int64:
        msg = f"measured counts must be 64-bit integers, got {counts.dtype}"
        raise DomainError(msg)
    counts.setflags(write=False)


def check_spent_units(what: str, units: int) -> None:
    """Raise DomainError unless something can have been measured with these units."""
    # A plain integer, as the manifest holds it: a NumPy one would be found out when the budget is spent.
    if type(units) is not int or not 0 < units <= BUDGET_UNITS:
        msg = f"{what} must be measured with 1 to {BUDGET_UNITS} units, got {units!r:.50}"
        raise DomainError(msg)
