"""Lookup joins: rows of the cube and a small table with one row for each value of an attribute become rows of the cube.

The columns of the table are CASE expressions of the attribute. A join repeats or drops rows; with at most one row for
each key it repeats none, so what leaves are rows of the cube: those that find their key, or with LEFT JOIN all of them,
with nulls where there is none.
"""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from dpcube.core.domain import Domain
from dpcube.core.errors import DpcubeError, QueryError
from dpcube.release.sql.names import Attr, bare, find
from dpcube.release.sql.needs import coordinate
from dpcube.release.sql.parse import shown
from dpcube.release.sql.scope import CubeRows, SelectSource

HOW = "join the cube with a table by one equality, as in FROM cube JOIN regions ON cube.city = regions.city"


def looked_up(source: SelectSource, join: exp.Join, table: pa.Table, domain: Domain) -> SelectSource:
    """Return a source joined with `table`, what `join` joins it with."""
    if (
        join.args.get("kind") not in (None, "", "INNER", "OUTER")
        or join.side not in ("", "LEFT")
        or join.args.get("method")
    ):
        msg = f"{shown(join)!r}: rows of the cube have JOIN and LEFT JOIN only; {HOW}"
        raise QueryError(msg)
    attr, key = _equality(source, join, table)
    rows = _rows_by_key(table, key, attr, domain, join)
    columns = {name: _case(attr, rows, place) for place, name in enumerate(table.column_names)}
    conditions = source.rows.conditions
    if join.side == "":
        conditions = (*conditions, _is_in(attr, list(rows)))
    beside = {**source.beside, join.alias_or_name.casefold(): columns}
    hidden = source.merged | ({key} if join.args.get("using") else set())
    return replace(source, rows=CubeRows(source.rows.columns, conditions), beside=beside, merged=hidden)


def _equality(source: SelectSource, join: exp.Join, table: pa.Table) -> tuple[Attr, str]:
    """Return the attribute and the column of the table that are to be equal."""
    using, on = join.args.get("using"), join.args.get("on")
    if using and len(using) == 1 and on is None:
        sides: list[tuple[exp.Expression, exp.Expression]] = [(exp.column(using[0].name), exp.column(using[0].name))]
    elif isinstance(on := bare(on) if on is not None else None, exp.EQ):
        sides = [(bare(on.this), bare(on.expression)), (bare(on.expression), bare(on.this))]
    else:
        raise QueryError(HOW)
    for mine, theirs in sides:
        is_theirs = isinstance(theirs, exp.Column) and (
            theirs.table.casefold() == join.alias_or_name.casefold()
            if theirs.table
            else theirs.name.casefold() in map(str.casefold, table.column_names)
        )
        if is_theirs and not (isinstance(mine, exp.Column) and mine.table.casefold() == join.alias_or_name.casefold()):
            meant = bare(source.resolve(mine, {}))
            if isinstance(meant, Attr):
                return meant, find(theirs.name, table.column_names, what="column")
    raise QueryError(HOW)


def _rows_by_key(
    table: pa.Table, key: str, attr: Attr, domain: Domain, join: exp.Join
) -> dict[object, tuple[object, ...]]:
    """Return the rows of a table by key, without keys that no value of the attribute equals; no key may occur twice."""
    attribute, found = domain.attributes[attr.axis], dict[object, tuple[object, ...]]()
    if attribute.is_continuous or attribute.has_wide_bins:
        msg = f"{shown(join)!r}: '{attribute.name}' has bins of several values, so no single value can be looked up"
        raise QueryError(msg)
    for value, row in zip(
        table[key].to_pylist(), zip(*(c.to_pylist() for c in table.columns), strict=True), strict=True
    ):
        try:
            if value is None or coordinate(attribute, value) is None:
                continue
        except DpcubeError:  # a table may have more than the cube
            continue
        if value in found:
            msg = f"{shown(join)!r}: '{key}' is {value!r} in two rows, and each row of the cube can have one; {HOW}"
            raise QueryError(msg)
        found[value] = row
    return found


def _case(attr: Attr, rows: dict[object, tuple[object, ...]], place: int) -> exp.Expression:
    """Return a column of the table as an expression of the attribute: one branch for each of its values."""
    keys: dict[object, list[object]] = {}
    for key, row in rows.items():
        keys.setdefault(row[place], []).append(key)
    made = exp.case()
    for value, those in keys.items():
        # A fraction is written as text, for the engine reads one as a decimal.
        shown_as = (
            exp.cast(exp.Literal.string(repr(value)), "DOUBLE") if isinstance(value, float) else exp.convert(value)
        )
        made = made.when(_is_in(attr, those), shown_as)
    return exp.paren(made) if keys else exp.null()


def _is_in(attr: Attr, keys: list[object]) -> exp.Expression:
    return exp.In(this=attr.copy(), expressions=[exp.convert(key) for key in keys]) if keys else exp.false()
