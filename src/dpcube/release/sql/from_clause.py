"""Name resolution of the FROM clause: rows of the cube, results of other SELECTs, and lookup joins.

A SELECT without aggregates from the cube would list rows, and a release has none. It only serves as the source of
another SELECT, into which it is merged. A SELECT with aggregates from the cube is rewritten to weighted rows; its
result, and anything made from it, is an ordinary table that the engine handles by itself.

A lookup join adds the columns of a small table with one row for each value of an attribute, as CASE expressions of
that attribute. At most one row for each key means that the join repeats no row of the cube. It keeps the rows that
find their key; LEFT JOIN keeps all, with nulls where there is none.
"""

from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from dpcube.core.domain import Domain
from dpcube.core.errors import DpcubeError, QueryError
from dpcube.release.sql.parse import AGGREGATES, WINDOW_FUNCTIONS, Attr, bare, find, shown, text_of
from dpcube.release.sql.predicates import coordinate

CUBE = "cube"
NO_ROWS_TO_LIST = (
    "a release has counts and no rows to list: count them, as in SELECT sex, count(*) FROM cube GROUP BY sex, "
    "or draw synthetic rows"
)
JOIN_FORM = "join the cube with a table by one equality, as in FROM cube JOIN regions ON cube.city = regions.city"


@dataclass(frozen=True)
class CubeRows:
    """Rows of the cube as a SELECT without aggregates defines them.

    `columns` are expressions of attributes, by name; `conditions` hold for every row.
    """

    columns: dict[str, exp.Expression]
    conditions: tuple[exp.Expression, ...] = ()


@dataclass
class Scope:
    """The tables visible at one place of a query: `rows` of the cube, and `results`.

    A result is a WITH clause that is already rewritten. Names are kept without regard to case.
    """

    rows: dict[str, CubeRows]
    results: dict[str, exp.CTE] = field(default_factory=dict)

    def copy(self) -> "Scope":
        """Return a scope with the same names, to which names of an inner query can be added."""
        return Scope(dict(self.rows), dict(self.results))

    def define(self, cte: exp.CTE, made: "CubeRows | exp.Query") -> None:
        """Define the table of a WITH clause, given its rewritten query."""
        name = cte.alias.casefold()
        if name == CUBE:
            msg = "WITH cannot name a table 'cube': that is the release; choose another name"
            raise QueryError(msg)
        if isinstance(made, CubeRows):
            self.rows[name] = with_column_names(made, cte)
            self.results.pop(name, None)
        else:
            cte.set("this", made)
            self.results[name] = cte
            self.rows.pop(name, None)

    def rows_of(self, table: exp.Table) -> CubeRows | None:
        """Return the rows of the cube that a table name refers to; None if it refers to a result."""
        name = table.name.casefold()
        if name in self.rows:
            return self.rows[name]
        if name in self.results:
            return None
        known = [*self.rows, *self.results]
        find(table.name, known, what="table")
        raise AssertionError(name)  # find knows the name or raises


def with_column_names(rows: CubeRows, source: exp.Expression) -> CubeRows:
    """Return `rows` with the names that an alias such as t(a, b) of their `source` gives to their first columns."""
    alias = source.args.get("alias")
    names = [column.name for column in alias.args.get("columns") or []] if alias else []
    if not names:
        return rows
    given = [*names, *list(rows.columns)[len(names) :]]
    return CubeRows(dict(zip(given, rows.columns.values(), strict=False)), rows.conditions)


@dataclass(frozen=True)
class SelectSource:
    """The rows of the cube that a SELECT reads, and the `alias` that may qualify their columns.

    `beside` are the columns of joined tables, by alias; `merged` those named by USING, which are the cube's own.
    """

    rows: CubeRows
    alias: str
    beside: dict[str, dict[str, exp.Expression]] = field(default_factory=dict)
    merged: frozenset[str] | set[str] = frozenset()

    def resolve(self, node: exp.Expression, aliases: dict[str, exp.Expression]) -> exp.Expression:
        """Return a copy of `node` in which each column is replaced by its expression of attributes.

        A name that is not a column of the rows may be one of `aliases`, the columns of the SELECT by name.
        """

        def replaced(found: exp.Expression) -> exp.Expression:
            if isinstance(found, Attr) or not isinstance(found, exp.Column):
                return found
            return self._column(found, aliases)

        return node.copy().transform(replaced)

    def _column(self, column: exp.Column, aliases: dict[str, exp.Expression]) -> exp.Expression:
        if column.table.casefold() in self.beside and not isinstance(column.this, exp.Star):
            columns = self.beside[column.table.casefold()]
            return _in_parentheses(columns[find(column.name, columns, what="column")])
        if column.table and column.table.casefold() != self.alias.casefold():
            msg = f"there is no table '{column.table}' here, only '{self.alias}'; sub-queries cannot use outer tables"
            raise QueryError(msg)
        if isinstance(column.this, exp.Star):
            msg = f"{shown(column)!r} cannot be used here; list the columns"
            raise QueryError(msg)
        known = {name.casefold() for name in self.rows.columns}
        if not column.table and (joined := self._of_joined(column.name)):
            if column.name.casefold() in known or len(joined) > 1:
                msg = f"'{column.name}' is a column of several tables here; qualify it with its table"
                raise QueryError(msg)
            return _in_parentheses(joined[0])
        if column.name.casefold() not in known and not column.table:
            for name, meant in aliases.items():
                if name.casefold() == column.name.casefold():
                    return _in_parentheses(meant)
        return _in_parentheses(self.rows.columns[find(column.name, self.rows.columns, what="column")])

    def _of_joined(self, name: str) -> list[exp.Expression]:
        """Return the columns of this name in joined tables, except those that USING merges."""
        return [
            meant
            for columns in self.beside.values()
            for other, meant in columns.items()
            if other.casefold() == name.casefold() and other not in self.merged
        ]


