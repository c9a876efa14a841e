"""The structure of a query: which SELECTs list rows of the cube, and which hold results already.

A SELECT without aggregates from the cube lists rows, and a release has none: it only serves as the source of another
SELECT, into which it is merged. A SELECT with aggregates from the cube is rewritten to weighted rows; its result, and
anything made from it, is an ordinary table that the engine handles by itself.
"""

from dataclasses import dataclass, field

from sqlglot import exp

from dpcube.analyst.sql.names import Attr, find
from dpcube.analyst.sql.parse import AGGREGATES, WINDOW_FUNCTIONS, shown, text_of
from dpcube.errors import QueryError

CUBE = "cube"
HOW = (
    "a release has counts and no rows to list: count them, as in SELECT sex, count(*) FROM cube GROUP BY sex, "
    "or draw synthetic rows"
)


@dataclass(frozen=True)
class CubeRows:
    """Rows of the cube: columns as expressions of attributes, and conditions on them."""

    columns: dict[str, exp.Expression]
    conditions: tuple[exp.Expression, ...] = ()


@dataclass
class Scope:
    """What the names of tables mean: rows of the cube, or a result (a WITH clause already rewritten)."""

    rows: dict[str, CubeRows]
    results: dict[str, exp.CTE] = field(default_factory=dict)

    def inner(self) -> "Scope":
        """Return a scope in which further names can be given."""
        return Scope(dict(self.rows), dict(self.results))

    def name(self, cte: exp.CTE, made: "CubeRows | exp.Query") -> None:
        """Give what a WITH clause makes its name."""
        name = cte.alias.casefold()
        if name == CUBE:
            msg = "WITH cannot name a table 'cube': that is the release; choose another name"
            raise QueryError(msg)
        if isinstance(made, CubeRows):
            self.rows[name] = renamed(made, cte)
            self.results.pop(name, None)
        else:
            cte.set("this", made)
            self.results[name] = cte
            self.rows.pop(name, None)

    def table(self, table: exp.Table) -> CubeRows | None:
        """Return the rows that a table name means, None for a result."""
        name = table.name.casefold()
        if name in self.rows:
            return self.rows[name]
        if name in self.results:
            return None
        known = [*self.rows, *self.results]
        find(table.name, known, what="table")
        raise AssertionError(name)  # find knows the name or raises


def renamed(rows: CubeRows, source: exp.Expression) -> CubeRows:
    """Rename columns by an alias such as t(a, b)."""
    alias = source.args.get("alias")
    names = [column.name for column in alias.args.get("columns") or []] if alias else []
    if not names:
        return rows
    given = [*names, *list(rows.columns)[len(names) :]]
    return CubeRows(dict(zip(given, rows.columns.values(), strict=False)), rows.conditions)


@dataclass(frozen=True)
class SelectSource:
    """The one source of a SELECT from rows, and the name that qualifies its columns."""

    rows: CubeRows
    alias: str

    def resolve(self, node: exp.Expression, aliases: dict[str, exp.Expression]) -> exp.Expression:
        """Return an expression with attributes in place of columns; other names may be aliases of the SELECT."""

        def replaced(found: exp.Expression) -> exp.Expression:
            if isinstance(found, Attr) or not isinstance(found, exp.Column):
                return found
            return self._column(found, aliases)

        return node.copy().transform(replaced)

    def _column(self, column: exp.Column, aliases: dict[str, exp.Expression]) -> exp.Expression:
        if column.table and column.table.casefold() != self.alias.casefold():
            msg = f"there is no table '{column.table}' beside '{self.alias}' here; a sub-query cannot name outer tables"
            raise QueryError(msg)
        if isinstance(column.this, exp.Star):
            msg = f"{shown(column)!r} cannot be used here; name the columns"
            raise QueryError(msg)
        known = {name.casefold() for name in self.rows.columns}
        if column.name.casefold() not in known and not column.table:
            for name, meant in aliases.items():
                if name.casefold() == column.name.casefold():
                    return _grouped(meant)
        return _grouped(self.rows.columns[find(column.name, self.rows.columns, what="column")])


def _grouped(node: exp.Expression) -> exp.Expression:
    copied = node.copy()
    return copied if isinstance(copied, Attr | exp.Paren) else exp.paren(copied)


def has_aggregates(select: exp.Select) -> bool:
    """Whether a SELECT groups or aggregates; sub-queries of its own do not count."""
    if select.args.get("group") or select.args.get("having"):
        return True
    parts = [*select.expressions, select.args.get("order"), select.args.get("qualify")]
    return any(_aggregates(part) for part in parts if part is not None)


def _aggregates(node: exp.Expression) -> bool:
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.AggFunc) and not _windowed(node):
        return True
    return any(map(_aggregates, node.iter_expressions()))


def _windowed(node: exp.Expression) -> bool:
    """Whether a function is applied over a window of results: those are ordinary values, not weighted rows."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
        parent = parent.parent
    return isinstance(parent, exp.Window) and type(node) in (*AGGREGATES, *WINDOW_FUNCTIONS)


def listed_rows(select: exp.Select, source: SelectSource) -> CubeRows:
    """Return the rows that a SELECT without aggregates lists."""
    for part in ("order", "limit", "offset", "distinct", "qualify"):
        if select.args.get(part):
            msg = f"{part.upper()} of rows: {HOW}"
            raise QueryError(msg)
    if any(select.find_all(exp.Window)):
        msg = f"a window over rows: {HOW}"
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
