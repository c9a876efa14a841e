"""The three kinds of measurement: noisy marginals, noisy counts of boxes, and selections by report-noisy-max."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes, add_to_boxes, first_meeting
from dpcube.core.candidates import Candidates
from dpcube.core.compiled import compiled
from dpcube.core.counter import BUDGET_UNITS, MAX_TABLE_CELLS
from dpcube.core.domain.text import is_text
from dpcube.core.errors import DomainError
from dpcube.measurements.measurement import (
    CellGroups,
    CountsAlike,
    Facts,
    Form,
    Measurement,
    NamedArrays,
    check_counts,
    check_spent_units,
    exactly,
    kept,
    value,
    whole_number_list,
)
from dpcube.noise import noise_variances
from dpcube.trees.tree import BoxTree

MAX_SUMMED_UNITS = 2**61  # so that the sum of two such is a 64-bit integer
MAX_BOXES_PER_CELL = 64
REPORT_NOISY_MAX = (
    "report-noisy-max: the first highest of score + g, P(g) proportional to "
    "exp(-units * epsilon_per_unit * g / sensitivity) for g = 0, 1, 2, ..."
)


@dataclass(frozen=True, slots=True, eq=False)
class Marginal(Measurement):
    """A noisy marginal over some attributes, all of its counts with the same units of budget.

    `axes` are the numbers of the attributes, ascending, and `counts` has one axis for each: with all axes it has the
    cells of the cube, with no axes the total. With `groups` it is a marginal of the coarser cube. Every cell of the
    cube is in exactly one count, and so is charged its units.
    """

    kind: ClassVar[str] = "marginal"
    axes: tuple[int, ...]
    counts: Ints
    units: int
    groups: CellGroups | None = None

    def __post_init__(self) -> None:
        check_counts(self.counts)
        check_spent_units("a marginal", self.units)
        plain = all(type(axis) is int and axis >= 0 for axis in self.axes)
        if not plain or sorted(set(self.axes)) != list(self.axes):
            msg = f"the axes of a marginal must be numbers of attributes from 0, ascending, got {self.axes!r:.50}"
            raise DomainError(msg)
        if self.groups is not None and not self.axes:
            msg = "a marginal of groups is over one or more attributes"
            raise DomainError(msg)

    @classmethod
    def from_cells(cls, counts: Ints, units: int) -> Self:
        """Return the marginal over all attributes: a noisy count of every cell of the cube."""
        return cls(tuple(range(counts.ndim)), counts, units)

    def covers(self, shape: tuple[int, ...]) -> bool:
        """Return whether it counts every single cell of a cube of this shape."""
        return self.groups is None and len(self.axes) == len(shape)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless there is one count for each cell, or group of cells, of the shape's axes."""
        if self.groups is not None and self.groups.shape != shape:
            msg = f"groups of cells of a cube of shape {self.groups.shape} do not fit one of shape {shape}"
            raise DomainError(msg)
        sides = shape if self.groups is None else self.groups.sides
        wanted = tuple(sides[axis] for axis in self.axes if axis < len(sides))
        if len(wanted) != len(self.axes) or self.counts.shape != wanted:
            msg = f"a marginal of shape {self.counts.shape} over axes {self.axes} does not fit a cube of shape {sides}"
            raise DomainError(msg)

    @property
    def noisy(self) -> Ints:
        """The counts."""
        return self.counts

    def counted(self, shape: tuple[int, ...]) -> str:
        """Return that it counted every cell, if it did."""
        return "every cell" if self.covers(shape) else ""

    def noise_units(self) -> tuple[Fraction, ...]:
        """Return the units of every count."""
        return (Fraction(self.units),)

    def most_charged(self) -> int:
        """Return the units: every cell of the cube is in one count."""
        return self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:  # noqa: ARG002
        """Return all counts in one group."""
        if not self.axes:
            return [CountsAlike("the whole", 1, self.units)]
        what = "every cell" if self.groups is None else "every group of cells"
        if self.groups is not None or len(self.axes) < len(names):
            what += f" of the table of {', '.join(names[axis] for axis in self.axes)}"
        return [CountsAlike(what, self.counts.size, self.units)]

    def facts(self) -> dict[str, object]:
        """Return the axes, the units, and whether it counts groups."""
        return {"axes": list(self.axes), "units": self.units, "grouped": self.groups is not None}

    def arrays(self) -> NamedArrays:
        """Return the counts."""
        return {"counts": self.counts}

    @classmethod
    def forms(cls, shape: tuple[int, ...], sides: tuple[int, ...], facts: Facts) -> dict[str, Form]:
        """Return the form of one count for each cell, or group of cells, of the axes: no more than the cube has."""
        grouped = value(facts, "grouped", bool)
        if grouped and not sides:
            msg = "it has a marginal of groups and no groups"
            raise DomainError(msg)
        counted = kept(sides if grouped else shape, whole_number_list(facts, "axes"))
        if grouped and math.prod(counted) > MAX_TABLE_CELLS:
            msg = f"one of its marginals of groups has {math.prod(counted):,} counts, and at most "
            msg += f"{MAX_TABLE_CELLS:,} are counted at once"
            raise DomainError(msg)
        return {"counts": exactly(*counted)}

    @classmethod
    def lays_out(cls, facts: Facts, axes: int) -> bool:
        """Return whether it is of every cell; marginals over some of the axes take what they are."""
        return not value(facts, "grouped", bool) and len(value(facts, "axes", list)) >= axes

    @classmethod
    def from_arrays(cls, shape: tuple[int, ...], groups: CellGroups | None, facts: Facts, arrays: NamedArrays) -> Self:  # noqa: ARG003
        """Return the marginal of a file."""
        of = groups if value(facts, "grouped", bool) else None
        return cls(whole_number_list(facts, "axes"), arrays["counts"], value(facts, "units", int), of)