def _in_parentheses(node: exp.Expression) -> exp.Expression:
    copied = node.copy()
    return copied if isinstance(copied, Attr | exp.Paren) else exp.paren(copied)


def has_aggregates(select: exp.Select) -> bool:
    """Return whether a SELECT groups or aggregates rows, its sub-queries apart."""
    if select.args.get("group") or select.args.get("having"):
        return True
    parts = [*select.expressions, select.args.get("order"), select.args.get("qualify")]
    return any(_contains_aggregate(part) for part in parts if part is not None)


def grouped_if_distinct(select: exp.Select) -> exp.Select:
    """Return SELECT DISTINCT of rows as the equivalent GROUP BY of all its columns."""
    distinct = select.args.get("distinct")
    if distinct is None or has_aggregates(select):
        return select
    if distinct.args.get("on"):
        msg = f"DISTINCT ON of rows: {NO_ROWS_TO_LIST}"
        raise QueryError(msg)
    select.set("distinct", None)
    select.set("group", exp.Group(all=True))
    return select


def _contains_aggregate(node: exp.Expression) -> bool:
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.AggFunc) and not _is_over_window(node):
        return True
    return any(map(_contains_aggregate, node.iter_expressions()))


def _is_over_window(node: exp.Expression) -> bool:
    """Return whether a function is applied over a window: over results of groups, not weighted rows."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
        parent = parent.parent
    return isinstance(parent, exp.Window) and type(node) in (*AGGREGATES, *WINDOW_FUNCTIONS)


def listed_rows(select: exp.Select, source: SelectSource) -> CubeRows:
    """Return a SELECT without aggregates as rows of the cube that `source` reads."""
    for part in ("order", "limit", "offset", "qualify"):
        if select.args.get(part):
            msg = f"{part.upper()} of rows: {NO_ROWS_TO_LIST}"
            raise QueryError(msg)
    if any(select.find_all(exp.Window)):
        msg = f"a window over rows: {NO_ROWS_TO_LIST}"
        raise QueryError(msg)
    columns: dict[str, exp.Expression] = {}
    for item in select.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            columns |= source.rows.columns
        else:
            columns[column_name(item)] = source.resolve(item.unalias(), columns)
    where = select.args.get("where")
    added = () if where is None else (source.resolve(where.this, columns),)
    return CubeRows(columns, source.rows.conditions + added)


def column_name(item: exp.Expression) -> str:
    """Return the name of a column of a SELECT: its alias, the attribute's name, or its text."""
    if isinstance(item, exp.Alias | exp.Column):
        return item.alias_or_name
    return text_of(item)


def looked_up(source: SelectSource, join: exp.Join, table: pa.Table, domain: Domain) -> SelectSource:
    """Return a source joined with `table`."""
    if (
        join.args.get("kind") not in (None, "", "INNER", "OUTER")
        or join.side not in ("", "LEFT")
        or join.args.get("method")
    ):
        msg = f"{shown(join)!r}: the cube supports JOIN and LEFT JOIN only; {JOIN_FORM}"
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
    """Return the attribute and the column of the table that a join compares."""
    using, on = join.args.get("using"), join.args.get("on")
    if using and len(using) == 1 and on is None:
        sides: list[tuple[exp.Expression, exp.Expression]] = [(exp.column(using[0].name), exp.column(using[0].name))]
    elif isinstance(on := bare(on) if on is not None else None, exp.EQ):
        sides = [(bare(on.this), bare(on.expression)), (bare(on.expression), bare(on.this))]
    else:
        raise QueryError(JOIN_FORM)
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
    raise QueryError(JOIN_FORM)


def _rows_by_key(
    table: pa.Table, key: str, attr: Attr, domain: Domain, join: exp.Join
) -> dict[object, tuple[object, ...]]:
    """Return the rows of a table by key, without keys that are no value of the attribute; keys must be unique."""
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
        except DpcubeError:  # a table may have keys that the domain has not
            continue
        if value in found:
            msg = f"{shown(join)!r}: '{key}' is {value!r} in two rows, and must be unique; {JOIN_FORM}"
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
