"""What every attribute can do: lay out the cells of one axis, and say what a question about it selects.

An attribute is declared by the user and never read from the data. Its cells are the declared bins in order, then one
cell of its own for each irregular kind of value (null, NaN, infinite, unknown, outside) declared `"cell"`.

Everything that depends on the kind of an attribute is asked of the attribute. A kind is a class in a file of its own
and a line in `ATTRIBUTE_KINDS` of `file.py`. It says its `kind`, `scale` and `arrow_type`, and defines `bin_edges`,
`coordinate`, `values_at` (unless values are their own coordinates), `bin_label` and `_check`; the rest has defaults.
"""

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import date
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain.hierarchy import Level
from dpcube.core.domain.reading import BLANKS, Case, Reading, listed_texts
from dpcube.core.domain.selection import Selection
from dpcube.core.domain.text import is_text
from dpcube.core.errors import DomainError, QueryError

Destination = Literal["drop", "clip", "cell"]
Scalar = str | int | float | date
Within = Literal["any", "even"]
Scale = Literal["number", "day", "position"]

EPOCH = date(1970, 1, 1).toordinal()
IRREGULAR = ("null", "nan", "infinite", "unknown", "outside")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One axis of the cube: a name, bins in a coordinate, and destinations for irregular values.

    The `scale` says what the coordinate counts: a number is its own coordinate, of a day it is the ordinal, and of
    listed values the position in their list. `step` is the length of one value in it, so that a value is an interval
    and every question a union of intervals; real numbers have none, and end at the next double (`after`). `arrow_type`
    names Arrow's type of the values, and `lists` are the keys to which a domain file gives lists.

    `column` is the table's column, if it has another name. Its text is read with blanks around it taken off (`trim`),
    ASCII letters of either case alike (`case="ignore"`), and each of `null_text` as null.
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
            msg = f"an attribute's name must be text that is not blank, got {self.name!r}"
            raise DomainError(msg)
        self._check_reading()
        self._check()

    @property
    def source_column(self) -> str:
        """Name of the table's column that holds the values."""
        return self.name if self.column is None else self.column

    @property
    def reading(self) -> Reading:
        """How the column's text is read."""
        return self._reading()

    def _reading(self) -> Reading:
        return Reading(trim=self.trim, fold=self.case == "ignore", null_text=tuple(self.null_text))

    def _declare(self, **fields_given: object) -> None:
        """Set every field and check them: for constructors that take more forms than the fields have."""
        for key in fields(self):
            object.__setattr__(self, key.name, fields_given.get(key.name, key.default))
        self.__post_init__()

    @property
    def bins(self) -> int:
        """Number of declared bins, cells of their own not counted."""
        return len(self.bin_edges()) - 1

    @property
    def ordered(self) -> bool:
        """Whether a range of values means something."""
        return True

    @property
    def is_continuous(self) -> bool:
        """Whether values are real numbers, read as doubles; their last bin holds its upper edge."""
        return self.step == 0

    @property
    def origin(self) -> int:
        """Coordinate of what engines and Arrow count as 0: of days that is 1970-01-01."""
        return EPOCH if self.scale == "day" else 0

    @property
    def zone(self) -> str | None:
        """IANA name of the time zone in which times that have a zone are given their day; None is UTC."""
        return None

    @property
    def is_even(self) -> bool:
        """Whether values are declared to be spread evenly inside a bin, so that a share of it holds that share."""
        return getattr(self, "within", "any") == "even"

    @property
    def own_cells(self) -> tuple[str, ...]:
        """Irregular kinds of value that have a cell of their own, in the order of their cells after the bins."""
        return tuple(kind for kind in IRREGULAR if self.destination(kind) == "cell")

    def destination(self, irregular: str) -> Destination:
        """Return where an irregular kind of value goes; dropped unless this attribute declares something else."""
        destination: Destination = getattr(self, irregular, "drop")
        return destination

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return self.bins + len(self.own_cells)

    def bin_edges(self) -> NDArray[np.float64]:
        """Return the bins' edges in the coordinate, rising."""
        raise NotImplementedError

    def limits(self) -> NDArray[np.float64]:
        """Return where the values of bins start, then one past the last value: it may be the upper edge itself."""
        edges = self.bin_edges()
        return np.append(edges[:-1], self.after(float(edges[-1]))) if self.is_continuous else edges

    def after(self, place: float) -> float:
        """Return where the value at a place ends, and the next one starts."""
        return math.nextafter(place, math.inf) if self.is_continuous else place + self.step

    def coordinate(self, value: Scalar) -> float:
        """Return where a value starts in the coordinate; QueryError when it is no value of this attribute.

        The label of a bin of one listed value must be read as that value.
        """
        raise NotImplementedError

    def place(self, constant: Scalar) -> float:
        """Return where a constant lies that values are compared with; it may lie between two values."""
        return self.coordinate(constant)

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return the values that hold these coordinates, as an array that Arrow reads as `arrow_type`."""
        return coordinates

    def own_value(self, irregular: str) -> Scalar | None:  # noqa: ARG002 (most kinds have no such value)
        """Return the value that stands for a cell of its own in a table of rows, None for null."""
        return None

    def regular_bins(self) -> tuple[float, float, int] | None:
        """Return a, b and c such that bin k starts at (a + k b) / c in doubles; None if bins are not all as wide.

        The last may be narrower. Where c is not 1, all three, and a + k b, are whole numbers that doubles carry.
        """
        return None

    def texts(self) -> Sequence[str]:
        """Return the texts by which a column holds listed values, by position."""
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
        """Return the levels at which this attribute can be looked at, its cells first, then ever coarser groups."""
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

    def everything(self) -> Selection:
        """Select every cell, cells of their own included."""
        limits = self.limits()
        return Selection(((float(limits[0]), float(limits[-1])),), frozenset(self.own_cells))

    def equal(self, value: Scalar) -> Selection:
        """Select one value, or a cell of its own by its label, such as `"(null)"`."""
        own = {f"({kind})": kind for kind in self.own_cells}
        if isinstance(value, str) and value in own:
            return Selection(own_cells=frozenset({own[value]}))
        start = self.coordinate(value)
        return self._within_domain(start, self.after(start), shown=f"at {_shown(value)}", closed={start})

    def range(
        self, low: Scalar | None, high: Scalar | None, *, low_open: bool = False, high_open: bool = False
    ) -> Selection:
        """Select from `low` to `high`, both included unless said to be open; None is no bound."""
        if not self.ordered:
            msg = f"attribute '{self.name}' has no order, so it has no ranges; list the values you want"
            raise QueryError(msg)
        start = -math.inf if low is None else self.coordinate(low)
        stop = math.inf if high is None else self.coordinate(high)
        ends = ((start, low_open), (stop, not high_open))
        start, stop = (self.after(end) if behind else end for end, behind in ends)
        if start >= stop:
            remedy = "ask for a range of some width" if low == high else "put the lower end first"
            msg = f"attribute '{self.name}': nothing lies from {_shown(low)} to {_shown(high)}; {remedy}"
            raise QueryError(msg)
        from_low = "" if low is None else f"{'above' if low_open else 'from'} {_shown(low)}"
        to_high = "" if high is None else f"{'below' if high_open else 'up to'} {_shown(high)}"
        closed = {end for end, behind in ends if behind}
        return self._within_domain(start, stop, shown=f"{from_low} {to_high}".strip(), closed=closed)

    def _within_domain(self, start: float, stop: float, *, shown: str, closed: set[float]) -> Selection:
        first, end = self.limits()[[0, -1]].tolist()
        if stop <= first or start >= end:
            msg = f"attribute '{self.name}' has nothing {shown}; its domain is {self.extent()}"
            raise QueryError(msg)
        return Selection(((max(start, first), min(stop, end)),), closed=frozenset(closed if self.is_continuous else ()))

    def complement(self, selection: Selection) -> Selection:
        """Select the declared bins that `selection` leaves out."""
        limits = self.limits()
        return selection.complement(float(limits[0]), float(limits[-1]))

    def weights(self, selection: Selection) -> NDArray[np.float64]:
        """Return the selected share of each cell of this axis, in [0, 1]."""
        own = [float(kind in selection.own_cells) for kind in self.own_cells]
        return np.concatenate([selection.shares(self.bin_edges()), own])

    def parts(self, selection: Selection) -> NDArray[np.bool_]:
        """Tell of each cell of this axis whether it is selected in part, and nothing is known of its rows there.

        Of an even bin a part holds its share of the rows. But a single real number has no share, and a question that
        picks one out, or leaves one out, is asked because of the rows there: they may be all of the bin's.
        """
        found = np.zeros(self.size, np.bool_)
        if not self.is_even:
            found[: self.bins] = selection.parts(self.limits())
        elif self.is_continuous:
            found[: self.bins] = selection.single_values(self.limits())
        return found

    def cut_shares(self, shares: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which shares of all cells of the axis are neither none nor all, by more than rounding may have made."""
        cut = (shares > 0) & (shares < 1)
        if self.is_continuous and cut.any():
            edges = self.bin_edges()
            hair = np.append(4 * np.spacing(np.abs(edges).max()) / np.diff(edges), np.zeros(len(self.own_cells)))
            cut &= (shares > hair) & (shares < 1 - hair)
        return cut

    @property
    def has_wide_bins(self) -> bool:
        """Whether some bin holds more than one value."""
        return bool((np.diff(self.bin_edges()) > self.step).any())

    def declaration(self) -> dict[str, object]:
        """Return the keys of a domain file that declare this attribute, defaults left out."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}
        defaults = {f.name: f.default for f in fields(self)}
        changed = {k: v for k, v in given.items() if defaults[k] is MISSING or v != defaults[k]}
        return {"name": self.name, "type": self.kind, **changed}

    def _check(self) -> None:
        """Raise DomainError unless the declaration can be."""
        raise NotImplementedError

    def _check_reading(self) -> None:
        if self.column is not None and not is_text(self.column):
            msg = f"attribute '{self.name}': column must be the name of a column, got {self.column!r}"
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
