"""Aggregate queries over selected rows of a table, as SQL, and the embedded engine that runs them.

A query is one pass over the rows where they are: the database that stores them runs it, or DuckDB in this process.

**Grouping keys.** A row's cell is one 64-bit integer, or several where the domain has too many cells for one.

**Embedded engine.** Each query has its own DuckDB connection, which can open only the table's files, and installs and
logs nothing. Rows that do not fit in memory while the rows of a privacy unit are limited spill to a directory that only
this user may enter; it is removed with the connection.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain import Attribute, Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.text import spelling_hint
from dpcube.core.errors import SourceError
from dpcube.core.limits import MAX_KEY_CELLS
from dpcube.core.memory import half_of_free
from dpcube.core.sources.csv import HEADER_REMEDY
from dpcube.core.sources.dialect import literal
from dpcube.core.sources.names import delimiter_hint
from dpcube.core.sources.sql import Cell, Column, cell, kind
from dpcube.core.sources.table import Scan, Table


def key_runs(shape: tuple[int, ...]) -> list[range]:
    """Return the axes in runs, each with few enough cells for one 64-bit key.

    >>> key_runs((4, 2**40, 2**30, 2))
    [range(0, 2), range(2, 4)]
    """
    starts, size = [0], 1
    for axis, side in enumerate(shape):
        size *= side
        if size > MAX_KEY_CELLS:
            starts.append(axis)
            size = side
    return [range(*ends) for ends in pairwise([*starts, len(shape)])]


def key_name(number: int) -> str:
    """Return the name of a run's key in a query: `cell` of the first."""
    return f"cell{number or ''}"


