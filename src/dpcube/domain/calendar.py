"""Attributes of dates."""

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.domain.attribute import Attribute, Destination, Scalar
from dpcube.errors import DomainError, QueryError

ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"  # whether there is such a zone is seen when rows are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Date(Attribute):
    """Dates from `start` to `end`, both included, by day, week (from `start`), calendar month or calendar year.

    `zone` is the IANA name of the time zone in which times that have a zone are given their day; UTC unless declared.

    >>> Date(name="admitted", start=date(2026, 1, 15), end=date(2026, 3, 1), every="month").labels()
    ['2026-01', '2026-02', '2026-03']
    """

    kind: ClassVar[str] = "date"
    start: date
    end: date
    every: Literal["day", "week", "month", "year"] = "day"
    zone: str | None = None
    null: Destination = "drop"
    unknown: Destination = "drop"
    outside: Destination = "drop"

    def bin_edges(self) -> NDArray[np.float64]:
        """Return the ordinals of the days on which bins start, then one past the last day."""
        if self.every in ("day", "week"):
            starts = np.arange(self.start.toordinal(), self.end.toordinal() + 1, 7 if self.every == "week" else 1)
        else:
            unit = "datetime64[M]" if self.every == "month" else "datetime64[Y]"
            first, last = np.array([self.start, self.end], "datetime64[D]").astype(unit)
            periods = np.arange(first, last + 1)
            starts = periods.astype("datetime64[D]").astype(np.int64) + date(1970, 1, 1).toordinal()
            starts[0] = self.start.toordinal()
        return np.append(starts, self.end.toordinal() + 1).astype(np.float64)

    def coordinate(self, value: Scalar) -> float:
        """Return a date's ordinal; text is read as YYYY-MM-DD."""
        try:
            day = date.fromisoformat(value) if isinstance(value, str) else value
            return float(day.toordinal())  # type: ignore[union-attr]
        except (ValueError, AttributeError):
            msg = f"attribute '{self.name}' holds dates ({self.extent()}) written YYYY-MM-DD, got {value!r}"
            raise QueryError(msg) from None

    def bin_label(self, low: float, high: float) -> str:  # noqa: ARG002 (a bin is named by its first day)
        """Return the first day of the bin, or its month or year."""
        day = date.fromordinal(int(low)).isoformat()
        return {"month": day[:7], "year": day[:4]}.get(self.every, day)

    def extent(self) -> str:
        """Return the first and the last day."""
        return f"{self.start} to {self.end}"

    def _check(self) -> None:
        self._check_destinations(null=("drop", "cell"), unknown=("drop", "cell"), outside=("drop", "clip", "cell"))
        for key in ("start", "end"):
            value = getattr(self, key)
            if not isinstance(value, date) or isinstance(value, datetime):
                msg = f"attribute '{self.name}': {key} must be a date such as 2026-01-31 without quotes, got {value!r}"
                raise DomainError(msg)
        if self.every not in ("day", "week", "month", "year"):
            msg = f"attribute '{self.name}': every must be day, week, month or year, got {self.every!r}"
            raise DomainError(msg)
        if self.zone is not None and not (isinstance(self.zone, str) and re.fullmatch(ZONE, self.zone)):
            msg = f"attribute '{self.name}': zone must be an IANA name such as Europe/Berlin, got {self.zone!r}"
            raise DomainError(msg)
        if self.end < self.start:
            msg = f"attribute '{self.name}': end {self.end} must not be before start {self.start}"
            raise DomainError(msg)