@dataclass(frozen=True, slots=True, eq=False)
class BoxCounts(Measurement):
    """Noisy counts of nodes of a tree of boxes: row k says node `node[k]` was measured with `units[k]`."""

    kind: ClassVar[str] = "boxes"
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
    def noisy(self) -> Ints:
        """The counts."""
        return self.counts

    @property
    def charges_evenly(self) -> bool:
        """Boxes are charged each by its own units."""
        return False

    def counted(self, shape: tuple[int, ...]) -> str:  # noqa: ARG002
        """Return how many boxes it counted."""
        return f"{len(np.unique(self.node)):,} boxes of cells"

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

    def noise_units(self) -> tuple[Fraction, ...]:
        """Return the least and the most units of any row."""
        return (Fraction(int(self.units.min())), Fraction(int(self.units.max()))) if len(self.units) else ()

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

    def arrays(self) -> NamedArrays:
        """Return the nodes of the tree with their bounds, and the counts that were made of them.

        Nodes are encoded as differences from the node, or the row, before: such numbers are small and compress well.
        """
        tree = self.tree
        above = np.arange(len(tree)) - np.maximum(tree.parent, 0)
        bounds = {"lower": np.ascontiguousarray(tree.lower.T), "upper": np.ascontiguousarray(tree.upper.T)}
        return {"above": above, **bounds, "step": steps(self.node), "counts": self.counts, "units": self.units}

    @classmethod
    def forms(cls, shape: tuple[int, ...], sides: tuple[int, ...], facts: Facts) -> dict[str, Form]:  # noqa: ARG003
        """Return the forms of a tree, whose leaves are no more than the cells, and of rows about its nodes."""
        cells = math.prod(shape)
        nodes, rows = range(1, 2 * cells + 1), range(MAX_BOXES_PER_CELL * cells + 1)
        bounds = (range(len(shape), len(shape) + 1), nodes)
        return {
            "above": (nodes,),
            "lower": bounds,
            "upper": bounds,
            **dict.fromkeys(("step", "counts", "units"), (rows,)),
        }

    @classmethod
    def from_arrays(cls, shape: tuple[int, ...], groups: CellGroups | None, facts: Facts, arrays: NamedArrays) -> Self:  # noqa: ARG003
        """Return the boxes of a file."""
        parent = np.arange(len(arrays["above"])) - arrays["above"]
        parent[0] = arrays["above"][0] - 1
        tree = BoxTree(shape, arrays["lower"].T, arrays["upper"].T, parent)
        return cls(tree, np.cumsum(arrays["step"]), arrays["counts"], arrays["units"])