def coded(answer: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Return the cell index on each axis for every group of a result, and its value; drop groups without a cell."""
    rows, codes = np.asarray(answer["answer"]).astype(np.int64), []
    counted = np.ones(len(rows), np.bool_)
    for place, axes in enumerate(key_runs(shape)):
        rest = np.asarray(answer[key_name(place)]).astype(np.int64)
        counted &= rest < math.prod(shape[axis] for axis in axes)
        places = []
        for axis in reversed(axes):
            rest, index = np.divmod(rest, shape[axis])
            places.append(index.astype(np.min_scalar_type(shape[axis] - 1)))
        codes += reversed(places)
    return [code[counted] for code in codes], rows[counted]


CONFIG: dict[str, Any] = {"autoload_known_extensions": False, "autoinstall_known_extensions": False}
SETTINGS = """
SET enable_external_access = false;
SET python_enable_replacements = false;
SET enable_progress_bar = false;
SET perfect_ht_threshold = 20;
SET disabled_optimizers = '{disabled}';
SET lock_configuration = true;
"""
# Filters stay where they are written: pushed down, each would compute anew the expressions that it is about. A Parquet
# file's statistics leave NaN out, and from them the engine would conclude that NaN lies between bounds that hold for
# all other rows, and that isnan() is false: then one row more could move every NaN to another cell.


def run_in_duckdb(scan: Scan, sql: str) -> dict[str, NDArray[Any]]:
    """Run a query in DuckDB, in a thread: the caller's thread only waits, so that Ctrl-C can interrupt the engine."""
    allowed = ", ".join(map(literal, scan.paths))
    disabled = "filter_pushdown" if scan.bounds_hold else "filter_pushdown,statistics_propagation"
    with (
        TemporaryDirectory(prefix="dpcube-") as spilled,  # which nobody else may enter
        duckdb.connect(config={"memory_limit": half_of_free(), **CONFIG, "temp_directory": spilled}) as connection,
        ThreadPoolExecutor(1) as thread,
    ):
        connection.execute(f"SET allowed_paths = [{allowed}]; {SETTINGS.format(disabled=disabled)}")
        if scan.stream is not None:
            connection.register("stream", scan.stream())
        asked = thread.submit(lambda: connection.execute(sql).fetchnumpy())
        try:
            return asked.result()
        finally:
            while not asked.done():
                connection.interrupt()
                wait([asked], timeout=0.01)


class Limit(NamedTuple):
    """Contribution bound: at most `max_rows` rows of each privacy unit, and the treatment of rows without a unit."""

    column: str
    max_rows: int
    null: Literal["drop", "each"]


@dataclass(frozen=True, slots=True, repr=False)
class SelectedRows:
    """ValueSet of rows by cells of some attributes and a limit per privacy unit, and the queries that aggregate it."""

    table: Table
    within: tuple[tuple[Attribute, tuple[int, ...]], ...] = ()
    limit: Limit | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.table.schema.names)

    @property
    def kinds(self) -> dict[str, str | None]:
        """Kind of each column: "text", "integer", "real", "boolean", "date", "time", or None if unusable."""
        return {field.name: kind(field.type) for field in self.table.schema}

    def by_cell(self, domain: Domain, aggregate: str) -> dict[str, Any]:
        """Return the arguments of `aggregate` that group the rows by cell."""
        self.check_columns([attribute.source_column for attribute in domain.attributes])
        cells = [self.cell(attribute, str(j)) for j, attribute in enumerate(domain.attributes)]
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
        return {"select": select, "names": names, "cells": cells, "where": where, "tail": tail}

    def aggregate(self, select: str, names: Sequence[str], **clauses: Any) -> dict[str, NDArray[Any]]:
        """Return the columns of the result of an aggregate query; the parameters are those of `queries`."""
        return self.first_result(self.queries(select, names, **clauses))

    def first_result(self, queries: Iterable[tuple[Scan, str]]) -> dict[str, NDArray[Any]]:
        """Return the result of the first query that can be run."""
        for scan, sql in queries:
            # The engine's message may quote a row: it goes no further, not even as the context of another error.
            with suppress(Exception):
                return run_in_duckdb(scan, sql) if scan.run is None else scan.run(sql)
        msg = f"{self.table.name} could not be read to its end; check that it is complete and that memory suffices"
        raise SourceError(msg)

    def queries(
        self,
        select: str,
        names: Sequence[str],
        *,
        cells: Sequence[Cell] = (),
        where: str = "true",
        tail: str = "",
        once: bool = False,
    ) -> Iterator[tuple[Scan, str]]:
        """Yield equivalent queries over the rows, to be tried in turn.

        `cells` are called v0, v1, ... in `select`, and expressions computed before them t0, t1, ...

        Rows that do not meet `where` need not be counted: a unit's limited number of rows is chosen among those that
        do. With `once`, identical rows come once, and `times` is their number; limited rows cannot be grouped so.
        """
        limit = self.limit
        within = [self.cell(attribute, f"w{j}") for j, (attribute, _) in enumerate(self.within)]
        parts = [(str(j), part) for j, part in enumerate(cells)] + [(f"w{j}", part) for j, part in enumerate(within)]
        values = [f"{part.value} AS v{name}" for name, part in parts]
        keep = " AND ".join(["true", *(part.keep for part in (*cells, *within))])
        for part, (_, chosen) in zip(within, self.within, strict=True):
            keep = _and_then(keep, f"({part.index}) IN ({', '.join(map(str, chosen)) or 'NULL'})")
        names = [*names, *(attribute.source_column for attribute, _ in self.within)]
        read = sorted({self.position(name) for name in names})
        unit = None if limit is None else self.position(limit.column)
        same = [f"c{i}" for i in read]
        carried = [*same, *([] if unit is None else ["u"]), *(["times"] if once else [])]
        steps = [part.steps for part in (*cells, *within)]
        named = [name for of_part in steps for name, _ in of_part]
        inner = ", ".join([*carried, *named, *values])
        # An engine may inline an expression wherever its name stands; a barrier makes it compute expensive ones once.
        parsed = any(part.parsed for part in (*cells, *within))
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
                rows = f"(SELECT {', '.join([*carried, *before, *made])} FROM {rows}{barrier}) AS p"
            kept = f"(SELECT {inner} FROM {rows}{barrier}) AS q WHERE "
            kept += keep if limit is None else _and_then(keep, where)
            if limit is not None:
                kept = self._limited(kept, limit)
            yield scan, f"SELECT {select} FROM {kept} {tail}"

    def _limited(self, kept: str, limit: Limit) -> str:
        """Return the kept rows that come first in a random order of their privacy unit's rows.

        At most `max_rows` rows of a unit stay: its rows are exactly those of one partition, for the partitions are by
        equal u; the turns in a partition are 1, 2, ... without repetition; and those above `max_rows` go. The draws
        decide which rows stay, not how many, so ties or draws made anew do not matter.
        """
        drawn = f"(SELECT *, {self.table.dialect.random} AS draw FROM {kept}) AS d"
        turns = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY draw) AS turn FROM {drawn}"
        null = "false" if limit.null == "drop" else "true"
        return f"({turns}) AS t WHERE CASE WHEN u IS NULL THEN {null} ELSE turn <= {limit.max_rows} END"

    def cell(self, attribute: Attribute, place: str) -> Cell:
        """Return the SQL of an attribute's cell, whose value is called v`place`."""
        return cell(attribute, self.column(attribute.source_column), f"v{place}", t=f"t{place}")

    def column(self, name: str) -> Column:
        """Return a column under its name in the SQL of a scan."""
        i = self.position(name)
        return Column(f"c{i}", self.table.schema.types[i], self.table.dialect, declared=self.table.declared)

    def position(self, name: str) -> int:
        """Return the position of a column; SourceError if there is none of that name."""
        self.check_columns([name])
        return self.columns.index(name)

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a name that no column has.

        The message lists the columns, unless they may be a row: the first line of a file that has none of the names.
        """
        lacking = [name for name in names if name not in self.columns]
        if not lacking:
            return
        remedy = delimiter_hint(self.columns) or 'name each attribute after its column, or add column = "..." to it'
        if self.table.in_first_line and len(lacking) == len(names):
            there = f"its first line is not shown because it may be a row: {HEADER_REMEDY}; if it has a header"
            near = ""
        else:
            there = f"its columns are {listing(self.columns, most=30)}"
            near = spelling_hint(lacking[0], self.columns)
        msg = f"{self.table.name} has no column '{lacking[0]}'; {there}; {remedy}{near}"
        raise SourceError(msg)


def _and_then(first: str, second: str) -> str:
    """Return the conjunction of two conditions; the second is not computed unless the first is true."""
    return f"CASE WHEN {first} THEN {second} ELSE false END"
