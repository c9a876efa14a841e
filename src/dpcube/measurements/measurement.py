"""Base class of the measurements: charges per cell, summary for reports, and named integer arrays in a file."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain.text import is_text
from dpcube.core.errors import DomainError, ReleaseFileError

TWO_SIDED_GEOMETRIC = "two-sided geometric: P(z) proportional to exp(-units * epsilon_per_unit * |z|)"

Facts = Mapping[str, object]
NamedArrays = dict[str, Ints]
"""The arrays of a measurement, by name."""
Form = tuple[range, ...]
"""The lengths that each axis of an array may have."""


class CountsAlike(NamedTuple):
    """Counts of a measurement with the same units: a description, their number, the units of each.

    Selections also have the `sensitivity` of their scores.
    """

    what: str
    counts: int
    units: int
    sensitivity: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CellGroups:
    """A coarsening of a cube: the group of every cell of each attribute, numbered from 0 without a gap."""

    of_axis: tuple[Ints, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "of_axis", tuple(self.of_axis))
        for of_cell in self.of_axis:
            check_counts(of_cell)
            # At most as many groups as cells: an arbitrary number could need an array of any length.
            gapless = of_cell.ndim == 1 and len(of_cell) > 0 and int(of_cell.max()) < len(of_cell)
            if not gapless or not np.array_equal(np.unique(of_cell), np.arange(int(of_cell.max()) + 1)):
                msg = "the groups of an attribute's cells must be numbered from 0, without a gap"
                raise DomainError(msg)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube that is coarsened."""
        return tuple(map(len, self.of_axis))

    @property
    def sides(self) -> tuple[int, ...]:
        """Number of groups of each attribute: the shape of the coarser cube."""
        return tuple(int(of_cell.max()) + 1 for of_cell in self.of_axis)


class Measurement(ABC):
    """A noisy measurement; the transcript of a release is a list of them."""

    __slots__ = ()
    kind: ClassVar[str]
    """Its name in files and in `MEASUREMENT_KINDS`."""
    law: ClassVar[str] = TWO_SIDED_GEOMETRIC
    """The law of its noise, in words; a file that states another is refused."""

    @property
    @abstractmethod
    def noisy(self) -> Ints:
        """What was drawn: the noisy counts, or which candidates were selected."""

    @property
    def charges_evenly(self) -> bool:
        """Whether it charges every cell of the cube the same units."""
        return True

    def counted(self, shape: tuple[int, ...]) -> str:  # noqa: ARG002
        """Return what it counted of a whole cube, in words; empty if that is nothing, or a table over some axes."""
        return ""

    @abstractmethod
    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise DomainError unless it fits a cube of this shape."""

    @abstractmethod
    def noise_units(self) -> tuple[Fraction, ...]:
        """Return the least and the most units, over the sensitivity, of any of its noise; nothing if it has none."""

    @abstractmethod
    def most_charged(self) -> int:
        """Return the most units that it charged any cell of the cube."""

    def add_charges(self, charges: Ints) -> None:
        """Add to each cell of an array of the cube's shape the units that it was charged, in place."""
        charges += self.most_charged()

    @abstractmethod
    def by_units(self, names: Sequence[str], *, most: int) -> list[CountsAlike]:
        """Return its counts by their units, for a report: the first `most` groups, and all others in one.

        `names` are those of the cube's attributes.
        """

    def facts(self) -> dict[str, object]:
        """Return its entries in the manifest of a file, other than its kind and its arrays."""
        return {"units": self.most_charged()}

    @abstractmethod
    def arrays(self) -> NamedArrays:
        """Return its arrays in a file, by name."""

    @classmethod
    @abstractmethod
    def forms(cls, shape: tuple[int, ...], sides: tuple[int, ...], facts: Facts) -> dict[str, Form]:
        """Return the allowed shapes of its arrays in a file of a cube of this shape, before any is read.

        `sides` is the shape of the coarser cube that grouped marginals are of.
        """

    @classmethod
    def lays_out(cls, facts: Facts, axes: int) -> bool:  # noqa: ARG003 (of most kinds, none or all do)
        """Return whether answers from it need every cell of a cube of so many axes in memory, by its facts in a file.

        A kind that does not say is taken to need them: no file may need more memory than was checked.
        """
        return True

    @classmethod
    @abstractmethod
    def from_arrays(cls, shape: tuple[int, ...], groups: CellGroups | None, facts: Facts, arrays: NamedArrays) -> Self:
        """Return the measurement from its entries in the manifest and its arrays."""


def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of some axes of a cube; raise DomainError unless they are, and each named once."""
    if not set(axes) <= set(range(len(shape))) or len(set(axes)) != len(axes):
        msg = f"a marginal's axes must be among the {len(shape)} axes of the cube, each once"
        raise DomainError(msg)
    return tuple(shape[axis] for axis in axes)


def exactly(*sides: int) -> Form:
    """Return the form of an array of exactly this shape."""
    return tuple(range(side, side + 1) for side in sides)


def check_counts(counts: Ints) -> None:
    """Raise DomainError unless these are 64-bit integers, and make them read-only."""
    if counts.dtype != np.int64:
        msg = f"measured counts must be 64-bit integers, got {counts.dtype}"
        raise DomainError(msg)
    counts.setflags(write=False)


def check_spent_units(what: str, units: int) -> None:
    """Raise DomainError unless these are units of a measurement."""
    # A plain integer, as in the manifest: a NumPy integer would fail only after the budget is spent.
    if type(units) is not int or not 0 < units <= BUDGET_UNITS:
        msg = f"{what} must be measured with 1 to {BUDGET_UNITS} units, got {units!r:.50}"
        raise DomainError(msg)


T = TypeVar("T")


class FutureFormatError(ReleaseFileError):
    """A file of a newer format than this version reads."""


_RATIONAL = re.compile(r"[0-9]{1,200}(/[1-9][0-9]{0,199})?")


def value(facts: Mapping[str, object], key: str, kind: type[T]) -> T:
    """Return the fact of this key, of exactly this type."""
    found = facts[key]
    # Not isinstance: true is not a number. A lone surrogate is not text that can be displayed.
    if type(found) is not kind or (kind is str and not is_text(found)):
        raise _wrong(key)
    return found


def whole_number_list(facts: Mapping[str, object], key: str) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    found = value(facts, key, list)
    if any(type(number) is not int for number in found):
        raise _wrong(key)
    return tuple(found)


def rational(facts: Mapping[str, object], key: str) -> Fraction:
    """Return a rational that `str` wrote; a short text such as 1e-999999999 would stand for a very long number."""
    text = value(facts, key, str)
    if not _RATIONAL.fullmatch(text):
        raise _wrong(key)
    return Fraction(text)


def _wrong(key: str) -> ReleaseFileError:
    return ReleaseFileError(f"its manifest has an invalid value of '{key}'")
