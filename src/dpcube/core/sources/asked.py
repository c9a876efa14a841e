"""Rows to be asked, and questions to them as SQL: a select list and cells enter, the columns of the answer leave.

A question is one pass over the rows, where they are: sent to the database that holds them (`engines.py`), or run in
the embedded engine (`embedded.py`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from dpcube.core.domain import Attribute, Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.text import meant
from dpcube.core.errors import SourceError
from dpcube.core.sources.embedded import run_in_duckdb
from dpcube.core.sources.header import HEADER_REMEDY
from dpcube.core.sources.keys import key_name, key_runs
from dpcube.core.sources.names import delimiter_hint
from dpcube.core.sources.sql import Cell, Column, cell, day, kind, number
from dpcube.core.sources.table import Scan, Table


class Limit(NamedTuple):
    """At most `max_rows` rows of each value of a column; what becomes of rows without one."""

    column: str
    max_rows: int
    null: Literal["drop", "each"]


@dataclass(frozen=True, slots=True, repr=False)
class AskedRows:
    """Rows of a table that fall in chosen cells of some attributes, limited for each unit, and how they are asked."""

    table: Table
    within: tuple[tuple[Attribute, tuple[int, ...]], ...] = ()
    limit: Limit | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.table.schema.names)

    @property
    def kinds(self) -> dict[str, str | None]:
        """What each column holds by its type: "text", "integer", "real", "boolean", "date", or None if unusable."""
        return {field.name: kind(field.type) for field in self.table.schema}

    def by_cell(self, domain: Domain, aggregate: str, *, n: str | None = None) -> dict[str, Any]:
        """Return the arguments of `ask` that aggregate the rows of each cell."""
        self.check_columns([attribute.source_column for attribute in domain.attributes])
        cells = [self.cell(attribute, str(j), labelled=n is not None) for j, attribute in enumerate(domain.attributes)]
        keys, present, runs = [], [], key_runs(domain.shape)
        for place, axes in enumerate(runs):
            flat = ""
            for axis in axes:
                index = f"CAST({cells[axis].index} AS BIGINT)"
                flat = f"({flat} * {domain.shape[axis]} + {index})" if flat else index
            size = math.prod(domain.shape[axis] for axis in axes)
            keys.append(f"{self.table.dialect.cell_number(flat, size)} AS {key_name(place)}")
            present.append(f"({flat}) IS NOT NULL")
        select, where = f"{', '.join(keys)}, {aggregate} AS answer", " AND ".join(present)
        names = [attribute.source_column for attribute in domain.attributes]
        tail = f"GROUP BY {', '.join(str(k + 1) for k in range(len(runs)))}"
        return {"select": select, "names": names, "cells": cells, "n": n, "where": where, "tail": tail}

    def ask(self, select: str, names: Sequence[str], **question: Any) -> dict[str, NDArray[Any]]:
        """Return the columns of the answer to a question, as `queries` puts it."""
        return self.first_answer(self.queries(select, names, **question))

    def first_answer(self, queries: Iterable[tuple[Scan, str]]) -> dict[str, NDArray[Any]]:
        """Return the answer to the first query that can be run."""
        for scan, sql in queries:
            # What the engine says may quote a row: it goes no further, not even as the context of another error.
            with suppress(Exception):
                return run_in_duckdb(scan, sql) if scan.run is None else scan.run(sql)
        msg = f"{self.table.name} could not be read to its end; check that it is whole and that memory suffices"
        raise SourceError(msg)

    def queries(
        self,
        select: str,
        names: Sequence[str],
        *,
        cells: Sequence[Cell] = (),
        n: str | None = None,
        where: str = "true",
        tail: str = "",
        once: bool = False,
    ) -> Iterator[tuple[Scan, str]]:
        """Yield ways to query the rows, to be tried in turn.

        `cells` are called v0, v1, ... in `select`, what is computed before them t0, t1, ..., and the number in the
        column `n` is called n.

        Rows that are not `where` need not be counted: a unit's limited number of rows is chosen among those that are.
        With `once`, rows that hold the same come once, and `times` says how many there are; limited rows cannot.
        """
        limit = self.limit
        within = [self.cell(attribute, f"w{j}") for j, (attribute, _) in enumerate(self.within)]
        parts = [(str(j), part) for j, part in enumerate(cells)] + [(f"w{j}", part) for j, part in enumerate(within)]
        values = [f"{part.value} AS v{name}" for name, part in parts]
        if n is not None:
            values.append(f"{self._number(n)} AS n")
            names = [*names, n]
        keep = " AND ".join(["true", *(part.keep for part in (*cells, *within))])
        for part, (_, chosen) in zip(within, self.within, strict=True):
            keep = _and_then(keep, f"({part.index}) IN ({', '.join(map(str, chosen)) or 'NULL'})")
        names = [*names, *(attribute.source_column for attribute, _ in self.within)]
        read = sorted({self.position(name) for name in names})
        unit = None if limit is None else self.position(limit.column)
        same = [f"c{i}" for i in read]
        held = [*same, *([] if unit is None else ["u"]), *(["times"] if once else [])]
        steps = [part.steps for part in (*cells, *within)]
        named = [name for of_part in steps for name, _ in of_part]
        inner = ", ".join([*held, *named, *values])
        # An engine may put an expression wherever its name is; one that takes time is computed once, behind a barrier.
        parsed = any(part.parsed for part in (*cells, *within)) or (n is not None and self.kinds[n] == "text")
        barrier, fence = (self.table.dialect.barrier, self.table.dialect.fence) if parsed else ("", None)
        if fence is not None:
            inner, keep = f"{inner}, {fence[0]}", f"{fence[1]} AND {keep}"
        for scan in self.table.scans(read, unit):
            rows = scan.sql
            if once:
                rows = f"(SELECT {', '.join(same)}, count(*) AS times FROM {rows} GROUP BY {', '.join(same)}) AS o"
            for depth in range(max(map(len, steps), default=0)):
                before = [name for of_part in steps for name, _ in of_part[:depth]]
                made = [f"{sql} AS {name}" for of_part in steps for name, sql in of_part[depth : depth + 1]]
                rows = f"(SELECT {', '.join([*held, *before, *made])} FROM {rows}{barrier}) AS p"
            kept = f"(SELECT {inner} FROM {rows}{barrier}) AS q WHERE "
            kept += keep if limit is None else _and_then(keep, where)
            if limit is not None:
                kept = self._limited(kept, limit)
            yield scan, f"SELECT {select} FROM {kept} {tail}"

    def _limited(self, kept: str, limit: Limit) -> str:
        """Return the kept rows that come first in a random order of their unit's rows."""
        drawn = f"(SELECT *, {self.table.dialect.random} AS draw FROM {kept}) AS d"
        turns = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY draw) AS turn FROM {drawn}"
        null = "false" if limit.null == "drop" else "true"
        return f"({turns}) AS t WHERE CASE WHEN u IS NULL THEN {null} ELSE turn <= {limit.max_rows} END"

    def cell(self, attribute: Attribute, place: str, *, labelled: bool = False) -> Cell:
        """Return the SQL of an attribute's cell, whose value is called v`place`; a label may stand for a cell."""
        return cell(attribute, self.column(attribute.source_column), f"v{place}", t=f"t{place}", labelled=labelled)

    def _number(self, name: str) -> str:
        column, owner = self.column(name), f"column '{name}'"
        return day(column, owner=owner) if column.kind == "date" else number(column, owner=owner)[0]

    def column(self, name: str) -> Column:
        """Return a column as the SQL of a scan calls it."""
        i = self.position(name)
        return Column(f"c{i}", self.table.schema.types[i], self.table.dialect, declared=self.table.declared)

    def position(self, name: str) -> int:
        """Return a column's place among the columns, or raise if there is none of that name."""
        self.check_columns([name])
        return self.columns.index(name)

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse names of columns that are not all there.

        The columns that are there are listed, unless they may be a row: the first line of a file that has none of them.
        """
        lacking = [name for name in names if name not in self.columns]
        if not lacking:
            return
        remedy = delimiter_hint(self.columns) or 'name attributes after columns, or say column = "..." beside them'
        if self.table.in_first_line and len(lacking) == len(names):
            there = f"its first line is not shown, for it may be a row: {HEADER_REMEDY}; if it has one"
            near = ""
        else:
            there = f"its columns are {listing(self.columns, most=30)}"
            near = meant(lacking[0], self.columns)
        msg = f"{self.table.name} has no column '{lacking[0]}'; {there}; {remedy}{near}"
        raise SourceError(msg)


def _and_then(first: str, second: str) -> str:
    """Say whether both hold; the second is not computed unless the first does."""
    return f"CASE WHEN {first} THEN {second} ELSE false END"
