"""Scales: what a coordinate counts. Kinds of attributes share one, and its rules decide what a coordinate is elsewhere.

A number is its own coordinate, that of a day is its ordinal, and that of a listed value its position. A new scale is a
class here, and an entry in `SCALE_SQL` of `core/sources/sql.py` and in `NORMALISERS` of `core/sources/reading.py`.
"""

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain.grammar import parsed_day, parsed_number
from dpcube.core.domain.reading import Reading

if TYPE_CHECKING:
    from dpcube.core.domain.attribute import Attribute

Scalar = str | int | float | date
Scale = Literal["number", "day", "position"]

EPOCH = date(1970, 1, 1).toordinal()


class NumberRules:
    """Numbers: their own coordinates."""

    origin = 0
    """Coordinate that engines and Arrow store as 0."""

    def parsed(self, reading: Reading, text: str, zone: str | None) -> float | None:
        """Return the coordinate of the value in a text, by reading options and time zone; None if there is none."""
        return parsed_number(reading, text, zone)

    def places(self, attribute: "Attribute", values: Sequence[Scalar | None]) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the coordinates of values, counted from the origin; NaN for null."""
        return np.array(values, np.float64)

    def sql_type(self, attribute: "Attribute") -> str:
        """Return DuckDB's type of the values where they are compared, added up or averaged."""
        return "DOUBLE" if attribute.has_wide_bins or attribute.is_continuous else "BIGINT"

    def sql_value(self, attribute: "Attribute", place: str, literal: Callable[[Scalar], str]) -> str:  # noqa: ARG002
        """Return DuckDB's SQL for the value at a coordinate, counted from the origin; `literal` writes a value."""
        return place if attribute.is_continuous else f"CAST({place} AS BIGINT)"


class DayRules(NumberRules):
    """Days: their ordinals."""

    origin = EPOCH

    def parsed(self, reading: Reading, text: str, zone: str | None) -> float | None:
        """Return the ordinal of the date in a text."""
        return parsed_day(reading, text, zone)

    def places(self, attribute: "Attribute", values: Sequence[Scalar | None]) -> NDArray[np.float64]:  # noqa: ARG002
        """Return days since 1970-01-01."""
        days = np.array(values, "datetime64[D]")
        return np.where(np.isnat(days), np.nan, days.astype(np.int64))

    def sql_type(self, attribute: "Attribute") -> str:  # noqa: ARG002
        """Return the type of dates."""
        return "DATE"

    def sql_value(self, attribute: "Attribute", place: str, literal: Callable[[Scalar], str]) -> str:  # noqa: ARG002
        """Return SQL for the day."""
        return f"CAST(DATE '1970-01-01' + CAST({place} AS INTEGER) AS DATE)"


class PositionRules(NumberRules):
    """Listed values: their positions in the list, between which there is no distance."""

    def parsed(self, reading: Reading, text: str, zone: str | None) -> float | None:  # noqa: ARG002
        """Return None: a text is looked up in the list."""
        return None

    def places(self, attribute: "Attribute", values: Sequence[Scalar | None]) -> NDArray[np.float64]:
        """Return positions."""
        position = {value: place for place, value in enumerate(_listed(attribute))}
        return np.array([np.nan if value is None else position.get(value, np.nan) for value in values], np.float64)

    def sql_type(self, attribute: "Attribute") -> str:  # noqa: ARG002
        """Return the type of text."""
        return "VARCHAR"

    def sql_value(self, attribute: "Attribute", place: str, literal: Callable[[Scalar], str]) -> str:
        """Return SQL that looks the value up."""
        return f"list_extract([{', '.join(map(literal, _listed(attribute)))}], CAST({place} AS INTEGER) + 1)"


def _listed(attribute: "Attribute") -> list[Scalar]:
    values: list[Scalar] = attribute.values_at(np.arange(attribute.bins)).tolist()
    return values


SCALE_RULES: dict[Scale, NumberRules] = {"number": NumberRules(), "day": DayRules(), "position": PositionRules()}
