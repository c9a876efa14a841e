"""A period: the rows whose value of a column lies in a range, as the gate selects them and the ledger records them.

Two periods are compared by the numbers at their ends only if both read the same column in the same way: otherwise one
row may have two values, lie in both ranges though they are disjoint, and be charged twice. So a period holds the column
of the table itself, whatever an attribute calls it, and the complete reading of its text; the ledger takes periods of
different readings for periods of different columns, whose charges add up. The text of a query is part of a reading: by
another query the column may hold another value of the same row. The type of the column is not, for a value is of one
period in columns of every type (`domain.written`), and a library may infer the type from the rows: if it counted, one
row could decide whether the charges of others add up. An entry without a reading is of the plain one: text as it
stands, days as YYYY-MM-DD, and moments by their day in UTC.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import date

from dpcube.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Period:
    """A range [start, stop) of a column, as whole numbers or days, that the gate itself selects rows by.

    `reading` is a text that is equal for equal readings of the column; it is empty for the plain one.
    """

    column: str
    kind: str
    start: int
    stop: int
    reading: str = ""

    def __post_init__(self) -> None:
        # A range that holds nothing would be charged to nobody.
        days = self.kind != "date" or 0 < self.start < self.stop <= date.max.toordinal() + 1
        if self.kind not in ("date", "integer") or not self.start < self.stop or not days:
            msg = f"a period is a range of dates or whole numbers, got {self.kind} from {self.start} to {self.stop}"
            raise InputError(msg)

    @classmethod
    def kept(cls, column: str, kind: str, start: int, stop: int) -> "Period":
        """Return a period from the columns of a ledger's entry."""
        kind, _, reading = str(kind).partition(" ")
        return cls(column, kind, start, stop, reading)

    @property
    def columns(self) -> tuple[str, str, int, int]:
        """What a ledger's entry keeps: the reading stands behind the kind, where entries before it had none."""
        kind = f"{self.kind} {self.reading}" if self.reading else self.kind
        return self.column, kind, self.start, self.stop

    @property
    def axis(self) -> tuple[str, str, str]:
        """What two periods have in common if no row lies in both unless their ranges meet."""
        return self.column, self.kind, self.reading

    @property
    def axis_digest(self) -> str:
        """The digest of the axis, by which releases of periods are compared without the ledger."""
        return hashlib.sha256(json.dumps(self.axis).encode()).hexdigest()

    @property
    def words(self) -> str:
        """The range with both ends included, as people write it."""
        ends = (self.start, self.stop - 1)
        first, last = (date.fromordinal(end).isoformat() if self.kind == "date" else str(end) for end in ends)
        return f"{self.column} from {first} to {last}"
