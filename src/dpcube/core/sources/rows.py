"""Private rows behind a counting interface: exact counts, for the gate and for the owner of the table.

Each method is one pass over the rows where they are (`aggregates.py` writes the SQL). Only the caller gets the exact
integers; the number of rows read or dropped is not reported anywhere. Methods that read rows are sealed: an error
inside shows neither rows nor results (`core/seal.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain import Attribute, Domain, Scalar
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import MemoryLimitError, SourceError
from dpcube.core.limits import MAX_EXAMPLE, MAX_RECORD_TEXT
from dpcube.core.seal import sealed
from dpcube.core.sources.aggregates import Limit, SelectedRows, coded, key_runs
from dpcube.core.sources.sql import OUTCOMES
from dpcube.core.sources.texts import text_group


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """The rows of a private table that fall in chosen cells of some attributes; at first, all of them."""

    _selected: SelectedRows

    def __post_init__(self) -> None:
        names = self.columns
        if len(set(names)) < len(names):
            again = next(i for i, name in enumerate(names) if name in names[:i])
            places = f"columns {names.index(names[again]) + 1} and {again + 1}"
            msg = f"{self._selected.table.name} has two columns of the same name, {places}; give each a unique name"
            raise SourceError(msg)

    def __repr__(self) -> str:
        return f"<private rows of {self._selected.table.name}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._selected.columns

    @property
    def types(self) -> dict[str, str]:
        """Physical types of the columns, from the schema alone; those of CSV files are all text."""
        return {field.name: str(field.type) for field in self._selected.table.schema}

    @property
    def kinds(self) -> dict[str, str | None]:
        """Kind of each column: "text", "integer", "real", "boolean", "date", "time", or None if unusable."""
        return self._selected.kinds

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a name that no column has."""
        self._selected.check_columns(names)

    def as_declared(self) -> "Rows":
        """Return the same rows with types treated as declared, not inferred: for drafts, which their owner reads."""
        return Rows(replace(self._selected, table=replace(self._selected.table, declared=True)))

    def restrict(self, attribute: Attribute, cells: Sequence[int]) -> "Rows":
        """Return the rows that fall in one of these cells of an attribute."""
        if self._selected.limit is not None:
            msg = "restrict the rows before limiting them: a limit per part does not limit the whole"
            raise SourceError(msg)
        self._selected.cell(
            attribute, ""
        )  # raises for a column that is not there, or of a type the attribute cannot read
        for index in cells:
            if not 0 <= index < attribute.size:
                msg = f"attribute '{attribute.name}' has no cell {index}; its cells are 0 to {attribute.size - 1}"
                raise SourceError(msg)
        chosen = (*self._selected.within, (attribute, tuple(map(int, cells))))
        return Rows(replace(self._selected, within=chosen))

    def limit(self, column: str, *, max_rows: int, null: Literal["drop", "each"] = "drop") -> "Rows":
        """Return at most `max_rows` rows of each privacy unit, a unit being a value of the column.

        The kept rows of a unit are drawn from that unit's own rows alone. So adding or removing a unit adds or removes
        at most `max_rows` rows and leaves all others as they were (in distribution, and for any outcome of the other
        units' draws). Different values are never one unit (`unit.py`). A row without a unit is dropped, or with
        `"each"` is a unit of its own.
        """
        if not self._selected.table.named(self._selected.position(column)):
            msg = f"column '{column}' has the type {self.types[column]}, which cannot name a unit; cast it to text"
            raise SourceError(msg)
        return Rows(replace(self._selected, limit=Limit(column, max_rows, null)))

    @sealed
    def count_cells(self, domain: Domain) -> NDArray[np.int64]:
        """Return the exact count of every cell, in the domain's shape."""
        try:
            exact_counts = np.zeros(domain.size + 1, np.int64)  # the last is for rows that are dropped
        except (MemoryError, ValueError):
            msg = f"the domain has {domain.size} cells, too many for the memory of this machine; leave out attributes "
            msg += "or widen bins"
            raise MemoryLimitError(msg) from None
        answer = self._selected.aggregate(**self._selected.by_cell(domain, "count(*)"))
        exact_counts[answer["cell"]] = answer["answer"]
        return exact_counts[:-1].reshape(domain.shape)

    @sealed
    def count_alike(self, domain: Domain) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """Return the occupied cells, as indices on every axis, and their counts.

        Memory grows with the rows, not with the domain. Each occupied cell comes once, in no particular order.
        """
        return coded(self._selected.aggregate(**self._selected.by_cell(domain, "count(*)")), domain.shape)

    @sealed
    def count_readings(self, attributes: Sequence[Attribute]) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """Return the occupied cells of several readings of one column together, and their counts, as `count_alike`.

        The last axis is 1 for a fraction by the first reading, if that is of numbers, else 0.
        """
        readings = Domain(attributes)
        first = self._selected.cell(attributes[0], "0")
        numeric = attributes[0].scale == "number"
        fraction = f"CASE WHEN {first.outcome} = 0 AND v0 <> floor(v0) THEN 1 ELSE 0 END" if numeric else "0"
        once = self._selected.limit is None
        of_rows = "CAST(sum(times) AS BIGINT)" if once else "count(*)"
        asked = self._selected.by_cell(readings, f"{fraction} AS fraction, {of_rows}")
        asked["tail"] += f", {len(key_runs(readings.shape)) + 1}"
        answer = self._selected.aggregate(**asked, once=once)
        both = np.asarray(answer["answer"]).astype(np.int64) * 2 + np.asarray(answer["fraction"]).astype(np.int64)
        codes, both = coded({**answer, "answer": both}, readings.shape)
        return [*codes, (both % 2).astype(np.int8)], both // 2

    @sealed
    def count_texts(self, column: str, *, above: int) -> tuple[list[str], NDArray[np.int64]]:
        """Return the texts of a column's values that more rows than `above` have, and their counts (`texts.py`)."""
        once = self._selected.limit is None
        of_rows = "CAST(sum(times) AS BIGINT)" if once else "count(*)"
        answer = self._selected.aggregate(
            f"v0 AS value, {of_rows} AS answer",
            [column],
            cells=[text_group(self._selected.column(column))],
            tail=f"GROUP BY 1 HAVING {of_rows} > {above}",
            once=once,
        )
        return list(map(str, answer["value"].tolist())), np.asarray(answer["answer"]).astype(np.int64)

    def is_countable(self, column: str) -> bool:
        """Return whether an attribute can be of a column, by its type alone."""
        return self._selected.column(column).kind is not None

    def is_declared(self) -> bool:
        """Return whether the types of columns are declared apart from the rows."""
        return self._selected.table.declared

    def explain(self, domain: Domain) -> str:
        """Return the SQL that `count_cells` would run first; no row is read."""
        _, sql = next(self._selected.queries(**self._selected.by_cell(domain, "count(*)")))
        return sql

    @sealed
    def count(self) -> int:
        """Return the exact number of rows."""
        usable = [name for name, kind in self.kinds.items() if kind is not None]
        if not usable:
            msg = f"{self._selected.table.name} has no column that can be counted; it has {listing(self.columns)}"
            raise SourceError(msg)
        return int(self._selected.aggregate("count(*) AS answer", usable[:1])["answer"][0])

    @sealed
    def outcomes(self, domain: Domain) -> tuple[list[dict[str, int]], int, int]:
        """Return the number of rows of each attribute by outcome (`OUTCOMES`), of all rows, and of the rows counted.

        Private: for a report that only the owner sees (`curator/check.py`).
        """
        question = self._selected.by_cell(domain, "count(*)")
        keep = " AND ".join(part.keep for part in question["cells"])
        counted = f"CASE WHEN {keep} THEN CASE WHEN {question['where']} THEN 1 END END"
        found, more = self._outcomes(domain.attributes, {"every": "count(*)", "counted": f"count({counted})"})
        return found, more["every"], more["counted"]

    @sealed
    def read_as(self, attributes: Sequence[Attribute]) -> list[dict[str, int]]:
        """Return the number of rows of each attribute by outcome (`OUTCOMES`): private, for drafts that are marked so.

        Drafts try many attributes on one column, and their expressions are long: a text that many rows have is read
        once, and each expression occurs once in the query.
        """
        cells = [replace(self._selected.cell(attribute, str(j)), keep="true") for j, attribute in enumerate(attributes)]
        once = self._selected.limit is None
        alike = ", ".join(f"{part.outcome} AS f{j}" for j, part in enumerate(cells))
        answer = self._selected.aggregate(
            f"{alike}, {'CAST(sum(times) AS BIGINT)' if once else 'count(*)'} AS answer",
            [attribute.source_column for attribute in attributes],
            cells=cells,
            tail=f"GROUP BY {', '.join(str(j + 1) for j in range(len(cells)))}",
            once=once,
        )
        rows_of = answer["answer"]
        return [
            {outcome: int(rows_of[answer[f"f{j}"] == i].sum()) for i, outcome in enumerate(OUTCOMES)}
            for j in range(len(cells))
        ]

    @sealed
    def has_fractions(self, attribute: Attribute) -> bool:
        """Return whether a numeric attribute reads any fraction: private, for drafts that are marked so."""
        if not attribute.is_numeric:
            return False
        part = replace(self._selected.cell(attribute, "0"), keep="true")
        fraction = f"CASE WHEN {part.outcome} = 0 AND v0 <> floor(v0) THEN 1 END"
        answer = self._selected.aggregate(f"count({fraction}) AS answer", [attribute.source_column], cells=[part])
        return bool(answer["answer"][0])

    def _outcomes(
        self, attributes: Sequence[Attribute], more: dict[str, str]
    ) -> tuple[list[dict[str, int]], dict[str, int]]:
        """Count the rows by outcome for each attribute, and compute further aggregates."""
        cells = [replace(self._selected.cell(attribute, str(j)), keep="true") for j, attribute in enumerate(attributes)]
        tallies = [
            f"count(CASE WHEN {part.outcome} = {i} THEN 1 END) AS f{j}_{i}"
            for j, part in enumerate(cells)
            for i in range(len(OUTCOMES))
        ]
        select = ", ".join([*tallies, *(f"{sql} AS {name}" for name, sql in more.items())])
        answer = self._selected.aggregate(select, [attribute.source_column for attribute in attributes], cells=cells)
        found = [
            {outcome: int(answer[f"f{j}_{i}"][0]) for i, outcome in enumerate(OUTCOMES)} for j in range(len(cells))
        ]
        return found, {name: int(answer[name][0]) for name in more}

    @sealed
    def different(self, column: str) -> tuple[int, int]:
        """Return the number of distinct values of a column, and of rows that are not null: private, as `read_as` is."""
        name = self._selected.column(column).name
        answer = self._selected.aggregate(f"count(DISTINCT {name}) AS differ, count({name}) AS filled", [column])
        return int(answer["differ"][0]), int(answer["filled"][0])

    @sealed
    def dropped_texts(self, attribute: Attribute, *, most: int) -> list[str]:
        """Return some texts of a column whose rows an attribute drops, apart from nulls: private, as `outcomes` is.

        Values that are clipped or have a cell of their own are counted, and not returned.
        """
        dropped = [
            outcome for outcome in OUTCOMES[1:] if outcome != "null" and attribute.destination(outcome) == "drop"
        ]
        if not dropped:
            return []
        part = self._selected.cell(attribute, "0")
        wrong = ", ".join(str(OUTCOMES.index(outcome)) for outcome in dropped)
        text = f"substring({self._selected.column(attribute.source_column).text()}, 1, {MAX_EXAMPLE})"
        chosen = [replace(part, keep=f"{part.outcome} IN ({wrong})")]
        answer = self._selected.aggregate(
            f"DISTINCT {text} AS answer", [attribute.source_column], cells=chosen, tail=f"LIMIT {most}"
        )
        return [value for value in answer["answer"].tolist() if isinstance(value, str)]

    @sealed
    def lines(self) -> int | None:
        """Return the number of lines of CSV files, whether they are rows or not: private, as `outcomes` is."""
        scan = self._selected.table.lines
        if scan is None:
            return None
        return int(self._selected.first_result([(scan, f"SELECT count(*) AS answer FROM {scan.sql}")])["answer"][0])

    @sealed
    def distinct(self, column: str, *, most: int) -> list[str] | None:
        """Return a column's values as text, None if more than `most`: private, for drafts that are marked so."""
        text = self._selected.column(column).text()
        answer = self._selected.aggregate(f"DISTINCT {text} AS answer", [column], tail=f"LIMIT {most + 2}")["answer"]
        values = sorted(value for value in answer.tolist() if isinstance(value, str))
        return values if len(values) <= most else None

    @sealed
    def extremes(self, attribute: Attribute) -> tuple[Scalar, Scalar] | None:
        """Return the minimum and maximum that an attribute reads inside its bounds, None if there is no value.

        Private: for drafts that are marked so.
        """
        part = self._selected.cell(attribute, "0")
        kept = [replace(part, keep=f"{part.outcome} = 0")]
        ends = ", ".join(f"CAST({end}(v0) AS {self._selected.table.dialect.text}) AS {end}" for end in ("min", "max"))
        answer = self._selected.aggregate(ends, [attribute.source_column], cells=kept)
        low, high = answer["min"].tolist()[0], answer["max"].tolist()[0]
        if not isinstance(low, str) or not isinstance(high, str):
            return None
        return attribute.value_at(float(low) + attribute.origin), attribute.value_at(float(high) + attribute.origin)

    @sealed
    def quantiles(self, attribute: Attribute, bins: int) -> list[float] | None:
        """Return edges of bins with about equally many rows, fewer where values repeat; None if there is no bin.

        Edges are values of rows: for tables that their owner declared public.
        """
        part = self._selected.cell(attribute, "0")
        kept = [replace(part, keep=f"{part.outcome} = 0")]
        select = f"CAST(v0 AS {self._selected.table.dialect.double}) AS value, count(*) AS rows_of_it"
        answer = self._selected.aggregate(select, [attribute.source_column], cells=kept, tail="GROUP BY 1")
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
        """Return, for each row that has a cell, its cell, the start of some texts, and the values of some attributes.

        Private: individual rows, for record linkage in their owner's process (`link/session.py`).
        """
        asked, dialect = self._selected.by_cell(domain, "0"), self._selected.table.dialect
        first = len(domain.attributes)
        more = [replace(self._selected.cell(one, str(first + j)), keep="true") for j, one in enumerate(read)]
        shown = [f"substring({self._selected.column(n).text()}, 1, {MAX_RECORD_TEXT})" for n in texts]
        values = [
            f"CASE WHEN {c.outcome} = 0 THEN CAST(v{first + j} AS {dialect.double}) END" for j, c in enumerate(more)
        ]
        named = [f"{sql} AS {mark}{j}" for mark, part in (("a", shown), ("x", values)) for j, sql in enumerate(part)]
        names = [*asked["names"], *texts, *(one.source_column for one in read)]
        select = ", ".join([asked["select"], *named])
        return self._selected.aggregate(select, names, cells=[*asked["cells"], *more], where=asked["where"])
