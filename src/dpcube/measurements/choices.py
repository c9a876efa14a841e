"""Choices that were made with noise: what could be chosen, what was, and how that is told in a file.

Enters: candidates (`core.candidates`), what was chosen of them, the units of budget. Leaves: a measurement. A file
holds the candidates whole, so that whoever reads it knows what the choice says about the table.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, add_to_boxes
from dpcube.core.candidates import (
    CANDIDATE_KINDS,
    BestSplit,
    BoxDistances,
    Candidates,
    LargestClass,
    MedianCuts,
    TableDistances,
)
from dpcube.core.candidates.classes import CRITERIA, ONE
from dpcube.core.errors import DomainError, ReleaseFileError
from dpcube.measurements.facts import FutureFormatError, value, whole_number_list
from dpcube.measurements.measurements import (
    Columns,
    CountsAlike,
    Measurement,
    TableForm,
    check_counts,
    check_spent_units,
    kept,
)

Facts = Mapping[str, object]
Made = tuple[Candidates, Ints]
MOST_BOXES_A_CELL = 64


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Measurement):
    """The candidate that was chosen for each of some questions, every one with the same units of budget."""

    kind: ClassVar[str] = "choice"
    table_names: ClassVar[tuple[str, ...]] = ("choice",)
    law: ClassVar[str] = (
        "report-noisy-max: the first highest of score + g, P(g) proportional to "
        "exp(-units * epsilon_per_unit * g / spread) for g = 0, 1, 2, ..."
    )
    candidates: Candidates
    chosen: Ints
    units: int

    def __post_init__(self) -> None:
        if type(self.candidates) not in CANDIDATE_KINDS:
            msg = f"a choice is among candidates of a known kind, not {type(self.candidates).__name__}"
            raise DomainError(msg)
        check_counts(self.chosen)
        check_spent_units("a choice", self.units)
        sizes = self.candidates.sizes
        if self.chosen.shape != sizes.shape or not ((self.chosen >= 0) & (self.chosen < sizes)).all():
            msg = f"a choice must name one of the candidates of each of its {len(sizes):,} questions"
            raise DomainError(msg)

    @property
    def charges_evenly(self) -> bool:
        """Whether the candidates cover every cell by their nature."""
        return self.candidates.covered is None

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless the candidates are of a cube of this shape."""
        if self.candidates.shape != shape:
            msg = f"candidates in shape {self.candidates.shape} do not fit a cube of shape {shape}"
            raise DomainError(msg)

    def least_and_most_units(self) -> tuple[int, ...]:
        """Return the units."""
        return (self.units,)

    def most_charged(self) -> int:
        """Return the units: a cell pays once, in however many candidates it is."""
        return self.units

    def add_charges(self, charges: Ints) -> None:
        """Add the units to every cell that any candidate covers."""
        if self.candidates.covered is None:
            charges += self.units
        else:
            held = np.zeros(charges.shape, np.int64)
            add_to_boxes(held, self.candidates.covered, np.ones(len(self.candidates.covered), np.int64))
            charges += np.minimum(held, 1) * self.units

    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:  # noqa: ARG002
        """Return all choices in one group."""
        asked = self.candidates
        fine = isinstance(asked, BestSplit) and asked.criterion != "max"
        what = CHOICE_FORMS[asked.score].words(asked, names)
        return [CountsAlike(what, len(self.chosen), self.units, spread=asked.sensitivity, one=ONE if fine else 1)]

    def facts(self) -> dict[str, object]:
        """Return the score, the units and what else a manifest says of the candidates."""
        told = CHOICE_FORMS[self.candidates.score].facts(self.candidates, self.chosen)
        return {"score": self.candidates.score, "units": self.units, **told}

    def tables(self) -> dict[str, Columns]:
        """Return the candidates and what was chosen."""
        return {"choice": CHOICE_FORMS[self.candidates.score].columns(self.candidates, self.chosen)}

    @classmethod
    def table_forms(cls, shape: tuple[int, ...], facts: Facts) -> dict[str, TableForm]:
        """Return the form of the table of candidates of this score."""
        return {"choice": _form_of(facts).table(shape, facts)}

    @classmethod
    def of_tables(cls, shape: tuple[int, ...], facts: Facts, tables: Mapping[str, Columns]) -> Self:
        """Return the choice of a file."""
        return cls(*_form_of(facts).made(shape, facts, tables["choice"]), value(facts, "units", int))


class Form(NamedTuple):
    """How candidates of a score are told: in words, in a manifest and in a table, and made again from these."""

    words: Callable[[Any, Sequence[str]], str]
    facts: Callable[[Any, Ints], dict[str, object]]
    columns: Callable[[Any, Ints], Columns]
    table: Callable[[tuple[int, ...], Facts], TableForm]
    made: Callable[[tuple[int, ...], Facts, Columns], Made]


def _form_of(facts: Facts) -> Form:
    score = value(facts, "score", str)
    if score not in CHOICE_FORMS:
        msg = f"it holds a choice by the score '{score}', which this dpcube does not know"
        raise FutureFormatError(msg)
    return CHOICE_FORMS[score]


def _bound_names(shape: tuple[int, ...]) -> list[str]:
    return [f"{end}_{axis}" for end in ("lower", "upper") for axis in range(len(shape))]


def _bounds(boxes: Boxes) -> Columns:
    return dict(zip(_bound_names(boxes.shape), (*boxes.lower.T, *boxes.upper.T), strict=True))


