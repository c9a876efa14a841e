"""Ways in which a column may be read, and the public grids on which its values are counted to learn a domain.

Which ways are tried depends on public facts alone. Where types are declared apart from the rows (CSV files, whose
fields are text, and databases), the type says which. Elsewhere a library may have inferred the type from the rows, so
all ways are tried whatever the type is. Every attribute here has a cell for each irregular kind of value: it drops no
row. The grids reach as far as a domain's bounds may.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.domain import Attribute, Category, Date, Float
from dpcube.core.domain.scale import EPOCH

ROUND = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
DECADES = range(-6, 16)
YEARS = range(1900, 2101, 10)
FIRST_DAY, LAST_DAY = date(1600, 1, 1), date(2399, 12, 31)
DATE_FORMATS = ("", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
NUMBER_MARKS: tuple[dict[str, str], ...] = ({}, {"thousands": ","}, {"decimal": ","})
_OWN: dict[str, Any] = dict.fromkeys(("null", "unknown", "outside"), "cell")
_OWN_OF_NUMBERS: dict[str, Any] = {**_OWN, "nan": "cell", "infinite": "cell"}


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """A way to read a column: what it makes of it, how text is read, and its weight against the others."""

    kind: str
    options: dict[str, str] = field(default_factory=dict)
    weight: int = 20

    @property
    def words(self) -> str:
        """The reading in words."""
        options = ", ".join(f"{key} {value!r}" for key, value in self.options.items())
        return f"{self.kind}s{f' with {options}' if options else ''}"

    def attribute(self, column: str, place: int) -> Attribute:
        """Return the attribute that counts the column by this reading."""
        name = f"reading {place}"
        if self.kind == "number":
            return Float(name, edges=number_edges(), column=column, **_OWN_OF_NUMBERS, **self.options)  # type: ignore[arg-type]
        if self.kind == "date":
            return Date(name, FIRST_DAY, LAST_DAY, column=column, **_OWN, **self.options)  # type: ignore[arg-type]
        return Category(name, ["false", "true"], column=column, null="cell", unknown="cell")

    def reads(self, attribute: Attribute) -> NDArray[np.bool_]:
        """Return a mask of the cells whose rows this reading reads; as text all are read that are not null."""
        cells = np.zeros(attribute.size, np.bool_)
        cells[: attribute.bins] = True
        if self.kind == "text":
            cells[attribute.bins + attribute.own_cells.index("unknown")] = True
        return cells


NUMBER_READINGS = tuple(ColumnReading("number", marks, 16 if marks else 20) for marks in NUMBER_MARKS)
DATE_READINGS = tuple(
    ColumnReading("date", {"format": form} if form else {}, 16 if form else 20) for form in DATE_FORMATS
)
"""Marks and formats also read what is written without them, so they weigh less."""
TRUTH, TEXT = ColumnReading("truth value"), ColumnReading("text", {}, 10)
"""Text is selected unless half of the rows are read as something narrower."""
EVERY = (*NUMBER_READINGS, *DATE_READINGS, TRUTH, TEXT)


def readings_of(kind: str | None, *, declared: bool) -> tuple[ColumnReading, ...]:
    """Return the readings to try on a column; none if no attribute can have its type.

    >>> [one.words for one in readings_of("date", declared=True)]
    ['dates']
    """
    if not declared or kind == "text":
        return EVERY
    if kind in ("integer", "real"):
        return NUMBER_READINGS[:1]
    return {"boolean": (TRUTH,), "date": DATE_READINGS[:1]}.get(kind or "", ())


def reading_axes(column: str, readings: Sequence[ColumnReading]) -> tuple[list[Attribute], list[int]]:
    """Return the attributes that count a column, and for each reading which of them is its own.

    Text is counted on the axis of truth values, by the cell for unknown values.
    """
    counted = [reading for reading in readings if reading.kind != "text"]
    axes = [reading.attribute(column, place) for place, reading in enumerate(counted)]
    return axes, [counted.index(TRUTH if reading.kind == "text" else reading) for reading in readings]


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of an axis in two resolutions, and a prior over the coarse ones.

    `edges` are those of the fine cells; `coarse` has the coarse cell of each fine one, ascending from 0. `prior` adds
    up to 1.
    """

    edges: NDArray[np.float64]
    coarse: Ints
    prior: NDArray[np.float64]


@lru_cache(1)
def number_edges() -> tuple[float, ...]:
    """Return round numbers, ten a decade, of both signs, 0, and the decades in which most years of tables are."""
    above = round_numbers()
    return (*(-edge for edge in reversed(above)), 0.0, *sorted({*above, *map(float, YEARS)}))


@lru_cache(1)
def round_numbers() -> tuple[float, ...]:
    """Return the positive round numbers."""
    return tuple(float(f"{digits}e{decade}") for decade in DECADES for digits in ROUND)


@lru_cache(1)
def number_grid() -> Grid:
    """Return the grid of numbers: three coarse cells a decade, and of the prior most near 1 to 10^6."""
    edges = np.array(number_edges())
    magnitude = np.where(edges[:-1] >= 0, edges[:-1], -edges[1:])  # of a cell, the end that is nearer to 0
    decade = np.floor(np.log10(np.maximum(magnitude, 1e-7)) + 1e-9)
    third = np.digitize(magnitude / 10.0**decade, (1.99, 4.99))
    key = np.where(magnitude == 0, -1e9, 3 * decade + third) * np.where(edges[:-1] >= 0, 1, -1)
    coarse = np.cumsum(np.concatenate([[0], key[1:] != key[:-1]]))
    first = np.flatnonzero(np.concatenate([[True], coarse[1:] != coarse[:-1]]))
    weight = 1 / (1 + np.maximum(np.abs(decade[first] - 2.5) - 3.5, 0) / 1.2) ** 2
    weight = np.where(magnitude[first] == 0, 1.0, weight) * np.where(edges[first] >= 0, 1, 0.25)
    return Grid(edges, coarse.astype(np.int64), weight / weight.sum())


@lru_cache(1)
def date_grid() -> Grid:
    """Return the grid of dates: months within years, and of the prior most on the years 1950 to 2049."""
    months = np.arange(np.datetime64(FIRST_DAY, "M"), np.datetime64(LAST_DAY, "M") + 1)
    days = np.append(months, months[-1] + 1).astype("datetime64[D]").astype(np.int64) + EPOCH
    years = months.astype("datetime64[Y]").astype(np.int64)
    year = np.unique(years)
    weight = np.where((year >= -20) & (year < 80), 60.0, np.where((year >= -70) & (year < 130), 10.0, 1.0))
    return Grid(days.astype(np.float64), (years - years[0]).astype(np.int64), weight / weight.sum())


def month_of_days() -> Ints:
    """Return the fine cell of `date_grid` of every day from `FIRST_DAY` to `LAST_DAY`."""
    days = np.arange(np.datetime64(FIRST_DAY, "D"), np.datetime64(LAST_DAY, "D") + 1)
    months = days.astype("datetime64[M]").astype(np.int64)
    return np.asarray(months - months[0], np.int64)
