"""Date attribute: days in bins of the calendar."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain.attribute import Attribute, Destination, Within
from dpcube.core.domain.hierarchy import Level
from dpcube.core.domain.reading import Case, Reading, fault_of_format
from dpcube.core.domain.scale import EPOCH, Scalar, Scale
from dpcube.core.errors import DomainError, QueryError

ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"  # whether the zone exists is checked when rows are counted
# Coarser calendar units for each unit; weeks begin with the domain's first day, so they do not nest in months.
COARSER = {
    **{"day": ("week", "month", "quarter", "year"), "week": (), "month": ("quarter", "year")},
    **{"quarter": ("year",), "year": ()},
}
MONTHS = {"month": 1, "quarter": 3, "year": 12}


Every = Literal["day", "week", "month", "quarter", "year"]


@dataclass(frozen=True, slots=True, init=False)
class Date(Attribute):
    """Dates from `start` to `end`, both included, by day, week (from `start`), or calendar month, quarter or year.

    Parameters
    ----------
    start, end
        First and last day, from public knowledge.
    every
        Calendar unit of a bin.
    zone
        IANA name of the time zone in which timestamps with a zone are assigned to a day. The default is UTC.
    null, unknown, outside
        Destinations of irregular values: `"drop"`, `"cell"`, or `"clip"` for those outside.
    hierarchy
        Coarser levels among week, month, quarter and year. The default is month and year, as far as they are coarser.
    within
        `"even"` declares that rows are spread evenly over the days of a bin, `"any"` that nothing is known about them.
    format
        Formats of text (`reading.py`). YYYY-MM-DD is always read.

    Examples
    --------
    >>> Date("admitted", "2026-01-15", "2026-03-01", every="month").labels()
    ['2026-01', '2026-02', '2026-03']

    """

    kind: ClassVar[str] = "date"
    scale: ClassVar[Scale] = "day"
    arrow_type: ClassVar[str] = "date32"

    lists: ClassVar[tuple[str, ...]] = ("hierarchy",)
    start: date
    end: date
    every: Every = "day"
    zone: str | None = None
    null: Destination = "drop"
    unknown: Destination = "drop"
    outside: Destination = "drop"
    hierarchy: tuple[str, ...] = ()
    within: Within = "any"
    format: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        start: date | str,
        end: date | str,
        *,
        every: Every = "day",
        zone: str | None = None,
        null: Destination = "drop",
        unknown: Destination = "drop",
        outside: Destination = "drop",
        hierarchy: Sequence[str] = (),
        within: Within = "any",
        format: str | Sequence[str] = (),
        column: str | None = None,
        trim: bool = False,
        case: Case = "exact",
        null_text: Sequence[str] = (),
    ) -> None:
        irregular = {"null": null, "unknown": unknown, "outside": outside}
        days = {"start": start, "end": end, "every": every, "zone": zone}
        read = {"column": column, "trim": trim, "case": case, "null_text": null_text, "format": format}
        self._declare(name=name, **days, **irregular, hierarchy=hierarchy, within=within, **read)

    def _reading(self) -> Reading:
        return replace(Attribute._reading(self), formats=self.format)

    @property
    def grain(self) -> str:
        """Name of the finest level: the calendar unit of a bin."""
        return self.every

    def bin_edges(self) -> NDArray[np.float64]:
        """Return the ordinals of the first days of bins, then one past the last day."""
        if self.every in ("day", "week"):
            starts = np.arange(self.start.toordinal(), self.end.toordinal() + 1, 7 if self.every == "week" else 1)
        else:
            ends = np.array([self.start, self.end], "datetime64[M]").astype(np.int64)
            first, last = ends // MONTHS[self.every]
            months = (np.arange(first, last + 1) * MONTHS[self.every]).astype("datetime64[M]")
            starts = months.astype("datetime64[D]").astype(np.int64) + EPOCH
            starts[0] = self.start.toordinal()
        return np.append(starts, self.end.toordinal() + 1).astype(np.float64)

    def coordinate(self, value: Scalar) -> float:
        """Return a date's ordinal; text is read as YYYY-MM-DD."""
        try:
            day = date.fromisoformat(value) if isinstance(value, str) else value
            return float(day.toordinal())  # type: ignore[union-attr]
        except (ValueError, AttributeError):
            msg = f"attribute '{self.name}' takes dates ({self.extent()}) such as 2026-01-31, got {value!r}"
            raise QueryError(msg) from None

    def place(self, constant: Scalar) -> float:
        """Return a date's ordinal; for a time, plus the fraction of the day that has passed."""
        if not isinstance(constant, datetime):
            return self.coordinate(constant)
        since_midnight = constant - datetime.combine(constant, time(), constant.tzinfo)
        return constant.toordinal() + since_midnight.total_seconds() / 86_400

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return the days with these ordinals."""
        return (coordinates.astype(np.int64) - EPOCH).astype("datetime64[D]")

    def regular_bins(self) -> tuple[float, float, int] | None:
        """Return the first day and the length of days and weeks; months and years differ in length."""
        width = {"day": 1, "week": 7}.get(self.every)
        return None if width is None else (self.start.toordinal(), width, 1)

    def bin_label(self, low: float, high: float) -> str:  # noqa: ARG002 (a bin is named by its first day)
        """Return the first day of the bin, or its month or year."""
        day = date.fromordinal(int(low)).isoformat()
        return day if self.every in ("day", "week") else _period_label(self.every, int(day[:4]), int(day[5:7]) - 1)

    def extent(self) -> str:
        """Return the first and the last day."""
        return f"{self.start} to {self.end}"

    def _check(self) -> None:
        self._check_destinations(null=("drop", "cell"), unknown=("drop", "cell"), outside=("drop", "clip", "cell"))
        for key in ("start", "end"):
            value = self._day(key, getattr(self, key))
            object.__setattr__(self, key, value)
            if not isinstance(value, date) or isinstance(value, datetime):
                msg = f"attribute '{self.name}': {key} must be a date such as 2026-01-31 without quotes, got {value!r}"
                raise DomainError(msg)
        if not isinstance(self.every, str) or self.every not in COARSER:
            msg = f"attribute '{self.name}': every must be day, week, month, quarter or year, got {self.every!r}"
            raise DomainError(msg)
        if self.zone is not None and not (isinstance(self.zone, str) and re.fullmatch(ZONE, self.zone)):
            msg = f"attribute '{self.name}': zone must be an IANA name such as Europe/Berlin, got {self.zone!r}"
            raise DomainError(msg)
        self._check_within(self.within)
        self._set_texts("format")
        for form in self.format:
            if (fault := fault_of_format(form)) is not None:
                msg = f"attribute '{self.name}': the format {form!r} cannot be read: {fault}"
                raise DomainError(msg)
        if self.end < self.start:
            msg = f"attribute '{self.name}': end must not be before start {self.start}, got {self.end}"
            raise DomainError(msg)
        self._check_hierarchy()

    def _day(self, key: str, given: object) -> object:
        """Return the day in a text; other values are returned as they are."""
        if not isinstance(given, str):
            return given
        with suppress(ValueError):
            if (day := date.fromisoformat(given)).isoformat() == given:  # Python reads other forms too: 2026-W05-6
                return day
        msg = f"attribute '{self.name}': {key} must be a date written YYYY-MM-DD such as '2026-01-31', got {given!r}"
        raise DomainError(msg)

    def _check_hierarchy(self) -> None:
        allowed, given = COARSER[self.every], self.hierarchy
        texts = isinstance(given, list | tuple) and all(isinstance(level, str) for level in given)
        rising = texts and tuple(given) == tuple(level for level in allowed if level in given)
        if not rising or ("week" in given and len(given) > 1):
            others = ", ".join(level for level in allowed if level != "week")
            choices = f"some of {others} in this order" if others else "left out"
            choices = f"week alone, or {choices}" if "week" in allowed else choices
            msg = f"attribute '{self.name}': hierarchy of dates by {self.every} must be {choices}, got {given!r}"
            raise DomainError(msg)
        object.__setattr__(self, "hierarchy", tuple(given))

    def _coarser(self) -> list[Level]:
        names = self.hierarchy or tuple(name for name in COARSER[self.every] if name in ("month", "year"))
        return [self._calendar_level(name) for name in names]

    def _calendar_level(self, name: str) -> Level:
        days = self.bin_edges()[:-1].astype(np.int64)
        if name == "week":
            period = (days - days[0]) // 7
            starts = days[np.unique(period, return_index=True)[1]]
            return Level(name, tuple(date.fromordinal(int(day)).isoformat() for day in starts), period)
        months = (days - EPOCH).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        periods, group = np.unique(months // MONTHS[name], return_inverse=True)
        firsts = periods * MONTHS[name] + 1970 * 12
        return Level(name, tuple(_period_label(name, *divmod(int(month), 12)) for month in firsts), group)


def _period_label(name: str, year: int, month: int) -> str:
    return f"{year:04}" + {"month": f"-{month + 1:02}", "quarter": f"-Q{month // 3 + 1}", "year": ""}[name]