def _boxes(shape: tuple[int, ...], columns: Columns) -> Boxes:
    names, axes = _bound_names(shape), len(shape)
    lower, upper = (np.stack([columns[name] for name in some], axis=1) for some in (names[:axes], names[axes:]))
    return Boxes(shape, lower, upper)


def _table_of_boxes(*more: str, most: int = 1) -> Callable[[tuple[int, ...], Facts], TableForm]:
    """Return the form of a table of boxes with columns more, of at most so many boxes for each cell of the cube."""
    return lambda shape, _: TableForm((*_bound_names(shape), *more), 1, most * math.prod(shape))


MEDIANS = Form(
    words=lambda _, __: "where to cut boxes at their medians",
    facts=lambda _, __: {},
    columns=lambda cuts, chosen: {**_bounds(cuts.boxes), "axis": cuts.axes, "chosen": chosen},
    table=_table_of_boxes("axis", "chosen"),
    made=lambda shape, _, columns: (MedianCuts(_boxes(shape, columns), columns["axis"]), columns["chosen"]),
)
CLASSES = Form(
    words=lambda classes, names: f"the largest class of {names[classes.target]} in boxes",
    facts=lambda classes, _: {"target": classes.target},
    columns=lambda classes, chosen: {**_bounds(classes.boxes), "chosen": chosen},
    table=_table_of_boxes("chosen"),
    made=lambda shape, facts, columns: (
        LargestClass(_boxes(shape, columns), value(facts, "target", int)),
        columns["chosen"],
    ),
)


def _split(shape: tuple[int, ...], facts: Facts, columns: Columns) -> Made:
    found = [criterion for criterion in CRITERIA if criterion == value(facts, "criterion", str)]
    if not found:
        msg = "it holds a choice of splits by a criterion that this dpcube does not know"
        raise FutureFormatError(msg)
    given = value(facts, "target", int), whole_number_list(facts, "axes"), found[0], value(facts, "most_rows", int)
    return BestSplit(_boxes(shape, columns), *given), columns["chosen"]


SPLITS = Form(
    words=lambda split, names: f"which attribute tells most of {names[split.target]} in boxes, by {split.criterion}",
    facts=lambda split, _: {
        "target": split.target,
        "axes": list(split.axes),
        "criterion": split.criterion,
        "most_rows": split.most_rows,
    },
    columns=lambda split, chosen: {**_bounds(split.boxes), "chosen": chosen},
    table=_table_of_boxes("chosen"),
    made=_split,
)


def _sets_of_boxes(shape: tuple[int, ...], facts: Facts, columns: Columns) -> Made:
    candidate = columns["candidate"]
    _, first = np.unique(candidate, return_index=True)
    weights, allowances = columns["weight"][first], columns["allowance"][first]
    made = BoxDistances(_boxes(shape, columns), columns["predicted"], candidate, weights, allowances)
    same = (columns["weight"] == weights[candidate]) & (columns["allowance"] == allowances[candidate])
    if not same.all():
        msg = "boxes of one candidate of its choice have different weights"
        raise ReleaseFileError(msg)
    return made, np.array([value(facts, "chosen", int)])


BOX_DISTANCES = Form(
    words=lambda _, __: "which boxes depart most from predictions",
    facts=lambda _, chosen: {"chosen": int(chosen[0])},
    columns=lambda sets, _: {
        **_bounds(sets.boxes),
        "candidate": sets.candidate,
        "predicted": sets.predicted,
        "weight": sets.weights[sets.candidate],
        "allowance": sets.allowances[sets.candidate],
    },
    table=_table_of_boxes("candidate", "predicted", "weight", "allowance", most=MOST_BOXES_A_CELL),
    made=_sets_of_boxes,
)


def _axes_of_tables(facts: Facts) -> list[tuple[int, ...]]:
    return [whole_number_list({"axes": axes}, "axes") for axes in value(facts, "tables", list)]


def _cells_of_tables(shape: tuple[int, ...], facts: Facts) -> TableForm:
    rows = sum(math.prod(kept(shape, axes)) for axes in _axes_of_tables(facts))
    return TableForm(("predicted",), rows, rows)


def _tables(shape: tuple[int, ...], facts: Facts, columns: Columns) -> Made:
    axes = _axes_of_tables(facts)
    sides = [kept(shape, some) for some in axes]
    flat = np.split(columns["predicted"], np.cumsum([math.prod(side) for side in sides])[:-1])
    predicted = tuple(part.reshape(side) for part, side in zip(flat, sides, strict=True))
    weights, allowances = (np.array(whole_number_list(facts, name)) for name in ("weights", "allowances"))
    return TableDistances(shape, tuple(axes), predicted, weights, allowances), np.array([value(facts, "chosen", int)])


TABLE_DISTANCES = Form(
    words=lambda tables, _: f"which of {len(tables.axes):,} tables departs most from its prediction",
    facts=lambda tables, chosen: {
        "chosen": int(chosen[0]),
        "tables": [list(axes) for axes in tables.axes],
        "weights": tables.weights.tolist(),
        "allowances": tables.allowances.tolist(),
    },
    columns=lambda tables, _: {"predicted": np.concatenate([table.reshape(-1) for table in tables.predicted])},
    table=_cells_of_tables,
    made=_tables,
)
CHOICE_FORMS: dict[str, Form] = {
    MedianCuts.score: MEDIANS,
    LargestClass.score: CLASSES,
    BestSplit.score: SPLITS,
    BoxDistances.score: BOX_DISTANCES,
    TableDistances.score: TABLE_DISTANCES,
}
"""How the candidates of each kind are told, by their score."""