@dataclass(frozen=True, slots=True, eq=False)
class Selection(Measurement):
    """Report-noisy-max: for each of some questions, which of its candidates was selected by a noisy score.

    A question had `candidates[k]` candidates, of which number `chosen[k]` was selected; `axes[k]` are the attributes
    that the selected one is about: those of a marginal, that of a cut. `boxes` contain every cell on which a score
    depends, and a cell in any is charged once; None is the whole cube. The inputs of the scores, such as
    predictions, are not stored: they follow from the measurements before, and no estimate uses them.
    """

    kind: ClassVar[str] = "selection"
    law: ClassVar[str] = REPORT_NOISY_MAX
    score: str
    candidates: Ints
    chosen: Ints
    axes: Ints
    units: int
    sensitivity: int
    boxes: Boxes | None = None

    def __post_init__(self) -> None:
        for column in (self.candidates, self.chosen, self.axes):
            check_counts(column)
        check_spent_units("a selection", self.units)
        if not (is_text(self.score) and self.score.isprintable() and 0 < len(self.score) <= 100):
            msg = "the score of a selection must be named by printable text of up to 100 characters"
            raise DomainError(msg)
        # A plain integer below 2^63 for the same reason as the units (`check_spent_units`).
        if type(self.sensitivity) is not int or not 1 <= self.sensitivity < 2**63:
            msg = f"the sensitivity of a score must be a whole number from 1, got {self.sensitivity!r:.50}"
            raise DomainError(msg)
        asked = self.candidates.shape
        if len(asked) != 1 or asked[0] < 1 or (self.candidates < 1).any():
            msg = "a selection needs one question or more, each with one candidate or more"
            raise DomainError(msg)
        if self.chosen.shape != asked or not ((self.chosen >= 0) & (self.chosen < self.candidates)).all():
            msg = f"a selection must name one of the candidates of each of its {asked[0]:,} questions"
            raise DomainError(msg)
        if self.axes.ndim != 2 or len(self.axes) != asked[0] or (np.diff(self.axes, axis=1) <= 0).any():
            msg = "a selection must name the axes of the candidate selected, ascending, for each of its questions"
            raise DomainError(msg)
        self._check_boxes()

    def _check_boxes(self) -> None:
        """Raise DomainError unless no cell is in two questions: it is charged for one."""
        asked = len(self.candidates)
        if asked > 1 and (self.boxes is None or len(self.boxes) != asked):
            msg = f"a selection with {asked:,} questions needs as many boxes that they are about"
            raise DomainError(msg)
        if self.boxes is not None and asked > 1 and first_meeting(self.boxes) >= 0:
            msg = "the boxes of the questions of one selection must be disjoint"
            raise DomainError(msg)

    @classmethod
    def among(cls, candidates: Candidates, chosen: Ints, axes: Sequence[Sequence[int]] | Ints, units: int) -> Self:
        """Return what the gate selected among some candidates, which were about these axes."""
        about = np.array(axes, np.int64).reshape(len(chosen), -1)
        sizes, sensitivity = candidates.sizes, candidates.sensitivity
        return cls(candidates.score, sizes, chosen, about, units, sensitivity, candidates.covered)

    @property
    def noisy(self) -> Ints:
        """Which candidate was selected for each question."""
        return self.chosen

    @property
    def charges_evenly(self) -> bool:
        """Whether its scores depend on every cell by their nature."""
        return self.boxes is None

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless its questions are about a cube of this shape."""
        fits = self.axes.size == 0 or (self.axes.min() >= 0 and self.axes.max() < len(shape))
        if not fits or (self.boxes is not None and self.boxes.shape != shape):
            msg = f"a selection about other axes or boxes than it has does not fit a cube of shape {shape}"
            raise DomainError(msg)

    def noise_units(self) -> tuple[Fraction, ...]:
        """Return the units over the sensitivity, by which noise of scores is drawn."""
        return (Fraction(self.units, self.sensitivity),)

    def most_charged(self) -> int:
        """Return the units: a cell pays once, however many boxes it is in."""
        return self.units

    def add_charges(self, charges: Ints) -> None:
        """Add the units to every cell on which a score depends."""
        if self.boxes is None:
            charges += self.units
        else:
            inside = np.zeros(charges.shape, np.int64)
            add_to_boxes(inside, self.boxes, np.ones(len(self.boxes), np.int64))
            charges += np.minimum(inside, 1) * self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:  # noqa: ARG002
        """Return all selections in one group."""
        most = int(self.candidates.max())
        what = f"selection among up to {most:,} candidate{'s' * (most > 1)}, by {self.score}"
        return [CountsAlike(what, len(self.chosen), self.units, self.sensitivity)]

    def facts(self) -> dict[str, object]:
        """Return the score, its sensitivity, the units, and whether it is about boxes."""
        about = {"sensitivity": self.sensitivity, "units": self.units, "boxes": self.boxes is not None}
        return {"score": self.score, **about}

    def arrays(self) -> NamedArrays:
        """Return a row for each question: the number of candidates, the one selected, its axes; and the boxes."""
        found = {"questions": np.column_stack([self.candidates, self.chosen, self.axes])}
        if self.boxes is None:
            return found
        lower, upper = (np.ascontiguousarray(bounds.T) for bounds in (self.boxes.lower, self.boxes.upper))
        return {**found, "lower": lower, "upper": upper}

    @classmethod
    def forms(cls, shape: tuple[int, ...], sides: tuple[int, ...], facts: Facts) -> dict[str, Form]:  # noqa: ARG003
        """Return the forms of questions, one about the whole cube or several about boxes, and of these."""
        in_boxes, cells = value(facts, "boxes", bool), math.prod(shape)
        asked = range(1, cells + 1 if in_boxes else 2)
        found: dict[str, Form] = {"questions": (asked, range(2, 3 + len(shape)))}
        if in_boxes:
            bounds = (range(len(shape), len(shape) + 1), range(1, MAX_BOXES_PER_CELL * cells + 1))
            found |= {"lower": bounds, "upper": bounds}
        return found

    @classmethod
    def lays_out(cls, facts: Facts, axes: int) -> bool:  # noqa: ARG003
        """Return whether it is about boxes of cells."""
        return value(facts, "boxes", bool)

    @classmethod
    def from_arrays(cls, shape: tuple[int, ...], groups: CellGroups | None, facts: Facts, arrays: NamedArrays) -> Self:  # noqa: ARG003
        """Return the selection of a file."""
        in_boxes = value(facts, "boxes", bool)
        boxes = Boxes(shape, arrays["lower"].T, arrays["upper"].T) if in_boxes else None
        asked, units, sensitivity = arrays["questions"], value(facts, "units", int), value(facts, "sensitivity", int)
        return cls(value(facts, "score", str), asked[:, 0], asked[:, 1], asked[:, 2:], units, sensitivity, boxes)


MEASUREMENT_KINDS: dict[str, type[Measurement]] = {kind.kind: kind for kind in (Marginal, BoxCounts, Selection)}
"""Every kind of measurement, by its name in a file."""


def steps(numbers: Ints) -> Ints:
    """Return numbers less the ones before them, of which `np.cumsum` makes them again."""
    return np.diff(numbers, prepend=0)


def _after_cuts(level: Ints) -> str:
    """Return after how many cuts of the root boxes come, in words."""
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
        charged[node[row]] = min(charged[node[row]] + units[row], MAX_SUMMED_UNITS)
    for child in range(1, len(parent)):
        charged[child] = min(charged[child] + charged[parent[child]], MAX_SUMMED_UNITS)
    return charged
