"""Numeric attributes in bins: whole numbers and real numbers."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain.attribute import Attribute, Destination, Within
from dpcube.core.domain.hierarchy import Level, checked_edges, group_of_bins, named_levels
from dpcube.core.domain.reading import DECIMALS, THOUSANDS, Reading, fault_of_sign
from dpcube.core.domain.scale import Scalar, Scale
from dpcube.core.errors import DomainError, QueryError
from dpcube.core.limits import MAX_BINS, MAX_DECIMALS, MAX_LEVEL_BINS, MAX_NUMBER

NUMBERS = (int, float, np.integer, np.floating)


@dataclass(frozen=True, slots=True)
class Number(Attribute):
    """Bins by `min`, `max` and `width`, or by explicit `edges`; a bin contains its lower edge, not its upper.

    Parameters
    ----------
    min, max, width
        Bounds from public knowledge, and the width of bins.
    edges
        Increasing edges of bins, instead of bounds and a width.
    null, nan, infinite, unknown, outside
        Destinations of irregular values: `"drop"`, `"cell"`, or `"clip"` for infinite ones and those outside.
    hierarchy
        Coarser levels, the finest first, each with some of the edges of the level below.
    within
        Public knowledge about the values inside a bin: `"any"` is none (they may heap at round numbers), `"even"` that
        they are spread evenly.
    decimal, thousands
        Marks in text: before decimals, and between groups of three digits.
    prefix, suffix
        Texts that may surround a number without changing it: with `suffix="%"`, 12.5% is 12.5.

    """

    scale: ClassVar[Scale] = "number"
    lists: ClassVar[tuple[str, ...]] = ("edges",)
    min: float | None = None
    max: float | None = None
    _: KW_ONLY
    width: float = 1
    edges: tuple[float, ...] | None = None
    null: Destination = "drop"
    nan: Destination = "drop"
    infinite: Destination = "drop"
    unknown: Destination = "drop"
    outside: Destination = "drop"
    hierarchy: Mapping[str, Sequence[float]] | tuple[tuple[str, tuple[float, ...]], ...] = ()
    within: Within = "any"
    decimal: str = "."
    thousands: str | None = None
    prefix: str | None = None
    suffix: str | None = None

    def _reading(self) -> Reading:
        marks = {key: getattr(self, key) for key in ("decimal", "thousands", "prefix", "suffix")}
        return replace(Attribute._reading(self), **marks)

    @property
    def bins(self) -> int:
        """Number of declared bins."""
        return self._regular_bins() if self.edges is None else len(self.edges) - 1

    @property
    def start(self) -> float:
        """Return the lowest edge."""
        return self.min if self.min is not None else self.bin_edges()[0]

    def coordinate(self, value: Scalar) -> float:
        """Return a number as it is."""
        if isinstance(value, bool) or not isinstance(value, NUMBERS) or not abs(value) <= sys.float_info.max:
            msg = f"attribute '{self.name}' takes numbers ({self.extent()}), got {value!r}"
            raise QueryError(msg)
        return float(value)

    def place(self, constant: Scalar) -> float:
        """Return a number as it is; whole numbers may be compared with fractions."""
        return Number.coordinate(self, constant)

    def regular_bins(self) -> tuple[float, float, int] | None:
        """Return the minimum and the width in decimal units, or as they are if there are too many; None with edges.

        So an edge is the double nearest to its decimal: 0 + 3 * 0.1 would be the one after 0.3, and 0.3 in the bin
        below.
        """
        if self.edges is not None:
            return None
        if isinstance(self.start, int) and isinstance(self.width, int):
            return self.start, self.width, 1
        return _in_decimals(self.start, self.width, self.bins) or (self.start, self.width, 1)

    def bin_edges(self) -> NDArray[np.float64]:
        """Return the edges of bins: `min + k * width`, each rounded to a double, and the end of the last bin."""
        regular = self.regular_bins()
        if regular is None:
            return np.asarray(self.edges, np.float64)
        first, width, over = regular
        edges = np.asarray((first + np.arange(self.bins + 1) * width) / float(over), np.float64)
        edges[-1] = self._stop()
        return edges

    def extent(self) -> str:
        """Return the minimum and the maximum."""
        stop = self._stop() if self.edges is None else self.edges[-1]
        return f"{self.start:.15g} to {stop - self.step:.15g}"

    def _stop(self) -> float:
        """Return the end of the last regular bin."""
        raise NotImplementedError

    def _regular_bins(self) -> int:
        raise NotImplementedError

    def _check(self) -> None:
        for key in ("min", "max", "width"):
            object.__setattr__(self, key, _plain(getattr(self, key)))
        if self.edges is not None:
            if not isinstance(self.edges, Iterable):
                msg = (
                    f"attribute '{self.name}': edges must be a list of numbers such as [0, 18, 65], got {self.edges!r}"
                )
                raise DomainError(msg)
            object.__setattr__(self, "edges", tuple(map(_plain, self.edges)))
        beyond = ("drop", "clip", "cell")
        here = ("drop", "cell")
        self._check_destinations(null=here, nan=here, infinite=beyond, unknown=here, outside=beyond)
        self._check_within(self.within)
        self._check_marks()
        if self.edges is None:
            self._check_regular()
        else:
            self._check_edges(self.edges)
        self._check_hierarchy()

    def _check_marks(self) -> None:
        for key, marks in (("decimal", DECIMALS), ("thousands", (None, *THOUSANDS))):
            if getattr(self, key) not in marks:
                allowed = ", ".join(f'"{mark}"' for mark in marks if mark is not None)
                msg = f"attribute '{self.name}': {key} must be one of {allowed}, got {getattr(self, key)!r}"
                raise DomainError(msg)
        if self.decimal == self.thousands:
            msg = f"attribute '{self.name}': decimal and thousands must differ, got {self.decimal!r} for both"
            raise DomainError(msg)
        for key in ("prefix", "suffix"):
            sign = getattr(self, key)
            if sign is not None and (fault := fault_of_sign(sign)) is not None:
                msg = f'attribute \'{self.name}\': {key}, such as "$" or "%", {fault}, got {sign!r}'
                raise DomainError(msg)

    def _check_hierarchy(self) -> None:
        if self.hierarchy and self.bins > MAX_LEVEL_BINS:  # a hostile file must not make us allocate the edges
            msg = f"attribute '{self.name}' has {self.bins} bins; a hierarchy allows at most {MAX_LEVEL_BINS}"
            raise DomainError(msg)
        levels = []
        finer = self.bin_edges() if self.hierarchy else np.zeros(0)
        for name, edges in named_levels(self.name, self.hierarchy, form="a table of levels and their edges"):
            levels.append((name, checked_edges(self.name, name, edges, finer)))
            finer = np.asarray(levels[-1][1], np.float64)
        object.__setattr__(self, "hierarchy", tuple(levels))

    def _coarser(self) -> list[Level]:
        bins = self.bin_edges()
        return [
            Level(name, tuple(self.bin_label(low, high) for low, high in pairwise(edges)), group_of_bins(bins, edges))
            for name, edges in dict(self.hierarchy).items()
        ]

    def _check_regular(self) -> None:
        if self.min is None or self.max is None:
            msg = (
                f"attribute '{self.name}' needs min and max (and a width), or edges; "
                "take them from public knowledge, not from the data"
            )
            raise DomainError(msg)
        for key in ("min", "max", "width"):
            self._check_number(key, getattr(self, key))
        if not self.width > 0:
            msg = f"attribute '{self.name}': width must be above 0, got {self.width!r}"
            raise DomainError(msg)
        if self._stop() <= self.min:
            msg = f"attribute '{self.name}': max {self.max!r} must be above min {self.min!r}"
            raise DomainError(msg)
        if (self._stop() - self.min) / self.width > MAX_BINS:
            msg = f"attribute '{self.name}' would have more than 2^31 bins; use a larger width than {self.width!r}"
            raise DomainError(msg)

    def _check_edges(self, edges: tuple[float, ...]) -> None:
        if self.min is not None or self.max is not None or self.width != 1:
            msg = f"attribute '{self.name}' has edges as well as min, max or width; keep one of the two forms"
            raise DomainError(msg)
        for edge in edges:
            self._check_number("edges", edge)
        if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
            msg = f"attribute '{self.name}': edges must be at least two numbers in increasing order, got {edges!r}"
            raise DomainError(msg)

    def _check_number(self, key: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_NUMBER:
            msg = f"attribute '{self.name}': {key} must be a number between -2^53 and 2^53, got {value!r}"
            raise DomainError(msg)


@dataclass(frozen=True, slots=True)
class Integer(Number):
    """Whole numbers from `min` to `max`, both included, in bins `width` wide (the last may be narrower).

    With `edges`, bin i holds the whole numbers from `edges[i]` up to but not including `edges[i + 1]`.

    >>> Integer("age", 17, 90, width=10).labels()[:2]
    ['17-26', '27-36']
    """

    kind: ClassVar[str] = "integer"
    arrow_type: ClassVar[str] = "int64"

    def coordinate(self, value: Scalar) -> float:
        """Return a whole number as it is; a fraction is not a value of this attribute."""
        number = Number.coordinate(self, value)
        if not number.is_integer():
            msg = f"attribute '{self.name}' takes whole numbers ({self.extent()}), got {value!r}"
            raise QueryError(msg)
        return number

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return the whole numbers at these coordinates."""
        return np.asarray(np.floor(coordinates), np.int64)

    def bin_label(self, low: float, high: float) -> str:
        """Return `17` or `17-26`."""
        return f"{low:.0f}" if high - low == 1 else f"{low:.0f}-{high - 1:.0f}"

    def _stop(self) -> float:
        assert self.max is not None
        return self.max + 1

    def _regular_bins(self) -> int:
        return -int(-(self._stop() - self.start) // self.width)

    def _check_number(self, key: str, value: object) -> None:
        Number._check_number(self, key, value)
        if not isinstance(value, int):
            msg = f"attribute '{self.name}': {key} must be a whole number, got {value!r}; or declare it as a float"
            raise DomainError(msg)


@dataclass(frozen=True, slots=True)
class Float(Number):
    """Real numbers from `min` to `max` in bins `width` wide; the last bin contains its upper edge too.

    >>> Float("dose", 0, 2, width=0.5).labels()
    ['[0, 0.5)', '[0.5, 1)', '[1, 1.5)', '[1.5, 2]']
    """

    kind: ClassVar[str] = "float"
    arrow_type: ClassVar[str] = "float64"
    step: ClassVar[float] = 0.0

    def own_value(self, irregular: str) -> float | None:
        """Return NaN and infinity for their cells; the other irregular kinds are null."""
        return {"nan": math.nan, "infinite": math.inf}.get(irregular)

    def bin_label(self, low: float, high: float) -> str:
        """Return `[1.5, 2)`, and `[3.5, 4]` for the last bin."""
        last = high == (self._stop() if self.edges is None else self.edges[-1])
        return f"[{low:.10g}, {high:.10g}{']' if last else ')'}"

    def _stop(self) -> float:
        assert self.max is not None
        return float(self.max)

    def _regular_bins(self) -> int:
        count = math.ceil((self._stop() - self.start) / self.width)
        # Rounding may put the last inner edge at max, past it, or just below: that would be an empty bin.
        while count > 1 and self.start + (count - 1) * float(self.width) >= self._stop() - 4 * self._rounding():
            count -= 1
        return count

    def _rounding(self) -> float:
        """Return the distance between doubles at the largest edge."""
        return math.ulp(max(abs(self.start), abs(self._stop())))

    def _check_regular(self) -> None:
        Number._check_regular(self)
        if self.width < 8 * self._rounding():
            msg = f"attribute '{self.name}': width must be well above the rounding of doubles from {self.extent()}, "
            msg += f"got {self.width!r}; widen it"
            raise DomainError(msg)


@lru_cache(maxsize=64)
def _in_decimals(first: float, width: float, bins: int) -> tuple[int, int, int] | None:
    """Return the first edge and the width as multiples of 1/c, and c; None if they or an edge have too many digits.

    >>> _in_decimals(-1.5, 0.25, 8), _in_decimals(0.0, 1 / 3, 3)
    ((-150, 25, 100), None)
    """
    decimals = -min(0, _exponent(first), _exponent(width))
    whole, wide = (int(Fraction(repr(number)) * 10**decimals) for number in (first, width))
    if decimals > MAX_DECIMALS or abs(whole) + bins * wide > MAX_NUMBER:
        return None
    return whole, wide, 10**decimals


def _exponent(number: float) -> int:
    """Return the exponent of the largest power of ten that divides the shortest decimal of a number.

    >>> _exponent(0.25), _exponent(7.0), _exponent(3e-7)
    (-2, 0, -7)
    """
    return int(Decimal(repr(number)).normalize().as_tuple().exponent)


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python scalar, which prints as a number."""
    return value.item() if isinstance(value, np.generic) else value
