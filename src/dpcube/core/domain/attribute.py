"""Attribute base class: the bins of one axis of a cube, and the selection that a predicate makes of them.

An attribute is declared by the user and never read from the data. Its cells are the declared bins in order, then one
cell for each irregular kind of value (null, NaN, infinite, unknown, outside) that is declared `"cell"`.

All behaviour that depends on the kind of an attribute is a method of the attribute. A kind is a class in its own file
and an entry in `ATTRIBUTE_KINDS` of `file.py`. It declares its `kind`, `scale` and `arrow_type`, and defines
`bin_edges`, `coordinate`, `values_at` (unless values are their own coordinates), `bin_label` and `_check`; the rest has
defaults. What depends on its scale is in `scale.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import date
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain.hierarchy import Level
from dpcube.core.domain.reading import BLANKS, Case, Reading, listed_texts
from dpcube.core.domain.scale import SCALE_RULES, Scalar, Scale
from dpcube.core.domain.text import is_text
from dpcube.core.domain.value_set import ValueSet
from dpcube.core.errors import DomainError, QueryError

Destination = Literal["drop", "clip", "cell"]
Within = Literal["any", "even"]

IRREGULAR = ("null", "nan", "infinite", "unknown", "outside")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One axis of the cube: a name, bins on a coordinate, and destinations for irregular values.

    The `scale` defines the coordinate: a number is its own coordinate, that of a day is its ordinal, and that of a
    listed value its position. `step` is the length of one value on it, so that a value is an interval and every
    predicate a union of intervals. Real numbers have no step, and end at the next double (`after`). `arrow_type` names
    the Arrow type of the values, and `lists` are the keys that have lists in a domain file.

    Parameters
    ----------
    name
        Name of the attribute.
    column
        Name of the table's column, if it differs.
    trim
        Whether text is read without surrounding blanks.
    case
        `"ignore"` to ignore the case of ASCII letters in text.
    null_text
        Texts that are read as null.

    """

    kind: ClassVar[str]
    scale: ClassVar[Scale]
    arrow_type: ClassVar[str]
    step: ClassVar[float] = 1.0

    lists: ClassVar[tuple[str, ...]] = ()
    name: str
    column: str | None = field(default=None, kw_only=True)
    trim: bool = field(default=False, kw_only=True)
    case: Case = field(default="exact", kw_only=True)
    null_text: Sequence[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not is_text(self.name) or not self.name.strip():
            msg = f"the name of an attribute must be text that is not blank, got {self.name!r}"
            raise DomainError(msg)
        self._check_reading()
        self._check()

    @property
    def source_column(self) -> str:
        """Name of the table's column with the values."""
        return self.name if self.column is None else self.column

    @property
    def reading(self) -> Reading:
        """Reading options of the column's text."""
        return self._reading()

    def _reading(self) -> Reading:
        return Reading(trim=self.trim, fold=self.case == "ignore", null_text=tuple(self.null_text))

    def _declare(self, **fields_given: object) -> None:
        """Set and check every field: for constructors that accept more forms than the fields have."""
        for key in fields(self):
            object.__setattr__(self, key.name, fields_given.get(key.name, key.default))
        self.__post_init__()

    @property
    def bins(self) -> int:
        """Number of declared bins, without the cells of irregular values."""
        return len(self.bin_edges()) - 1

    @property
    def ordered(self) -> bool:
        """Whether ranges of values are meaningful."""
        return True

    @property
    def is_continuous(self) -> bool:
        """Whether values are real numbers, read as doubles; their last bin contains its upper edge."""
        return self.step == 0

    @property
    def origin(self) -> int:
        """Coordinate that engines and Arrow store as 0: 1970-01-01 for days."""
        return SCALE_RULES[self.scale].origin

    @property
    def has_distances(self) -> bool:
        """Whether differences of coordinates are distances between values; positions in a list are not."""
        return self.scale != "position"

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers: their own coordinates, which have sums and multiples."""
        return self.scale == "number"

    @property
    def zone(self) -> str | None:
        """IANA name of the time zone in which timestamps with a zone are assigned to a day; None is UTC."""
        return None

    @property
    def is_even(self) -> bool:
        """Whether rows are declared to be spread evenly inside a bin, so that a part of it has its share of them."""
        return getattr(self, "within", "any") == "even"

    @property
    def own_cells(self) -> tuple[str, ...]:
        """Irregular kinds of value that have a cell, in the order of their cells after the bins."""
        return tuple(kind for kind in IRREGULAR if self.destination(kind) == "cell")

    def destination(self, irregular: str) -> Destination:
        """Return the destination of an irregular kind of value; the default is to drop it."""
        destination: Destination = getattr(self, irregular, "drop")
        return destination

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return self.bins + len(self.own_cells)

    def bin_edges(self) -> NDArray[np.float64]:
        """Return the increasing edges of the bins on the coordinate."""
        raise NotImplementedError

    def limits(self) -> NDArray[np.float64]:
        """Return the starts of the bins, then the end of the last value, which may be after the upper edge."""
        edges = self.bin_edges()
        return np.append(edges[:-1], self.after(float(edges[-1]))) if self.is_continuous else edges

    def after(self, place: float) -> float:
        """Return the end of the value that starts at a coordinate, which is the start of the next one."""
        return math.nextafter(place, math.inf) if self.is_continuous else place + self.step

    def coordinate(self, value: Scalar) -> float:
        """Return the start of a value on the coordinate; QueryError if it is not a value of this attribute.

        The label of a bin of one listed value must be accepted as that value.
        """
        raise NotImplementedError

    def place(self, constant: Scalar) -> float:
        """Return the coordinate of a constant that values are compared with; it may lie between two values."""
        return self.coordinate(constant)

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return the values at these coordinates, as an array that Arrow reads as `arrow_type`."""
        return coordinates

    def value_at(self, coordinate: float) -> Scalar:
        """Return the value at a coordinate."""
        value = self.values_at(np.array([coordinate]))[0]
        found: Scalar = value.item() if isinstance(value, np.generic) else value
        return found

    def places_of(self, values: Sequence[Scalar | None]) -> NDArray[np.float64]:
        """Return the coordinates of values, counted from the origin; NaN for null."""
        return SCALE_RULES[self.scale].places(self, values)

    @property
    def sql_type(self) -> str:
        """DuckDB's type of the values where they are compared, added up or averaged."""
        return SCALE_RULES[self.scale].sql_type(self)

    def sql_value(self, place: str, literal: Callable[[Scalar], str]) -> str:
        """Return DuckDB's SQL for the value at a coordinate, counted from the origin; `literal` writes a value."""
        return SCALE_RULES[self.scale].sql_value(self, place, literal)

    def parsed(self, text: str) -> float | None:
        """Return the coordinate of the number or date in a text, by the reading options; None if there is none."""
        return SCALE_RULES[self.scale].parsed(self.reading, text, self.zone)

    def own_value(self, irregular: str) -> Scalar | None:  # noqa: ARG002 (most kinds have no such value)
        """Return the value that represents the cell of an irregular kind in a table of rows, None for null."""
        return None

    def regular_bins(self) -> tuple[float, float, int] | None:
        """Return a, b and c such that bin k starts at (a + k b) / c in doubles; None if bins differ in width.

        The last bin may be narrower. If c is not 1, all three, and a + k b, are whole numbers that doubles represent
        exactly.
        """
        return None

    def texts(self) -> Sequence[str]:
        """Return the texts of listed values in a column, by position."""
        return self.labels()[: self.bins]

    def labels(self) -> list[str]:
        """Return the names of all cells in order, as printed in answers."""
        edges = self.bin_edges()
        bins = [self.bin_label(low, high) for low, high in pairwise(edges)]
        return bins + [f"({kind})" for kind in self.own_cells]

    def bin_label(self, low: float, high: float) -> str:
        """Return the name of the bin between two edges."""
        raise NotImplementedError

    @property
    def grain(self) -> str:
        """Name of the finest level: the attribute itself."""
        return self.name

    def levels(self) -> tuple[Level, ...]:
        """Return the levels of this attribute's hierarchy: its cells first, then increasingly coarse groups."""
        labels = self.labels()
        finest = Level(self.grain, tuple(labels[: self.bins]), np.arange(self.bins))
        return tuple(level.with_own_cells(labels[self.bins :]) for level in (finest, *self._coarser()))

    def _coarser(self) -> list[Level]:
        """Return the levels above the bins."""
        return []

    def extent(self) -> str:
        """Return the domain in words, for messages."""
        edges = self.bin_edges()
        return f"{self.bin_label(edges[0], edges[1])} to {self.bin_label(edges[-2], edges[-1])}"

    def everything(self) -> ValueSet:
        """Select every cell, including those of irregular values."""
        limits = self.limits()
        return ValueSet(((float(limits[0]), float(limits[-1])),), frozenset(self.own_cells))

    def equal(self, value: Scalar) -> ValueSet:
        """Select one value; or, by its label, a bin, a group of a level, or the cell of an irregular kind."""
        own = {f"({kind})": kind for kind in self.own_cells}
        if isinstance(value, str) and value in own:
            return ValueSet(own_cells=frozenset({own[value]}))
        try:
            start = self.coordinate(value)
        except QueryError:
            group = self.group_named(value) if isinstance(value, str) else None
            if group is None:
                raise
            return group
        return self._within_domain(start, self.after(start), shown=f"at {_shown(value)}", closed={start})

    def group_named(self, label: str) -> ValueSet | None:
        """Select the cells with a label, at the finest level that has it; None if there is none.

        >>> from dpcube.core.domain import Date
        >>> Date("admitted", "2026-01-15", "2026-03-01", every="month").group_named("2026-02").intervals
        ((739648.0, 739676.0),)
        """
        for level in self.levels():
            if label in level.labels:
                chosen = level.group == level.labels.index(label)
                bins = [pair for pair, inside in zip(pairwise(self.limits()), chosen, strict=False) if inside]
                own = frozenset(kind for kind in self.own_cells if label == f"({kind})")
                # The union with nothing joins neighbouring bins.
                return ValueSet() | ValueSet(tuple((float(low), float(high)) for low, high in bins), own)
        return None

    def range(
        self, low: Scalar | None, high: Scalar | None, *, low_open: bool = False, high_open: bool = False
    ) -> ValueSet:
        """Select from `low` to `high`, both included unless declared open; None is no bound."""
        if not self.ordered:
            msg = f"attribute '{self.name}' has no order, so ranges are not possible; list the values instead"
            raise QueryError(msg)
        start = -math.inf if low is None else self.coordinate(low)
        stop = math.inf if high is None else self.coordinate(high)
        ends = ((start, low_open), (stop, not high_open))
        start, stop = (self.after(end) if behind else end for end, behind in ends)
        if start >= stop:
            remedy = "widen the range" if low == high else "put the lower end first"
            msg = f"attribute '{self.name}': the range from {_shown(low)} to {_shown(high)} is empty; {remedy}"
            raise QueryError(msg)
        from_low = "" if low is None else f"{'above' if low_open else 'from'} {_shown(low)}"
        to_high = "" if high is None else f"{'below' if high_open else 'up to'} {_shown(high)}"
        closed = {end for end, behind in ends if behind}
        return self._within_domain(start, stop, shown=f"{from_low} {to_high}".strip(), closed=closed)

    def _within_domain(self, start: float, stop: float, *, shown: str, closed: set[float]) -> ValueSet:
        first, end = self.limits()[[0, -1]].tolist()
        if stop <= first or start >= end:
            msg = f"attribute '{self.name}' has no values {shown}; its domain is {self.extent()}"
            raise QueryError(msg)
        return ValueSet(((max(start, first), min(stop, end)),), closed=frozenset(closed if self.is_continuous else ()))

    def complement(self, selection: ValueSet) -> ValueSet:
        """Select the parts of the declared bins that `selection` leaves out."""
        limits = self.limits()
        return selection.complement(float(limits[0]), float(limits[-1]))

    def weights(self, selection: ValueSet) -> NDArray[np.float64]:
        """Return the selected share of each cell of this axis, in [0, 1]."""
        own = [float(kind in selection.own_cells) for kind in self.own_cells]
        return np.concatenate([selection.shares(self.bin_edges()), own])

    def parts(self, selection: ValueSet) -> NDArray[np.bool_]:
        """Return a mask of the cells that are partly selected without a declared distribution of rows inside them.

        A part of an even bin has its share of the rows. But a single real number has no share, and a predicate that
        includes or excludes one is posed because of the rows there: they may be all of the bin's.
        """
        found = np.zeros(self.size, np.bool_)
        limits = self.limits()
        found[: self.bins] = self.unknown_parts(selection.parts(limits), selection.single_values(limits))
        return found

    def unknown_parts(self, parts: NDArray[np.bool_], singles: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which parts of bins have an unknown number of the bin's rows: see `parts`.

        `singles` marks parts of bins in which a single real number is selected or left out.
        """
        return parts & singles if self.is_even else parts

    def cut_shares(self, shares: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return a mask of the shares, one for each cell, that differ from 0 and 1 by more than rounding."""
        cut = (shares > 0) & (shares < 1)
        if self.is_continuous and cut.any():
            edges = self.bin_edges()
            hair = np.append(4 * np.spacing(np.abs(edges).max()) / np.diff(edges), np.zeros(len(self.own_cells)))
            cut &= (shares > hair) & (shares < 1 - hair)
        return cut

    @property
    def has_wide_bins(self) -> bool:
        """Whether some bin contains more than one value."""
        return bool((np.diff(self.bin_edges()) > self.step).any())

    def declaration(self) -> dict[str, object]:
        """Return the keys of a domain file that declare this attribute, defaults left out."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}
        defaults = {f.name: f.default for f in fields(self)}
        changed = {k: v for k, v in given.items() if defaults[k] is MISSING or v != defaults[k]}
        return {"name": self.name, "type": self.kind, **changed}

    def _check(self) -> None:
        """Raise DomainError if the declaration is invalid."""
        raise NotImplementedError

    def _check_reading(self) -> None:
        if self.column is not None and not is_text(self.column):
            msg = f"attribute '{self.name}': column must be the name of a column in quotes, got {self.column!r}"
            raise DomainError(msg)
        if not isinstance(self.trim, bool):
            msg = f"attribute '{self.name}': trim must be true or false, got {self.trim!r}"
            raise DomainError(msg)
        if self.case not in ("exact", "ignore"):
            msg = f'attribute \'{self.name}\': case must be "exact" or "ignore", got {self.case!r}'
            raise DomainError(msg)
        self._set_texts("null_text")
        self._refuse_untrimmed("null_text", self.null_text)

    def _set_texts(self, key: str) -> None:
        """Make a tuple of a text or a list of texts."""
        texts = listed_texts(getattr(self, key))
        if texts is None:
            msg = f"attribute '{self.name}': {key} must be a list of texts in quotes, got {getattr(self, key)!r}"
            raise DomainError(msg)
        object.__setattr__(self, key, texts)

    def _refuse_untrimmed(self, key: str, texts: Sequence[str]) -> None:
        """Refuse texts that no text is once blanks around it are taken off."""
        if self.trim and (never := [text for text in texts if text != text.strip(BLANKS)]):
            msg = f"attribute '{self.name}': {key} has {never[0]!r}, and trim takes blanks off; write it without them"
            raise DomainError(msg)

    def _check_within(self, within: object) -> None:
        if within not in ("any", "even"):
            msg = f'attribute \'{self.name}\': within must be "any" or "even", got {within!r}'
            raise DomainError(msg)

    def _check_destinations(self, **allowed: tuple[str, ...]) -> None:
        for kind, destinations in allowed.items():
            given = getattr(self, kind)
            if given not in destinations:
                choices = ", ".join(f'"{d}"' for d in destinations)
                msg = f"attribute '{self.name}': {kind} must be one of {choices}, got {given!r}"
                raise DomainError(msg)


def _shown(value: Scalar | None) -> str:
    return str(value) if isinstance(value, date | np.generic) else repr(value)


def listing(items: Sequence[str], *, most: int = 12) -> str:
    """Return the first few items in quotes, and how many more there are."""
    shown = ", ".join(f"'{item}'" for item in items[:most])
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")
