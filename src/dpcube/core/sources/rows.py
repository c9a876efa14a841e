"""Rows behind a counting interface: a domain, an attribute or a bound enters, exact integers leave.

Each question is one pass over the rows, where they are (`asked.py` puts it into SQL). The exact integers go to the
caller alone; how many rows were read or dropped goes nowhere.
Each verb that asks is sealed: whatever fails inside shows neither rows nor answers (`core/seal.py`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain import Attribute, Domain
from dpcube.core.domain.attribute import EPOCH, listing
from dpcube.core.errors import MemoryLimitError, SourceError
from dpcube.core.seal import sealed
from dpcube.core.sources.asked import AskedRows, Limit
from dpcube.core.sources.keys import coded
from dpcube.core.sources.sql import FATES, clamped, number

LARGEST_BOUND = 2**31
LARGEST_COUNT = 2**53
LONGEST_EXAMPLE = 60  # characters
LONGEST_RECORD = 200  # characters of a text that is compared with another


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """The rows of a private table that fall in chosen cells of some attributes; at first, all of them."""

    _asked: AskedRows

    def __post_init__(self) -> None:
        names = self.columns
        if len(set(names)) < len(names):
            again = next(i for i, name in enumerate(names) if name in names[:i])
            places = f"columns {names.index(names[again]) + 1} and {again + 1}"
            msg = f"{self._asked.table.name} has two columns of one name, {places}; give each column a name of its own"
            raise SourceError(msg)

    def __repr__(self) -> str:
        return f"<private rows of {self._asked.table.name}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._asked.columns

    @property
    def types(self) -> dict[str, str]:
        """Physical types of the columns, by the schema alone; a CSV file's are all text."""
        return {field.name: str(field.type) for field in self._asked.table.schema}

    @property
    def kinds(self) -> dict[str, str | None]:
        """What each column holds by its type: "text", "integer", "real", "boolean", "date", or None if unusable."""
        return self._asked.kinds

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse names of columns that are not all there."""
        self._asked.check_columns(names)

    def as_declared(self) -> "Rows":
        """Return the same rows with types taken at their word: for drafts, which their owner reads."""
        return Rows(replace(self._asked, table=replace(self._asked.table, declared=True)))

    def restrict(self, attribute: Attribute, cells: Sequence[int]) -> "Rows":
        """Return the rows that fall in one of these cells of an attribute."""
        if self._asked.limit is not None:
            msg = "rows are restricted first and limited then: a limit of each part would not limit the whole"
            raise SourceError(msg)
        self._asked.cell(attribute, "")  # raises for a column that is not there, or of a type the attribute cannot read
        for index in cells:
            if not 0 <= index < attribute.size:
                msg = f"attribute '{attribute.name}' has no cell {index}; its cells are 0 to {attribute.size - 1}"
                raise SourceError(msg)
        chosen = (*self._asked.within, (attribute, tuple(map(int, cells))))
        return Rows(replace(self._asked, within=chosen))

    def limit(self, column: str, *, max_rows: int, null: Literal["drop", "each"] = "drop") -> "Rows":
        """Return at most `max_rows` of the rows of each unit, a unit being a value of the column.

        Which rows of a unit are kept is drawn from that unit's own rows alone, so adding or removing a unit adds or
        removes at most `max_rows` rows and leaves all others as they were (in law, and for any outcome of the draws
        of the others). Values that differ are never one unit (`unit.py`). A row without a unit is dropped, or with
        `"each"` is a unit of its own.
        """
        if not self._asked.table.named(self._asked.position(column)):
            msg = f"column '{column}' has the type {self.types[column]}, which cannot name a unit; cast it to text"
            raise SourceError(msg)
        return Rows(replace(self._asked, limit=Limit(column, max_rows, null)))

    @sealed
    def count_cells(self, domain: Domain) -> NDArray[np.int64]:
        """Return the exact count of every cell, in the domain's shape."""
        return self._tally(domain, "count(*)")

    @sealed
    def count_alike(self, domain: Domain) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """Return the cells of rows on every axis, and how many rows have the same: memory by rows, not by the domain.

        Rows that are alike come once, in no order that means anything.
        """
        return coded(self._asked.ask(**self._asked.by_cell(domain, "count(*)")), domain.shape)

    def explain(self, domain: Domain) -> str:
        """Return the SQL that `count_cells` would run first; no row is read."""
        _, sql = next(self._asked.queries(**self._asked.by_cell(domain, "count(*)")))
        return sql

    @sealed
    def sum_cells(self, domain: Domain, column: str) -> NDArray[np.int64]:
        """Return the sum of a column of counts in every cell; text in the other columns may be a cell's label.

        A count is rounded and clamped to 0 to 2^53, and is 0 if it is no number. A cell holds at most its share of
        2^63, so that no sum of cells overflows.
        """
        number(self._asked.column(column), owner=f"column '{column}'")
        dialect = self._asked.table.dialect
        total = dialect.total(clamped("n", low=0, high=LARGEST_COUNT, dialect=dialect))
        most = (2**63 - 1) // domain.size
        return self._tally(domain, f"CAST(least({total}, {most}) AS BIGINT)", n=column)

    @sealed
    def count(self) -> int:
        """Return the exact number of rows."""
        usable = [name for name, held in self.kinds.items() if held is not None]
        if not usable:
            msg = f"{self._asked.table.name} has no column that can be counted; its columns are {listing(self.columns)}"
            raise SourceError(msg)
        return int(self._asked.ask("count(*) AS answer", usable[:1])["answer"][0])

    @sealed
    def fates(self, domain: Domain) -> tuple[list[dict[str, int]], int, int]:
        """Return how many rows each attribute finds to be what (`FATES`), how many there are, and how many count.

        Private, for a look that only the owner sees (`core/check.py`).
        """
        question = self._asked.by_cell(domain, "count(*)")
        keep = " AND ".join(part.keep for part in question["cells"])
        counted = f"CASE WHEN {keep} THEN CASE WHEN {question['where']} THEN 1 END END"
        found, more = self._fates(domain.attributes, {"every": "count(*)", "counted": f"count({counted})"})
        return found, more["every"], more["counted"]

    @sealed
    def read_as(self, attributes: Sequence[Attribute]) -> list[dict[str, int]]:
        """Return how many rows each of some attributes finds to be what (`FATES`): private, for drafts that say so.

        Many are tried on a column, and each reading is long: a text that many rows have is read once, and each reading
        stands in the question once.
        """
        cells = [replace(self._asked.cell(attribute, str(j)), keep="true") for j, attribute in enumerate(attributes)]
        once = self._asked.limit is None
        alike = ", ".join(f"{part.fate} AS f{j}" for j, part in enumerate(cells))
        answer = self._asked.ask(
            f"{alike}, {'CAST(sum(times) AS BIGINT)' if once else 'count(*)'} AS answer",
            [attribute.source_column for attribute in attributes],
            cells=cells,
            tail=f"GROUP BY {', '.join(str(j + 1) for j in range(len(cells)))}",
            once=once,
        )
        rows_of = answer["answer"]
        return [
            {fate: int(rows_of[answer[f"f{j}"] == i].sum()) for i, fate in enumerate(FATES)} for j in range(len(cells))
        ]

    @sealed
    def has_fractions(self, attribute: Attribute) -> bool:
        """Say whether an attribute of real numbers reads any that is not whole: private, for drafts that say so."""
        if attribute.scale != "number":
            return False
        part = replace(self._asked.cell(attribute, "0"), keep="true")
        fraction = f"CASE WHEN {part.fate} = 0 AND v0 <> floor(v0) THEN 1 END"
        answer = self._asked.ask(f"count({fraction}) AS answer", [attribute.source_column], cells=[part])
        return bool(answer["answer"][0])

    def _fates(
        self, attributes: Sequence[Attribute], more: dict[str, str]
    ) -> tuple[list[dict[str, int]], dict[str, int]]:
        """Count the rows by their fate for each attribute, and whatever more is asked."""
        cells = [replace(self._asked.cell(attribute, str(j)), keep="true") for j, attribute in enumerate(attributes)]
        tallies = [
            f"count(CASE WHEN {part.fate} = {i} THEN 1 END) AS f{j}_{i}"
            for j, part in enumerate(cells)
            for i in range(len(FATES))
        ]
        select = ", ".join([*tallies, *(f"{sql} AS {name}" for name, sql in more.items())])
        answer = self._asked.ask(select, [attribute.source_column for attribute in attributes], cells=cells)
        found = [{fate: int(answer[f"f{j}_{i}"][0]) for i, fate in enumerate(FATES)} for j in range(len(cells))]
        return found, {name: int(answer[name][0]) for name in more}

    @sealed
    def different(self, column: str) -> tuple[int, int]:
        """Return how many values a column has that differ, and how many rows have one: private, as `read_as` is."""
        name = self._asked.column(column).name
        answer = self._asked.ask(f"count(DISTINCT {name}) AS differ, count({name}) AS filled", [column])
        return int(answer["differ"][0]), int(answer["filled"][0])

    @sealed
    def not_taken(self, attribute: Attribute, *, most: int) -> list[str]:
        """Return some texts of a column whose rows an attribute drops, nulls apart: private, as `fates` is.

        Values that are clipped, or have a cell of their own, count, and are not among them.
        """
        dropped = [fate for fate in FATES[1:] if fate != "null" and attribute.destination(fate) == "drop"]
        if not dropped:
            return []
        part = self._asked.cell(attribute, "0")
        wrong = ", ".join(str(FATES.index(fate)) for fate in dropped)
        text = f"substring({self._asked.column(attribute.source_column).text()}, 1, {LONGEST_EXAMPLE})"
        chosen = [replace(part, keep=f"{part.fate} IN ({wrong})")]
        answer = self._asked.ask(
            f"DISTINCT {text} AS answer", [attribute.source_column], cells=chosen, tail=f"LIMIT {most}"
        )
        return [value for value in answer["answer"].tolist() if isinstance(value, str)]

    @sealed
    def lines(self) -> int | None:
        """Return how many lines a table of files of text has, whether they are rows or not: private, as `fates` is."""
        scan = self._asked.table.lines
        if scan is None:
            return None
        return int(self._asked.first_answer([(scan, f"SELECT count(*) AS answer FROM {scan.sql}")])["answer"][0])

    def check_sum(self, column: str, *, step: Fraction | float, bound: int) -> Fraction:
        """Return the exact step of a sum, or raise if there can be no such sum; no row is read."""
        number(self._asked.column(column), owner=f"column '{column}'")
        if not isinstance(bound, int) or not 1 <= bound <= LARGEST_BOUND:
            msg = f"the sum of '{column}' needs a whole bound from 1 to 2^31, got {bound}"
            raise SourceError(msg)
        with suppress(ValueError):
            exact_step = step if isinstance(step, Fraction) else Fraction(str(step))
            if exact_step > 0 and max(exact_step.as_integer_ratio()) <= LARGEST_COUNT:
                return exact_step
        msg = f"the sum of '{column}' needs a step above 0, a ratio of whole numbers up to 2^53, got {step}"
        raise SourceError(msg)

    @sealed
    def sum(self, column: str, *, step: Fraction | float, bound: int) -> int:
        """Return the exact sum of a column in units of `step`, each row's part clamped to [-bound, bound].

        A value is divided by the step in double arithmetic and rounded, ties away from zero. A row without a number
        adds 0, an infinite one the bound. A float step is read by its decimal text.
        """
        over, times = self.check_sum(column, step=step, bound=bound).as_integer_ratio()
        dialect = self._asked.table.dialect
        part = clamped("n", times=times, over=over, low=-bound, high=bound, dialect=dialect)
        # Fewer than 2^63 rows of at most 2^31 each: the sum stays below 2^94, and engines sum in at least 96 bits.
        answer = self._asked.ask(
            f"CAST(coalesce({dialect.total(part)}, 0) AS {dialect.text}) AS answer", [column], n=column
        )
        return int(answer["answer"][0])

    @sealed
    def distinct(self, column: str, *, most: int) -> list[str] | None:
        """Return a column's values as text, None if there are more than `most`: private, for drafts that say so."""
        text = self._asked.column(column).text()
        answer = self._asked.ask(f"DISTINCT {text} AS answer", [column], tail=f"LIMIT {most + 2}")["answer"]
        values = sorted(value for value in answer.tolist() if isinstance(value, str))
        return values if len(values) <= most else None

    @sealed
    def extremes(self, attribute: Attribute) -> tuple[float, float] | tuple[date, date] | None:
        """Return the least and the greatest number or date that an attribute reads inside its bounds, None if none.

        Private, for drafts that say so.
        """
        part = self._asked.cell(attribute, "0")
        kept = [replace(part, keep=f"{part.fate} = 0")]
        ends = ", ".join(f"CAST({end}(v0) AS {self._asked.table.dialect.text}) AS {end}" for end in ("min", "max"))
        answer = self._asked.ask(ends, [attribute.source_column], cells=kept)
        low, high = answer["min"].tolist()[0], answer["max"].tolist()[0]
        if not isinstance(low, str) or not isinstance(high, str):
            return None
        if attribute.scale == "day":
            return date.fromordinal(int(low) + EPOCH), date.fromordinal(int(high) + EPOCH)
        return (int(float(low)), int(float(high))) if attribute.step else (float(low), float(high))

    @sealed
    def quantiles(self, attribute: Attribute, bins: int) -> list[float] | None:
        """Return edges between which about as many rows lie, some bins fewer where values repeat; None for no bin.

        Edges are values of rows: for tables that are public, whose owner said so.
        """
        part = self._asked.cell(attribute, "0")
        kept = [replace(part, keep=f"{part.fate} = 0")]
        select = f"CAST(v0 AS {self._asked.table.dialect.double}) AS value, count(*) AS rows_of_it"
        answer = self._asked.ask(select, [attribute.source_column], cells=kept, tail="GROUP BY 1")
        order = np.argsort(answer["value"])
        values, until = answer["value"][order], np.cumsum(answer["rows_of_it"][order])
        if not len(values):
            return None
        places = np.searchsorted(until, until[-1] * np.arange(1, bins) / bins, side="right")
        edges = sorted({float(value) for value in (values[0], *values[places], values[-1])})
        if attribute.step:
            return [int(edge) for edge in edges]
        return edges if len(edges) > 1 else None

    @sealed
    def records(self, domain: Domain, texts: Sequence[str], read: Sequence[Attribute]) -> dict[str, NDArray[Any]]:
        """Return of each row that counts its cell, the start of some texts, and what attributes read of it.

        Private: rows themselves, for record linkage in their owner's process (`link/session.py`).
        """
        asked, dialect = self._asked.by_cell(domain, "0"), self._asked.table.dialect
        first = len(domain.attributes)
        more = [replace(self._asked.cell(one, str(first + j)), keep="true") for j, one in enumerate(read)]
        shown = [f"substring({self._asked.column(n).text()}, 1, {LONGEST_RECORD})" for n in texts]
        values = [f"CASE WHEN {c.fate} = 0 THEN CAST(v{first + j} AS {dialect.double}) END" for j, c in enumerate(more)]
        named = [f"{sql} AS {mark}{j}" for mark, part in (("a", shown), ("x", values)) for j, sql in enumerate(part)]
        names = [*asked["names"], *texts, *(one.source_column for one in read)]
        select = ", ".join([asked["select"], *named])
        return self._asked.ask(select, names, cells=[*asked["cells"], *more], where=asked["where"])

    def _tally(self, domain: Domain, aggregate: str, *, n: str | None = None) -> NDArray[np.int64]:
        """Aggregate the rows of each cell; a table with counts in a column `n` may name cells by their labels."""
        try:
            exact_counts = np.zeros(domain.size + 1, np.int64)  # one more, for rows that are dropped
        except (MemoryError, ValueError):
            msg = f"the domain has {domain.size} cells, more than memory holds; leave attributes out or widen bins"
            raise MemoryLimitError(msg) from None
        answer = self._asked.ask(**self._asked.by_cell(domain, aggregate, n=n))
        exact_counts[answer["cell"]] = answer["answer"]
        return exact_counts[:-1].reshape(domain.shape)
